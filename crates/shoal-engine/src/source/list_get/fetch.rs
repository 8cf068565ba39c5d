//! Getting objects: what one lane's connections ask for, and what each answer means.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shoal_http::{Doubt, Head, Next, Passed, Plan, RequestHandler, Wants};
use tokio::sync::Notify;

use super::Service;
use super::cut::Names;
use super::doubt::{Came, Suspicion, form_of, page};
use super::refusal::refusal;
use crate::error::{Error, Kind, Result};
use crate::findings::Findings;
use crate::partition::Partition;
use crate::source::http_objects;
use crate::source::{
    Body, Connections, Entries, Entry, Fetcher, Job, Lane, LocalFuture, Take, Unlisted, WHOLE_MAX, Written,
};

/// The fetcher of one lane.
pub(super) struct Fetch {
    service: Arc<Service>,
    findings: Arc<Findings>,
}

impl Fetch {
    pub fn new(service: Arc<Service>) -> Fetch {
        Fetch { service, findings: Arc::default() }
    }
}

impl Fetcher for Fetch {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.findings = findings.clone();
    }

    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let names =
            Names::new(&partition.payload, &self.service.local_name).map(|names| Rc::new(names) as Rc<dyn Entries>);
        Box::pin(async move { names })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let service = &self.service;
            let connections = Rc::new(Connections::new(lane, self.findings.clone()));
            let held =
                Rc::new(Held { connections: connections.clone(), held: RefCell::default(), doubted: Notify::new() });
            let jobs = || Jobs {
                service: service.clone(),
                connections: connections.clone(),
                held: held.clone(),
                page: Cell::new(None),
            };
            let check = async || held.check(service).await;
            connections.run(service, |service| &service.client, jobs, check).await;
            held.release(None);
            Ok(())
        })
    }
}

/// Answers of a lane that are not believed until it is known what the service now answers for others (`doubt.rs`).
struct Held {
    connections: Rc<Connections>,
    held: RefCell<Vec<HeldAnswer>>,
    doubted: Notify,
}

struct HeldAnswer {
    job: Job,
    suspicion: Suspicion,
    /// What the service said, or is said of a page. A page that may be the object is asked for once more instead.
    error: Option<Error>,
}

impl Held {
    fn hold(&self, job: Job, suspicion: Suspicion, error: Option<Error>) {
        self.held.borrow_mut().push(HeldAnswer { job, suspicion, error });
        self.doubted.notify_one();
    }

    /// Waits for an answer to hold, and finds out what is to be thought of it.
    async fn check(&self, service: &Service) {
        self.doubted.notified().await;
        let first = self.held.borrow().first().map(|held| (held.suspicion, Box::from(held.job.entry().locator)));
        if let Some((suspicion, name)) = first {
            let name: Box<[u8]> = name;
            self.release(service.doubt.check(service, &self.connections.findings, suspicion, &name).await);
        }
    }

    /// Believes what is held; or, with an error, stops the run, and none of it has happened.
    fn release(&self, mut stop: Option<Error>) {
        let (lane, stopping) = (&self.connections.lane, stop.is_some() || self.connections.are_stopped());
        for held in self.held.take() {
            match (stop.take(), held.error) {
                (Some(stop), _) => lane.failed(held.job, stop),
                (None, Some(error)) if !stopping => lane.failed(held.job, error),
                (None, _) => lane.requeued(held.job),
            }
        }
    }
}

struct Jobs {
    service: Arc<Service>,
    connections: Rc<Connections>,
    held: Rc<Held>,
    /// The answer with the head that came last is held back; and whether it is no object, if the service still gives any.
    page: Cell<Option<(Suspicion, bool)>>,
}

impl RequestHandler for Jobs {
    type Job = Job;
    type Body = Body;
    type Written = Written;
    const WHOLE_MAX: usize = WHOLE_MAX;

    fn next(&self) -> Next<Job> {
        if let Some(instead) = self.connections.instead(&self.service.client) {
            return instead;
        }
        loop {
            match self.connections.take() {
                Take::Job(job) if job.entry().unlisted.is_some() => {
                    let error = left_out(job.entry().unlisted, job.request());
                    self.connections.lane.failed(job, error);
                }
                Take::Job(job) => return Next::Job(job),
                Take::Wait => return Next::Wait,
                Take::Stop => return Next::Stop,
            }
        }
    }

    async fn wake(&self) {
        self.connections.wake(&self.service.client).await;
    }

    fn target(&self, job: &Job, out: &mut Vec<u8>) {
        self.service.target(job.entry().locator, out);
    }

    fn condition(&self, job: &Job, out: &mut Vec<u8>) {
        http_objects::push_condition(&*self.connections.lane, job, out);
    }

    fn is_as_sent(&self, job: &Job, head: &Head) -> bool {
        let (decode, remarks) = (self.service.options.http.decode, &self.service.client.remarks);
        http_objects::is_as_sent(decode, remarks, head, |encoding| {
            let Entry { name, locator, .. } = job.entry();
            encoding.is_of(&[name, locator])
        })
    }

    fn head(&self, job: &Job, head: &Head) -> Plan {
        self.page.set(None);
        if let Some(plan) = http_objects::not_modified(&*self.connections.lane, job, head) {
            return plan;
        }
        if self.service.client.fields.asks_again(head, job.entry().locator) {
            return Plan::Again;
        }
        if self.service.options.index && head.redirected_to().is_some_and(|to| to.ends_with(b"/")) {
            let why = "it is a directory, and its link has no slash at the end, so that it was not listed";
            return Plan::Refuse(Error::new(Kind::BadAnswer, why));
        }
        if self.service.options.index && self.service.expect_type.is_none() && head.status == 200 && head.is_html {
            let last = job.entry().locator.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            if !last.contains(&b'.') {
                let why = "a web page came; it may be a directory that was not listed, because its link has no slash at \
                           the end";
                let hint = "if it is a file, accept it with `expect_type=\"*\"`";
                return Plan::Refuse(Error::new(Kind::UnexpectedType, why).hint(hint));
            }
        }
        match refusal(&self.service, head, || form_of(job.entry())) {
            None => match self.service.doubt.came(|| job.entry(), head) {
                Came::Object => Plan::Keep,
                _ if self.service.expect_type.is_some() => Plan::Keep,
                Came::Page => Plan::Refuse(page()),
                Came::Doubtful { suspicion, is_page } => {
                    self.page.set(Some((suspicion, is_page)));
                    Plan::Refuse(page())
                }
            },
            Some(error) => Plan::Refuse(error.retry_after(head.retry_after())),
        }
    }

    fn whole(&self, job: Job, head: &Head, body: &[u8]) -> Option<Written> {
        http_objects::whole(&*self.connections.lane, job, head, body)
    }

    async fn begin(&self, job: &Job, head: &Head) -> Result<Body> {
        http_objects::begin(&*self.connections.lane, job, head).await
    }

    fn piece(&self, body: &mut Body, piece: &[u8]) -> Result<()> {
        body.write(piece)
    }

    fn finished(&self, job: Job, body: Body, result: Result<()>) -> Option<Written> {
        self.connections.lane.finished(job, body, result)
    }

    fn doubted(&self, passed: Passed<Written>, doubt: Doubt) {
        http_objects::withdraw(&*self.connections.lane, passed, doubt);
    }

    fn unchanged(&self, job: Job) {
        if let Some((job, error)) = http_objects::unchanged(&*self.connections.lane, job) {
            self.connections.lane.failed(job, error);
        }
    }

    fn failed(&self, job: Job, error: Error) {
        match self.page.take() {
            Some((suspicion, is_page)) => self.held.hold(job, suspicion, is_page.then_some(error)),
            None => match self.service.doubt.refused(&error) {
                Some(refused) => self.held.hold(job, refused, Some(error)),
                None => self.connections.lane.failed(job, error),
            },
        }
    }

    fn requeued(&self, job: Job) {
        self.connections.lane.requeued(job);
    }

    fn is_alone(&self, job: &Job) -> bool {
        job.is_tried()
    }

    fn is_doubted(&self, job: &Job) -> bool {
        job.is_doubted()
    }

    fn depth(&self) -> usize {
        let limits = self.connections.lane.limits();
        http_objects::depth(limits, &self.service.client.pipelining)
    }

    fn wasted(&self, bytes: u64) {
        self.connections.lane.wasted(bytes);
    }

    fn note(&self, text: &str) {
        self.connections.lane.note(text);
    }

    fn wants(&self) -> Wants {
        http_objects::wants(
            self.service.expect_type.as_ref(),
            self.service.options.http.decode,
            Some(&*self.connections.lane),
        )
    }

    fn findings(&self) -> &Arc<Findings> {
        &self.connections.findings
    }

    fn stalled(&self) -> Duration {
        self.connections.lane.stalled()
    }
}

/// What became of objects that could not be listed. `why`: if the listing knows.
fn left_out(names: Option<Unlisted>, why: &[u8]) -> Error {
    let why = String::from_utf8_lossy(why);
    match names {
        Some(Unlisted::Below) => {
            return Error::new(Kind::Unlisted, format!("this directory could not be listed: {why}"))
                .hint("run the same command again to list it again");
        }
        Some(Unlisted::Itself) => return Error::new(Kind::BadAnswer, format!("this link was not followed: {why}")),
        _ => {}
    }
    let why = "files that the service cannot read, or with names that are too long or not UTF-8, are not copied: fix \
    them there and list again with `resume=\"update\"`";
    Error::new(Kind::ReadFailed, why)
}
