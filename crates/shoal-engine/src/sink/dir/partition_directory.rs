//! `PartitionDirectory` (layout `partition`): the directory of a partition, filled in `.shoal/tmp/` and published as a
//! whole by one rename.
//!
//! An existing directory is replaced only if each file in it is an unmodified one of earlier sessions of this run, or
//! if `overwrite="always"` is set. Otherwise it is not touched, and the partition's objects are failures. To replace
//! means to exchange the two, and to delete the old one after the barrier.
//!
//! Not here: the paths (`layout.rs`), files (`whole_object.rs`, `stream.rs`), the barrier (`barrier.rs`).

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use super::barrier::{Touched, reopen};
use super::cleanup::remove_directory;
use super::destination::Destination;
use super::directory::Directory;
use super::directory_cache::DirectoryCache;
use super::layout::partition_path;
use super::temp_name::{TempName, random_directory_name};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Access, Dir};
use crate::fs::error::{FsError, Operation};
use crate::fs::sync::Barrier;
use crate::name::Name;
use crate::options::Overwrite;
use crate::poison::ignore_poison;
use crate::session::Whose;

/// How deep a directory is searched for files that may not be replaced. A deeper one is not replaced.
const DEPTH_MAX: u32 = 128;

/// A partition's directory. It is removed if it is dropped before it is published.
#[derive(Debug)]
pub(super) struct PartitionDirectory {
    destination: Arc<Destination>,
    /// Its final path below the destination.
    path: String,
    /// Set from the partition's first object until it is published.
    created: Mutex<Option<Created>>,
}

#[derive(Clone, Copy, Debug)]
struct Created {
    /// Its name in `.shoal/tmp`.
    name: TempName,
    /// An existing directory at the final path may be replaced, even if it is not empty.
    replace: bool,
}

impl PartitionDirectory {
    pub fn new(destination: Arc<Destination>, seq: u64) -> PartitionDirectory {
        let path = partition_path(destination.options.part, seq);
        PartitionDirectory { destination, path, created: Mutex::default() }
    }

    /// Opens the directory for one lane. Creates it for the partition's first object, which is `name`, for errors.
    pub fn enter(&self, cache: &mut DirectoryCache, name: &Name) -> Result<Arc<Directory>> {
        let destination = &self.destination;
        let failed = |failed| destination.directory_error(failed, &destination.root, self.path.as_bytes(), name);
        let mut created = self.lock();
        let Created { name: temporary, .. } = match *created {
            Some(created) => created,
            None => {
                let fresh = Created { name: random_directory_name(), replace: self.may_replace(cache, name)? };
                let make = destination.tmp.make_new(&fresh.name, Access::Usual);
                make.map_err(Operation::Mkdir.failed()).map_err(failed)?;
                *created.insert(fresh)
            }
        };
        drop(created);
        let dir = destination.tmp.open(&temporary).map_err(Operation::Open.failed()).map_err(failed)?;
        let inside = Directory::new(dir, self.path.as_bytes(), destination.root.barrier, destination.root.births);
        Ok(Arc::new(Directory { unpublished: true, ..inside }))
    }

    /// Creates the directories above the final path. Returns whether what exists there may be replaced.
    fn may_replace(&self, cache: &mut DirectoryCache, name: &Name) -> Result<bool> {
        let (destination, path) = (&self.destination, self.path.as_bytes());
        let (above, leaf) = self.split();
        let above = cache.get(Some(above), name, &())?;
        let failed = |failed: FsError| destination.directory_error(failed, &above, path, name);
        if above.on_other_mount {
            return Err(failed(Operation::Mkdir.failed()(Errno::XDEV)));
        }
        let look = match above.dir.look(leaf) {
            Ok(look) => look,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(failed(Operation::Stat.failed()(errno))),
        };
        if !look.kind.is_dir() {
            return Err(failed(Operation::Mkdir.failed()(Errno::NOTDIR)));
        }
        if destination.options.overwrite == Overwrite::Always {
            return Ok(true);
        }
        match above.dir.open(leaf).and_then(|dir| has_only_leftovers(destination, &dir, DEPTH_MAX)) {
            Ok(empty_or_leftovers) if empty_or_leftovers => Ok(true),
            Ok(_) => {
                let why = format!(
                    "a directory exists with files that this run did not write or that were changed since: \"{}\"",
                    destination.shown(path)
                );
                Err(Error::new(Kind::Exists, why).on(&name.to_string()).hint(
                    "move it away and run again with `resume=\"failed\"`, or add `overwrite=\"always\"` to replace \
                    all of it",
                ))
            }
            Err(errno) => Err(failed(Operation::Stat.failed()(errno))),
        }
    }

    /// Renames the directory to its final path, in `above`. Returns the name in `.shoal/tmp` of what it replaced.
    fn publish(&self, above: &Dir) -> Result<Option<TempName>, FsError> {
        let (tmp, leaf) = (&self.destination.tmp, self.split().1);
        let mut created = self.lock();
        let Some(Created { name, replace }) = *created else { return Ok(None) };
        let mut replaced = None;
        match tmp.rename_over(&name, above, leaf) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if replace => match tmp.exchange(&name, above, leaf) {
                Ok(()) => replaced = Some(name),
                // Not every file system can. After a kill between the two renames, the journal does not have the
                // partition either.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    let aside = random_directory_name();
                    above
                        .rename_over(leaf, tmp, &aside)
                        .and_then(|()| tmp.rename_over(&name, above, leaf))
                        .map_err(Operation::Rename.failed())?;
                    replaced = Some(aside);
                }
                Err(errno) => return Err(Operation::Rename.failed()(errno)),
            },
            result => result.map_err(Operation::Rename.failed())?,
        }
        *created = None;
        Ok(replaced)
    }

    fn split(&self) -> (&[u8], &[u8]) {
        let cut = self.path.len() - 3; // "/34"
        (&self.path.as_bytes()[..cut], &self.path.as_bytes()[cut + 1..])
    }

    fn lock(&self) -> MutexGuard<'_, Option<Created>> {
        ignore_poison(self.created.lock())
    }
}

impl Drop for PartitionDirectory {
    fn drop(&mut self) {
        if let Some(created) = *self.lock() {
            let _ = remove_directory(&self.destination.tmp, &created.name);
        }
    }
}

/// Whether every file below a directory may be replaced: an earlier session wrote it, and it is unmodified.
fn has_only_leftovers(destination: &Destination, dir: &Dir, depth: u32) -> rustix::io::Result<bool> {
    let searched = dir.names(|name| {
        let look = dir.look(name)?;
        let leftover = if look.kind.is_dir() && depth > 0 {
            has_only_leftovers(destination, &dir.open(name)?, depth - 1)?
        } else {
            let times = destination.times(&look);
            look.kind.is_file() && matches!(destination.sessions.whose(times.born, times.changed), Whose::Earlier(_))
        };
        if leftover { Ok(()) } else { Err(Errno::NOTEMPTY) }
    });
    match searched {
        Err(Errno::NOTEMPTY) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Publishes sealed partitions, and adds the directories above them to `touched`. Returns what they replaced. That is
/// deleted after the barrier: until then, a power failure may undo the rename.
pub(super) fn publish(
    destination: &Destination,
    partitions: &BTreeMap<u64, Arc<PartitionDirectory>>,
    touched: &mut Touched,
) -> Result<Vec<TempName>> {
    let mut replaced = Vec::new();
    let mut open: Option<(&[u8], Dir)> = None;
    for partition in partitions.values().filter(|partition| partition.lock().is_some()) {
        let above = partition.split().0;
        let at = |failed: FsError| {
            failed.of_run(&destination.path_of(partition.path.as_bytes()), destination.root.dir.as_fd())
        };
        let dir = match open.take() {
            Some((path, dir)) if path == above => dir,
            _ => reopen(&destination.root.dir, above).map_err(at)?,
        };
        replaced.extend(partition.publish(&dir).map_err(at)?);
        if destination.root.barrier == Barrier::Each {
            touched.insert(above.into());
        }
        open = Some((above, dir));
    }
    Ok(replaced)
}

/// Deletes what was replaced. What cannot be deleted is left for the cleanup of the next run.
pub(super) fn delete(destination: &Destination, replaced: &[TempName]) {
    for name in replaced {
        let _ = remove_directory(&destination.tmp, name);
    }
}
