//! An open partition of files, which also knows the permissions of the directories that its objects lie in.
//!
//! They are looked up when a sink makes a directory: once for each at most, and right wherever a listing goes on.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::run::{Run, parts};
use super::{Paths, Tree, What};
use crate::source::{Entries, Entry};

/// Of a directory that cannot be looked at any more: its owner alone.
const UNKNOWN: u32 = 0o700;

/// The entries of a partition, and where they lie.
pub(super) struct Opened {
    run: Run,
    tree: Arc<Tree>,
}

impl Opened {
    /// As [`Run::new`].
    pub fn new(payload: &Arc<[u8]>, tree: &Arc<Tree>, paths: &Paths) -> crate::Result<Opened> {
        Ok(Opened { run: Run::new(payload, paths)?, tree: tree.clone() })
    }

    /// Where the directory of a list lies: in several places, where paths far apart have got names that lie together.
    fn places(&self, directory: &[u8]) -> BTreeSet<Vec<u8>> {
        let place = |entry: Entry<'_>| {
            let rest = entry.name.strip_prefix(directory).filter(|rest| rest.starts_with(b"/"))?;
            Some(above(parts(entry.locator).0, memchr::memchr_iter(b'/', rest).count()))
        };
        (0..self.len()).filter_map(|index| place(self.get(index))).collect()
    }
}

impl Entries for Opened {
    fn len(&self) -> u32 {
        self.run.len()
    }

    fn get(&self, index: u32) -> Entry<'_> {
        self.run.get(index)
    }

    fn directory_mode(&self, directory: &[u8]) -> Option<u32> {
        let mode = |path: &[u8], follow| self.tree.root.mode(path, follow).unwrap_or(UNKNOWN);
        match self.tree.what {
            What::Walk(_) => Some(mode(directory, self.tree.follow)),
            What::File => None,
            What::List => self.places(directory).iter().map(|place| mode(place, true)).reduce(|one, other| one & other),
        }
    }
}

/// The directory so many levels above what a path names. Above ".." it is "../..": what lies between may be links.
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
