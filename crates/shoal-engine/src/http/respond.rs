//! What becomes of one answer: its object is handed in, checked or refused. Not here: a large body (`large.rs`).

use std::time::Duration;

use super::check_objects::{Seen, hash};
use super::client::Client;
use super::connection::{Connection, Gathered};
use super::exchange::{Exchange, Plan};
use super::head::Head;
use super::idle_connections::Idle;
use super::large::large;
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
            Ok(gathered) => match (gathered, open.surplus(&head, more)) {
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
