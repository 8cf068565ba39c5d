//! One sorted snapshot of the names of a directory: in memory while it is small, in an unlinked temporary file above.
//!
//! Both forms are the same bytes: the names in byte order, each ended by NUL (which no name holds). A place in it is the
//! number of bytes before it, so neither paging nor resuming needs an index.
//! Not here: walking (`dir.rs`), pages and markers (`list.rs`).

use super::page::LeftOut;
use crate::fs::read::bytes_at;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Bytes of names sorted at once even where their number is below the limit: long names must not break the bound.
const SORT_BYTES: usize = 128 * 1024 * 1024;
/// Bytes read from or written to a spilled snapshot at once.
const BLOCK: usize = 64 * 1024;

/// What a walk left out of the snapshot.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Skipped {
    /// Files with names that are not UTF-8 or too long to be opened.
    pub(super) names: u64,
    /// Links, devices, pipes and sockets.
    pub(super) not_files: u64,
    /// Directories that may not be read.
    pub(super) unreadable: u64,
    /// Directories that were found and gone when they were to be read.
    pub(super) vanished: u64,
}

impl Skipped {
    /// What a client is told of: links and the like are no objects, and are not missed.
    pub(super) fn left_out(self) -> LeftOut {
        LeftOut { names: self.names, directories: self.unreadable + self.vanished }
    }
}

/// The names, sorted.
#[derive(Debug)]
pub(super) struct Snapshot {
    store: Store,
    pub(super) skipped: Skipped,
}

#[derive(Debug)]
enum Store {
    Memory(Vec<u8>),
    File { file: OwnedFd, length: u64 },
}

impl Snapshot {
    pub(super) fn length(&self) -> u64 {
        match &self.store {
            Store::Memory(bytes) => bytes.len() as u64,
            Store::File { length, .. } => *length,
        }
    }

    /// Bytes of memory that the names take.
    pub(super) fn memory(&self) -> usize {
        match &self.store {
            Store::Memory(bytes) => bytes.len(),
            Store::File { .. } => 0,
        }
    }

    /// Bytes of the temporary directory that they take.
    pub(super) fn file(&self) -> u64 {
        self.length() - self.memory() as u64
    }

    /// Calls `take` with one name after the other from this place on, until it says no more; returns the place after
    /// the last one taken.
    pub(super) fn names_from(&self, place: u64, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<u64> {
        let mut reader = Reader::new(self, place, self.length());
        while let Some(name) = reader.name()? {
            let more = take(name);
            reader.advance();
            if !more {
                break;
            }
        }
        Ok(reader.place)
    }

    /// Whether a name ends right before this place, or the place is the beginning.
    pub(super) fn is_boundary(&self, place: u64) -> io::Result<bool> {
        if place == 0 || place > self.length() {
            return Ok(place == 0);
        }
        Ok(self.read(place - 1, 1)? == [0])
    }

    /// The place of the first name after the given one: a bisection over bytes, each step finding the next name's start.
    pub(super) fn place_after(&self, name: &[u8]) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.length());
        // Names that start before `low` are not after `name`; those that start at or behind `high` are.
        while low < high {
            let middle = low + (high - low) / 2;
            let start = if middle == low { low } else { self.next_start(middle)? };
            if start >= high {
                high = middle;
                continue;
            }
            let mut after = false;
            let end = self.names_from(start, |found| {
                after = found > name;
                false
            })?;
            if after {
                high = if start == low { low } else { middle };
            } else {
                low = end;
            }
        }
        Ok(low)
    }

    /// The first start of a name at or behind this place, which is not the beginning.
    fn next_start(&self, place: u64) -> io::Result<u64> {
        let mut at = place - 1;
        loop {
            let bytes = self.read(at, BLOCK)?;
            if bytes.is_empty() {
                return Ok(self.length());
            }
            if let Some(end) = memchr::memchr(0, &bytes) {
                return Ok(at + end as u64 + 1);
            }
            at += bytes.len() as u64;
        }
    }

    fn read(&self, place: u64, length: usize) -> io::Result<Vec<u8>> {
        match &self.store {
            Store::Memory(bytes) => {
                let from = usize::try_from(place).map_or(bytes.len(), |at| at.min(bytes.len()));
                let to = from.saturating_add(length).min(bytes.len());
                Ok(bytes[from..to].to_vec())
            }
            Store::File { file, .. } => Ok(bytes_at(file.as_fd(), place, length)?),
        }
    }
}

/// A buffered view of the names between two places.
struct Reader<'a> {
    snapshot: &'a Snapshot,
    block: Vec<u8>,
    /// Where in the block the current name starts, and its length once it is known.
    start: usize,
    name: Option<usize>,
    place: u64,
    end: u64,
}

impl<'a> Reader<'a> {
    fn new(snapshot: &'a Snapshot, place: u64, end: u64) -> Self {
        Self { snapshot, block: Vec::new(), start: 0, name: None, place, end }
    }

    fn name(&mut self) -> io::Result<Option<&[u8]>> {
        if self.name.is_none() {
            if self.place >= self.end {
                return Ok(None);
            }
            let mut searched = self.start;
            loop {
                if let Some(at) = memchr::memchr(0, &self.block[searched..]) {
                    self.name = Some(searched + at - self.start);
                    break;
                }
                self.block.drain(..self.start);
                self.start = 0;
                searched = self.block.len();
                let at = self.place + searched as u64;
                let wanted = BLOCK.min(usize::try_from(self.end - at).unwrap_or(BLOCK));
                let more = self.snapshot.read(at, wanted)?;
                if more.is_empty() {
                    return Err(io::Error::other("the snapshot's temporary file was cut short"));
                }
                self.block.extend_from_slice(&more);
            }
        }
        let length = self.name.unwrap_or(0);
        Ok(Some(&self.block[self.start..self.start + length]))
    }

    fn advance(&mut self) {
        if let Some(length) = self.name.take() {
            self.start += length + 1;
            self.place += length as u64 + 1;
        }
    }
}

/// Takes names in any order and makes a snapshot of them.
#[derive(Debug)]
pub(super) struct Sorter {
    limit: usize,
    temp_dir: PathBuf,
    text: Vec<u8>,
    /// Start and length of each name in the text.
    names: Vec<(usize, usize)>,
    spill: Option<Spill>,
    skipped: Skipped,
}

#[derive(Debug)]
struct Spill {
    file: OwnedFd,
    length: u64,
    /// Where each sorted run ends.
    ends: Vec<u64>,
}

impl Sorter {
    /// Sorts up to `limit` names in memory and spills what goes beyond into a file in `temp_dir`.
    pub(super) fn new(limit: usize, temp_dir: &Path) -> Self {
        Self {
            limit: limit.max(1),
            temp_dir: temp_dir.to_owned(),
            text: Vec::new(),
            names: Vec::new(),
            spill: None,
            skipped: Skipped::default(),
        }
    }

    pub(super) fn skipped(&mut self) -> &mut Skipped {
        &mut self.skipped
    }

    pub(super) fn push(&mut self, name: &[u8]) -> io::Result<()> {
        if self.names.len() >= self.limit || self.text.len() + name.len() > SORT_BYTES {
            self.spill_run()?;
        }
        self.names.push((self.text.len(), name.len()));
        self.text.extend_from_slice(name);
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<Snapshot> {
        if self.spill.is_none() {
            let mut bytes = Vec::with_capacity(self.text.len() + self.names.len());
            self.sorted(|name| {
                bytes.extend_from_slice(name);
                bytes.push(0);
                Ok(())
            })?;
            return Ok(Snapshot { store: Store::Memory(bytes), skipped: self.skipped });
        }
        self.spill_run()?;
        let skipped = self.skipped;
        match self.spill.take() {
            Some(spill) => Ok(Snapshot { store: merge(spill, &self.temp_dir)?, skipped }),
            None => Err(io::Error::other("no run was spilled")),
        }
    }

    /// Hands the gathered names out in order. A directory that changes while it is read may show an entry twice; only
    /// the first is handed out.
    fn sorted(&mut self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let Self { text, names, .. } = self;
        names.sort_unstable_by(|a, b| text[a.0..a.0 + a.1].cmp(&text[b.0..b.0 + b.1]));
        names.dedup_by(|a, b| text[a.0..a.0 + a.1] == text[b.0..b.0 + b.1]);
        names.iter().try_for_each(|(start, length)| take(&text[*start..*start + *length]))
    }

    fn spill_run(&mut self) -> io::Result<()> {
        let mut spill = match self.spill.take() {
            Some(spill) => spill,
            None => Spill { file: unlinked_file(&self.temp_dir)?, length: 0, ends: Vec::new() },
        };
        let mut writer = BlockWriter { file: &spill.file, block: Vec::new(), length: spill.length };
        self.sorted(|name| writer.name(name))?;
        spill.length = writer.finish()?;
        spill.ends.push(spill.length);
        self.spill = Some(spill);
        self.text.clear();
        self.names.clear();
        Ok(())
    }
}

/// Merges the sorted runs into one file. Memory: one block for each run.
fn merge(spill: Spill, temp_dir: &Path) -> io::Result<Store> {
    let Spill { file, length, ends } = spill;
    let runs = Snapshot { store: Store::File { file, length }, skipped: Skipped::default() };
    let mut readers = Vec::with_capacity(ends.len());
    let mut start = 0;
    for end in ends {
        readers.push(Reader::new(&runs, start, end));
        start = end;
    }
    let merged = unlinked_file(temp_dir)?;
    let mut writer = BlockWriter { file: &merged, block: Vec::new(), length: 0 };
    let mut heads = BinaryHeap::with_capacity(readers.len());
    for (run, reader) in readers.iter_mut().enumerate() {
        if let Some(name) = reader.name()? {
            heads.push(Reverse((name.to_vec(), run)));
        }
    }
    let mut last: Option<Vec<u8>> = None;
    while let Some(Reverse((name, run))) = heads.pop() {
        if last.as_ref() != Some(&name) {
            writer.name(&name)?;
        }
        let reader = &mut readers[run];
        reader.advance();
        // The buffer of the name before the last is used again for the next.
        let mut next = last.replace(name).unwrap_or_default();
        if let Some(name) = reader.name()? {
            next.clear();
            next.extend_from_slice(name);
            heads.push(Reverse((next, run)));
        }
    }
    let length = writer.finish()?;
    Ok(Store::File { file: merged, length })
}

struct BlockWriter<'a> {
    file: &'a OwnedFd,
    block: Vec<u8>,
    length: u64,
}

impl BlockWriter<'_> {
    fn name(&mut self, name: &[u8]) -> io::Result<()> {
        self.block.extend_from_slice(name);
        self.block.push(0);
        if self.block.len() >= BLOCK { self.write_out() } else { Ok(()) }
    }

    fn finish(mut self) -> io::Result<u64> {
        self.write_out()?;
        Ok(self.length)
    }

    fn write_out(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.block.len() {
            match rustix::io::pwrite(self.file, &self.block[done..], self.length) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    done += written;
                    self.length += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.block.clear();
        Ok(())
    }
}

/// A file of nobody's: without a name from the start, or, where the file system cannot do that, from right after.
fn unlinked_file(temp_dir: &Path) -> io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(temp_dir, flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok(file),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(errno) => return Err(errno.into()),
    }
    loop {
        let path = temp_dir.join(format!(".shoal-snapshot-{:016x}", fastrand::u64(..)));
        match rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
            Ok(file) => {
                rustix::fs::unlink(&path)?;
                return Ok(file);
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(names: &[String], limit: usize) -> Snapshot {
        let mut sorter = Sorter::new(limit, &std::env::temp_dir());
        for name in names {
            sorter.push(name.as_bytes()).unwrap();
        }
        sorter.finish().unwrap()
    }

    fn all(snapshot: &Snapshot, place: u64) -> Vec<String> {
        let mut found = Vec::new();
        snapshot
            .names_from(place, |name| {
                found.push(String::from_utf8(name.to_vec()).unwrap());
                true
            })
            .unwrap();
        found
    }

    #[test]
    fn a_spilled_snapshot_equals_the_one_in_memory_and_resumes_after_any_name() {
        let mut names: Vec<String> = (0..500u64)
            .map(|i| {
                let length = 1 + (i * 7919 % 40) as usize;
                format!("{}{}", i * 7919 % 1000, "x".repeat(length))
            })
            .collect();
        names.push("long".repeat(40_000)); // longer than a block
        names.push(names[3].clone()); // shown twice
        let memory = snapshot(&names, 1_000_000);
        let file = snapshot(&names, 7);
        assert!(file.memory() == 0 && memory.memory() > 0);
        names.sort();
        names.dedup();
        for (label, snapshot) in [("memory", &memory), ("file", &file)] {
            assert_eq!(all(snapshot, 0), names, "{label}");
            for (index, name) in names.iter().enumerate() {
                let place = snapshot.place_after(name.as_bytes()).unwrap();
                assert!(snapshot.is_boundary(place).unwrap());
                assert_eq!(all(snapshot, place), names[index + 1..], "{label} after {index}");
                // A name that is gone since: the next one after where it would be.
                let gone = format!("{name}\u{1}");
                assert_eq!(snapshot.place_after(gone.as_bytes()).unwrap(), place, "{label} {index}");
            }
            assert_eq!(snapshot.place_after(b"").unwrap(), 0);
        }
        assert!(!file.is_boundary(1).unwrap());
        assert!(!file.is_boundary(file.length() + 1).unwrap());
    }
}
