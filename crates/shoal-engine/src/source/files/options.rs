//! The options of the files source, and which files it has.

use std::path::PathBuf;

use super::paths::Paths;
use super::pattern;
use crate::fs::walk::kind_of;
use crate::option::group::SOURCE;

crate::options! {
    /// How files are found and read.
    pub struct FilesOptions {
        /// Follow symbolic links to files and directories. By default they are skipped and counted, like devices, pipes
        /// and sockets. A link with a target that does not exist is always skipped. One with a target that cannot be
        /// looked at is a failure.
        follow_links: bool = false, "Follow symbolic links; by default they are skipped.", group: SOURCE;
    }
}

/// Which files.
#[derive(Clone, Debug)]
pub enum FilesFrom {
    /// A directory with everything below it, or one file.
    Path(PathBuf),
    /// All files that match; `*` stops at `/`, `**` does not, and both match names that begin with a dot.
    Glob(String),
    /// Exactly these, in this order.
    Paths(Paths),
}

impl FilesFrom {
    /// Parses `text`: it is a glob if it has glob characters and nothing of exactly that name exists.
    pub fn text(text: &str) -> FilesFrom {
        let path = PathBuf::from(text);
        match pattern::is_glob(text) && kind_of(&path, false).is_err() {
            true => FilesFrom::Glob(text.to_owned()),
            false => FilesFrom::Path(path),
        }
    }
}
