//! The files that are to be removed because their objects were withdrawn, as the journal has them. Not here: removing them
//! (`withdrawn.rs`).

use std::collections::HashMap;
use std::sync::Mutex;

use rustix::io::Errno;

use crate::name::Name;
use crate::object::Fingerprint;
use crate::poison::ignore_poison;
use crate::sink::StateRow;

/// Files that are to be removed, as the journal has them.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    /// Those that could not be removed.
    left: HashMap<Box<[u8]>, Fingerprint>,
    /// Rows that the journal need not have any longer.
    settled: Vec<StateRow>,
}

impl Removals {
    /// The rows to delete with the next flush, which may commit another object of that name.
    pub fn settled(&self) -> Vec<StateRow> {
        std::mem::take(&mut ignore_poison(self.0.lock()).settled)
    }

    /// This file was replaced.
    pub fn replaced(&self, name: &Name) {
        let rows = &mut *ignore_poison(self.0.lock());
        if rows.left.remove(name.as_bytes()).is_some() {
            rows.settled.push((name.as_bytes().into(), None));
        }
    }

    /// What the file of this name had when it could not be removed.
    pub fn left(&self, name: &Name) -> Option<Fingerprint> {
        ignore_poison(self.0.lock()).left.get(name.as_bytes()).copied()
    }

    /// It was tried to remove this file.
    pub fn tried(&self, name: &Name, fingerprint: Fingerprint, removed: rustix::io::Result<()>) {
        let rows = &mut *ignore_poison(self.0.lock());
        match removed {
            Ok(()) | Err(Errno::NOENT) => rows.settled.push((name.as_bytes().into(), None)),
            Err(_) => drop(rows.left.insert(name.as_bytes().into(), fingerprint)),
        }
    }
}
