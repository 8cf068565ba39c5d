//! Taking jobs and answering them one at a time over one connection after the other. Not here: one connection
//! (`connection.rs`), what the owner is told (`exchange.rs`).

use std::time::Duration;

use super::Client;
use super::connection::{Connection, Gathered};
use super::exchange::{Exchange, Next, Plan};
use super::head::Head;
use crate::error::Result;

/// Takes jobs and answers them over one connection after the other until told to stop.
pub(crate) async fn drive<E: Exchange>(client: &Client, exchange: &E) {
    let clock = || exchange.stalled();
    let mut kept = None;
    loop {
        match exchange.next() {
            Next::Stop => return,
            Next::Wait => exchange.wake().await,
            Next::Job(job) => match ask(client, kept.take(), clock, |out| exchange.target(&job, out)).await {
                Ok((open, head)) => kept = answer(open, exchange, job, head, false).await,
                Err(error) => exchange.failed(job, error),
            },
        }
    }
}

/// Sends a request over the kept connection, or over a fresh one, and reads the head of its answer.
///
/// A kept connection may be closed by the server in the moment the request is sent. When it ends before a byte of an
/// answer, the request is sent once more, on a fresh one: that is nobody's fault, and costs no try.
pub(crate) async fn ask<C: Fn() -> Duration>(
    client: &Client,
    kept: Option<Box<Connection<C>>>,
    clock: C,
    target: impl Fn(&mut Vec<u8>),
) -> Result<(Box<Connection<C>>, Head)> {
    // One that was closed meanwhile, or holds bytes nobody asked for, is no good any more.
    if let Some(mut kept) = kept.filter(|kept| kept.is_quiet()) {
        match kept.ask(client, &target).await {
            Ok(head) => return Ok((kept, head)),
            Err(_) if kept.is_untouched() => {}
            Err(error) => return Err(error),
        }
    }
    let mut fresh = Box::new(Connection::open(client, clock).await?);
    let head = fresh.ask(client, &target).await?;
    Ok((fresh, head))
}

/// Reads an object's body and hands it in. The connection, if it can be used again. `more`: further requests are
/// unanswered on it, so bytes behind the body are in order; it cannot be used again.
pub(super) async fn answer<E: Exchange, C: Fn() -> Duration>(
    mut open: Box<Connection<C>>,
    exchange: &E,
    job: E::Job,
    mut head: Head,
    more: bool,
) -> Option<Box<Connection<C>>> {
    let reusable = match exchange.head(&job, &head) {
        Plan::Refuse(error) => {
            let reusable = open.discard(&mut head.framing).await;
            exchange.failed(job, error);
            reusable
        }
        Plan::Keep => match open.gather(&mut head.framing, E::WHOLE_MAX).await {
            Ok(gathered) => match (gathered, open.surplus(&head).filter(|_| !more)) {
                (Gathered::Larger, _) => stream_out(&mut open, exchange, job, &mut head, more).await,
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
    (reusable && !head.close && !more).then_some(open)
}

/// Hands a larger body in piece by piece, first what has come of it already.
async fn stream_out<E: Exchange, C: Fn() -> Duration>(
    open: &mut Connection<C>,
    exchange: &E,
    job: E::Job,
    head: &mut Head,
    more: bool,
) -> bool {
    let mut body = match exchange.begin(&job, head) {
        Ok(body) => body,
        Err(error) => {
            exchange.failed(job, error);
            return false;
        }
    };
    let mut result = match open.gathered(&Gathered::Pieces) {
        [] => Ok(()),
        pieces => exchange.piece(&mut body, pieces),
    };
    open.forget_pieces();
    // The budget counts this much for every object in flight.
    open.widen(E::WHOLE_MAX);
    while result.is_ok() {
        result = match open.piece(&mut head.framing).await {
            Ok(Some(piece)) => exchange.piece(&mut body, open.bytes(piece)),
            Ok(None) => break,
            Err(error) => Err(error),
        };
    }
    if let (Ok(()), Some(error)) = (&result, open.surplus(head).filter(|_| !more)) {
        result = Err(error);
    }
    let reusable = result.is_ok();
    exchange.finished(job, body, result);
    reusable
}
