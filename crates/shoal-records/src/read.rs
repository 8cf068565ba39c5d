//! Which records are read together, and into which memory.
//!
//! Here: a table's partitions (runs of whole records within one file), the memory that a worker reads into again and
//! again, and the whole table into memory of the caller's. Not here: threads (`pool.rs`), blocks for a loop
//! (`blocks.rs`).
//!
//! A worker takes a partition of some megabytes and reads it, a mebibyte at a time, into memory that it uses again and
//! again. Measured with `examples/records_speed.rs` (1.5 GB in the page cache, two processors that others used too, a bare
//! sum of one field): `pread` of 64 KiB 19 GB/s, of 256 KiB 21, of 1 MiB 27, of 4 MiB 27; a mapping 31, or 15 when populated
//! first. `pread` was kept all the same: a file that is cut short ends a read with an error, and a mapping kills the process.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::file::Records;
use crate::pool::{self, Pool};

/// Bytes of one partition: large enough that taking one costs nothing, small enough that every worker has work.
const PARTITION: usize = 4 << 20;

/// Most records of one partition, whatever their size, so that a batch has a usual number of rows.
const PARTITION_RECORDS: u64 = 1 << 20;

/// Bytes of one read: with less, the calls cost; with more, nothing is gained and the caches are lost.
pub(crate) const BLOCK: usize = 1 << 20;

/// Most records that are looked at together: what is known of each of them (a mask, a key, a value) stays in the cache.
pub(crate) const STRIP: usize = 8 << 10;

/// Where memory for reads begins, in bytes: a cache line. Some processors copy at half the speed to a place a little
/// further in its page than where the bytes come from.
const ALIGNED: usize = 64;

/// Memory to read into again and again.
pub(crate) struct Space {
    bytes: Vec<u8>,
    lead: usize,
}

impl Space {
    pub(crate) fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNED];
        let lead = bytes.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        Self { bytes, lead }
    }

    /// Its first bytes, as many as asked for; it grows if it must.
    pub(crate) fn first(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() - self.lead < length {
            *self = Self::new(length);
        }
        &mut self.bytes[self.lead..][..length]
    }
}

/// A run of whole records within one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Place of the file in the table.
    file: usize,
    /// The first record, counted from the table's first.
    pub(crate) first: u64,
    pub(crate) records: u64,
}

/// The partitions of some records, found by arithmetic: no list of them is kept.
pub(crate) struct Partitions {
    records: Records,
    /// Most records of each.
    most: u64,
    /// Of each file that has some of the records: its place, the first of them, their number, and how many partitions
    /// lie in front.
    parts: Vec<Part>,
    count: u64,
}

struct Part {
    file: usize,
    first: u64,
    records: u64,
    before: u64,
}

impl Partitions {
    /// Cuts the records into partitions of at most so many, or of a size that suits the machine.
    pub(crate) fn of(records: &Records, most: Option<u64>) -> Self {
        let suits = (PARTITION / records.format().size()).max(1) as u64;
        let most = most.unwrap_or(suits.min(PARTITION_RECORDS)).max(1);
        let range = records.range();
        let (mut parts, mut count) = (Vec::new(), 0);
        for (place, file) in records.table.files.iter().enumerate() {
            let start = file.first.max(range.start);
            let end = (file.first + file.records).min(range.end);
            if start < end {
                parts.push(Part { file: place, first: start, records: end - start, before: count });
                count += (end - start).div_ceil(most);
            }
        }
        Self { records: records.clone(), most, parts, count }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The one with this place, which must be below their number.
    pub(crate) fn get(&self, at: u64) -> Partition {
        let part = &self.parts[self.parts.partition_point(|part| part.before <= at) - 1];
        let skipped = (at - part.before) * self.most;
        let records = self.most.min(part.records - skipped);
        Partition { file: part.file, first: part.first + skipped, records }
    }

    /// The table these are of.
    pub(crate) fn records(&self) -> &Records {
        &self.records
    }
}

/// Reads partitions for one worker.
pub(crate) struct Reader {
    space: Space,
    /// The file read last, so that one of the many that are not kept open is opened once per run of partitions.
    open: Option<(usize, Arc<OwnedFd>)>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { space: Space { bytes: Vec::new(), lead: 0 }, open: None }
    }

    /// Reads a partition in blocks, and passes them on in strips of at most [`STRIP`] records. `each` returns whether to continue.
    pub(crate) fn strips(
        &mut self,
        partitions: &Partitions,
        partition: Partition,
        mut each: impl FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let table = &partitions.records.table;
        let size = table.format.size();
        let block = (BLOCK / size).max(1) as u64;
        let file = &table.files[partition.file];
        let fd = self.fd(partitions, partition.file)?;
        let mut done = 0;
        while done < partition.records {
            let records = block.min(partition.records - done);
            let bytes = self.space.first(records as usize * size);
            table.read(file, fd.as_fd(), partition.first + done - file.first, bytes)?;
            for strip in bytes.chunks(STRIP * size) {
                if !each(strip)? {
                    return Ok(());
                }
            }
            done += records;
        }
        Ok(())
    }

    /// Reads a partition into memory that is exactly as long.
    pub(crate) fn fill(&mut self, partitions: &Partitions, partition: Partition, into: &mut [u8]) -> Result<()> {
        let table = &partitions.records.table;
        let file = &table.files[partition.file];
        let fd = self.fd(partitions, partition.file)?;
        table.read(file, fd.as_fd(), partition.first - file.first, into)
    }

    fn fd(&mut self, partitions: &Partitions, file: usize) -> Result<Arc<OwnedFd>> {
        match &self.open {
            Some((place, fd)) if *place == file => Ok(fd.clone()),
            _ => {
                let fd = partitions.records.table.files[file].open()?;
                self.open = Some((file, fd.clone()));
                Ok(fd)
            }
        }
    }
}

impl Records {
    /// Reads all of these records into memory that is exactly as long, with all workers.
    ///
    /// # Errors
    ///
    /// Invalid: the memory has another length. Changed, Io, Cancelled: as of any read.
    pub fn read_into(&self, into: &mut [u8], pool: &Pool) -> Result<()> {
        let size = self.format().size();
        if into.len() as u64 != self.len() * size as u64 {
            let (given, len) = (into.len(), self.len());
            return Err(Error::invalid(format!("memory of {given} bytes for {len} records of {size} bytes")));
        }
        let partitions = Partitions::of(self, None);
        // The next partition and the memory behind all that were given out.
        let rest = Mutex::new((0, into));
        pool::fold(
            pool,
            partitions.count(),
            Reader::new,
            |reader, _| {
                let (partition, memory) = {
                    let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
                    let partition = partitions.get(rest.0);
                    let (now, later) = std::mem::take(&mut rest.1).split_at_mut(partition.records as usize * size);
                    *rest = (rest.0 + 1, later);
                    (partition, now)
                };
                reader.fill(&partitions, partition, memory)
            },
            |()| Ok(()),
        )?;
        Ok(())
    }
}
