//! The access log, and how a service ends.

use crate::client::{Client, GRACE, serve_with, synthetic, wait_until};
use shoal_engine::serve::{Content, Options, Server, Stats};
use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

#[test]
fn the_access_log_has_one_line_per_request_when_the_service_has_stopped() {
    let temp = tempfile::tempdir().unwrap();
    let log = temp.path().join("access.log");
    let root = temp.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("big"), vec![7; 200_000]).unwrap();
    let options = Options { access_log: Some(log.clone()), threads: Some(2), ..Options::default() };
    let server = serve_with(&root, options);
    let mut clients: Vec<_> = (0..4).map(|_| Client::new(server.address())).collect();
    for client in &mut clients {
        for i in 0..25 {
            assert_eq!(client.get(&format!("/get/none%0a{i}")).status, 404);
        }
        client.ask("HEAD", "/get/big", "");
        assert_eq!(client.get("/get/big?x=1").body.len(), 200_000);
        client.get("/list");
    }
    wait_until(|| !fs::read(&log).unwrap().is_empty()); // without stopping, too
    let stats = server.stop(GRACE);
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len() as u64, stats.requests), (112, 112));
    assert_eq!(stats.lost_log_lines, 0);
    let count = |line: &str| lines.iter().filter(|one| **one == line).count();
    assert_eq!(count("GET /get/none%0a13 404 32"), 4);
    assert_eq!(count("HEAD /get/big 200 0"), 4);
    assert_eq!(count("GET /get/big?x=1 200 200000"), 4);
    assert_eq!(count("GET /list 200 21"), 4);
}

#[test]
fn stopping_finishes_the_request_in_progress_frees_the_port_and_joins_all_threads() {
    let server = Server::start(
        Content::Synthetic { count: 1, size: 20 << 20 },
        Options { threads: Some(2), ..Options::default() },
    )
    .unwrap();
    let address = server.address();
    let mut idle = Client::new(address);
    assert_eq!(idle.ask("HEAD", "/get/object-000000000", "").status, 200);
    let mut busy = Client::new(address);
    busy.send("GET /get/object-000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = busy.reply(true);
    assert_eq!(head.status, 200);
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        while busy.read.len() < 20 << 20 {
            assert!(busy.fill(), "cut after {} bytes", busy.read.len());
        }
    });
    let stats: Stats = server.stop(Duration::from_secs(20));
    reader.join().unwrap();
    assert_eq!((stats.open_connections, stats.cut_connections), (0, 0));
    assert_eq!(stats.bytes, 20 << 20);
    assert!(idle.is_closed());
    TcpListener::bind(address).unwrap();
}

#[test]
fn stopping_cuts_what_does_not_end_within_the_grace() {
    let server = synthetic(1, 1 << 40);
    let mut client = Client::new(server.address());
    client.send("GET /get/object-000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.reply(true);
    let start = Instant::now();
    let stats = server.stop(Duration::from_millis(100));
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(100) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!((stats.open_connections, stats.cut_connections), (0, 1));
}

#[test]
fn threads_are_gone_after_a_drop_and_the_same_port_can_be_served_at_once() {
    let server = synthetic(1, 1);
    let address = server.address();
    let mut client = Client::new(address);
    assert_eq!(client.get("/get/object-000000000").text(), "o");
    drop(server);
    // Names of threads are per process, and other tests run services too: the port is what tells.
    let options = Options { port: address.port(), ..Options::default() };
    let again = Server::start(Content::Synthetic { count: 1, size: 2 }, options).unwrap();
    assert_eq!(Client::new(again.address()).get("/get/object-000000000").text(), "ob");
}
