//! The options of the files source, and which files it has.

use std::path::PathBuf;

use super::paths::Paths;
use super::pattern;
use crate::fs::walk::kind_of;
use crate::option::group::SOURCE;

crate::words! {
    /// What is done about symbolic links below a directory.
    pub enum Links {
        /// They are objects of their own.
        #[default]
        Copy = "copy",
        /// What they lead to is read, files and directories.
        Follow = "follow",
        /// They are skipped.
        Skip = "skip",
        /// What they lead to is read if it is a file below the same directory.
        Inside = "inside",
    }
}

crate::options! {
    /// How files are found and read.
    pub struct FilesOptions {
        /// What to do with symbolic links. `"copy"` copies them as links; it is the default into a directory. Elsewhere
        /// the default is to read the files that links lead to, and to skip links to directories. `"inside"` does the
        /// same, and a link to a file outside of the source is a failure. `"follow"` reads files and directories that
        /// links lead to. `"skip"` skips links. A link that is followed and leads to nothing is a failure, `"vanished"`.
        links: Option<Links> = None, "Links: copy, follow, skip or inside.", metavar: Some("HOW"),
            group: SOURCE;
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
