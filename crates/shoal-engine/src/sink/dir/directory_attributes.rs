//! What the directories of the destination get at the end of a run: times, and permissions without those that writing in them
//! needed. Not here: in which order (`source/files/directories.rs`).

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::destination::Destination;
use super::directory::open_below;
use super::lost::What;
use crate::error::Result;
use crate::fs::dir::{Access, Dir, Look};
use crate::fs::error::{FsError, Operation};
use crate::object::ObjectMeta;
use crate::session::Whose;

/// Gives the directory at `path` what its source has. `make`: also if nothing was written in it.
pub(super) fn set(destination: &Arc<Destination>, path: &[u8], meta: &ObjectMeta, make: bool) -> Result<()> {
    // Of a directory alone: what one cannot have does not end the run before the others have theirs.
    let at = |failed: FsError| match failed.errno {
        Errno::NOTSUP => failed.at(&destination.path_of(path), destination.root.dir.as_fd(), 0),
        _ => failed.of_run(&destination.path_of(path), destination.root.dir.as_fd()),
    };
    destination.wait_for_lease()?;
    let opened;
    let dir = match path.is_empty() {
        true => &destination.root.dir,
        false => match open(destination, path, meta, make) {
            Ok(dir) => {
                opened = dir;
                &opened
            }
            // Nothing was written there, or what is there is not the directory: an object has failed for it, or was skipped.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NAMETOOLONG) => return Ok(()),
            Err(errno) => return Err(at(Operation::Open.failed()(errno))),
        },
    };
    let (look, place) = dir.place().map_err(Operation::Stat.failed()).map_err(at)?;
    if place.is(&destination.private) {
        return Ok(());
    }
    match set_of(destination, dir, path, &look, meta) {
        Err(FsError { errno: Errno::PERM | Errno::ACCESS, .. }) => {
            destination.lost.unless(false, What::Directory).map_err(at)
        }
        result => result.map_err(at),
    }
}

fn open(destination: &Destination, path: &[u8], meta: &ObjectMeta, make: bool) -> rustix::io::Result<Dir> {
    let root = &destination.root.dir;
    match open_below(root, path) {
        Err(Errno::NOENT) if make => {
            for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                let (above, name) = split(&path[..at]);
                within(root, above, |dir| dir.make(name, Access::Owner))?; // what it is to have comes after those below it
            }
            let (above, name) = split(path);
            within(root, above, |dir| dir.make(name, meta.mode.map_or(Access::Usual, Access::Bits)))?;
            open_below(root, path)
        }
        opened => opened,
    }
}

/// The directory of a path, if it is not the root, and the name in it.
fn split(path: &[u8]) -> (Option<&[u8]>, &[u8]) {
    memchr::memrchr(b'/', path).map_or((None, path), |at| (Some(&path[..at]), &path[at + 1..]))
}

fn within(root: &Dir, path: Option<&[u8]>, act: impl FnOnce(&Dir) -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    match path {
        None => act(root),
        Some(path) => act(&open_below(root, path)?),
    }
}

fn set_of(
    destination: &Arc<Destination>,
    dir: &Dir,
    path: &[u8],
    look: &Look,
    meta: &ObjectMeta,
) -> Result<(), FsError> {
    let attributes = Attributes::of(meta, destination.keep_times);
    if destination.options.exact {
        return match attributes.differ(look, dir.as_fd(), destination) {
            true => attributes.set(dir.as_fd(), destination, false),
            false => Ok(()),
        };
    }
    // A directory that was there before stays as it is, but for its time if others keep writing in it.
    let times = destination.times(look);
    let whose = destination.sessions.whose(times.born, times.changed);
    let is_own = whose != Whose::Other;
    if is_own {
        attributes.set_extended(dir.as_fd(), destination, false)?;
    }
    if is_own && let Some(bits) = meta.mode {
        // It was open to its owner until now. What others may do stays as it was when it was made, or has become since.
        let bits = bits & destination.file_mode;
        let mode = if whose == Whose::This { bits } else { bits & 0o700 | look.mode & 0o077 };
        if dir.place().is_ok_and(|(now, _)| now.mode & 0o777 != mode) {
            dir.set_mode(look.mode & 0o7000 | mode);
        }
    }
    match (is_own || path.is_empty()) && attributes.has_other_time(look) {
        true => attributes.set_time(dir.as_fd()),
        false => Ok(()),
    }
}
