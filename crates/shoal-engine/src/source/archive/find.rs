//! Finds the archives of paths and globs, names them and sorts them.
//!
//! The largest comes first: a giant among a hundred small archives would run alone at the end if it came last.

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
use crate::source::before_options;

/// Which archives to unpack.
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
    /// Change time in nanoseconds since 1970, which a program cannot set.
    pub changed: i128,
    /// Absolute.
    pub path: Box<[u8]>,
}

impl Found {
    /// The sort key.
    pub fn rank(&self) -> (Reverse<u64>, &[u8]) {
        (Reverse(self.size), &self.path)
    }
}

/// Where to look for archives.
enum SearchPath {
    /// One archive, by its absolute path.
    One(PathBuf),
    Glob(Glob),
}

/// Finds the archives and their names.
pub(super) struct Find {
    paths: Vec<SearchPath>,
    /// For several search paths: names are the parts of the paths that are not common to all.
    named: Option<Paths>,
}

impl Find {
    /// Opens the roots of globs and checks that the paths exist.
    ///
    /// # Errors
    /// [`Kind::Config`] if a path does not exist or is not a file, or a glob is not valid.
    pub fn new(from: ArchivesFrom) -> Result<Find> {
        let texts = match from {
            ArchivesFrom::Pattern(text) => vec![PathBuf::from(text)],
            ArchivesFrom::Paths(paths) => paths,
        };
        let several = texts.len() != 1;
        let paths = texts.into_iter().map(parse).collect::<Result<Vec<_>>>()?;
        let named = match several {
            false => None,
            true => {
                let path = |one: &SearchPath| match one {
                    SearchPath::One(path) => path.as_os_str().as_bytes().to_vec(),
                    // Stands for all files in the root of the glob.
                    SearchPath::Glob(glob) => glob.root().join("*").into_os_string().as_bytes().to_vec(),
                };
                Some(paths.iter().map(path).collect::<Paths>().named()?)
            }
        };
        Ok(Find { paths, named })
    }

    /// Identifies the search paths when a run resumes.
    pub fn identity(&self) -> String {
        // All bytes: shortened for display, two long paths could be equal. Spaces are escaped, because options follow
        // one.
        let shown = |path: &Path| path.as_os_str().as_bytes().escape_ascii().to_string().replace(' ', "\\ ");
        match &self.paths[..] {
            [SearchPath::One(path)] => shown(path),
            [SearchPath::Glob(glob)] => {
                let text = glob.text().as_bytes().escape_ascii().to_string();
                let text = before_options(text, &[" into_subdirectories", " encoding=", " backslashes="]);
                format!("{} glob={text}", shown(glob.root()))
            }
            paths => {
                let mut hasher = Xxh3::new();
                for one in paths {
                    let (path, glob) = match one {
                        SearchPath::One(path) => (path.as_path(), ""),
                        SearchPath::Glob(glob) => (glob.root(), glob.text()),
                    };
                    for part in [path.as_os_str().as_bytes(), glob.as_bytes()] {
                        hasher.update(&(part.len() as u64).to_le_bytes());
                        hasher.update(part);
                    }
                }
                format!("paths={} xxh3={:032x}", paths.len(), hasher.digest128())
            }
        }
    }

    /// Returns all archives that exist now, sorted, and the globs that nothing matches.
    pub async fn all(&self) -> Result<(Vec<Found>, Vec<String>)> {
        let mut found = Vec::new();
        let mut unmatched = Vec::new();
        for one in &self.paths {
            match one {
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
        found.dedup_by(|a, b| a.path == b.path); // two globs may match the same file
        Ok((found, unmatched))
    }

    /// As `all`, without an event loop: `all` only yields, and never waits for anything.
    pub fn all_at_once(&self) -> Result<Vec<Found>> {
        let mut all = pin!(self.all());
        loop {
            if let Poll::Ready(all) = all.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return all.map(|(found, _)| found);
            }
        }
    }

    /// Returns the subdirectories of these archives, for `into_subdirectories`.
    pub fn subdirectories(&self, found: &[Found]) -> Subdirectories {
        Subdirectories::of(found.iter().map(|found| self.name(&found.path)))
    }

    /// Returns the name of the archive at a path: relative to the root of its glob, or its last component. With several
    /// search paths, the part that is not common to all.
    pub fn name(&self, path: &[u8]) -> Vec<u8> {
        let mut name = Vec::new();
        match (&self.named, &self.paths[..]) {
            (Some(named), _) => named.name(path, &mut name),
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

    /// Whether an archive that is created in this directory would be found.
    pub fn lists_below(&self, directory: &Path) -> bool {
        self.paths.iter().any(|one| matches!(one, SearchPath::Glob(glob) if glob.enters(directory)))
    }
}

/// Parses one search path of the user.
fn parse(text: PathBuf) -> Result<SearchPath> {
    let shown = || escape(text.as_os_str().as_bytes());
    if text.as_os_str().is_empty() {
        return Err(Error::new(Kind::Config, "the name of an archive is empty"));
    }
    match (facts_of(&text), text.to_str()) {
        (Ok(facts), _) if facts.regular => {
            // Keep its last component even if it is a link: the archive is named after it.
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

/// Returns the archive at a path. If its metadata cannot be read, opening it will report why.
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
