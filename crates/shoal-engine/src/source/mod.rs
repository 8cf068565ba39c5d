//! The trait `Source` and its contract: what the engine may ask of a source, and what a source may ask of the engine
//! (`Lane`). Not here: any concrete source (one file or folder each), sinks, threads.
//!
//! The contract, checked by `testing::source_contract` for every source:
//! - A **listing** starts at its cursor and yields partitions with `seq` dense and ascending. The order is the same
//!   each time, as long as the listed content is the same. A listing has its own connections and runs on its own
//!   thread. After an error of class `Retry` the engine may call `next` again, which continues at the same place.
//! - A **fetcher** belongs to one lane and never leaves its thread. `run` takes jobs from the lane until told to stop
//!   and answers **each job exactly once**: `whole`, `finished`, `failed` or `requeued`. `run` returns only on
//!   `Take::Stop` or with an error of class `Run`. The engine cancels a run by dropping this future, which must not
//!   block.
//! - A fetcher passes objects whole only up to [`WHOLE_MAX`] bytes. Larger objects go through `begin`, piece by piece.
//! - A source passes names on unchanged. The lane validates them; an unsafe name never becomes a job.

pub mod archive;
pub mod file_cursor;
pub mod files;
mod http_objects;
pub mod ids;
mod in_pieces;
pub mod items;
pub mod list_get;
mod locators;
pub mod memory;
mod pages;
pub mod part;
pub(crate) mod tar;
mod turn;
pub mod urls;
pub(crate) mod zip;

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, HostId, Result};
use crate::findings::Findings;
use crate::key::ObjectKey;
use crate::object::{DirectoryModes, ObjectMeta, ObjectWriter, Payload, Storage};
use crate::part::Part;
use crate::partition::{Cursor, Partition};
use crate::report::{Reason, Settled};
use crate::session::Twice;

/// A future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A future that stays on its lane.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

pub use self::in_pieces::in_pieces;
pub use self::pages::Pages;
pub use self::turn::Turn;
pub use crate::object::WHOLE_MAX;

/// How a resumed run can trust the part of a listing before its cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The service's own marker says where to continue; `Resume::Relist` checks it.
    Trusted,
    /// The engine lists names from the start and compares them with the chain in the journal.
    Names,
    /// The listing itself compares, and fails with [`crate::Kind::CursorRefused`] if that part has changed.
    Proven,
}

/// What a source is like. The same for the whole run; the default is that of a service in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceProperties {
    /// A fetch waits for a network (many in flight per lane), or else blocks its thread (one per lane).
    pub is_network: bool,
    /// Its objects are passed only once, as items of an iterator: a later session cannot fetch one that has failed.
    pub once: bool,
    /// How to treat an object whose name is that of a file which the same run has written.
    pub twice: Twice,
    /// Copies of its objects usually keep their times.
    pub has_times: bool,
    /// How a resumed listing checks that the part before its cursor is still what was committed.
    pub behind: Behind,
    /// The largest useful number of lanes, if the source knows it. With one, objects are taken in the order of the
    /// listing.
    pub lanes_max: Option<usize>,
    /// Its objects are on many hosts. One that stays away then fails its objects, and does not end the run.
    pub many_hosts: bool,
}

impl Default for SourceProperties {
    fn default() -> SourceProperties {
        SourceProperties {
            is_network: true,
            once: false,
            twice: Twice::SameObject,
            has_times: false,
            behind: Behind::Trusted,
            lanes_max: None,
            many_hosts: false,
        }
    }
}

/// Where objects come from: a description. What a run learns and where it is, the run keeps.
pub trait Source: Send + Sync {
    /// Identifies the source when a run resumes; without secrets. It is shown to the user and stored in the journal.
    fn identity(&self) -> String;
    /// What it is like.
    fn properties(&self) -> SourceProperties {
        SourceProperties::default()
    }
    /// Starts a listing at its beginning or at the cursor of an earlier partition.
    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>>;
    /// Returns a partition of exactly these objects, to retry failures. The caller sets `seq`, `key` and `after`.
    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition>;
    /// The host of all objects of this partition, if it is one host, of many. Lanes take the partitions of other hosts
    /// first while this one is paused or has no room.
    fn host_of(&self, partition: &Partition) -> Option<HostId> {
        let _ = partition;
        None
    }
    /// The host of the object at this locator, if there are many: objects of one host are retried together.
    fn host_at(&self, locator: &[u8]) -> Option<HostId> {
        let _ = locator;
        None
    }
    /// Creates the fetcher of one lane.
    fn fetcher(&self, lane: usize) -> Result<Box<dyn Fetcher>>;
    /// Notes for the report that are known before the run starts.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
    /// Notes for the report on what all fetchers together have met, known when the last of them has ended.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
    /// Values that identify the source, but must not be stored or shown (those of query parameters).
    fn secrets(&self) -> Vec<u8> {
        Vec::new()
    }
    /// What the platform says of the medium that its files are on. A hint for the number of workers to start with; asked
    /// seldom, as it costs some system calls.
    fn storage(&self) -> Storage {
        Storage::Other
    }
    /// Whether it would list a new file in this directory. Then nothing can be copied there, because the run would read
    /// its own output. The path is absolute and free of links.
    fn lists_below(&self, directory: &Path) -> bool {
        let _ = directory;
        false
    }
    /// Permission bits of the source's root directory, if it is a directory. A destination that the run creates gets
    /// them.
    fn root_mode(&self) -> Option<u32> {
        None
    }
    /// One part of this source, if it divides itself. By default it is divided by the hash of each name. However it is
    /// divided, each name must be in one part only, because parts write at the same time and know nothing of each other.
    fn divided(&self, part: Part) -> Option<Arc<dyn Source>> {
        let _ = part;
        None
    }
}

/// A listing in progress.
pub trait Listing: Send {
    /// Returns the next partition, or `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>>;
    /// From now on, it reports to `findings` what it finds out about the source.
    fn report_to(&mut self, findings: &Arc<Findings>) {
        let _ = findings;
    }
    /// Says how it has ended. Asked once, also if the run has stopped it or it has failed.
    fn end(&mut self) -> ListingEnd {
        ListingEnd::default()
    }
}

/// How a listing has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingEnd {
    /// It was complete. If not, its objects are committed, but the run is not complete and continues there next time.
    pub is_whole: bool,
    /// Notes for the report: what it has left out.
    pub remarks: Vec<String>,
}

impl Default for ListingEnd {
    fn default() -> ListingEnd {
        ListingEnd { is_whole: true, remarks: Vec::new() }
    }
}

/// Fetches objects for one lane.
pub trait Fetcher {
    /// From now on, it reports to `findings` what it finds out about the source.
    fn report_to(&mut self, findings: &Arc<Findings>) {
        let _ = findings;
    }
    /// Opens a partition: how many objects it has, and their names.
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>>;
    /// Takes jobs and answers them until told to stop.
    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>>;
}

/// The objects of an open partition.
pub trait Entries {
    /// Number of entries.
    fn len(&self) -> u32;
    /// Whether there are no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns entry `index`, which is below `len`.
    fn get(&self, index: u32) -> Entry<'_>;
    /// What holds entry `index` (an archive, a line of a list), if its name does not tell. For the reason of a failure.
    fn within(&self, index: u32) -> Option<Cow<'_, [u8]>> {
        let _ = index;
        None
    }
    /// What else the fetcher needs of entry `index`, if that must not be stored in a journal.
    fn request(&self, index: u32) -> &[u8] {
        let _ = index;
        &[]
    }
    /// Whether a lane must read all entries before the one it wants. Then another lane does not take over what one has
    /// begun.
    fn is_stream(&self) -> bool {
        false
    }
    /// What else the listing knows of entry `index`, for callers that only list. May read the source.
    fn known(&self, index: u32) -> Known {
        let _ = index;
        Known::default()
    }
    /// Permission bits of a directory in the names of these entries, if the source has them. If they can no longer be
    /// read, 0o700: the copy must not be more open than the source.
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
    /// Why the objects that the entry represents could not be listed.
    pub failed: Option<Error>,
}

/// One listed object.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The name, unchanged from the source.
    pub name: &'a [u8],
    /// What `Source::select` needs to find it again.
    pub locator: &'a [u8],
    /// Where it is fetched from.
    pub host: HostId,
    /// Why it is not fetched, if it is skipped.
    pub skip: Option<Skip>,
    /// Set if it represents objects that could not be listed. It fails if any of them may pass the filter.
    pub unlisted: Option<Unlisted>,
}

/// What is known of the names of objects that could not be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// They are below the name of the entry.
    Below,
    /// They can have any name.
    Anywhere,
    /// It is this one object, and what it would be called is not known.
    Itself,
}

/// Why a listed object is not fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// An earlier object of the same page has its name.
    Duplicate,
    /// It is not an object, but for example a link, a device or a pipe, as the reason says.
    NoObject(Reason),
    /// It is a directory. With `make` the sink creates it (`Writer::directory`), since no object below it does.
    Directory {
        /// It is empty.
        make: bool,
    },
}

impl Skip {
    /// The reason that the journal counts.
    pub fn reason(self) -> Reason {
        match self {
            Skip::Duplicate => Reason::Duplicate,
            Skip::NoObject(reason) => reason,
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
    /// What the sink calls it.
    pub name: ObjectKey,
}

impl Job {
    /// What the source listed: raw name, locator, host.
    pub fn entry(&self) -> Entry<'_> {
        self.entries.get(self.index)
    }

    /// What the source needs to fetch it besides (`Entries::request`).
    pub fn request(&self) -> &[u8] {
        self.entries.request(self.index)
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

/// What became of an object when it was written.
pub(crate) enum Was {
    /// This.
    Settled(Settled),
    /// The sink tells later.
    Later(Rc<RefCell<Later>>),
}

/// A write that the sink has under way, as the engine and what may withdraw it know it.
pub(crate) enum Later {
    /// Not known yet.
    Pending,
    /// Not known yet; but its source has withdrawn it.
    Withdrawn(Error),
    /// Written or skipped.
    Settled(Settled),
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
    /// Less is left than may be in flight: it is too late to try anything.
    pub is_ending: bool,
}

/// The engine's side of one lane, as a fetcher sees it. Never blocks for a consumer; writing may block on the disk.
pub trait Lane {
    /// The next object to fetch.
    fn take(&self) -> Take;
    /// The same for a source with many hosts: `has_room` says whether this lane can request another object from a host now.
    fn take_if(&self, has_room: &dyn Fn(HostId) -> bool) -> Take {
        let _ = has_room;
        self.take()
    }
    /// Resolves when `take` may have another answer, or `limits` have changed.
    fn wake(&self) -> LocalFuture<'_, ()>;
    /// How much to do at once. This changes, so call it again from time to time.
    fn limits(&self) -> Limits;
    /// Lets `read` append a small object directly to the sink's buffer, if the sink has one. `read` appends at most
    /// [`WHOLE_MAX`] bytes, and one more to detect the end, without growing the vector otherwise. It returns whether
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
    /// Size and time of the object as an earlier session of this run has left it at the destination, for a conditional
    /// request. If the object has not changed since, answer the job through `is_there`.
    fn kept(&self, job: &Job) -> Option<ObjectMeta> {
        let _ = job;
        None
    }
    /// Answers a job with the complete object. Returns `None` if the write failed or was not wanted.
    fn whole(&self, job: Job, meta: &ObjectMeta, payload: Payload<'_>) -> Option<Written>;
    /// Begins an object that arrives in pieces; waits until the sink has room for it. On an error, pass the error to
    /// `failed`.
    fn begin<'a>(&'a self, job: &'a Job, meta: &'a ObjectMeta) -> LocalFuture<'a, Result<Body>>;
    /// Answers a job begun with `begin`: all pieces are written, or there was an error. Returns what `whole` does.
    fn finished(&self, job: Job, body: Body, result: Result<()>) -> Option<Written>;
    /// Turns an object that was written into a failure, for good.
    fn withdraw(&self, written: Written, error: Error);
    /// Answers a job whose object could not be fetched.
    fn failed(&self, job: Job, error: Error);
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

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn into_parts(self) -> (Box<dyn ObjectWriter>, ObjectMeta, u64) {
        (self.writer, self.meta, self.bytes)
    }
}
