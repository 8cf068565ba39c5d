//! What a listing of archives skipped, counted for the notes in the report.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::format::Archive;
use super::member::EntryKind;
use crate::display::escape;

/// Counts of one listing.
#[derive(Default)]
pub(super) struct SkipStats {
    links: AtomicU64,
    special: AtomicU64,
    /// Hard links that became copies.
    copies: AtomicU64,
    /// Number of archives with data after their end, and the name of the first.
    trailing_data: Mutex<(u64, Box<[u8]>)>,
    /// Globs that nothing matched.
    unmatched: Mutex<Vec<String>>,
}

impl SkipStats {
    /// Clears the counts, when another listing begins.
    pub fn reset(&self) {
        for count in [&self.links, &self.special, &self.copies] {
            count.store(0, Relaxed);
        }
        *self.trailing_data.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
        self.unmatched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn unmatched(&self, globs: Vec<String>) {
        *self.unmatched.lock().unwrap_or_else(PoisonError::into_inner) = globs;
    }

    pub fn archive(&self, archive: &Archive) {
        let plan = &archive.plan;
        for member in &plan.members {
            let count = match member.what {
                EntryKind::Link => &self.links,
                EntryKind::Special => &self.special,
                _ => continue,
            };
            count.fetch_add(1, Relaxed);
        }
        self.copies.fetch_add(plan.links.len() as u64, Relaxed);
        if plan.trailing_data {
            let (count, first) = &mut *self.trailing_data.lock().unwrap_or_else(PoisonError::into_inner);
            *count += 1;
            if *count == 1 {
                *first = archive.file.name.clone();
            }
        }
    }

    pub fn remarks(&self) -> Vec<String> {
        let unmatched = self.unmatched.lock().unwrap_or_else(PoisonError::into_inner);
        let unmatched = unmatched.iter().map(|glob| format!("no file matches \"{}\"", escape(glob.as_bytes())));
        let counts =
            [(&self.links, "symbolic link", "symbolic links"), (&self.special, "device or pipe", "devices or pipes")];
        let left_out = counts.iter().filter_map(|(count, one, more)| match count.load(Relaxed) {
            0 => None,
            1 => Some(format!("1 {one} was skipped: shoal never creates them from archives")),
            count => Some(format!("{count} {more} were skipped: shoal never creates them from archives")),
        });
        let copies = match self.copies.load(Relaxed) {
            0 => None,
            1 => Some("1 hard link became a copy of its file".to_owned()),
            count => Some(format!("{count} hard links became copies of their files")),
        };
        let trailing_data = self.trailing_data.lock().unwrap_or_else(PoisonError::into_inner);
        let trailing_data = match &*trailing_data {
            (0, _) => None,
            (1, name) => Some(format!("\"{}\" has data after its end, which was not read", escape(name))),
            (count, name) => Some(format!(
                "{count} archives have data after their end, such as \"{}\"; it was not read",
                escape(name)
            )),
        };
        unmatched.chain(left_out).chain(copies).chain(trailing_data).collect()
    }
}
