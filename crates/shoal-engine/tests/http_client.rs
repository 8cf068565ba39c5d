//! The HTTP client against servers of a few lines that answer in one particular way: every framing, cut everywhere.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shoal_engine::TransferOptions;
use shoal_engine::options::Workers;
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::list_get::{ListGet, ListGetOptions};
use shoal_engine::transfer::{Outcome, Transfer};

/// What one connection has been asked so far, and the line and fields of this request.
struct Asked<'a> {
    target: &'a str,
    fields: &'a [String],
    /// Requests on this connection, this one included.
    nth: usize,
}

/// Serves on a free port until the process ends. `answer` writes the answer; false closes the connection.
fn serve(answer: impl Fn(&Asked<'_>, &mut TcpStream) -> bool + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, mut stream) = (answer.clone(), stream.unwrap());
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let mut nth = 0;
                while let Some(Ok(line)) = lines.next() {
                    let fields: Vec<String> =
                        lines.by_ref().map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
                    nth += 1;
                    let target = line.split(' ').nth(1).unwrap_or_default();
                    if !answer(&Asked { target, fields: &fields, nth }, &mut stream) {
                        return;
                    }
                }
            });
        }
    });
    url
}

fn send(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}

/// Answers with a body of known length.
fn plain(stream: &mut TcpStream, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    send(stream, &[head.as_bytes(), body].concat())
}

fn page(names: &[&str]) -> Vec<u8> {
    let list: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("{{\"FileNames\":[{}]}}", list.join(",")).into_bytes()
}

fn quick() -> ListGetOptions {
    let timeout = Duration::from_millis(300);
    ListGetOptions { timeout, connect_timeout: timeout, ..ListGetOptions::default() }
}

fn copy(url: &str, source: ListGetOptions, max_retries: u32, workers: usize) -> (Outcome, BTreeMap<Vec<u8>, Vec<u8>>) {
    let sink = MemorySink::new();
    let options = TransferOptions { max_retries, workers: Workers::Fixed(workers), ..TransferOptions::default() };
    let source = Arc::new(ListGet::new(url, source).unwrap());
    let outcome = Transfer::new(source, Arc::new(sink.clone()), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.report.run.balanced(), "{:?}", outcome.report);
    (outcome, sink.objects())
}

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n % 251) as u8).collect()
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(size) {
        wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

const SIZES: [usize; 7] = [0, 1, 100, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20];

#[test]
fn every_framing_and_size_arrives_whole() {
    let names: Vec<String> =
        ["length", "chunked", "tiny-chunks", "close"].iter().flat_map(|f| SIZES.map(|s| format!("{f}-{s}"))).collect();
    let listed = page(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let url = serve(move |asked, stream| {
        let Some(name) = asked.target.strip_prefix("/get/") else { return plain(stream, &listed) };
        let (framing, size) = name.rsplit_once('-').unwrap();
        let body = bytes(size.parse().unwrap());
        match framing {
            "length" => plain(stream, &body),
            "chunked" => send(stream, &chunked(&body, 40_000)),
            "tiny-chunks" => send(stream, &chunked(&body, 3 + body.len() / 5000)),
            _ => {
                send(stream, &[&b"HTTP/1.0 200 OK\r\n\r\n"[..], &body].concat());
                false
            }
        }
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 0, 4);
    assert!(outcome.error.is_none() && outcome.report.run.failed == 0, "{:?}", outcome.report.failures);
    for name in names {
        let size = name.rsplit_once('-').unwrap().1.parse().unwrap();
        assert!(found[name.as_bytes()] == bytes(size), "{name}");
    }
    assert_eq!(outcome.report.unverified, SIZES.len() as u64, "only those ended by closing");
}

#[test]
fn an_answer_cut_at_any_byte_is_never_an_object() {
    for wire in [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789".to_vec(),
        chunked(b"0123456789", 4),
        [&b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"[..], b"0123456789"].concat(),
    ] {
        let whole = wire.len();
        // The base path says where the object's answer is to be cut.
        let url = serve(move |asked, stream| {
            let Some((cut, rest)) = asked.target[1..].split_once('/') else { return false };
            if rest == "list" {
                return plain(stream, &page(&["object"]));
            }
            send(stream, &wire[..cut.parse().unwrap()]);
            false
        });
        for cut in 0..=whole {
            let (outcome, found) = copy(&format!("{url}/{cut}"), ListGetOptions::default(), 0, 1);
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
            let wanted = if cut == whole { vec![b"0123456789".to_vec()] } else { vec![] };
            assert_eq!(found.into_values().collect::<Vec<_>>(), wanted, "cut at {cut}: {:?}", outcome.report.failures);
            assert_eq!(outcome.report.run.failed, u64::from(cut < whole));
        }
    }
}

#[test]
fn an_answer_in_dribbles_arrives_whole() {
    let url = serve(|asked, stream| {
        if !asked.target.starts_with("/get/") {
            return plain(stream, &page(&["one", "seven"]));
        }
        let size = if asked.target.ends_with("one") { 1 } else { 7 };
        stream.set_nodelay(true).unwrap();
        chunked(&bytes(60), 9).chunks(size).all(|piece| {
            std::thread::sleep(Duration::from_millis(1));
            send(stream, piece)
        })
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 0, 2);
    assert!(outcome.error.is_none());
    assert_eq!(found.into_values().collect::<Vec<_>>(), [bytes(60), bytes(60)]);
}

#[test]
fn a_connection_closed_after_every_kth_answer_costs_no_try() {
    for k in [1, 2, 7] {
        let names: Vec<String> = (0..60).map(|n| format!("n{n}")).collect();
        let listed = page(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let url = serve(move |asked, stream| {
            plain(stream, if asked.target.starts_with("/get/") { asked.target.as_bytes() } else { &listed });
            asked.nth % k != 0
        });
        let (outcome, found) = copy(&url, ListGetOptions::default(), 0, 3);
        assert!(outcome.error.is_none() && outcome.report.run.failed == 0, "k={k}: {:?}", outcome.report.failures);
        assert_eq!((found.len(), outcome.report.retries), (60, 0), "k={k}");
    }
}

#[test]
fn a_server_that_stalls_or_dribbles_for_ever_is_given_up_and_the_rest_arrives() {
    let url = serve(|asked, stream| match asked.target {
        "/get/no-answer" => {
            std::thread::sleep(Duration::from_secs(2));
            false
        }
        "/get/slow-head" => b"HTTP/1.1 200 OK\r\nX: ".iter().chain([b'x'; 400].iter()).all(|&byte| {
            std::thread::sleep(Duration::from_millis(20));
            send(stream, &[byte])
        }),
        "/get/slow-body" => {
            send(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
            (0..100).all(|_| {
                std::thread::sleep(Duration::from_millis(100));
                send(stream, b"x")
            })
        }
        "/list" => plain(stream, &page(&["no-answer", "slow-head", "slow-body", "good", "fine"])),
        _ => plain(stream, b"ok"),
    });
    let began = Instant::now();
    let (outcome, found) = copy(&url, quick(), 0, 8);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [b"fine".to_vec(), b"good".to_vec()]);
    assert_eq!(outcome.report.failures.iter().filter(|failure| failure.kind == "timeout").count(), 3);
}

#[test]
fn no_more_objects_are_in_flight_than_workers_were_asked_for() {
    for workers in [1, 2, 5] {
        let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        let names: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
        let listed = page(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let url = serve(move |asked, stream| {
            if !asked.target.starts_with("/get/") {
                return plain(stream, &listed);
            }
            seen.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
            std::thread::sleep(Duration::from_millis(5));
            now.fetch_sub(1, Relaxed);
            plain(stream, b"x")
        });
        let (_, found) = copy(&url, ListGetOptions::default(), 0, workers);
        assert_eq!((found.len(), most.load(Relaxed)), (40, workers));
    }
}

#[test]
fn requests_are_exactly_what_the_options_say() {
    let asked_for = Arc::new(Mutex::new(Vec::new()));
    let log = asked_for.clone();
    let url = serve(move |asked, stream| {
        log.lock().unwrap().push((asked.target.to_owned(), asked.fields.to_vec()));
        match asked.target {
            "/base/names?all=1" => plain(stream, b"{\"items\":[\"a b/\\u00e9\"],\"cursor\":\"x&y\"}"),
            "/base/names?all=1&after%5B=x%26y" => plain(stream, b"{\"items\":[]}"),
            _ => plain(stream, b"x"),
        }
    });
    let address = url.strip_prefix("http://").unwrap();
    let options = ListGetOptions {
        list_path: "/names?all=1".to_owned(),
        get_path: "/raw/{name}/data".to_owned(),
        names_field: "items".to_owned(),
        next_field: vec!["cursor".to_owned()],
        marker_param: "after[".to_owned(),
        headers: vec![("X-Key".to_owned(), "k".to_owned())],
        encode_slash: true,
        ..ListGetOptions::default()
    };
    let (outcome, _) = copy(&format!("http://me:pw@{address}/base/"), options, 0, 1);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let log = asked_for.lock().unwrap();
    let mut targets: Vec<&str> = log.iter().map(|(target, _)| target.as_str()).collect();
    targets.sort_unstable();
    assert_eq!(targets, ["/base/names?all=1", "/base/names?all=1&after%5B=x%26y", "/base/raw/a%20b%2F%C3%A9/data"]);
    for (_, fields) in log.iter() {
        for field in
            [&format!("Host: {address}"), "Accept-Encoding: identity", "Authorization: Basic bWU6cHc=", "X-Key: k"]
        {
            assert!(fields.iter().any(|sent| sent == field), "{field} not in {fields:?}");
        }
    }
}
