//! Taking jobs and answering them one at a time over one connection after the other. Not here: one connection
//! (`connection.rs`), asking (`asking.rs`), requests sent ahead (`pipeline.rs`), what the owner is told (`exchange.rs`).

use std::collections::VecDeque;
use std::time::Duration;

use super::Client;
use super::asking::{Idle, Kept, ask};
use super::compare::{Seen, compare, hash};
use super::connection::{Connection, Gathered};
use super::exchange::{Exchange, Next, Plan};
use super::head::Head;
use super::large::large;
use super::pipeline::pipeline;
use super::reader::Trust;
use super::request_id::Echo;
use super::stream::Behind;
use crate::error::{Error, Kind};

/// An object to be asked for one at a time, before any other.
pub(super) struct Alone<J> {
    pub job: J,
    /// It is a sample: it came pipelined with these bytes, and was not handed in.
    pub pipelined: Option<u128>,
}

impl<J> Alone<J> {
    pub fn new(job: J) -> Alone<J> {
        Alone { job, pipelined: None }
    }
}

/// Takes jobs and answers them over one connection after the other until told to stop: the first of each connection
/// alone, then, where that is safe, with requests sent ahead.
pub(crate) async fn drive<E: Exchange>(client: &Client, exchange: &E) {
    let clock = || exchange.stalled();
    let pipelining = &client.pipelining;
    let mut watched = Watched { kept: Kept::default(), exchange };
    let kept = &mut watched.kept;
    let mut alone = VecDeque::new();
    loop {
        let Alone { job, pipelined } = match alone.pop_front() {
            Some(alone) => alone,
            None => match exchange.next() {
                Next::Stop => return,
                Next::Wait => {
                    tokio::select! {
                        () = exchange.wake() => {}
                        () = kept.watch() => kept.blame(exchange),
                    }
                    continue;
                }
                Next::Job(job) => Alone::new(job),
            },
        };
        let mut condition = Vec::new();
        exchange.condition(&job, &mut condition);
        let answered = ask(client, kept, clock, &condition, |out| exchange.target(&job, out)).await;
        kept.blame(exchange);
        let (open, head) = match answered {
            Ok(answered) => answered,
            Err(error) => {
                exchange.failed(job, error);
                if pipelined.is_some() {
                    pipelining.samples.missed();
                }
                continue;
            }
        };
        let (echo, close, took) = (head.echo, head.close, open.took());
        let mut compared = None;
        let check = match pipelined {
            Some(hash) => Check::Sample(hash),
            None if echo != Echo::Right && pipelining.collects() => Check::Collect(&mut compared),
            None => Check::Nothing,
        };
        kept.put(answer(client, open, exchange, job, head, false, check).await);
        kept.blame(exchange);
        if !alone.is_empty() {
            continue;
        }
        pipelining.answered(echo, close, took);
        if let Some(seen) = compared {
            compare(client, exchange, &seen).await;
        }
        let trust = match echo {
            Echo::Right => Trust::Ids,
            _ if pipelining.trusts_order() => Trust::Order,
            _ => continue,
        };
        if pipelining.depth(exchange.depth()) < 2 {
            continue;
        }
        let probe = if pipelining.works() { None } else { pipelining.probe() };
        if (pipelining.works() || probe.is_some())
            && let Some(idle) = kept.take()
        {
            kept.put(pipeline(client, exchange, idle, trust, probe, &mut alone).await);
        }
    }
}

/// The connections of `drive`, which may be dropped in the middle of anything, when the run is stopped.
struct Watched<'a, E: Exchange, C: Fn() -> Duration> {
    kept: Kept<C, E::Written>,
    exchange: &'a E,
}

impl<E: Exchange, C: Fn() -> Duration> Drop for Watched<'_, E, C> {
    fn drop(&mut self) {
        self.kept.end();
        self.kept.blame(self.exchange);
    }
}

impl<C, W> Kept<C, W> {
    fn blame<E: Exchange<Written = W>>(&mut self, exchange: &E) {
        self.overlong.drain(..).for_each(|written| exchange.overlong(written));
    }
}

/// What else is done with the bytes of an object that came whole.
pub(super) enum Check<'a> {
    Nothing,
    /// They are kept for a comparison, which is handed out when there are enough.
    Collect(&'a mut Option<Vec<Seen>>),
    /// They must be these.
    Sample(u128),
}

impl Check<'_> {
    /// Before the object is handed in; the failure of it, if that must not be.
    fn look<E: Exchange>(self, client: &Client, exchange: &E, job: &E::Job, body: Option<&[u8]>) -> Option<Error> {
        let samples = &client.pipelining.samples;
        match (self, body) {
            (Check::Collect(compared), Some(body)) => {
                *compared = client.pipelining.collect(body, |out| exchange.target(job, out));
                None
            }
            (Check::Sample(pipelined), Some(body)) if pipelined == hash(body) => {
                samples.same();
                None
            }
            (Check::Sample(_), _) => {
                client.pipelining.stop();
                exchange.note("pipelining was turned off: an answer was different when it was requested alone");
                Some(samples.differs())
            }
            _ => None,
        }
    }

    /// The object did not come.
    fn missed(self, client: &Client) {
        if let Check::Sample(_) = self {
            client.pipelining.samples.missed();
        }
    }
}

/// Reads an object's body and hands it in. The connection, if it can be used again, with the object. `more`: further
/// requests are unanswered on it, so an answer may stand behind the body.
pub(super) async fn answer<E: Exchange, C: Fn() -> Duration + Clone>(
    client: &Client,
    mut open: Box<Connection<C>>,
    exchange: &E,
    job: E::Job,
    mut head: Head,
    more: bool,
    check: Check<'_>,
) -> Option<Idle<C, E::Written>> {
    let (reusable, written) = match exchange.head(&job, &head) {
        Plan::Unchanged => {
            let rest = open.is_read() || more && open.rest_may_begin();
            check.missed(client);
            exchange.unchanged(job);
            (rest, None)
        }
        Plan::Refuse(error) => {
            let reusable = open.discard(&mut head.framing).await;
            let rest = open.is_read() || more && open.rest_may_begin();
            check.missed(client);
            exchange.failed(job, error);
            (reusable && rest, None)
        }
        Plan::Keep if head.encoding.is_some() => {
            check.missed(client);
            return large(client, open, exchange, job, &mut head, more).await;
        }
        Plan::Keep => match open.gather(&mut head.framing, E::WHOLE_MAX).await {
            Ok(gathered) => match (gathered, surplus(&open, &head, more)) {
                (Gathered::Larger, _) => {
                    if let Some(error) = check.look(client, exchange, &job, None) {
                        exchange.failed(job, error);
                        return None;
                    }
                    return large(client, open, exchange, job, &mut head, more).await;
                }
                (_, Some(error)) => {
                    check.missed(client);
                    exchange.failed(job, error);
                    (false, None)
                }
                (whole, None) => {
                    let behind = if exchange.is_doubted(&job) { open.linger().await } else { Behind::Nothing };
                    let body = open.gathered(&whole);
                    let wrong = match behind {
                        Behind::Bytes => Some(Error::new(Kind::ShortBody, "the answer is longer than announced")),
                        _ => check.look(client, exchange, &job, Some(body)),
                    };
                    let written = match wrong {
                        None => exchange.whole(job, &head, body),
                        Some(error) => {
                            exchange.failed(job, error);
                            None
                        }
                    };
                    open.forget_pieces();
                    (behind == Behind::Nothing, written)
                }
            },
            Err(error) => {
                check.missed(client);
                exchange.failed(job, error);
                (false, None)
            }
        },
    };
    reusable.then_some(Idle { open, written, ends: head.close })
}

/// Bytes behind the end of an answer that nobody asked for.
pub(super) fn surplus<C: Fn() -> Duration>(open: &Connection<C>, head: &Head, more: bool) -> Option<Error> {
    if more && open.rest_may_begin() { None } else { open.surplus(head) }
}
