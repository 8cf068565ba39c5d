//! Counts for the report that are complete only at the end of the run: how many objects were encoded.

use shoal_core::poison::ignore_poison;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// What all connections to one service have counted: objects that were decoded, by encoding.
#[derive(Debug, Default)]
pub struct Remarks(Mutex<BTreeMap<&'static str, u64>>);

impl Remarks {
    /// Counts an object that had this encoding and was decoded.
    pub fn decoded(&self, encoding: &'static str) {
        *self.counts().entry(encoding).or_default() += 1;
    }

    /// Notes for the report.
    pub fn notes(&self) -> Vec<String> {
        let note = |(encoding, count): (&&str, &u64)| {
            format!(
                "{count} objects came encoded as {encoding}, which shoal did not request; they were decoded and checked"
            )
        };
        self.counts().iter().map(note).collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        ignore_poison(self.0.lock())
    }
}
