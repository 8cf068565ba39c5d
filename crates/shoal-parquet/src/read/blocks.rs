//! Blocks: the whole pages of some rows, decoded once for all lanes that need them.
//!
//! Lanes take neighbouring partitions, and several of these may be in one page. The lane that needs a block first decodes
//! it, and the others wait for that. A block is kept as long as a lane holds it, so memory is that of one or two blocks for
//! each lane.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shoal_engine::{Kind, ObjectMeta};

use super::column::Decoded;
use super::fault::{Fault, Result};
use super::file::DataFile;
use super::footer::{Field, ParquetFile};

/// Bytes of pages after which a block of names ends: a page that shoal writes.
const NAMES_BYTES: u64 = 64 << 10;
/// The same for contents. Setting up a decoder takes about 10 us, as long as copying this.
const DATA_BYTES: u64 = 256 << 10;
/// Rows after which a block of either ends, so that small pages are read together.
const ROWS: u32 = 2000;

/// Where the blocks of a column begin, and those in use.
pub struct Blocks<T> {
    starts: OnceLock<Vec<u32>>,
    open: Mutex<HashMap<u32, Weak<Block<T>>>>,
}

/// Some rows and what is decoded of them.
pub struct Block<T> {
    /// The address of the file, which its holder keeps open, and the number of the row group.
    of: (usize, usize),
    pub rows: Range<u32>,
    decoded: OnceLock<T>,
}

impl<T> Default for Blocks<T> {
    fn default() -> Blocks<T> {
        Blocks { starts: OnceLock::new(), open: Mutex::default() }
    }
}

impl<T> Blocks<T> {
    /// The first rows of all blocks.
    pub fn starts(&self, parquet: &ParquetFile, group: usize, field: Field) -> &[u32] {
        self.starts.get_or_init(|| starts(parquet, group, field))
    }

    /// The block that has this row.
    pub fn at(&self, parquet: &ParquetFile, group: usize, field: Field, row: u32) -> Arc<Block<T>> {
        let starts = self.starts(parquet, group, field);
        let number = starts.partition_point(|start| *start <= row).saturating_sub(1);
        let start = starts.get(number).copied().unwrap_or(0);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = open.get(&start).and_then(Weak::upgrade) {
            return block;
        }
        open.retain(|_, block| block.strong_count() > 0);
        let end = starts.get(number + 1).copied().unwrap_or(parquet.groups[group].rows);
        let of = (Arc::as_ptr(&parquet.file) as usize, group);
        let block = Arc::new(Block { of, rows: start..end, decoded: OnceLock::new() });
        open.insert(start, Arc::downgrade(&block));
        block
    }
}

impl<T> Block<T> {
    /// What is decoded. Decodes it if no lane has done so.
    pub fn decoded(&self, decode: impl FnOnce(Range<u32>) -> T) -> &T {
        self.decoded.get_or_init(|| decode(self.rows.clone()))
    }

    /// Whether it is of this row group of this file.
    pub fn is_of(&self, file: &Arc<DataFile>, group: u32) -> bool {
        self.of == (Arc::as_ptr(file) as usize, group as usize)
    }

    /// The same once `decoded` was called.
    pub fn get(&self) -> Option<&T> {
        self.decoded.get()
    }
}

fn starts(parquet: &ParquetFile, group: usize, field: Field) -> Vec<u32> {
    let Ok(pages) = parquet.pages(group, field) else { return vec![0] };
    let Some(column) = parquet.column(field) else { return vec![0] };
    let chunk = parquet.metadata.row_group(group).column(column.leaf);
    let (packed, plain) = (chunk.compressed_size().max(1) as u64, chunk.uncompressed_size().max(1) as u64);
    let enough = if field == Field::Data { DATA_BYTES } else { NAMES_BYTES };
    let mut starts = Vec::new();
    let (mut bytes, mut end) = (u64::MAX, 0);
    for page in 0..pages.len() {
        let rows = pages.rows_of(page);
        if bytes >= enough || rows.start - end >= ROWS {
            starts.push(rows.start);
            (bytes, end) = (0, rows.start);
        }
        bytes += (u128::from(pages.size_of(page)) * u128::from(plain) / u128::from(packed)) as u64;
    }
    starts
}

/// All columns but the contents.
pub struct Names {
    name: Decoded,
    size: Option<Decoded>,
    last_modified: Option<(Decoded, i64)>,
    e_tag: Option<Decoded>,
}

impl Names {
    pub fn decode(parquet: &ParquetFile, group: usize, rows: Range<u32>) -> Names {
        let decode = |field| parquet.column(field).map(|_| Decoded::new(parquet, group, field, rows.clone()));
        let unit = parquet.column(Field::LastModified).map_or(1, |column| column.unit);
        Names {
            name: Decoded::new(parquet, group, Field::Name, rows.clone()),
            size: decode(Field::Size),
            last_modified: decode(Field::LastModified).map(|decoded| (decoded, unit)),
            e_tag: decode(Field::ETag),
        }
    }

    /// The name of a row.
    pub fn name(&self, row: u32) -> Result<&[u8]> {
        match self.name.bytes(row)? {
            Some(name) => Ok(name),
            None => Err(Fault::new(Kind::Archive, "its name is null")),
        }
    }

    /// What the columns say of a row. The size is what the column says, or unknown.
    pub fn meta(&self, row: u32) -> Result<ObjectMeta> {
        let size = match self.size.as_ref().map_or(Ok(None), |sizes| sizes.number(row))? {
            None => None,
            Some(size) => {
                let wrong = |_| Fault::new(Kind::Integrity, format!("its \"size\" is {size}"));
                Some(u64::try_from(size).map_err(wrong)?)
            }
        };
        let last_modified = match &self.last_modified {
            Some((times, unit)) => times.number(row)?.and_then(|time| system_time(time, *unit)),
            None => None,
        };
        let e_tag = match self.e_tag.as_ref().map_or(Ok(None), |tags| tags.bytes(row))? {
            Some(tag) => std::str::from_utf8(tag).ok().map(Into::into),
            None => None,
        };
        Ok(ObjectMeta { size, last_modified, e_tag, ..ObjectMeta::default() })
    }
}

/// The time that is this many units after 1970.
fn system_time(time: i64, unit: i64) -> Option<SystemTime> {
    let nanoseconds = i128::from(time) * i128::from(unit);
    let distance = Duration::from_secs((nanoseconds.unsigned_abs() / 1_000_000_000).try_into().ok()?)
        + Duration::from_nanos((nanoseconds.unsigned_abs() % 1_000_000_000) as u64);
    match nanoseconds < 0 {
        true => UNIX_EPOCH.checked_sub(distance),
        false => UNIX_EPOCH.checked_add(distance),
    }
}

/// The contents of a row, which must be as long as its `size` says.
pub fn contents(data: &Decoded, row: u32, size: Option<u64>) -> Result<&[u8]> {
    let bytes = data.bytes(row)?.ok_or_else(|| Fault::new(Kind::Archive, "its data is null"))?;
    match size.filter(|size| *size != bytes.len() as u64) {
        None => Ok(bytes),
        Some(size) => {
            let why = format!("its \"size\" is {size}, but its data has {} bytes", bytes.len());
            Err(Fault::new(Kind::Integrity, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_have_their_unit() {
        let after = UNIX_EPOCH + Duration::new(1, 500_000_000);
        assert_eq!(system_time(1500, 1_000_000), Some(after));
        let before = UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(system_time(-1, 1), Some(before));
        assert!(system_time(i64::MIN, 1_000_000).is_none_or(|time| time < UNIX_EPOCH));
    }
}
