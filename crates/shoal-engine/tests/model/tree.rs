//! What lies at the destination.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file, and what shows that it was touched. Of what is no file, only that it is there.
#[derive(Clone, PartialEq, Eq)]
pub struct Found {
    pub bytes: Vec<u8>,
    inode: u64,
    mode: u32,
    modified: (i64, i64),
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = &self.bytes[..self.bytes.len().min(40)];
        let Found { bytes, inode, mode, modified } = self;
        write!(f, "{} bytes \"{}…\", inode {inode}, mode {mode:o}, {modified:?}", bytes.len(), start.escape_ascii())
    }
}

/// All files below a destination but shoal's own.
pub fn all(out: &Path) -> BTreeMap<PathBuf, Found> {
    let mut found = BTreeMap::new();
    if out.exists() {
        below(out, Path::new(""), &mut found);
    }
    found
}

fn below(out: &Path, directory: &Path, found: &mut BTreeMap<PathBuf, Found>) {
    for entry in std::fs::read_dir(out.join(directory)).unwrap() {
        let path = directory.join(entry.unwrap().file_name());
        let facts = std::fs::symlink_metadata(out.join(&path)).unwrap();
        if path.as_os_str() == ".shoal" {
            continue;
        }
        if facts.is_dir() {
            below(out, &path, found);
            continue;
        }
        let bytes = match facts.is_file() {
            true => std::fs::read(out.join(&path)).unwrap(),
            false => std::fs::read_link(out.join(&path)).unwrap().as_os_str().as_bytes().to_vec(),
        };
        let modified = (facts.mtime(), facts.mtime_nsec());
        found.insert(path, Found { bytes, inode: facts.ino(), mode: facts.mode(), modified });
    }
}
