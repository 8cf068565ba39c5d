//! Removes files of objects that were written and then became failures. Not here: when that happens
//! (`engine/commit.rs`).
//!
//! A file is removed only if it has the very bytes of its object, and after the journal has the failure. The same
//! transaction has a row with the file, and the next start removes what a kill or an error has left. Until that works,
//! no object counts on the file.

use std::os::fd::AsFd;

use super::destination::Destination;
use super::directory::open_below;
use super::removals;
use super::target::Target;
use crate::fs::dir::{Dir, Look};
use crate::fs::file;
use crate::object::Fingerprint;
use crate::poison::ignore_poison;
use crate::session::{Found, Twice, Whose};
use crate::sink::{SinkState, StateRow, WithdrawnObject};

impl Target<'_> {
    /// Whether the file is one that was withdrawn: it counts for nothing, and is replaced.
    pub fn is_withdrawn(self, look: &Look) -> bool {
        let left = self.destination.removals.left(self.name);
        left.is_some_and(|fingerprint| has(&self.directory.dir, self.leaf(), look, fingerprint))
    }
}

impl Destination {
    /// The rows for these objects.
    pub fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        let row = |object: &WithdrawnObject| {
            let name = object.key.name().ok()?;
            let (directory, leaf) = name.split();
            self.may_remove(&self.open(directory).ok()?, leaf, object).then_some(())?;
            Some(self.removals.begun(name, object.fingerprint))
        };
        objects.iter().filter_map(row).collect()
    }

    /// Removes the file of an object. It stays if it cannot be removed, if it has not the object's bytes, or if it may count
    /// for another object. The failure is recorded in any case.
    pub fn withdraw(&self, object: &WithdrawnObject) {
        let Ok(name) = object.key.name() else { return };
        let (directory, leaf) = name.split();
        let Ok(dir) = self.open(directory) else { return };
        let _alone = ignore_poison(self.replacing.write());
        if self.may_remove(&dir, leaf, object) {
            self.removals.tried(name, object.fingerprint, dir.remove(leaf));
        }
    }

    /// Removes what an earlier session has left.
    ///
    /// # Errors
    /// Those of reading the journal.
    pub fn finish_withdrawals(&self, state: &dyn SinkState) -> crate::Result<()> {
        state.each(&mut |key, value| {
            let Some((name, fingerprint)) = removals::read(key, value) else { return Ok(()) };
            let (directory, leaf) = name.split();
            let removed = self.open(directory).and_then(|dir| match dir.look(leaf) {
                Ok(look) if self.is_of_run(&look) && has(&dir, leaf, &look, fingerprint) => dir.remove(leaf),
                Ok(_) => Ok(()), // something else has its name now
                Err(errno) => Err(errno),
            });
            self.removals.tried(&name, fingerprint, removed);
            Ok(())
        })
    }

    fn open(&self, directory: Option<&[u8]>) -> rustix::io::Result<Dir> {
        match directory {
            Some(path) => open_below(&self.root.dir, path),
            None => self.root.dir.open(b"."),
        }
    }

    /// Not if the user has put another file there.
    fn is_of_run(&self, look: &Look) -> bool {
        let times = self.times(look);
        times.born.is_none() || self.sessions.whose(times.born, times.changed) != Whose::Other
    }

    fn may_remove(&self, dir: &Dir, leaf: &[u8], object: &WithdrawnObject) -> bool {
        let Ok(look) = dir.look(leaf) else { return false };
        let times = self.times(&look);
        // An earlier session may have committed another object of this name with the bytes of this file.
        let is_its_own = !object.kept
            || self.rules.twice == Twice::SameObject
            || self.sessions.found(times.born, times.changed) == Found::ByThis;
        self.is_of_run(&look) && is_its_own && has(dir, leaf, &look, object.fingerprint)
    }
}

/// Whether the file has these bytes.
fn has(dir: &Dir, leaf: &[u8], look: &Look, fingerprint: Fingerprint) -> bool {
    let hash = || file::fingerprint(dir.read(leaf).ok()?.as_fd(), look.size).ok();
    look.kind.is_file() && look.size == fingerprint.bytes && hash() == Some(fingerprint)
}
