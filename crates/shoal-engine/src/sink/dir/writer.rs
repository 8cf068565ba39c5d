//! `DirWriter`: a lane's part of the directory sink. Its partitions share the directory cache. Not here: writing an object
//! (`whole_object.rs`, `stream.rs`), what belongs to one partition (`open_partition.rs`).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::destination::Destination;
use super::directory_cache::DirectoryCache;
use super::open_partition::{OpenPartition, check_length};
use super::target::Target;
use super::{links, stream, whole_object};
use crate::error::Result;
use crate::key::ObjectKey;
use crate::name::Name;
use crate::object::{Modes, ObjectKind, ObjectMeta, Payload};
use crate::partition::Partition;
use crate::sink::{Left, Mode, ObjectWriter, PartitionWriter, Put, Sealed, Writer};

/// Opens partitions for one lane.
pub(super) struct DirWriter {
    destination: Arc<Destination>,
    /// Shared by the partitions of the lane.
    directories: Rc<RefCell<DirectoryCache>>,
}

/// Writes the objects of a partition. Dropped before it is sealed, it leaves the files that are in place: the journal does
/// not have them, so they are leftovers for the next run.
struct DirPartition {
    destination: Arc<Destination>,
    directories: Rc<RefCell<DirectoryCache>>,
    /// Shared with the objects in pieces that are being written.
    partition: Rc<RefCell<OpenPartition>>,
}

impl DirWriter {
    pub fn new(destination: Arc<Destination>) -> DirWriter {
        let directories = Rc::new(RefCell::new(DirectoryCache::new(destination.clone())));
        DirWriter { destination, directories }
    }
}

impl Writer for DirWriter {
    fn open(&mut self, partition: &Partition, mode: Mode, modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        let opened = OpenPartition::new(partition.seq, mode, modes);
        let (destination, directories) = (self.destination.clone(), self.directories.clone());
        Ok(Box::new(DirPartition { destination, directories, partition: Rc::new(RefCell::new(opened)) }))
    }
}

impl DirPartition {
    /// Runs `write` with the directory `path`. If it fails for a reason that the cached directories may have caused
    /// (one was removed meanwhile, or they use the last fds), closes them and runs it once more.
    fn with_directory<T>(
        &self,
        path: Option<&[u8]>,
        name: &Name,
        mut write: impl FnMut(Target<'_>) -> Result<T>,
    ) -> Result<T> {
        let directories = &mut *self.directories.borrow_mut();
        let mut attempt = |directories: &mut DirectoryCache| {
            let directory = &directories.get(path, name, &self.partition.borrow().modes)?;
            write(Target { destination: &self.destination, directory, name })
        };
        let result = attempt(directories);
        let from_cache = [Errno::NOENT, Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        match &result {
            Err(error) if error.os_error().is_some_and(|errno| from_cache.contains(&errno)) && directories.clear() => {
                attempt(directories)
            }
            _ => result,
        }
    }

    /// Whether a file of an earlier session can be recognized. Without timestamps, a torn file looks like a whole one.
    fn recognizes(&self) -> bool {
        self.destination.keep_times
    }
}

impl PartitionWriter for DirPartition {
    fn put(&mut self, _index: u32, key: &ObjectKey, meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        let (name, partition) = (key.name()?, &self.partition);
        check_length(name, meta, payload.size())?;
        if let Payload::Elsewhere { size, put } = *payload {
            return self.with_directory(name.split().0, name, |target| {
                if put != Put::Duplicate {
                    partition.borrow_mut().wrote(target.directory, size);
                }
                Ok(put)
            });
        }
        let bytes = payload.bytes()?;
        let attributes = &Attributes::of(meta, self.destination.keep_times);
        self.with_directory(name.split().0, name, |target| {
            let mode = partition.borrow().mode;
            let put = match meta.kind {
                ObjectKind::File => whole_object::write(target, bytes, attributes, mode)?,
                ObjectKind::Link => links::write(target, bytes, attributes, mode)?,
            };
            if put != Put::Duplicate {
                partition.borrow_mut().wrote(target.directory, bytes.len() as u64);
            }
            Ok(put)
        })
    }

    fn has(&mut self, key: &ObjectKey, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<Left>> {
        let name = key.name()?;
        if !self.recognizes() {
            return Ok(None);
        }
        self.with_directory(name.split().0, name, |target| {
            let left = target.left(meta)?;
            if let Some(Left::Whole(size)) = left {
                self.partition.borrow_mut().wrote(target.directory, size);
            }
            Ok(left)
        })
    }

    fn kept(&mut self, key: &ObjectKey) -> Result<Option<ObjectMeta>> {
        let name = key.name()?;
        if !self.recognizes() {
            return Ok(None);
        }
        self.with_directory(name.split().0, name, |target| target.kept())
    }

    fn link(&mut self, _index: u32, key: &ObjectKey, to: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Put>> {
        let (name, to) = (key.name()?, to.name()?);
        let Some(first) = self.directories.borrow_mut().find(to.split().0) else { return Ok(None) };
        self.with_directory(name.split().0, name, |target| {
            let first = Target { destination: &self.destination, directory: &first, name: to };
            let put = links::join(target, first, meta, self.partition.borrow().mode)?;
            if put.is_some() {
                self.partition.borrow_mut().wrote(target.directory, 0);
            }
            Ok(put)
        })
    }

    fn begin(&mut self, _index: u32, key: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        let name = key.name()?;
        self.with_directory(name.split().0, name, |target| stream::begin(target, &self.partition, meta)).map(Some)
    }

    fn directory(&mut self, key: &ObjectKey) -> Result<()> {
        let name = key.name()?;
        self.with_directory(Some(name.as_bytes()), name, |target| {
            self.partition.borrow_mut().touch(target.directory);
            Ok(())
        })
    }

    fn seal(self: Box<Self>) -> Result<Sealed> {
        Ok(self.partition.borrow_mut().seal())
    }
}
