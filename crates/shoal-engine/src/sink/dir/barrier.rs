//! The barrier: makes what was written to a destination durable, with the names of its files and directories. Not here:
//! what is synced on which file system (`mounts.rs`), when a barrier is due (`engine/commit.rs`).

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;

use super::destination::Destination;
use super::directory::Directory;
use crate::error::Result;
use crate::fs::dir::Dir;
use crate::fs::error::{Doing, Trouble};
use crate::fs::sync::sync_directory;
use crate::sink::Reach;

/// The directories, as paths below the destination, in which a partition has created entries; `""` is the destination.
/// Paths and not fds, since a batch may touch 20,000 of them. At most as many as a batch has objects.
pub(super) type Touched = BTreeSet<Box<[u8]>>;

/// How often a barrier tries to open a directory if there are no free fds, every 20 ms. A sync is never retried.
const OPEN_TRIES: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(20);

impl Destination {
    /// Makes all that was written before this call, and the names in the touched directories, durable.
    pub(super) fn sync(&self, touched: &Touched) -> Result<Reach> {
        self.sync_names(&self.root, touched)?;
        self.mounts.sync(&self.root).map_err(|trouble| trouble.of_run(&self.path_of(b""), self.root.dir.as_fd()))
    }

    /// Makes the names in the touched directories durable. All of these are in `base`. An object's name is durable only
    /// if the names of the directories above it are durable too.
    pub(super) fn sync_names(&self, base: &Directory, touched: &Touched) -> Result<()> {
        let mut directories = Touched::new();
        for path in touched {
            let mut rest = base.relative(path);
            while directories.insert(rest.into()) && !rest.is_empty() {
                rest = memchr::memrchr(b'/', rest).map_or(b"", |cut| &rest[..cut]);
            }
        }
        for path in &directories {
            match path.is_empty() {
                true => sync_directory(&base.dir),
                false => reopen(&base.dir, path).and_then(sync_directory),
            }
            .map_err(|trouble| trouble.of_run(&self.path_of(&base.join(path)), base.dir.as_fd()))?;
        }
        Ok(())
    }
}

/// Opens a directory again, for the barrier.
pub(super) fn reopen(base: &Dir, path: &[u8]) -> Result<Dir, Trouble> {
    let mut tries = 0;
    'again: loop {
        let mut dir: Option<Dir> = None;
        for component in path.split(|&byte| byte == b'/') {
            match dir.as_ref().unwrap_or(base).open(component) {
                Ok(next) => dir = Some(next),
                // The lanes use all fds at the moment. Waiting costs less than copying a batch again.
                Err(Errno::MFILE | Errno::NFILE) if tries < OPEN_TRIES => {
                    tries += 1;
                    std::thread::sleep(OPEN_PAUSE);
                    continue 'again;
                }
                Err(errno) => return Err(Doing::Sync.failed()(errno)),
            }
        }
        return dir.ok_or_else(|| Doing::Sync.failed()(Errno::NOENT));
    }
}
