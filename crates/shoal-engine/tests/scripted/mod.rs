//! Servers of a few lines that answer in one particular way, and a run against them.

#![allow(dead_code)] // each file uses its part

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use shoal_engine::TransferOptions;
use shoal_engine::options::Workers;
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::list_get::{ListGet, ListGetOptions};
use shoal_engine::source::{ConnectionOptions, HttpOptions};
use shoal_engine::transfer::{Outcome, Transfer};

/// One request.
pub struct Asked<'a> {
    pub target: &'a str,
    pub fields: &'a [String],
    /// Requests on this connection, this one included.
    pub nth: usize,
}

impl Asked<'_> {
    /// The object that is asked for; `None`: a page of the listing.
    pub fn name(&self) -> Option<&str> {
        self.target.strip_prefix("/get/")
    }

    /// The token of a page; empty for the first.
    pub fn token(&self) -> &str {
        self.target.split_once("next-marker=").map_or("", |(_, token)| token)
    }
}

/// Serves on a free port until the process ends. `answer` writes the answer; false closes the connection.
pub fn serve(answer: impl Fn(&Asked<'_>, &mut TcpStream) -> bool + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, mut stream) = (answer.clone(), stream.unwrap());
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
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

/// Whether the client still takes it.
pub fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) -> bool {
    stream.write_all(bytes.as_ref()).is_ok()
}

/// Answers with a body of known length.
pub fn plain(stream: &mut TcpStream, body: impl AsRef<[u8]>) -> bool {
    with_fields(stream, "200 OK", "", body)
}

/// Answers with this status, these further header lines (each with its line end), and a body of known length.
pub fn with_fields(stream: &mut TcpStream, status: &str, fields: &str, body: impl AsRef<[u8]>) -> bool {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    send(stream, [head.as_bytes(), body].concat())
}

/// The last page of a listing.
pub fn page(names: &[impl AsRef<str>]) -> Vec<u8> {
    page_before(names, "")
}

/// A page; an empty token ends the listing.
pub fn page_before(names: &[impl AsRef<str>], next: &str) -> Vec<u8> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    serde_json::json!({ "FileNames": names, "NextMarker": next }).to_string().into_bytes()
}

/// `count` names that end in their number.
pub fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n}")).collect()
}

/// What every object holds that an honest server sends.
pub fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n % 251) as u8).collect()
}

/// Time-outs that a test can wait for.
pub fn quick() -> ListGetOptions {
    let timeout = Duration::from_millis(300);
    let connection = ConnectionOptions { timeout, connect_timeout: timeout, ..ConnectionOptions::default() };
    let http = HttpOptions { connection, ..HttpOptions::default() };
    ListGetOptions { http, ..ListGetOptions::default() }
}

/// Copies without a second try.
pub fn copy(url: &str, source: ListGetOptions, workers: usize) -> (Outcome, BTreeMap<Vec<u8>, Vec<u8>>) {
    let options = TransferOptions { max_retries: 0, workers: Workers::Fixed(workers), ..TransferOptions::default() };
    copy_with(url, source, options)
}

pub fn copy_with(url: &str, source: ListGetOptions, options: TransferOptions) -> (Outcome, BTreeMap<Vec<u8>, Vec<u8>>) {
    let sink = MemorySink::new();
    let source = Arc::new(ListGet::new(url, source).unwrap());
    let outcome = Transfer::new(source, Arc::new(sink.clone()), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.report.run.balanced(), "{:?}", outcome.report);
    (outcome, sink.objects())
}
