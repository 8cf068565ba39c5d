//! The trait `Source` and its contract. Here: what the engine may ask of a source, and what a source may ask of the
//! engine (`Lane`). Not here: any concrete source (one file or folder each), sinks, threads.
//!
//! The contract, checked by `testing::source_contract` for every source:
//! - A **listing** yields partitions with `seq` dense and ascending, starting where its cursor says, in the same order
//!   each time as long as the listed content is the same. It has connections of its own and runs on a thread of its own.
//!   An error of class `Retry` may be answered by calling `next` again; it continues at the same place.
//! - A **fetcher** belongs to one lane and never leaves its thread. `run` asks the lane for jobs until told to stop and
//!   answers **each job exactly once**: `whole`, `finished`, `failed` or `given_back`. `run` returns only on `Take::Stop`
//!   or with an error of class `Run`. Dropping its future is how a run is cancelled: it must not block.
//! - A fetcher hands in an object whole only up to [`WHOLE_MAX`] bytes; larger ones go through `begin` piece by piece.
//! - Names are passed on as they came. The lane validates them; an unsafe one never becomes a job.

pub mod archive;
pub mod files;
pub mod ids;
pub mod items;
pub mod list_get;
pub mod memory;
pub mod shard;
pub(crate) mod tar;
pub(crate) mod zip;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, HostId, Result};
use crate::name::Name;
use crate::object::{DirectoryModes, ObjectMeta, ObjectWriter, Payload};
use crate::partition::{Cursor, Partition};
use crate::report::{Reason, Settled};
use crate::session::Twice;

/// A future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A future that stays on its lane.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

pub use crate::object::WHOLE_MAX;

/// What is known of the part of a listing that lies behind a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The service's own token says where to go on; `Resume::Relist` checks it.
    Trusted,
    /// Names are listed from the start and compared with the chain in the journal.
    Names,
    /// `list` compares by itself and answers [`crate::Kind::CursorRefused`] where it has changed.
    Proven,
}

/// Where objects come from.
pub trait Source: Send + Sync {
    /// What makes it the same source when a run is resumed; without secrets. Shown to the user and kept in the journal.
    fn identity(&self) -> String;
    /// Starts a listing at its beginning or at the cursor of an earlier partition.
    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>>;
    /// A partition of exactly these objects, for trying failures again. `seq`, `key` and `after` are set by the caller.
    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition>;
    /// The part that lives on one lane.
    fn fetcher(&self, lane: usize) -> Result<Box<dyn Fetcher>>;
    /// Most objects in flight that make sense over all lanes, if the source knows.
    fn in_flight_max(&self) -> Option<usize> {
        None
    }
    /// Most lanes that make sense, if the source knows: with one, objects are taken in the order of the listing.
    fn lanes_max(&self) -> Option<usize> {
        None
    }
    /// Objects that one connection may have in flight, as far as is known by now (pipelining).
    fn depth(&self) -> usize {
        1
    }
    /// What the user should know before it starts, for the report.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
    /// What the user should know once it has ended, for the report.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
    /// Whether the listing that has ended was all there is. Where it was broken off, what it gave is committed and the run
    /// is not complete: it goes on there the next time.
    fn is_whole(&self) -> bool {
        true
    }
    /// What an object means if a file that the same run has written has its name.
    fn twice(&self) -> Twice {
        Twice::SameObject
    }
    /// Whether its objects have times that files usually keep.
    fn has_times(&self) -> bool {
        false
    }
    /// How a resumed listing knows that what lies behind its cursor is still what was committed.
    fn behind(&self) -> Behind {
        Behind::Trusted
    }
    /// Whether an object that has failed can be had again in a later session. Of items, which are given once, it stays failed.
    fn gives_again(&self) -> bool {
        true
    }
    /// Values that make it the same source, but must not be stored or shown (of parameters in addresses).
    fn secrets(&self) -> Vec<u8> {
        Vec::new()
    }
    /// Whether a fetch waits for a network (many in flight per lane) or blocks its thread (one per lane).
    fn is_network(&self) -> bool {
        true
    }
    /// Whether it would list a file that came into being in this directory: then nothing can be copied there, since what
    /// is written would be read again. The path is absolute and free of links.
    fn lists_below(&self, directory: &Path) -> bool {
        let _ = directory;
        false
    }
    /// Permission bits of the directory that all of it is the contents of, if that is so: a destination that is made for it
    /// gets them.
    fn root_mode(&self) -> Option<u32> {
        None
    }
}

/// A listing under way.
pub trait Listing: Send {
    /// The next partition, or `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>>;
}

/// Fetches objects for one lane.
pub trait Fetcher {
    /// Opens a partition: how many objects it has and what they are called.
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>>;
    /// Takes jobs and answers them until told to stop.
    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>>;
}

/// The objects of an open partition.
pub trait Entries {
    /// How many there are.
    fn len(&self) -> u32;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Entry `index`, below `len`.
    fn get(&self, index: u32) -> Entry<'_>;
    /// What entry `index` is a part of, where its name does not tell: the path of an archive. For the reason of a failure.
    fn within(&self, index: u32) -> Option<&[u8]> {
        let _ = index;
        None
    }
    /// What the listing knows of entry `index` besides, for those who only look. May read the source.
    fn known(&self, index: u32) -> Known {
        let _ = index;
        Known::default()
    }
    /// Permission bits of the directory that names of these entries begin with, where the source has such. Where it had
    /// them and they cannot be told any more: 0o700, so that nothing is open that was not.
    fn directory_mode(&self, directory: &[u8]) -> Option<u32> {
        let _ = directory;
        None
    }
}

impl DirectoryModes for Rc<dyn Entries> {
    fn mode_of(&self, directory: &[u8]) -> Option<u32> {
        self.directory_mode(directory)
    }
}

/// What a listing knows of an object before it is fetched.
#[derive(Debug, Default)]
pub struct Known {
    /// Its size.
    pub size: Option<u64>,
    /// When it was last changed.
    pub modified: Option<SystemTime>,
    /// Why it stands for objects that could not be listed.
    pub failed: Option<Error>,
}

/// One listed object.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The name as the source gave it.
    pub name: &'a [u8],
    /// What `Source::select` needs to find it again.
    pub locator: &'a [u8],
    /// Where it is fetched from.
    pub host: HostId,
    /// Why it is not to be fetched, if it is not.
    pub skip: Option<Skip>,
    /// It stands for objects that could not be listed. What is filtered may not be among them, so it fails all the same.
    pub unlisted: Option<Unlisted>,
}

/// What is known of the names of objects that could not be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// They lie below the name of the entry.
    Below,
    /// Nothing.
    Anywhere,
}

/// Why a listed object is not fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Its name stood earlier in the same page.
    Duplicate,
    /// What has this name is no object: a link, a device, a pipe, as the reason says.
    NoObject(Reason),
    /// It belongs to another part of the source.
    Elsewhere,
    /// It is a directory. With `make` the sink is to have it (`Writer::directory`), since no object would bring it along.
    Directory {
        /// Nothing lies in it.
        make: bool,
    },
}

impl Skip {
    /// As the journal counts it.
    pub fn reason(self) -> Reason {
        match self {
            Skip::Duplicate => Reason::Duplicate,
            Skip::NoObject(reason) => reason,
            Skip::Elsewhere => Reason::Elsewhere,
            Skip::Directory { .. } => Reason::Directory,
        }
    }
}

/// One object to fetch. Answered exactly once.
pub struct Job {
    pub(crate) slot: u32,
    pub(crate) index: u32,
    pub(crate) entries: Rc<dyn Entries>,
    pub(crate) tried: bool,
    pub(crate) doubted: bool,
    pub(crate) again: bool,
    /// The validated name.
    pub name: Name,
}

impl Job {
    /// What the source listed: raw name, locator, host.
    pub fn entry(&self) -> Entry<'_> {
        self.entries.get(self.index)
    }

    /// Whether it has failed before: better asked for by itself.
    pub fn is_tried(&self) -> bool {
        self.tried
    }

    /// Whether it is tried again, later, because its body was shorter or longer than announced.
    pub fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Whether a run that was cut off may have begun it: what it left at the destination is replaced.
    pub fn is_again(&self) -> bool {
        self.again
    }
}

/// An object that was written. What turns up later may show that it is not what it should be: then it is withdrawn
/// (`Lane::withdraw`).
pub struct Written {
    /// The number of the partition it was written with.
    pub(crate) partition: u64,
    /// The number of the one it is counted in: another, where it was tried again.
    pub(crate) counted: u64,
    pub(crate) entries: Rc<dyn Entries>,
    pub(crate) index: u32,
    pub(crate) was: Settled,
}

/// What `Lane::take` answers.
pub enum Take {
    /// Fetch this.
    Job(Job),
    /// Nothing now (a host pauses, the budget is out, the next partition is not there): await `wake`, then ask again.
    Wait,
    /// The end: no job will come any more.
    Stop,
}

/// How much a fetcher may do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects in flight on this lane.
    pub in_flight: usize,
    /// Requests that may be unanswered on one connection.
    pub depth: usize,
}

/// The engine's side of one lane, as a fetcher sees it. Never blocks for a consumer; writing may block on the disk.
pub trait Lane {
    /// The next object to fetch.
    fn take(&self) -> Take;
    /// Resolves when `take` may have another answer, or `limits` have changed.
    fn wake(&self) -> LocalFuture<'_, ()>;
    /// How much to do at once; ask again from time to time.
    fn limits(&self) -> Limits;
    /// Lets `read` put a small object straight where it is to lie, if the sink has memory for it there: it puts at most
    /// [`WHOLE_MAX`] bytes at the end of the vector, one more to see that they are all, which it must not make larger
    /// otherwise, and says whether the object is complete; if not, what it put there is forgotten. `None`: the job is
    /// answered. The job: it is not, `read` said no or was not called.
    fn whole_in_place(&self, job: Job, read: &mut dyn FnMut(&Job, &mut Vec<u8>) -> bool) -> Option<Job> {
        let _ = read;
        Some(job)
    }
    /// Whether an earlier session of this run has left the object at the destination, with the size and time that `meta`
    /// says: then it need not be fetched, and the job is answered. `meta` is called only where there is something to
    /// compare with.
    fn is_there(&self, job: Job, meta: &mut dyn FnMut(&Job) -> Option<ObjectMeta>) -> Option<Job> {
        let _ = meta;
        Some(job)
    }
    /// Whether objects get the time that their source says.
    fn keeps_times(&self) -> bool {
        false
    }
    /// Size and time of the object as an earlier session of this run has left it at the destination: a service may then be
    /// asked for it on the condition that it was changed since. If it was not, the job is answered through `is_there`.
    fn kept(&self, job: &Job) -> Option<ObjectMeta> {
        let _ = job;
        None
    }
    /// The object is complete. It is given back where it was written: not where that failed, or was not to be.
    fn whole(&self, job: Job, meta: &ObjectMeta, payload: Payload<'_>) -> Option<Written>;
    /// The object will arrive in pieces; waits until the sink has room for it. On an error, answer the job with it
    /// through `failed`.
    fn begin<'a>(&'a self, job: &'a Job, meta: &'a ObjectMeta) -> LocalFuture<'a, Result<Body>>;
    /// All pieces are in, or an error came between. As `whole`.
    fn finished(&self, job: Job, body: Body, result: Result<()>) -> Option<Written>;
    /// An object that was written is a failure after all, for good.
    fn withdraw(&self, written: Written, error: Error);
    /// The object could not be had.
    fn failed(&self, job: Job, error: Error);
    /// Not fetched, through no fault of its own: no try is charged.
    fn given_back(&self, job: Job);
    /// How long this lane has been busy writing, since its start: taken off every network deadline.
    fn stalled(&self) -> Duration;
    /// Bytes received that did not become an object (broken bodies, comparisons), for the report.
    fn wasted(&self, bytes: u64) {
        let _ = bytes;
    }
    /// Something the user should know, for the report.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

/// An object on its way into the sink. Dropped unfinished, it leaves nothing behind.
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
        let result = self.writer.write(piece);
        self.lane.wrote(piece.len(), before.elapsed());
        self.bytes += piece.len() as u64;
        result
    }

    /// Whether `fill` can be called now.
    pub fn has_space(&mut self) -> bool {
        self.writer.space().is_some()
    }

    /// Lets `fill` put the next bytes where they are to lie, if the sink has room for them there; it returns how many it
    /// put at the end of the vector, which it must not make larger otherwise. `None`: there is none, call `write`.
    pub fn fill(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Result<usize>) -> Option<Result<usize>> {
        let space = self.writer.space()?;
        let filled = fill(space);
        if let Ok(bytes) = filled {
            self.lane.wrote(bytes, Duration::ZERO); // no time of the sink's
            self.bytes += bytes as u64;
        }
        Some(filled)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn into_parts(self) -> (Box<dyn ObjectWriter>, ObjectMeta, u64) {
        (self.writer, self.meta, self.bytes)
    }
}
