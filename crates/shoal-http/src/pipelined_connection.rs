//! One connection with pipelined requests: they are sent before earlier ones are answered. Each object is requested on
//! only one connection at a time, and passed on only when its answer is known to be its own.
//!
//! An answer is held until the head of the next one has been read. If other bytes follow it, it was longer than
//! announced, and is not passed on. This costs no extra read, because the next answer is awaited anyway.
//!
//! A failure costs nothing for the requests that did not cause it:
//! - The connection ends: the first unanswered request is repeated alone, and those after it are requeued.
//! - An answer is not for its request, or not HTTP: it, the one before it and all after it are repeated alone.
//! - A body ends with the connection, and others are unanswered: it is repeated alone, and those after it are requeued.
//!
//! Not here: whether to pipeline (`pipeline_policy.rs`), parsing (`reader.rs`), single requests (`client_loop.rs`).

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::body::Framing;
use crate::check_objects::hash;
use crate::client::Client;
use crate::connection::{Connection, ERROR_BODY_MAX};
use crate::head::Head;
use crate::idle_connections::IdleConnection;
use crate::message::{Method, Request};
use crate::probe::{self, Probe, ProbeResult};
use crate::reader::{Answer, BEGIN, HEAD_MAX, Reader, Trust};
use crate::request_handler::{Next, Plan, RequestHandler};
use crate::respond::{BodyCheck, SingleRequest, respond};
use crate::stream::Trailing;
use crate::unproven::Passed;
use shoal_core::error::{Error, Kind};

/// Where the connection ended, for messages.
const AHEAD: &str = "with requests unanswered";

/// Takes jobs and answers them over this connection as long as requests can be pipelined on it. Returns the connection
/// if it can still be used. Requests that must be sent one at a time are added to `single`.
pub(crate) async fn run_pipelined<E: RequestHandler, C: Fn() -> Duration + Clone>(
    client: &Client,
    handler: &E,
    IdleConnection { mut open, .. }: IdleConnection<C, E::Written>,
    trust: Trust,
    probe: Option<Probe<'_>>,
    single: &mut VecDeque<SingleRequest<E::Job>>,
) -> Option<IdleConnection<C, E::Written>> {
    // Large enough for many answers in one read.
    open.grow_buffer(E::WHOLE_MAX + HEAD_MAX);
    let mut connection = PipelinedConnection {
        client,
        handler,
        single,
        open: Some(open),
        reader: Reader::new(trust, handler.wants(), E::WHOLE_MAX),
        target: Vec::new(),
        condition: Vec::new(),
        unanswered: VecDeque::new(),
        first: 0,
        held: None,
        trust,
        answers: 0,
        sending: true,
        probe,
        samples: (trust == Trust::Order).then_some(0),
        sample: None,
    };
    while connection.step().await {}
    if connection.sample.is_some() {
        client.pipelining.samples.missed();
    }
    connection.open.map(|open| IdleConnection { open, closes: false })
}

struct PipelinedConnection<'a, E: RequestHandler, C> {
    client: &'a Client,
    handler: &'a E,
    single: &'a mut VecDeque<SingleRequest<E::Job>>,
    open: Option<Box<Connection<C, E::Written>>>,
    reader: Reader,
    /// Target and further header lines of the request that is being queued.
    target: Vec<u8>,
    condition: Vec<u8>,
    /// Jobs whose requests were sent, in that order.
    unanswered: VecDeque<E::Job>,
    /// The number of the first of these requests on this connection.
    first: u64,
    /// The complete answer before it, which begins the unread bytes. `None` if no requests are unanswered.
    held: Option<HeldAnswer<E::Job>>,
    trust: Trust,
    /// Number of answers received.
    answers: usize,
    /// Whether more requests may be sent.
    sending: bool,
    /// Measures whether pipelining helps, if that is not known yet.
    probe: Option<Probe<'a>>,
    /// If order is trusted: the value of `answers` when samples were last counted.
    samples: Option<usize>,
    /// The answer after so many others is the next sample.
    sample: Option<usize>,
}

/// A complete answer that is passed on once the next one begins.
struct HeldAnswer<J> {
    job: J,
    head: Head,
    body: Range<usize>,
}

impl<E: RequestHandler, C: Fn() -> Duration + Clone> PipelinedConnection<'_, E, C> {
    /// Passes on what was received, sends what may be sent, reads once. False if this connection is done pipelining.
    async fn step(&mut self) -> bool {
        let Some(needed) = self.read_answers().await else { return false };
        self.learn();
        let waiting = self.send_ahead();
        let Some(open) = &mut self.open else { return false };
        if self.unanswered.is_empty() {
            return false;
        }
        let filled = if waiting {
            tokio::select! {
                biased;
                filled = open.fill_for(needed, AHEAD) => filled,
                () = self.handler.wake() => return true,
            }
        } else {
            open.fill_for(needed, AHEAD).await
        };
        match filled {
            Ok(()) => true,
            Err(error) => {
                self.disconnected(error);
                false
            }
        }
    }

    /// Evaluates the last read: whether pipelining helps, and whether a sample is due.
    fn learn(&mut self) {
        let pipelining = &self.client.pipelining;
        if let Some(found) = self.probe.as_mut().and_then(|probe| probe.answered(self.answers)) {
            pipelining.probed(&found);
            self.probe = None;
            self.sending &= found == ProbeResult::Gain;
        }
        if let Some(counted) = &mut self.samples
            && pipelining.samples.is_due(self.answers - std::mem::replace(counted, self.answers))
        {
            // A random position, so that samples are not always at the same place in a batch.
            self.sample = Some(fastrand::usize(..pipelining.depth(usize::MAX)));
        }
    }

    /// Takes jobs and queues their requests. Returns whether more could be sent if there were more jobs.
    fn send_ahead(&mut self) -> bool {
        let mut depth = self.client.pipelining.depth(self.handler.depth());
        self.sending &= depth > 1;
        match &self.probe {
            Some(probe) if !probe.is_unsent() => return false,
            Some(_) => depth = depth.min(probe::REQUESTS),
            None => {}
        }
        // In batches: one request after each answer would be one system call each.
        if !self.sending || self.unanswered.len() * 2 > depth {
            return false;
        }
        let waiting = self.queue_requests(depth);
        if let Some(probe) = &mut self.probe {
            probe.sent(self.unanswered.len());
        }
        waiting
    }

    fn queue_requests(&mut self, depth: usize) -> bool {
        let Some(open) = &mut self.open else { return false };
        while self.unanswered.len() < depth {
            match self.handler.next() {
                Next::Job(job) if self.handler.is_alone(&job) => {
                    self.single.push_back(SingleRequest::new(job));
                    self.sending = false;
                    return false;
                }
                Next::Job(job) => {
                    // With nothing unanswered, nothing may have been received either.
                    let trailing = if self.unanswered.is_empty() { open.trailing() } else { Trailing::Nothing };
                    if trailing != Trailing::Nothing {
                        self.report_doubted(trailing);
                        self.single.push_back(SingleRequest::new(job));
                        self.open = None;
                        return false;
                    }
                    self.target.clear();
                    self.condition.clear();
                    self.handler.target(&job, &mut self.target);
                    self.handler.condition(&job, &mut self.condition);
                    let request = Request::new(Method::Get, &self.target).fields(&self.condition);
                    let number = match open.queue(self.client, &request) {
                        Ok(number) => number,
                        Err(error) => {
                            self.handler.failed(job, error);
                            continue;
                        }
                    };
                    if self.unanswered.is_empty() {
                        self.first = number;
                        open.restart_deadline();
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

    /// Passes on the answers received. Returns how many unread bytes the next one needs; `None`: the connection ended.
    async fn read_answers(&mut self) -> Option<usize> {
        let mut progressed = false;
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
                    if progressed {
                        open.restart_deadline();
                    }
                    if !self.reader.has_head() {
                        return Some(held + needed);
                    }
                    self.pass_on_held(true);
                    return Some(needed);
                }
                Ok(Answer::Whole { head, body }) => {
                    self.client.answered(&head);
                    self.pass_on_held(true);
                    self.hold(head, body);
                }
                Ok(Answer::Begun { head, body }) => {
                    self.client.answered(&head);
                    self.pass_on_held(true);
                    self.stream_answer(head, body).await;
                }
                Err(error) => self.wrong_answer(error),
            }
            progressed = true;
        }
    }

    fn held_len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.body.end)
    }

    fn hold(&mut self, head: Head, body: Range<usize>) {
        let Some(job) = self.unanswered.pop_front() else { return };
        self.first += 1;
        self.answers += 1;
        let close = head.close;
        self.held = Some(HeldAnswer { job, head, body });
        if close {
            self.pass_on_held(false);
            self.end();
        } else if self.unanswered.is_empty() {
            self.pass_on_held(false);
        }
    }

    /// The bytes after the held answer begin the next one (`is_followed`), or nothing more is expected: passes it on.
    fn pass_on_held(&mut self, is_followed: bool) {
        let (Some(HeldAnswer { job, head, body }), Some(open)) = (self.held.take(), &mut self.open) else { return };
        let end = body.end;
        // The id of the next answer proves this one. Without ids, each may be another's.
        let is_proven = is_followed && self.trust == Trust::Ids;
        let mut passed = None;
        if head.status / 100 == 3 && head.status != 304 {
            // Redirects are followed by `request.rs`, for single requests.
            self.single.push_back(SingleRequest::new(job));
            self.sending = false;
        } else {
            match self.handler.head(&job, &head) {
                Plan::Keep => match &mut self.sample {
                    Some(0) => {
                        self.single.push_back(SingleRequest { job, pipelined: Some(hash(open.unread(body))) });
                        (self.sample, self.sending) = (None, false);
                    }
                    sample => {
                        *sample = sample.map(|left| left - 1);
                        let body = open.unread(body);
                        let written = self.handler.whole(job, &head, body);
                        passed = if is_proven { None } else { Passed::of(written, body) };
                    }
                },
                Plan::Unchanged => self.handler.unchanged(job),
                Plan::Refuse(error) => self.handler.failed(job, error),
                Plan::Again => self.handler.requeued(job),
                Plan::Explain => {
                    let length = body.len().min(ERROR_BODY_MAX);
                    let error = self.handler.explain(&job, &head, &open.unread(body)[..length]);
                    self.handler.failed(job, error);
                }
            }
        }
        open.consume(end);
        match is_proven {
            true => open.unproven.clear(),
            false => open.unproven.push(passed, head.echo),
        }
    }

    /// Handles an answer whose body is large, chunked, encoded, or ends with the connection.
    async fn stream_answer(&mut self, head: Head, body: usize) {
        let (Some(job), Some(mut open)) = (self.unanswered.pop_front(), self.open.take()) else { return };
        self.first += 1;
        self.answers += 1;
        if head.status / 100 == 3 {
            self.single.push_back(SingleRequest::new(job));
        } else if matches!(head.framing, Framing::Close) && !self.unanswered.is_empty() {
            // The answers after it would become part of its body.
            self.handler.wasted(open.unread_len() as u64);
            self.single.push_back(SingleRequest::new(job));
        } else {
            open.consume(body);
            let more = !self.unanswered.is_empty();
            let idle = respond(self.client, open, self.handler, job, head, more, BodyCheck::Nothing).await;
            let idle = idle.filter(|idle| !idle.closes);
            self.open = idle.map(|idle| idle.open);
        }
        match &mut self.open {
            Some(open) => open.restart_deadline(),
            None => self.end(),
        }
    }

    /// The connection is over, through no failure of a request.
    fn end(&mut self) {
        if self.unanswered.is_empty()
            && let Some(open) = &mut self.open
        {
            let trailing = open.trailing();
            self.report_doubted(trailing);
        }
        if !self.unanswered.is_empty() || !self.client.pipelining.works() {
            self.client.pipelining.connection_ended(self.answers);
        }
        self.requeue_rest();
    }

    /// The connection broke, or timed out.
    fn disconnected(&mut self, error: Error) {
        let unread = self.open.as_ref().map_or(0, |open| open.unread_len() - self.held_len());
        // So few bytes after the held answer may be part of its body as well as the beginning of the next answer.
        match unread > 0 && unread < BEGIN.len() {
            true => self.retry_held(),
            false => self.pass_on_held(false),
        }
        let untouched = unread == 0 && error.kind() != Kind::Timeout;
        if let Some(first) = self.unanswered.pop_front() {
            match untouched {
                // As when an idle connection is closed just when a request is sent: repeated alone before it counts.
                true => self.single.push_back(SingleRequest::new(first)),
                false => self.handler.failed(first, error),
            }
        }
        self.client.pipelining.connection_ended(self.answers);
        self.requeue_rest();
    }

    /// The bytes received are not the answer to the first unanswered request.
    fn wrong_answer(&mut self, error: Error) {
        let own = error.kind() == Kind::ShortBody;
        if self.reader.is_ahead
            && let Some(open) = &mut self.open
        {
            open.report_ahead(Trailing::Ahead, self.handler);
        }
        let is_no_answer = self.open.as_ref().is_some_and(|open| !open.may_begin_answer());
        match own {
            true => self.pass_on_held(true), // the next head was right, so this answer was not too long
            false if self.held.is_some() => self.retry_held(),
            false if is_no_answer => self.report_doubted(Trailing::Bytes),
            false => {}
        }
        if let Some(open) = self.open.take() {
            self.handler.wasted(open.unread_len() as u64);
        }
        if self.client.pipelining.wrong_answer(self.answers) {
            self.handler.note(&format!("pipelining was turned off: {}", error.why()));
        }
        // Without ids, only the order tells which answer belongs to which request.
        let doubt = self.samples.is_some();
        if (own || doubt)
            && let Some(first) = self.unanswered.pop_front()
        {
            let samples = &self.client.pipelining.samples;
            let error = match doubt {
                true => samples.out_of_order(&format!("requests were pipelined, and then {}", error.why())),
                false => error,
            };
            self.handler.failed(first, error);
        }
        self.single.extend(self.unanswered.drain(..).map(SingleRequest::new));
    }

    /// These bytes follow the last answer that was passed on.
    fn report_doubted(&mut self, trailing: Trailing) {
        if let Some(open) = &mut self.open {
            open.unproven.doubt(trailing).for_each(|(passed, doubt)| self.handler.doubted(passed, doubt));
        }
    }

    /// The held answer may be longer than announced: repeats its request alone.
    fn retry_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.single.push_back(SingleRequest::new(held.job));
        }
    }

    fn requeue_rest(&mut self) {
        self.open = None;
        for job in self.unanswered.drain(..) {
            self.handler.requeued(job);
        }
    }
}
