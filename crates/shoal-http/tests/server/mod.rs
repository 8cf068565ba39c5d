//! A server on a real socket that answers as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its first line and its fields.
    pub head: Vec<String>,
    pub body: Vec<u8>,
    /// How many arrived before it on its connection.
    pub before: usize,
}

impl Seen {
    pub fn line(&self) -> &str {
        &self.head[0]
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let is_it = |line: &&String| line.split_once(": ").is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        self.head.iter().rfind(is_it)?.split_once(": ").map(|(_, value)| value)
    }

    /// An answer with this status and body, and further lines, which echoes the id.
    pub fn answer(&self, status: u16, lines: &str, body: &[u8]) -> Reply {
        let id = self.field("Shoal-Request-Id").map_or(String::new(), |id| format!("Shoal-Request-Id: {id}\r\n"));
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{id}{lines}\r\n", body.len());
        Reply::Bytes([head.as_bytes(), body].concat())
    }
}

/// How a server reads bodies before its script is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Whole,
    /// The same, 1 MiB in 60 ms.
    Slowly,
    /// Not at all, and nothing after the answer.
    Nothing,
}

/// What a test says to a request.
pub enum Reply {
    Bytes(Vec<u8>),
    /// The same, and the connection is closed.
    Last(Vec<u8>),
    /// The connection is closed.
    Close,
    /// Nothing more is read or sent.
    Silence,
}

type Script = dyn Fn(&Seen) -> Reply + Send + Sync;

pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(reading: Reading, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, stopped) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::new(AtomicBool::new(false)));
        let (seen_by, stopped_by, script) = (seen.clone(), stopped.clone(), Arc::new(script));
        let thread = std::thread::spawn(move || {
            let mut connections = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nodelay(true).unwrap();
                if stopped_by.load(Relaxed) {
                    break;
                }
                let (seen, stopped, script) = (seen_by.clone(), stopped_by.clone(), script.clone());
                connections.push(std::thread::spawn(move || {
                    let _ = serve(&stream, reading, &seen, &stopped, &*script);
                }));
            }
            connections.into_iter().for_each(|connection| connection.join().unwrap());
        });
        Server { port, seen, stopped, thread: Some(thread) }
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    stream: &TcpStream,
    reading: Reading,
    all: &Mutex<Vec<Seen>>,
    stopped: &AtomicBool,
    script: &Script,
) -> std::io::Result<()> {
    let (mut read, mut write) = (BufReader::new(stream), stream);
    for before in 0.. {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if read.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let mut seen = Seen { head, body: Vec::new(), before };
        let length = seen.field("Content-Length").map_or(0, |length| length.parse().unwrap());
        if reading != Reading::Nothing {
            seen.body.resize(length, 0);
            for piece in seen.body.chunks_mut(1 << 20) {
                read.read_exact(piece)?;
                if reading == Reading::Slowly {
                    std::thread::sleep(std::time::Duration::from_millis(60));
                }
            }
        }
        all.lock().unwrap().push(seen.clone());
        match script(&seen) {
            Reply::Bytes(bytes) => write.write_all(&bytes)?,
            Reply::Last(bytes) => return write.write_all(&bytes),
            Reply::Close => return Ok(()),
            Reply::Silence => {}
        }
        if reading == Reading::Nothing {
            while !stopped.load(Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            return Ok(());
        }
    }
    Ok(())
}
