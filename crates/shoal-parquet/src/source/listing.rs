//! Splits the row groups of all files into partitions. Pages of partitions are the points at which a listing can resume.
//!
//! A listing resumes only if all files up to its cursor are those that were listed, by path, size and change time: any other
//! file would be skipped without notice. How a file is cut depends on that file alone.

use std::path::PathBuf;
use std::sync::Arc;

use shoal_engine::display::escape;
use shoal_engine::source::file_cursor::{PageStart, Position, refused};
use shoal_engine::source::{BoxFuture, Listing, Pages};
use shoal_engine::{Cursor, Key, Partition, Result};
use xxhash_rust::xxh3::Xxh3;

use super::entries::{Rows, of_rows};
use super::files::Files;
use super::locator::dataset_path;
use crate::read::dataset::{self, Found};
use crate::read::file::Facts;
use crate::read::footer::Field;
use crate::read::missing::Lacking;
use crate::read::open_file::OpenFile;

/// Most rows of a partition, as in a page of a list/get service.
const ROWS_MAX: u32 = 100;
/// About how many bytes a partition of several rows has at most.
const BYTES_MAX: u64 = 8 << 20;

/// The hash of the files, from the first one on.
#[derive(Default)]
struct Chain {
    hasher: Xxh3,
    /// How many files are hashed.
    count: usize,
}

impl Chain {
    /// Returns the hash of all files up to number `at`.
    fn up_to(&mut self, at: usize, found: &[Found]) -> u128 {
        for next in found.get(self.count..=at).unwrap_or_default() {
            hash_file(&mut self.hasher, next);
            self.count += 1;
        }
        self.hasher.digest128()
    }
}

fn hash_file(hasher: &mut Xxh3, file: &Found) {
    hasher.update(&(file.path.len() as u64).to_le_bytes());
    hasher.update(&file.path);
    hasher.update(&file.facts.size.to_le_bytes());
    hasher.update(&file.facts.changed.to_le_bytes());
}

/// A file that is being cut into partitions.
struct Cut {
    /// `None` if it failed as a whole.
    file: Option<Arc<OpenFile>>,
    group: usize,
    /// The next row.
    row: u32,
    ended: bool,
    /// Partitions so far.
    done: u32,
}

impl Cut {
    /// Returns the rows of the next partition.
    fn next(&mut self) -> Option<Rows> {
        let rows = self.rows()?;
        self.done += 1;
        Some(rows)
    }

    fn rows(&mut self) -> Option<Rows> {
        let Some(file) = &self.file else {
            return (!std::mem::replace(&mut self.ended, true)).then_some(Rows::File);
        };
        while let Some(group) = file.parquet.groups.get(self.group) {
            let number = self.group as u32;
            if self.row >= group.rows {
                (self.group, self.row) = (self.group + 1, 0);
            } else if file.parquet.pages(self.group, Field::Name).is_err() {
                // No name can be read, and the number of rows may be as wrong as the rest.
                self.row = group.rows;
                return Some(Rows::Group(number));
            } else {
                let start = self.row;
                self.row = end_of(file, self.group, start);
                return Some(Rows::Some(number, start, self.row));
            }
        }
        None
    }
}

/// Where the partition that begins with a row ends: with a block of contents, if one ends soon.
fn end_of(file: &OpenFile, group: usize, start: u32) -> u32 {
    let rows = file.parquet.groups[group].rows;
    let bytes = file.parquet.metadata.row_group(group).total_byte_size().max(0) as u64;
    let each = (bytes / u64::from(rows)).max(1);
    let most = (BYTES_MAX / each).clamp(1, ROWS_MAX.into()) as u32;
    let limit = start.saturating_add(most).min(rows);
    let starts = file.data_starts(group);
    let last = starts.partition_point(|block| *block <= limit).checked_sub(1).map_or(0, |last| starts[last]);
    if limit < rows && last > start { last } else { limit }
}

/// The listing of a dataset.
pub struct RowListing {
    directory: PathBuf,
    files: Arc<Files>,
    /// Where to begin, until the files are found.
    begin: Option<PageStart>,
    found: Vec<Found>,
    chain: Chain,
    at: usize,
    cut: Option<Cut>,
    /// Partitions of the file at `at` that come before the cursor.
    before: u32,
    pages: Pages,
}

impl RowListing {
    pub fn new(directory: PathBuf, files: Arc<Files>, after: Option<Cursor>) -> Result<RowListing> {
        let begin = PageStart::of(after.as_ref())?;
        let pages = Pages::new(begin.seq, begin.cursor());
        let (found, chain) = Default::default();
        let begin = Some(begin);
        Ok(RowListing { directory, files, begin, found, chain, at: 0, cut: None, before: 0, pages })
    }

    fn find(&mut self) -> Result<()> {
        let Some(begin) = &self.begin else { return Ok(()) };
        let mut found = dataset::files(&self.directory)?;
        if !Lacking::of(&self.directory, &found).why().is_empty() {
            // As a file that cannot be read, after all others.
            found.push(Found { path: dataset_path(&self.directory), facts: Facts::default() });
        }
        if let Some(within) = &begin.within {
            let at = usize::try_from(within.at).unwrap_or(usize::MAX);
            if at >= found.len() || self.chain.up_to(at, &found) != within.chain {
                return Err(refused(
                    "the files before the point where the run stopped are not the ones that were listed",
                ));
            }
            (self.at, self.before) = (at, within.done);
        }
        (self.found, self.begin) = (found, None);
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Partition>> {
        self.find()?;
        while let Some(found) = self.found.get(self.at) {
            if let Some(cut) = &mut self.cut {
                match cut.next() {
                    Some(_) if cut.done <= self.before => continue,
                    Some(rows) => return Ok(Some(self.partition(rows))),
                    None => (self.cut, self.at, self.before) = (None, self.at + 1, 0),
                }
                continue;
            }
            let file = match self.files.get(&found.path, Some(found.facts)) {
                Ok(file) => Some(file),
                Err(fault) if fault.is_general() => return Err(fault.to_error().on(&escape(&found.path))),
                Err(_) => None,
            };
            if self.before > 0 && file.is_none() {
                return Err(refused("the file at which the run stopped cannot be read as before"));
            }
            self.cut = Some(Cut { file, group: 0, row: 0, ended: false, done: 0 });
        }
        Ok(None)
    }

    fn partition(&mut self, rows: Rows) -> Partition {
        let found = &self.found[self.at];
        let payload = of_rows(found, rows).into();
        let (key, len) = (key(found, rows), Some(rows.len()));
        let partition = Partition { seq: 0, key, after: Cursor::default(), next: None, payload, len };
        self.pages.number(partition, |seq| {
            let done = self.cut.as_ref().map_or(0, |cut| cut.done);
            let chain = self.chain.up_to(self.at, &self.found);
            PageStart { seq, within: Some(Position { at: self.at as u64, done, chain }) }.cursor()
        })
    }
}

impl Listing for RowListing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(async { self.advance() })
    }
}

/// Returns the key of a partition: a hash of the path, size and change time of the file, and of which rows.
fn key(found: &Found, rows: Rows) -> Key {
    let mut hasher = Xxh3::new();
    hash_file(&mut hasher, found);
    let (group, start, end) = rows.numbers();
    for number in [group, start, end] {
        hasher.update(&number.to_le_bytes());
    }
    Key(hasher.digest128())
}
