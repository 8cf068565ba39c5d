//! Taking jobs and answering them one at a time over one connection after the other. Not here: one connection
//! (`connection.rs`), asking (`asking.rs`), requests sent ahead (`pipeline.rs`), what the owner is told (`exchange.rs`).

use std::collections::VecDeque;
use std::time::Duration;

use super::asking::ask;
use super::client::Client;
use super::compare::compare;
use super::exchange::{Exchange, Next};
use super::idle_connections::Kept;
use super::pipeline::pipeline;
use super::reader::Trust;
use super::request_id::Echo;
use super::respond::{Alone, Check, answer};

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
