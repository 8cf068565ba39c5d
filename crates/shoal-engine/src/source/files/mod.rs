//! Source: files. A directory, one file, a glob, or a list of paths.
//!
//! Here: the source. In this folder:
//!
//! - what users set: `options.rs`; `tree.rs` opens it, `pattern.rs` matches a glob, `paths.rs` names the paths of a
//!   list
//! - listing: `walk.rs` walks a tree, `prefetch.rs` reads directories ahead for it, `listing.rs` splits the files into
//!   partitions, `spool.rs` sorts the names of files that have several, `skip_stats.rs` counts what is left out, `glob.rs`
//!   lists a glob for other sources
//! - reading: `entries.rs` has the entries of a partition, `fetch.rs` reads files, `open.rs` opens them, `large.rs` passes on
//!   those in pieces, `links.rs` reads symbolic links, `modes.rs` has the permissions of directories, `directories.rs` all
//!   that belongs to them, for the end of a run
//!
//! Not here: system calls (`fs/`), which name is safe (`Name`).
//!
//! Names: a file below a directory has its path relative to that directory; a match of a glob, its path relative to the
//! longest part without glob characters; a single file, its last component; for a list see `paths.rs`. Links in paths that
//! the user typed are followed: the root of a tree, one file, and the parent directories of a path in a list. For other
//! links see `Links`.

mod directories;
mod entries;
mod fetch;
mod glob;
mod large;
mod links;
mod listing;
mod modes;
mod open;
mod options;
mod paths;
pub(super) mod pattern;
mod prefetch;
mod skip_stats;
mod spool;
mod tree;
mod walk;

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub(super) use self::glob::Glob;
pub use self::options::{FilesFrom, FilesOptions, Links};
pub use self::paths::Paths;
use self::tree::{Following, Selection, Tree};
use super::{Behind, Fetcher, Listing, Source, SourceProperties};
use crate::display::{count, escape};
use crate::error::Result;
use crate::fs::read::{open_path, read_at};
use crate::fs::root::lasting_identity;
use crate::fs::storage::storage;
use crate::object::{ObjectMeta, Storage, Takes};
use crate::partition::{Cursor, Partition};
use crate::session::Twice;

/// Endings of tables that may be lists of URLs.
const TABLES: [&str; 4] = ["csv", "tsv", "jsonl", "ndjson"];

/// Files as a source.
pub struct Files {
    tree: Arc<Tree>,
    /// The paths of a list, or the one file.
    paths: Arc<Paths>,
    identity: String,
}

impl Files {
    /// Opens the root; it lists nothing yet.
    ///
    /// # Errors
    /// [`Kind::Config`](crate::Kind::Config) if the root cannot be opened or a glob is not valid.
    pub fn new(what: FilesFrom, options: FilesOptions) -> Result<Files> {
        let (tree, paths) = Tree::open(what, options)?;
        let identity = tree.identity(&paths);
        Ok(Files { tree: Arc::new(tree), paths: Arc::new(paths), identity })
    }
}

/// Whether the first line of a file is a URL, or it is a table with URLs at its beginning. Then the user probably wanted what it
/// names.
fn has_addresses(path: &Path) -> bool {
    let mut head = [0; 512];
    let held = open_path(path).ok().and_then(|file| read_at(file.as_fd(), &mut head, 0).ok()).unwrap_or(0);
    let line = head[..held].split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let is_address = line.starts_with(b"http://") || line.starts_with(b"https://");
    let is_table = path.extension().is_some_and(|end| TABLES.iter().any(|table| end.eq_ignore_ascii_case(table)));
    let of_table =
        || ["http://", "https://"].iter().any(|begin| memchr::memmem::find(&head[..held], begin.as_bytes()).is_some());
    is_address && !line.iter().any(u8::is_ascii_whitespace) || is_table && of_table()
}

impl Source for Files {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn properties(&self) -> SourceProperties {
        let twice = match *self.tree.selection {
            Selection::List => Twice::Conflict,
            Selection::Walk(_) | Selection::File => Twice::SameObject,
        };
        SourceProperties {
            is_network: false,
            twice,
            has_times: true,
            has_attributes: matches!(*self.tree.selection, Selection::Walk(None) | Selection::File),
            behind: Behind::Names,
            syncs: matches!(*self.tree.selection, Selection::Walk(_)),
            ..SourceProperties::default()
        }
    }

    fn list(&self, _after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        // From the start, whatever the cursor says: see `behind`.
        Ok(match *self.tree.selection {
            Selection::Walk(_) => Box::new(listing::TreeListing::new(self.tree.clone())),
            Selection::File | Selection::List => Box::new(listing::PathsListing::new(self.paths.clone())),
        })
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(listing::partition(entries::of_locators(locators)))
    }

    fn is_in_turn(&self, partition: &Partition) -> bool {
        entries::has_hard_links(&partition.payload)
    }

    fn passed_to(&self, takes: Takes) -> Option<Arc<dyn Source>> {
        let (tree, paths) = (Arc::new(self.tree.passed_to(takes)), self.paths.clone());
        Some(Arc::new(Files { tree, paths, identity: self.identity.clone() }))
    }

    fn bound(&self) -> Vec<(String, String)> {
        let links = match self.tree.following() {
            Following::Files if self.tree.options.links == Some(Links::Inside) => "inside",
            Following::Files => return Vec::new(),
            Following::Copy => "copy",
            Following::All => "follow",
            Following::Nothing => "skip",
        };
        vec![("links".to_owned(), links.to_owned())]
    }

    fn directories(&self, each: &mut dyn FnMut(&[u8], &ObjectMeta) -> Result<()>) -> Result<()> {
        match *self.tree.selection {
            Selection::Walk(None) => directories::each(&self.tree, each),
            _ => Ok(()),
        }
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(fetch::FileFetcher::new(self.tree.clone(), self.paths.clone())))
    }

    fn notes(&self) -> Vec<String> {
        let name = self.paths.get(0).filter(|_| matches!(*self.tree.selection, Selection::File));
        let Some(name) = name.filter(|name| has_addresses(&self.tree.path.join(OsStr::from_bytes(name)))) else {
            return Vec::new();
        };
        let why = "contains URLs, and is copied itself: `--urls` or `shoal.urls(…)` fetches what it names";
        vec![format!("\"{}\" {why}", escape(name))]
    }

    fn remarks(&self) -> Vec<String> {
        let said = |number: u64, one: &str, more: &str| match number {
            0 => None,
            1 => Some(format!("1 {one}")),
            number => Some(format!("{} {more}", count(number))),
        };
        let links = self.tree.outside.load(Relaxed);
        let outside =
            said(links, "copied symbolic link leads out of the source", "copied symbolic links lead out of the source");
        let names = self.tree.unlinked.load(Relaxed);
        let unlinked = said(names, "hard link became a file of its own", "hard links became files of their own");
        outside.into_iter().chain(unlinked).collect()
    }

    fn storage(&self) -> Storage {
        let first = match *self.tree.selection {
            // Its directory: the file itself may have vanished, and the fetch says so.
            Selection::List => self.paths.get(0).and_then(|path| Path::new(OsStr::from_bytes(path)).parent()),
            Selection::Walk(_) | Selection::File => None,
        };
        storage(&first.map_or_else(|| self.tree.path.clone(), |first| self.tree.path.join(first)))
    }

    fn root(&self) -> Option<[u8; 32]> {
        (!matches!(*self.tree.selection, Selection::List)).then(|| lasting_identity(&self.tree.root))
    }

    fn root_mode(&self) -> Option<u32> {
        let is_directory = matches!(*self.tree.selection, Selection::Walk(None));
        self.tree.root.mode(b"", true).ok().filter(|_| is_directory)
    }

    fn lists_below(&self, directory: &Path) -> bool {
        self.tree.lists_below(directory)
    }
}
