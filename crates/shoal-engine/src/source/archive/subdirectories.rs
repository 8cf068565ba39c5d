//! The directory of each archive with `into_subdirectories`: its name without the extension, or its full name if
//! another archive has the same name without its extension. So no two archives share a directory.
//!
//! The choice depends on all archives of a listing, but not on their order. A resumed listing compares it
//! (`listing.rs`): if archives were added or removed that change it, everything is listed again.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::part::{Part, Seen};

/// The directories of all archives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subdirectories {
    /// Hashes of names without extension that are also the name of another archive, with or without its extension.
    shared: HashSet<u64>,
}

impl Subdirectories {
    /// Computes the directories of archives with these names, which are all different.
    pub fn of(names: impl IntoIterator<Item = Vec<u8>>) -> Subdirectories {
        let mut hashes = Vec::new();
        for name in names {
            let stem = stem(&name);
            hashes.push(xxh3_64(stem));
            if stem.len() < name.len() {
                hashes.push(xxh3_64(&name));
            }
        }
        hashes.sort_unstable();
        let shared = hashes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        Subdirectories { shared }
    }

    /// Whether an archive needs its full name.
    pub fn is_shared(&self, name: &[u8]) -> bool {
        self.shared.contains(&xxh3_64(stem(name)))
    }

    /// Returns the directory of an archive.
    pub fn name<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        if self.is_shared(name) { name } else { stem(name) }
    }
}

/// Tells of each archive whether it belongs to a part of a job, by its name without the extension and by nothing else. So
/// an archive that is added later does not move another one to a part that is complete. Also returns all names.
///
/// # Errors
/// [`Kind::Config`] if the directory of one archive may be inside that of another: a name could be in two parts.
pub(super) fn part_of(part: Part, names: &[Vec<u8>]) -> Result<(Vec<bool>, Seen)> {
    let directories: HashSet<&[u8]> = names.iter().flat_map(|name| [&**name, stem(name)]).collect();
    for name in names {
        let above = memchr::memchr_iter(b'/', name).map(|at| &name[..at]).find(|above| directories.contains(above));
        if let Some(above) = above {
            let (inner, outer) = (escape(name), escape(above));
            let why = format!("this archive would be unpacked inside the directory \"{outer}\" of another one");
            return Err(Error::new(Kind::Config, why)
                .on(&inner)
                .hint("leave out `part`, or unpack the archives of each directory by a job of its own"));
        }
    }
    let mut seen = Seen::default();
    for name in names {
        seen.add(name, part);
    }
    Ok((names.iter().map(|name| part.has(stem(name))).collect(), seen))
}

/// Returns a name without the extension, or both extensions as in `.tar.gz`.
fn stem(name: &[u8]) -> &[u8] {
    let base = memchr::memrchr(b'/', name).map_or(0, |at| at + 1);
    let cut = |name: &[u8]| match memchr::memrchr(b'.', &name[base..]) {
        None | Some(0) => name.len(),
        Some(at) => base + at,
    };
    let once = &name[..cut(name)];
    match once.to_ascii_lowercase().ends_with(b".tar") {
        true => &once[..cut(once)],
        false => once,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subdirectory_is_called_like_its_archive_without_the_ending() {
        let rows: [(&[u8], &[u8]); 7] = [
            (b"x.zip", b"x"),
            (b"a.b/x.zip", b"a.b/x"),
            (b"x.tar.gz", b"x"),
            (b"x.TAR.zst", b"x"),
            (b"a.b/x", b"a.b/x"),
            (b".zip", b".zip"),
            (b"x.v1.zip", b"x.v1"),
        ];
        for (name, wanted) in rows {
            assert_eq!(stem(name), wanted);
            assert_eq!(Subdirectories::of([name.to_vec()]).name(name), wanted);
        }
    }

    #[test]
    fn an_archive_is_in_one_part_and_those_that_may_share_a_directory_are_in_the_same_or_refused() {
        let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let all = names(&["x.zip", "x.tar.gz", "a/y.zip", "a/z.tar", "b.v1.zip", "b.v1", "c"]);
        let parts: Vec<_> = (0..5).map(|index| part_of(Part::new(index, 5).unwrap(), &all).unwrap()).collect();
        assert!(parts.iter().all(|(_, seen)| seen.count == 7 && *seen == parts[0].1));
        let parts: Vec<_> = parts.into_iter().map(|(own, _)| own).collect();
        for at in 0..all.len() {
            assert_eq!(parts.iter().filter(|own| own[at]).count(), 1, "{:?}", all[at]);
        }
        assert!(parts.iter().all(|own| own[0] == own[1]), "x.zip and x.tar.gz");
        for nested in [&["a.zip", "a/b.zip"][..], &["a.zip", "a.tar", "a.zip/b.zip"], &["a", "a/b/c.zip"]] {
            let error = part_of(Part::new(0, 1).unwrap(), &names(nested)).unwrap_err();
            assert_eq!(error.kind(), Kind::Config, "{nested:?}");
        }
        assert!(part_of(Part::new(0, 1).unwrap(), &names(&["ab.zip", "a/b.zip"])).is_ok());
    }

    #[test]
    fn no_two_archives_share_a_directory_whatever_they_are_called() {
        let all = ["g", "g.zip", "g.tar.gz", "g.zip.zip", "g.zip.tar", "a/g.zip", "g.tar", "h.zip", "h.v1.zip", "h.v1"];
        for chosen in 1u32..1 << all.len() {
            let names = || all.iter().enumerate().filter(|(bit, _)| chosen & (1 << bit) > 0).map(|(_, name)| *name);
            let made = Subdirectories::of(names().map(|name| name.as_bytes().to_vec()));
            let reversed = names().collect::<Vec<_>>().into_iter().rev().map(|name| name.as_bytes().to_vec());
            assert_eq!(made, Subdirectories::of(reversed));
            let directories: HashSet<_> = names().map(|name| made.name(name.as_bytes())).collect();
            assert_eq!(directories.len(), names().count(), "{:?}", names().collect::<Vec<_>>());
        }
        let two = Subdirectories::of(["g01.zip", "g01.tar.gz", "g02.zip"].map(|name| name.as_bytes().to_vec()));
        let directories = [&b"g01.zip"[..], b"g01.tar.gz", b"g02.zip"].map(|name| two.name(name));
        assert_eq!(directories, [&b"g01.zip"[..], b"g01.tar.gz", b"g02"]);
    }
}
