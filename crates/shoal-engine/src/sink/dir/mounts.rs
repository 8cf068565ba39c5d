//! What makes files durable on each file system of the destination: which barrier applies, and the barrier of whole file
//! systems. Not here: the names in directories, and when a barrier is due (`barrier.rs`, `engine/commit.rs`).

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use super::directory::Directory;
use crate::fs::dir::{Dir, Place};
use crate::fs::error::{Doing, Trouble};
use crate::fs::sync::{Barrier, FileSystem, file_system, syncfs};
use crate::options::Durability;
use crate::sink::Reach;

/// The barrier that this durability needs on a file system.
pub(super) fn barrier(durability: Durability, system: FileSystem) -> Barrier {
    match durability {
        Durability::None => Barrier::Nothing,
        Durability::Batch => system.batch,
        Durability::File => Barrier::Each,
    }
}

/// The mounts below the destination on which this session has opened a directory.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// Earlier sessions may have written to mounts that this session has not opened, so its barrier misses them.
    any_below: bool,
    opened: Mutex<Vec<Mount>>,
}

#[derive(Debug)]
struct Mount {
    place: Place,
    barrier: Barrier,
    /// Opened before the first write there, for `syncfs`.
    kept: Option<OwnedFd>,
}

impl Mounts {
    pub(super) fn new(any_below: bool) -> Mounts {
        Mounts { any_below, opened: Mutex::default() }
    }

    /// The barrier of a directory that is not on the destination's mount.
    pub(super) fn barrier(&self, dir: &Dir, place: Place, durability: Durability) -> Result<Barrier, Trouble> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = opened.iter().find(|mount| mount.place.is_on_mount_of(&place)) {
            return Ok(mount.barrier);
        }
        let barrier = barrier(durability, file_system(dir)?);
        // syncfs reports errors since its fd was opened. A duplicate shares that moment with the original.
        let kept = match barrier {
            Barrier::Syncfs => Some(rustix::io::fcntl_dupfd_cloexec(dir, 0).map_err(Doing::Open.failed())?),
            _ => None,
        };
        opened.push(Mount { place, barrier, kept });
        Ok(barrier)
    }

    /// Makes everything durable that was written before this call to the mount of `root` and to these mounts.
    pub(super) fn sync(&self, root: &Directory) -> Result<Reach, Trouble> {
        if root.barrier == Barrier::Syncfs {
            syncfs(&root.dir)?;
        }
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        for kept in opened.iter().filter_map(|mount| mount.kept.as_ref()) {
            syncfs(kept)?;
        }
        let alone = opened.is_empty() && !self.any_below;
        let anywhere = |barrier| root.barrier == barrier || opened.iter().any(|mount| mount.barrier == barrier);
        Ok(match root.barrier {
            // Also on a tmpfs, which loses its files in a reboot.
            _ if anywhere(Barrier::Nothing) => Reach::PageCache,
            Barrier::Syncfs if alone => Reach::Everything,
            _ => Reach::Named,
        })
    }
}
