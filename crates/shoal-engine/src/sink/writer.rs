//! `Writer` and `PartitionWriter`: what one lane writes with.

use super::{Mode, ObjectWriter, Put, Sealed};
use crate::error::Result;
use crate::key::ObjectKey;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::partition::Partition;

/// Wakes a lane: it has room again, or a write has ended. May be called from any thread.
pub type Wake = std::sync::Arc<dyn Fn() + Send + Sync>;

/// The position of an object in the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// `Partition::seq`.
    pub seq: u64,
    /// Its entry in the partition.
    pub index: u32,
}

/// What an earlier session has left of an object that has not changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The object, of this size: whole, unchanged, and with its time.
    Whole(u64),
    /// The same, but others have changed it.
    Edited,
}

/// What a lane needs for all its partitions, such as directories that it keeps open.
pub trait Writer {
    /// Opens a partition for this lane. `modes` has the permission bits of the directories that its objects need.
    fn open(&mut self, partition: &Partition, mode: Mode, modes: Modes) -> Result<Box<dyn PartitionWriter>>;
    /// Whether the object at `place` may be fetched now. A sink that has no room says no, and wakes the lane later. Called
    /// before each fetch, so it must be cheap.
    fn has_room(&mut self, place: Place) -> bool {
        let _ = place;
        true
    }
}

/// A write that has ended after the sink had answered [`Put::Later`].
pub struct Completed {
    /// The entry of its object.
    pub index: u32,
    /// What became of it; not `Put::Later`.
    pub result: Result<Put>,
    /// The object's bytes, if it failed and the sink still has them. Then a retry need not fetch it again.
    pub bytes: Option<Vec<u8>>,
}

/// Writes the objects of one partition, or of one lane's part of it. Dropped without `seal`, it commits nothing: what it
/// has written is a leftover that the next session replaces.
pub trait PartitionWriter {
    /// Writes a complete object. With `Put::Later` the sink owns the bytes, and hands the write back in `completed`. After
    /// an error, the engine may write bytes that are still in `payload` again.
    fn put(&mut self, index: u32, key: &ObjectKey, meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put>;
    /// Writes a complete object that `read` appends to the sink's buffer, which has room for
    /// [`WHOLE_MAX`](crate::object::WHOLE_MAX) bytes and one more. Returns its size, or `None` if nothing was written,
    /// because the sink has no such buffer (`read` was not called) or `read` returned false.
    fn put_in_place(
        &mut self,
        index: u32,
        key: &ObjectKey,
        read: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<Option<u64>> {
        let _ = (index, key, read);
        Ok(None)
    }
    /// Begins an object that is written in pieces. `None`: there is no room for this size now; the sink wakes the lane.
    fn begin(&mut self, index: u32, key: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>>;
    /// Makes `key` another name of the object `to`, which this run has written with the size and time in `meta`. `None` if that
    /// is not possible: then the object is written.
    fn link(&mut self, index: u32, key: &ObjectKey, to: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Put>> {
        let _ = (index, key, to, meta);
        Ok(None)
    }
    /// The next write that has ended, in any order; `None`: none at the moment. The sink has woken the lane for it.
    fn completed(&mut self) -> Option<Completed> {
        None
    }
    /// Tells that entry `index` is not written here: it was skipped, has failed or is retried in another partition.
    fn skip(&mut self, index: u32) {
        let _ = index;
    }
    /// Whether an earlier session of this run has left the object here. `meta` is called only if a file exists, which is
    /// rare.
    fn has(&mut self, key: &ObjectKey, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<Left>> {
        let _ = (key, meta);
        Ok(None)
    }
    /// Returns size and time of the file of this name if an earlier session of this run has left it here: whole,
    /// unchanged since, and with the timestamp of its source.
    fn kept(&mut self, key: &ObjectKey) -> Result<Option<ObjectMeta>> {
        let _ = key;
        Ok(None)
    }
    /// Creates an empty directory and its parents. It may exist already; a file of this name is a failure. A sink that
    /// stores only objects does nothing.
    fn directory(&mut self, key: &ObjectKey) -> Result<()> {
        let _ = key;
        Ok(())
    }
    /// Closes the partition. Every object is written, and every write that came later has been handed back.
    fn seal(self: Box<Self>) -> Result<Sealed>;
}
