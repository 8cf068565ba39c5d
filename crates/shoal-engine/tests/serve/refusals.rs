//! What the service refuses, cuts or makes wait.

use crate::client::{Client, GRACE, serve, synthetic, wait_until};
use shoal_engine::serve::{Content, Options, ServeError, Server, Stats};
use std::fs;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

#[test]
fn nothing_outside_the_directory_is_ever_served() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("x"), "secret").unwrap();
    let root = outside.path().join("root");
    fs::create_dir_all(root.join("in")).unwrap();
    fs::write(root.join("in/side"), "public").unwrap();
    symlink("../x", root.join("link")).unwrap();
    symlink(outside.path(), root.join("out")).unwrap();
    symlink("in", root.join("within")).unwrap();
    let (_server, mut client) = serve(&root);
    let absolute = outside.path().join("x");
    let absolute = absolute.to_str().unwrap();
    let encoded = absolute.replace('/', "%2f");
    for (target, status) in [
        ("/get/../x", 400),
        ("/get/%2e%2e/x", 400),
        ("/get/%2E%2E%2Fx", 400),
        ("/get/..%2fx", 400),
        ("/get/in/../../x", 400),
        ("/get/in/%2e%2e/%2e%2e/x", 400),
        ("/get/./in/side", 400),
        ("/get/in//side", 400),
        ("/get/in/side/", 400),
        ("/get//in/side", 400),
        ("/get/%2fin/side", 400),
        ("/get/", 400),
        ("/get/..", 400),
        ("/get/in/side%00", 400),
        ("/get/in%00/side", 400),
        ("/get/%2", 400),
        ("/get/%252e%252e/x", 404),
        ("/get/link", 404),
        ("/get/out/x", 404),
        ("/get/within/side", 404),
        ("/get/in/side/x", 404),
        ("/../x", 404),
        (&format!("/get/{absolute}"), 400),
        (&format!("/get/{encoded}"), 400),
        (&format!("/get/{}", "a/".repeat(2100) + "b"), 404),
    ] {
        let reply = client.get(target);
        assert_eq!(reply.status, status, "{target}: {}", reply.text());
        assert!(!reply.text().contains("secret"), "{target}");
    }
    // A slash may be encoded: it is decoded once, then a slash like any other.
    assert_eq!(client.get("/get/in%2fside").text(), "public");
}

#[test]
fn foreign_hosts_missing_hosts_bodies_and_other_methods_are_refused() {
    let server = synthetic(3, 10);
    let port = server.address().port();
    let host = |host: &str| {
        let mut client = Client::new(server.address());
        client.send(&format!("GET /get/object-000000000 HTTP/1.1\r\n{host}\r\n"));
        client.reply(false).status
    };
    assert_eq!(host(&format!("Host: 127.0.0.1:{port}\r\n")), 200);
    assert_eq!(host(&format!("Host: localhost:{port}\r\n")), 200);
    assert_eq!(host("Host: [::1]:1\r\n"), 200);
    assert_eq!(host("Host: rebound.example\r\n"), 403);
    assert_eq!(host(&format!("Host: rebound.example:{port}\r\n")), 403);
    assert_eq!(host("Host: localhost\r\nHost: rebound.example\r\n"), 400);
    assert_eq!(host(""), 400);

    let mut client = Client::new(server.address());
    let reply = client.ask("DELETE", "/get/object-000000000", "");
    assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")));
    let reply = client.ask("GET", "/list", "Content-Length: 5\r\n");
    assert_eq!((reply.status, reply.header("connection")), (413, Some("close")));
    // What follows is that body; it must not be taken for a request.
    client.stream.write_all(b"GET /").unwrap();
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(client.is_closed());
}

#[test]
fn a_head_without_end_and_one_that_is_too_long_are_cut_off() {
    let options = Options {
        header_timeout: Duration::from_millis(100),
        idle_timeout: Duration::from_millis(300),
        ..Options::default()
    };
    let server = Server::start(Content::Synthetic { count: 1, size: 1 }, options).unwrap();
    let start = Instant::now();
    let mut idle = Client::new(server.address());
    let mut slow = Client::new(server.address());
    slow.send("GET /list HTTP/1.1\r\nHost: loc");
    assert!(slow.is_closed());
    assert!(idle.is_closed());
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(10), "{took:?}");
    let mut long = Client::new(server.address());
    long.send("GET /list HTTP/1.1\r\nHost: localhost\r\nX: ");
    // The service may close before all of it is sent.
    let _ = long.stream.write_all("x".repeat(200_000).as_bytes());
    let mut answer = Vec::new();
    let _ = long.stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 431") || answer.is_empty());
    assert_eq!(Client::new(server.address()).get("/list").status, 200);
    assert_eq!(server.stop(GRACE).cut_connections, 1);
}

#[test]
fn a_client_that_never_reads_is_cut_and_little_is_read_for_it() {
    let options = Options { write_timeout: Duration::from_millis(200), ..Options::default() };
    let server = Server::start(Content::Synthetic { count: 1, size: 1 << 40 }, options).unwrap();
    let mut client = Client::new(server.address());
    // A request behind it must not make the service gather the whole terabyte.
    client.send(&"GET /get/object-000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2));
    let ended = |stats: Stats| stats.cut_connections == 1 && stats.open_connections == 0;
    wait_until(|| ended(server.stats()));
    // Counted as they are read: what the sockets take and a few pieces.
    assert!(server.stats().bytes < 64 << 20);
}

#[test]
fn connections_beyond_the_limit_wait_their_turn() {
    let options = Options { max_connections: 2, ..Options::default() };
    let server = Server::start(Content::Synthetic { count: 1, size: 5 }, options).unwrap();
    let mut first = Client::new(server.address());
    let mut second = Client::new(server.address());
    assert_eq!(first.get("/get/object-000000000").status, 200);
    assert_eq!(second.get("/get/object-000000000").status, 200);
    let mut third = Client::new(server.address());
    third.send("GET /get/object-000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(server.stats().connections, 2);
    drop(first);
    assert_eq!(third.reply(false).status, 200);
}

#[test]
fn half_a_request_holds_its_place_for_two_seconds_where_others_wait() {
    let options = Options { max_connections: 2, ..Options::default() };
    let server = Server::start(Content::Synthetic { count: 1, size: 5 }, options).unwrap();
    let mut halves: Vec<_> = (0..2).map(|_| Client::new(server.address())).collect();
    halves.iter_mut().for_each(|half| half.send("GET /get/object-000000000 HTTP/1.1\r\nHost: loc"));
    wait_until(|| server.stats().connections == 2);
    let start = Instant::now();
    assert_eq!(Client::new(server.address()).get("/get/object-000000000").status, 200);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_client_that_hardly_reads_holds_its_place_no_longer_than_the_write_timeout_where_others_wait() {
    let write_timeout = Duration::from_secs(2);
    let options = Options { max_connections: 1, write_timeout, taken_when_full: 8 << 20, ..Options::default() };
    let server = Server::start(Content::Synthetic { count: 1, size: 1 << 40 }, options).unwrap();
    let mut slow = Client::new(server.address());
    slow.send("GET /get/object-000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut waiting = Client::new(server.address());
    waiting.send("HEAD /get/object-000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let start = Instant::now();
    std::thread::scope(|scope| {
        // 2 MB a second: so much that it is not taken for one that does not read at all, although the system holds MBs.
        let slowly = scope.spawn(|| {
            let mut space = vec![0; 100_000];
            while server.stats().cut_connections == 0 && start.elapsed() < Duration::from_secs(15) {
                assert!(slow.stream.read(&mut space).unwrap() > 0);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert_eq!(waiting.reply(true).status, 200);
        let took = start.elapsed();
        assert!(took > Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
        slowly.join().unwrap();
    });
    assert_eq!(server.stop(GRACE).cut_connections, 1);
}

#[test]
fn what_cannot_be_served_is_refused_with_what_why_and_the_next_step() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("missing");
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let running = synthetic(1, 1);
    let taken = Options { port: running.address().port(), ..Options::default() };
    let tiny = || Content::Synthetic { count: 1, size: 1 };
    let text = |content: Content, options: Options| -> (ServeError, String) {
        let error = Server::start(content, options).unwrap_err();
        let text = error.to_string();
        (error, text)
    };
    let (error, said) = text(Content::Directory(missing.clone()), Options::default());
    assert!(matches!(error, ServeError::Directory { .. }));
    assert_eq!(
        said,
        format!("cannot serve the directory {missing:?}: no such file or directory: give a directory that exists")
    );
    assert!(text(Content::Directory(file), Options::default()).1.contains("not a directory"));
    let (error, said) = text(tiny(), taken);
    assert!(matches!(error, ServeError::Bind { .. }));
    assert!(said.contains("address already in use") && said.contains("port 0"), "{said}");
    let log = Options { access_log: Some(missing.join("log")), ..Options::default() };
    assert!(matches!(text(tiny(), log).0, ServeError::AccessLog { .. }));
    for options in [
        Options { page_size: 0, ..Options::default() },
        Options { threads: Some(0), ..Options::default() },
        Options { get_path: "/get".to_owned(), ..Options::default() },
        Options { list_path: "list".to_owned(), ..Options::default() },
        Options { allow_hosts: vec!["files:80".to_owned()], ..Options::default() },
        Options { list_path: "/get/list".to_owned(), ..Options::default() },
    ] {
        assert!(matches!(text(tiny(), options).0, ServeError::Option(_)));
    }
    for bad in [
        "",
        "5",
        "5:",
        ":5",
        "5:x",
        "-5:1",
        "+5:1",
        "1:2:3",
        "99999999999999999999:1",
        "5:1:",
        "5:1:x",
        ":random",
        "5:random",
    ] {
        assert!(Content::parse_synthetic(bad).is_err(), "{bad:?}");
    }
    assert_eq!(Content::parse_synthetic("1000000:100").unwrap(), Content::Synthetic { count: 1_000_000, size: 100 });
    assert_eq!(Content::parse_synthetic("7:9:random").unwrap(), Content::SyntheticRandom { count: 7, size: 9 });
}
