//! What the client promises to a crate that uses it, against a real socket. How it reads the answers of odd services is tested
//! with the sources that meet them.

mod server;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use server::{Reading, Reply, Seen, Server};
use shoal_core::{Error, Findings, Kind, Result};
use shoal_http::{
    Address, Client, Doubt, ERROR_BODY_MAX, Ending, Head, IdleConnections, Method, Next, Passed, Pipeline,
    PipelinePolicy, Plan, Request, RequestHandler, Sign, Unsigned, Wants, request_fields, run_requests, send,
};

type Connections = IdleConnections<fn() -> Duration, ()>;

fn client(server: &Server) -> Client {
    let address = Address::parse(&format!("http://127.0.0.1:{}", server.port)).unwrap();
    let fields = request_fields(&address, &[]).unwrap();
    Client { timeout: Duration::from_secs(20), ..Client::new(address, fields) }
}

fn connections(wants: Wants) -> Connections {
    IdleConnections::new(Arc::new(Findings::default()), wants)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// Sends a request; its answer's head, without the body, and the body. The connection is kept if it may be.
async fn exchange(
    client: &Client,
    connections: &mut Connections,
    request: &Request<'_>,
) -> Result<(u16, bool, Vec<u8>)> {
    let clock: fn() -> Duration = || Duration::ZERO;
    let (mut open, mut head) = send(client, connections, clock, request, || ()).await?;
    let body = open.error_body(&mut head).await;
    connections.keep(open, &head);
    Ok((head.status, head.close, body))
}

#[test]
fn bodies_of_any_size_arrive_whole_and_one_connection_takes_them_all() {
    let server = Server::start(Reading::Whole, |seen| seen.answer(200, "", seen.line().as_bytes()));
    let (client, mut connections) = (client(&server), connections(Wants::default()));
    let large: Vec<u8> = (0..5 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    block_on(async {
        let bodies = [&b""[..], b"small", &large[..16 << 10], &large[..(16 << 10) + 1], &large];
        for method in [Method::Put, Method::Post, Method::Delete] {
            for body in bodies {
                let target = format!("/{}/x%2Fy?z", body.len());
                let request = Request::new(method, target.as_bytes()).body(body.to_vec());
                let (status, close, echo) = exchange(&client, &mut connections, &request).await.unwrap();
                assert_eq!((status, close), (200, false));
                assert_eq!(echo, format!("{} {target} HTTP/1.1", method.as_str()).as_bytes());
            }
        }
        let seen = server.seen();
        assert_eq!(seen.iter().map(|seen| seen.before).collect::<Vec<_>>(), (0..15).collect::<Vec<_>>());
        for (seen, sent) in seen.iter().zip(bodies.iter().cycle()) {
            assert!(seen.body == *sent, "{}", seen.line());
            let length = seen.field("Content-Length").map(|length| length.parse().unwrap());
            let says_nothing = seen.line().starts_with("DELETE") && sent.is_empty();
            assert_eq!(length, (!says_nothing).then_some(sent.len()));
        }
    });
}

#[test]
fn a_server_that_stops_reading_ends_a_request_in_time() {
    let server = Server::start(Reading::Nothing, |_| Reply::Silence);
    let client = Client { timeout: Duration::from_millis(500), ..client(&server) };
    let began = Instant::now();
    // More than the buffers of both ends hold.
    let request = Request::new(Method::Put, b"/x").body(vec![0; 64 << 20]);
    let error = block_on(exchange(&client, &mut connections(Wants::default()), &request)).unwrap_err();
    assert_eq!(
        (error.kind(), error.why()),
        (Kind::Timeout, "nothing could be sent for 0.5 s in the middle of the request")
    );
    assert!(began.elapsed() >= Duration::from_millis(500));
}

#[test]
fn a_body_may_take_longer_to_send_than_the_timeout_while_it_moves() {
    let server = Server::start(Reading::Slowly, |seen| seen.answer(200, "", seen.body.len().to_string().as_bytes()));
    let client = Client { timeout: Duration::from_secs(3), ..client(&server) };
    let began = Instant::now();
    let request = Request::new(Method::Put, b"/x").body(vec![7; 70 << 20]);
    let sent = block_on(exchange(&client, &mut connections(Wants::default()), &request));
    assert_eq!(sent.unwrap().2, (70 << 20).to_string().as_bytes());
    assert!(began.elapsed() > client.timeout);
}

#[test]
fn an_answer_before_all_was_sent_is_read_and_ends_its_connection() {
    let answer = b"<Error><Code>AccessDenied</Code></Error>";
    for closes in [false, true] {
        let server = Server::start(Reading::Nothing, move |seen| {
            let reply = match seen.line().starts_with("PUT") {
                true => seen.answer(403, "", answer),
                false => seen.answer(200, "", b"next"),
            };
            match reply {
                Reply::Bytes(bytes) if closes => Reply::Last(bytes), // unread bytes make that a reset
                reply => reply,
            }
        });
        let (client, mut connections) = (client(&server), connections(Wants::default()));
        block_on(async {
            let request = Request::new(Method::Put, b"/x").body(vec![0; 64 << 20]);
            let refused = exchange(&client, &mut connections, &request).await.unwrap();
            assert_eq!(refused, (403, true, answer.to_vec()), "{closes}");
            let next = exchange(&client, &mut connections, &Request::new(Method::Get, b"/y")).await.unwrap();
            assert_eq!((next.0, next.2), (200, b"next".to_vec()));
            assert_eq!(server.seen().iter().map(|seen| seen.before).collect::<Vec<_>>(), [0, 0]);
        });
    }
}

#[test]
fn a_connection_whose_answer_was_not_read_to_the_end_is_not_used_again() {
    let large = [b"x".repeat(100_000), b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged".to_vec()].concat();
    let server = Server::start(Reading::Whole, move |seen| match seen.line().contains("/large") {
        true => seen.answer(200, "", &large),
        false => seen.answer(200, "", b"right"),
    });
    let (client, mut connections) = (client(&server), connections(Wants::default()));
    block_on(async {
        for most in [Some(100_000), Some(10), None] {
            let clock: fn() -> Duration = || Duration::ZERO;
            let request = Request::new(Method::Get, b"/large");
            let (mut open, mut head) = send(&client, &mut connections, clock, &request, || ()).await.unwrap();
            if let Some(most) = most {
                assert_eq!(open.body(&mut head, most).await.unwrap(), None);
            }
            connections.keep(open, &head);
            let next = exchange(&client, &mut connections, &Request::new(Method::Get, b"/")).await.unwrap();
            assert_eq!((next.0, next.2), (200, b"right".to_vec()), "{most:?}");
        }
    });
    let by_connection: Vec<_> = server.seen().iter().map(|seen| seen.before).collect();
    assert_eq!(by_connection, [0, 0, 1, 0, 1, 0]);
}

#[test]
fn a_post_is_never_sent_twice_and_others_are_where_a_kept_connection_was_closed() {
    let get = Request::new(Method::Get, b"/second");
    let others = [Method::Put, Method::Delete].map(|method| (Request::new(method, b"/second"), 2));
    let once = [(Request::new(Method::Post, b"/second"), 1), (get.clone().once(), 1), (get, 2)];
    for (request, times) in others.into_iter().chain(once) {
        for garbage in [false, true] {
            let server = Server::start(Reading::Whole, move |seen| match seen.before {
                0 => seen.answer(200, "", b""),
                _ if garbage => Reply::Last(b"\r\n surplus of the answer before".to_vec()),
                _ => Reply::Close,
            });
            let (client, mut connections) = (client(&server), connections(Wants::default()));
            block_on(async {
                exchange(&client, &mut connections, &Request::new(Method::Get, b"/first")).await.unwrap();
                let again = exchange(&client, &mut connections, &request).await;
                assert_eq!(again.is_ok(), times == 2, "{again:?}");
            });
            let seen = server.seen().iter().filter(|seen| seen.line().contains("/second")).count();
            assert_eq!(seen, times, "{request:?}");
        }
    }
}

/// Signs with a number, and the target and the id that it has seen.
#[derive(Default)]
struct Counting {
    signed: AtomicUsize,
    expired: bool,
}

impl Sign for Counting {
    fn sign(&self, request: &Unsigned<'_>, out: &mut Vec<u8>) -> Result<()> {
        if self.expired {
            return Err(Error::new(Kind::Credentials, "the key has expired"));
        }
        let fields = String::from_utf8_lossy(request.fields);
        assert!(fields.starts_with("Host: 127.0.0.1"), "{fields}");
        assert!(fields.contains(&format!("Shoal-Request-Id: {}\r\n", String::from_utf8_lossy(request.id))));
        let (number, target) = (self.signed.fetch_add(1, Relaxed), String::from_utf8_lossy(request.target));
        let (method, body) = (request.method.as_str(), request.body.len());
        out.extend_from_slice(format!("X-Signature: {number} {method} {target} {body}\r\n").as_bytes());
        Ok(())
    }
}

fn signed(seen: &Seen) -> Option<&str> {
    seen.field("X-Signature")
}

#[test]
fn a_request_is_signed_whenever_it_is_sent_and_no_signature_follows_a_redirect() {
    let server = Server::start(Reading::Whole, |seen| match seen.line().split(' ').nth(1).unwrap() {
        "/moved" => seen.answer(302, "Location: /here\r\n", b""),
        "/once" if seen.before > 0 => Reply::Close,
        _ => seen.answer(200, "", b"x"),
    });
    let (mut client, mut connections) = (client(&server), connections(Wants::default()));
    client.signer = Some(Arc::new(Counting::default()));
    client.pipelining = PipelinePolicy::new(Pipeline::Auto); // with ids
    block_on(async {
        for (method, target) in [(Method::Put, "/a%2Fb"), (Method::Get, "/moved"), (Method::Get, "/once")] {
            let request = Request::new(method, target.as_bytes()).fields(b"X-Own: 1\r\n").body(vec![0; 3]);
            assert_eq!(exchange(&client, &mut connections, &request).await.unwrap().0, 200);
        }
    });
    let seen = server.seen();
    let lines: Vec<_> = seen.iter().map(|seen| (seen.line().rsplit_once(' ').unwrap().0, signed(seen))).collect();
    let expected = [
        ("PUT /a%2Fb", Some("0 PUT /a%2Fb 3")),
        ("GET /moved", Some("1 GET /moved 3")),
        ("GET /here", None),
        ("GET /once", Some("2 GET /once 3")),
        ("GET /once", Some("3 GET /once 3")),
    ];
    assert_eq!(lines, expected);
    assert!(seen.iter().all(|seen| seen.field("X-Own").is_some()));
}

#[test]
fn a_request_that_cannot_be_signed_is_not_sent_and_costs_no_connection() {
    let server = Server::start(Reading::Whole, |seen| seen.answer(200, "", b""));
    let (client, mut connections) = (client(&server), connections(Wants::default()));
    let signer = Arc::new(Counting { expired: true, ..Counting::default() });
    let expired = Client { signer: Some(signer), ..self::client(&server) };
    let get = Request::new(Method::Get, b"/");
    block_on(async {
        assert_eq!(exchange(&expired, &mut connections, &get).await.unwrap_err().kind(), Kind::Credentials);
        assert_eq!(server.seen().len(), 0);
        for client in [&client, &expired, &client] {
            assert_eq!(exchange(client, &mut connections, &get).await.is_ok(), client.signer.is_none());
        }
    });
    assert_eq!(server.seen().iter().map(|seen| seen.before).collect::<Vec<_>>(), [0, 1]);
    let shown = format!("{expired:?} {:?}", Request::new(Method::Get, b"/?key=s3cret").fields(b"Key: s3cret\r\n"));
    assert!(shown.contains("Sign(***)") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn only_a_get_follows_redirects() {
    let server = Server::start(Reading::Whole, |seen| seen.answer(307, "Location: /there\r\n", b"elsewhere"));
    let client = client(&server);
    block_on(async {
        for method in [Method::Put, Method::Post, Method::Delete] {
            let clock: fn() -> Duration = || Duration::ZERO;
            let request = Request::new(method, b"/x");
            let (_, head) = send(&client, &mut connections(Wants::default()), clock, &request, || ()).await.unwrap();
            let why = head.redirect_error(Kind::BadAnswer);
            let not_followed = format!("the answer is a redirect (307) which is not followed for {}", method.as_str());
            assert_eq!(why.why(), not_followed);
        }
    });
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn wanted_fields_are_kept_and_a_body_may_stay_as_it_was_sent() {
    let lines = "X-Amz-Version-Id: one\r\nx-amz-version-id:  two \r\nContent-Encoding: aws-chunked\r\nETag: \"e\"\r\n";
    let server = Server::start(Reading::Whole, move |seen| seen.answer(200, lines, b"as sent"));
    let client = client(&server);
    for verbatim in [true, false] {
        let wants = Wants { verbatim, ..Wants::fields(&["x-amz-version-ID", "x-amz-missing"]) };
        block_on(async {
            let clock: fn() -> Duration = || Duration::ZERO;
            let request = Request::new(Method::Get, b"/x");
            let (mut open, mut head) = send(&client, &mut connections(wants), clock, &request, || ()).await.unwrap();
            assert_eq!(head.field("X-Amz-Version-Id"), Some(&b"two"[..]));
            assert_eq!((head.field("X-Amz-Missing"), head.field("ETag")), (None, None));
            match open.body(&mut head, 100).await {
                Ok(body) => assert_eq!((verbatim, body.unwrap()), (true, b"as sent".to_vec())),
                Err(error) => assert_eq!((verbatim, error.kind()), (false, Kind::Unsupported)),
            }
        });
    }
}

/// Fetches numbered objects, and asks for the reason of each that is refused.
struct Objects {
    left: RefCell<Vec<usize>>,
    answers: RefCell<Vec<(usize, String)>>,
    findings: Arc<Findings>,
}

impl RequestHandler for Objects {
    type Job = usize;
    type Body = ();
    type Written = ();
    const WHOLE_MAX: usize = 64 << 10;

    fn next(&self) -> Next<usize> {
        self.left.borrow_mut().pop().map_or(Next::Stop, Next::Job)
    }
    async fn wake(&self) {}
    fn target(&self, job: &usize, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("/{job}").as_bytes());
    }
    fn condition(&self, _: &usize, _: &mut Vec<u8>) {}
    fn head(&self, _: &usize, head: &Head) -> Plan {
        if head.status == 200 { Plan::Keep } else { Plan::Explain }
    }
    fn explain(&self, _: &usize, _: &Head, body: &[u8]) -> Error {
        Error::new(Kind::Forbidden, format!("{} {}", body.len(), String::from_utf8_lossy(&body[..3])))
    }
    fn whole(&self, job: usize, _: &Head, body: &[u8]) -> Option<()> {
        self.answers.borrow_mut().push((job, String::from_utf8_lossy(body).into_owned()));
        Some(())
    }
    async fn begin(&self, _: &usize, _: &Head) -> Result<()> {
        panic!("every object is small")
    }
    fn piece(&self, (): &mut (), _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn finished(&self, _: usize, (): (), _: Result<()>) -> Option<()> {
        None
    }
    fn doubted(&self, _: Passed<()>, _: Doubt) {}
    fn unchanged(&self, _: usize) {}
    fn failed(&self, job: usize, error: Error) {
        self.answers.borrow_mut().push((job, error.why().to_owned()));
    }
    fn requeued(&self, job: usize) {
        self.left.borrow_mut().push(job);
    }
    fn is_alone(&self, _: &usize) -> bool {
        false
    }
    fn is_doubted(&self, _: &usize) -> bool {
        false
    }
    fn depth(&self) -> usize {
        16
    }
    fn wasted(&self, _: u64) {}
    fn note(&self, _: &str) {}
    fn wants(&self) -> Wants {
        Wants::default()
    }
    fn findings(&self) -> &Arc<Findings> {
        &self.findings
    }
    fn stalled(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn the_body_of_an_error_says_why_and_at_most_64_kib_of_it_are_read() {
    assert_eq!(ERROR_BODY_MAX, 64 << 10);
    assert!(!fetch_refused(Pipeline::Off));
    // A busy machine may hide the gain, without which requests are not pipelined.
    assert!((0..20).any(|_| fetch_refused(Pipeline::Auto)));
}

/// Fetches objects of which some are refused, and checks why. Whether requests were pipelined.
fn fetch_refused(pipeline: Pipeline) -> bool {
    let server = Server::start(Reading::Whole, |seen| {
        let number: usize = seen.line().split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        match number {
            0 | 1 => Reply::Last(b"HTTP/1.1 403 X\r\nContent-Length: 9\r\n\r\ncut".to_vec()),
            2..10 => seen.answer(403, "", &b"too".repeat(50_000)),
            _ if number.is_multiple_of(2) => seen.answer(403, "", b"why it is so"),
            _ => seen.answer(200, "", b"object"),
        }
    });
    let mut client = client(&server);
    client.pipelining = PipelinePolicy::new(pipeline);
    // The last is taken first: requests are pipelined before a connection ends.
    let left = RefCell::new((0..3000).collect());
    let objects = Objects { left, answers: RefCell::default(), findings: Arc::default() };
    block_on(async { run_requests(&client, &objects).await.end().await });
    let answers = objects.answers.into_inner();
    assert_eq!(answers.len(), 3000);
    for (number, answer) in answers {
        let expected = match number {
            0 | 1 => "3 cut".to_owned(),
            2..10 => format!("{ERROR_BODY_MAX} too"),
            _ if number.is_multiple_of(2) => "12 why".to_owned(),
            _ => "object".to_owned(),
        };
        assert_eq!(answer, expected, "{number}, {pipeline:?}");
    }
    client.pipelining.works()
}
