//! The trait `Sink` and its contract. Not here: any concrete sink (one file or folder each), sources, the journal.
//!
//! The contract, checked by `testing::sink_contract` for every sink:
//! - The engine calls `start` once, before anything else, and `writer` once per lane, on that lane's thread. The writer
//!   and what it opens stay on this thread.
//! - A [`PartitionWriter`] is one open partition or a part of one: several lanes may have a partition open at once, each
//!   with its own share of the objects. `seal` ends it. Dropped before, it commits nothing.
//! - After `put` or `ObjectWriter::finish` returns `Ok(Put::Written)`, a reader sees the whole object or (at the latest
//!   until `flush` names its partition) nothing; after an error it sees nothing of it. An error of class `Run` ends the
//!   run.
//! - A sink may answer `Put::Later`. Then it owns the bytes, and hands each write back exactly once. It ends each write by
//!   itself, without waiting for further objects.
//! - `flush` is called from one thread, and never again after an error. The sink decides which partitions become durable
//!   together. Those that it names survive a power failure, at the sink's durability. The others stay sealed until a
//!   later call.
//! - What `flush` names, and the sink state that it returns, are committed in one transaction. Then `publish` is called
//!   with that state. After a kill between the two, the state is in `start`.

pub(crate) mod collision;
pub mod deliver;
pub mod digest;
pub mod dir;
mod flush;
pub mod memory;
pub mod null;
mod properties;
mod start;
mod writer;

use std::path::PathBuf;

use crate::error::Result;
use crate::key::ObjectKey;
use crate::name::Name;
use crate::object::{Fingerprint, ObjectMeta};
pub use crate::object::{ObjectWriter, Put};
pub use crate::sink_state::{ReadRow, SinkState, StateRow};
pub use flush::{DurabilityScope, Flush, Flushed, Sealed};
pub use properties::SinkProperties;
pub use start::{Mode, Start, Started};
pub use writer::{Completed, Left, PartitionWriter, Place, Wake, Writer};

/// A committed object that is a failure now.
#[derive(Clone, Debug)]
pub struct WithdrawnObject {
    /// What the sink calls it.
    pub key: ObjectKey,
    /// What was written.
    pub fingerprint: Fingerprint,
    /// It was there already, from an earlier session.
    pub kept: bool,
}

/// Where objects go.
pub trait Sink: Send + Sync {
    /// Identifies the destination when a run resumes.
    fn identity(&self) -> String;
    /// How it writes.
    fn properties(&self) -> SinkProperties {
        SinkProperties::default()
    }
    /// The directory whose `.shoal/` holds the journal, unless the user names another place. `None` if there is no such
    /// directory: then the run cannot be resumed.
    fn journal_dir(&self) -> Option<PathBuf>;
    /// Whether an earlier session has written here. A sink that stores nothing returns true.
    fn has_begun(&self) -> bool {
        true
    }
    /// The key under which it writes an object that a source has listed; an error if it cannot. Called before the fetch,
    /// with what the listing says. The answer depends on nothing else. A sink of files admits names only.
    ///
    /// # Errors
    /// [`Kind::UnsafeName`](crate::Kind::UnsafeName): the object is a failure.
    fn admit(&self, raw: &[u8]) -> Result<ObjectKey> {
        Name::parse(raw).map(ObjectKey::from)
    }
    /// Prepares the destination: removes leftovers of interrupted runs, publishes what `state` says is committed and was
    /// not published, and checks limits. It writes nothing new before the lease is granted.
    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started>;
    /// Looks whether what a finished run has written is still there. Called instead of `start`, before the run is said to be
    /// complete again. What it returns is a note for the report.
    ///
    /// # Errors
    /// Of class `Run`: something is missing.
    fn look_again(&self, state: &dyn SinkState) -> Result<Option<String>> {
        let _ = state;
        Ok(None)
    }
    /// The destination's clock now, if it has one: the timestamp of a file created now.
    ///
    /// # Errors
    /// Of class `Run` if the clock can no longer be read.
    fn clock(&self) -> Result<Option<i64>> {
        Ok(None)
    }
    /// Creates the writer of one lane, which `wake` wakes.
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>>;
    /// Makes sealed partitions durable: these, and those that earlier calls have held back.
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed>;
    /// The journal has this state now. A sink that synced files under temporary names gives them their final names.
    ///
    /// # Errors
    /// Of class `Run`: the next start publishes them.
    fn publish(&self, state: &[StateRow]) -> Result<()> {
        let _ = state;
        Ok(())
    }
    /// These committed objects are about to be recorded as failures: returns the state to commit with that. After a kill
    /// before `withdraw`, it is in `start`. A sink with many objects in a file removes them in [`Sink::mend`], or in the
    /// next [`Sink::start`], and stores nothing under their names before.
    fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        let _ = objects;
        Vec::new()
    }
    /// Tells the sink that a committed object is now recorded as a failure, and that nothing else counts on its bytes. The
    /// sink removes it if it can; an object that a consumer has received stays there.
    fn withdraw(&self, object: &WithdrawnObject) {
        let _ = object;
    }
    /// Removes withdrawn objects, once nothing is written any more. Returns the state that is committed next, then passed
    /// to `publish`; called again until there is none. Asks often whether to `stop`: the next start does the rest.
    ///
    /// # Errors
    /// Of class `Run`.
    fn mend(&self, state: &dyn SinkState, stop: &mut dyn FnMut() -> bool) -> Result<Vec<StateRow>> {
        let _ = (state, stop);
        Ok(Vec::new())
    }
    /// Gives the directory at `path` what belongs to it, once everything below it is written. Empty: the root. A directory
    /// that is not there is made if `make`.
    ///
    /// # Errors
    /// Of class `Run`.
    fn directory(&self, path: &[u8], meta: &ObjectMeta, make: bool) -> Result<()> {
        let _ = (path, meta, make);
        Ok(())
    }
    /// Makes what [`Sink::directory`] has set durable.
    ///
    /// # Errors
    /// Of class `Run`.
    fn sync_directories(&self) -> Result<()> {
        Ok(())
    }
    /// Called once at the end, also of an interrupted run, after the journal has recorded that this session has ended.
    /// If that could not be recorded, it is not called and the lease stays, as after a kill. What it returns is a note for
    /// the report.
    fn finish(&self) -> Result<Option<String>> {
        Ok(None)
    }
}
