//! The check that a service answers pipelined requests in order. It is needed if the user asks for pipelining and
//! answers carry no ids. Objects that were fetched one at a time are fetched again, pipelined at the depth that will be
//! used, and their bytes must be the same. Nothing else can show that a service, or a proxy before it, keeps the order.
//! Later in the run, samples of pipelined objects are fetched again one at a time (`samples.rs`).
//!
//! The check cannot detect answers that change places rarely, or only under a load that it does not create.
//! Not here: which objects are fetched (`check_objects.rs`).

use std::cell::Cell;

use crate::check_objects::{CheckObject, hash};
use crate::client::Client;
use crate::connection::Connection;
use crate::message::{Method, Request};
use crate::reader::{Answer, HEAD_MAX, Reader, Trust};
use crate::request_handler::RequestHandler;
use shoal_core::error::{Error, Kind, Result};

/// Fetches the objects again, pipelined, compares them, and tells the policy the result.
pub(crate) async fn check_pipelining<E: RequestHandler>(client: &Client, handler: &E, objects: &[CheckObject]) {
    let received = Cell::new(0);
    let same = fetch_pipelined(client, handler, objects, &received).await;
    handler.wasted(received.get());
    if let Err(error) = &same {
        handler.note(&format!("pipelining is off: with pipelined requests, the service {}", error.why()));
    }
    client.pipelining.checked(same.is_ok());
}

async fn fetch_pipelined<E: RequestHandler>(
    client: &Client,
    handler: &E,
    objects: &[CheckObject],
    received: &Cell<u64>,
) -> Result<()> {
    client.fields.ready().await?;
    let mut open: Connection<_> =
        Connection::open(client, handler.wants(), || handler.stalled(), handler.findings()).await?;
    open.grow_buffer(E::WHOLE_MAX + HEAD_MAX);
    let mut reader = Reader::new(Trust::Order, handler.wants(), E::WHOLE_MAX);
    let (depth, mut sent, mut first) = (client.pipelining.depth(objects.len()), 0, 0);
    for (at, object) in objects.iter().enumerate() {
        for ahead in &objects[sent..objects.len().min(at + depth)] {
            let queued = open.queue(client, &Request::new(Method::Get, &ahead.target));
            let number = queued.map_err(|error| error.prefix("could not be asked"))?;
            first = if sent == 0 { number } else { first };
            sent += 1;
        }
        open.restart_deadline();
        loop {
            match open.next_answer(&mut reader, 0, first + at as u64, at + 1 < sent)? {
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
