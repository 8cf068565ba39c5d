//! What an archive holds, whatever its format: names in one piece of memory and 64 bytes for each entry, built once.
//!
//! A format pushes its entries in the order of the archive and calls [`Plan::checked`], which finds what no format can
//! tell alone: names that occur twice, a file where another entry needs a directory, directories with nothing in them,
//! and archives beyond a limit.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::limits;
use super::names::{self, RawName};
use super::{ArchiveFile, ArchiveOptions};
use crate::error::{Error, Kind, Result};
use crate::name::Name;

/// `Member::modified` where the archive does not say.
pub(crate) const NO_TIME: i64 = i64::MIN;

/// What an archive holds.
#[derive(Default)]
pub(crate) struct Plan {
    /// The names, one behind the other; what lies between them belongs to the format.
    pub text: Vec<u8>,
    /// The entries in the order of the archive; a member's number is its place here.
    pub members: Vec<Member>,
    /// The numbers of the directories that have permission bits, by name, as [`find_conflicts`] sorts it.
    pub(super) directories: Vec<u32>,
    /// Why members of [`Fault::Damaged`] are that.
    pub reasons: Vec<String>,
    /// Only readable from front to back: it is one partition.
    pub sequential: bool,
    /// The unpacked bytes of a small compressed archive, so that it is not unpacked twice.
    pub kept: Vec<u8>,
    /// Bytes the entries unpack to, as declared.
    pub size: u64,
    /// The hard links that became copies of what they lead to, by number. Their bytes lie before entries in front of them: a
    /// sequential archive gives them after all others, in this order.
    pub links: Vec<u32>,
    /// Something that is not padding follows the end of the archive.
    pub goes_on: bool,
    /// Looked up with the first name.
    table: Option<Option<&'static encoding_rs::Encoding>>,
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its name in `Plan::text`; set by [`Plan::push`].
    pub name: Range<u32>,
    /// Declared length, unpacked.
    pub size: u64,
    /// Length in the archive.
    pub packed: u64,
    /// Where it begins; what that is, its format knows.
    pub at: u64,
    /// Where it must have ended.
    pub bound: u64,
    /// When it was last changed, in seconds since 1970, or [`NO_TIME`]; see `flags` of its format for local times.
    pub modified: i64,
    /// Checksum of the unpacked bytes, where the format has one.
    pub crc: u32,
    /// The format's own number of the compression.
    pub method: u16,
    /// The format's own.
    pub flags: u16,
    pub what: What,
    /// Permission bits, at most 0o777; 0: the archive has none for it.
    pub mode: u16,
}

impl Member {
    /// Its permission bits, where the archive has some.
    pub fn mode(&self) -> Option<u32> {
        (self.mode != 0).then_some(self.mode.into())
    }

    /// When it was last changed.
    pub fn last_modified(&self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.modified.unsigned_abs());
        match self.modified {
            NO_TIME => None,
            0.. => UNIX_EPOCH.checked_add(seconds),
            _ => UNIX_EPOCH.checked_sub(seconds),
        }
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    File,
    /// Its name has no slash at the end. `empty`: no other entry lies in it; found by [`Plan::checked`].
    Directory {
        empty: bool,
    },
    /// A symbolic link: never made.
    Link,
    /// A device, pipe or socket: never made.
    Special,
    /// It has failed before anything is unpacked.
    Fault(Fault),
}

/// A failure that is known from what the archive says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its name stood earlier in the archive.
    Duplicate,
    /// A file where an earlier entry needs a directory, or the other way round.
    Conflict,
    Encrypted,
    /// A compression that is not supported: `Member::method`.
    Method,
    /// A sparse file of a tar.
    Sparse,
    /// A hard link that leads to no file of the archive.
    HardLink(NoFile),
    /// A backslash in its name.
    Backslash,
    /// More components than `max_depth`.
    TooDeep,
    /// For the reason with this number in `Plan::reasons`.
    Damaged(u16),
}

/// What a hard link leads to instead of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFile {
    /// A name that is not safe.
    Outside,
    /// A name that no earlier entry has.
    Missing,
    /// A link, a directory, a device, or an entry that has failed.
    Other,
}

impl Plan {
    /// Adds an entry; `member.name` is set here, and a file whose name ends with a slash becomes a directory. Whether the
    /// name (without the slash) is still the bytes it was.
    ///
    /// # Errors
    /// [`Kind::Archive`] beyond `max_entries`, so that no more is held, or with more than 4 GiB of names.
    pub fn push(
        &mut self,
        raw: RawName<'_>,
        mut member: Member,
        file: &ArchiveFile,
        options: &ArchiveOptions,
    ) -> Result<bool> {
        limits::entries(self.members.len() as u64 + 1, options)?;
        let table = self.table(options)?;
        // A name is at most three times its bytes (code page 437); room for all of it keeps numbers within 32 bits.
        if self.text.len() + 3 * raw.bytes.len() + file.prefix.len() > u32::MAX as usize {
            return Err(Error::new(Kind::Archive, "the archive has more than 4 GiB of names"));
        }
        let start = self.text.len();
        self.text.extend_from_slice(&file.prefix);
        let converted = names::convert(raw, table, options, &mut self.text);
        let mut end = self.text.len();
        if end > start + file.prefix.len() && self.text[end - 1] == b'/' {
            end -= 1;
            if member.what == What::File {
                member.what = What::Directory { empty: true };
            }
        }
        member.name = start as u32..end as u32;
        if matches!(member.what, What::File | What::Directory { .. }) {
            let components = || memchr::memchr_iter(b'/', &self.text[start..end]).count() as u64 + 1;
            if converted.refused {
                member.what = What::Fault(Fault::Backslash);
            } else if (end - start) as u64 > 2 * u64::from(options.max_depth)
                && components() > u64::from(options.max_depth)
            {
                member.what = What::Fault(Fault::TooDeep);
            }
        }
        if member.what == What::File {
            self.size = self.size.saturating_add(member.size);
        }
        self.members.push(member);
        Ok(!converted.changed)
    }

    /// The name that an entry of this name has in a plan.
    ///
    /// # Errors
    /// As of [`Plan::push`].
    pub fn name_of(&mut self, raw: RawName<'_>, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Vec<u8>> {
        let mut name = file.prefix.to_vec();
        names::convert(raw, self.table(options)?, options, &mut name);
        Ok(name)
    }

    fn table(&mut self, options: &ArchiveOptions) -> Result<Option<&'static encoding_rs::Encoding>> {
        Ok(match self.table {
            Some(table) => table,
            None => *self.table.insert(names::table(&options.encoding)?),
        })
    }

    /// An entry that stands for what could not be read of the archive, named like it.
    pub fn push_damaged(&mut self, why: String, file: &ArchiveFile) {
        let start = self.text.len();
        self.text.extend_from_slice(&file.name);
        let name = start as u32..self.text.len() as u32;
        self.members.push(Member { name, ..Member::default() });
        self.damage(why);
    }

    /// The last entry is a failure, for this reason.
    pub fn damage(&mut self, why: String) {
        // Beyond so many reasons the last one has to do: they are of one archive.
        let number = u16::try_from(self.reasons.len()).unwrap_or(u16::MAX);
        if self.reasons.len() <= usize::from(u16::MAX) {
            self.reasons.push(why);
        }
        if let Some(member) = self.members.last_mut() {
            member.what = What::Fault(Fault::Damaged(number));
        }
    }

    /// The plan, once all entries are in it.
    ///
    /// # Errors
    /// [`Kind::Archive`] beyond `max_size` or `max_ratio`.
    pub fn checked(mut self, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan> {
        limits::output(self.size, file, options)?;
        self.text.shrink_to_fit();
        self.members.shrink_to_fit();
        self.directories = find_conflicts(&mut self.text, &mut self.members);
        let mut links = std::mem::take(&mut self.links);
        links.retain(|&link| {
            let member = &self.members[link as usize];
            member.what == What::File && Name::parse(self.name(member)).is_ok()
        });
        self.links = links;
        Ok(self)
    }

    /// The name of a member.
    pub fn name(&self, member: &Member) -> &[u8] {
        &self.text[member.name.start as usize..member.name.end as usize]
    }

    /// What it takes in memory beside what is `kept`.
    pub fn weight(&self) -> usize {
        let numbers = self.directories.len() + self.links.len();
        self.text.len() + self.members.len() * size_of::<Member>() + numbers * size_of::<u32>()
    }
}

impl Default for Member {
    fn default() -> Member {
        Member {
            name: 0..0,
            size: 0,
            packed: 0,
            at: 0,
            bound: 0,
            modified: NO_TIME,
            crc: 0,
            method: 0,
            flags: 0,
            what: What::File,
            mode: 0,
        }
    }
}

/// What stands for a slash while names are sorted: less than any other byte, so that what lies in a directory follows it
/// before anything else does. No name of ours has it.
pub(super) const SLASH: u8 = 0;

/// No entry: there are fewer.
const NONE: u32 = u32::MAX;

/// A member, and a part of its name while it is being sorted.
struct Sorted {
    key: u64,
    number: u32,
}
/// Bytes of that part.
const KEY: usize = size_of::<u64>();

/// A name that what comes next may lie below.
struct Above<'t> {
    name: &'t [u8],
    /// Where its entries begin in what is sorted.
    first: usize,
    /// The first entry of this name that is no directory.
    object: u32,
    /// The first that it cannot stand beside: a directory of this name, or whatever lies below.
    least: u32,
}

/// Finds names that stand twice, files in the place of directories, and which directories are empty. Of two that collide
/// the first in the archive stands: that does not depend on who unpacks what.
///
/// Names are sorted and held against their neighbours: 16 bytes for each, however deep it is. A name that is not safe
/// claims nothing, since nothing comes of it.
///
/// The numbers of the directories that have permission bits, in the order of the sorted names.
pub(super) fn find_conflicts(text: &mut [u8], members: &mut [Member]) -> Vec<u32> {
    let mut sorted: Vec<Sorted> = Vec::with_capacity(members.len());
    for (number, member) in members.iter().enumerate() {
        let name = &mut text[member.name.start as usize..member.name.end as usize];
        if !matches!(member.what, What::Fault(_)) && Name::parse(name).is_ok() {
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
                What::Directory { .. } => &mut next.least,
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
    let has_mode = |member: &Member| matches!(member.what, What::Directory { .. }) && member.mode != 0;
    sorted.iter().map(|one| one.number).filter(|&number| has_mode(&members[number as usize])).collect()
}

/// Whether a name lies in a directory, slashes replaced.
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

/// Sorts by name, equal names by number. Eight bytes of each name are looked at together, behind what all of them begin
/// with, and then those that are equal so far among themselves: comparing whole names takes ten times as long.
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

/// Settles a name, once all that lies below it is settled: `all` are its entries and those.
fn settle(name: &Above<'_>, all: &[Sorted], members: &mut [Member], above: &mut [Above<'_>]) {
    if let Some(above) = above.last_mut() {
        above.least = above.least.min(name.object).min(name.least);
    }
    let stands = name.object < name.least;
    let is_below = |member: &Member| member.name.len() > name.name.len();
    let filled = all.last().is_some_and(|last| is_below(&members[last.number as usize]));
    for number in all.iter().map(|one| one.number) {
        let member = &mut members[number as usize];
        let is_below = is_below(member);
        let fault = match (&mut member.what, stands) {
            (_, false) if is_below => break,
            (What::Link | What::Special, _) => continue, // not made, whatever it clashes with
            (_, true) if number == name.object => continue,
            (What::File, true) if !is_below => Fault::Duplicate,
            (_, true) => Fault::Conflict,
            (What::Directory { empty }, false) => {
                *empty = !filled;
                continue;
            }
            (_, false) => Fault::Conflict,
        };
        member.what = What::Fault(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each name with what became of it; `/` at the end: a directory, `@`: a link.
    fn found(names: &[&str]) -> Vec<What> {
        let mut text = Vec::new();
        let mut members = Vec::new();
        for name in names {
            let what = match name.as_bytes().last() {
                Some(b'/') => What::Directory { empty: true },
                Some(b'@') => What::Link,
                _ => What::File,
            };
            let start = text.len() as u32;
            text.extend_from_slice(name.trim_end_matches(['/', '@']).as_bytes());
            members.push(Member { name: start..text.len() as u32, what, ..Member::default() });
        }
        find_conflicts(&mut text, &mut members);
        members.into_iter().map(|member| member.what).collect()
    }

    const DUPLICATE: What = What::Fault(Fault::Duplicate);
    const CONFLICT: What = What::Fault(Fault::Conflict);
    const EMPTY: What = What::Directory { empty: true };
    const FILLED: What = What::Directory { empty: false };

    #[test]
    fn the_first_of_two_that_collide_stands() {
        use What::File;
        assert_eq!(found(&["a", "b", "a"]), [File, File, DUPLICATE]);
        assert_eq!(found(&["a", "a/b", "a/c", "a/b/c"]), [File, CONFLICT, CONFLICT, CONFLICT]);
        assert_eq!(found(&["x/y/a", "x", "x/y", "x/y/a/b"]), [File, CONFLICT, CONFLICT, CONFLICT]);
        assert_eq!(found(&["d/", "d", "d/", "d/e/f", "d/e"]), [FILLED, CONFLICT, FILLED, File, CONFLICT]);
        assert_eq!(found(&["l@", "l/x", "l"]), [What::Link, CONFLICT, DUPLICATE]);
        assert_eq!(found(&["a/b", "c", "a/b"]), [File, File, DUPLICATE]);
    }

    #[test]
    fn directories_are_empty_until_something_lies_in_them() {
        use What::File;
        assert_eq!(found(&["d/", "e/", "e/f", "g/h/", "g/"]), [EMPTY, FILLED, File, EMPTY, FILLED]);
        assert_eq!(found(&["d/", "d/l@"]), [FILLED, What::Link]);
    }

    #[test]
    fn names_that_are_refused_claim_nothing() {
        use What::File;
        let found = found(&["a/..", "a", "b//c", "b", "x/.", "x/y", "/d/e", "d", "./f", "f", "g/", "g/../h"]);
        assert_eq!(found, [[File; 10].as_slice(), &[EMPTY, File]].concat());
    }

    /// Whether two entries can both be, entry by entry: slow, and plainly what is meant.
    fn found_slowly(names: &[&str]) -> Vec<What> {
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
                (true, _) => What::Link,
                (false, true) => EMPTY,
                (false, false) => What::File,
            });
        }
        for (name, what) in names.iter().zip(&mut all).filter(|(_, what)| **what == EMPTY) {
            let filled = standing.iter().any(|other| other.starts_with(name) && other != name);
            *what = What::Directory { empty: !filled };
        }
        all
    }

    #[test]
    fn whatever_the_order_it_is_what_a_comparison_of_each_with_each_finds() {
        // Some sort before a slash, some behind it.
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

    #[test]
    fn a_member_takes_64_bytes() {
        assert_eq!(size_of::<Member>(), 64);
    }
}
