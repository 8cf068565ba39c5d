//! A list of paths, and the names of the objects on it.
//!
//! Names: a relative path without `..` keeps its components (`./a//b` is `a/b`). All others are made absolute without
//! looking at links, and named relative to their longest common directory. Two paths may get the same name; then the
//! sink decides.

use std::os::unix::ffi::OsStrExt;

use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Kind, Result};

/// Paths in compact memory: millions of them are two allocations.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// The working directory when they were given.
    here: Vec<u8>,
    /// The common directory of all far paths, with its last slash.
    common: Vec<u8>,
}

impl<P: AsRef<[u8]>> FromIterator<P> for Paths {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Paths {
        let mut all = Paths::default();
        for path in paths {
            all.bytes.extend_from_slice(path.as_ref());
            all.ends.push(all.bytes.len());
        }
        all
    }
}

impl Paths {
    /// Number of paths.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no paths.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Path `index` as it was given.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// Whether names differ from paths.
    pub(super) fn is_named(&self) -> bool {
        !self.here.is_empty()
    }

    /// A hash of all paths in their order.
    pub(super) fn hash(&self) -> u128 {
        let mut hasher = Xxh3::new();
        // If all paths are absolute, the working directory does not matter.
        if (0..self.len()).any(|index| self.get(index).is_some_and(|path| !path.starts_with(b"/"))) {
            hasher.update(&self.here);
        }
        self.ends.iter().for_each(|end| hasher.update(&(*end as u64).to_le_bytes()));
        hasher.update(&self.bytes);
        hasher.digest128()
    }

    /// Sets the working directory and finds the common directory of all far paths.
    pub(in crate::source) fn named(self) -> Result<Paths> {
        let here = std::env::current_dir().map_err(|e| {
            Error::new(Kind::Config, format!("cannot determine the working directory: {e}")).errno(e.raw_os_error())
        })?;
        Ok(self.named_in(here.as_os_str().as_bytes()))
    }

    fn named_in(mut self, here: &[u8]) -> Paths {
        self.here = here.to_vec();
        let mut common: Option<Vec<u8>> = None;
        for index in 0..self.len() {
            let Some(path) = self.get(index).filter(|path| is_far(path)) else { continue };
            let words = self.absolute(path);
            let directory = &words[..memchr::memrchr(b'/', &words).map_or(0, |at| at + 1)];
            common = Some(match common {
                None => directory.to_vec(),
                Some(before) => {
                    let same = before.iter().zip(directory).take_while(|(a, b)| a == b).count();
                    before[..memchr::memrchr(b'/', &before[..same]).map_or(0, |at| at + 1)].to_vec()
                }
            });
        }
        self.common = common.unwrap_or_default();
        self
    }

    /// Appends the name of a path.
    pub(in crate::source) fn name(&self, path: &[u8], into: &mut Vec<u8>) {
        match is_far(path) {
            true => into.extend_from_slice(self.absolute(path).strip_prefix(&self.common[..]).unwrap_or_default()),
            false => push_words(path, 0, into),
        }
    }

    /// Makes a path absolute, without `.` and `..`. Does not look at links.
    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        let mut words = Vec::with_capacity(self.here.len() + path.len() + 2);
        words.push(b'/');
        if !path.starts_with(b"/") {
            push_words(&self.here, 1, &mut words);
        }
        push_words(path, 1, &mut words);
        words
    }
}

/// Whether a path is far: absolute, or with a `..`, so that it may leave the working directory.
fn is_far(path: &[u8]) -> bool {
    path.starts_with(b"/") || path.split(|&byte| byte == b'/').any(|component| component == b"..")
}

/// Appends the components of a path. A `..` removes one, but nothing of the first `floor` bytes.
fn push_words(path: &[u8], floor: usize, into: &mut Vec<u8>) {
    let floor = if floor == 0 { into.len() } else { floor };
    for component in path.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => {
                let cut = memchr::memrchr(b'/', &into[floor..]).map_or(floor, |at| floor + at);
                into.truncate(cut);
            }
            word => {
                if into.len() > floor {
                    into.push(b'/');
                }
                into.extend_from_slice(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(here: &str, paths: &[&str]) -> Vec<String> {
        let all = paths.iter().collect::<Paths>().named_in(here.as_bytes());
        let name = |path: &&str| {
            let mut name = Vec::new();
            all.name(path.as_bytes(), &mut name);
            String::from_utf8(name).unwrap()
        };
        paths.iter().map(name).collect()
    }

    #[test]
    fn near_paths_keep_their_words_and_far_ones_lose_what_they_share() {
        assert_eq!(names("/w", &["a/b", "./c//d", "e"]), ["a/b", "c/d", "e"]);
        assert_eq!(names("/w", &["/data/in/a", "/data/in/b/c", "near"]), ["a", "b/c", "near"]);
        assert_eq!(names("/w", &["/data/in/a", "/data/inner/b"]), ["in/a", "inner/b"]);
        assert_eq!(names("/w/x", &["../a", "../y/b"]), ["a", "y/b"]);
        assert_eq!(names("/w/x", &["../a", "/b"]), ["w/a", "b"]);
        assert_eq!(names("/w/x", &["/only/one.bin"]), ["one.bin"]);
        assert_eq!(names("/w", &["../../../../a/../b"]), ["b"]);
        assert_eq!(names("/", &["/x", "../y"]), ["x", "y"]);
    }
}
