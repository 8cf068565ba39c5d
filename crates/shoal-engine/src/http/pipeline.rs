//! One connection on which requests are sent before the answers to earlier ones are there. Each object is asked for on one
//! connection at a time, and handed in only when its answer is known to be its own.
//!
//! An answer is held until the head of the next one is there: where other bytes follow, it was longer than it said, and is
//! not handed in. That takes no reading of its own, since the next answer is awaited anyway.
//!
//! What goes wrong costs those that did not cause it nothing:
//! - The connection ends: the first unanswered request is asked again alone, those behind it are given back.
//! - An answer is not for its request, or none at all: it, the one before it and all behind it are asked again one at a time.
//! - A body ends with the connection, and others are unanswered behind it: it is asked again alone, they are given back.
//!
//! Not here: whether to do it and how deep (`pipelining.rs`, `probe.rs`, `samples.rs`), reading (`reader.rs`), one at a time (`drive.rs`).

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::body::Framing;
use super::check_objects::hash;
use super::client::Client;
use super::connection::Connection;
use super::exchange::{Exchange, Next, Plan};
use super::head::Head;
use super::idle_connections::Idle;
use super::probe::{self, Found, Probe};
use super::reader::{Answer, BEGIN, HEAD_MAX, Reader, Trust};
use super::respond::{Alone, Check, answer};
use super::stream::Behind;
use crate::error::{Error, Kind};

/// Where a connection broke.
const AHEAD: &str = "with requests unanswered";

/// Takes jobs and answers them over this connection for as long as requests can be sent ahead on it. The connection, if it
/// can still be used; what must be asked one at a time is added to `alone`.
pub(super) async fn pipeline<E: Exchange, C: Fn() -> Duration + Clone>(
    client: &Client,
    exchange: &E,
    Idle { mut open, written, .. }: Idle<C, E::Written>,
    trust: Trust,
    probe: Option<Probe<'_>>,
    alone: &mut VecDeque<Alone<E::Job>>,
) -> Option<Idle<C, E::Written>> {
    // Many answers in one reading.
    open.widen(E::WHOLE_MAX + HEAD_MAX);
    let mut line = Line {
        client,
        exchange,
        alone,
        open: Some(open),
        reader: Reader::new(trust, client.wants_type, E::WHOLE_MAX),
        condition: Vec::new(),
        unanswered: VecDeque::new(),
        first: 0,
        held: None,
        written,
        answers: 0,
        sending: true,
        probe,
        samples: (trust == Trust::Order).then_some(0),
        sample: None,
    };
    while line.turn().await {}
    if line.sample.is_some() {
        client.pipelining.samples.missed();
    }
    let Line { open, written, .. } = line;
    open.map(|open| Idle { open, written, ends: false })
}

struct Line<'a, E: Exchange, C> {
    client: &'a Client,
    exchange: &'a E,
    alone: &'a mut VecDeque<Alone<E::Job>>,
    open: Option<Box<Connection<C>>>,
    reader: Reader,
    /// Further header lines of the request that is queued.
    condition: Vec<u8>,
    /// In the order of their requests.
    unanswered: VecDeque<E::Job>,
    /// Number of the first of them on this connection.
    first: u64,
    /// The answer before it, complete; it begins the unread bytes. Only while others are unanswered.
    held: Option<Held<E::Job>>,
    /// The object that the last answer brought that was handed in.
    written: Option<E::Written>,
    /// Answers that have come.
    answers: usize,
    /// More requests may be sent.
    sending: bool,
    /// Whether requests sent ahead help is to be found out.
    probe: Option<Probe<'a>>,
    /// Where samples are taken: the answers when they were last counted.
    samples: Option<usize>,
    /// The sample is the answer behind so many others.
    sample: Option<usize>,
}

struct Held<J> {
    job: J,
    head: Head,
    body: Range<usize>,
}

impl<E: Exchange, C: Fn() -> Duration + Clone> Line<'_, E, C> {
    /// Hands in what has come, sends what may be sent, and reads once; false when this connection is done with pipelining.
    async fn turn(&mut self) -> bool {
        let Some(needed) = self.read().await else { return false };
        self.learn();
        let waiting = self.fill_up();
        let Some(open) = &mut self.open else { return false };
        if self.unanswered.is_empty() {
            return false;
        }
        let filled = if waiting {
            tokio::select! {
                biased;
                filled = open.fill_for(needed, AHEAD) => filled,
                () = self.exchange.wake() => return true,
            }
        } else {
            open.fill_for(needed, AHEAD).await
        };
        match filled {
            Ok(()) => true,
            Err(error) => {
                self.broken(error);
                false
            }
        }
    }

    /// Looks at what the last reading has shown: whether sending ahead helps, and whether a sample is due.
    fn learn(&mut self) {
        let pipelining = &self.client.pipelining;
        if let Some(found) = self.probe.as_mut().and_then(|probe| probe.answered(self.answers)) {
            pipelining.probed(&found);
            self.probe = None;
            self.sending &= found == Found::Gain;
        }
        if let Some(counted) = &mut self.samples
            && pipelining.samples.came(self.answers - std::mem::replace(counted, self.answers))
        {
            // Not always one in the same place of a bunch.
            self.sample = Some(fastrand::usize(..pipelining.depth(usize::MAX)));
        }
    }

    /// Takes jobs and queues their requests; whether there are fewer than there might be.
    fn fill_up(&mut self) -> bool {
        let mut depth = self.client.pipelining.depth(self.exchange.depth());
        self.sending &= depth > 1;
        match &self.probe {
            Some(probe) if !probe.is_unsent() => return false,
            Some(_) => depth = depth.min(probe::AHEAD),
            None => {}
        }
        // In bunches: a request for each answer would be a system call for each.
        if !self.sending || self.unanswered.len() * 2 > depth {
            return false;
        }
        let waiting = self.queue(depth);
        if let Some(probe) = &mut self.probe {
            probe.sent(self.unanswered.len());
        }
        waiting
    }

    fn queue(&mut self, depth: usize) -> bool {
        let Some(open) = &mut self.open else { return false };
        while self.unanswered.len() < depth {
            match self.exchange.next() {
                Next::Job(job) if self.exchange.is_alone(&job) => {
                    self.alone.push_back(Alone::new(job));
                    self.sending = false;
                    return false;
                }
                Next::Job(job) => {
                    // With nothing unanswered, nothing may have come either.
                    let behind = if self.unanswered.is_empty() { open.behind() } else { Behind::Nothing };
                    if behind != Behind::Nothing {
                        if behind == Behind::Bytes {
                            self.blame();
                        }
                        self.alone.push_back(Alone::new(job));
                        self.open = None;
                        return false;
                    }
                    self.condition.clear();
                    self.exchange.condition(&job, &mut self.condition);
                    let number = open.queue(self.client, &self.condition, |out| self.exchange.target(&job, out));
                    if self.unanswered.is_empty() {
                        self.first = number;
                        open.restart_watch();
                    }
                    self.unanswered.push_back(job);
                }
                Next::Wait => return true,
                Next::Stop => {
                    self.sending = false;
                    return false;
                }
            }
        }
        false
    }

    /// Hands in the answers that are there. How many unread bytes are needed for the next; `None`: the connection is gone.
    async fn read(&mut self) -> Option<usize> {
        let mut came = false;
        loop {
            let held = self.held_len();
            let open = self.open.as_mut()?;
            if self.unanswered.is_empty() {
                return Some(1);
            }
            let answer = match open.unread_len() == held {
                true => Ok(Answer::More(1)),
                false => open.next_answer(&mut self.reader, held, self.first, self.unanswered.len() > 1),
            };
            match answer {
                Ok(Answer::More(needed)) => {
                    if came {
                        open.restart_watch();
                    }
                    if !self.reader.has_head() {
                        return Some(held + needed);
                    }
                    self.release();
                    return Some(needed);
                }
                Ok(Answer::Whole { head, body }) => {
                    self.release();
                    self.whole(head, body);
                }
                Ok(Answer::Begun { head, body }) => {
                    self.release();
                    self.begun(head, body).await;
                }
                Err(error) => self.wrong(error),
            }
            came = true;
        }
    }

    fn held_len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.body.end)
    }

    fn whole(&mut self, head: Head, body: Range<usize>) {
        let Some(job) = self.unanswered.pop_front() else { return };
        self.first += 1;
        self.answers += 1;
        let close = head.close;
        self.held = Some(Held { job, head, body });
        if close {
            self.release();
            self.end();
        } else if self.unanswered.is_empty() {
            self.release();
        }
    }

    /// What stands behind the answer that is held begins the next: it is handed in.
    fn release(&mut self) {
        let (Some(Held { job, head, body }), Some(open)) = (self.held.take(), &mut self.open) else { return };
        let end = body.end;
        self.written = None;
        if head.status / 100 == 3 && head.status != 304 {
            // Where it leads is another request's business.
            self.alone.push_back(Alone::new(job));
            self.sending = false;
        } else {
            match self.exchange.head(&job, &head) {
                Plan::Keep => match self.sample {
                    None => self.written = self.exchange.whole(job, &head, open.unread(body)),
                    Some(0) => {
                        self.alone.push_back(Alone { job, pipelined: Some(hash(open.unread(body))) });
                        (self.sample, self.sending) = (None, false);
                    }
                    Some(left) => {
                        self.sample = Some(left - 1);
                        self.written = self.exchange.whole(job, &head, open.unread(body));
                    }
                },
                Plan::Unchanged => self.exchange.unchanged(job),
                Plan::Refuse(error) => self.exchange.failed(job, error),
            }
        }
        open.consume(end);
    }

    /// The body is large, in chunks, encoded, or ends with the connection.
    async fn begun(&mut self, head: Head, body: usize) {
        let (Some(job), Some(mut open)) = (self.unanswered.pop_front(), self.open.take()) else { return };
        self.first += 1;
        self.answers += 1;
        if head.status / 100 == 3 {
            self.alone.push_back(Alone::new(job));
        } else if matches!(head.framing, Framing::Close) && !self.unanswered.is_empty() {
            // The answers behind it would become part of it.
            self.exchange.wasted(open.unread_len() as u64);
            self.alone.push_back(Alone::new(job));
        } else {
            open.consume(body);
            let more = !self.unanswered.is_empty();
            let idle = answer(self.client, open, self.exchange, job, head, more, Check::Nothing).await;
            let idle = idle.filter(|idle| !idle.ends);
            (self.open, self.written) = idle.map_or((None, None), |idle| (Some(idle.open), idle.written));
        }
        match &mut self.open {
            Some(open) => open.restart_watch(),
            None => self.end(),
        }
    }

    /// The connection answers nothing any more; nobody is to blame.
    fn end(&mut self) {
        if !self.unanswered.is_empty() || !self.client.pipelining.works() {
            self.client.pipelining.ended(self.answers);
        }
        self.give_back_the_rest();
    }

    /// The connection broke, or nothing came for too long.
    fn broken(&mut self, error: Error) {
        let behind = self.open.as_ref().map_or(0, |open| open.unread_len() - self.held_len());
        // What came behind the answer that is held is too little to be the beginning of another.
        match behind > 0 && behind < BEGIN.len() {
            true => self.doubt_held(),
            false => self.release(),
        }
        let untouched = behind == 0 && error.kind() != Kind::Timeout;
        if let Some(first) = self.unanswered.pop_front() {
            match untouched {
                // As on a kept connection that was closed in the moment of asking: once more, alone, before it counts.
                true => self.alone.push_back(Alone::new(first)),
                false => self.exchange.failed(first, error),
            }
        }
        self.client.pipelining.ended(self.answers);
        self.give_back_the_rest();
    }

    /// What came is not the answer to the first unanswered request.
    fn wrong(&mut self, error: Error) {
        let own = error.kind() == Kind::ShortBody;
        let is_no_answer = self.open.as_ref().is_some_and(|open| open.is_no_answer());
        match own {
            true => self.release(), // its own head was the right one
            false if self.held.is_some() => self.doubt_held(),
            false if is_no_answer => self.blame(),
            false => {}
        }
        if let Some(open) = self.open.take() {
            self.exchange.wasted(open.unread_len() as u64);
        }
        if self.client.pipelining.wrong(self.answers) {
            self.exchange.note(&format!("pipelining was turned off: {}", error.why()));
        }
        // Without ids nothing but the order says which answer is which.
        let doubt = self.samples.is_some();
        if (own || doubt)
            && let Some(first) = self.unanswered.pop_front()
        {
            let error = match doubt {
                true => self
                    .client
                    .pipelining
                    .samples
                    .disorder(&format!("requests were pipelined, and then {}", error.why())),
                false => error,
            };
            self.exchange.failed(first, error);
        }
        self.alone.extend(self.unanswered.drain(..).map(Alone::new));
    }

    /// The last answer that was handed in was longer than it said.
    fn blame(&mut self) {
        if let Some(written) = self.written.take() {
            self.exchange.overlong(written);
        }
    }

    /// The answer that is held may be longer than it said: it is asked again, alone.
    fn doubt_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.alone.push_back(Alone::new(held.job));
        }
    }

    fn give_back_the_rest(&mut self) {
        self.open = None;
        for job in self.unanswered.drain(..) {
            self.exchange.given_back(job);
        }
    }
}
