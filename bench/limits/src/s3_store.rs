//! The service `s3-store`: S3 as far as a job that copies needs it, faster than any client on the same machine.
//!
//! One thread accepts and deals the connections out to the others, which have an epoll each. What is at hand on a
//! connection is read at once, answered in order and written at once. A latency keeps the answers of each read until
//! they are due; all are kept equally long, so a queue has them in order. Keys, bodies and pages: `s3_objects.rs`.
//!
//! Not here: methods but GET, ranges (the whole object is sent), delimiters, other versions of the listing, bodies of
//! requests.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::s3_objects::{Bucket, MOST, now};
use crate::sigv4::{Checker, Keys};

/// Bytes read at once.
const BUFFER: usize = 64 << 10;

/// Bytes of answers at which a connection is no longer read until they are sent; without limit if there is a latency.
const FULL: usize = 1 << 20;

/// What the store holds, and how it answers.
#[derive(Clone, Debug)]
pub struct S3Store {
    /// Objects, at most 10^9.
    pub objects: u64,
    /// Bytes of each.
    pub size: usize,
    /// Keys of a page.
    pub page: u64,
    /// How long each answer is kept.
    pub latency: Duration,
    /// The keys that must have signed each request; `None`: signatures are not looked at.
    pub keys: Option<Keys>,
    /// On 127.0.0.1; 0 for any free one.
    pub port: u16,
    /// The only bucket.
    pub bucket: String,
    /// Threads that answer.
    pub threads: usize,
}

/// Starts a store, which works until the process ends; returns where.
///
/// # Errors
/// The port is in use, or there are too many objects.
pub fn s3_store(store: &S3Store) -> io::Result<SocketAddr> {
    if store.objects > MOST || store.page == 0 {
        return Err(io::Error::other("at most 10^9 objects, at least one key in a page"));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, store.port))?;
    let address = listener.local_addr()?;
    let mut threads = Vec::new();
    for _ in 0..store.threads.max(1) {
        let (sender, fresh) = channel();
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        threads.push((sender, Arc::clone(&epoll)));
        let bucket = Bucket::new(&store.bucket, store.objects, store.size, store.page);
        let (checker, latency) = (store.keys.as_ref().map(Checker::new), store.latency);
        let (clients, due, buffer) = (Vec::new(), VecDeque::new(), vec![0; BUFFER]);
        let worker = Worker { bucket, checker, latency, epoll, fresh, clients, due, buffer };
        std::thread::spawn(move || worker.run());
    }
    std::thread::spawn(move || accept(&listener, &threads));
    Ok(address)
}

fn accept(listener: &TcpListener, threads: &[(Sender<TcpStream>, Arc<OwnedFd>)]) {
    for (sender, epoll) in threads.iter().cycle() {
        let taken = listener.accept().and_then(|(stream, _)| {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            // An event that comes before the stream is passed over, and comes again.
            let place = epoll::EventData::new_u64(stream.as_raw_fd() as u64);
            epoll::add(epoll, &stream, place, epoll::EventFlags::IN)?;
            sender.send(stream).map_err(io::Error::other)
        });
        if taken.is_err() {
            std::thread::sleep(Duration::from_millis(10)); // out of descriptors: some client will close one
        }
    }
}

/// What is due by now and first in a queue.
fn pop(queue: &mut VecDeque<(Instant, usize)>) -> Option<usize> {
    queue.front().filter(|(at, _)| *at <= Instant::now())?;
    queue.pop_front().map(|(_, due)| due)
}

struct Worker {
    bucket: Bucket,
    checker: Option<Checker>,
    latency: Duration,
    epoll: Arc<OwnedFd>,
    fresh: Receiver<TcpStream>,
    clients: Vec<Option<Client>>,    // by descriptor
    due: VecDeque<(Instant, usize)>, // when something of a client is due
    buffer: Vec<u8>,
}

impl Worker {
    fn run(mut self) -> io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        loop {
            let left = self.due.front().map(|(at, _)| at.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match epoll::wait(&self.epoll, spare_capacity(&mut events), left.as_ref()) {
                Err(error) if error != rustix::io::Errno::INTR => return Err(error.into()),
                _ => self.bucket.at(now()),
            }
            for stream in self.fresh.try_iter() {
                let place = stream.as_raw_fd() as usize;
                self.clients.resize_with(self.clients.len().max(place + 1), || None);
                self.clients[place] = Some(Client::new(stream));
            }
            for event in events.drain(..) {
                let place = event.data;
                self.turn(place.u64() as usize);
            }
            while let Some(place) = pop(&mut self.due) {
                self.turn(place);
            }
        }
    }

    /// Does what can be done on a connection; closes it where it ends.
    fn turn(&mut self, place: usize) {
        if let Some(mut client) = self.clients.get_mut(place).and_then(Option::take)
            && self.serve(&mut client, place).is_ok()
        {
            self.clients[place] = Some(client);
        }
    }

    fn serve(&mut self, client: &mut Client, place: usize) -> io::Result<()> {
        if !client.flush(&self.epoll)? {
            return Ok(());
        }
        match client.stream.read(&mut self.buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => client.input.extend_from_slice(&self.buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        loop {
            let before = client.out.len();
            self.answer(client)?;
            let bytes = client.out.len() - before;
            if bytes == 0 {
                return Ok(());
            }
            if self.latency.is_zero() {
                client.ripe += bytes;
                if !client.flush(&self.epoll)? {
                    return Ok(());
                }
            } else {
                let at = Instant::now() + self.latency;
                client.due.push_back((at, bytes));
                self.due.push_back((at, place));
            }
        }
    }

    /// Answers the requests at hand, until the answers are many.
    fn answer(&mut self, client: &mut Client) -> io::Result<()> {
        let (full, mut at) = (if self.latency.is_zero() { FULL } else { usize::MAX }, 0);
        while client.out.len() < full
            && let Some(end) = memchr::memmem::find(&client.input[at..], b"\r\n\r\n")
        {
            let head = std::str::from_utf8(&client.input[at..at + end]).map_err(io::Error::other)?;
            let signed =
                self.checker.as_mut().map_or(Ok(()), |checker| checker.check(head).map_err(|code| (403, code)));
            if let Err(refusal) = signed.and_then(|()| self.bucket.answer(head, &mut client.out)) {
                self.bucket.refuse(refusal, &mut client.out);
            }
            at += end + 4;
        }
        client.input.drain(..at);
        Ok(())
    }
}

/// A connection.
struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    /// Answers; those before `sent` are sent, and `ripe` bytes after it are due.
    out: Vec<u8>,
    sent: usize,
    ripe: usize,
    due: VecDeque<(Instant, usize)>,
    is_blocked: bool,
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        let (input, out, due) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { stream, input, out, sent: 0, ripe: 0, due, is_blocked: false }
    }

    /// Sends what is due; false if some of it must wait, in which case nothing is read until it is sent.
    fn flush(&mut self, epoll: &OwnedFd) -> io::Result<bool> {
        while let Some(bytes) = pop(&mut self.due) {
            self.ripe += bytes;
        }
        let was_blocked = std::mem::take(&mut self.is_blocked);
        while self.ripe > 0 && !self.is_blocked {
            match self.stream.write(&self.out[self.sent..self.sent + self.ripe]) {
                Ok(bytes) => (self.sent, self.ripe) = (self.sent + bytes, self.ripe - bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_blocked = true,
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.out.len() || self.sent > FULL {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        if self.is_blocked != was_blocked {
            let until = if self.is_blocked { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            let place = epoll::EventData::new_u64(self.stream.as_raw_fd() as u64);
            epoll::modify(epoll, &self.stream, place, until)?;
        }
        Ok(!self.is_blocked)
    }
}
