//! `Directory`: an open directory at the destination, and the facts that decide how files in it are written. Not here:
//! how the facts are found (`destination.rs`), which directories stay open (`directory_cache.rs`).

use std::sync::OnceLock;

use rustix::io::Errno;

use crate::fs::dir::Dir;
use crate::fs::sync::Barrier;

/// A directory below the destination, or the destination itself.
#[derive(Debug)]
pub(super) struct Directory {
    /// The open directory.
    pub dir: Dir,
    /// Its path below the destination; empty for the destination.
    pub path: Box<[u8]>,
    /// What makes its files durable.
    pub barrier: Barrier,
    /// It is on another mount than `.shoal/tmp`, so temporary files are created beside the final ones.
    pub on_other_mount: bool,
    /// It was created in this session, so earlier sessions have left nothing in it.
    pub is_new: bool,
    /// Its file system stores creation times. If not, a file gets its final name only when it is complete.
    pub births: bool,
    /// Different names may mean the same file in it. Set when a name is first found to be taken.
    pub folds: OnceLock<bool>,
}

impl Directory {
    pub fn new(dir: Dir, path: &[u8], barrier: Barrier, births: bool) -> Directory {
        let (path, folds) = (path.into(), OnceLock::new());
        Directory { dir, path, barrier, on_other_mount: false, is_new: false, births, folds }
    }

    /// Whether each file in it is synced.
    pub fn syncs_each_file(&self) -> bool {
        self.barrier == Barrier::Each
    }

    /// The path below the destination of the entry `name` in this directory.
    pub fn join(&self, name: &[u8]) -> Vec<u8> {
        match self.path.is_empty() {
            true => name.to_vec(),
            false => [&self.path, &b"/"[..], name].concat(),
        }
    }
}

/// Opens the directory `path` below `base`.
pub(super) fn open_below(base: &Dir, path: &[u8]) -> rustix::io::Result<Dir> {
    let mut dir: Option<Dir> = None;
    for component in path.split(|&byte| byte == b'/') {
        dir = Some(dir.as_ref().unwrap_or(base).open(component)?);
    }
    dir.ok_or(Errno::NOENT)
}
