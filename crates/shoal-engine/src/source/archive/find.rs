//! Which archives: paths and globs, what each archive is called, and the order they are taken in.
//!
//! The largest comes first: one giant among a hundred small ones, taken last, would run alone at the end.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use xxhash_rust::xxh3::Xxh3;

use super::super::files::pattern::is_glob;
use super::super::files::{Glob, Paths};
use super::subdirectories::Subdirectories;
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::dir::resolved;
use crate::fs::read::{facts_of, unusable};

/// Which archives.
#[derive(Clone, Debug)]
pub enum ArchivesFrom {
    /// A path, or a glob if it has glob characters and nothing of exactly that name exists.
    Pattern(String),
    /// Each of these, which can be a path or a glob in the same way.
    Paths(Vec<PathBuf>),
}

/// An archive that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub size: u64,
    /// When anything of it was last changed, in nanoseconds since 1970: a program cannot set it.
    pub changed: i128,
    /// Absolute.
    pub path: Box<[u8]>,
}

impl Found {
    /// What the order is by.
    pub fn rank(&self) -> (Reverse<u64>, &[u8]) {
        (Reverse(self.size), &self.path)
    }
}

enum SearchPath {
    /// Its path, absolute.
    One(PathBuf),
    Glob(Glob),
}

/// What to find, and how it is called.
pub(super) struct Find {
    search_paths: Vec<SearchPath>,
    /// Of several search_paths: names are what their paths do not have in common.
    named: Option<Paths>,
}

impl Find {
    /// Opens the roots of globs and looks whether the paths are there.
    ///
    /// # Errors
    /// [`Kind::Config`] where a path is not there or is no file, or a glob is none.
    pub fn new(from: ArchivesFrom) -> Result<Find> {
        let texts = match from {
            ArchivesFrom::Pattern(text) => vec![PathBuf::from(text)],
            ArchivesFrom::Paths(paths) => paths,
        };
        let several = texts.len() != 1;
        let search_paths = texts.into_iter().map(search_path).collect::<Result<Vec<_>>>()?;
        let named = match several {
            false => None,
            true => {
                let path = |search_path: &SearchPath| match search_path {
                    SearchPath::One(path) => path.as_os_str().as_bytes().to_vec(),
                    // What lies in its root has as much in common with others as this.
                    SearchPath::Glob(glob) => glob.root().join("*").into_os_string().as_bytes().to_vec(),
                };
                Some(search_paths.iter().map(path).collect::<Paths>().named()?)
            }
        };
        Ok(Find { search_paths, named })
    }

    /// What makes it the same again.
    pub fn identity(&self) -> String {
        // All bytes: what is cut for display would make two long paths one.
        let shown = |path: &Path| path.as_os_str().as_bytes().escape_ascii().to_string().replace(' ', "\\ "); // options follow a space
        match &self.search_paths[..] {
            [SearchPath::One(path)] => shown(path),
            [SearchPath::Glob(glob)] => {
                format!("{} glob={}", shown(glob.root()), glob.text().as_bytes().escape_ascii())
            }
            search_paths => {
                let mut hasher = Xxh3::new();
                for search_path in search_paths {
                    let (path, glob) = match search_path {
                        SearchPath::One(path) => (path.as_path(), ""),
                        SearchPath::Glob(glob) => (glob.root(), glob.text()),
                    };
                    for part in [path.as_os_str().as_bytes(), glob.as_bytes()] {
                        hasher.update(&(part.len() as u64).to_le_bytes());
                        hasher.update(part);
                    }
                }
                format!("paths={} xxh3={:032x}", search_paths.len(), hasher.digest128())
            }
        }
    }

    /// Everything there is now, in order, and the globs that nothing matches.
    pub async fn all(&self) -> Result<(Vec<Found>, Vec<String>)> {
        let mut found = Vec::new();
        let mut unmatched = Vec::new();
        for search_path in &self.search_paths {
            match search_path {
                SearchPath::One(path) => found.push(look(path)),
                SearchPath::Glob(glob) => {
                    let before = found.len();
                    glob.each(|path| found.push(look(&path))).await?;
                    if found.len() == before {
                        unmatched.push(glob.text().to_owned());
                    }
                }
            }
        }
        found.sort_unstable_by(|a, b| a.rank().cmp(&b.rank()));
        found.dedup_by(|a, b| a.path == b.path); // two globs may match it
        Ok((found, unmatched))
    }

    /// As `all`, on this thread: it only ever waits to let others have a turn.
    pub fn all_at_once(&self) -> Result<Vec<Found>> {
        let mut all = pin!(self.all());
        loop {
            if let Poll::Ready(all) = all.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return all.map(|(found, _)| found);
            }
        }
    }

    /// Where the entries of these archives go with `into_subdirectories`.
    pub fn subdirectories(&self, found: &[Found]) -> Subdirectories {
        Subdirectories::of(found.iter().map(|found| self.name(&found.path)))
    }

    /// What the archive at a path is called: below the root of its glob, or its last component; of several search_paths what
    /// they do not have in common.
    pub fn name(&self, path: &[u8]) -> Vec<u8> {
        let mut name = Vec::new();
        match (&self.named, &self.search_paths[..]) {
            (Some(paths), _) => paths.name(path, &mut name),
            (None, [SearchPath::Glob(glob)]) => {
                let below = Path::new(OsStr::from_bytes(path)).strip_prefix(glob.root());
                name.extend_from_slice(below.map_or(path, |below| below.as_os_str().as_bytes()));
            }
            _ => {}
        }
        if name.is_empty() {
            name.extend_from_slice(&path[memchr::memrchr(b'/', path).map_or(0, |at| at + 1)..]);
        }
        name
    }

    /// Whether an archive that came into being in this directory would be found.
    pub fn lists_below(&self, directory: &Path) -> bool {
        self.search_paths
            .iter()
            .any(|search_path| matches!(search_path, SearchPath::Glob(glob) if glob.enters(directory)))
    }
}

/// What a user means with a text.
fn search_path(text: PathBuf) -> Result<SearchPath> {
    let shown = || escape(text.as_os_str().as_bytes());
    if text.as_os_str().is_empty() {
        return Err(Error::new(Kind::Config, "the name of an archive is empty"));
    }
    match (facts_of(&text), text.to_str()) {
        (Ok(facts), _) if facts.regular => {
            // Its own last component stays: it is what the archive is called, also where it is a link.
            let parent = match text.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => resolved(parent),
                _ => resolved(Path::new(".")),
            };
            Ok(SearchPath::One(parent.join(text.file_name().unwrap_or_default())))
        }
        (Ok(_), _) => {
            let why = "not a file: use a glob for the archives in a directory (DIR/*.zip)";
            Err(Error::new(Kind::Config, why).on(&shown()))
        }
        (Err(_), Some(glob)) if is_glob(glob) => Glob::new(glob).map(SearchPath::Glob),
        (Err(errno), _) => Err(unusable(errno, &text)),
    }
}

/// What cannot be looked at is found all the same: opening it will say why.
fn look(path: &Path) -> Found {
    let (size, changed) = facts_of(path).map_or((0, 0), |facts| (facts.size, facts.changed));
    Found { size, changed, path: path.as_os_str().as_bytes().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(find: &Find) -> Vec<Found> {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(find.all()).unwrap().0
    }

    #[test]
    fn the_largest_comes_first_and_is_called_by_what_differs() {
        let temp = tempfile::tempdir().unwrap();
        let root = resolved(temp.path());
        for (path, size) in [("a/x.zip", 10), ("a/y.zip", 30), ("b/x.zip", 30), ("b/z.tar", 1)] {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), vec![0; size]).unwrap();
        }
        std::os::unix::fs::symlink("y.zip", root.join("a/link.zip")).unwrap();
        let names = |from| {
            let find = Find::new(from).unwrap();
            all(&find).iter().map(|found| String::from_utf8(find.name(&found.path)).unwrap()).collect()
        };
        let glob = |glob: &str| root.join(glob).to_str().unwrap().to_owned();
        let several = |globs: &[&str]| ArchivesFrom::Paths(globs.iter().map(|text| root.join(text)).collect());
        let of: &dyn Fn(ArchivesFrom) -> Vec<String> = &names;
        assert_eq!(of(ArchivesFrom::Pattern(glob("a/*.zip"))), ["link.zip", "y.zip", "x.zip"]);
        assert_eq!(of(ArchivesFrom::Pattern(glob("*/x.zip"))), ["b/x.zip", "a/x.zip"]);
        assert_eq!(of(ArchivesFrom::Pattern(glob("b/z.tar"))), ["z.tar"]);
        assert_eq!(of(several(&["a/y.zip", "b/*", "b/z.tar"])), ["a/y.zip", "b/x.zip", "b/z.tar"]);
        assert!(of(several(&[])).is_empty());
        let find = Find::new(ArchivesFrom::Pattern(glob("**/*.zip"))).unwrap();
        assert!(find.lists_below(&root.join("out")) && !find.lists_below(&root));
        let find = Find::new(ArchivesFrom::Pattern(glob("*.zip"))).unwrap();
        assert!(!find.lists_below(&root.join("out")) && all(&find).is_empty());
        for wrong in ["a", "gone.zip", ""] {
            let error = Find::new(ArchivesFrom::Pattern(wrong.replace('a', root.to_str().unwrap()))).err().unwrap();
            assert_eq!(error.kind(), Kind::Config, "{wrong}");
        }
    }
}
