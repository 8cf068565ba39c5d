//! A client over a plain socket, and what the tests serve to it. It shares no code with the service.

use shoal_engine::serve::{Content, Options, Server};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

pub const GRACE: Duration = Duration::from_secs(5);

pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A connection that reads answers one after the other.
pub struct Client {
    pub stream: TcpStream,
    pub read: Vec<u8>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, read: Vec::new() }
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    pub fn fill(&mut self) -> bool {
        let mut space = [0; 65536];
        let bytes = self.stream.read(&mut space).unwrap();
        self.read.extend_from_slice(&space[..bytes]);
        bytes > 0
    }

    pub fn reply(&mut self, head_only: bool) -> Reply {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.fill(), "closed before an answer: {:?}", String::from_utf8_lossy(&self.read));
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut reply = Reply { status, head, body: Vec::new() };
        if !head_only && status != 304 {
            let length: usize = reply.header("content-length").unwrap().parse().unwrap();
            while self.read.len() < length {
                assert!(self.fill(), "closed inside a body");
            }
            reply.body = self.read.drain(..length).collect();
        }
        reply
    }

    pub fn ask(&mut self, method: &str, target: &str, headers: &str) -> Reply {
        self.send(&format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"));
        self.reply(method == "HEAD")
    }

    pub fn get(&mut self, target: &str) -> Reply {
        self.ask("GET", target, "")
    }

    pub fn page(&mut self, marker: Option<&str>) -> Page {
        let target = marker.map_or("/list".to_owned(), |marker| format!("/list?next-marker={marker}"));
        let reply = self.get(&target);
        assert_eq!(reply.status, 200, "{target}: {}", reply.text());
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let json: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let names = json["FileNames"].as_array().unwrap();
        Page {
            names: names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
            next: json.get("NextMarker").map(|marker| marker.as_str().unwrap().to_owned()),
        }
    }

    /// All names from a marker on, and how many pages they came in.
    pub fn list(&mut self, mut marker: Option<String>) -> (Vec<String>, usize) {
        let (mut names, mut pages) = (Vec::new(), 0);
        loop {
            let page = self.page(marker.as_deref());
            names.extend(page.names);
            pages += 1;
            marker = page.next;
            if marker.is_none() {
                return (names, pages);
            }
        }
    }

    /// Whether the server closes the connection, without a further byte.
    pub fn is_closed(&mut self) -> bool {
        assert!(self.read.is_empty(), "{:?}", String::from_utf8_lossy(&self.read));
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

pub struct Page {
    pub names: Vec<String>,
    pub next: Option<String>,
}

pub fn synthetic(count: u64, size: u64) -> Server {
    Server::start(Content::Synthetic { count, size }, Options::default()).unwrap()
}

pub fn serve_with(path: &Path, options: Options) -> Server {
    Server::start(Content::Directory(path.to_owned()), options).unwrap()
}

pub fn serve(path: &Path) -> (Server, Client) {
    let server = serve_with(path, Options::default());
    let client = Client::new(server.address());
    (server, client)
}

/// A directory of `count` small files, some of them nested, and their names in order.
pub fn tree(count: usize) -> (tempfile::TempDir, Vec<String>) {
    let root = tempfile::tempdir().unwrap();
    let mut names = BTreeSet::new();
    for i in 0..count {
        let name = if i % 3 == 0 { format!("sub{}/x/{i}", i % 5) } else { format!("f{i}") };
        let path = root.path().join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("content of {name}")).unwrap();
        names.insert(name);
    }
    (root, names.into_iter().collect())
}

pub fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited 20 s in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}
