//! Asking for one thing: over a connection that was kept, or over a fresh one, and on to where a redirect leads. Not here:
//! where it may lead (`redirect.rs`), what is asked and what becomes of the answer (`drive.rs`).

use std::sync::Arc;
use std::time::Duration;

use super::Client;
use super::connection::Connection;
use super::head::Head;
use super::redirect::{self, REDIRECTS_MAX, Refusal};
use super::request_id::Echo;
use super::stream::Behind;
use crate::error::Result;

/// A connection with nothing unanswered, and the object that its last answer brought.
pub(crate) struct Idle<C, W> {
    pub open: Box<Connection<C>>,
    pub written: Option<W>,
    /// The service closes it: nothing more may be asked on it.
    pub ends: bool,
}

/// The connections that are kept between one request and the next: one to the service, and one to the last other host that
/// a redirect has led to.
pub(crate) struct Kept<C, W> {
    home: Option<Idle<C, W>>,
    away: Option<Idle<C, W>>,
    /// The last one that ends.
    ending: Option<Idle<C, W>>,
    /// Objects with more bytes behind their answers than were announced. The caller of `ask` takes them from here.
    pub overlong: Vec<W>,
}

impl<C, W> Default for Kept<C, W> {
    fn default() -> Self {
        Kept { home: None, away: None, ending: None, overlong: Vec::new() }
    }
}

impl<C: Fn() -> Duration, W> Kept<C, W> {
    /// Keeps a connection: to be used again, or to see what comes until the next one is kept.
    pub fn put(&mut self, idle: Option<Idle<C, W>>) {
        let Some(idle) = idle else { return };
        let place = match (idle.ends, idle.open.elsewhere.is_some()) {
            (true, _) => &mut self.ending,
            (false, true) => &mut self.away,
            (false, false) => &mut self.home,
        };
        let before = place.replace(idle);
        self.if_quiet(before);
    }

    /// The connection to the service.
    pub fn take(&mut self) -> Option<Idle<C, W>> {
        self.home.take()
    }

    /// Waits until something comes on one of the connections, and looks which can still be used.
    pub async fn watch(&mut self) {
        tokio::select! {
            () = comes(&self.home) => {}
            () = comes(&self.away) => {}
            () = comes(&self.ending) => {}
        }
        let (home, away, ending) = (self.home.take(), self.away.take(), self.ending.take());
        self.home = self.if_quiet(home);
        self.away = self.if_quiet(away);
        self.ending = self.if_quiet(ending);
    }

    /// The last look at the connections: bytes behind their last answers blame those.
    pub fn end(&mut self) {
        for mut idle in [self.home.take(), self.away.take(), self.ending.take()].into_iter().flatten() {
            idle.open.receive();
            self.if_quiet(Some(idle));
        }
    }

    /// The connection, if nothing has come on it since its last answer.
    fn if_quiet(&mut self, idle: Option<Idle<C, W>>) -> Option<Idle<C, W>> {
        let mut idle = idle?;
        match idle.open.behind() {
            Behind::Nothing => return Some(idle),
            Behind::Bytes => self.overlong.extend(idle.written),
            Behind::Answer | Behind::End => {}
        }
        None
    }

    fn take_away(&mut self, to: &Client) -> Option<Idle<C, W>> {
        let is_there = |idle: &Idle<C, W>| {
            idle.open.elsewhere.as_ref().is_some_and(|client| client.address.is_same_origin(&to.address))
        };
        if self.away.as_ref().is_some_and(is_there) { self.away.take() } else { None }
    }
}

/// Something has come on this connection, if there is one.
async fn comes<C: Fn() -> Duration, W>(idle: &Option<Idle<C, W>>) {
    match idle {
        Some(idle) => idle.open.readable().await,
        None => std::future::pending().await,
    }
}

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
