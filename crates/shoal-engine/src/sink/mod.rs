//! The traits `Sink` and `Writer` and their contract. Not here: any concrete sink, sources, the journal.
//!
//! The contract, checked by `testing::sink_contract` for every sink:
//! - `start` is called once, before anything else; `writer` once per lane, on that lane's thread, and the writer stays there.
//! - A **slot** is one open partition (or a part of one: a partition may be open on several lanes at once, each with its
//!   own share of the objects). `open` … `put`/`begin` … then `seal` or `discard`, exactly once.
//! - After `put` or `ObjectWriter::finish` returns `Ok(Put::Written)`, a reader sees the whole object or (at the latest
//!   until `sync` names its partition) nothing; after an error it sees nothing of it. An error of class `Run` ends the run.
//! - `sync` is called from one thread, never again after it returned an error. What it names as durable survives a power
//!   cut at the level the sink was made with. What it does not name stays sealed until a later call.

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

/// Whether leftovers of an earlier try may be in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Never handed out before.
    Fresh,
    /// May have been written in part by a run that was cut off: what is there is replaced.
    Again,
    /// Handed out before in this session too, to a process that died over it (`generate`).
    Reissued,
}

/// What a run tells a sink before the first write. The default: a run of its own, which no journal knows.
#[derive(Clone, Debug)]
pub struct Start {
    /// The earlier sessions of this run.
    pub sessions: Vec<Interval>,
    /// What an object means if a file of this run has its name.
    pub twice: Twice,
    /// Files get the time of their source.
    pub keep_times: bool,
    /// Until when may be written.
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
    /// Now, on the destination's clock, in nanoseconds since 1970: the journal keeps when each session may have written.
    /// `None`: the destination has no clock, and nothing of an earlier session is told apart there.
    pub began: Option<i64>,
    /// What is written lasts until a reboot at the longest, so that no barrier can fail.
    pub volatile: bool,
    /// The barrier that will really run, in words.
    pub durability: String,
    /// How objects are published, in words.
    pub publish: String,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// A partition, or a part of one, as the writer closed it.
pub struct Sealed {
    /// `Partition::seq`.
    pub seq: u64,
    /// Objects written.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What the sink itself needs at `sync`.
    pub held: Option<Box<dyn Any + Send>>,
}

/// How far a `sync` reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nothing is durable: what it names is done again after a reboot.
    PageCache,
    /// What it names is durable.
    #[default]
    Named,
    /// All that was written before is, by earlier sessions too (`syncfs`).
    Everything,
}

/// What a `sync` made durable.
#[derive(Debug, Default)]
pub struct Settled {
    /// Partitions (by `seq`) that may be committed now.
    pub durable: Vec<u64>,
    /// How durable they are.
    pub reach: Reach,
}

/// Where an object stands in the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// `Partition::seq`.
    pub seq: u64,
    /// Its entry in the partition.
    pub index: u32,
}

/// Where objects go.
pub trait Sink: Send + Sync {
    /// What makes it the same destination when a run is resumed.
    fn identity(&self) -> String;
    /// The directory whose `.shoal/` holds the journal unless the user says otherwise; `None`: none, so that the run
    /// cannot be resumed.
    fn journal_dir(&self) -> Option<PathBuf>;
    /// Whether an earlier session left its traces here; a sink that keeps nothing says yes.
    fn has_begun(&self) -> bool {
        true
    }
    /// Prepares the destination: leftovers of dead runs are swept, limits looked at. Nothing is written before the lease
    /// is granted.
    fn start(&self, start: &Start) -> Result<Started>;
    /// The destination's clock now, if it has one: what a file made now would be stamped with.
    ///
    /// # Errors
    /// Of class `Run`, where it cannot be read any more.
    fn clock(&self) -> Result<Option<i64>> {
        Ok(None)
    }
    /// The part that lives on one lane.
    fn writer(&self, lane: usize) -> Result<Box<dyn Writer>>;
    /// Makes sealed partitions durable. `last`: no more will come, so nothing may be held back.
    fn sync(&self, sealed: Vec<Sealed>, last: bool) -> Result<Settled>;
    /// An object that was written with the partition `seq`, and is committed, is a failure after all, and recorded so. A
    /// sink that can removes it; what a consumer has had stays with it.
    fn withdraw(&self, seq: u64, name: &Name) {
        let _ = (seq, name);
    }
    /// Whether writing an object takes long enough for more than one thread to be worth it.
    fn blocks(&self) -> bool {
        true
    }
    /// Whether an object may be begun now. A sink that keeps objects for a consumer says no while it holds enough; it
    /// calls the waker when that changes. Asked before each object is fetched, so it must be cheap.
    fn has_room(&self, place: Place) -> bool {
        let _ = place;
        true
    }
    /// Gives the sink the waker, before the first writer is made.
    fn wake_with(&self, waker: Box<dyn Fn() + Send + Sync>) {
        let _ = waker;
    }
    /// Called once at the end, also of a run that was stopped, when the journal holds that this session has ended. Where it
    /// could not be told, its lease stays, as after a kill.
    fn finish(&self) -> Result<()> {
        Ok(())
    }
}

/// Writes the objects of one lane.
pub trait Writer {
    /// Opens a slot for a partition; `modes` has the permission bits of the directories that its objects need.
    fn open(&mut self, slot: u32, partition: &Partition, mode: Mode, modes: Modes) -> Result<()>;
    /// Writes a complete object.
    fn put(&mut self, slot: u32, name: &Name, meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put>;
    /// Writes a complete object that `read` puts at the end of memory of the sink's, which has room for
    /// [`WHOLE_MAX`](crate::object::WHOLE_MAX) bytes and one more. Its bytes; `None`: nothing was written, since there is
    /// no such memory (`read` was not called) or `read` said no.
    fn put_in_place(
        &mut self,
        slot: u32,
        name: &Name,
        read: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<Option<u64>> {
        let _ = (slot, name, read);
        Ok(None)
    }
    /// The size of the object, if an earlier session of this run has left it here, whole, unchanged since, of the size and
    /// with the time that `meta` says. That is called only where something is there: most often nothing is.
    fn has(&mut self, slot: u32, name: &Name, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<u64>> {
        let _ = (slot, name, meta);
        Ok(None)
    }
    /// Size and time of the file of this name, if an earlier session of this run has left it here, whole, unchanged since,
    /// with a time that its source has said.
    fn kept(&mut self, slot: u32, name: &Name) -> Result<Option<ObjectMeta>> {
        let _ = (slot, name);
        Ok(None)
    }
    /// Begins an object that comes in pieces.
    fn begin(&mut self, slot: u32, name: &Name, meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>>;
    /// Makes an empty directory, and those that lead to it. One that is there is as good; a file in its place is a failure.
    /// A sink that knows only objects does nothing.
    fn directory(&mut self, slot: u32, name: &Name) -> Result<()> {
        let _ = (slot, name);
        Ok(())
    }
    /// Announces the object that the next `put` or `begin` of this slot is about; false: there is no room for one of this
    /// size now (ask again after the waker was called). Objects for `put` are small and always have room.
    fn expect(&mut self, slot: u32, index: u32, size: Option<u64>) -> Result<bool> {
        let _ = (slot, index, size);
        Ok(true)
    }
    /// Entry `index` will not come: it was skipped, has failed, or is tried again in another partition.
    fn left_out(&mut self, slot: u32, index: u32) {
        let _ = (slot, index);
    }
    /// Closes a slot whose objects are all written.
    fn seal(&mut self, slot: u32) -> Result<Sealed>;
    /// Gives a slot up; what it wrote is not committed.
    fn discard(&mut self, slot: u32);
}
