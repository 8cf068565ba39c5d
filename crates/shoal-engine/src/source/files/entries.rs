//! The entries of a partition of files: the payload that carries them, grouped by directory or as single locators, and
//! the entries of an open partition.
//!
//! A locator is the path below the root, or the path of a list as given. An empty directory is an entry too: its
//! locator has a NUL and a slash after the path. A directory that could not be read is an entry, so that it counts as a
//! failure: its locator has a NUL and the number of the error. So is a link with a target that could not be looked at. The
//! locator of a link has a NUL and a letter. That of a name of a file with several names has a NUL, an equals sign and another
//! of them: the first, or in that of the first the second.

use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::paths::Paths;
use crate::error::{Error, HostId, Kind, Result};
use crate::partition::Key;
use crate::report::Reason;
use crate::source::locators::{self, Unread};
use crate::source::{Entries, Entry, Skip, Unlisted};

/// First byte of a payload: grouped by directory, or a locator each.
const GROUPED: u8 = b'g';
const LOCATORS: u8 = b'l';
/// Separates the path of a directory from its mark.
const REASON: u8 = 0;
const EMPTY: &[u8] = b"/";
const LINK: &[u8] = b"l";
const LINK_TO_FILE: &[u8] = b"f";
const SAME_AS: u8 = b'=';
/// Where the codes of non-objects begin: above all error numbers.
const NO_OBJECT: u16 = 0x8000;

/// The codes of links: below that of an empty directory.
const LINK_CODE: u16 = u16::MAX - 1;
const LINK_TO_FILE_CODE: u16 = u16::MAX - 2;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A file, according to its directory.
    File,
    /// A symbolic link, which is passed on as such.
    Link,
    /// A symbolic link that is followed. It may lead to nothing.
    LinkToFile,
    /// Neither a file nor a directory; the reason says what it is.
    NoObject(Reason),
    /// An empty directory.
    Empty,
    /// A directory that could not be read, or a link with a target that could not be looked at.
    Unreadable(Errno),
}

impl Mark {
    fn encoded(self) -> u16 {
        match self {
            Mark::File => 0,
            Mark::Empty => u16::MAX,
            Mark::Link => LINK_CODE,
            Mark::LinkToFile => LINK_TO_FILE_CODE,
            Mark::NoObject(reason) => NO_OBJECT + reason as u16,
            Mark::Unreadable(errno) => errno.raw_os_error() as u16, // 1 to 4,095
        }
    }

    fn decoded(encoded: u32) -> Mark {
        match encoded {
            0 => Mark::File,
            _ if encoded == u32::from(u16::MAX) => Mark::Empty,
            _ if encoded == u32::from(LINK_CODE) => Mark::Link,
            _ if encoded == u32::from(LINK_TO_FILE_CODE) => Mark::LinkToFile,
            _ => match encoded.checked_sub(NO_OBJECT.into()).and_then(|at| Reason::ALL.get(at as usize)) {
                Some(reason) => Mark::NoObject(*reason),
                None => Mark::Unreadable(Errno::from_raw_os_error(encoded as i32)),
            },
        }
    }

    fn skip(self) -> Option<Skip> {
        match self {
            Mark::File | Mark::Link | Mark::LinkToFile | Mark::Unreadable(_) => None,
            Mark::NoObject(reason) => Some(Skip::NoObject(reason)),
            Mark::Empty => Some(Skip::Directory { make: true }),
        }
    }
}

/// Builds the payload of a partition.
pub(super) struct PayloadBuilder {
    payload: Vec<u8>,
    /// Where the path of the last group is in the payload, and its count.
    directory: Range<usize>,
    count_at: usize,
    entries: u32,
}

impl PayloadBuilder {
    pub fn new() -> PayloadBuilder {
        PayloadBuilder { payload: vec![GROUPED], directory: 0..0, count_at: 0, entries: 0 }
    }

    /// Entries so far.
    pub fn len(&self) -> u32 {
        self.entries
    }

    pub fn push(&mut self, directory: &[u8], name: &[u8], mark: Mark) {
        if self.entries == 0 || self.payload[self.directory.clone()] != *directory {
            self.payload.extend_from_slice(&(directory.len() as u32).to_le_bytes());
            let start = self.payload.len();
            self.payload.extend_from_slice(directory);
            self.directory = start..self.payload.len();
            self.count_at = self.payload.len();
            self.payload.push(0);
        }
        self.payload[self.count_at] += 1; // a partition has fewer than 256 entries
        self.entries += 1;
        self.payload.extend_from_slice(&mark.encoded().to_le_bytes());
        self.payload.extend_from_slice(&(name.len() as u16).to_le_bytes());
        self.payload.extend_from_slice(name);
    }

    /// Returns the payload and empties the builder.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::replace(self, PayloadBuilder::new()).payload
    }
}

/// Builds a payload of single locators.
pub(super) fn of_locators<L: AsRef<[u8]>>(list: impl IntoIterator<Item = L>) -> Vec<u8> {
    locators::append(vec![LOCATORS], list)
}

/// The locator of a name of a file that has `other`, too.
pub(super) fn same_as(path: &[u8], other: &[u8]) -> Vec<u8> {
    [path, &[REASON, SAME_AS], other].concat()
}

/// Whether a payload has several names of files, which must be fetched in their order.
pub(super) fn has_hard_links(payload: &[u8]) -> bool {
    payload.first() == Some(&LOCATORS) && memchr::memmem::find(payload, &[REASON, SAME_AS]).is_some()
}

/// Another name of the same file, in a locator: the first one in those of the others, the second in that of the first.
pub(super) fn other_name(locator: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(REASON, locator)?;
    locator[at + 1..].strip_prefix(&[SAME_AS])
}

/// Splits a locator into the path and the kind of the entry.
pub(super) fn parts(locator: &[u8]) -> (&[u8], Mark) {
    match memchr::memchr(REASON, locator).map(|at| (&locator[..at], &locator[at + 1..])) {
        None => (locator, Mark::File),
        Some((path, EMPTY)) => (path, Mark::Empty),
        Some((path, LINK)) => (path, Mark::Link),
        Some((path, LINK_TO_FILE)) => (path, Mark::LinkToFile),
        Some((path, [SAME_AS, ..])) => (path, Mark::File),
        Some((path, reason)) => {
            let number = std::str::from_utf8(reason).ok().and_then(|text| text.parse().ok());
            (path, Mark::Unreadable(number.map_or(Errno::IO, Errno::from_raw_os_error)))
        }
    }
}

/// One of them. Its texts are ranges of `text`.
struct FileEntry {
    name: Range<u32>,
    locator: Range<u32>,
    mark: Mark,
}

/// The entries of an open partition.
pub(super) struct FileEntries {
    text: Vec<u8>,
    entries: Vec<FileEntry>,
}

impl FileEntries {
    /// Reads a payload. `paths` has the names of the paths of a list.
    ///
    /// # Errors
    /// [`Kind::Internal`] if the payload is damaged.
    pub fn new(payload: &Arc<[u8]>, paths: &Paths) -> Result<FileEntries> {
        let damaged = || Error::new(Kind::Internal, "the entries of a partition are damaged");
        let mut entries = FileEntries { text: Vec::with_capacity(payload.len() * 2), entries: Vec::with_capacity(128) };
        let mut rest = Unread(&payload[1..]);
        while !rest.0.is_empty() {
            match payload[0] {
                GROUPED => entries.group(&mut rest).ok_or_else(damaged)?,
                _ => entries.locator(&mut rest, paths).ok_or_else(damaged)?,
            }
        }
        Ok(entries)
    }

    /// Returns the key of these entries. It changes if a link has become a file.
    pub fn key(&self) -> Key {
        let kind = |entry: &FileEntry| if entry.mark.skip().is_some() { &b"-"[..] } else { b"+" }; // a link's is in its locator
        Key::of(self.entries.iter().flat_map(|entry| [self.slice(&entry.locator), kind(entry)]))
    }

    #[cfg(test)]
    fn locators(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.slice(&entry.locator))
    }

    fn group(&mut self, rest: &mut Unread<'_>) -> Option<()> {
        let directory = rest.locator()?;
        for _ in 0..rest.number::<1>()? {
            let mark = Mark::decoded(rest.number::<2>()?);
            let length = rest.number::<2>()? as usize;
            let name = rest.take(length)?;
            let start = self.text.len() as u32;
            if !directory.is_empty() {
                self.text.extend_from_slice(directory);
                self.text.push(b'/');
            }
            self.text.extend_from_slice(name);
            let name = start..self.text.len() as u32;
            let reason = match mark {
                Mark::File | Mark::NoObject(_) => None,
                Mark::Empty => Some(EMPTY.to_vec()),
                Mark::Link => Some(LINK.to_vec()),
                Mark::LinkToFile => Some(LINK_TO_FILE.to_vec()),
                Mark::Unreadable(errno) => Some(errno.raw_os_error().to_string().into_bytes()),
            };
            if let Some(reason) = reason {
                self.text.push(REASON);
                self.text.extend_from_slice(&reason);
            }
            let locator = start..self.text.len() as u32;
            self.entries.push(FileEntry { name, locator, mark });
        }
        Some(())
    }

    fn locator(&mut self, rest: &mut Unread<'_>, paths: &Paths) -> Option<()> {
        let locator = rest.locator()?;
        let start = self.text.len() as u32;
        self.text.extend_from_slice(locator);
        let end = self.text.len() as u32;
        let (path, mark) = parts(locator);
        let name = match paths.is_named() {
            false => start..start + path.len() as u32,
            true => {
                paths.name(if mark == Mark::File { path } else { locator }, &mut self.text);
                end..self.text.len() as u32
            }
        };
        self.entries.push(FileEntry { name, locator: start..end, mark });
        Some(())
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        &self.text[range.start as usize..range.end as usize]
    }
}

impl Entries for FileEntries {
    fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let entry = &self.entries[index as usize];
        let (name, locator) = (self.slice(&entry.name), self.slice(&entry.locator));
        let unlisted = matches!(entry.mark, Mark::Unreadable(_)).then_some(Unlisted::Below);
        Entry { name, locator, host: HostId(0), skip: entry.mark.skip(), unlisted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_grouped_by_directory_and_read_back_in_order() {
        let mut builder = PayloadBuilder::new();
        builder.push(b"", b"a", Mark::File);
        builder.push(b"", b"fifo", Mark::NoObject(Reason::Pipe));
        builder.push(b"d/e", b"\xff", Mark::File);
        builder.push(b"d", b"shut", Mark::Unreadable(Errno::ACCESS));
        builder.push(b"d", b"empty", Mark::Empty);
        builder.push(b"d", b"link", Mark::Link);
        builder.push(b"d", b"followed", Mark::LinkToFile);
        assert_eq!(builder.len(), 7);
        let entries = FileEntries::new(&builder.take().into(), &Paths::default()).unwrap();
        assert_eq!(builder.len(), 0);
        let names: Vec<_> = (0..entries.len()).map(|index| entries.get(index).name).collect();
        assert_eq!(names, [&b"a"[..], b"fifo", b"d/e/\xff", b"d/shut", b"d/empty", b"d/link", b"d/followed"]);
        assert_eq!(parts(entries.get(5).locator), (&b"d/link"[..], Mark::Link));
        assert_eq!(parts(entries.get(6).locator), (&b"d/followed"[..], Mark::LinkToFile));
        assert_eq!(entries.get(1).skip, Some(Skip::NoObject(Reason::Pipe)));
        assert_eq!(entries.get(2).skip, None);
        assert_eq!(parts(entries.get(3).locator), (&b"d/shut"[..], Mark::Unreadable(Errno::ACCESS)));
        assert_eq!(entries.get(4).skip, Some(Skip::Directory { make: true }));
        let again = FileEntries::new(&of_locators(entries.locators()).into(), &Paths::default()).unwrap();
        assert_eq!((again.get(3).name, again.get(3).skip), (&b"d/shut"[..], None));
        assert_eq!((again.get(4).name, again.get(4).skip), (&b"d/empty"[..], entries.get(4).skip));
        let group = [b"d/a".to_vec(), same_as(b"e/b", b"d/a")];
        let payload = of_locators(&group);
        assert!(has_hard_links(&payload) && !has_hard_links(&of_locators(again.locators())));
        let group = FileEntries::new(&payload.into(), &Paths::default()).unwrap();
        assert_eq!((group.get(1).name, other_name(group.get(1).locator)), (&b"e/b"[..], Some(&b"d/a"[..])));
        assert_eq!(parts(group.get(1).locator), (&b"e/b"[..], Mark::File));
        assert!(FileEntries::new(&vec![GROUPED, 9, 0, 0, 0].into(), &Paths::default()).is_err());
    }
}
