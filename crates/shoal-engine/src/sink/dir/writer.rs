//! `DirWriter`: a lane's part of the directory sink. It has what the lane's partitions share, which is the directory
//! cache, and the partitions that are open. Not here: writing an object (`whole_object.rs`, `stream.rs`), what belongs
//! to one partition (`open_partition.rs`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::destination::Destination;
use super::directory_cache::DirectoryCache;
use super::open_partition::{OpenPartition, check_length};
use super::partition_registry::PartitionRegistry;
use super::target::Target;
use super::{stream, whole_object};
use crate::error::{Error, Kind, Result};
use crate::name::Name;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::partition::Partition;
use crate::sink::{Mode, ObjectWriter, Put, Sealed, Writer};

/// Writes the objects of one lane.
pub(super) struct DirWriter {
    destination: Arc<Destination>,
    registry: Arc<PartitionRegistry>,
    directories: DirectoryCache,
    /// By slot. Shared with the objects in pieces that are being written.
    partitions: HashMap<u32, Rc<RefCell<OpenPartition>>>,
}

impl DirWriter {
    pub fn new(destination: Arc<Destination>, registry: Arc<PartitionRegistry>) -> DirWriter {
        let directories = DirectoryCache::of_lane(destination.clone());
        DirWriter { destination, registry, directories, partitions: HashMap::new() }
    }

    fn partition(&self, slot: u32) -> Result<Rc<RefCell<OpenPartition>>> {
        self.partitions.get(&slot).cloned().ok_or_else(|| not_open(slot))
    }

    /// Runs `write` with the directory `path`. If it fails for a reason that the cached directories may have caused
    /// (one was removed meanwhile, or they use the last fds), closes them and runs it once more.
    fn with_directory<T>(
        &mut self,
        partition: &Rc<RefCell<OpenPartition>>,
        path: Option<&[u8]>,
        name: &Name,
        mut write: impl FnMut(Target<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = |lane: &mut Self| {
            let directory = &partition.borrow_mut().directory(&mut lane.directories, path, name)?;
            write(Target { destination: &lane.destination, directory, name })
        };
        let result = attempt(self);
        let from_cache = [Errno::NOENT, Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        match &result {
            Err(error)
                if error.os_error().is_some_and(|errno| from_cache.contains(&errno))
                    && (partition.borrow_mut().close_directories() | self.directories.clear()) =>
            {
                attempt(self)
            }
            _ => result,
        }
    }
}

impl Writer for DirWriter {
    fn open(&mut self, slot: u32, partition: &Partition, mode: Mode, modes: Modes) -> Result<()> {
        let opened = OpenPartition::new(&self.destination, &self.registry, partition.seq, mode, modes);
        match self.partitions.insert(slot, Rc::new(RefCell::new(opened))) {
            None => Ok(()),
            Some(_) => Err(Error::new(Kind::Internal, format!("slot {slot} was opened twice"))),
        }
    }

    fn put(&mut self, slot: u32, name: &Name, meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put> {
        check_length(name, meta, payload.size())?;
        let partition = self.partition(slot)?;
        if let Payload::Elsewhere { size, put } = payload {
            return self.with_directory(&partition, name.split().0, name, |target| {
                if put != Put::Duplicate {
                    partition.borrow_mut().wrote(target.directory, size);
                }
                Ok(put)
            });
        }
        let bytes = payload.bytes()?;
        let attributes = Attributes::of(meta, self.destination.keep_times);
        self.with_directory(&partition, name.split().0, name, |target| {
            let mode = partition.borrow().mode;
            let put = whole_object::write(target, bytes, attributes, mode)?;
            if put != Put::Duplicate {
                partition.borrow_mut().wrote(target.directory, bytes.len() as u64);
            }
            Ok(put)
        })
    }

    fn has(&mut self, slot: u32, name: &Name, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<u64>> {
        let partition = self.partition(slot)?;
        // A partition's directory is redone as a whole. Without timestamps, a torn file looks like a whole one.
        if !partition.borrow().is_by_name() || !self.destination.keep_times {
            return Ok(None);
        }
        self.with_directory(&partition, name.split().0, name, |target| {
            let done = target.is_done(meta)?;
            if let Some(size) = done {
                partition.borrow_mut().wrote(target.directory, size);
            }
            Ok(done)
        })
    }

    fn kept(&mut self, slot: u32, name: &Name) -> Result<Option<ObjectMeta>> {
        let partition = self.partition(slot)?;
        if !partition.borrow().is_by_name() || !self.destination.keep_times {
            return Ok(None);
        }
        self.with_directory(&partition, name.split().0, name, |target| target.kept())
    }

    fn begin(&mut self, slot: u32, name: &Name, meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>> {
        let partition = self.partition(slot)?;
        self.with_directory(&partition, name.split().0, name, |target| stream::begin(target, &partition, meta))
    }

    fn directory(&mut self, slot: u32, name: &Name) -> Result<()> {
        let partition = self.partition(slot)?;
        self.with_directory(&partition, Some(name.as_bytes()), name, |target| {
            partition.borrow_mut().touch(target.directory);
            Ok(())
        })
    }

    fn seal(&mut self, slot: u32) -> Result<Sealed> {
        let partition = self.partitions.remove(&slot).ok_or_else(|| not_open(slot))?;
        partition.borrow_mut().seal(&self.destination)
    }

    fn discard(&mut self, slot: u32) {
        // Files that are in place stay. The journal does not have them, so they are leftovers for the next run. A
        // partition's directory is removed with the last share of it.
        self.partitions.remove(&slot);
    }
}

fn not_open(slot: u32) -> Error {
    Error::new(Kind::Internal, format!("slot {slot} is not open"))
}
