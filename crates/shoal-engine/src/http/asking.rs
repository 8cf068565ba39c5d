//! Asking for one thing: over a connection that was kept, or over a fresh one, and on to where a redirect leads. Not here:
//! where it may lead (`redirect.rs`), what is asked and what becomes of the answer (`drive.rs`).

use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::connection::Connection;
use super::head::Head;
use super::idle_connections::{Idle, Kept};
use super::redirect::{self, REDIRECTS_MAX, Refusal};
use super::request_id::Echo;
use crate::error::Result;

/// Sends a request and reads the head of its answer, which is a redirect only if it is one that is not followed. `extra`:
/// header lines for this request alone, which are no secrets.
///
/// # Errors
/// Those of making a connection and of reading from it.
pub(crate) async fn ask<C: Fn() -> Duration + Clone, W>(
    client: &Client,
    kept: &mut Kept<C, W>,
    clock: C,
    extra: &[u8],
    target: impl Fn(&mut Vec<u8>),
) -> Result<(Box<Connection<C>>, Head)> {
    let idle = kept.take();
    let (open, head) = once(client, kept, idle, clock.clone(), extra, &target).await?;
    if !head.is_redirect() {
        return Ok((open, head));
    }
    let mut asked = Vec::new();
    target(&mut asked);
    follow(client, kept, clock, extra, (open, head), asked).await
}

async fn follow<C: Fn() -> Duration + Clone, W>(
    client: &Client,
    kept: &mut Kept<C, W>,
    clock: C,
    extra: &[u8],
    (mut open, mut head): (Box<Connection<C>>, Head),
    mut target: Vec<u8>,
) -> Result<(Box<Connection<C>>, Head)> {
    // Once the service is left, nothing secret is sent any more, not even when another host leads back to it.
    let mut elsewhere: Option<Arc<Client>> = None;
    let mut followed = 0;
    while head.is_redirect() {
        let at = elsewhere.as_deref().unwrap_or(client);
        let place = if followed == REDIRECTS_MAX {
            Err(Refusal::too_many())
        } else {
            redirect::follow(&client.address, &client.allowed, &at.address, &target, head.location.as_ref())
        };
        let place = match place {
            Ok(place) => place,
            Err(refusal) => {
                head.refusal = Some(Box::new(refusal));
                break;
            }
        };
        if !at.address.is_same_origin(&place.address) {
            elsewhere = Some(Arc::new(client.elsewhere(place.address)));
        }
        let reusable = open.discard(&mut head.framing).await && open.is_read() && !head.close;
        kept.put(reusable.then_some(Idle { open, written: None, ends: false }));
        (target, followed) = (place.target, followed + 1);
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&target);
        (open, head) = match &elsewhere {
            None => {
                let idle = kept.take();
                once(client, kept, idle, clock.clone(), extra, write).await?
            }
            Some(other) => {
                let idle = kept.take_away(other);
                let (mut open, head) = once(other, kept, idle, clock.clone(), extra, write).await?;
                open.elsewhere = Some(other.clone());
                (open, head)
            }
        };
        // Where every object is a redirect, requests sent ahead would all be sent twice.
        head.echo = Echo::Missing;
    }
    Ok((open, head))
}

/// Sends a request over the kept connection, or over a fresh one, and reads the head of its answer.
///
/// A kept connection may be closed by the server in the moment the request is sent. When it ends before a byte of an
/// answer, the request is sent once more, on a fresh one: that is nobody's fault, and costs no try.
async fn once<C: Fn() -> Duration, W>(
    client: &Client,
    kept: &mut Kept<C, W>,
    idle: Option<Idle<C, W>>,
    clock: C,
    extra: &[u8],
    target: impl Fn(&mut Vec<u8>),
) -> Result<(Box<Connection<C>>, Head)> {
    // One that was closed meanwhile, or holds bytes nobody asked for, is no good any more.
    let mut doubtful = None;
    if let Some(Idle { mut open, written, .. }) = kept.if_quiet(idle) {
        match open.ask(client, extra, &target).await {
            Ok(head) => return Ok((open, head)),
            Err(_) if open.is_untouched() => {}
            // Either this answer is none, or that before it was longer than it said: a fresh connection shows which.
            Err(_) if open.is_no_answer() => doubtful = written,
            Err(error) => return Err(error),
        }
    }
    let answered = match Connection::open(client, clock).await.map(Box::new) {
        Ok(mut fresh) => match fresh.ask(client, extra, &target).await {
            Ok(head) => Ok((fresh, head)),
            Err(error) if fresh.is_no_answer() => return Err(error),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    // Also where nothing could be shown.
    kept.overlong.extend(doubtful);
    answered
}
