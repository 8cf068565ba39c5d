//! Where the user asks for pipelining and answers carry no ids: objects that came one at a time are asked for again
//! pipelined, at the depth that will be used, and must be the same. Nothing else can show that a service, or a proxy
//! before it, keeps the order. While the run goes on, objects that came pipelined are asked for again alone, now and then
//! (`pipelining.rs` says when).
//!
//! What this cannot show: answers that change places seldom, or only under a load that the comparison does not make.

use std::cell::Cell;

use super::check_objects::{Seen, hash};
use super::client::Client;
use super::connection::Connection;
use super::exchange::Exchange;
use super::reader::{Answer, HEAD_MAX, Reader, Trust};
use crate::error::{Error, Kind, Result};

/// Fetches objects that came alone once more, pipelined, and says what came of it.
pub(super) async fn compare<E: Exchange>(client: &Client, exchange: &E, seen: &[Seen]) {
    let received = Cell::new(0);
    let same = pipelined(client, exchange, seen, &received).await;
    exchange.wasted(received.get());
    if let Err(error) = &same {
        exchange.note(&format!("pipelining is off: with pipelined requests, the service {}", error.why()));
    }
    client.pipelining.compared(same.is_ok());
}

async fn pipelined<E: Exchange>(client: &Client, exchange: &E, seen: &[Seen], received: &Cell<u64>) -> Result<()> {
    let mut open = Connection::open(client, || exchange.stalled()).await?;
    open.widen(E::WHOLE_MAX + HEAD_MAX);
    let mut reader = Reader::new(Trust::Order, client.wants_type, E::WHOLE_MAX);
    let (depth, mut asked, mut first) = (client.pipelining.depth(seen.len()), 0, 0);
    for (at, object) in seen.iter().enumerate() {
        for ahead in &seen[asked..seen.len().min(at + depth)] {
            let number = open.queue(client, b"", |out: &mut Vec<u8>| out.extend_from_slice(&ahead.target));
            first = if asked == 0 { number } else { first };
            asked += 1;
        }
        open.restart_watch();
        loop {
            match open.next_answer(&mut reader, 0, first + at as u64, at + 1 < asked)? {
                Answer::More(needed) => open.fill_for(needed, "in the comparison").await?,
                Answer::Whole { head, body } => {
                    let end = body.end;
                    let same = head.status == 200 && hash(open.unread(body)) == object.hash;
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
    Error::new(Kind::Integrity, "answered differently")
}
