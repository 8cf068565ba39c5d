//! What the report must say of answers that were taken, and can be told only at the end: how many came encoded.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What all connections to one service have to tell: objects that were decoded, by encoding.
#[derive(Debug, Default)]
pub(crate) struct Remarks(Mutex<BTreeMap<&'static str, u64>>);

impl Remarks {
    /// An object came in this encoding, and was decoded.
    pub fn decoded(&self, encoding: &'static str) {
        *self.told().entry(encoding).or_default() += 1;
    }

    /// For the report.
    pub fn notes(&self) -> Vec<String> {
        let note = |(encoding, count): (&&str, &u64)| {
            format!(
                "{count} objects came encoded as {encoding}, which shoal did not request; they were decoded and checked"
            )
        };
        self.told().iter().map(note).collect()
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
