//! What a files source consists of: the open root, and which files below it.
//!
//! Not here: walking the tree (`walk.rs`), reading files (`fetch.rs`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::options::{FilesFrom, FilesOptions, Links};
use super::paths::Paths;
use super::pattern::{self, Pattern};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Dir, resolved};
use crate::fs::read::unusable;
use crate::fs::walk::{Kind as Found, kind_of};
use crate::object::Takes;

/// The root and what is selected below it. The listing and all fetchers share it.
pub(super) struct Tree {
    /// Everything is opened relative to it, for the whole run.
    pub root: Arc<Dir>,
    /// The path of the root, absolute and free of links.
    pub path: PathBuf,
    pub selection: Arc<Selection>,
    /// As the user has set them.
    pub options: FilesOptions,
    /// What the destination takes. Nothing, if it is not known.
    pub takes: Takes,
    /// Links that were passed on and lead out of the root.
    pub outside: AtomicU64,
    /// Names of files with several names that became files of their own.
    pub unlinked: AtomicU64,
}

/// What a walk does about links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    /// Links are objects.
    Copy,
    /// All are followed.
    All,
    /// Those to files are.
    Files,
    /// None is.
    Nothing,
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
        let root = Arc::new(Dir::root(&path).map_err(|errno| unusable(errno, &path))?);
        let (path, selection) = (resolved(&path), Arc::new(selection));
        Ok((
            Tree {
                root,
                path,
                selection,
                options,
                takes: Takes::default(),
                outside: AtomicU64::new(0),
                unlinked: AtomicU64::new(0),
            },
            paths,
        ))
    }

    /// The same tree, for a destination that takes this.
    pub fn passed_to(&self, takes: Takes) -> Tree {
        let Tree { root, path, selection, options, .. } = self;
        let (root, path, selection, options) = (root.clone(), path.clone(), selection.clone(), options.clone());
        let (outside, unlinked) = (AtomicU64::new(0), AtomicU64::new(0));
        Tree { root, path, selection, options, takes, outside, unlinked }
    }

    pub fn following(&self) -> Following {
        match self.options.links {
            Some(Links::Copy) if self.takes.links => Following::Copy,
            Some(Links::Copy) => Following::Nothing,
            Some(Links::Follow) => Following::All,
            Some(Links::Skip) => Following::Nothing,
            None if self.takes.links => Following::Copy,
            Some(Links::Inside) | None => Following::Files,
        }
    }

    /// Whether directories are reached over links.
    pub fn follows(&self) -> bool {
        self.following() == Following::All
    }

    /// Whether names of one file stay names of one file.
    pub fn keeps_hard_links(&self) -> bool {
        self.takes.hard_links && matches!(*self.selection, Selection::Walk(_))
    }

    /// Whether a walk looks for files in this directory, which is absolute and free of links.
    pub fn lists_below(&self, directory: &Path) -> bool {
        let Ok(below) = directory.strip_prefix(&self.path) else { return false };
        let mut components = below.components().enumerate();
        matches!(*self.selection, Selection::Walk(_))
            && components.all(|(depth, name)| self.enters(depth, name.as_os_str().as_bytes()))
    }

    /// Whether a walk looks into a directory with this name, so many levels below the root.
    pub fn enters(&self, depth: usize, name: &[u8]) -> bool {
        match &*self.selection {
            Selection::Walk(Some(pattern)) => pattern.enters(depth, name),
            _ => true,
        }
    }

    /// Identifies the source when a run resumes.
    pub fn identity(&self, paths: &Paths) -> String {
        // Unambiguous: the pattern follows after a space, and spaces and backslashes of a path are escaped.
        let shown = |path: &OsStr| match path.to_str() {
            Some(text) => text.replace('\\', "\\\\").replace(' ', "\\ "),
            None => path.as_bytes().escape_ascii().to_string().replace(' ', "\\ "),
        };
        let mut identity = match &*self.selection {
            Selection::List => "files:".to_owned(),
            _ => format!("files:{}", shown(self.path.as_os_str())),
        };
        match &*self.selection {
            Selection::Walk(None) => {}
            Selection::Walk(Some(pattern)) => identity.push_str(&format!(" glob={}", pattern.text())),
            Selection::File => {
                identity.push_str(&format!(" file={}", shown(OsStr::from_bytes(paths.get(0).unwrap_or_default()))))
            }
            Selection::List => identity.push_str(&format!("paths={} xxh3={:032x}", paths.len(), paths.hash())),
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
