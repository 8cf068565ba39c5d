//! Taking jobs and answering them one at a time over one connection after the other. Not here: one connection
//! (`connection.rs`), asking (`asking.rs`), requests sent ahead (`pipeline.rs`), what the owner is told (`exchange.rs`).

use std::collections::VecDeque;
use std::time::Duration;

use super::Client;
use super::asking::{Kept, ask};
use super::compare::compare;
use super::connection::{Connection, Gathered};
use super::exchange::{Exchange, Next, Plan};
use super::head::Head;
use super::large::large;
use super::pipeline::pipeline;
use super::reader::Trust;
use super::request_id::Echo;
use crate::error::Error;

/// Takes jobs and answers them over one connection after the other until told to stop: the first of each connection
/// alone, then, where that is safe, with requests sent ahead.
pub(crate) async fn drive<E: Exchange>(client: &Client, exchange: &E) {
    let clock = || exchange.stalled();
    let mut kept = Kept::default();
    // To be asked one at a time, before any other.
    let mut alone = VecDeque::new();
    loop {
        let job = match alone.pop_front() {
            Some(job) => job,
            None => match exchange.next() {
                Next::Stop => return,
                Next::Wait => {
                    exchange.wake().await;
                    continue;
                }
                Next::Job(job) => job,
            },
        };
        let (open, head) = match ask(client, &mut kept, clock, b"", |out| exchange.target(&job, out)).await {
            Ok(answered) => answered,
            Err(error) => {
                exchange.failed(job, error);
                continue;
            }
        };
        let echo = head.echo;
        kept.put(answer(client, open, exchange, job, head, false).await);
        if !alone.is_empty() {
            continue;
        }
        client.pipelining.answered(echo);
        if echo != Echo::Right && client.pipelining.should_compare() {
            compare(client, exchange).await;
        }
        let trust = match echo {
            Echo::Right => Trust::Ids,
            _ if client.pipelining.trusts_order() => Trust::Order,
            _ => continue,
        };
        if client.pipelining.depth(exchange.depth()) > 1
            && let Some(open) = kept.take()
        {
            kept.put(pipeline(client, exchange, open, trust, &mut alone).await);
        }
    }
}

/// Reads an object's body and hands it in. The connection, if it can be used again. `more`: further requests are
/// unanswered on it, so an answer may stand behind the body; behind a large one it is not waited for.
pub(super) async fn answer<E: Exchange, C: Fn() -> Duration + Clone>(
    client: &Client,
    mut open: Box<Connection<C>>,
    exchange: &E,
    job: E::Job,
    mut head: Head,
    more: bool,
) -> Option<Box<Connection<C>>> {
    let reusable = match exchange.head(&job, &head) {
        Plan::Refuse(error) => {
            let reusable = open.discard(&mut head.framing).await;
            let rest = open.is_read() || more && open.rest_may_begin();
            exchange.failed(job, error);
            reusable && rest
        }
        Plan::Keep => match open.gather(&mut head.framing, E::WHOLE_MAX).await {
            Ok(gathered) => match (gathered, surplus(&open, &head, more)) {
                (Gathered::Larger, _) => {
                    let kept = large(client, open, exchange, job, &mut head, more).await;
                    return kept.filter(|_| !head.close);
                }
                (_, Some(error)) => {
                    exchange.failed(job, error);
                    false
                }
                (whole, None) => {
                    exchange.whole(job, &head, open.gathered(&whole));
                    open.forget_pieces();
                    true
                }
            },
            Err(error) => {
                exchange.failed(job, error);
                false
            }
        },
    };
    (reusable && !head.close).then_some(open)
}

/// Bytes behind the end of an answer that nobody asked for.
pub(super) fn surplus<C: Fn() -> Duration>(open: &Connection<C>, head: &Head, more: bool) -> Option<Error> {
    if more && open.rest_may_begin() { None } else { open.surplus(head) }
}
