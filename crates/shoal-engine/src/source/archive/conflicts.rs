//! Conflicts between the names of one archive: duplicates, files where directories are needed, and empty directories.

use super::member::{EntryKind, Fault, Member};
use crate::name::Name;

/// Replaces a slash while names are sorted. It is less than any other byte, so the contents of a directory follow it
/// directly. A safe name never contains it.
pub(super) const SLASH: u8 = 0;

/// Not a number of an entry: there are fewer.
const NONE: u32 = u32::MAX;

/// A member while names are sorted, with a part of its name.
struct Sorted {
    key: u64,
    number: u32,
}
/// Length of that part in bytes.
const KEY: usize = size_of::<u64>();

/// A name that may be a parent directory of the names that follow.
struct Above<'t> {
    name: &'t [u8],
    /// Index of its first entry in the sorted entries.
    first: usize,
    /// The first entry of this name that is not a directory.
    object: u32,
    /// The first entry that conflicts with it: a directory of this name, or anything below it.
    least: u32,
}

/// Finds duplicate names, files where directories are needed, and which directories are empty. Of two entries that
/// conflict, the first one in the archive wins, so the result does not depend on which lane unpacks what.
///
/// Names are sorted and compared with their neighbours, which takes 16 bytes for each, however deep it is. A name that
/// is not safe conflicts with nothing, since it is never created.
///
/// Returns the numbers of the directories that have permission bits, in the order of the sorted names.
pub(super) fn find_conflicts(text: &mut [u8], members: &mut [Member]) -> Vec<u32> {
    let mut sorted: Vec<Sorted> = Vec::with_capacity(members.len());
    for (number, member) in members.iter().enumerate() {
        let name = &mut text[member.name.start as usize..member.name.end as usize];
        if !matches!(member.what, EntryKind::Fault(_)) && Name::parse(name).is_ok() {
            replace(name, b'/', SLASH);
            sorted.push(Sorted { key: 0, number: number as u32 });
        }
    }
    sort(&mut sorted, text, members);
    let mut above: Vec<Above<'_>> = Vec::new();
    let mut at = 0;
    while at < sorted.len() {
        let name = name_of(&sorted[at], text, members);
        while let Some(last) = above.pop_if(|last| !is_below(name, last.name)) {
            settle(&last, &sorted[last.first..at], members, &mut above);
        }
        let mut next = Above { name, first: at, object: NONE, least: NONE };
        while at < sorted.len() && name_of(&sorted[at], text, members) == name {
            let number = sorted[at].number;
            let first = match members[number as usize].what {
                EntryKind::Directory { .. } => &mut next.least,
                _ => &mut next.object,
            };
            *first = number.min(*first);
            at += 1;
        }
        above.push(next);
    }
    while let Some(last) = above.pop() {
        settle(&last, &sorted[last.first..], members, &mut above);
    }
    for one in &sorted {
        let name = &members[one.number as usize].name;
        replace(&mut text[name.start as usize..name.end as usize], SLASH, b'/');
    }
    let has_mode = |member: &Member| matches!(member.what, EntryKind::Directory { .. }) && member.mode != 0;
    sorted.iter().map(|one| one.number).filter(|&number| has_mode(&members[number as usize])).collect()
}

/// Whether a name is below a directory; both with slashes replaced.
fn is_below(name: &[u8], directory: &[u8]) -> bool {
    name.get(directory.len()) == Some(&SLASH) && name.starts_with(directory)
}

fn replace(name: &mut [u8], old: u8, new: u8) {
    name.iter_mut().filter(|byte| **byte == old).for_each(|byte| *byte = new);
}

fn name_of<'t>(one: &Sorted, text: &'t [u8], members: &[Member]) -> &'t [u8] {
    let name = &members[one.number as usize].name;
    &text[name.start as usize..name.end as usize]
}

/// Sorts by name, and equal names by number. Compares eight bytes of each name at a time, after the common prefix of
/// all of them, then sorts names that are still equal among themselves. Comparing whole names takes ten times as long.
fn sort(all: &mut [Sorted], text: &[u8], members: &[Member]) {
    let mut left = vec![(0..all.len(), 0)];
    while let Some((range, known)) = left.pop() {
        let (offset, run) = (range.start, &mut all[range]);
        let Some(first) = run.first().map(|first| name_of(first, text, members)) else { continue };
        let (mut common, mut longest) = (first.len(), 0);
        for name in run.iter().map(|one| name_of(one, text, members)) {
            longest = longest.max(name.len());
            if name.get(known..common) != first.get(known..common) {
                let equal = first[known..].iter().zip(&name[known..]).take_while(|(one, other)| one == other);
                common = known + equal.count();
            }
        }
        if common == longest {
            run.sort_unstable_by_key(|one| one.number);
            continue;
        }
        for one in &mut *run {
            let rest = &name_of(one, text, members)[common..];
            let mut key = [0; KEY];
            let length = rest.len().min(KEY);
            key[..length].copy_from_slice(&rest[..length]);
            one.key = u64::from_be_bytes(key);
        }
        run.sort_unstable_by_key(|one| one.key);
        let mut at = offset;
        for equal in run.chunk_by(|one, other| one.key == other.key) {
            if equal.len() > 1 {
                left.push((at..at + equal.len(), common));
            }
            at += equal.len();
        }
    }
}

/// Decides about a name after everything below it. `all` are the entries of the name and of those below.
fn settle(name: &Above<'_>, all: &[Sorted], members: &mut [Member], above: &mut [Above<'_>]) {
    if let Some(above) = above.last_mut() {
        above.least = above.least.min(name.object).min(name.least);
    }
    let wins = name.object < name.least;
    let is_below = |member: &Member| member.name.len() > name.name.len();
    let filled = all.last().is_some_and(|last| is_below(&members[last.number as usize]));
    for number in all.iter().map(|one| one.number) {
        let member = &mut members[number as usize];
        let is_below = is_below(member);
        let fault = match (&mut member.what, wins) {
            (_, false) if is_below => break,
            (EntryKind::Link | EntryKind::Special, _) => continue, // never created, whatever it conflicts with
            (_, true) if number == name.object => continue,
            (EntryKind::File, true) if !is_below => Fault::Duplicate,
            (_, true) => Fault::Conflict,
            (EntryKind::Directory { empty }, false) => {
                *empty = !filled;
                continue;
            }
            (_, false) => Fault::Conflict,
        };
        member.what = EntryKind::Fault(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind of each name after the check. A name that ends in `/` is a directory, in `@` a link.
    fn found(names: &[&str]) -> Vec<EntryKind> {
        let mut text = Vec::new();
        let mut members = Vec::new();
        for name in names {
            let what = match name.as_bytes().last() {
                Some(b'/') => EntryKind::Directory { empty: true },
                Some(b'@') => EntryKind::Link,
                _ => EntryKind::File,
            };
            let start = text.len() as u32;
            text.extend_from_slice(name.trim_end_matches(['/', '@']).as_bytes());
            members.push(Member { name: start..text.len() as u32, what, ..Member::default() });
        }
        find_conflicts(&mut text, &mut members);
        members.into_iter().map(|member| member.what).collect()
    }

    const DUPLICATE: EntryKind = EntryKind::Fault(Fault::Duplicate);
    const CONFLICT: EntryKind = EntryKind::Fault(Fault::Conflict);
    const EMPTY: EntryKind = EntryKind::Directory { empty: true };
    const FILLED: EntryKind = EntryKind::Directory { empty: false };

    #[test]
    fn the_first_of_two_that_collide_stands() {
        use EntryKind::File;
        assert_eq!(found(&["a", "b", "a"]), [File, File, DUPLICATE]);
        assert_eq!(found(&["a", "a/b", "a/c", "a/b/c"]), [File, CONFLICT, CONFLICT, CONFLICT]);
        assert_eq!(found(&["x/y/a", "x", "x/y", "x/y/a/b"]), [File, CONFLICT, CONFLICT, CONFLICT]);
        assert_eq!(found(&["d/", "d", "d/", "d/e/f", "d/e"]), [FILLED, CONFLICT, FILLED, File, CONFLICT]);
        assert_eq!(found(&["l@", "l/x", "l"]), [EntryKind::Link, CONFLICT, DUPLICATE]);
        assert_eq!(found(&["a/b", "c", "a/b"]), [File, File, DUPLICATE]);
    }

    #[test]
    fn directories_are_empty_until_something_lies_in_them() {
        use EntryKind::File;
        assert_eq!(found(&["d/", "e/", "e/f", "g/h/", "g/"]), [EMPTY, FILLED, File, EMPTY, FILLED]);
        assert_eq!(found(&["d/", "d/l@"]), [FILLED, EntryKind::Link]);
    }

    #[test]
    fn names_that_are_refused_claim_nothing() {
        use EntryKind::File;
        let found = found(&["a/..", "a", "b//c", "b", "x/.", "x/y", "/d/e", "d", "./f", "f", "g/", "g/../h"]);
        assert_eq!(found, [[File; 10].as_slice(), &[EMPTY, File]].concat());
    }

    /// The same by comparing each entry with each: slow, but plainly correct.
    fn found_slowly(names: &[&str]) -> Vec<EntryKind> {
        let mut standing: Vec<&str> = Vec::new();
        let mut all = Vec::new();
        for name in names {
            let is_link = name.ends_with('@');
            let bare = |name: &str| name.trim_end_matches(['/', '@']).to_owned();
            let below = |one: &str, other: &str| bare(one).starts_with(&format!("{}/", bare(other)));
            let is_directory = name.ends_with('/');
            let clash = standing.iter().find_map(|other| {
                let others_directory = other.ends_with('/');
                let nested = (below(name, other) && !others_directory) || (below(other, name) && !is_directory);
                match (bare(name) == bare(other), is_directory, others_directory) {
                    (true, false, false) => Some(DUPLICATE),
                    (true, true, true) => None,
                    (same, ..) => (same || nested).then_some(CONFLICT),
                }
            });
            match clash {
                None => standing.push(name),
                Some(_) if is_link => {}
                Some(clash) => {
                    all.push(clash);
                    continue;
                }
            }
            all.push(match (is_link, is_directory) {
                (true, _) => EntryKind::Link,
                (false, true) => EMPTY,
                (false, false) => EntryKind::File,
            });
        }
        for (name, what) in names.iter().zip(&mut all).filter(|(_, what)| **what == EMPTY) {
            let filled = standing.iter().any(|other| other.starts_with(name) && other != name);
            *what = EntryKind::Directory { empty: !filled };
        }
        all
    }

    #[test]
    fn whatever_the_order_it_is_what_a_comparison_of_each_with_each_finds() {
        // Some sort before a slash, some after it.
        let components = ["a", "b", "a.b", "a-", "ab", "a b"];
        let mut random = 1u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        for _ in 0..3000 {
            let count = 1 + next(12);
            let mut names = Vec::new();
            for _ in 0..count {
                let depth = 1 + next(3);
                let name: Vec<_> = (0..depth).map(|_| components[next(components.len())]).collect();
                names.push(name.join("/") + ["", "", "", "/", "@"][next(5)]);
            }
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            assert_eq!(found(&names), found_slowly(&names), "{names:?}");
        }
    }
}
