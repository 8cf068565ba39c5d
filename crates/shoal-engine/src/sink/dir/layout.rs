//! Where objects are below the destination in the layout `partition`.
//!
//! Partition 1234 is in `00/0012/34`; that of part 3 of a job, which has numbers of its own, in
//! `part-3/00/0012/34`. Objects that are retried later do not know their partition. They are written as
//! in the layout `names`, below `retried/`: in one of 10,000 directories, by the hash of the name, so that what a
//! killed run left is found and replaced. A partition that is redone as a whole does not look there: after a restart of
//! the run an object may be in both places. Not here: the directory of a partition (`partition_directory.rs`).

use crate::name::Name;
use crate::object::DirectoryModes;
use crate::part::Part;

/// Directories below `retried/`, on each of two levels: at most 100 objects in each for the first million.
const RETRIED_STEP: u64 = 100;

/// What all paths of a part begin with.
fn prefix(part: Option<Part>) -> String {
    part.map_or(String::new(), |part| format!("part-{}/", part.index()))
}

/// The directory of partition `seq`: all digits but the last six, the next four, the last two.
pub(super) fn partition_path(part: Option<Part>, seq: u64) -> String {
    format!("{}{:02}/{:04}/{:02}", prefix(part), seq / 1_000_000, seq / 100 % 10_000, seq % 100)
}

/// The directory of the retried object `name`, whose own directory is `directory`.
pub(super) fn retried_path(part: Option<Part>, directory: Option<&[u8]>, name: &Name) -> Vec<u8> {
    // Divided by the number of parts, which chose the name by the rest: every part has all directories.
    let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes()) / part.map_or(1, |part| part.count().into());
    let place = format!("retried/{:02}/{:02}", hash / RETRIED_STEP % RETRIED_STEP, hash % RETRIED_STEP);
    let mut path = (prefix(part) + &place).into_bytes();
    if let Some(directory) = directory {
        path.push(b'/');
        path.extend_from_slice(directory);
    }
    path
}

/// The modes of directories below a [`retried_path`]. The directories above are not the source's.
pub(super) struct RetriedModes<'m>(pub Option<Part>, pub &'m dyn DirectoryModes);

impl DirectoryModes for RetriedModes<'_> {
    fn mode_of(&self, directory: &[u8]) -> Option<u32> {
        self.1.mode_of(directory.get(prefix(self.0).len() + "retried/00/00/".len()..)?)
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
            assert_eq!(partition_path(None, seq), path);
            assert!(Name::parse(path.as_bytes()).is_ok());
        }
    }

    #[test]
    fn a_retried_object_is_always_in_the_same_place() {
        let at = |name: &str| {
            let name = Name::parse(name.as_bytes()).unwrap();
            String::from_utf8(retried_path(None, name.split().0, &name)).unwrap()
        };
        assert_eq!(at("a/b/c"), at("a/b/c"));
        assert!(at("a/b/c").ends_with("/a/b") && at("c").len() == "retried/00/00".len());
        let places: std::collections::HashSet<_> = (0..100_000).map(|n| at(&n.to_string())).collect();
        assert_eq!(places.len(), 10_000, "all are used");
    }

    #[test]
    fn paths_of_a_part_begin_with_its_number() {
        let part = Part::new(3, 16).unwrap();
        assert_eq!(partition_path(Some(part), 1234), "part-3/00/0012/34");
        let names = (0..200_000).map(|n| Name::parse(n.to_string().as_bytes()).unwrap());
        let own: Vec<_> = names.filter(|name| part.has(name.as_bytes())).collect();
        let places: std::collections::HashSet<_> =
            own.iter().map(|name| retried_path(Some(part), None, name)).collect();
        assert!(places.iter().all(|place| place.starts_with(b"part-3/retried/")));
        assert!(places.len() > 5_000, "spread over all directories: {}", places.len());
    }
}
