//! The files that are to be removed because their objects were withdrawn, as the journal has them. Not here: removing them
//! (`withdrawn.rs`).

use std::collections::HashMap;
use std::sync::Mutex;

use rustix::io::Errno;

use crate::name::Name;
use crate::object::Fingerprint;
use crate::poison::ignore_poison;
use crate::sink::StateRow;

/// How the keys of these rows begin. Other sinks may have rows for this destination.
const PREFIX: &[u8] = b"removal/";

fn row(name: &Name, fingerprint: Option<Fingerprint>) -> StateRow {
    let value =
        fingerprint.map(|Fingerprint { bytes, hash }| [bytes.to_le_bytes(), hash.to_le_bytes()].concat().into());
    ([PREFIX, name.as_bytes()].concat().into(), value)
}

/// The file of a row; none if it is another sink's.
pub(super) fn read(key: &[u8], value: &[u8]) -> Option<(Name, Fingerprint)> {
    let name = Name::parse(key.strip_prefix(PREFIX)?).ok()?;
    let (bytes, hash) = value.split_first_chunk()?;
    let (bytes, hash) = (u64::from_le_bytes(*bytes), u64::from_le_bytes(hash.try_into().ok()?));
    Some((name, Fingerprint { bytes, hash }))
}

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
    /// The row of a file that is going to be removed.
    pub fn begun(&self, name: &Name, fingerprint: Fingerprint) -> StateRow {
        let row = row(name, Some(fingerprint));
        ignore_poison(self.0.lock()).settled.retain(|(key, _)| *key != row.0); // of an earlier file of this name
        row
    }

    /// The rows to delete with the next flush, which may commit another object of that name.
    pub fn settled(&self) -> Vec<StateRow> {
        std::mem::take(&mut ignore_poison(self.0.lock()).settled)
    }

    /// This file was replaced.
    pub fn replaced(&self, name: &Name) {
        let rows = &mut *ignore_poison(self.0.lock());
        if rows.left.remove(name.as_bytes()).is_some() {
            rows.settled.push(row(name, None));
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
            Ok(()) | Err(Errno::NOENT) => rows.settled.push(row(name, None)),
            Err(_) => drop(rows.left.insert(name.as_bytes().into(), fingerprint)),
        }
    }
}
