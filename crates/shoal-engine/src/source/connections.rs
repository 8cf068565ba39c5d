//! Keeps as many connections of a lane to one service at work as the lane allows. Not here: what they request
//! (`RequestHandler` of each source), connections to many hosts (`urls/`).

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use shoal_http::{Client, Ending, Next, RequestHandler, run_requests};
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
    /// Nothing is requested until headers or keys have come.
    held_up: Cell<bool>,
}

impl Connections {
    /// Those of this lane, none so far.
    pub fn new(lane: Rc<dyn Lane>, findings: Arc<Findings>) -> Connections {
        Connections { lane, findings, running: Cell::new(0), stopped: Cell::new(false), held_up: Cell::new(false) }
    }

    /// What a connection does instead of asking for a job, if anything. Asked before every job.
    pub fn instead<J>(&self, client: &Client) -> Option<Next<J>> {
        if self.running.get() > self.wanted(client) {
            return Some(Next::Stop); // one too many since the limit was lowered
        }
        self.held_up.set(!client.fields.is_ready());
        self.held_up.get().then_some(Next::Wait)
    }

    /// Resolves when there may be a job for a connection that has none.
    pub async fn wake(&self, client: &Client) {
        tokio::select! {
            () = self.lane.wake() => {}
            Ok(()) = client.fields.ready(), if self.held_up.get() => {}
        }
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
