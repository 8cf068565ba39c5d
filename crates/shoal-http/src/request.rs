//! Sends one request over an idle connection or a new one, and follows redirects. Not here: where a redirect may lead
//! (`redirect.rs`), which request is sent and what becomes of the answer (`client_loop.rs`).

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::connection::Connection;
use crate::head::{CONDITION, Head};
use crate::idle_connections::{IdleConnection, IdleConnections};
use crate::message::{Method, Request};
use crate::redirect::{self, REDIRECTS_MAX, RedirectRefused};
use crate::request_id::Echo;
use crate::stream::Trailing;
use shoal_core::error::{Kind, Result};

/// Sends a request and reads the head of its answer. Redirects of a GET are followed: the head is a redirect only if
/// `redirect.rs` refuses it, or of another method. `redirected` is called when the service has answered with a redirect.
/// The caller reads the body, and then passes the connection to [`IdleConnections::keep`].
///
/// # Errors
/// Those of signing, of connecting, of sending and of reading. A request that is dropped, or fails before all of it was sent, ends
/// its connection.
pub async fn send<C: Fn() -> Duration + Clone, W>(
    client: &Client,
    connections: &mut IdleConnections<C, W>,
    clock: C,
    request: &Request<'_>,
    redirected: impl Fn(),
) -> Result<(Box<Connection<C, W>>, Head)> {
    let idle = connections.take();
    let (open, mut head) = send_once(client, connections, idle, clock.clone(), request).await?;
    if !head.is_redirect() {
        return Ok((open, head));
    }
    if request.method() != Method::Get {
        head.refuse(RedirectRefused::of(request.method()));
        return Ok((open, head));
    }
    redirected();
    follow_redirects(client, connections, clock, request, (open, head)).await
}

/// The same, after the headers of requests have come, and once more if they have expired. Not for requests that are sent ahead.
///
/// # Errors
/// As `send`.
pub async fn send_current<C: Fn() -> Duration + Clone, W>(
    client: &Client,
    connections: &mut IdleConnections<C, W>,
    clock: C,
    request: &Request<'_>,
) -> Result<(Box<Connection<C, W>>, Head)> {
    loop {
        client.fields.ready().await?;
        let (open, head) = send(client, connections, clock.clone(), request, || ()).await?;
        if !client.fields.asks_again(&head, request.target()) {
            return Ok((open, head));
        }
    }
}

async fn follow_redirects<C: Fn() -> Duration + Clone, W>(
    client: &Client,
    connections: &mut IdleConnections<C, W>,
    clock: C,
    first: &Request<'_>,
    (mut open, mut head): (Box<Connection<C, W>>, Head),
) -> Result<(Box<Connection<C, W>>, Head)> {
    // What the service said of its object when it was copied says nothing of what is at another URL.
    let fields = if first.own_fields().starts_with(CONDITION) { b"" } else { first.own_fields() };
    let mut target = first.target().to_vec();
    // After a redirect to another host, no secrets are sent any more, even if that host redirects back to the service.
    let mut other_host: Option<Arc<Client>> = None;
    let private = open.is_private(client);
    let mut followed = 0;
    while head.is_redirect() {
        let at = other_host.as_deref().unwrap_or(client);
        let place = if followed == REDIRECTS_MAX {
            Err(RedirectRefused::too_many())
        } else {
            redirect::follow(&client.address, &client.allowed, client.leaves, &at.address, &target, head.location())
        };
        let place = match place {
            Ok(place) => place,
            Err(refusal) => {
                head.refuse(refusal);
                break;
            }
        };
        if !at.address.is_same_origin(&place.address) {
            other_host = Some(Arc::new(client.for_other_host(place.address, private)?));
        }
        let reusable = open.discard(&mut head.framing).await && open.is_read() && !head.close;
        open.unproven.push(None, head.echo);
        connections.put(reusable.then_some(IdleConnection { open, closes: false }));
        (target, followed) = (place.target, followed + 1);
        let request = Request::new(Method::Get, &target).fields(fields).after_redirect();
        (open, head) = match &other_host {
            None => {
                let idle = connections.take();
                send_once(client, connections, idle, clock.clone(), &request).await?
            }
            Some(other) => {
                let (targets, origin) = (client.targets.as_ref(), other.address.origin());
                let probe = targets.map_or(Ok(false), |targets| targets.ask(&origin))?;
                let idle = connections.take_other_host(other);
                let asked = send_once(other, connections, idle, clock.clone(), &request).await;
                // A failure of an object names the object, so the other host must be named here.
                let asked = asked.map_err(|error| match other.received {
                    true => error.suffix(&format!(", at \"{}\" where a redirect leads", other.address.shown())),
                    false => error,
                });
                let (mut open, head) = match (asked, targets) {
                    (Ok(answered), Some(targets)) => {
                        targets.answered(&origin, probe);
                        answered
                    }
                    (Err(error), Some(targets)) => return Err(targets.failed(&origin, probe, error)),
                    (asked, None) => asked?,
                };
                open.other_host = Some(other.clone());
                (open, head)
            }
        };
        // If every object is a redirect, each pipelined request would have to be sent twice.
        head.echo = Echo::Missing;
        head.redirected(other_host.is_none().then_some(&target));
    }
    Ok((open, head))
}

/// Sends a request over the idle connection, or over a new one, and reads the head of its answer.
///
/// A server may close an idle connection just when the request is sent. If the connection ends before the first byte of
/// an answer, the request is sent once more, on a new connection, unless it is to be sent once. That is not counted as an
/// attempt.
async fn send_once<C: Fn() -> Duration, W>(
    client: &Client,
    connections: &mut IdleConnections<C, W>,
    idle: Option<IdleConnection<C, W>>,
    clock: C,
    request: &Request<'_>,
) -> Result<(Box<Connection<C, W>>, Head)> {
    // A connection that was closed meanwhile, or that has received unexpected bytes, is not used any more.
    let mut doubtful = None;
    if let Some(IdleConnection { mut open, .. }) = connections.if_idle(idle) {
        let number = match open.queue(client, request) {
            Ok(number) => number,
            Err(error) => {
                connections.put(Some(IdleConnection { open, closes: false })); // nothing was sent
                return Err(error);
            }
        };
        match open.send(number).await {
            Ok(head) => return answered(client, open, head),
            Err(_) if open.nothing_received() && !request.is_once() => {}
            Err(error) if open.is_ahead => {
                // One that had the id of its request is right: it was followed by an answer.
                if open.unproven.is_by_order() {
                    connections.doubted.extend(open.unproven.doubt(Trailing::Ahead));
                }
                return Err(error);
            }
            Err(error) if open.may_begin_answer() => return Err(error),
            // Either this is not an answer, or the one before was longer than announced: a new connection tells.
            Err(_) if !request.is_once() => doubtful = Some(open),
            Err(error) => {
                connections.doubted.extend(open.unproven.doubt(Trailing::Bytes));
                return Err(error);
            }
        }
    }
    let answered = match Connection::open(client, connections.wants.clone(), clock, &connections.findings).await {
        Ok(fresh) => {
            let mut fresh = Box::new(fresh);
            match fresh.queue(client, request) {
                Ok(number) => match fresh.send(number).await {
                    Ok(head) => answered(client, fresh, head),
                    Err(error) if !fresh.may_begin_answer() => return Err(error),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    // Also if the new connection could not be made: then the object before remains suspect.
    if let Some(mut open) = doubtful {
        connections.doubted.extend(open.unproven.doubt(Trailing::Bytes));
    }
    answered.map_err(|error| match &client.proxy {
        Some(proxy) if matches!(error.kind(), Kind::Timeout | Kind::Disconnected) => {
            error.suffix(&format!(", through the proxy {}", proxy.shown()))
        }
        _ => error,
    })
}

/// An answer, unless it is the proxy that asks for credentials: a service behind it must not end the run.
fn answered<O>(client: &Client, open: O, head: Head) -> Result<(O, Head)> {
    match client.forwards().filter(|_| head.status == 407) {
        Some(proxy) => Err(proxy.credentials(head.status)),
        None => {
            client.answered(&head);
            Ok((open, head))
        }
    }
}
