//! What a listing of archives skipped, counted for the notes in the report.

use super::format::Archive;
use super::member::EntryKind;
use crate::display::escape;

/// Counts of one listing.
#[derive(Default)]
pub(super) struct SkipStats {
    links: u64,
    special: u64,
    /// Hard links that became copies.
    copies: u64,
    /// Number of archives with data after their end, and the name of the first.
    trailing_data: (u64, Box<[u8]>),
    /// Globs that nothing matched.
    unmatched: Vec<String>,
}

impl SkipStats {
    pub fn unmatched(&mut self, globs: Vec<String>) {
        self.unmatched = globs;
    }

    pub fn archive(&mut self, archive: &Archive) {
        let plan = &archive.plan;
        for member in &plan.members {
            match member.what {
                EntryKind::Link => self.links += 1,
                EntryKind::Special => self.special += 1,
                _ => {}
            }
        }
        self.copies += plan.links.len() as u64;
        if plan.trailing_data {
            let (count, first) = &mut self.trailing_data;
            *count += 1;
            if *count == 1 {
                *first = archive.file.name.clone();
            }
        }
    }

    pub fn remarks(&self) -> Vec<String> {
        let unmatched = self.unmatched.iter().map(|glob| format!("no file matches \"{}\"", escape(glob.as_bytes())));
        let counts =
            [(self.links, "symbolic link", "symbolic links"), (self.special, "device or pipe", "devices or pipes")];
        let left_out = counts.iter().filter_map(|(count, one, more)| match count {
            0 => None,
            1 => Some(format!("1 {one} was skipped: shoal never creates them from archives")),
            count => Some(format!("{count} {more} were skipped: shoal never creates them from archives")),
        });
        let copies = match self.copies {
            0 => None,
            1 => Some("1 hard link became a copy of its file".to_owned()),
            count => Some(format!("{count} hard links became copies of their files")),
        };
        let trailing_data = match &self.trailing_data {
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
