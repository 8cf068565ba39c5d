//! The connections that are kept between one request and the next. Not here: requests (`request.rs`).

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::connection::Connection;
use crate::head::{Head, Wants};
use crate::stream::Trailing;
use crate::unproven::{Doubt, Passed};
use shoal_core::findings::Findings;

/// A connection without unanswered requests.
pub(crate) struct IdleConnection<C, W> {
    pub open: Box<Connection<C, W>>,
    /// The service closes it: no more requests may be sent on it.
    pub closes: bool,
}

/// The connections that are kept: one to the service, and one to the last other host to which a redirect led.
pub struct IdleConnections<C, W> {
    service: Option<IdleConnection<C, W>>,
    other_host: Option<IdleConnection<C, W>>,
    /// The last one that the service closes: kept to see whether its answer was too long.
    closing: Option<IdleConnection<C, W>>,
    /// Objects that were passed on and may be wrong. The caller of `send` takes them from here.
    pub doubted: Vec<(Passed<W>, Doubt)>,
    /// Where a new connection that is late is reported.
    pub findings: Arc<Findings>,
    /// Which further fields of answers are needed.
    pub wants: Wants,
}

impl<C: Fn() -> Duration, W> IdleConnections<C, W> {
    /// None so far.
    pub fn new(findings: Arc<Findings>, wants: Wants) -> Self {
        IdleConnections { service: None, other_host: None, closing: None, doubted: Vec::new(), findings, wants }
    }

    /// Keeps a connection after an answer, if its body was read to the end and the service does not close it.
    pub fn keep(&mut self, open: Box<Connection<C, W>>, head: &Head) {
        self.put(head.is_read().then_some(IdleConnection { open, closes: head.close }));
    }

    /// Keeps a connection, to be used again or to see what follows its last answer.
    pub(crate) fn put(&mut self, idle: Option<IdleConnection<C, W>>) {
        let Some(idle) = idle else { return };
        let place = match (idle.closes, idle.open.other_host.is_some()) {
            (true, _) => &mut self.closing,
            (false, true) => &mut self.other_host,
            (false, false) => &mut self.service,
        };
        let before = place.replace(idle);
        self.if_idle(before);
    }

    /// Takes the connection to the service.
    pub(crate) fn take(&mut self) -> Option<IdleConnection<C, W>> {
        self.service.take()
    }

    /// Waits until something arrives on one of the connections, and drops those that can no longer be used.
    pub async fn wait(&mut self) {
        tokio::select! {
            () = readable(&self.service) => {}
            () = readable(&self.other_host) => {}
            () = readable(&self.closing) => {}
        }
        let (service, other_host, closing) = (self.service.take(), self.other_host.take(), self.closing.take());
        self.service = self.if_idle(service);
        self.other_host = self.if_idle(other_host);
        self.closing = self.if_idle(closing);
    }

    /// Drops all connections, after a last check of what follows their answers.
    pub fn close(&mut self) {
        for mut idle in [self.service.take(), self.other_host.take(), self.closing.take()].into_iter().flatten() {
            idle.open.receive();
            self.if_idle(Some(idle));
        }
    }

    /// Closes all connections, once the service has answered everything, and looks at what follows their answers. Only those
    /// of which several answers would be wrong are waited for.
    pub async fn end(&mut self) {
        for mut idle in [self.service.take(), self.other_host.take(), self.closing.take()].into_iter().flatten() {
            let trailing = match idle.open.unproven.has_several() {
                true => idle.open.last_trailing().await,
                false => {
                    idle.open.receive();
                    idle.open.trailing()
                }
            };
            self.doubted.extend(idle.open.unproven.doubt(trailing));
        }
    }

    /// Returns the connection if nothing has arrived since its last answer, which otherwise may be too long.
    pub(crate) fn if_idle(&mut self, idle: Option<IdleConnection<C, W>>) -> Option<IdleConnection<C, W>> {
        let mut idle = idle?;
        match idle.open.trailing() {
            Trailing::Nothing => return Some(idle),
            trailing => self.doubted.extend(idle.open.unproven.doubt(trailing)),
        }
        None
    }

    /// Takes the connection to another host, if it is to this one.
    pub(crate) fn take_other_host(&mut self, to: &Client) -> Option<IdleConnection<C, W>> {
        let is_there = |idle: &IdleConnection<C, W>| {
            idle.open.other_host.as_ref().is_some_and(|client| client.address.is_same_origin(&to.address))
        };
        if self.other_host.as_ref().is_some_and(is_there) { self.other_host.take() } else { None }
    }
}

/// Resolves when something arrives on this connection; never without a connection.
async fn readable<C: Fn() -> Duration, W>(idle: &Option<IdleConnection<C, W>>) {
    match idle {
        Some(idle) => idle.open.readable().await,
        None => std::future::pending().await,
    }
}
