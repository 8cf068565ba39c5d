//! Where objects are below the destination in the layout `partition`.
//!
//! Partition 1234 is in `00/0012/34`. Objects that are retried later do not know their partition. They are written as
//! in the layout `names`, below `retried/`: in one of 10,000 directories, by the hash of the name, so that what a
//! killed run left is found and replaced. A partition that is redone as a whole does not look there: after a restart of
//! the run an object may be in both places. Not here: the directory of a partition (`partition_directory.rs`).

use crate::name::Name;
use crate::object::DirectoryModes;

/// Directories below `retried/`, on each of two levels: at most 100 objects in each for the first million.
const RETRIED_STEP: u64 = 100;

/// The directory of partition `seq`: all digits but the last six, the next four, the last two.
pub(super) fn partition_path(seq: u64) -> String {
    format!("{:02}/{:04}/{:02}", seq / 1_000_000, seq / 100 % 10_000, seq % 100)
}

/// The directory of the retried object `name`, whose own directory is `directory`.
pub(super) fn retried_path(directory: Option<&[u8]>, name: &Name) -> Vec<u8> {
    let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes());
    let mut path = format!("retried/{:02}/{:02}", hash / RETRIED_STEP % RETRIED_STEP, hash % RETRIED_STEP).into_bytes();
    if let Some(directory) = directory {
        path.push(b'/');
        path.extend_from_slice(directory);
    }
    path
}

/// The modes of directories below a [`retried_path`]. The directories above are not the source's.
pub(super) struct RetriedModes<'m>(pub &'m dyn DirectoryModes);

impl DirectoryModes for RetriedModes<'_> {
    fn mode_of(&self, directory: &[u8]) -> Option<u32> {
        self.0.mode_of(directory.get("retried/00/00/".len()..)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_below_its_digits() {
        for (seq, path) in [
            (0, "00/0000/00"),
            (1234, "00/0012/34"),
            (99_999_999, "99/9999/99"),
            (100_000_000, "100/0000/00"),
            (u64::MAX >> 1, "9223372036854/7758/07"),
        ] {
            assert_eq!(partition_path(seq), path);
            assert!(Name::parse(path.as_bytes()).is_ok());
        }
    }

    #[test]
    fn a_retried_object_is_always_in_the_same_place() {
        let at = |name: &str| {
            let name = Name::parse(name.as_bytes()).unwrap();
            String::from_utf8(retried_path(name.split().0, &name)).unwrap()
        };
        assert_eq!(at("a/b/c"), at("a/b/c"));
        assert!(at("a/b/c").ends_with("/a/b") && at("c").len() == "retried/00/00".len());
        let places: std::collections::HashSet<_> = (0..100_000).map(|n| at(&n.to_string())).collect();
        assert_eq!(places.len(), 10_000, "all are used");
    }
}
