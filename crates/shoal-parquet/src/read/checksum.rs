//! Checksums: one hash of each row group, over its bytes in the file, and one of what is behind the last.

use std::ops::Range;

use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use shoal_engine::Kind;
use xxhash_rust::xxh3::Xxh3;

use super::fault::{Fault, Result};
use super::file::DataFile;
use crate::schema::{CHECKSUMS, FOOTER_CHECKSUM, MAGIC, footer_digits};

/// Bytes that are hashed at once: well below a millisecond of work.
pub const STEP: u64 = 1 << 20;

/// What `created_by` begins with in files of shoal.
const CREATED_BY: &str = "shoal ";

/// The checksums of row groups that a footer has: each file of shoal has them.
pub fn stored(metadata: &ParquetMetaData) -> Result<Option<Vec<u64>>> {
    if !is_of_shoal(metadata) {
        return Ok(None);
    }
    let hashes = value(metadata, CHECKSUMS).and_then(|text| text.split_ascii_whitespace().map(number).collect());
    match hashes.filter(|hashes: &Vec<u64>| hashes.len() == metadata.num_row_groups()) {
        Some(hashes) => Ok(Some(hashes)),
        None => Err(Fault::new(Kind::Archive, format!("its metadata \"{CHECKSUMS}\" is missing or damaged"))),
    }
}

/// Another program that rewrites a file may copy its metadata (PyArrow does), so checksums count only in files of shoal.
fn is_of_shoal(metadata: &ParquetMetaData) -> bool {
    metadata.file_metadata().created_by().is_some_and(|by| by.starts_with(CREATED_BY))
}

fn value<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata();
    pairs.into_iter().flatten().find(|pair| pair.key == key)?.value.as_deref()
}

fn number(hash: &str) -> Option<u64> {
    u64::from_str_radix(hash, 16).ok().filter(|_| hash.len() == 16)
}

/// Checks what is behind the last row group, if the footer has a checksum of it: a row may be read with wrong types
/// otherwise, or only by shoal and by no other program.
pub fn check_footer(file: &DataFile, metadata: &ParquetMetaData) -> Result<()> {
    let wrong = || Fault::new(Kind::Integrity, "its footer does not match its checksum");
    let mut pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let Some(pair) = pairs.find(|pair| pair.key == FOOTER_CHECKSUM && is_of_shoal(metadata)) else { return Ok(()) };
    let sum = pair.value.as_deref().ok_or_else(wrong)?; // a changed bit before the value hides it
    let end = file.facts.size;
    let begin =
        metadata.row_groups().iter().filter_map(bytes_of).map(|bytes| bytes.end).max().unwrap_or(MAGIC.len() as u64);
    let length = file.bytes(end.saturating_sub(8), 4)?;
    let length = length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let footer = end.saturating_sub(8 + u64::from(length)).max(begin);
    let digits = footer_digits(&file.bytes(footer, end.saturating_sub(footer) as usize)?).ok_or_else(wrong)?;
    let digits = footer + digits.start as u64..footer + digits.end as u64;
    let mut progress = Progress::new(begin..digits.start);
    while progress.step(file)?.is_none() {}
    progress.left = digits.end..end;
    loop {
        if let Some(hash) = progress.step(file)? {
            return if sum == format!("{hash:016x}") { Ok(()) } else { Err(wrong()) };
        }
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
