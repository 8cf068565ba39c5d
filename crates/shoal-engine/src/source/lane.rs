//! `Lane`: what a fetcher may ask of the engine, with the jobs that it gets and the bodies that it writes. Not here: the
//! engine's side (`engine/lane/`).

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Entries, Entry, Known, LocalFuture};
use crate::error::{Error, HostId, Result};
use crate::key::ObjectKey;
use crate::object::{Fingerprint, ObjectMeta, ObjectWriter, Payload};
use crate::report::Settled;

/// One object to fetch. Answered exactly once.
pub struct Job {
    pub(crate) slot: u32,
    pub(crate) index: u32,
    pub(crate) entries: Rc<dyn Entries>,
    pub(crate) tried: bool,
    pub(crate) doubted: bool,
    pub(crate) again: bool,
    /// What the sink calls it.
    pub name: ObjectKey,
}

impl Job {
    /// What the source listed: raw name, locator, host.
    pub fn entry(&self) -> Entry<'_> {
        self.entries.get(self.index)
    }

    pub(crate) fn id(&self) -> JobId {
        JobId { slot: self.slot, index: self.index }
    }

    /// What the source needs to fetch it besides (`Entries::request`).
    pub fn request(&self) -> &[u8] {
        self.entries.request(self.index)
    }

    /// What the listing knows of it.
    pub fn known(&self) -> Known {
        self.entries.known(self.index)
    }

    /// Whether it has failed before. Then it is better requested alone.
    pub fn is_tried(&self) -> bool {
        self.tried
    }

    /// Whether this is a later retry, because its body was shorter or longer than announced.
    pub fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Whether an interrupted session may have begun it. What that session left at the destination is replaced.
    pub fn is_again(&self) -> bool {
        self.again
    }
}

/// Tells a job from the others that its lane has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId {
    pub(crate) slot: u32,
    pub(crate) index: u32,
}

/// Why others do not wait for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hangs {
    /// Nothing arrives from its host, which counts as paused until something does. If it is connected but has never answered,
    /// other objects ask it as well: it may be slow only with this one.
    Silent {
        /// Whether a connection to it was ever made.
        is_connected: bool,
    },
    /// Nothing arrives from another host, to which its host has redirected the request.
    Behind,
}

/// An object that was written. If the source finds out later that its bytes are wrong, it withdraws the object
/// (`Lane::withdraw`).
pub struct Written {
    /// The number of the partition it was written with.
    pub(crate) partition: u64,
    /// The number of the one it is counted in: another, where it was tried again.
    pub(crate) counted: u64,
    pub(crate) entries: Rc<dyn Entries>,
    pub(crate) index: u32,
    pub(crate) was: Was,
}

/// How an object was counted.
pub(crate) struct Counted {
    pub settled: Settled,
    /// Of one that had the bytes of another object of its name: whether it was withdrawn with that.
    pub is_gone: Option<Arc<AtomicBool>>,
}

/// What became of an object when it was written.
pub(crate) enum Was {
    /// This.
    Settled(Counted),
    /// The sink tells later.
    Later(Rc<RefCell<Later>>),
}

/// A write that the sink has under way, as the engine and what may withdraw it know it.
pub(crate) enum Later {
    /// Not known yet.
    Pending,
    /// Not known yet; but its source has withdrawn it.
    Withdrawn(Fingerprint, Error),
    /// Written or skipped.
    Settled(Counted),
    /// Failed: there is nothing to withdraw.
    Failed,
}

/// What `Lane::take` answers.
pub enum Take {
    /// Fetch this.
    Job(Job),
    /// No job now: a host is paused, the memory budget is used up or the next partition is not listed yet. Await
    /// `wake`, then call `take` again.
    Wait,
    /// There are no more jobs.
    Stop,
}

/// How much a fetcher may do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects in flight on this lane.
    pub in_flight: usize,
    /// Requests that may be unanswered on one connection.
    pub depth: usize,
    /// Half of what may be in flight is: what takes long may take the place of others.
    pub is_crowded: bool,
    /// Less is left than may be in flight: it is too late to try anything.
    pub is_ending: bool,
}

/// The engine's side of one lane, as a fetcher sees it. Never blocks for a consumer; writing may block on the disk.
pub trait Lane {
    /// The next object to fetch.
    fn take(&self) -> Take;
    /// The same for a source with many hosts: `has_room` says whether this lane can request another object from a host now.
    /// `own`: a connection to this host asks. Other hosts that had no room are then looked at only now and then.
    fn take_if(&self, own: Option<HostId>, has_room: &dyn Fn(HostId) -> bool) -> Take {
        let _ = (own, has_room);
        self.take()
    }
    /// Resolves when `take` may have another answer, or `limits` have changed.
    fn wake(&self) -> LocalFuture<'_, ()>;
    /// How much to do at once. This changes, so call it again from time to time.
    fn limits(&self) -> Limits;
    /// Lets `read` append a small object directly to the sink's buffer, if the sink has one. `read` appends at most
    /// [`WHOLE_MAX`](super::WHOLE_MAX) bytes, and one more to detect the end, without growing the vector otherwise. It returns whether
    /// the object is complete; if not, its bytes are dropped. Returns `None` if the job is answered, and the job if it
    /// is not, because `read` returned false or was not called.
    fn whole_in_place(&self, job: Job, read: &mut dyn FnMut(&Job, &mut Vec<u8>) -> bool) -> Option<Job> {
        let _ = read;
        Some(job)
    }
    /// Answers the job (`None`) if an earlier session of this run has left the object at the destination, with the size
    /// and time that `meta` returns. Else it returns the job. `meta` is called only if there is something to compare.
    fn is_there(&self, job: Job, meta: &mut dyn FnMut(&Job) -> Option<ObjectMeta>) -> Option<Job> {
        let _ = meta;
        Some(job)
    }
    /// Whether objects get the timestamps of their source.
    fn keeps_times(&self) -> bool {
        false
    }
    /// Whether the sink stores what the source says of an object beside its bytes.
    fn keeps_metadata(&self) -> bool {
        false
    }
    /// Size and time of the object as an earlier session of this run has left it at the destination, for a conditional
    /// request. If the object has not changed since, answer the job through `is_there`.
    fn kept(&self, job: &Job) -> Option<ObjectMeta> {
        let _ = job;
        None
    }
    /// Makes the name of a job another name of the object `to`, of which this run has written a file with the size and time in
    /// `meta`. Returns the job if that is not possible.
    fn linked(&self, job: Job, to: &[u8], meta: &ObjectMeta) -> Option<Job> {
        let _ = (to, meta);
        Some(job)
    }
    /// Answers a job with the complete object. Returns `None` if the write failed or was not wanted.
    fn whole(&self, job: Job, meta: &ObjectMeta, payload: Payload<'_>) -> Option<Written>;
    /// Begins an object that arrives in pieces; waits until the sink has room for it. On an error, pass the error to
    /// `failed`.
    fn begin<'a>(&'a self, job: &'a Job, meta: &'a ObjectMeta) -> LocalFuture<'a, Result<Body>>;
    /// Answers a job begun with `begin`: all pieces are written, or there was an error. Returns what `whole` does.
    fn finished(&self, job: Job, body: Body, result: Result<()>) -> Option<Written>;
    /// Turns an object that was written, with these bytes, into a failure for good.
    fn withdraw(&self, written: Written, wrote: Fingerprint, error: Error);
    /// Answers a job: its object could not be fetched.
    fn failed(&self, job: Job, error: Error);
    /// A job takes long, so it does not take the place of another one. It is answered like the others.
    fn hangs(&self, job: JobId, why: Hangs) {
        let _ = (job, why);
    }
    /// Something of the answer to a job that hangs has arrived, or a redirect: its host is there.
    fn arrives(&self, job: JobId) {
        let _ = job;
    }
    /// A host of many has answered, well or badly.
    fn hears(&self, host: HostId) {
        let _ = host;
    }
    /// Whether one has.
    fn has_answered(&self, host: HostId) -> bool {
        let _ = host;
        true
    }
    /// Returns a job that was not fetched through no fault of its own. This does not count as an attempt.
    fn requeued(&self, job: Job);
    /// How long this lane has been busy writing, since its start. Network deadlines do not count this time.
    fn stalled(&self) -> Duration;
    /// Counts received bytes that did not become an object (broken bodies, comparisons), for the report.
    fn wasted(&self, bytes: u64) {
        let _ = bytes;
    }
    /// Adds a note to the report.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

/// An object that is being written to the sink. Dropped unfinished, it leaves nothing behind.
pub struct Body {
    writer: Box<dyn ObjectWriter>,
    lane: Rc<dyn BodyClock>,
    bytes: u64,
    meta: ObjectMeta,
}

/// Where a body reports the time its writes took.
pub(crate) trait BodyClock {
    fn wrote(&self, bytes: usize, time: Duration);
}

impl Body {
    pub(crate) fn new(writer: Box<dyn ObjectWriter>, lane: Rc<dyn BodyClock>, meta: ObjectMeta) -> Body {
        Body { writer, lane, bytes: 0, meta }
    }

    /// Appends a piece. After an error: stop reading and call `Lane::finished` with it.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        let before = std::time::Instant::now();
        let result = self.writer.write(piece).map_err(Error::of_sink);
        self.lane.wrote(piece.len(), before.elapsed());
        self.bytes += piece.len() as u64;
        result
    }

    /// Whether `fill` can be called now.
    pub fn has_space(&mut self) -> bool {
        self.writer.space().is_some()
    }

    /// Lets `fill` append the next bytes directly to the sink's buffer, if it has one. `fill` returns how many bytes it
    /// appended, and must not grow the vector otherwise. Returns `None` if there is no buffer: call `write`.
    pub fn fill(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Result<usize>) -> Option<Result<usize>> {
        let space = self.writer.space()?;
        let filled = fill(space);
        if let Ok(bytes) = filled {
            self.lane.wrote(bytes, Duration::ZERO); // no time of the sink's
            self.bytes += bytes as u64;
        }
        Some(filled)
    }

    /// Continues with a hole, if the sink takes holes.
    ///
    /// # Errors
    /// As [`Body::write`].
    pub fn hole(&mut self, length: u64) -> Result<bool> {
        let is_taken = self.writer.hole(length).map_err(Error::of_sink)?;
        self.bytes += if is_taken { length } else { 0 };
        Ok(is_taken)
    }

    /// Lets the sink append up to `length` bytes of a file, from `at` on. `None`: call `write`.
    ///
    /// # Errors
    /// As [`Body::write`].
    pub fn copy(&mut self, file: BorrowedFd<'_>, at: u64, length: usize) -> Result<Option<usize>> {
        let before = std::time::Instant::now();
        let copied = self.writer.copy(file, at, length).map_err(Error::of_sink)?;
        if let Some(bytes) = copied {
            self.lane.wrote(bytes, before.elapsed());
            self.bytes += bytes as u64;
        }
        Ok(copied)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn into_parts(self) -> (Box<dyn ObjectWriter>, ObjectMeta, u64) {
        (self.writer, self.meta, self.bytes)
    }
}
