//! The order in which the directories are read: depth first, those that failed once more at the end.
//!
//! What a listing has had before the place where a run stopped is compared name by name, so a directory that could not be
//! read must not come later where it was missing. It waits for a later *round*: all that failed in the first round are read
//! again in the second, as its own page of the journal. What fails again is a gap: a failure in the report, at the very end.
//! The cursor of a page says which directories wait and for which round, so the next session reads everything else in the
//! order that it had, and these after it. If more fail than a cursor holds, the others are gaps where they are; then a later
//! session finds that the listing has changed, and compares every object.
//!
//! Not here: requests (`listing.rs`), what a page says (`page.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::error::{Error, Kind, Result};
use crate::partition::Cursor;

/// Most directories: what is remembered of each is 16 bytes.
const DIRECTORIES_MAX: usize = 1_000_000;
/// Deepest directory below the start. Deeper ones are mostly links that lead in a circle.
const DEPTH_MAX: usize = 50;
/// Most directories that wait for a later round. Each takes ten bytes of every cursor.
const LATE_MAX: usize = 1_000;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// This directory is read.
    Read(Box<[u8]>),
    /// A round begins; what was listed before is a page of its own.
    Round,
    /// These directories could not be read, each with the reason.
    Gaps(Vec<(Box<[u8]>, String)>),
    End,
}

/// What becomes of a directory that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It is read again, or is a gap at the end.
    Later,
    /// It is a gap where it is.
    Here,
}

/// A walk in progress. Directories are named as in `Place::directory`.
pub(super) struct Walk {
    /// What is left of the round, the next one last.
    stack: Vec<Box<[u8]>>,
    seen: HashSet<u128>,
    round: u16,
    /// The last round, in which what fails is a gap.
    last: u16,
    /// The hashes of the directories that wait, and for which round.
    late: HashMap<u64, u16>,
    /// Those that the walk has met. Sorted: another session may meet them in another order.
    waiting: BTreeMap<u16, BTreeSet<Box<[u8]>>>,
    gaps: Vec<(Box<[u8]>, String)>,
}

impl Walk {
    /// Starts at the beginning. `cursor`: which directories failed before it was made.
    pub fn new(cursor: Option<&Cursor>) -> Walk {
        let late: HashMap<u64, u16> = cursor.map(late).unwrap_or_default();
        let last = late.values().max().map_or(2, |&round| round.max(1).saturating_add(1));
        let (stack, seen) = (vec![Box::default()], HashSet::new());
        Walk { stack, seen, round: 1, last, late, waiting: BTreeMap::new(), gaps: Vec::new() }
    }

    /// The cursor of a page that begins with this partition.
    pub fn cursor(&self, seq: u64) -> Cursor {
        let mut bytes = seq.to_le_bytes().to_vec();
        let mut late: Vec<_> = self.late.iter().collect();
        late.sort_unstable();
        late.iter().for_each(|(hash, round)| bytes.extend([&hash.to_le_bytes()[..], &round.to_le_bytes()].concat()));
        Cursor(bytes.into())
    }

    pub fn step(&mut self) -> Step {
        while let Some(directory) = self.stack.pop() {
            match self.late.get(&xxh3_64(&directory)) {
                Some(&round) if round > self.round => {
                    self.waiting.entry(round).or_default().insert(directory);
                }
                _ => return Step::Read(directory),
            }
        }
        match self.waiting.pop_first() {
            Some((round, directories)) => {
                (self.round, self.stack) = (round, directories.into_iter().rev().collect());
                Step::Round
            }
            None if self.gaps.is_empty() => Step::End,
            None => Step::Gaps(std::mem::take(&mut self.gaps)),
        }
    }

    /// The directory that was read has these directories, which come next. Returns those that are too deep.
    ///
    /// # Errors
    /// [`Kind::Listing`] if there are more directories than a walk remembers.
    pub fn enter(&mut self, directories: Vec<Box<[u8]>>) -> Result<Vec<Box<[u8]>>> {
        let (deep, entered): (Vec<_>, Vec<_>) = directories.into_iter().partition(|directory| {
            let depth = directory.iter().filter(|&&byte| byte == b'/').count();
            depth > DEPTH_MAX
        });
        for directory in entered.into_iter().rev() {
            if self.seen.len() == DIRECTORIES_MAX {
                let why = format!("there are more than {} directories", crate::display::count(DIRECTORIES_MAX as u64));
                return Err(Error::new(Kind::Listing, why).hint("copy the directories below it one by one"));
            }
            if self.seen.insert(xxh3_128(&directory)) {
                self.stack.push(directory);
            }
        }
        Ok(deep)
    }

    /// A directory could not be read.
    pub fn failed(&mut self, directory: Box<[u8]>, why: String) -> Failed {
        let hash = xxh3_64(&directory);
        let is_last = self.round >= self.last;
        if self.late.len() >= LATE_MAX && !self.late.contains_key(&hash) {
            return Failed::Here;
        }
        self.late.insert(hash, if is_last { self.last.saturating_add(1) } else { self.last });
        match is_last {
            true => self.gaps.push((directory, why)),
            false => drop(self.waiting.entry(self.last).or_default().insert(directory)),
        }
        Failed::Later
    }
}

/// The directories that wait, and for which round. None, if the cursor is not a walk's.
fn late(cursor: &Cursor) -> HashMap<u64, u16> {
    let rest = cursor.0.get(8..).unwrap_or_default();
    let (entries, _) = rest.as_chunks::<10>();
    let number = |entry: &[u8; 10]| {
        let (hash, round) = entry.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*hash), u16::from_le_bytes(round.try_into().ok()?)))
    };
    entries.iter().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks a tree of `a/{x,y}/` and `b/`, in which `failing` fail; what was read, round by round, and the gaps.
    fn walked(cursor: Option<&Cursor>, failing: &[&str]) -> (Vec<Vec<String>>, Vec<String>, Cursor) {
        let (mut walk, mut rounds, mut gaps) = (Walk::new(cursor), vec![Vec::new()], Vec::new());
        loop {
            match walk.step() {
                Step::Read(directory) => {
                    let name = String::from_utf8(directory.to_vec()).unwrap();
                    if failing.contains(&&*name) {
                        assert_eq!(walk.failed(directory, "why".into()), Failed::Later);
                        continue;
                    }
                    let below: &[&str] = match &*name {
                        "" => &["a/", "b/"],
                        "a/" => &["a/x/", "a/y/", "a/x/"],
                        _ => &[],
                    };
                    assert!(walk.enter(below.iter().map(|name| name.as_bytes().into()).collect()).unwrap().is_empty());
                    rounds.last_mut().unwrap().push(name);
                }
                Step::Round => rounds.push(Vec::new()),
                Step::Gaps(failed) => {
                    gaps.extend(failed.into_iter().map(|(name, _)| String::from_utf8(name.to_vec()).unwrap()));
                }
                Step::End => return (rounds, gaps, walk.cursor(0)),
            }
        }
    }

    #[test]
    fn a_directory_that_failed_comes_after_all_others_in_every_later_session() {
        let (rounds, gaps, cursor) = walked(None, &["a/x/"]);
        assert_eq!(rounds, [vec!["", "a/", "a/y/", "b/"], vec![]]);
        assert_eq!(gaps, ["a/x/"]);
        let (rounds, gaps, again) = walked(Some(&cursor), &["a/x/"]);
        assert_eq!((rounds[0].len(), rounds[1..].concat().len(), gaps.len()), (4, 0, 1));
        for cursor in [cursor, again] {
            let (rounds, gaps, _) = walked(Some(&cursor), &[]);
            assert_eq!(rounds, [vec!["", "a/", "a/y/", "b/"], vec!["a/x/"]]);
            assert!(gaps.is_empty());
        }
    }

    #[test]
    fn what_is_below_a_directory_that_failed_comes_with_it() {
        let (rounds, gaps, cursor) = walked(None, &["a/", "b/"]);
        assert_eq!((rounds, gaps.len()), (vec![vec![String::new()], vec![]], 2));
        let (rounds, gaps, cursor) = walked(Some(&cursor), &["a/x/", "b/"]);
        assert_eq!((rounds.concat().join(","), gaps.join(",")), (",a/,a/y/".into(), "a/x/,b/".into()));
        let (rounds, gaps, _) = walked(Some(&cursor), &[]);
        assert_eq!((rounds.concat().join(","), gaps.len()), (",a/,a/y/,a/x/,b/".into(), 0));
    }

    #[test]
    fn a_directory_that_is_too_deep_is_not_read() {
        let mut walk = Walk::new(None);
        let deep: Box<[u8]> = b"d/".repeat(51).into();
        let rest = walk.enter(vec![b"d/".repeat(50).into(), deep.clone()]).unwrap();
        assert_eq!(rest, [deep]);
    }

    #[test]
    fn no_more_directories_wait_than_a_cursor_holds() {
        let mut walk = Walk::new(None);
        let mut fail = |n: usize| walk.failed(format!("{n}/").into_bytes().into(), String::new());
        assert!((0..LATE_MAX).all(|n| fail(n) == Failed::Later));
        assert_eq!(fail(LATE_MAX), Failed::Here);
        assert_eq!(walk.cursor(0).0.len(), 8 + 10 * LATE_MAX);
    }
}
