//! One connection on which requests are sent before the answers to earlier ones are there. Each object is asked for on one
//! connection at a time, and handed in only when its answer is known to be its own.
//!
//! What goes wrong costs those that did not cause it nothing:
//! - The connection ends: the first unanswered request is asked again alone, those behind it are given back.
//! - An answer is not for its request, or none at all: it and all behind it are asked again one at a time.
//! - A body is large: the connection answers nothing else any more; those behind it are given back.
//!
//! Not here: whether to do it and how deep (`pipelining.rs`), reading (`reader.rs`), one at a time (`drive.rs`).

use std::collections::VecDeque;
use std::time::Duration;

use super::Client;
use super::connection::Connection;
use super::drive::answer;
use super::exchange::{Exchange, Next, Plan};
use super::head::Head;
use super::reader::{Answer, HEAD_MAX, Reader, Trust};
use crate::error::{Error, Kind};

/// Where a connection broke.
const AHEAD: &str = "with requests unanswered";

/// Takes jobs and answers them over this connection for as long as requests can be sent ahead on it. The connection, if it
/// can still be used, with nothing unanswered; what must be asked one at a time is added to `alone`.
pub(super) async fn pipeline<E: Exchange, C: Fn() -> Duration + Clone>(
    client: &Client,
    exchange: &E,
    open: Box<Connection<C>>,
    trust: Trust,
    alone: &mut VecDeque<E::Job>,
) -> Option<Box<Connection<C>>> {
    let mut line = Line {
        client,
        exchange,
        alone,
        open: Some(open),
        reader: Reader::new(trust, client.wants_type, E::WHOLE_MAX),
        unanswered: VecDeque::new(),
        first: 0,
        answers: 0,
        sending: true,
    };
    if let Some(open) = &mut line.open {
        // Many answers in one reading.
        open.widen(E::WHOLE_MAX + HEAD_MAX);
    }
    while line.turn().await {}
    line.open
}

struct Line<'a, E: Exchange, C> {
    client: &'a Client,
    exchange: &'a E,
    alone: &'a mut VecDeque<E::Job>,
    open: Option<Box<Connection<C>>>,
    reader: Reader,
    /// In the order of their requests.
    unanswered: VecDeque<E::Job>,
    /// Number of the first of them on this connection.
    first: u64,
    /// Answers that were handed in.
    answers: usize,
    /// More requests may be sent.
    sending: bool,
}

impl<E: Exchange, C: Fn() -> Duration + Clone> Line<'_, E, C> {
    /// Hands in what has come, sends what may be sent, and reads once; false when this connection is done with pipelining.
    async fn turn(&mut self) -> bool {
        let Some(needed) = self.read().await else { return false };
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

    /// Takes jobs and queues their requests; whether there are fewer than there might be.
    fn fill_up(&mut self) -> bool {
        let depth = self.client.pipelining.depth(self.exchange.depth());
        self.sending &= depth > 1;
        // In bunches: a request for each answer would be a system call for each.
        if !self.sending || self.unanswered.len() * 2 > depth {
            return false;
        }
        let Some(open) = &mut self.open else { return false };
        while self.unanswered.len() < depth {
            match self.exchange.next() {
                Next::Job(job) if self.exchange.is_alone(&job) => {
                    self.alone.push_back(job);
                    self.sending = false;
                    return false;
                }
                Next::Job(job) => {
                    // With nothing unanswered, nothing may have come either.
                    if self.unanswered.is_empty() && !open.is_quiet() {
                        self.alone.push_back(job);
                        self.open = None;
                        return false;
                    }
                    let number = open.queue(self.client, |out| self.exchange.target(&job, out));
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
        let mut handed_in = false;
        loop {
            let open = self.open.as_mut()?;
            if self.unanswered.is_empty() {
                return Some(1);
            }
            let answer = match open.is_read() {
                true => Ok(Answer::More(1)),
                false => open.next_answer(&mut self.reader, self.first, self.unanswered.len() > 1),
            };
            match answer {
                Ok(Answer::More(needed)) => {
                    if handed_in {
                        open.restart_watch();
                    }
                    return Some(needed);
                }
                Ok(Answer::Whole { head, body }) => self.whole(&head, body),
                Ok(Answer::Begun { head, body }) => self.begun(head, body).await,
                Err(error) => self.wrong(error),
            }
            handed_in = true;
        }
    }

    fn whole(&mut self, head: &Head, body: std::ops::Range<usize>) {
        let (Some(job), Some(open)) = (self.unanswered.pop_front(), &mut self.open) else { return };
        self.first += 1;
        self.answers += 1;
        let end = body.end;
        if head.status / 100 == 3 {
            // Where it leads is another request's business.
            self.alone.push_back(job);
            self.sending = false;
        } else {
            match self.exchange.head(&job, head) {
                Plan::Keep => self.exchange.whole(job, head, open.unread(body)),
                Plan::Refuse(error) => self.exchange.failed(job, error),
            }
        }
        open.consume(end);
        if head.close {
            self.end();
        }
    }

    /// The body is large, in chunks, or ends with the connection.
    async fn begun(&mut self, head: Head, body: usize) {
        let (Some(job), Some(mut open)) = (self.unanswered.pop_front(), self.open.take()) else { return };
        self.first += 1;
        self.answers += 1;
        if head.status / 100 == 3 {
            self.alone.push_back(job);
        } else {
            open.consume(body);
            self.open = answer(self.client, open, self.exchange, job, head, !self.unanswered.is_empty()).await;
        }
        match &mut self.open {
            Some(open) => open.restart_watch(),
            None => self.end(),
        }
    }

    /// The connection answers nothing any more; nobody is to blame.
    fn end(&mut self) {
        if !self.unanswered.is_empty() {
            self.client.pipelining.ended(self.answers);
        }
        self.give_back_the_rest();
    }

    /// The connection broke, or nothing came for too long.
    fn broken(&mut self, error: Error) {
        let untouched = self.open.as_ref().is_some_and(|open| open.is_read()) && error.kind() != Kind::Timeout;
        if let Some(first) = self.unanswered.pop_front() {
            match untouched {
                // As on a kept connection that was closed in the moment of asking: once more, alone, before it counts.
                true => self.alone.push_back(first),
                false => self.exchange.failed(first, error),
            }
        }
        self.client.pipelining.ended(self.answers);
        self.give_back_the_rest();
    }

    /// What came is not the answer to the first unanswered request.
    fn wrong(&mut self, error: Error) {
        if let Some(open) = self.open.take() {
            self.exchange.wasted(open.unread_len() as u64);
        }
        if self.client.pipelining.wrong(self.answers) {
            self.exchange.note(&format!("requests are sent one at a time now: {}", error.why()));
        }
        if error.kind() == Kind::ShortBody
            && let Some(first) = self.unanswered.pop_front()
        {
            self.exchange.failed(first, error);
        }
        self.alone.extend(self.unanswered.drain(..));
    }

    fn give_back_the_rest(&mut self) {
        self.open = None;
        for job in self.unanswered.drain(..) {
            self.exchange.given_back(job);
        }
    }
}
