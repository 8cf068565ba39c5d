//! The connections that are open between one request and the next. Not here: requests (`asking.rs`).

use std::time::Duration;

use super::client::Client;
use super::connection::Connection;
use super::stream::Behind;

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
    pub(super) fn if_quiet(&mut self, idle: Option<Idle<C, W>>) -> Option<Idle<C, W>> {
        let mut idle = idle?;
        match idle.open.behind() {
            Behind::Nothing => return Some(idle),
            Behind::Bytes => self.overlong.extend(idle.written),
            Behind::Answer | Behind::End => {}
        }
        None
    }

    pub(super) fn take_away(&mut self, to: &Client) -> Option<Idle<C, W>> {
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
