//! Source: files. A directory, one file, a glob, or a list of paths.
//!
//! Here: the options and the source. `walk.rs` walks a tree (`ahead.rs` reads ahead for it), `listing.rs` cuts the
//! files into partitions, `run.rs` has the entries of a partition, `modes.rs` the permissions of directories,
//! `pattern.rs` a glob, `paths.rs` a list of paths and their names, `seen.rs` counts what was skipped, `fetch.rs`
//! reads. Not here: system calls (`fs/`), which name is safe (`Name`).
//!
//! Names: a file below a directory has its path relative to that directory; a match of a glob, its path relative to the
//! longest part without glob characters; a single file, its last component; for a list see `paths.rs`. Links are not
//! followed by default, except in paths that the user typed: the root of a tree, one file, and the parent directories
//! of a path in a list.

mod ahead;
mod fetch;
mod glob;
mod listing;
mod modes;
mod paths;
pub(super) mod pattern;
mod run;
mod seen;
mod walk;

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use self::glob::Glob;
pub use self::paths::Paths;
use self::pattern::Pattern;
use self::seen::Seen;
use super::{Behind, Fetcher, Listing, Source};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Dir, resolved};
use crate::fs::read::{open_path, read_at, unusable};
use crate::fs::storage::storage;
use crate::fs::walk::{Kind as Found, kind_of};
use crate::object::Storage;
use crate::partition::{Cursor, Partition};
use crate::session::Twice;

/// The first component below the root that is not the user's: journals and temporary files.
const OURS: &[u8] = b".shoal";

/// How files are found and read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesOptions {
    /// Follow symbolic links, to files and to directories.
    pub follow_links: bool,
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

/// What the listing and all fetchers share.
struct Tree {
    /// Everything is opened relative to it, for the whole run.
    root: Dir,
    path: PathBuf,
    what: What,
    follow: bool,
    seen: Seen,
}

enum What {
    /// Everything below the root, or what matches.
    Walk(Option<Pattern>),
    /// One file in the root, its name.
    File,
    /// A list.
    List,
}

/// Files as a source.
pub struct Files {
    tree: Arc<Tree>,
    /// Of a list, or the one file.
    paths: Arc<Paths>,
    identity: String,
}

impl Files {
    /// Opens the root; it lists nothing yet.
    ///
    /// # Errors
    /// [`Kind::Config`] if the root cannot be opened or a glob is not valid.
    pub fn new(what: FilesFrom, options: FilesOptions) -> Result<Files> {
        let follow = options.follow_links;
        let (path, what, paths) = match what {
            FilesFrom::Path(path) => one(path)?,
            FilesFrom::Glob(glob) => {
                let (prefix, rest) = pattern::split(&glob);
                (PathBuf::from(prefix), What::Walk(Some(Pattern::new(rest)?)), Paths::default())
            }
            FilesFrom::Paths(paths) => (PathBuf::from("."), What::List, paths.named()?),
        };
        let root = Dir::root(&path).map_err(|errno| unusable(errno, &path))?;
        let path = resolved(&path);
        let identity = identity(&path, &what, &paths, follow);
        let tree = Tree { root, path, what, follow, seen: Seen::default() };
        Ok(Files { tree: Arc::new(tree), paths: Arc::new(paths), identity })
    }
}

/// Whether the first line of a file is a URL: then another program was meant to fetch what it names.
fn begins_with_address(path: &Path) -> bool {
    let mut head = [0; 512];
    let held = open_path(path).ok().and_then(|file| read_at(file.as_fd(), &mut head, 0).ok()).unwrap_or(0);
    let line = head[..held].split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let is_address = line.starts_with(b"http://") || line.starts_with(b"https://");
    is_address && !line.iter().any(|byte| byte.is_ascii_whitespace())
}

/// The root of one path, and what to do there.
fn one(path: PathBuf) -> Result<(PathBuf, What, Paths)> {
    match kind_of(&path, true).map_err(|errno| unusable(errno, &path))? {
        Found::Directory => Ok((path, What::Walk(None), Paths::default())),
        Found::File => {
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                _ => PathBuf::from("."),
            };
            let name = path.file_name().unwrap_or_default().as_bytes();
            Ok((parent, What::File, [name].into_iter().collect()))
        }
        _ => {
            Err(Error::new(Kind::Config, "neither a directory nor a regular file")
                .on(&escape(path.as_os_str().as_bytes())))
        }
    }
}

fn identity(root: &Path, what: &What, paths: &Paths, follow: bool) -> String {
    // No two say the same: what follows a path begins with a space, and an escaped byte with a backslash.
    let shown = |path: &OsStr| match path.to_str() {
        Some(text) => text.replace('\\', "\\\\").replace(' ', "\\ "),
        None => path.as_bytes().escape_ascii().to_string().replace(' ', "\\ "),
    };
    let mut identity = match what {
        What::List => "files:".to_owned(),
        _ => format!("files:{}", shown(root.as_os_str())),
    };
    match what {
        What::Walk(None) => {}
        What::Walk(Some(pattern)) => identity.push_str(&format!(" glob={}", pattern.text())),
        What::File => {
            identity.push_str(&format!(" file={}", shown(OsStr::from_bytes(paths.get(0).unwrap_or_default()))))
        }
        What::List => identity.push_str(&format!("paths={} xxh3={:032x}", paths.len(), paths.hash())),
    }
    if follow {
        identity.push_str(" follow_links");
    }
    identity
}

impl Source for Files {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn list(&self, _after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        // From the start, whatever the cursor says: see `behind`.
        Ok(match self.tree.what {
            What::Walk(_) => Box::new(listing::OfTree::new(self.tree.clone())),
            What::File | What::List => Box::new(listing::OfList::new(self.paths.clone())),
        })
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(listing::partition(run::of_locators(locators.iter().map(|locator| &**locator))))
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(fetch::Fetch::new(self.tree.clone(), self.paths.clone())))
    }

    fn twice(&self) -> Twice {
        match self.tree.what {
            What::List => Twice::Conflict,
            What::Walk(_) | What::File => Twice::SameObject,
        }
    }

    fn has_times(&self) -> bool {
        true
    }

    fn behind(&self) -> Behind {
        Behind::Names
    }

    fn notes(&self) -> Vec<String> {
        let name = self.paths.get(0).filter(|_| matches!(self.tree.what, What::File));
        let Some(name) = name.filter(|name| begins_with_address(&self.tree.path.join(OsStr::from_bytes(name)))) else {
            return Vec::new();
        };
        let why = "contains URLs: shoal copies the file itself, because it does not support lists of URLs";
        vec![format!("\"{}\" {why}", escape(name))]
    }

    fn remarks(&self) -> Vec<String> {
        self.tree.seen.remarks(self.tree.follow)
    }

    fn is_network(&self) -> bool {
        false
    }

    fn storage(&self) -> Storage {
        let first = match self.tree.what {
            // Its directory: the file itself may have vanished, and the fetch says so.
            What::List => self.paths.get(0).and_then(|path| Path::new(OsStr::from_bytes(path)).parent()),
            What::Walk(_) | What::File => None,
        };
        storage(&first.map_or_else(|| self.tree.path.clone(), |first| self.tree.path.join(first)))
    }

    fn root_mode(&self) -> Option<u32> {
        let is_directory = matches!(self.tree.what, What::Walk(None));
        self.tree.root.mode(b"", true).ok().filter(|_| is_directory)
    }

    fn lists_below(&self, directory: &Path) -> bool {
        let What::Walk(pattern) = &self.tree.what else { return false };
        let Ok(below) = directory.strip_prefix(&self.tree.path) else { return false };
        let mut components = below.components().enumerate();
        pattern.as_ref().is_none_or(|p| components.all(|(depth, name)| p.enters(depth, name.as_os_str().as_bytes())))
    }
}
