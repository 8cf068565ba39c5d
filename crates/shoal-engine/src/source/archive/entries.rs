//! The entries of a partition of archives: the payload that carries them, and the entries of an open partition.
//!
//! A payload holds ranges of the entries of one archive, single locators of any archives (to retry them), or an archive
//! that failed as a whole. A locator is the path of the archive, NUL, the number of the entry, NUL, and a checksum of
//! its name, so that an archive that was replaced does not return another entry for one that failed. The locator of a
//! whole archive ends after the first NUL.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::cache::ArchiveCache;
use super::fault::failure;
use super::format::Archive;
use super::member::{EntryKind, Fault};
use crate::error::{Class, Error, HostId, Kind, Result};
use crate::fs::read::Facts;
use crate::partition::Partition;
use crate::report::{Reason, archive_of};
use crate::source::locators::{self, Unread};
use crate::source::{Entries, Entry, Known, Skip, Unlisted};

/// First byte of a payload: ranges of one archive, or single locators.
const RANGES: u8 = b'r';
const LOCATORS: u8 = b'l';

/// Returns the payload of entries of one archive. Without ranges, the archive has failed as a whole.
pub(super) fn of_ranges(path: &[u8], facts: Option<&Facts>, ranges: &[Range<u32>]) -> Vec<u8> {
    let mut payload = vec![RANGES];
    payload.extend_from_slice(&(path.len() as u32).to_le_bytes());
    payload.extend_from_slice(path);
    let (size, changed) = facts.map_or((0, 0), |facts| (facts.size, facts.changed));
    payload.extend_from_slice(&size.to_le_bytes());
    payload.extend_from_slice(&changed.to_le_bytes());
    for range in ranges {
        payload.extend_from_slice(&range.start.to_le_bytes());
        payload.extend_from_slice(&range.end.to_le_bytes());
    }
    payload
}

/// Returns a partition of single locators.
pub(super) fn of_locators(list: &[Box<[u8]>]) -> Partition {
    locators::partition(&[LOCATORS], list)
}

/// A locator, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Locator<'a> {
    pub path: &'a [u8],
    /// The number of the entry and the checksum of its name; `None` for the whole archive.
    pub entry: Option<(u32, u32)>,
}

impl<'a> Locator<'a> {
    pub fn parse(locator: &'a [u8]) -> Locator<'a> {
        let (path, rest) = locator.split_at(memchr::memchr(0, locator).unwrap_or(locator.len()));
        let mut fields = rest.split(|&byte| byte == 0).skip(1);
        let mut number =
            |radix| std::str::from_utf8(fields.next()?).ok().and_then(|text| u32::from_str_radix(text, radix).ok());
        let entry = number(10).and_then(|member| Some((member, number(16)?)));
        Locator { path, entry }
    }

    /// Whether an archive still has this entry.
    pub fn holds(&self, archive: &Archive) -> bool {
        self.entry.is_some_and(|(number, sum)| {
            let member = archive.plan.members.get(number as usize);
            member.is_some_and(|member| checksum(archive.plan.name(member)) == sum)
        })
    }
}

fn checksum(name: &[u8]) -> u32 {
    xxh3_64(name) as u32
}

/// The error for an archive that is not the one that was listed.
pub(super) fn changed() -> Error {
    let why = "the archive is not the same as when it was listed";
    Error::new(Kind::Changed, why).hint("list again with `resume=\"update\"`")
}

/// One of them. Its texts are ranges of `text`.
struct ArchiveEntry {
    /// Index of the archive and number of the entry. `None` if it cannot be found, or for a whole archive; then it has
    /// a name.
    member: Option<(u32, u32)>,
    name: Range<u32>,
    locator: Range<u32>,
}

/// The entries of an open partition.
pub(super) struct ArchiveEntries {
    cache: Arc<ArchiveCache>,
    archives: Vec<Arc<Archive>>,
    text: Vec<u8>,
    entries: Vec<ArchiveEntry>,
}

impl ArchiveEntries {
    /// Reads a payload, and plans its archives if they are not in the cache.
    ///
    /// # Errors
    /// [`Kind::Internal`] if the payload is damaged; errors that do not concern a single archive.
    pub fn new(payload: &[u8], cache: &Arc<ArchiveCache>) -> Result<ArchiveEntries> {
        let mut entries = ArchiveEntries {
            cache: cache.clone(),
            archives: Vec::new(),
            text: Vec::new(),
            entries: Vec::with_capacity(128),
        };
        let damaged = || Error::new(Kind::Internal, "the entries of a partition are damaged");
        match payload.split_first() {
            Some((&RANGES, rest)) => entries.ranges(Unread(rest), cache).ok_or_else(damaged)??,
            Some((&LOCATORS, rest)) => entries.locators(Unread(rest), cache).ok_or_else(damaged)??,
            _ => return Err(damaged()),
        }
        Ok(entries)
    }

    /// The archives of its entries.
    pub fn archives(&self) -> &[Arc<Archive>] {
        &self.archives
    }

    /// The range of bytes of the first archive that these entries need.
    pub fn extent(&self) -> Option<Range<u64>> {
        let archive = self.archives.first().filter(|archive| !archive.plan.sequential)?;
        let numbers = self.entries.iter().filter_map(|entry| entry.member.filter(|(which, _)| *which == 0));
        let members = numbers.filter_map(|(_, number)| archive.plan.members.get(number as usize));
        members
            .map(|member| (member.at, member.bound))
            .reduce(|all, next| (all.0.min(next.0), all.1.max(next.1)))
            .map(|(at, bound)| at..bound)
    }

    fn ranges(&mut self, mut rest: Unread<'_>, cache: &ArchiveCache) -> Option<Result<()>> {
        let path = rest.locator()?;
        let size = u64::from_le_bytes(rest.take(8)?.try_into().ok()?);
        let time = i128::from_le_bytes(rest.take(16)?.try_into().ok()?);
        let whole = [path, b"\0"].concat();
        if rest.0.is_empty() {
            self.unknown(&whole, path, cache);
            return Some(Ok(()));
        }
        let archive = match cache.archive(path) {
            Ok(archive) => {
                (archive.file.facts.size, archive.file.facts.changed) == (size, time) && {
                    self.archives.push(archive);
                    true
                }
            }
            Err(error) if error.class() != Class::Object => return Some(Err(error)),
            Err(_) => false,
        };
        while !rest.0.is_empty() {
            for number in rest.number::<4>()?..rest.number::<4>()? {
                match archive {
                    true => self.entry(0, number),
                    // The archive has changed or cannot be read: as many failures as there were entries.
                    false => self.unknown(&whole, path, cache),
                }
            }
        }
        Some(Ok(()))
    }

    fn locators(&mut self, mut rest: Unread<'_>, cache: &ArchiveCache) -> Option<Result<()>> {
        while !rest.0.is_empty() {
            let locator = rest.locator()?;
            let located = Locator::parse(locator);
            let which = match self.archives.iter().position(|archive| *archive.file.path == *located.path) {
                Some(which) => Some(which),
                None if located.entry.is_none() => None,
                None => match cache.archive(located.path) {
                    Ok(archive) => {
                        self.archives.push(archive);
                        Some(self.archives.len() - 1)
                    }
                    Err(error) if error.class() != Class::Object => return Some(Err(error)),
                    Err(_) => None,
                },
            };
            match (which, located.entry) {
                (Some(which), Some((number, _))) if located.holds(&self.archives[which]) => {
                    self.entry(which as u32, number);
                }
                // Fetching it returns the reason.
                _ => self.unknown(locator, located.path, cache),
            }
        }
        Some(Ok(()))
    }

    fn entry(&mut self, which: u32, number: u32) {
        use std::io::Write;
        let archive = &self.archives[which as usize];
        let Some(member) = archive.plan.members.get(number as usize) else { return };
        let start = self.text.len() as u32;
        self.text.extend_from_slice(&archive.file.path);
        let _ = write!(self.text, "\0{number}\0{:08x}", checksum(archive.plan.name(member)));
        let locator = start..self.text.len() as u32;
        self.entries.push(ArchiveEntry { member: Some((which, number)), name: 0..0, locator });
    }

    /// Adds an archive that has failed as a whole, or an entry that cannot be found.
    fn unknown(&mut self, locator: &[u8], path: &[u8], cache: &ArchiveCache) {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(locator);
        let locator = start..self.text.len() as u32;
        self.text.extend_from_slice(&cache.find.name(path));
        self.entries.push(ArchiveEntry { member: None, name: locator.end..self.text.len() as u32, locator });
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        &self.text[range.start as usize..range.end as usize]
    }
}

impl Entries for ArchiveEntries {
    fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let entry = &self.entries[index as usize];
        let locator = self.slice(&entry.locator);
        let Some((which, number)) = entry.member else {
            let (name, unlisted) = (self.slice(&entry.name), Some(Unlisted::Anywhere));
            return Entry { name, locator, host: HostId(0), skip: None, unlisted };
        };
        let Archive { plan, file, .. } = &*self.archives[which as usize];
        let member = &plan.members[number as usize];
        let skip = match member.what {
            EntryKind::File | EntryKind::Fault(_) => None,
            EntryKind::Directory { empty } => Some(Skip::Directory { make: empty }),
            EntryKind::Link => Some(Skip::NoObject(Reason::Link)),
            EntryKind::Special => Some(Skip::NoObject(Reason::Special)),
        };
        // Named like the archive (`Plan::push_damaged`): entries with any names are missing.
        let is_gap = matches!(member.what, EntryKind::Fault(Fault::Damaged(_))) && plan.name(member) == &*file.name;
        let unlisted = is_gap.then_some(Unlisted::Anywhere);
        Entry { name: plan.name(member), locator, host: HostId(0), skip, unlisted }
    }

    fn is_stream(&self) -> bool {
        self.archives.iter().any(|archive| self.cache.formats[archive.format].is_stream())
    }

    fn within(&self, index: u32) -> Option<Cow<'_, [u8]>> {
        let (which, _) = self.entries[index as usize].member?;
        Some(Cow::Borrowed(&self.archives[which as usize].file.path))
    }

    fn known(&self, index: u32) -> Known {
        let entry = &self.entries[index as usize];
        let Some((which, number)) = entry.member else {
            let failed = self.cache.archive(archive_of(self.slice(&entry.locator))).err().unwrap_or_else(changed);
            return Known { failed: Some(failed), ..Known::default() };
        };
        let archive = &self.archives[which as usize];
        let member = &archive.plan.members[number as usize];
        let modified = self.cache.formats[archive.format].modified(member);
        let failed = match member.what {
            EntryKind::Fault(fault @ Fault::Damaged(_)) => Some(failure(fault, archive, number)),
            _ => None,
        };
        Known { size: Some(member.size), modified, failed }
    }

    fn directory_mode(&self, directory: &[u8]) -> Option<u32> {
        let modes = self.archives.iter().filter_map(|archive| archive.plan.directory_mode(directory));
        modes.reduce(|one, other| one & other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locator_is_read_back() {
        let read = |locator| Locator::parse(locator);
        assert_eq!(read(b"/a/x.zip\x0017\x00000000ff"), Locator { path: b"/a/x.zip", entry: Some((17, 255)) });
        assert_eq!(read(b"/a/x.zip\0"), Locator { path: b"/a/x.zip", entry: None });
        for damaged in [&b"/a/x.zip"[..], b"/a/x.zip\0x\x001", b"/a/x.zip\x001", b"/a/x.zip\x001\0zz"] {
            assert_eq!(read(damaged), Locator { path: b"/a/x.zip", entry: None });
        }
    }
}
