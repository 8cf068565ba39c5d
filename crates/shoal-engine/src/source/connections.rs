//! Keeps as many connections of a lane to one service at work as the lane allows. Not here: what they request
//! (`RequestHandler` of each source), connections to many hosts (`urls/`).

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use shoal_http::{Client, Ending, RequestHandler, run_requests};
use tokio::task::JoinSet;

use super::http_objects::connections_wanted;
use super::{Lane, Take};
use crate::findings::Findings;

/// What the connections of a lane share.
pub struct Connections {
    /// Their lane.
    pub lane: Rc<dyn Lane>,
    /// Where they report what they find out.
    pub findings: Arc<Findings>,
    running: Cell<usize>,
    stopped: Cell<bool>,
}

impl Connections {
    /// Those of this lane, none so far.
    pub fn new(lane: Rc<dyn Lane>, findings: Arc<Findings>) -> Connections {
        Connections { lane, findings, running: Cell::new(0), stopped: Cell::new(false) }
    }

    /// Whether there is one more than the lane allows, since its limit was lowered. Asked before every job.
    pub fn are_too_many(&self, client: &Client) -> bool {
        self.running.get() > self.wanted(client)
    }

    /// The next job of the lane.
    pub fn take(&self) -> Take {
        let take = self.lane.take();
        if matches!(take, Take::Stop) {
            self.stopped.set(true);
        }
        take
    }

    /// Whether the lane has said that there are no more jobs.
    pub fn are_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Connections that what may be in flight takes. The run learns the depth at once.
    fn wanted(&self, client: &Client) -> usize {
        self.findings.report_depth(client.pipelining.proven_depth(usize::MAX));
        connections_wanted(self.lane.limits(), &client.pipelining)
    }

    /// Runs them until the lane has no more jobs; more are started and some end as what it allows changes. Each has a handler
    /// of its own. `beside` is awaited again and again meanwhile.
    pub async fn run<S, H>(
        self: &Rc<Self>,
        service: &Arc<S>,
        client: fn(&S) -> &Client,
        handler: impl Fn() -> H,
        beside: impl AsyncFn(),
    ) where
        S: 'static,
        H: RequestHandler + 'static,
    {
        let mut connections = JoinSet::new();
        let mut waiting = pin!(beside());
        loop {
            while self.running.get() < self.wanted(client(service)) && !self.stopped.get() {
                self.running.set(self.running.get() + 1);
                let (own, service, handler) = (self.clone(), service.clone(), handler());
                connections.spawn_local(async move {
                    let ending = run_requests(client(&service), &handler).await;
                    own.running.set(own.running.get() - 1);
                    ending.end().await;
                });
            }
            tokio::select! {
                ended = connections.join_next() => match ended {
                    Some(Err(failed)) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
                    Some(_) => {}
                    None if self.stopped.get() => return,
                    None => {}
                },
                () = self.lane.wake(), if !self.stopped.get() => {}
                () = &mut waiting => waiting.set(beside()),
            }
        }
    }
}
