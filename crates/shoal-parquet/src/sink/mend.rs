//! Removes rows of withdrawn objects: each file that has some is written anew, without them.
//!
//! A row is known by the session that has written it, its name and its length. If a session has written more such rows than
//! were withdrawn, they are told apart only if it does not matter which are removed: if all have the same contents. Else
//! they stay, and their name with them is refused (`withdrawn.rs`).
//!
//! The new file has a temporary name. It is synced, and then takes the place of the old one in the transaction that forgets
//! the withdrawn rows. Not here: when that is (the engine), and the rename (`recover.rs`).

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use shoal_engine::Result;
use shoal_engine::sink::{SinkState, StateRow};
use xxhash_rust::xxh3::xxh3_128;

use super::failure::{io_failed, parquet_failed};
use super::group::{Format, Growing};
use super::recover::damaged;
use super::state::{self, Complete, Placed, Row, Withdrawn};
use crate::read::fault::Fault;
use crate::read::open_file::OpenFile;
use crate::schema::file_name;

/// Rows that are decoded at once.
const ROWS: usize = 1024;

/// Where files are, and how they are written.
pub(super) struct Place<'a> {
    pub path: &'a Path,
    pub part: Option<u32>,
    pub tmp: &'a Path,
    pub format: &'a Format,
}

/// A file that may have such rows.
struct Old {
    /// `None` while it is open.
    number: Option<u64>,
    complete: Complete,
    path: PathBuf,
    /// Its rows that go, counted from the beginning of the file.
    wrong: BTreeMap<usize, Withdrawn>,
}

/// Rows of withdrawn objects that have one name and length.
struct Wanted {
    count: u64,
    /// Where such rows are: the file and the row in it.
    found: Vec<(usize, usize)>,
}

/// By session, and then by name and length.
type AllWanted = HashMap<String, HashMap<(u128, u64), Wanted>>;

/// Which rows of a file were removed.
struct Removed {
    /// The first row of each group, and the end of the last.
    starts: Vec<usize>,
    rows: Vec<usize>,
}

impl Place<'_> {
    /// Writes files without these rows; returns the changes of the state. If it is to stop, or there is no room for more, the
    /// changes are those of some of them.
    ///
    /// # Errors
    /// If none can be written, or one is damaged.
    pub fn mend(&self, state: &dyn SinkState, stop: &mut dyn FnMut() -> bool) -> Result<Vec<StateRow>> {
        // The library panics on some bytes that no writer writes.
        catch_unwind(AssertUnwindSafe(|| self.try_mend(state, stop)))
            .unwrap_or_else(|_| Err(damaged(self.path, "the rows of a file cannot be decoded")))
    }

    fn try_mend(&self, state: &dyn SinkState, stop: &mut dyn FnMut() -> bool) -> Result<Vec<StateRow>> {
        let (mut files, mut wanted) = self.read(state)?;
        for (at, old) in files.iter().enumerate() {
            let session = state::session_of(&old.complete.temporary);
            let Some(wanted) = session.and_then(|session| wanted.get_mut(session)) else { continue };
            if !find(&old.path, at, wanted, stop)? {
                return Ok(Vec::new());
            }
        }
        let mut counts = HashMap::new();
        for (session, wanted) in wanted {
            for ((name, length), Wanted { count, mut found }) in wanted {
                let rows = Withdrawn { session: session.clone(), name, length };
                let needed = usize::try_from(count).unwrap_or(usize::MAX);
                if found.len() < needed || found.len() > needed && !are_equal(&files, &found)? {
                    continue;
                }
                found.truncate(needed);
                found.iter().for_each(|&(file, row)| _ = files[file].wrong.insert(row, rows.clone()));
                counts.insert(rows, count);
            }
        }
        let mut changes = Vec::new();
        let mut moved = HashMap::new();
        for old in files.iter().filter(|old| !old.wrong.is_empty()) {
            let (new, removed) = match self.rewrite(old, stop) {
                Ok(Some(rewritten)) => rewritten,
                Ok(None) => break,
                Err(error) if moved.is_empty() => return Err(error),
                Err(_) => break, // said by the next call, unless the space of the others is enough
            };
            match (old.number, &new) {
                (Some(number), Some(new)) => changes.push(state::published(number, new)),
                (_, new) => {
                    changes.push(state::not_open(&old.complete.temporary));
                    changes.extend(new.as_ref().map(state::open));
                }
            }
            for rows in old.wrong.values() {
                if let Some(count) = counts.get_mut(rows) {
                    *count -= 1;
                    changes.push(state::withdrawn(rows, *count));
                }
            }
            moved.insert(old.complete.temporary.clone(), (new, removed));
        }
        if !moved.is_empty() {
            let sync = File::open(self.tmp).and_then(|tmp| tmp.sync_all());
            sync.map_err(|error| io_failed("sync", self.tmp, &error))?;
            renumber(state, &moved, &mut changes)?;
        }
        Ok(changes)
    }

    fn read(&self, state: &dyn SinkState) -> Result<(Vec<Old>, AllWanted)> {
        let (mut files, mut wanted) = (Vec::new(), AllWanted::new());
        let mut add = |number: Option<u64>, complete: Complete| {
            let path = match number {
                Some(number) => self.path.join(file_name(self.part, number)),
                None => self.tmp.join(&complete.temporary),
            };
            files.push(Old { number, complete, path, wrong: BTreeMap::new() });
        };
        state.each(&mut |key, value| {
            match state::read(key, value)? {
                Row::Published(number, complete) => add(Some(number), complete),
                Row::Open(complete) => add(None, complete),
                Row::Withdrawn(Withdrawn { session, name, length }, count) => {
                    wanted.entry(session).or_default().insert((name, length), Wanted { count, found: Vec::new() });
                }
                Row::Places { .. } => {}
            }
            Ok(())
        })?;
        Ok((files, wanted))
    }

    /// Writes a file without its wrong rows. A published one without any other rows becomes an empty one, because no number is
    /// left out; an open one is dropped. `None`: it was to stop.
    fn rewrite(&self, old: &Old, stop: &mut dyn FnMut() -> bool) -> Result<Option<(Option<Complete>, Removed)>> {
        let temporary =
            state::temporary(state::session_of(&old.complete.temporary).unwrap_or_default(), old.number.is_some());
        let path = self.tmp.join(&temporary);
        let rewritten = self.write(old, &path, stop);
        let keep = |(length, removed): (u64, Removed)| {
            let is_empty = removed.rows.len() == removed.starts.last().copied().unwrap_or(0);
            let new = (old.number.is_some() || !is_empty).then_some(Complete { temporary, length });
            (new, removed)
        };
        let rewritten = rewritten.map(|rewritten| rewritten.map(keep));
        if !matches!(rewritten, Ok(Some((Some(_), _)))) {
            let _ = fs::remove_file(&path);
        }
        rewritten
    }

    fn write(&self, old: &Old, path: &Path, stop: &mut dyn FnMut() -> bool) -> Result<Option<(u64, Removed)>> {
        let failed = |error: ParquetError| parquet_failed("write", path, &error);
        let create = || OpenOptions::new().write(true).create_new(true).open(path);
        let file = create().map_err(|error| io_failed("create", path, &error))?;
        let mut growing = Growing::new(file).map_err(failed)?;
        // What is damaged must not get a new checksum.
        let unsound = |fault: Fault| damaged(&old.path, &fault.why);
        let source = OpenFile::open(old.path.as_os_str().as_bytes()).map_err(unsound)?;
        let mut removed = Removed { starts: vec![0], rows: old.wrong.keys().copied().collect() };
        for (group, rows) in source.parquet.groups.iter().map(|group| group.rows as usize).enumerate() {
            let start = removed.starts[group];
            removed.starts.push(start + rows);
            loop {
                if stop() {
                    return Ok(None);
                }
                if let Some(verdict) = source.check(group) {
                    verdict.map_err(unsound)?;
                    break;
                }
            }
            let mut kept: Vec<Range<usize>> = Vec::new();
            let mut next = 0;
            for wrong in old.wrong.range(start..start + rows).map(|(row, _)| row - start) {
                kept.push(next..wrong);
                next = wrong + 1;
            }
            kept.push(next..rows);
            kept.retain(|range| !range.is_empty());
            if kept.is_empty() {
                continue;
            }
            let data = source.parquet.metadata.row_group(group).column(2);
            let packed = data.compression() != Compression::UNCOMPRESSED;
            let selected = RowSelection::from_consecutive_ranges(kept.into_iter(), rows);
            let rows = reader(&old.path, |reader| reader.with_row_groups(vec![group]).with_row_selection(selected))?;
            let columns = rows.map(|batch| Ok(batch?.columns().to_vec()));
            growing.append_columns(self.format, columns, packed, || ()).map_err(failed)?;
        }
        let (file, length) = growing.finish(self.format).map_err(failed)?;
        file.sync_data().map_err(|error| io_failed("sync", path, &error))?;
        Ok(Some((length, removed)))
    }
}

type Builder = ParquetRecordBatchReaderBuilder<File>;

fn reader(path: &Path, with: impl FnOnce(Builder) -> Builder) -> Result<ParquetRecordBatchReader> {
    let file = File::open(path).map_err(|error| io_failed("read", path, &error))?;
    let reader = Builder::try_new(file).and_then(|reader| with(reader.with_batch_size(ROWS)).build());
    reader.map_err(|error| parquet_failed("read", path, &error))
}

fn columns(reader: Builder, columns: &[usize]) -> Builder {
    let mask = ProjectionMask::leaves(reader.parquet_schema(), columns.iter().copied());
    reader.with_projection(mask)
}

/// Notes where the wanted rows of a file are. False if it was to stop.
fn find(
    path: &Path,
    file: usize,
    wanted: &mut HashMap<(u128, u64), Wanted>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<bool> {
    let mut row = 0;
    for batch in reader(path, |reader| columns(reader, &[0, 1]))? {
        if stop() {
            return Ok(false);
        }
        let batch = batch.map_err(|error| parquet_failed("read", path, &error.into()))?;
        let (names, sizes) = (batch.column(0).as_string::<i32>(), batch.column(1).as_primitive::<Int64Type>());
        for (name, size) in names.iter().flatten().zip(sizes.values()) {
            if let Some(wanted) = wanted.get_mut(&(xxh3_128(name.as_bytes()), size.cast_unsigned())) {
                wanted.found.push((file, row));
            }
            row += 1;
        }
    }
    Ok(true)
}

/// Whether rows have the same contents.
fn are_equal(files: &[Old], rows: &[(usize, usize)]) -> Result<bool> {
    let mut first = None;
    for &(file, row) in rows {
        let path = &files[file].path;
        let failed = |error: ParquetError| parquet_failed("read", path, &error);
        for batch in reader(path, |reader| columns(reader, &[2]).with_offset(row).with_limit(1))? {
            let batch = batch.map_err(|error| failed(error.into()))?;
            let hash = batch.column(0).as_binary::<i32>().iter().flatten().next().map(xxh3_128);
            if *first.get_or_insert(hash) != hash {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Changes the places of rows in files that were written anew, of any run.
fn renumber(
    state: &dyn SinkState,
    moved: &HashMap<String, (Option<Complete>, Removed)>,
    changes: &mut Vec<StateRow>,
) -> Result<()> {
    state.each(&mut |key, value| {
        let Row::Places { run, temporary, number, key, places } = state::read(key, value)? else { return Ok(()) };
        let Some((new, removed)) = moved.get(&temporary) else { return Ok(()) };
        changes.push((key, None));
        let places: Vec<_> = places.iter().filter_map(|place| removed.place(place)).collect();
        if let Some(new) = new
            && !places.is_empty()
        {
            changes.push(state::places(run, &new.temporary, number, &places));
        }
        Ok(())
    })
}

impl Removed {
    /// How many rows were removed of these.
    fn of(&self, rows: Range<usize>) -> u32 {
        let before = |end: usize| self.rows.partition_point(|row| *row < end);
        (before(rows.end) - before(rows.start)) as u32
    }

    /// Where rows are now; `None` if none of them is left. What does not fit stays, and is found to be wrong when it is read.
    fn place(&self, old: &Placed) -> Option<Placed> {
        let group = old.group as usize;
        let (Some(&start), true) = (self.starts.get(group), group + 1 < self.starts.len()) else { return Some(*old) };
        let first = start + old.first as usize;
        let rows = old.rows - self.of(first..first + old.rows as usize);
        let is_left = |bounds: &[usize]| self.of(bounds[0]..bounds[1]) as usize != bounds[1] - bounds[0];
        let group = self.starts[..=group].windows(2).filter(|bounds| is_left(bounds)).count() as u32;
        (rows > 0).then_some(Placed { seq: old.seq, group, first: old.first - self.of(start..first), rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_without_the_rows_that_were_removed() {
        let removed = Removed { starts: vec![0, 10, 12, 20], rows: vec![3, 4, 10, 11, 15] };
        let placed = |group, first, rows| Placed { seq: 7, group, first, rows };
        for (old, new) in [
            (placed(0, 0, 3), Some(placed(0, 0, 3))),
            (placed(0, 2, 3), Some(placed(0, 2, 1))),
            (placed(0, 3, 2), None),
            (placed(0, 5, 5), Some(placed(0, 3, 5))),
            (placed(1, 0, 2), None), // its row group is gone
            (placed(2, 0, 3), Some(placed(1, 0, 3))),
            (placed(2, 3, 5), Some(placed(1, 3, 4))),
            (placed(3, 0, 1), Some(placed(3, 0, 1))), // there is no such row group
        ] {
            assert_eq!(removed.place(&old), new, "{old:?}");
        }
    }
}
