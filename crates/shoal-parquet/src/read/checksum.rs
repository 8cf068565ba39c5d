//! The checksums of row groups: one hash each, over their bytes in the file.

use std::ops::Range;

use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use shoal_engine::Kind;
use xxhash_rust::xxh3::Xxh3;

use super::fault::{Fault, Result};
use super::file::DataFile;
use crate::schema::CHECKSUMS;

/// Bytes that are hashed at once: well below a millisecond of work.
pub const STEP: u64 = 1 << 20;

/// The checksums that a footer has.
pub fn stored(metadata: &ParquetMetaData) -> Result<Option<Vec<u64>>> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let Some(pair) = pairs.into_iter().flatten().find(|pair| pair.key == CHECKSUMS) else { return Ok(None) };
    let hash = |text: &str| u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
    let text = pair.value.as_deref().unwrap_or_default();
    let hashes: Option<Vec<u64>> = text.split_ascii_whitespace().map(hash).collect();
    match hashes.filter(|hashes| hashes.len() == metadata.num_row_groups()) {
        Some(hashes) => Ok(Some(hashes)),
        None => Err(Fault::new(Kind::Archive, format!("its metadata `{CHECKSUMS}` is damaged"))),
    }
}

/// The bytes of a row group in its file.
pub fn bytes_of(group: &RowGroupMetaData) -> Option<Range<u64>> {
    let ranges = group.columns().iter().map(|column| {
        let (start, length) = column.byte_range();
        Some(start..start.checked_add(length)?)
    });
    let all = |one: Option<Range<u64>>, other: Option<Range<u64>>| {
        let (one, other) = (one?, other?);
        Some(one.start.min(other.start)..one.end.max(other.end))
    };
    ranges.reduce(all).flatten()
}

/// A hash in progress.
pub struct Progress {
    hasher: Xxh3,
    left: Range<u64>,
    buffer: Vec<u8>,
}

impl Progress {
    pub fn new(bytes: Range<u64>) -> Progress {
        Progress { hasher: Xxh3::new(), left: bytes, buffer: Vec::new() }
    }

    /// Hashes the next bytes. Returns the hash after the last.
    pub fn step(&mut self, file: &DataFile) -> Result<Option<u64>> {
        let length = STEP.min(self.left.end.saturating_sub(self.left.start)) as usize;
        self.buffer.clear();
        self.buffer.reserve_exact(length);
        file.append(&mut self.buffer, self.left.start, length)?;
        self.hasher.update(&self.buffer);
        self.left.start += length as u64;
        Ok((self.left.start >= self.left.end).then(|| self.hasher.digest()))
    }
}
