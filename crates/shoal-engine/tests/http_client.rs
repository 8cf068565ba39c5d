//! The HTTP client against servers of a few lines that answer in one particular way: every framing, cut everywhere.

mod scripted;

use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scripted::*;
use shoal_engine::options::{Resume, Workers};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::source::HttpOptions;
use shoal_engine::source::list_get::{ListGet, ListGetOptions};
use shoal_engine::transfer::Transfer;
use shoal_engine::{Kind, TransferOptions};

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
    let listed = page(&names);
    let url = serve(move |asked, stream| {
        let Some(name) = asked.name() else { return plain(stream, &listed) };
        let (framing, size) = name.rsplit_once('-').unwrap();
        let body = bytes(size.parse().unwrap());
        match framing {
            "length" => plain(stream, &body),
            "chunked" => send(stream, chunked(&body, 40_000)),
            "tiny-chunks" => send(stream, chunked(&body, 3 + body.len() / 5000)),
            _ => {
                send(stream, [&b"HTTP/1.0 200 OK\r\n\r\n"[..], &body].concat());
                false
            }
        }
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 4);
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
                return plain(stream, page(&["object"]));
            }
            send(stream, &wire[..cut.parse().unwrap()]);
            false
        });
        for cut in 0..=whole {
            let (outcome, found) = copy(&format!("{url}/{cut}"), ListGetOptions::default(), 1);
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
            return plain(stream, page(&["one", "seven"]));
        }
        let size = if asked.target.ends_with("one") { 1 } else { 7 };
        stream.set_nodelay(true).unwrap();
        chunked(&bytes(60), 9).chunks(size).all(|piece| {
            std::thread::sleep(Duration::from_millis(1));
            send(stream, piece)
        })
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 2);
    assert!(outcome.error.is_none());
    assert_eq!(found.into_values().collect::<Vec<_>>(), [bytes(60), bytes(60)]);
}

#[test]
fn a_connection_closed_after_every_kth_answer_costs_no_try() {
    for k in [1, 2, 7] {
        let names = numbered(60);
        let listed = page(&names);
        let url = serve(move |asked, stream| {
            plain(stream, if asked.target.starts_with("/get/") { asked.target.as_bytes() } else { &listed });
            asked.nth % k != 0
        });
        let (outcome, found) = copy(&url, ListGetOptions::default(), 3);
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
            send(stream, [byte])
        }),
        "/get/slow-body" => {
            send(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
            (0..100).all(|_| {
                std::thread::sleep(Duration::from_millis(100));
                send(stream, b"x")
            })
        }
        "/list" => plain(stream, page(&["no-answer", "slow-head", "slow-body", "good", "fine"])),
        _ => plain(stream, b"ok"),
    });
    let began = Instant::now();
    let (outcome, found) = copy(&url, quick(), 8);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(began.elapsed() < Duration::from_secs(8), "before the slow ones end by themselves: {:?}", began.elapsed());
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [b"fine".to_vec(), b"good".to_vec()]);
    assert_eq!(outcome.report.failures.iter().filter(|failure| failure.kind == "timeout").count(), 3);
}

#[test]
fn no_more_objects_and_connections_are_in_flight_than_workers_were_asked_for() {
    for workers in [1, 2, 5] {
        let (now, most, connections) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)), Arc::default());
        let (seen, opened): (_, Arc<AtomicUsize>) = (most.clone(), Arc::clone(&connections));
        let names = numbered(40);
        let listed = page(&names);
        let url = serve(move |asked, stream| {
            if asked.name().is_none() {
                return plain(stream, &listed);
            }
            opened.fetch_add(usize::from(asked.nth == 1), Relaxed);
            seen.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
            std::thread::sleep(Duration::from_millis(5));
            now.fetch_sub(1, Relaxed);
            plain(stream, "x")
        });
        let (_, found) = copy(&url, ListGetOptions::default(), workers);
        assert_eq!((found.len(), most.load(Relaxed)), (40, workers));
        assert_eq!(connections.load(Relaxed), workers, "each is kept and used again");
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
        http: HttpOptions { headers: vec![("X-Key".to_owned(), "k".to_owned())], ..HttpOptions::default() },
        encode_slash: true,
        ..ListGetOptions::default()
    };
    let (outcome, _) = copy(&format!("http://me:pw@{address}/base/"), options, 1);
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

/// Serves one object with exactly `wire`, then closes, and another object well.
fn serve_wire(wire: Vec<u8>) -> String {
    serve(move |asked, stream| match asked.name() {
        None => plain(stream, page(&["object", "other"])),
        Some("object") => {
            send(stream, &wire);
            false
        }
        Some(_) => with_fields(stream, "200 OK", "Content-Type: image/png\r\n", "other"),
    })
}

/// Copies from it: the object, or the kind with which it failed.
fn fetch_wire(wire: &[u8], source: ListGetOptions) -> Result<Vec<u8>, String> {
    let (outcome, mut found) = copy(&serve_wire(wire.to_vec()), source, 1);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(found.remove(&b"other"[..]).as_deref(), Some(&b"other"[..]), "the other one has nothing to do with it");
    match outcome.report.failures.first() {
        Some(failure) => Err(failure.kind.clone()),
        None => Ok(found.remove(&b"object"[..]).expect("written")),
    }
}

#[test]
fn an_answer_that_could_be_read_in_two_ways_is_no_object() {
    for (fields, rest) in [
        ("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked, chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("Transfer-Encoding: gzip\r\n", "abc"),
        ("Content-Length: +3\r\n", "abc"),
        ("Content-Length: 3,4\r\n", "abcd"),
        ("Content-Length : 3\r\n", "abc"),
    ] {
        let wire = format!("HTTP/1.1 200 OK\r\n{fields}\r\n{rest}");
        assert_eq!(fetch_wire(wire.as_bytes(), quick()), Err("protocol".to_owned()), "{fields}");
    }
    let same = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(fetch_wire(same, quick()), Ok(b"abc".to_vec()));
}

#[test]
fn more_bytes_than_announced_make_the_object_doubtful() {
    for size in [0, 1, 1000, 100_000] {
        for mut wire in [
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").as_bytes(), &bytes(size)].concat(),
            chunked(&bytes(size), 700),
        ] {
            wire.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse");
            assert_eq!(fetch_wire(&wire, quick()), Err("short-body".to_owned()), "{size}");
        }
    }
}

/// The connection is closed behind it.
fn send_last(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    send(stream, bytes);
    false
}

#[test]
fn bytes_that_come_instead_of_the_next_answer_blame_the_object_before_unless_that_answer_is_none_either() {
    for next in ["well", "closed", "garbage"] {
        let listed = page(&["first", "second"]);
        let url = serve(move |asked, stream| match (asked.name(), asked.nth) {
            (None, _) => plain(stream, &listed),
            (Some("first"), _) => plain(stream, b"cut shor"),
            // On the connection that brought the first.
            (Some(_), 2..) => send_last(stream, b"t"),
            (Some(_), _) if next == "well" => plain(stream, b"second"),
            (Some(_), _) if next == "garbage" => send_last(stream, b"no HTTP at all\r\n\r\n"),
            (Some(_), _) => false,
        });
        let (outcome, found) = copy(&url, ListGetOptions::default(), 1);
        let mut failures: Vec<_> =
            outcome.report.failures.iter().map(|failure| (&failure.name[..], &failure.kind[..])).collect();
        failures.sort_unstable();
        let wanted: &[(&[u8], &str)] = match next {
            "well" => &[(b"first", "short-body")],
            "closed" => &[(b"first", "short-body"), (b"second", "disconnected")],
            _ => &[(b"second", "protocol")],
        };
        assert_eq!(failures, wanted, "{next}");
        assert_eq!(found.len() + failures.len(), 2, "{next}");
    }
}

#[test]
fn what_comes_on_an_idle_connection_blames_its_object_before_the_run_is_stopped() {
    let healed = Arc::new(AtomicBool::new(false));
    let well = healed.clone();
    let url = serve(move |asked, stream| {
        let well = well.load(Relaxed);
        match (asked.name(), asked.token()) {
            (None, "") => plain(stream, page_before(&["first", "last"], "more")),
            (None, _) => {
                std::thread::sleep(Duration::from_secs(if well { 0 } else { 3 }));
                plain(stream, page(&["later"]))
            }
            (Some("last"), _) if !well => {
                plain(stream, b"cut shor") && {
                    std::thread::sleep(Duration::from_millis(100));
                    send(stream, b"t")
                }
            }
            (Some(_), _) => plain(stream, b"well"),
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let copy = |resume: Resume, stop_at: Duration| {
        let sink = DirSink::new(dir.path(), DirOptions::default()).unwrap();
        let source = ListGet::new(&url, ListGetOptions::default()).unwrap();
        let options = TransferOptions { resume, workers: Workers::Fixed(1), ..TransferOptions::default() };
        Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |progress| match progress.elapsed < stop_at {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    };
    let stopped = copy(Resume::Auto, Duration::from_millis(1_500));
    assert_eq!(stopped.error.map(|error| error.kind()), Some(Kind::Interrupted));
    healed.store(true, Relaxed);
    let resumed = copy(Resume::Auto, Duration::MAX);
    assert_eq!((resumed.report.total.written, resumed.report.total.failed), (2, 1), "{:?}", resumed.report);
    assert_eq!((&*resumed.report.failures[0].name, &*resumed.report.failures[0].kind), (&b"last"[..], "short-body"));
    assert!(!dir.path().join("last").exists());
    assert_eq!(copy(Resume::Failed, Duration::MAX).report.total.failed, 0);
    assert_eq!(std::fs::read(dir.path().join("last")).unwrap(), b"well");
}

#[test]
fn interim_answers_are_passed_over_but_not_for_ever() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    for (count, wanted) in [(1, Ok(b"abc".to_vec())), (8, Ok(b"abc".to_vec())), (9, Err("protocol".to_owned()))] {
        let wire = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(count) + answer;
        assert_eq!(fetch_wire(wire.as_bytes(), quick()), wanted, "{count}");
    }
}

#[test]
fn every_status_has_its_consequence() {
    for (status, kind) in [
        ("204 No Content", "bad-answer"),
        ("206 Partial Content", "bad-answer"),
        ("301 Moved", "bad-answer"),
        ("400 Bad Request", "bad-answer"),
        ("403 Forbidden", "forbidden"),
        ("404 Not Found", "vanished"),
        ("408 Request Timeout", "server-error"),
        ("410 Gone", "vanished"),
        ("429 Too Many Requests", "throttled"),
        ("500 Internal Server Error", "server-error"),
        ("502 Bad Gateway", "server-error"),
        ("503 Service Unavailable", "throttled"),
        ("599 Whatever", "server-error"),
    ] {
        let body = if status.starts_with("204") { "" } else { "page" };
        let length = body.len();
        let wire =
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nLocation: http://h/x?secret=1\r\n\r\n{body}");
        assert_eq!(fetch_wire(wire.as_bytes(), ListGetOptions::default()), Err(kind.to_owned()), "{status}");
    }
    let wire = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec();
    let (outcome, _) = copy(&serve_wire(wire), ListGetOptions::default(), 1);
    assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::Credentials));
}

#[test]
fn a_redirect_to_another_host_is_named_without_its_secrets_and_not_followed() {
    let wire = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://h/x?token=1\r\n\r\n".to_vec();
    let (outcome, _) = copy(&serve_wire(wire), ListGetOptions::default(), 1);
    let reason = &outcome.report.failures[0].reason;
    assert!(reason.contains("http://h\"") && reason.contains("302"), "{reason}");
    assert!(!reason.contains("token"), "{reason}");
}

#[test]
fn only_the_expected_type_is_an_object() {
    let expecting = |glob: &str| ListGetOptions {
        http: HttpOptions { expect_type: Some(glob.to_owned()), ..HttpOptions::default() },
        ..ListGetOptions::default()
    };
    let answer = |field: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{field}\r\nabc");
    for (field, glob, fits) in [
        ("Content-Type: image/png\r\n", "image/*", true),
        ("content-type: IMAGE/PNG; charset=x\r\n", "image/png", true),
        ("Content-Type: text/html\r\n", "image/*", false),
        ("", "image/*", false),
        ("Content-Type: application/json\r\n", "{image/*,application/json}", true),
    ] {
        let wanted = if fits { Ok(b"abc".to_vec()) } else { Err("unexpected-type".to_owned()) };
        assert_eq!(fetch_wire(answer(field).as_bytes(), expecting(glob)), wanted, "{field} {glob}");
    }
}

#[test]
fn an_encoded_body_is_decoded_or_no_object() {
    let packed = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x4b\x4c\x4a\x06\x00\xc2\x41\x24\x35\x03\x00\x00\x00";
    let answer = |encoding: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let fetch = |wire: Vec<u8>| fetch_wire(&wire, ListGetOptions::default());
    assert_eq!(fetch(answer("gzip", packed)), Ok(b"abc".to_vec()));
    assert_eq!(fetch(answer("gzip", &packed[..packed.len() - 1])), Err("integrity".to_owned()));
    assert_eq!(fetch(answer("br", packed)), Err("unsupported".to_owned()));
    assert_eq!(fetch(answer("identity", packed)), Ok(packed.to_vec()));
}

#[test]
fn a_head_has_its_limits() {
    let head = |fields: String| format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{fields}\r\nabc").into_bytes();
    let field = |size: usize| format!("X: {}\r\n", "x".repeat(size));
    assert_eq!(fetch_wire(&head(field(60_000)), quick()), Ok(b"abc".to_vec()));
    assert_eq!(fetch_wire(&head(field(70_000)), quick()), Err("protocol".to_owned()));
    assert_eq!(fetch_wire(&head(field(1).repeat(99)), quick()), Ok(b"abc".to_vec()));
    assert_eq!(fetch_wire(&head(field(1).repeat(100)), quick()), Err("protocol".to_owned()));
    for wire in ["SSH-2.0-OpenSSH_9.6\r\n", "<html>", "HTTP/2 200\r\n\r\n", "ICY 200 OK\r\n\r\n"] {
        assert_eq!(fetch_wire(wire.as_bytes(), quick()), Err("protocol".to_owned()), "{wire}");
    }
}

#[test]
fn an_object_that_kills_its_connection_is_charged_for_it() {
    let asked_for = Arc::new(AtomicUsize::new(0));
    let count = asked_for.clone();
    let listed =
        page(&[numbered(300), vec!["killer".to_owned()], (300..600).map(|n| format!("n{n}")).collect()].concat());
    let url = serve(move |asked, stream| match asked.name() {
        None => plain(stream, &listed),
        Some("killer") => {
            count.fetch_add(1, Relaxed);
            false
        }
        Some(_) => plain(stream, "x"),
    });
    let options = TransferOptions { max_retries: 2, workers: Workers::Fixed(8), ..TransferOptions::default() };
    let (outcome, found) = copy_with(&url, ListGetOptions::default(), options);
    assert_eq!((found.len(), outcome.report.run.failed), (600, 1));
    assert_eq!((&*outcome.report.failures[0].kind, outcome.report.failures[0].tries), ("disconnected", 3));
    // Each try on a kept connection is made a second time on a fresh one.
    assert!((3..=6).contains(&asked_for.load(Relaxed)), "{asked_for:?}");
}

#[test]
fn a_refused_body_that_drips_holds_nobody_up() {
    let url = serve(|asked, stream| match asked.name() {
        None => plain(stream, page(&["gone", "other"])),
        Some("gone") => {
            let began = Instant::now();
            send(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 60000\r\n\r\n");
            // Far above the least throughput, far below patience.
            while send(stream, bytes(10)) && began.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(20));
            }
            false
        }
        Some(_) => plain(stream, "other"),
    });
    let (outcome, found) = copy(&url, ListGetOptions::default(), 1);
    assert_eq!((&*outcome.report.failures[0].kind, found.len()), ("vanished", 1));
    assert!(outcome.report.elapsed < Duration::from_secs(4), "{:?}", outcome.report.elapsed);
}

#[test]
fn a_connection_is_used_again_after_a_small_refusal_and_not_after_a_large_one() {
    for (size, connections) in [(0, 1), (1000, 1), (100_000, 20)] {
        let opened = Arc::new(AtomicUsize::new(0));
        let count = opened.clone();
        let url = serve(move |asked, stream| {
            if asked.name().is_none() {
                return plain(stream, page(&numbered(20)));
            }
            count.fetch_add(usize::from(asked.nth == 1), Relaxed);
            with_fields(stream, "404 Not Found", "", bytes(size))
        });
        let (outcome, _) = copy(&url, ListGetOptions::default(), 1);
        assert_eq!((outcome.report.run.failed, opened.load(Relaxed)), (20, connections), "{size}");
    }
}
