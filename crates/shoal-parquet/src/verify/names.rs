//! Finds names that are there twice, with bounded memory: a hash of 128 bits and the place of each name, in parts by the
//! first bits of the hash. A part that is full is sorted and written to a temporary file. At the end, each part is read and
//! sorted. Two names with equal hashes are called equal.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use shoal_engine::{Error, Kind, Result};
use xxhash_rust::xxh3::xxh3_128;

/// Parts: with a billion names, each has 6 MB, which is sorted at once.
const PARTS: usize = 4096;
/// Bytes of an entry in the temporary file.
const ENTRY: usize = 24;
/// Most examples of names that are there twice.
pub const EXAMPLES: usize = 20;

/// A name: its hash and place. The place is the number of the file and of the row in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameEntry {
    hash: u128,
    place: u64,
}

/// Bits of the number of a row in a place: 2^40 rows of a file, and 2^24 files.
const ROW_BITS: u32 = 40;

impl NameEntry {
    pub fn new(name: &[u8], file: usize, row: u64) -> NameEntry {
        NameEntry { hash: xxh3_128(name), place: (file as u64) << ROW_BITS | row }
    }

    fn part(self) -> usize {
        (self.hash >> (128 - PARTS.trailing_zeros())) as usize
    }
}

/// Splits a place into the number of the file and of the row.
pub fn split(place: u64) -> (usize, u64) {
    ((place >> ROW_BITS) as usize, place & ((1 << ROW_BITS) - 1))
}

/// The names of which the first bits of the hash are equal.
#[derive(Default)]
struct Part {
    held: Vec<NameEntry>,
    /// Where entries of it are in the temporary file, and how many.
    written: Vec<(u64, u32)>,
    found: Found,
}

/// Names that are there twice.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub count: u64,
    /// The places of the first row with a name, and of another.
    pub examples: Vec<(u64, u64)>,
}

impl Found {
    fn add(&mut self, first: u64, second: u64) {
        self.count += 1;
        self.examples.push((first, second));
        self.shorten();
    }

    fn shorten(&mut self) {
        if self.examples.len() > 2 * EXAMPLES {
            self.examples.sort_unstable();
            self.examples.truncate(EXAMPLES);
        }
    }

    /// Adds what was found elsewhere.
    pub fn join(&mut self, other: Found) {
        self.count += other.count;
        self.examples.extend(other.examples);
        self.examples.sort_unstable();
        self.examples.truncate(EXAMPLES);
    }
}

/// All names of a dataset.
pub struct AllNames {
    parts: Vec<Mutex<Part>>,
    /// Most entries that a part holds in memory.
    held_max: usize,
    /// Created when it is first needed; it has no name.
    file: OnceLock<std::result::Result<File, String>>,
    length: AtomicU64,
    temporary: std::path::PathBuf,
}

impl AllNames {
    pub fn new(memory: usize, temporary: &Path) -> AllNames {
        let held_max = (memory / PARTS / size_of::<NameEntry>()).max(16);
        let held_max = 1 << held_max.ilog2(); // as much as a vector that doubles its memory has
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        let (file, length) = Default::default();
        AllNames { parts, held_max, file, length, temporary: temporary.to_owned() }
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Adds names, and empties the list.
    pub fn add(&self, names: &mut Vec<NameEntry>) -> Result<()> {
        names.sort_unstable_by_key(|name| name.part());
        for run in names.chunk_by(|one, other| one.part() == other.part()) {
            let mut part = self.parts[run[0].part()].lock().unwrap_or_else(PoisonError::into_inner);
            if !part.held.is_empty() && part.held.len() + run.len() > self.held_max {
                self.write(&mut part)?; // before it grows: a vector doubles its memory
            }
            part.held.extend_from_slice(run);
        }
        names.clear();
        Ok(())
    }

    /// Moves what a part holds to the temporary file.
    fn write(&self, part: &mut Part) -> Result<()> {
        unique(&mut part.held, &mut part.found);
        let mut bytes = Vec::with_capacity(part.held.len() * ENTRY);
        for name in part.held.drain(..) {
            bytes.extend_from_slice(&name.hash.to_le_bytes());
            bytes.extend_from_slice(&name.place.to_le_bytes());
        }
        let at = self.length.fetch_add(bytes.len() as u64, Relaxed);
        self.file()?.write_all_at(&bytes, at).map_err(|error| self.failed(&error.to_string()))?;
        part.written.push((at, (bytes.len() / ENTRY) as u32));
        Ok(())
    }

    fn file(&self) -> Result<&File> {
        let create = || tempfile::tempfile_in(&self.temporary).map_err(|error| error.to_string());
        self.file.get_or_init(create).as_ref().map_err(|why| self.failed(why))
    }

    fn failed(&self, why: &str) -> Error {
        let on = shoal_engine::display::escape(std::os::unix::ffi::OsStrExt::as_bytes(self.temporary.as_os_str()));
        let why = format!("cannot write the temporary file with hashes of names: {why}");
        Error::new(Kind::DestinationFailed, why).on(&on).hint("set TMPDIR to a directory with more space")
    }

    /// What a part has twice. Empties the part.
    pub fn found(&self, number: usize) -> Result<Found> {
        let mut part = std::mem::take(&mut *self.parts[number].lock().unwrap_or_else(PoisonError::into_inner));
        let mut names = std::mem::take(&mut part.held);
        for &(at, count) in &part.written {
            let mut bytes = vec![0; count as usize * ENTRY];
            self.file()?.read_exact_at(&mut bytes, at).map_err(|error| self.failed(&error.to_string()))?;
            for entry in bytes.chunks_exact(ENTRY) {
                let (hash, place) = entry.split_at(16);
                let (Ok(hash), Ok(place)) = (hash.try_into(), place.try_into()) else { continue };
                names.push(NameEntry { hash: u128::from_le_bytes(hash), place: u64::from_le_bytes(place) });
            }
        }
        unique(&mut names, &mut part.found);
        Ok(part.found)
    }
}

/// Sorts names and leaves the first of equal ones.
fn unique(names: &mut Vec<NameEntry>, found: &mut Found) {
    names.sort_unstable();
    names.dedup_by(|second, first| {
        let is_equal = second.hash == first.hash;
        if is_equal {
            found.add(first.place, second.place);
        }
        is_equal
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_there_again_is_counted_whatever_the_memory() {
        for memory in [0, 1 << 30] {
            let temp = tempfile::tempdir().unwrap();
            let names = AllNames::new(memory, temp.path());
            let mut batch = Vec::new();
            for row in 0..200_000_u64 {
                // One name of 200 is there a second time, and one a thousand times.
                let name = if row % 200 == 199 { row - 1 } else { row };
                let name = if row % 200 == 5 { "often".to_owned() } else { name.to_string() };
                batch.push(NameEntry::new(name.as_bytes(), 3, row));
                if batch.len() == 1000 {
                    names.add(&mut batch).unwrap();
                }
            }
            let mut found = Found::default();
            for part in 0..names.parts() {
                found.join(names.found(part).unwrap());
            }
            assert_eq!(found.count, 1000 + 999, "with {memory} bytes");
            assert_eq!(found.examples.len(), EXAMPLES);
            assert!(found.examples.iter().all(|(first, second)| split(*first).0 == 3 && first < second));
            assert_eq!(names.length.load(Relaxed) > 0, memory == 0);
        }
    }

    #[test]
    fn a_place_is_split_again() {
        let entry = NameEntry::new(b"x", 5, 77);
        assert_eq!(split(entry.place), (5, 77));
    }
}
