//! The loop of one worker: takes jobs, and sends their requests over one connection after the other. Not here: one
//! request (`request.rs`), its answer (`respond.rs`), pipelined requests (`pipelined_connection.rs`).

use std::collections::VecDeque;
use std::time::Duration;

use crate::client::Client;
use crate::idle_connections::IdleConnections;
use crate::message::{Method, Request};
use crate::pipeline_check::check_pipelining;
use crate::pipelined_connection::run_pipelined;
use crate::reader::Trust;
use crate::request::send;
use crate::request_handler::{Next, RequestHandler};
use crate::request_id::Echo;
use crate::respond::{BodyCheck, SingleRequest, respond};

/// Takes jobs and answers them until `next` says stop. The first request on each connection is sent alone; after it,
/// requests are pipelined if that is safe and helps. The result is what is left to `end`.
pub async fn run_requests<'a, E: RequestHandler>(client: &Client, handler: &'a E) -> impl Ending + use<'a, E> {
    let clock = move || handler.stalled();
    let pipelining = &client.pipelining;
    let mut guarded =
        LoopConnections { connections: IdleConnections::new(handler.findings().clone(), handler.wants()), handler };
    let connections = &mut guarded.connections;
    let mut single = VecDeque::new();
    let (mut target, mut condition) = (Vec::new(), Vec::new());
    loop {
        let SingleRequest { job, pipelined } = match single.pop_front() {
            Some(single) => single,
            None => match handler.next() {
                Next::Stop => return guarded,
                Next::Wait => {
                    tokio::select! {
                        () = handler.wake() => {}
                        () = connections.wait() => connections.report_doubted(handler),
                    }
                    continue;
                }
                Next::Job(job) => SingleRequest::new(job),
            },
        };
        target.clear();
        condition.clear();
        handler.target(&job, &mut target);
        handler.condition(&job, &mut condition);
        let request = Request::new(Method::Get, &target).fields(&condition);
        let answered = send(client, connections, clock, &request, || handler.redirected()).await;
        connections.report_doubted(handler);
        let (open, head) = match answered {
            Ok(answered) => answered,
            Err(error) => {
                handler.failed(job, error);
                if pipelined.is_some() {
                    pipelining.samples.missed();
                }
                continue;
            }
        };
        let (echo, close, took) = (head.echo, head.close, open.first_answer_time());
        let mut to_check = None;
        let check = match pipelined {
            Some(hash) => BodyCheck::Sample(hash),
            None if echo != Echo::Right && pipelining.collects_objects() => BodyCheck::Collect(&mut to_check),
            None => BodyCheck::Nothing,
        };
        connections.put(respond(client, open, handler, job, head, false, check).await);
        connections.report_doubted(handler);
        if !single.is_empty() {
            continue;
        }
        pipelining.single_answered(echo, close, took);
        if let Some(objects) = to_check {
            check_pipelining(client, handler, &objects).await;
        }
        let trust = match echo {
            Echo::Right => Trust::Ids,
            _ if pipelining.trusts_order() => Trust::Order,
            _ => continue,
        };
        if pipelining.depth(handler.depth()) < 2 {
            continue;
        }
        let probe = if pipelining.works() { None } else { pipelining.probe() };
        if (pipelining.works() || probe.is_some())
            && let Some(idle) = connections.take()
        {
            connections.put(run_pipelined(client, handler, idle, trust, probe, &mut single).await);
        }
    }
}

/// The connections of `run_requests` when there is nothing more to request.
pub trait Ending {
    /// Closes them, and waits a little for what shows that objects are wrong. The worker counts no longer.
    fn end(self) -> impl Future<Output = ()>;
}

impl<E: RequestHandler, C: Fn() -> Duration> Ending for LoopConnections<'_, E, C> {
    async fn end(mut self) {
        self.connections.end().await;
    }
}

/// The connections of `run_requests`. Its future may be dropped at any await, when the run is stopped.
struct LoopConnections<'a, E: RequestHandler, C: Fn() -> Duration> {
    connections: IdleConnections<C, E::Written>,
    handler: &'a E,
}

impl<E: RequestHandler, C: Fn() -> Duration> Drop for LoopConnections<'_, E, C> {
    fn drop(&mut self) {
        self.connections.close();
        self.connections.report_doubted(self.handler);
    }
}

impl<C, W> IdleConnections<C, W> {
    fn report_doubted<E: RequestHandler<Written = W>>(&mut self, handler: &E) {
        self.doubted.drain(..).for_each(|(passed, doubt)| handler.doubted(passed, doubt));
    }
}
