//! Getting objects: what the connections of one lane request, and what each answer means.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_http::{Doubt, Ending, Head, Next, Passed, Plan, RequestHandler, Wants, run_requests};
use tokio::task::JoinSet;

use super::Shared;
use super::address::{Url, push_target, target_at};
use super::asked::Asked;
use super::entries::Opened;
use super::pools::{Pool, Pools};
use super::refusal::refusal;
use crate::error::{Error, Kind, Result};
use crate::findings::Findings;
use crate::hosts;
use crate::partition::Partition;
use crate::source::suffix;
use crate::source::{Body, Entries, Fetcher, Job, Lane, LocalFuture, WHOLE_MAX, Written, http_objects};

/// How long a connection is kept that has nothing to do.
const IDLE: Duration = Duration::from_secs(5);
/// How often it looks whether another lane wants it: that lane may have said so just before this one waited.
const IDLE_LOOK: Duration = Duration::from_millis(50);
/// How many of these a lane keeps, at least.
const IDLE_MIN: usize = 64;
/// How long to wait where nothing tells that there is room.
const LOOK: Duration = Duration::from_millis(10);

/// The fetcher of one lane.
pub(super) struct Fetch {
    shared: Arc<Shared>,
    findings: Arc<Findings>,
}

impl Fetch {
    pub fn new(shared: Arc<Shared>) -> Fetch {
        shared.hosts.lane_begins();
        Fetch { shared, findings: Arc::default() }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.shared.hosts.lane_ends();
    }
}

impl Fetcher for Fetch {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.findings = findings.clone();
    }

    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let opened = Opened::new(&partition.payload, &self.shared).map(|opened| Rc::new(opened) as Rc<dyn Entries>);
        Box::pin(async move { opened })
    }

    /// Passes objects on to the connections of their hosts; starts connections as they are needed.
    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let pools = Rc::new(Pools::new(self.shared.clone(), lane.clone(), self.findings.clone()));
            let mut connections = JoinSet::new();
            let mut look = tokio::time::interval(hosts::LOOK);
            look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                pools.waits.set(false);
                pools.look();
                pools.looks_again.set(false);
                while !pools.stopped.get() && pools.take(None) {
                    pools.look_again_in_time();
                }
                pools.start_wanting();
                for pool in pools.starts.take() {
                    let pools = pools.clone();
                    connections.spawn_local(async move {
                        let (idle_since, held_up) = Default::default();
                        let jobs = Jobs { pools: &pools, pool: &pool, idle_since, asked: Rc::default(), held_up };
                        pool.asked.borrow_mut().push(jobs.asked.clone());
                        let ending = run_requests(&pool.client, &jobs).await;
                        jobs.set_idle(false);
                        pool.asked.borrow_mut().retain(|asked| !Rc::ptr_eq(asked, &jobs.asked));
                        pools.ended(&pool);
                        ending.end().await;
                    });
                }
                if pools.stopped.get() && connections.is_empty() {
                    pools.give_back();
                    return Ok(());
                }
                pools.waits.set(true);
                tokio::select! {
                    Some(ended) = connections.join_next() => match ended {
                        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
                        _ => {}
                    },
                    () = lane.wake(), if !pools.stopped.get() => {}
                    () = pools.changed.notified() => {}
                    _ = look.tick() => pools.tell_what_hangs(),
                    () = tokio::time::sleep(LOOK), if pools.looks_again.get() => {}
                }
            }
        })
    }
}

/// What one connection requests.
struct Jobs<'a> {
    pools: &'a Rc<Pools>,
    pool: &'a Rc<Pool>,
    /// Since when it has nothing to do.
    idle_since: Cell<Option<Instant>>,
    asked: Rc<Asked>,
    /// Nothing is requested until new headers have come.
    held_up: Cell<bool>,
}

impl Jobs<'_> {
    fn answered(&self, job: &Job) {
        self.asked.answered(job);
        self.pool.host.answered();
    }

    /// The head of an answer has arrived.
    fn answers(&self) {
        self.arrives();
        if !self.pools.lane.has_answered(self.pool.id) {
            self.pools.lane.hears(self.pool.id);
        }
    }

    fn arrives(&self) {
        self.pool.host.arrived.set(true);
        self.asked.arrives().into_iter().for_each(|job| self.pools.lane.arrives(job));
    }

    /// The path of the URL of an object.
    fn path(&self, job: &Job) -> Vec<u8> {
        let mut target = Vec::new();
        self.target(job, &mut target);
        target.truncate(memchr::memchr(b'?', &target).unwrap_or(target.len()));
        target
    }

    fn set_idle(&self, is_idle: bool) {
        match (is_idle, self.idle_since.get()) {
            (true, None) => {
                self.idle_since.set(Some(Instant::now()));
                self.pools.idle.set(self.pools.idle.get() + 1);
            }
            (false, Some(_)) => {
                self.idle_since.set(None);
                self.pools.idle.set(self.pools.idle.get() - 1);
            }
            _ => {}
        }
    }

    /// Whether there is a connection too many: the limit was lowered, or another lane has none.
    fn is_one_too_many(&self) -> bool {
        let (pools, pool) = (self.pools, self.pool);
        pool.connections.get() > pool.wanted(pools.limits())
            || pool.host.site.is_wanted() && pool.host.connections.get() > pools.shared.hosts.fair()
    }
}

impl RequestHandler for Jobs<'_> {
    type Job = Job;
    type Body = Body;
    type Written = Written;
    const WHOLE_MAX: usize = WHOLE_MAX;

    fn next(&self) -> Next<Job> {
        self.pools.look_again_in_time();
        if self.is_one_too_many() {
            return Next::Stop;
        }
        self.held_up.set(!self.pools.stopped.get() && !self.pool.client.fields.is_ready());
        if self.held_up.get() {
            return Next::Wait;
        }
        while !self.pools.stopped.get() {
            if let Some(job) = self.pool.queue.borrow_mut().pop_front() {
                self.set_idle(false);
                self.asked.asks(&job);
                self.pools.asks(&self.pool.client);
                return Next::Job(job);
            }
            if !self.pools.take(Some(self.pool)) {
                break;
            }
        }
        let too_many = self.pools.idle.get() >= IDLE_MIN.max(2 * self.pools.limits().in_flight);
        let is_over = match self.idle_since.get() {
            _ if self.pool.host.site.is_wanted() => true, // another lane has work for it
            _ if self.pools.shared.hosts.is_crowded() => true,
            Some(since) => since.elapsed() >= IDLE,
            None => too_many,
        };
        if is_over || self.pools.stopped.get() {
            return Next::Stop;
        }
        self.set_idle(true);
        Next::Wait
    }

    async fn wake(&self) {
        tokio::select! {
            () = self.pool.wake.notified() => {}
            () = self.pool.host.site.wanted.notified() => {}
            Ok(()) = self.pool.client.fields.ready(), if self.held_up.get() => {}
            () = tokio::time::sleep(IDLE_LOOK) => {}
        }
    }

    fn target(&self, job: &Job, out: &mut Vec<u8>) {
        if let Some(target) = target_at(job.request(), &self.pool.service) {
            push_target(target, out);
        } else if let Some(url) = std::str::from_utf8(job.request()).ok().and_then(|text| Url::parse(text).ok()) {
            url.push_target(out);
        }
    }

    fn condition(&self, job: &Job, out: &mut Vec<u8>) {
        http_objects::push_condition(&*self.pools.lane, job, out);
    }

    fn redirected(&self) {
        self.answers();
        if let Some(job) = self.asked.redirected() {
            self.pools.lane.arrives(job);
        }
    }

    fn is_as_sent(&self, job: &Job, head: &Head) -> bool {
        let shared = &self.pools.shared;
        http_objects::is_as_sent(shared.options.http.decode, &shared.hosts.remarks, head, |encoding| {
            encoding.is_of(&[job.entry().name, &self.path(job)])
        })
    }

    fn head(&self, job: &Job, head: &Head) -> Plan {
        self.answers();
        if let Some(plan) = http_objects::not_modified(&*self.pools.lane, job, head) {
            return plan;
        }
        if self.pool.client.fields.asks_again(head, job.request()) {
            return Plan::Again;
        }
        match refusal(&self.pools.shared, head, || suffix::form(&[job.entry().name, &self.path(job)])) {
            None => Plan::Keep,
            Some(error) => Plan::Refuse(error.retry_after(head.retry_after())),
        }
    }

    fn whole(&self, job: Job, head: &Head, body: &[u8]) -> Option<Written> {
        self.answered(&job);
        http_objects::whole(&*self.pools.lane, job, head, body)
    }

    async fn begin(&self, job: &Job, head: &Head) -> Result<Body> {
        self.asked.set_held_up(true);
        let begun = http_objects::begin(&*self.pools.lane, job, head).await;
        self.asked.set_held_up(false);
        begun
    }

    fn piece(&self, body: &mut Body, piece: &[u8]) -> Result<()> {
        self.arrives();
        body.write(piece)
    }

    fn finished(&self, job: Job, body: Body, result: Result<()>) -> Option<Written> {
        self.answered(&job);
        if result.is_err() {
            self.pools.shared.keep(job.entry().locator, job.request());
        }
        self.pools.lane.finished(job, body, result)
    }

    fn doubted(&self, passed: Passed<Written>, doubt: Doubt) {
        http_objects::withdraw(&*self.pools.lane, passed, doubt);
    }

    fn unchanged(&self, job: Job) {
        self.answered(&job);
        if let Some((job, error)) = http_objects::unchanged(&*self.pools.lane, job) {
            self.pool.failed(self.pools, job, error, self.asked.is_redirected());
        }
    }

    fn failed(&self, job: Job, error: Error) {
        self.answered(&job);
        if error.kind() == Kind::OutOfFiles {
            self.pools.shared.hosts.lacks_files();
        }
        self.pool.failed(self.pools, job, error, self.asked.is_redirected());
    }

    fn requeued(&self, job: Job) {
        self.answered(&job);
        self.pools.lane.requeued(job);
    }

    fn is_alone(&self, job: &Job) -> bool {
        job.is_tried()
    }

    fn is_doubted(&self, job: &Job) -> bool {
        job.is_doubted()
    }

    fn depth(&self) -> usize {
        let limits = self.pools.limits();
        http_objects::depth(limits, &self.pool.client.pipelining)
    }

    fn wasted(&self, bytes: u64) {
        self.pools.lane.wasted(bytes);
    }

    fn note(&self, text: &str) {
        self.pools.lane.note(text);
    }

    fn wants(&self) -> Wants {
        http_objects::wants(
            self.pools.shared.expect_type.as_ref(),
            self.pools.shared.options.http.decode,
            Some(&*self.pools.lane),
        )
    }

    fn findings(&self) -> &Arc<Findings> {
        &self.pools.findings
    }

    fn stalled(&self) -> Duration {
        self.pools.lane.stalled()
    }
}
