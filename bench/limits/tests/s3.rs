//! The synthetic S3 store lists and sends what it says, and refuses wrong signatures; the bare loop gets all of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use shoal_limits::{Checker, Keys, S3Get, S3Store, s3_get, s3_store};

fn start(change: impl FnOnce(&mut S3Store)) -> SocketAddr {
    let (latency, bucket) = (Duration::ZERO, "b".to_owned());
    let mut store = S3Store { objects: 2345, size: 20, page: 100, latency, keys: None, port: 0, bucket, threads: 2 };
    change(&mut store);
    s3_store(&store).unwrap()
}

/// Sends these requests at once; returns status, head and body of each answer.
fn ask(address: SocketAddr, targets: &[&str]) -> Vec<(u16, String, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).unwrap();
    let requests: String = targets.iter().map(|target| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    stream.write_all(requests.as_bytes()).unwrap();
    let answer = |_| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.resize(head.len() + 1, 0);
            let last = head.len() - 1;
            stream.read_exact(&mut head[last..]).unwrap();
        }
        let head = String::from_utf8(head).unwrap();
        let mut body = vec![0; between(&head, "Content-Length: ", "\r\n")[0].parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        (head[9..12].parse().unwrap(), head, body)
    };
    targets.iter().map(answer).collect()
}

/// All that is between two texts.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    text.split(start).skip(1).map(|part| part.split_once(end).unwrap().0).collect()
}

/// The keys of all pages, where the next one is asked for by token or by the last key.
fn list(address: SocketAddr, prefix: &str, by_token: bool) -> Vec<String> {
    let (mut keys, mut next) = (Vec::new(), String::new());
    loop {
        let target = format!("/b?list-type=2&encoding-type=url&prefix={prefix}{next}");
        let page = String::from_utf8(ask(address, &[&target])[0].2.clone()).unwrap();
        keys.extend(between(&page, "<Key>", "</Key>").into_iter().map(str::to_owned));
        assert!(page.contains("<EncodingType>url</EncodingType>") && page.ends_with("</ListBucketResult>"));
        let token = between(&page, "<NextContinuationToken>", "<");
        assert_eq!(page.contains("<IsTruncated>true</IsTruncated>"), !token.is_empty());
        let Some(token) = token.first() else { return keys };
        let token = token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        let after = keys.last().unwrap();
        next = if by_token { format!("&continuation-token={token}") } else { format!("&start-after={after}") };
    }
}

fn key(number: u64) -> String {
    format!("d{:06}/{number:012}.bin", number / 1000)
}

#[test]
fn pages_by_token_and_by_last_key_have_every_key_of_a_prefix_once() {
    let address = start(|_| ());
    for prefix in ["", "d", "d000001", "d000001/0000000012", "d000002/", &key(7), "d000001/000000001234.binx", "e", "a"]
    {
        let expected: Vec<String> = (0..2345).map(key).filter(|key| key.starts_with(prefix)).collect();
        for by_token in [true, false] {
            assert_eq!(list(address, prefix, by_token), expected, "{prefix} {by_token}");
        }
    }
    let many = start(|store| store.objects = 1_000_000_000);
    let last = format!("/b/?list-type=2&max-keys=7&start-after={}", key(999_999_997));
    let last = String::from_utf8(ask(many, &[&last])[0].2.clone()).unwrap();
    assert_eq!(between(&last, "<Key>", "<"), [key(999_999_998), key(999_999_999)]);
}

#[test]
fn pipelined_gets_are_answered_in_order_with_the_bytes_of_each() {
    let names = [key(0), key(1234), key(2345), "d000000/000000001234.bin".into(), key(2344).replace('/', "%2F")];
    let targets: Vec<String> =
        names.iter().map(|name| format!("/b/{name}?response-content-language=de%2Den")).collect();
    let targets: Vec<&str> =
        targets.iter().map(|target| &**target).chain(["/c/x", "/b?list-type=2&delimiter=/"]).collect();
    let answers = ask(start(|_| ()), &targets);
    assert_eq!(answers.iter().map(|answer| answer.0).collect::<Vec<_>>(), [200, 200, 404, 404, 200, 404, 501]);
    for (at, number) in [(0, 0_u64), (1, 1234), (4, 2344)] {
        assert_eq!(answers[at].2, number.to_le_bytes().repeat(3)[..20]);
        assert!(answers[at].1.contains("\r\nContent-Language: de-en\r\n"));
        assert!(answers[at].1.contains(&format!("\r\nETag: \"{number:016x}{:016x}\"\r\n", 20)));
    }
    assert!(String::from_utf8_lossy(&answers[2].2).contains("<Code>NoSuchKey</Code>"));
}

#[test]
fn the_bare_loop_gets_every_object_and_a_wrong_secret_nothing() {
    let keys = |secret: &str| Keys { access: "me".into(), secret: secret.into() };
    let job = |address, secret: &str, connections, depth| {
        s3_get(&S3Get {
            address,
            bucket: "b".into(),
            objects: 2345,
            connections,
            depth,
            threads: 2,
            keys: keys(secret),
        })
    };
    let address = start(|store| store.keys = Some(keys("right")));
    for (connections, depth) in [(1, 1), (5, 3), (64, 1)] {
        let (outcome, cpu) = job(address, "right", connections, depth).unwrap();
        assert_eq!((outcome.objects, outcome.bytes), (2345, 2345 * 20));
        assert!(outcome.seconds > 0.0 && cpu > Duration::ZERO);
    }
    assert!(job(address, "wrong", 1, 1).unwrap_err().to_string().contains("403 SignatureDoesNotMatch"));
    assert_eq!(ask(address, &["/b?list-type=2"])[0].0, 403);
    let (large, size) = (start(|store| store.size = 3_000_001), 3_000_001);
    let answers = ask(large, &[&format!("/b/{}", key(1)); 3].map(|target| &**target)); // more than a socket takes
    assert!(answers.iter().all(|answer| answer.2.len() == size));
}

#[test]
fn a_latency_is_that_of_each_answer_and_not_of_their_sum() {
    let address = start(|store| store.latency = Duration::from_millis(200));
    let began = Instant::now();
    std::thread::scope(|scope| {
        (0..20).for_each(|_| drop(scope.spawn(|| assert_eq!(ask(address, &["/b?list-type=2"; 5])[4].0, 200))));
    });
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(10), "{took:?}"); // the sum is 20 s
}

/// The examples of "Authenticating Requests: Using the Authorization Header" in Amazon's documentation, with its keys.
#[test]
fn the_published_examples_are_rightly_signed_and_nothing_else() {
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned();
    let mut checker = Checker::new(&Keys { access: "AKIAIOSFODNN7EXAMPLE".into(), secret });
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let examples = [
        ("/test.txt", "range", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
        ("/?lifecycle", "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("/?prefix=J&max-keys=2", "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ];
    for (target, range, signature) in examples {
        let (line, signed) = if range.is_empty() { ("", "") } else { ("Range: bytes=0-9\r\n", "range;") };
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: examplebucket.s3.amazonaws.com\r\n{line}x-amz-content-sha256: {empty}\r\n\
             x-amz-date: 20130524T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/\
             us-east-1/s3/aws4_request,SignedHeaders=host;{signed}x-amz-content-sha256;x-amz-date,Signature={signature}"
        );
        assert_eq!(checker.check(&head), Ok(()), "{target}");
        assert_eq!(checker.check(&head.replace("GET /", "GET /x")), Err("SignatureDoesNotMatch"));
        assert_eq!(checker.check(&head.replace("7EXAMPLE", "8EXAMPLE")), Err("InvalidAccessKeyId"));
    }
    assert_eq!(checker.check("GET / HTTP/1.1"), Err("AccessDenied"));
}
