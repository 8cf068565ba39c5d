//! Where the user asks for pipelining and answers carry no ids: the same objects are fetched one at a time and then
//! pipelined, and must be the same. Nothing else can show that a service, or a proxy before it, keeps the order.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_128;

use super::Client;
use super::asking::{Kept, ask};
use super::connection::Connection;
use super::drive::answer;
use super::exchange::{Exchange, Next, Plan};
use super::head::Head;
use super::reader::{Answer, HEAD_MAX, Reader, Trust};
use crate::error::{Error, Result};

/// Objects that are compared.
const OBJECTS: usize = 16;
/// Objects that are looked at for them: those that fail or are large cannot be compared.
const TRIES: usize = 64;

/// An object as it came alone.
struct Seen {
    target: Vec<u8>,
    hash: u128,
}

/// Fetches the next objects one at a time, as ever, then the same ones pipelined, and says what came of it.
pub(super) async fn compare<E: Exchange>(client: &Client, exchange: &E) {
    let recorder = Recorder { exchange, target: RefCell::default(), seen: RefCell::default() };
    let mut kept = Kept::default();
    let mut tries = 0;
    while recorder.seen.borrow().len() < OBJECTS && tries < TRIES {
        let job = match recorder.next() {
            Next::Job(job) => job,
            Next::Wait => {
                recorder.wake().await;
                continue;
            }
            // So few objects are not worth it.
            Next::Stop => return client.pipelining.not_compared(),
        };
        tries += 1;
        match ask(client, &mut kept, || exchange.stalled(), b"", |out| recorder.target(&job, out)).await {
            Ok((open, head)) => kept.put(answer(client, open, &recorder, job, head, false).await),
            Err(error) => exchange.failed(job, error),
        }
    }
    let seen = recorder.seen.into_inner();
    if seen.len() < OBJECTS {
        exchange.note("requests are sent one at a time: too few small objects came to compare both ways");
        return client.pipelining.compared(false);
    }
    let received = Cell::new(0);
    let same = pipelined(client, exchange, &seen, &received).await;
    exchange.wasted(received.get());
    if let Err(error) = &same {
        exchange.note(&format!("requests are sent one at a time: pipelined, the service {}", error.why()));
    }
    client.pipelining.compared(same.is_ok());
}

async fn pipelined<E: Exchange>(client: &Client, exchange: &E, seen: &[Seen], received: &Cell<u64>) -> Result<()> {
    let mut open = Connection::open(client, || exchange.stalled()).await?;
    open.widen(E::WHOLE_MAX + HEAD_MAX);
    let mut reader = Reader::new(Trust::Order, client.wants_type, E::WHOLE_MAX);
    let (depth, mut asked, mut first) = (client.pipelining.depth(OBJECTS).min(OBJECTS), 0, 0);
    for (at, object) in seen.iter().enumerate() {
        for ahead in &seen[asked..seen.len().min(at + depth)] {
            let number = open.queue(client, |out| out.extend_from_slice(&ahead.target));
            first = if asked == 0 { number } else { first };
            asked += 1;
        }
        open.restart_watch();
        loop {
            match open.next_answer(&mut reader, first + at as u64, at + 1 < asked)? {
                Answer::More(needed) => open.fill_for(needed, "in the comparison").await?,
                Answer::Whole { head, body } => {
                    let end = body.end;
                    let same = head.status == 200 && xxh3_128(open.unread(body)) == object.hash;
                    open.consume(end);
                    received.set(received.get() + end as u64);
                    if !same {
                        return Err(differs());
                    }
                    break;
                }
                Answer::Begun { .. } => return Err(differs()),
            }
        }
    }
    Ok(())
}

fn differs() -> Error {
    Error::new(crate::error::Kind::Integrity, "answered otherwise than one at a time")
}

/// Passes everything on, and keeps what is to be compared.
struct Recorder<'a, E> {
    exchange: &'a E,
    target: RefCell<Vec<u8>>,
    seen: RefCell<Vec<Seen>>,
}

impl<E: Exchange> Exchange for Recorder<'_, E> {
    type Job = E::Job;
    type Body = E::Body;
    const WHOLE_MAX: usize = E::WHOLE_MAX;

    fn next(&self) -> Next<E::Job> {
        self.exchange.next()
    }

    fn wake(&self) -> impl Future<Output = ()> {
        self.exchange.wake()
    }

    fn target(&self, job: &E::Job, out: &mut Vec<u8>) {
        let from = out.len();
        self.exchange.target(job, out);
        *self.target.borrow_mut() = out[from..].to_vec();
    }

    fn head(&self, job: &E::Job, head: &Head) -> Plan {
        self.exchange.head(job, head)
    }

    fn whole(&self, job: E::Job, head: &Head, body: &[u8]) {
        self.seen.borrow_mut().push(Seen { target: self.target.take(), hash: xxh3_128(body) });
        self.exchange.whole(job, head, body);
    }

    async fn begin(&self, job: &E::Job, head: &Head) -> Result<E::Body> {
        self.exchange.begin(job, head).await
    }

    fn piece(&self, body: &mut E::Body, piece: &[u8]) -> Result<()> {
        self.exchange.piece(body, piece)
    }

    fn finished(&self, job: E::Job, body: E::Body, result: Result<()>) {
        self.exchange.finished(job, body, result);
    }

    fn failed(&self, job: E::Job, error: Error) {
        self.exchange.failed(job, error);
    }

    fn given_back(&self, job: E::Job) {
        self.exchange.given_back(job);
    }

    fn is_alone(&self, job: &E::Job) -> bool {
        self.exchange.is_alone(job)
    }

    fn depth(&self) -> usize {
        self.exchange.depth()
    }

    fn wasted(&self, bytes: u64) {
        self.exchange.wasted(bytes);
    }

    fn note(&self, text: &str) {
        self.exchange.note(text);
    }

    fn stalled(&self) -> Duration {
        self.exchange.stalled()
    }
}
