//! What a listing of archives met and left out, counted for the report.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::plan::{Link, Plan, What};
use crate::display::escape;

/// Counts of one listing.
#[derive(Default)]
pub(super) struct Seen {
    symbolic: AtomicU64,
    hard: AtomicU64,
    special: AtomicU64,
    /// Globs that nothing matched.
    unmatched: Mutex<Vec<String>>,
}

impl Seen {
    /// A listing begins: what an earlier one met is not this one's.
    pub fn reset(&self) {
        for count in [&self.symbolic, &self.hard, &self.special] {
            count.store(0, Relaxed);
        }
        self.unmatched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn unmatched(&self, globs: Vec<String>) {
        *self.unmatched.lock().unwrap_or_else(PoisonError::into_inner) = globs;
    }

    pub fn archive(&self, plan: &Plan) {
        for member in &plan.members {
            let count = match member.what {
                What::Link(Link::Symbolic) => &self.symbolic,
                What::Link(Link::Hard) => &self.hard,
                What::Special => &self.special,
                _ => continue,
            };
            count.fetch_add(1, Relaxed);
        }
    }

    pub fn remarks(&self) -> Vec<String> {
        let unmatched = self.unmatched.lock().unwrap_or_else(PoisonError::into_inner);
        let unmatched = unmatched.iter().map(|glob| format!("no file matches \"{}\"", escape(glob.as_bytes())));
        let counts = [
            (&self.symbolic, "symbolic link", "symbolic links"),
            (&self.hard, "hard link", "hard links"),
            (&self.special, "device or pipe", "devices or pipes"),
        ];
        let left_out = counts.iter().filter_map(|(count, one, more)| match count.load(Relaxed) {
            0 => None,
            1 => Some(format!("1 {one} was left out: shoal makes none of an archive's")),
            count => Some(format!("{count} {more} were left out: shoal makes none of an archive's")),
        });
        unmatched.chain(left_out).collect()
    }
}
