//! The traits `Sink` and `Writer` and their contract. Not here: any concrete sink, sources, the journal.
//!
//! The contract, checked by `testing::sink_contract` for every sink:
//! - The engine calls `start` once, before anything else, and `writer` once per lane, on that lane's thread. The writer
//!   stays on this thread.
//! - A **slot** is one open partition or a part of one: several lanes may have a partition open at once, each with its
//!   own share of the objects. The calls are `open`, then `put` or `begin`, then `seal` or `discard`, exactly once.
//! - After `put` or `ObjectWriter::finish` returns `Ok(Put::Written)`, a reader sees the whole object or (at the latest
//!   until `sync` names its partition) nothing; after an error it sees nothing of it. An error of class `Run` ends the
//!   run.
//! - `sync` is called from one thread, and never again after an error. The partitions that it names as durable survive
//!   a power failure, at the sink's durability. The others stay sealed until a later call.

pub(crate) mod collision;
pub mod deliver;
pub mod digest;
pub mod dir;
pub mod memory;
pub mod null;

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::name::Name;
use crate::object::{Modes, ObjectMeta, Payload};
pub use crate::object::{ObjectWriter, Put};
use crate::partition::Partition;
use crate::session::{Interval, Lease, Twice};

/// Whether an earlier attempt may have left files of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The partition was never written before.
    Fresh,
    /// An interrupted session may have written a part of it, which is replaced.
    Again,
    /// This session already passed it to a process, which died while it worked on it (`generate`).
    Reissued,
}

/// What a run tells a sink before the first write. The default is a new run without a journal.
#[derive(Clone, Debug)]
pub struct Start {
    /// The earlier sessions of this run.
    pub sessions: Vec<Interval>,
    /// How to treat an object whose name is that of a file of this run.
    pub twice: Twice,
    /// Files get the timestamps of their source.
    pub keep_times: bool,
    /// Until when the sink may write.
    pub lease: Arc<Lease>,
}

impl Default for Start {
    fn default() -> Start {
        let (sessions, twice) = (Vec::new(), Twice::default());
        Start { sessions, twice, keep_times: false, lease: Arc::new(Lease::unbounded()) }
    }
}

/// What a sink tells a run.
#[derive(Clone, Debug, Default)]
pub struct Started {
    /// The destination's clock now, in nanoseconds since 1970. The journal records when each session may have written.
    /// `None` if the destination has no clock: then the files of earlier sessions cannot be recognized.
    pub began: Option<i64>,
    /// Nothing is synced, so written files may be lost in a reboot, and no sync can fail.
    pub volatile: bool,
    /// What the sink really syncs, for the report.
    pub durability: String,
    /// How objects are published, for the report.
    pub publish: String,
    /// Notes for the report.
    pub notes: Vec<String>,
}

/// A partition, or a part of one, that a writer has closed.
pub struct Sealed {
    /// `Partition::seq`.
    pub seq: u64,
    /// Objects written.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What the sink needs at `sync`.
    pub held: Option<Box<dyn Any + Send>>,
}

/// Which files a `sync` made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// None. The partitions that it names are copied again after a reboot.
    PageCache,
    /// Those of the partitions that it names.
    #[default]
    Named,
    /// All that were written before, also by earlier sessions (`syncfs`).
    Everything,
}

/// The result of a `sync`.
#[derive(Debug, Default)]
pub struct Settled {
    /// Partitions (by `seq`) that may be committed now.
    pub durable: Vec<u64>,
    /// How durable they are.
    pub reach: Reach,
}

/// The position of an object in the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// `Partition::seq`.
    pub seq: u64,
    /// Its entry in the partition.
    pub index: u32,
}

/// Where objects go.
pub trait Sink: Send + Sync {
    /// Identifies the destination when a run resumes.
    fn identity(&self) -> String;
    /// The directory whose `.shoal/` holds the journal, unless the user names another place. `None` if there is no such
    /// directory: then the run cannot be resumed.
    fn journal_dir(&self) -> Option<PathBuf>;
    /// Whether an earlier session has written here. A sink that stores nothing returns true.
    fn has_begun(&self) -> bool {
        true
    }
    /// Prepares the destination: removes leftovers of interrupted runs and checks limits. It writes nothing before the
    /// lease is granted.
    fn start(&self, start: &Start) -> Result<Started>;
    /// The destination's clock now, if it has one: the timestamp of a file created now.
    ///
    /// # Errors
    /// Of class `Run` if the clock can no longer be read.
    fn clock(&self) -> Result<Option<i64>> {
        Ok(None)
    }
    /// Creates the writer of one lane.
    fn writer(&self, lane: usize) -> Result<Box<dyn Writer>>;
    /// Makes sealed partitions durable. With `last`, this is the final call, and it must name all partitions.
    fn sync(&self, sealed: Vec<Sealed>, last: bool) -> Result<Settled>;
    /// Tells the sink that a committed object of partition `seq` is now recorded as a failure. The sink removes it if
    /// it can; an object that a consumer has received stays there.
    fn withdraw(&self, seq: u64, name: &Name) {
        let _ = (seq, name);
    }
    /// Whether writing takes long enough to be worth more than one thread.
    fn blocks(&self) -> bool {
        true
    }
    /// Whether an object may be begun now. A sink that buffers objects for a consumer returns false while its buffer is
    /// full, and calls the waker when this changes. Called before each fetch, so it must be cheap.
    fn has_room(&self, place: Place) -> bool {
        let _ = place;
        true
    }
    /// Sets the waker, before the first writer is created.
    fn wake_with(&self, waker: Box<dyn Fn() + Send + Sync>) {
        let _ = waker;
    }
    /// Called once at the end, also of an interrupted run, after the journal has recorded that this session has ended.
    /// If that could not be recorded, it is not called and the lease stays, as after a kill.
    fn finish(&self) -> Result<()> {
        Ok(())
    }
}

/// Writes the objects of one lane.
pub trait Writer {
    /// Opens a slot for a partition. `modes` has the permission bits of the directories that its objects need.
    fn open(&mut self, slot: u32, partition: &Partition, mode: Mode, modes: Modes) -> Result<()>;
    /// Writes a complete object.
    fn put(&mut self, slot: u32, name: &Name, meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put>;
    /// Writes a complete object that `read` appends to the sink's buffer, which has room for
    /// [`WHOLE_MAX`](crate::object::WHOLE_MAX) bytes and one more. Returns its size, or `None` if nothing was written,
    /// because the sink has no such buffer (`read` was not called) or `read` returned false.
    fn put_in_place(
        &mut self,
        slot: u32,
        name: &Name,
        read: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<Option<u64>> {
        let _ = (slot, name, read);
        Ok(None)
    }
    /// Returns the size of the object if an earlier session of this run has left it here: whole, unchanged since, and
    /// with the size and time that `meta` returns. `meta` is called only if a file exists, which is rare.
    fn has(&mut self, slot: u32, name: &Name, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<u64>> {
        let _ = (slot, name, meta);
        Ok(None)
    }
    /// Returns size and time of the file of this name if an earlier session of this run has left it here: whole,
    /// unchanged since, and with the timestamp of its source.
    fn kept(&mut self, slot: u32, name: &Name) -> Result<Option<ObjectMeta>> {
        let _ = (slot, name);
        Ok(None)
    }
    /// Begins an object that is written in pieces.
    fn begin(&mut self, slot: u32, name: &Name, meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>>;
    /// Creates an empty directory and its parents. It may exist already; a file of this name is a failure. A sink that
    /// stores only objects does nothing.
    fn directory(&mut self, slot: u32, name: &Name) -> Result<()> {
        let _ = (slot, name);
        Ok(())
    }
    /// Announces the object of the next `put` or `begin` of this slot. Returns false if there is no room for this size
    /// now; call it again after the waker. Objects for `put` are small and always have room.
    fn expect(&mut self, slot: u32, index: u32, size: Option<u64>) -> Result<bool> {
        let _ = (slot, index, size);
        Ok(true)
    }
    /// Tells that entry `index` is not written here: it was skipped, has failed or is retried in another partition.
    fn left_out(&mut self, slot: u32, index: u32) {
        let _ = (slot, index);
    }
    /// Closes a slot whose objects are all written.
    fn seal(&mut self, slot: u32) -> Result<Sealed>;
    /// Abandons a slot; what it wrote is not committed.
    fn discard(&mut self, slot: u32);
}
