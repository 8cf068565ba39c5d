//! The rows of a partition: the payload that carries them, and the entries of an open partition.
//!
//! A payload holds rows of one row group, a row group or a file that failed as a whole, or single locators of any files (to
//! retry them). A locator is the path of the file, the number of the row group, the number of the row in it, and a checksum
//! of its name, each after a NUL. So a file that was replaced does not return another row for one that failed. Without a
//! row, it is the row group that failed; without a row group, the file. A path that ends in `/` is the dataset, which is
//! incomplete. Both forms are stored in journals.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use shoal_engine::error::HostId;
use shoal_engine::source::{Entries, Entry, Known, Unlisted};
use shoal_engine::{Cursor, Error, Key, Kind, Partition, Result};

use super::files::{Files, changed};
use super::locator::{Locator, checksum};
use super::unknown::why_unknown;
use crate::read::blocks::{Block, Names};
use crate::read::dataset::Found;
use crate::read::fault::Fault;
use crate::read::file::{Facts, name_of};
use crate::read::open_file::OpenFile;

/// First byte of a payload: rows of one file, or single locators.
const ROWS: u8 = b'r';
const LOCATORS: u8 = b'l';

/// What a partition of a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Rows of a row group, by their numbers in it: from the first one up to, but not including, the last.
    Some(u32, u32, u32),
    /// A row group that failed as a whole.
    Group(u32),
    /// The file failed as a whole.
    File,
}

impl Rows {
    /// How many entries.
    pub fn len(self) -> u32 {
        match self {
            Rows::Some(_, start, end) => end - start,
            Rows::Group(_) | Rows::File => 1,
        }
    }

    /// The same as numbers. There is no empty range of rows.
    pub fn numbers(self) -> (u32, u32, u32) {
        match self {
            Rows::Some(group, start, end) => (group, start, end),
            Rows::Group(group) => (group, 0, 0),
            Rows::File => (u32::MAX, 0, 0),
        }
    }

    fn of((group, start, end): (u32, u32, u32)) -> Rows {
        match (group, start..end) {
            (group, rows) if !rows.is_empty() => Rows::Some(group, start, end),
            (u32::MAX, _) => Rows::File,
            (group, _) => Rows::Group(group),
        }
    }
}

/// Returns the payload of rows of one file.
pub fn of_rows(found: &Found, rows: Rows) -> Vec<u8> {
    let mut payload = vec![ROWS];
    payload.extend_from_slice(&found.facts.size.to_le_bytes());
    payload.extend_from_slice(&found.facts.changed.to_le_bytes());
    let (group, start, end) = rows.numbers();
    for number in [group, start, end] {
        payload.extend_from_slice(&number.to_le_bytes());
    }
    payload.extend_from_slice(&found.path);
    payload
}

/// Returns a partition of single locators.
pub fn of_locators(list: &[Box<[u8]>]) -> Partition {
    let mut payload = vec![LOCATORS];
    for locator in list {
        payload.extend_from_slice(&(locator.len() as u32).to_le_bytes());
        payload.extend_from_slice(locator);
    }
    let key = Key::of(list.iter().map(|locator| &**locator));
    let len = Some(list.len() as u32);
    Partition { seq: 0, key, after: Cursor::default(), next: None, payload: payload.into(), len }
}

/// One entry. Its texts are ranges of `text`.
struct RowEntry {
    /// The number of the block with its name, and the row. `None` without a name: then it has that of the file.
    row: Option<(u32, u32)>,
    /// Number of the file in `files`.
    file: u32,
    locator: Range<u32>,
    /// Its name, if it has no row.
    name: Range<u32>,
    /// Its row group is damaged, so its name may be wrong: no pattern leaves it out.
    doubted: bool,
}

/// The entries of an open partition.
#[derive(Default)]
pub struct RowEntries {
    text: Vec<u8>,
    files: Vec<Arc<OpenFile>>,
    blocks: Vec<Arc<Block<Names>>>,
    entries: Vec<RowEntry>,
}

/// What a payload is about, parsed.
pub enum Wanted<'a> {
    Rows { path: &'a [u8], facts: Facts, rows: Rows },
    Locators(Vec<&'a [u8]>),
}

impl<'a> Wanted<'a> {
    pub fn parse(payload: &'a [u8]) -> Result<Wanted<'a>> {
        Wanted::of(payload).ok_or_else(|| Error::new(Kind::Internal, "the entries of a partition are damaged"))
    }

    fn of(payload: &'a [u8]) -> Option<Wanted<'a>> {
        let (kind, mut rest) = payload.split_first()?;
        if *kind == LOCATORS {
            let mut locators = Vec::new();
            while let Some((length, after)) = rest.split_first_chunk() {
                let (locator, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                locators.push(locator);
                rest = after;
            }
            return Some(Wanted::Locators(locators));
        }
        let (size, rest) = rest.split_first_chunk()?;
        let (changed, rest) = rest.split_first_chunk()?;
        let (group, rest) = rest.split_first_chunk()?;
        let (start, rest) = rest.split_first_chunk()?;
        let (end, path) = rest.split_first_chunk()?;
        let facts = Facts { size: u64::from_le_bytes(*size), changed: i128::from_le_bytes(*changed) };
        let rows = Rows::of((u32::from_le_bytes(*group), u32::from_le_bytes(*start), u32::from_le_bytes(*end)));
        Some(Wanted::Rows { path, facts, rows })
    }
}

impl RowEntries {
    /// Opens the files of a payload, as far as that is possible. The caller checks their row groups.
    pub fn new(wanted: &Wanted<'_>, files: &Files) -> Result<RowEntries> {
        let mut entries = RowEntries::default();
        match *wanted {
            Wanted::Rows { path, facts, rows } => entries.rows(path, facts, rows, files)?,
            Wanted::Locators(ref locators) => {
                for locator in locators {
                    entries.locator(locator, files)?;
                }
            }
        }
        Ok(entries)
    }

    fn rows(&mut self, path: &[u8], facts: Facts, rows: Rows, files: &Files) -> Result<()> {
        let Rows::Some(group, start, end) = rows else {
            let group = if let Rows::Group(group) = rows { group.to_string() } else { String::new() };
            let locator = [path, b"\0", group.as_bytes()].concat();
            self.unknown(&locator, path, 0);
            return Ok(());
        };
        let file = match files.get(path, Some(facts)) {
            Ok(file) if file.has(group as usize, end - 1) => Some(self.file(file)),
            Err(fault) if fault.is_general() => return Err(fault.to_error()),
            _ => None,
        };
        for row in start..end {
            match file {
                Some(file) => self.row(file, group, row, None),
                // It has changed or cannot be read: as many failures as there were rows.
                None => {
                    let locator = [path, format!("\0{group}\0{row}\0").as_bytes()].concat();
                    self.unknown(&locator, path, 0);
                }
            }
        }
        Ok(())
    }

    fn locator(&mut self, locator: &[u8], files: &Files) -> Result<()> {
        let located = Locator::parse(locator);
        let known = self.files.iter().position(|file| *file.parquet.file.path == *located.path);
        let file = match known {
            Some(known) => Some(known as u32),
            None => match files.get(located.path, None) {
                Ok(file) => Some(self.file(file)),
                Err(fault) if fault.is_general() => return Err(fault.to_error()),
                Err(_) => None,
            },
        };
        match (file, located.group, located.row) {
            (Some(file), Some(group), Some(row)) if self.files[file as usize].has(group as usize, row) => {
                self.row(file, group, row, Some(locator));
            }
            (file, ..) => self.unknown(locator, located.path, file.unwrap_or(0)),
        }
        Ok(())
    }

    fn file(&mut self, file: Arc<OpenFile>) -> u32 {
        self.files.push(file);
        self.files.len() as u32 - 1
    }

    /// Adds a row; with a locator, only if its name has the checksum that the locator says.
    fn row(&mut self, file: u32, group: u32, row: u32, locator: Option<&[u8]>) {
        let open = self.files[file as usize].clone();
        let has = |block: &Arc<Block<Names>>| block.is_of(&open.parquet.file, group) && block.rows.contains(&row);
        if !self.blocks.last().is_some_and(has) {
            self.blocks.push(open.names(group as usize, row));
        }
        let block = self.blocks.len() as u32 - 1;
        let name = self.blocks.last().and_then(|block| block.get()).map(|names| names.name(row));
        let path = &open.parquet.file.path;
        let sum = name.and_then(Result::ok).map(checksum);
        let begin = self.text.len() as u32;
        match (locator, sum) {
            (Some(locator), sum) if sum.is_none() || Locator::parse(locator).sum != sum => {
                return self.unknown(locator, path, file);
            }
            (Some(locator), _) => self.text.extend_from_slice(locator),
            (None, Some(sum)) => {
                self.text.extend_from_slice(path);
                let _ = write!(self.text, "\0{group}\0{row}\0{sum:08x}");
            }
            (None, None) => {
                let locator = [path, format!("\0{group}\0{row}\0").as_bytes()].concat();
                return self.unknown(&locator, path, file);
            }
        }
        let locator = begin..self.text.len() as u32;
        self.entries.push(RowEntry { row: Some((block, row)), file, locator, name: 0..0, doubted: false });
    }

    /// Adds what cannot be read; fetching it returns the reason.
    fn unknown(&mut self, locator: &[u8], path: &[u8], file: u32) {
        let begin = self.text.len() as u32;
        self.text.extend_from_slice(locator);
        let locator = begin..self.text.len() as u32;
        self.text.extend_from_slice(name_of(path.strip_suffix(b"/").unwrap_or(path)));
        let name = locator.end..self.text.len() as u32;
        self.entries.push(RowEntry { row: None, file, locator, name, doubted: false });
    }

    /// The files, and the row groups that these entries are of.
    pub fn groups(&self) -> Vec<(Arc<OpenFile>, usize)> {
        let mut groups: Vec<(Arc<OpenFile>, usize)> = Vec::new();
        for entry in &self.entries {
            let (Some(file), Some(group)) =
                (self.files.get(entry.file as usize), Locator::parse(self.slice(&entry.locator)).group)
            else {
                continue;
            };
            let group = group as usize;
            let known = |(one, number): &(Arc<OpenFile>, usize)| Arc::ptr_eq(one, file) && *number == group;
            if group < file.parquet.groups.len() && !groups.last().is_some_and(known) {
                groups.push((file.clone(), group));
            }
        }
        groups
    }

    /// Marks the entries of a row group that is damaged.
    pub fn doubt(&mut self, file: &Arc<OpenFile>, group: usize) {
        for number in 0..self.entries.len() {
            let entry = &self.entries[number];
            let is_of = self.files.get(entry.file as usize).is_some_and(|one| Arc::ptr_eq(one, file));
            let located = Locator::parse(self.slice(&entry.locator));
            if is_of && located.group == Some(group as u32) {
                self.entries[number].doubted = true;
            }
        }
    }

    pub fn files(&self) -> &[Arc<OpenFile>] {
        &self.files
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        &self.text[range.start as usize..range.end as usize]
    }

    fn names(&self, block: u32) -> Option<&Names> {
        self.blocks[block as usize].get()
    }
}

impl Entries for RowEntries {
    fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let entry = &self.entries[index as usize];
        let locator = self.slice(&entry.locator);
        let name = entry.row.and_then(|(block, row)| self.names(block)?.name(row).ok());
        let unlisted = (name.is_none() || entry.doubted).then_some(Unlisted::Anywhere);
        let name = name.unwrap_or_else(|| self.slice(&entry.name));
        Entry { name, locator, host: HostId(0), skip: None, unlisted }
    }

    fn within(&self, index: u32) -> Option<Cow<'_, [u8]>> {
        let entry = &self.entries[index as usize];
        entry.row.map(|_| Cow::Borrowed(&*self.files[entry.file as usize].parquet.file.path))
    }

    fn known(&self, index: u32) -> Known {
        let entry = &self.entries[index as usize];
        let failed = |fault: Fault| Known { failed: Some(fault.to_error()), ..Known::default() };
        let Some((block, row)) = entry.row else {
            return failed(why_unknown(
                Locator::parse(self.slice(&entry.locator)),
                self.files.get(entry.file as usize).map(|file| &**file),
            ));
        };
        match self.names(block).map(|names| names.meta(row)) {
            Some(Ok(meta)) => Known { size: meta.size, modified: meta.last_modified, failed: None },
            Some(Err(fault)) => failed(fault),
            None => failed(changed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locator_is_read_back() {
        let located = Locator::parse(b"/a/x.parquet\x003\x0017\x00000000ff");
        assert_eq!(located, Locator { path: b"/a/x.parquet", group: Some(3), row: Some(17), sum: Some(255) });
        let none = Locator { path: b"/a/x", group: None, row: None, sum: None };
        assert_eq!(Locator::parse(b"/a/x"), none);
        assert_eq!(Locator::parse(b"/a/x\0"), none);
        assert_eq!(Locator::parse(b"/a/x\x002\0"), Locator { group: Some(2), ..none });
        assert_eq!(Locator::parse(b"/a/x\x002\x003\0"), Locator { group: Some(2), row: Some(3), ..none });
    }

    #[test]
    fn a_payload_is_read_back() {
        let found = Found { path: b"/a/b.parquet"[..].into(), facts: Facts { size: 7, changed: -5 } };
        for rows in [Rows::Some(1, 2, 3), Rows::Some(u32::MAX, 0, 1), Rows::Group(4), Rows::File] {
            let payload = of_rows(&found, rows);
            let Wanted::Rows { path, facts, rows: read } = Wanted::parse(&payload).unwrap() else { panic!() };
            assert_eq!((path, facts, read), (&found.path[..], found.facts, rows));
        }
        let locators = [b"a\x001".as_slice().into(), b"".as_slice().into()];
        let partition = of_locators(&locators);
        let Wanted::Locators(read) = Wanted::parse(&partition.payload).unwrap() else { panic!() };
        assert_eq!(read, [&b"a\x001"[..], b""]);
        assert!(Wanted::parse(b"r123").is_err());
    }
}
