//! The bare loop copies rightly what a well-behaved service holds; it promises nothing else.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};

use shoal_limits::{Copy, copy};

const OBJECTS: usize = 250;

/// A service of 250 objects, three pages long.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap()));
        }
    });
    address
}

fn answer(stream: std::net::TcpStream) {
    let mut out = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let path = line.split(' ').nth(1).unwrap();
        let body = match path.strip_prefix("/get/") {
            Some(name) => format!("the bytes of {name}"),
            None => {
                let from: usize = path.split_once('=').map_or(0, |(_, marker)| marker.parse().unwrap());
                let until = OBJECTS.min(from + 100);
                let names: Vec<String> = (from..until).map(|number| format!("object-{number}")).collect();
                let next = if until < OBJECTS { until.to_string() } else { String::new() };
                serde_json::json!({ "FileNames": names, "NextMarker": next }).to_string()
            }
        };
        if write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).is_err() {
            return;
        }
    }
}

#[test]
fn every_object_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let into = Some(directory.path().to_owned());
    let outcome = copy(&Copy { address: serve(), directory: into, depth: 16, threads: 2, limit: None }).unwrap();
    assert_eq!(outcome.objects, OBJECTS as u64);
    let bytes: usize = (0..OBJECTS).map(|number| format!("the bytes of object-{number}").len()).sum();
    assert_eq!(outcome.bytes, bytes as u64);
    assert_eq!(std::fs::read_to_string(directory.path().join("object-234")).unwrap(), "the bytes of object-234");
}

#[test]
fn without_a_directory_bodies_are_dropped_and_a_limit_is_kept() {
    let job = Copy { address: serve(), directory: None, depth: 64, threads: 2, limit: Some(120) };
    assert_eq!(copy(&job).unwrap().objects, 120);
}
