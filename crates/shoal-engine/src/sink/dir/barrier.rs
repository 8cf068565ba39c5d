//! The barrier: how files become durable on each file system of the destination, with the names of files and
//! directories. Not here: when a barrier is due (`engine/commit.rs`).

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Duration;

use rustix::io::Errno;

use super::directory::{Directory, open_below};
use crate::fs::dir::{Dir, DirectoryId};
use crate::fs::error::{FsError, Operation};
use crate::fs::sync::{Barrier, FileSystem, file_system, sync_directory, syncfs};
use crate::options::Durability;
use crate::poison::ignore_poison;
use crate::sink::DurabilityScope;

/// The directories, as paths below the destination, in which a partition has created entries; `""` is the destination.
/// Paths and not fds, since a batch may touch 20,000 of them. At most as many as a batch has objects.
pub(super) type Touched = BTreeSet<Box<[u8]>>;

/// How often a barrier tries to open a directory if there are no free fds, every 20 ms. A sync is never retried.
const OPEN_TRIES: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(20);

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
    place: DirectoryId,
    barrier: Barrier,
    /// Opened before the first write there, for `syncfs`.
    kept: Option<OwnedFd>,
}

impl Mounts {
    pub fn new(any_below: bool) -> Mounts {
        Mounts { any_below, opened: Mutex::default() }
    }

    /// The barrier of a directory that is not on the destination's mount.
    pub fn barrier(&self, dir: &Dir, place: DirectoryId, durability: Durability) -> Result<Barrier, FsError> {
        let mut opened = ignore_poison(self.opened.lock());
        if let Some(mount) = opened.iter().find(|mount| mount.place.is_on_mount_of(&place)) {
            return Ok(mount.barrier);
        }
        let barrier = barrier(durability, file_system(dir)?);
        // syncfs reports errors since its fd was opened. A duplicate shares that moment with the original.
        let kept = match barrier {
            Barrier::Syncfs => Some(rustix::io::fcntl_dupfd_cloexec(dir, 0).map_err(Operation::Open.failed())?),
            _ => None,
        };
        opened.push(Mount { place, barrier, kept });
        Ok(barrier)
    }

    /// Makes everything durable that was written before this call to the mount of `root` and to these mounts.
    pub fn sync(&self, root: &Directory) -> Result<DurabilityScope, FsError> {
        if root.barrier == Barrier::Syncfs {
            syncfs(&root.dir)?;
        }
        let opened = ignore_poison(self.opened.lock());
        for kept in opened.iter().filter_map(|mount| mount.kept.as_ref()) {
            syncfs(kept)?;
        }
        let alone = opened.is_empty() && !self.any_below;
        let anywhere = |barrier| root.barrier == barrier || opened.iter().any(|mount| mount.barrier == barrier);
        Ok(match root.barrier {
            // Also on a tmpfs, which loses its files in a reboot.
            _ if anywhere(Barrier::Nothing) => DurabilityScope::PageCache,
            Barrier::Syncfs if alone => DurabilityScope::Everything,
            _ => DurabilityScope::Named,
        })
    }
}

/// Makes the names in the touched directories durable. An object's name is durable only if the names of the directories
/// above it are durable too. An error has the path of its directory.
pub(super) fn sync_names(root: &Dir, touched: &Touched) -> Result<(), (FsError, Box<[u8]>)> {
    let mut directories = Touched::new();
    for path in touched {
        let mut rest: &[u8] = path;
        while directories.insert(rest.into()) && !rest.is_empty() {
            rest = memchr::memrchr(b'/', rest).map_or(b"", |cut| &rest[..cut]);
        }
    }
    for path in directories {
        match path.is_empty() {
            true => sync_directory(root),
            false => reopen(root, &path).and_then(sync_directory),
        }
        .map_err(|failed| (failed, path))?;
    }
    Ok(())
}

/// Opens a directory again, for the barrier.
fn reopen(base: &Dir, path: &[u8]) -> Result<Dir, FsError> {
    let mut tries = 0;
    loop {
        match open_below(base, path) {
            // The lanes use all fds at the moment. Waiting costs less than copying a batch again.
            Err(Errno::MFILE | Errno::NFILE) if tries < OPEN_TRIES => {
                tries += 1;
                std::thread::sleep(OPEN_PAUSE);
            }
            opened => return opened.map_err(Operation::Fsync.failed()),
        }
    }
}
