//! Getting objects: what one lane's connections ask for, and what each answer means.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shoal_engine::error::Class;
use shoal_engine::source::{
    Body, Connections, Entries, Fetcher, Job, Lane, LocalFuture, Take, WHOLE_MAX, Written, http_objects,
};
use shoal_engine::{Error, Findings, Kind, ObjectMeta, Partition, Result};
use shoal_http::{Doubt, Head, Next, Passed, Plan, RequestHandler, Wants};

use crate::answer::{Asked, Meaning, meaning};
use crate::checksum::{Checksum, HEADERS, TYPE};
use crate::entries::{Objects, key_of};
use crate::pager::again;
use crate::service::Service;
use crate::store::Store;

/// Asks for the checksum that was stored with an object.
const CHECKSUM_MODE: &[u8] = b"x-amz-checksum-mode: ENABLED\r\n";
const TAG: &str = "etag";
/// How long to wait before the bucket is looked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// The fetcher of one lane.
pub(crate) struct Fetch {
    store: Arc<Store>,
    findings: Arc<Findings>,
}

impl Fetch {
    pub fn new(store: Arc<Store>) -> Fetch {
        Fetch { store, findings: Arc::default() }
    }

    /// The bucket at its address. The listing waits for it too, and tells if it stays away.
    async fn service(&self, lane: &dyn Lane) -> Option<Arc<Service>> {
        let since = std::time::Instant::now();
        loop {
            match self.store.service().await {
                Ok(service) => return Some(service.clone()),
                Err(error) => {
                    let is_late = since.elapsed() > self.store.options.connection.retry_timeout;
                    match lane.take() {
                        Take::Stop => return None,
                        Take::Wait => {}
                        Take::Job(job) if is_late || error.class() == Class::Run => {
                            lane.failed(job, unreachable(error))
                        }
                        Take::Job(job) => lane.requeued(job),
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

fn unreachable(error: Error) -> Error {
    if error.class() == Class::Run { error } else { error.into_kind(Kind::Unreachable) }
}

impl Fetcher for Fetch {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.findings = findings.clone();
    }

    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let objects = Objects::new(&self.store, &partition.payload).map(|objects| Rc::new(objects) as Rc<dyn Entries>);
        Box::pin(async move { objects })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let Some(service) = self.service(&*lane).await else { return Ok(()) };
            let connections = Rc::new(Connections::new(lane, self.findings.clone()));
            let jobs =
                || Jobs { service: service.clone(), connections: connections.clone(), is_again: Cell::new(false) };
            connections.run(&service, |service| &service.client, jobs, std::future::pending).await;
            Ok(())
        })
    }
}

struct Jobs {
    service: Arc<Service>,
    connections: Rc<Connections>,
    /// The answer that came last only says that its request must be signed anew.
    is_again: Cell<bool>,
}

/// An object that arrives in pieces.
struct Arriving {
    body: Body,
    checksum: Option<Checksum>,
    /// What the listing says of its size, unless the answer is a newer object.
    size: Option<u64>,
}

impl Jobs {
    /// Settles an object that an earlier run has left as it is listed now. Returns it if it is to be fetched.
    fn is_unchanged(&self, job: Job) -> Option<Job> {
        let lane = &*self.connections.lane;
        let known = job.known();
        let is_listed = |kept: &ObjectMeta| kept.size == known.size && kept.last_modified == known.modified;
        let kept = if job.is_tried() || known.size.is_none() { None } else { lane.kept(&job).filter(is_listed) };
        match kept {
            Some(kept) => lane.is_there(job, &mut |_| Some(kept.clone())),
            None => Some(job),
        }
    }

    /// The size that the listing tells, if this answer is the object that was listed.
    fn listed_size(&self, job: &Job, head: &Head) -> Option<u64> {
        let known = job.known();
        // Objects have a tag, and pages of a proxy hardly.
        let has_tag = head.field(TAG).is_some();
        let is_newer = |modified: SystemTime| has_tag && known.modified.is_some_and(|listed| modified > listed);
        known.size.filter(|_| !head.says_modified().is_some_and(is_newer))
    }

    /// Why an object is wrong, if it is. It is fetched once more, in case it was damaged on its way.
    fn integrity(&self, job: &Job, checksum: Option<Checksum>, size: Option<u64>, bytes: u64) -> Option<Error> {
        let why = match size {
            Some(size) if size != bytes => format!("{bytes} bytes came, and the listing says {size}"),
            _ if checksum.is_some_and(|checksum| !checksum.matches()) => {
                "its bytes do not have the checksum that was stored with it".to_owned()
            }
            _ => return None,
        };
        Some(Error::new(if job.is_tried() { Kind::Integrity } else { Kind::ShortBody }, why))
    }
}

impl RequestHandler for Jobs {
    type Job = Job;
    type Body = Arriving;
    type Written = Written;
    const WHOLE_MAX: usize = WHOLE_MAX;

    fn next(&self) -> Next<Job> {
        if let Some(instead) = self.connections.instead(&self.service.client) {
            return instead;
        }
        loop {
            match self.connections.take() {
                Take::Job(job) => {
                    if let Some(job) = self.is_unchanged(job) {
                        return Next::Job(job);
                    }
                }
                Take::Wait => return Next::Wait,
                Take::Stop => return Next::Stop,
            }
        }
    }

    async fn wake(&self) {
        self.connections.wake(&self.service.client).await;
    }

    fn target(&self, job: &Job, out: &mut Vec<u8>) {
        self.service.target(key_of(job.entry().locator), out);
    }

    fn condition(&self, _: &Job, out: &mut Vec<u8>) {
        out.extend_from_slice(CHECKSUM_MODE);
    }

    fn head(&self, job: &Job, head: &Head) -> Plan {
        if head.status != 200 {
            return Plan::Explain;
        }
        if head.is_unverified() {
            return Plan::Refuse(Error::new(Kind::Integrity, "the answer does not say how long it is"));
        }
        match head.length().and_then(|length| self.integrity(job, None, self.listed_size(job, head), length)) {
            Some(error) => Plan::Refuse(error),
            None => Plan::Keep,
        }
    }

    fn explain(&self, job: &Job, head: &Head, body: &[u8]) -> Error {
        let meaning = meaning(&self.service, Asked::Object, head, body);
        let mut target = Vec::new();
        self.target(job, &mut target);
        self.is_again.set(again(&self.service, &meaning, head, &target));
        match meaning {
            Meaning::Fails(error) if error.kind() == Kind::Vanished && !job.request().is_empty() => error.suffix(
                "; or its name has a percent sign or a plus, and the store says of its listing that it is encoded, but it is not",
            ),
            Meaning::Fails(error) | Meaning::Expired(error) | Meaning::Skewed(_, error) => error,
        }
    }

    fn whole(&self, job: Job, head: &Head, body: &[u8]) -> Option<Written> {
        let lane = &*self.connections.lane;
        let mut checksum = Checksum::of(head);
        if let Some(checksum) = &mut checksum {
            checksum.add(body);
        }
        match self.integrity(&job, checksum, self.listed_size(&job, head), body.len() as u64) {
            Some(error) => {
                lane.failed(job, error);
                None
            }
            None => http_objects::whole(lane, job, head, body),
        }
    }

    async fn begin(&self, job: &Job, head: &Head) -> Result<Arriving> {
        let body = http_objects::begin(&*self.connections.lane, job, head).await?;
        Ok(Arriving { body, checksum: Checksum::of(head), size: self.listed_size(job, head) })
    }

    fn piece(&self, arriving: &mut Arriving, piece: &[u8]) -> Result<()> {
        if let Some(checksum) = &mut arriving.checksum {
            checksum.add(piece);
        }
        arriving.body.write(piece)
    }

    fn finished(&self, job: Job, arriving: Arriving, result: Result<()>) -> Option<Written> {
        let Arriving { body, checksum, size } = arriving;
        let result = result.and_then(|()| self.integrity(&job, checksum, size, body.bytes()).map_or(Ok(()), Err));
        self.connections.lane.finished(job, body, result)
    }

    fn doubted(&self, passed: Passed<Written>, doubt: Doubt) {
        http_objects::withdraw(&*self.connections.lane, passed, doubt);
    }

    fn unchanged(&self, job: Job) {
        self.requeued(job); // never asked
    }

    fn failed(&self, job: Job, error: Error) {
        match self.is_again.take() {
            true => self.connections.lane.requeued(job),
            false => self.connections.lane.failed(job, error),
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
        1
    }

    fn wasted(&self, bytes: u64) {
        self.connections.lane.wasted(bytes);
    }

    fn note(&self, text: &str) {
        self.connections.lane.note(text);
    }

    fn wants(&self) -> Wants {
        let fields: Vec<&str> = HEADERS.into_iter().chain([TAG, TYPE, crate::service::BUCKET_REGION]).collect();
        Wants { verbatim: true, times: true, ..Wants::fields(&fields) }
    }

    fn findings(&self) -> &Arc<Findings> {
        &self.connections.findings
    }

    fn stalled(&self) -> Duration {
        self.connections.lane.stalled()
    }
}
