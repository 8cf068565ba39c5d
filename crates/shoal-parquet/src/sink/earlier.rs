//! The names that earlier sessions have committed of pages that are listed again.
//!
//! A page that was committed in part is listed again when a run continues. If it has changed meanwhile, its objects can
//! be in other partitions, which are fetched. Those that are stored already must not be stored again.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_array::cast::AsArray;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection};
use parquet::errors::ParquetError;
use shoal_engine::session::Twice;
use shoal_engine::sink::{Put, Start, StateRow};
use shoal_engine::{Error, Kind, RETRIED_FROM, Result};
use xxhash_rust::xxh3::xxh3_128;

use super::failure::{io_failed, parquet_failed};
use super::recover::damaged;
use super::shard::lock;
use super::state::{self, Placed};

/// How many partitions a listing can be ahead of the first that is not committed.
const WINDOW: u64 = 65_536;

/// What earlier sessions have committed, and what the journal remembers of it.
#[derive(Default)]
pub(super) struct Earlier {
    run: u64,
    frontier: u64,
    /// Objects of earlier sessions are retried.
    retries: bool,
    /// What an object means that has a stored name.
    twice: Twice,
    /// Ranges of rows, by file and row group.
    ranges: BTreeMap<(PathBuf, u32), Vec<std::ops::Range<usize>>>,
    /// The last partition of these rows.
    last: u64,
    /// Hashes of their names, in ascending order; read when the first partition is opened.
    names: OnceLock<Vec<u128>>,
    reading: Mutex<()>,
    /// Hashes of the names that this session has stored, as long as the listing and a retry can both bring an object.
    stored: Mutex<HashSet<u128>>,
    rows: Mutex<Rows>,
}

/// Rows of the journal, oldest first, each with its last partition.
#[derive(Default)]
struct Rows {
    kept: VecDeque<(u64, Box<[u8]>)>,
    last: u64,
    next: u64,
}

impl Earlier {
    pub fn new(start: &Start) -> Earlier {
        let Start { run, frontier, deferred, twice, .. } = *start;
        Earlier { run, frontier, retries: deferred > 0, twice, ..Earlier::default() }
    }

    /// Takes a row of an earlier session.
    pub fn add(&mut self, path: &Path, key: Box<[u8]>, places: &[Placed]) {
        for place in places.iter().filter(|place| place.seq >= self.frontier) {
            self.last = self.last.max(place.seq);
            let first = place.first as usize;
            let ranges = self.ranges.entry((path.to_owned(), place.group)).or_default();
            ranges.push(first..first + place.rows as usize);
        }
        let last = places.iter().map(|place| place.seq).max().unwrap_or(0);
        let rows = self.rows.get_mut().unwrap_or_else(PoisonError::into_inner);
        rows.kept.push_back((last, key));
        rows.last = rows.last.max(last);
    }

    /// The rows of the journal for a commit to one file: the new one, and old ones that are not needed any more.
    pub fn committed(&self, temporary: &str, places: &[Placed]) -> Vec<StateRow> {
        let places: Vec<_> = places.iter().copied().filter(|place| place.seq < RETRIED_FROM).collect();
        let Some(last) = places.iter().map(|place| place.seq).max() else { return Vec::new() };
        let mut rows = lock(&self.rows);
        let row = state::places(self.run, temporary, rows.next, &places);
        rows.next += 1;
        rows.last = rows.last.max(last);
        rows.kept.push_back((last, row.0.clone()));
        let mut changes = vec![row];
        let oldest = rows.last.saturating_sub(WINDOW);
        let is_old = |(last, _): &(u64, Box<[u8]>)| *last < oldest;
        while rows.kept.front().is_some_and(is_old) {
            changes.extend(rows.kept.pop_front().map(|(_, key)| (key, None)));
        }
        changes
    }

    /// Whether objects of a partition may be stored already; then [`Earlier::has`] must be asked for each.
    ///
    /// # Errors
    /// If the names cannot be read from the files.
    pub fn concerns(&self, seq: u64) -> Result<bool> {
        let is_retried = seq >= RETRIED_FROM && self.retries;
        if self.ranges.is_empty() || seq > self.last + WINDOW && !is_retried {
            return Ok(false);
        }
        let _one = lock(&self.reading);
        if self.names.get().is_none() {
            let _ = self.names.set(self.read()?);
        }
        Ok(true)
    }

    /// Whether a name is stored already. If not, it is going to be.
    pub fn has(&self, name: &[u8]) -> bool {
        let hash = xxh3_128(name);
        self.names.get().is_some_and(|names| names.binary_search(&hash).is_ok())
            || self.retries && !lock(&self.stored).insert(hash)
    }

    /// What becomes of an object with a name that is stored already.
    ///
    /// # Errors
    /// If it may be another object: its bytes are nowhere, so it must not count as written.
    pub fn again(&self) -> Result<Put> {
        let kind = match self.twice {
            Twice::SameObject => return Ok(Put::Kept),
            Twice::Repeated => Kind::Repeated,
            Twice::Conflict | Twice::Reissued => Kind::NameConflict,
        };
        Err(Error::new(kind, "an earlier run has stored an object of this name, which may be another one"))
    }

    fn read(&self) -> Result<Vec<u128>> {
        let mut names = Vec::new();
        for ((path, group), ranges) in &self.ranges {
            read_names(path, *group, ranges, &mut names)?;
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn read_names(path: &Path, group: u32, ranges: &[std::ops::Range<usize>], names: &mut Vec<u128>) -> Result<()> {
    let failed = |error: ParquetError| parquet_failed("read", path, &error);
    let file = File::open(path).map_err(|error| io_failed("read", path, &error))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
    let rows = reader.metadata().row_groups().get(group as usize).map_or(0, |group| group.num_rows() as usize);
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable_by_key(|range| range.start);
    let wanted: usize = ranges.iter().map(std::ops::Range::len).sum();
    if ranges.last().is_none_or(|last| last.end > rows) {
        return Err(damaged(path, "its row groups are not those that the journal has"));
    }
    let mask = ProjectionMask::leaves(reader.parquet_schema(), [0]);
    let reader = reader
        .with_projection(mask)
        .with_row_groups(vec![group as usize])
        .with_row_selection(RowSelection::from_consecutive_ranges(ranges.into_iter(), rows))
        .build()
        .map_err(failed)?;
    let before = names.len();
    for batch in reader {
        let batch = batch.map_err(|error| failed(error.into()))?;
        names.extend(batch.column(0).as_string::<i32>().iter().flatten().map(|name| xxh3_128(name.as_bytes())));
    }
    if names.len() - before != wanted {
        return Err(damaged(path, "its rows are not those that the journal has"));
    }
    Ok(())
}
