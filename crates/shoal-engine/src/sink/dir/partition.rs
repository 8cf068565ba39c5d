//! Layout `partition`: a partition's own directory, filled in `.shoal/tmp/` and published whole by one rename.
//!
//! Partition 1234 becomes `00/0012/34`. A directory that is there already is replaced only where each file in it is an
//! unmodified one of earlier sessions of this run, or `overwrite="always"` is set; any other is not touched, and the
//! partition's objects are failures. Replaced means exchanged, and deleted after the barrier.
//!
//! Objects that are tried again later do not know their partition. They are written as in the layout `names`, below
//! `retried/`: in one of 10,000 directories, by the hash of the name, so that what a killed run left is found and
//! replaced. A partition that is redone whole does not look there: after a restart of the run an object may lie in both places.
//!
//! Not here: files (`writer.rs`, `stream.rs`), the barrier (`session.rs`).

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;

use super::Touched;
use super::parents::Parents;
use super::session::{Parent, Session};
use super::sweep::remove_whole;
use super::temp::{TempName, random_directory_name};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Access, Dir};
use crate::fs::error::{Doing, Trouble};
use crate::fs::sync::Barrier;
use crate::name::Name;
use crate::object::DirectoryModes;
use crate::options::Overwrite;
use crate::session::Whose;

/// How deep a directory is searched for files that may not be replaced; one that is deeper is not replaced.
const DEPTH_MAX: u32 = 128;

/// Directories below `retried/`, in two steps of as many: at most 100 objects in each for the first million.
const RETRIED_STEP: u64 = 100;

/// Where the objects of partition `seq` lie, below the destination: its last two digits, the four before, the rest.
pub(super) fn place(seq: u64) -> String {
    format!("{:02}/{:04}/{:02}", seq / 1_000_000, seq / 100 % 10_000, seq % 100)
}

/// Where `directory`, to which an object that is tried again later belongs, lies below the destination.
pub(super) fn retried_place(directory: Option<&[u8]>, name: &Name) -> Vec<u8> {
    let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes());
    let mut path = format!("retried/{:02}/{:02}", hash / RETRIED_STEP % RETRIED_STEP, hash % RETRIED_STEP).into_bytes();
    if let Some(directory) = directory {
        path.push(b'/');
        path.extend_from_slice(directory);
    }
    path
}

/// The modes of directories below a [`retried_place`]: those above are not the source's.
pub(super) struct RetriedModes<'m>(pub &'m dyn DirectoryModes);

impl DirectoryModes for RetriedModes<'_> {
    fn mode_of(&self, directory: &[u8]) -> Option<u32> {
        self.0.mode_of(directory.get("retried/00/00/".len()..)?)
    }
}

/// Partitions that are in work on some lane, or sealed and not published. Bounded by the objects of a batch.
#[derive(Debug, Default)]
pub(super) struct Parts(Mutex<HashMap<u64, Weak<Part>>>);

impl Parts {
    /// The partition `seq`, the same for every lane that has a share of it.
    pub(super) fn of(&self, session: &Arc<Session>, seq: u64) -> Arc<Part> {
        let mut parts = self.lock();
        if let Some(part) = parts.get(&seq).and_then(Weak::upgrade) {
            return part;
        }
        let part = Arc::new(Part { session: session.clone(), seq, path: place(seq), made: Mutex::default() });
        parts.insert(seq, Arc::downgrade(&part));
        part
    }

    fn forget(&self, seq: u64) {
        let mut parts = self.lock();
        // Another one with this number may have taken the place of the one that is dropped.
        if parts.get(&seq).is_some_and(|part| part.strong_count() == 0) {
            parts.remove(&seq);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Weak<Part>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A partition's directory. Dropped before it is published, it is removed.
#[derive(Debug)]
pub(super) struct Part {
    session: Arc<Session>,
    seq: u64,
    /// Its final place.
    path: String,
    /// Set from its first object until it is published.
    made: Mutex<Option<Made>>,
}

#[derive(Clone, Copy, Debug)]
struct Made {
    /// In `.shoal/tmp`.
    name: TempName,
    /// What stands in its place may be replaced, also when it is not empty.
    replace: bool,
}

impl Part {
    /// Opens the directory for one lane, after making it where this is its first object. Errors are those of `name`.
    pub(super) fn enter(&self, parents: &mut Parents, name: &Name) -> Result<Arc<Parent>> {
        let (session, path) = (&self.session, self.path.as_bytes());
        let mut made = self.lock();
        let Made { name: temporary, .. } = match *made {
            Some(made) => made,
            None => {
                let replace = self.may_replace(parents, name)?;
                let fresh = Made { name: random_directory_name(), replace };
                session
                    .tmp
                    .make_new(&fresh.name, Access::Usual)
                    .map_err(|errno| Doing::MakeDirectory.failed()(errno))
                    .map_err(|trouble| session.directory_error(trouble, &session.root, path, name))?;
                *made.insert(fresh)
            }
        };
        drop(made);
        let dir = session
            .tmp
            .open(&temporary)
            .map_err(|errno| Doing::Open.failed()(errno))
            .map_err(|trouble| session.directory_error(trouble, &session.root, path, name))?;
        let barrier = session.root.barrier;
        Ok(Arc::new(Parent { ours: true, ..Parent::new(dir, path, barrier, session.root.births) }))
    }

    /// Looks at its final place, making the directories above: whether what stands there may be replaced.
    fn may_replace(&self, parents: &mut Parents, name: &Name) -> Result<bool> {
        let (session, path) = (&self.session, self.path.as_bytes());
        let (above, leaf) = self.split();
        let above = parents.of(Some(above), name, &())?;
        let failed = |trouble: Trouble| session.directory_error(trouble, &above, path, name);
        if above.elsewhere {
            return Err(failed(Doing::MakeDirectory.failed()(Errno::XDEV)));
        }
        let look = match above.dir.look(leaf) {
            Ok(look) => look,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(failed(Doing::Look.failed()(errno))),
        };
        if !look.kind.is_dir() {
            return Err(failed(Doing::MakeDirectory.failed()(Errno::NOTDIR)));
        }
        if session.options.overwrite == Overwrite::Always {
            return Ok(true);
        }
        match above.dir.open(leaf).and_then(|dir| holds_only_leftovers(session, &dir, DEPTH_MAX)) {
            Ok(empty_or_leftovers) if empty_or_leftovers => Ok(true),
            Ok(_) => {
                let why = format!(
                    "a directory exists with files that this run did not write or that were changed since: \"{}\"",
                    session.shown(path)
                );
                Err(Error::new(Kind::Exists, why).on(&name.to_string()).hint(
                    "move it away and run again with `resume=\"failed\"`, or add `overwrite=\"always\"` to replace \
                    all of it",
                ))
            }
            Err(errno) => Err(failed(Doing::Look.failed()(errno))),
        }
    }

    /// Gives the directory its final place in `above`; the name in `.shoal/tmp` of what it replaced.
    fn publish(&self, above: &Dir) -> Result<Option<TempName>, Trouble> {
        let (tmp, leaf) = (&self.session.tmp, self.split().1);
        let mut made = self.lock();
        let Some(Made { name, replace }) = *made else { return Ok(None) };
        let mut replaced = None;
        match tmp.rename_over(&name, above, leaf) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if replace => match tmp.exchange(&name, above, leaf) {
                Ok(()) => replaced = Some(name),
                // Not every file system can. Cut off between the two, the journal does not hold the partition either.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    let aside = random_directory_name();
                    above
                        .rename_over(leaf, tmp, &aside)
                        .and_then(|()| tmp.rename_over(&name, above, leaf))
                        .map_err(Doing::Rename.failed())?;
                    replaced = Some(aside);
                }
                Err(errno) => return Err(Doing::Rename.failed()(errno)),
            },
            result => result.map_err(Doing::Rename.failed())?,
        }
        *made = None;
        Ok(replaced)
    }

    fn split(&self) -> (&[u8], &[u8]) {
        let cut = self.path.len() - 3; // "/34"
        (&self.path.as_bytes()[..cut], &self.path.as_bytes()[cut + 1..])
    }

    fn lock(&self) -> MutexGuard<'_, Option<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.session.parts.forget(self.seq);
        if let Some(made) = *self.lock() {
            let _ = remove_whole(&self.session.tmp, &made.name);
        }
    }
}

/// Whether every file below a directory may be replaced: this run's sessions made it, and nothing changed it since.
fn holds_only_leftovers(session: &Session, dir: &Dir, depth: u32) -> rustix::io::Result<bool> {
    let searched = dir.names(|name| {
        let look = dir.look(name)?;
        let leftover = if look.kind.is_dir() && depth > 0 {
            holds_only_leftovers(session, &dir.open(name)?, depth - 1)?
        } else {
            let times = session.times(&look);
            look.kind.is_file() && matches!(session.sessions.whose(times.born, times.changed), Whose::Earlier(_))
        };
        if leftover { Ok(()) } else { Err(Errno::NOTEMPTY) }
    });
    match searched {
        Err(Errno::NOTEMPTY) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Publishes sealed partitions, and adds the directories they came to lie in to `touched`. Deleting what they replaced is
/// left for after the barrier: until then a power cut may bring it back into its place.
pub(super) fn publish(
    session: &Session,
    parts: &BTreeMap<u64, Arc<Part>>,
    touched: &mut Touched,
) -> Result<Vec<TempName>> {
    let mut replaced = Vec::new();
    let mut open: Option<(&[u8], Dir)> = None;
    for part in parts.values().filter(|part| part.lock().is_some()) {
        let above = part.split().0;
        let at = |trouble: Trouble| trouble.of_run(&session.below(part.path.as_bytes()), session.root.dir.as_fd());
        let dir = match open.take() {
            Some((path, dir)) if path == above => dir,
            _ => session.reopen(&session.root.dir, above).map_err(at)?,
        };
        replaced.extend(part.publish(&dir).map_err(at)?);
        if session.root.barrier == Barrier::Each {
            touched.insert(above.into());
        }
        open = Some((above, dir));
    }
    Ok(replaced)
}

/// Deletes what was replaced. What cannot be deleted is left for the sweep of the next run.
pub(super) fn delete(session: &Session, replaced: &[TempName]) {
    for name in replaced {
        let _ = remove_whole(&session.tmp, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_lies_below_its_digits() {
        for (seq, path) in [
            (0, "00/0000/00"),
            (1234, "00/0012/34"),
            (99_999_999, "99/9999/99"),
            (100_000_000, "100/0000/00"),
            (u64::MAX >> 1, "9223372036854/7758/07"),
        ] {
            assert_eq!(place(seq), path);
            assert!(Name::parse(path.as_bytes()).is_ok());
        }
    }

    #[test]
    fn what_is_tried_again_always_lies_in_the_same_place() {
        let at = |name: &str| {
            let name = Name::parse(name.as_bytes()).unwrap();
            String::from_utf8(retried_place(name.split().0, &name)).unwrap()
        };
        assert_eq!(at("a/b/c"), at("a/b/c"));
        assert!(at("a/b/c").ends_with("/a/b") && at("c").len() == "retried/00/00".len());
        let places: std::collections::HashSet<_> = (0..100_000).map(|n| at(&n.to_string())).collect();
        assert_eq!(places.len(), 10_000, "all are used");
    }
}
