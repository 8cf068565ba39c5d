//! What a files source consists of: the open root, and which files below it.
//!
//! Not here: walking the tree (`walk.rs`), reading files (`fetch.rs`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::options::{FilesFrom, FilesOptions};
use super::paths::Paths;
use super::pattern::{self, Pattern};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Dir, resolved};
use crate::fs::read::unusable;
use crate::fs::walk::{Kind as Found, kind_of};

/// The option in an identity.
const FOLLOW_LINKS: &str = " follow_links";

/// The root and what is selected below it. The listing and all fetchers share it.
pub(super) struct Tree {
    /// Everything is opened relative to it, for the whole run.
    pub root: Dir,
    /// The path of the root, absolute and free of links.
    pub path: PathBuf,
    pub selection: Selection,
    pub follow: bool,
}

/// Which files below the root.
pub(super) enum Selection {
    /// Everything, or what matches.
    Walk(Option<Pattern>),
    /// One file in the root.
    File,
    /// A list of paths.
    List,
}

impl Tree {
    /// Opens the root; lists nothing yet. The paths are those of a list, or the one file.
    ///
    /// # Errors
    /// [`Kind::Config`] if the root cannot be opened or a glob is not valid.
    pub fn open(from: FilesFrom, options: FilesOptions) -> Result<(Tree, Paths)> {
        let (path, selection, paths) = match from {
            FilesFrom::Path(path) => one(path)?,
            FilesFrom::Glob(glob) => {
                let (prefix, rest) = pattern::split(&glob);
                (PathBuf::from(prefix), Selection::Walk(Some(Pattern::new(rest)?)), Paths::default())
            }
            FilesFrom::Paths(paths) => (PathBuf::from("."), Selection::List, paths.named()?),
        };
        let root = Dir::root(&path).map_err(|errno| unusable(errno, &path))?;
        let (path, follow) = (resolved(&path), options.follow_links);
        Ok((Tree { root, path, selection, follow }, paths))
    }

    /// Whether a walk looks for files in this directory, which is absolute and free of links.
    pub fn lists_below(&self, directory: &Path) -> bool {
        let Ok(below) = directory.strip_prefix(&self.path) else { return false };
        let mut components = below.components().enumerate();
        matches!(self.selection, Selection::Walk(_))
            && components.all(|(depth, name)| self.enters(depth, name.as_os_str().as_bytes()))
    }

    /// Whether a walk looks into a directory with this name, so many levels below the root.
    pub fn enters(&self, depth: usize, name: &[u8]) -> bool {
        match &self.selection {
            Selection::Walk(Some(pattern)) => pattern.enters(depth, name),
            _ => true,
        }
    }

    /// Identifies the source when a run resumes.
    pub fn identity(&self, paths: &Paths) -> String {
        // Unambiguous: options follow after a space, and spaces and backslashes of a path are escaped.
        let shown = |path: &OsStr| match path.to_str() {
            Some(text) => text.replace('\\', "\\\\").replace(' ', "\\ "),
            None => path.as_bytes().escape_ascii().to_string().replace(' ', "\\ "),
        };
        let mut identity = match &self.selection {
            Selection::List => "files:".to_owned(),
            _ => format!("files:{}", shown(self.path.as_os_str())),
        };
        match &self.selection {
            Selection::Walk(None) => {}
            // One that could be taken for the option.
            Selection::Walk(Some(pattern)) if pattern.text().contains(FOLLOW_LINKS) => {
                identity.push_str(&format!(" glob={}", shown(pattern.text().as_ref())))
            }
            Selection::Walk(Some(pattern)) => identity.push_str(&format!(" glob={}", pattern.text())),
            Selection::File => {
                identity.push_str(&format!(" file={}", shown(OsStr::from_bytes(paths.get(0).unwrap_or_default()))))
            }
            Selection::List => identity.push_str(&format!("paths={} xxh3={:032x}", paths.len(), paths.hash())),
        }
        if self.follow {
            identity.push_str(FOLLOW_LINKS);
        }
        identity
    }
}

/// The root of one path, and what is selected there.
fn one(path: PathBuf) -> Result<(PathBuf, Selection, Paths)> {
    match kind_of(&path, true).map_err(|errno| unusable(errno, &path))? {
        Found::Directory => Ok((path, Selection::Walk(None), Paths::default())),
        Found::File => {
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                _ => PathBuf::from("."),
            };
            let name = path.file_name().unwrap_or_default().as_bytes();
            Ok((parent, Selection::File, [name].into_iter().collect()))
        }
        _ => {
            Err(Error::new(Kind::Config, "neither a directory nor a regular file")
                .on(&escape(path.as_os_str().as_bytes())))
        }
    }
}
