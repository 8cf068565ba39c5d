//! An open partition of files that also knows the permissions of the directories of its objects.
//!
//! They are looked up when a sink creates a directory: at most once for each, and correct wherever a listing resumes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::entries::{FileEntries, has_hard_links, parts};
use super::paths::Paths;
use super::tree::{Selection, Tree};
use crate::object::MODE_UNKNOWN;
use crate::source::{Entries, Entry};

/// The entries of a partition, and the tree they are in.
pub(super) struct OpenPartition {
    entries: FileEntries,
    tree: Arc<Tree>,
    in_turn: bool,
}

impl OpenPartition {
    /// As [`FileEntries::new`].
    pub fn new(payload: &Arc<[u8]>, tree: &Arc<Tree>, paths: &Paths) -> crate::Result<OpenPartition> {
        let in_turn = has_hard_links(payload);
        Ok(OpenPartition { entries: FileEntries::new(payload, paths)?, tree: tree.clone(), in_turn })
    }

    /// Returns the directories that a directory of names stands for. With a list these can be several, because paths
    /// that are far apart may get names in one directory.
    fn directories(&self, directory: &[u8]) -> BTreeSet<Vec<u8>> {
        let path = |entry: Entry<'_>| {
            let rest = entry.name.strip_prefix(directory).filter(|rest| rest.starts_with(b"/"))?;
            Some(above(parts(entry.locator).0, memchr::memchr_iter(b'/', rest).count()))
        };
        (0..self.len()).filter_map(|index| path(self.get(index))).collect()
    }
}

impl Entries for OpenPartition {
    fn len(&self) -> u32 {
        self.entries.len()
    }

    fn get(&self, index: u32) -> Entry<'_> {
        self.entries.get(index)
    }

    fn is_stream(&self) -> bool {
        self.in_turn
    }

    fn directory_mode(&self, directory: &[u8]) -> Option<u32> {
        let mode = |path: &[u8], follow| self.tree.root.mode(path, follow).unwrap_or(MODE_UNKNOWN);
        match *self.tree.selection {
            Selection::Walk(_) => Some(mode(directory, self.tree.follows())),
            Selection::File => None,
            Selection::List => {
                self.directories(directory).iter().map(|path| mode(path, true)).reduce(|one, other| one & other)
            }
        }
    }
}

/// Returns the directory so many levels above a path. Above ".." it is "../..", since components in between may be
/// links.
fn above(path: &[u8], levels: usize) -> Vec<u8> {
    let mut components: Vec<&[u8]> =
        path.split(|&byte| byte == b'/').filter(|component| !matches!(*component, b"" | b".")).collect();
    for _ in 0..levels {
        match components.last() {
            None | Some(&b"..") => components.push(b".."),
            Some(_) => drop(components.pop()),
        }
    }
    let start: &[u8] = if path.starts_with(b"/") { b"/" } else { b"./" };
    [start, &components.join(&b'/')].concat()
}

#[cfg(test)]
mod tests {
    use super::above;

    #[test]
    fn the_directory_of_a_path_is_found_without_resolving_links() {
        let rows: [(&str, usize, &str); 8] = [
            ("a/b/c", 1, "./a/b"),
            ("./a//b/./c", 2, "./a"),
            ("/data/in/a", 1, "/data/in"),
            ("../y/b", 1, "./../y"),
            ("../a", 1, "./.."),
            ("../a", 2, "./../.."),
            ("/x/link/../y/f", 2, "/x/link/.."),
            ("/x/q/r/../f", 2, "/x/q/r/../.."),
        ];
        for (path, levels, wanted) in rows {
            assert_eq!(above(path.as_bytes(), levels), wanted.as_bytes(), "{path}");
        }
    }
}
