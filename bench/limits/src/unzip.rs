//! The job `unzip`: inflate every entry and compare its CRC, on as many threads as asked for, and make a file of each if
//! there is a directory. It takes an archive's word for everything else.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{Crc, Decompressor};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::{Errno, pread, write};

use crate::buffer::Buffer;
use crate::outcome::Outcome;

/// Entries a thread takes at once.
const RUN: usize = 100;

/// Bytes of packed entries that are read at once, at most, except a single larger one.
const WINDOW: u64 = 1 << 20;

/// Bytes of an unpacked entry, from which on it is a stream, and a run of its own.
const STREAM: u64 = 64 << 20;

/// Bytes of a stream that are read and unpacked at once.
const PIECE: usize = 256 << 10;

/// Bytes of the record at the end of an archive, if it has no comment.
const END: u64 = 22;

/// Bytes of an entry in an archive's directory, without its names.
const LISTED: usize = 46;

/// Bytes of an entry's own header, without its names.
const LOCAL: usize = 30;

/// What to unpack, and how.
#[derive(Clone, Debug)]
pub struct Unzip {
    /// Archives without comments, of stored and deflated entries, made by the lab alone.
    pub archives: Vec<PathBuf>,
    /// An empty directory; `None`: what is unpacked is dropped.
    pub directory: Option<PathBuf>,
    /// Threads.
    pub threads: usize,
}

struct Entry {
    archive: usize,
    name: Vec<u8>,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    /// Where its own header begins, and where the next one does.
    at: u64,
    end: u64,
}

/// Unpacks all entries of all archives, as fast as a loop can. Reading the directories is in the time.
///
/// # Errors
/// Any error ends it; nothing is retried.
pub fn unzip(job: &Unzip) -> io::Result<Outcome> {
    let began = Instant::now();
    let root = match &job.directory {
        Some(path) => Some(openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?),
        None => None,
    };
    let (mut archives, mut entries) = (Vec::new(), Vec::new());
    for path in &job.archives {
        let archive = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        list(&archive, archives.len(), &mut entries)?;
        archives.push(archive);
    }
    let runs = runs(&entries);
    let work = Work { archives, runs, next: AtomicUsize::new(0), root };
    let bytes: io::Result<u64> = std::thread::scope(|scope| {
        let worker = || scope.spawn(|| Worker::new(&work).run());
        let workers: Vec<_> = (0..job.threads.max(1)).map(|_| worker()).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| io::Error::other("a thread panicked"))?).sum()
    });
    Ok(Outcome { objects: entries.len() as u64, bytes: bytes?, seconds: began.elapsed().as_secs_f64() })
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads exactly so many bytes.
fn read_at(file: &OwnedFd, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let came = pread(file, &mut *buffer, at)?;
        if came == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (buffer, at) = (&mut buffer[came..], at + came as u64);
    }
    Ok(())
}

/// A number of two or four bytes, the lowest first.
fn number(bytes: &[u8], at: usize, len: usize) -> io::Result<u64> {
    let bytes = bytes.get(at..at + len).ok_or_else(|| wrong("an archive ends early"))?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Adds the entries of an archive, in the order in which they lie in it.
fn list(archive: &OwnedFd, index: usize, entries: &mut Vec<Entry>) -> io::Result<()> {
    let size = u64::try_from(fstat(archive)?.st_size).unwrap_or(0);
    let mut end = [0; END as usize];
    read_at(archive, &mut end, size.checked_sub(END).ok_or_else(|| wrong("an archive is too short"))?)?;
    if !end.starts_with(b"PK\x05\x06") {
        return Err(wrong("an archive has no directory, or a comment"));
    }
    // Its number of entries ends at 65,535; where the directory is and how long is enough to read it.
    let (len, start) = (number(&end, 12, 4)?, number(&end, 16, 4)?);
    if start + len + END > size {
        return Err(wrong("an archive's directory is not in it"));
    }
    let mut directory = vec![0; usize::try_from(len).unwrap_or(0)];
    read_at(archive, &mut directory, start)?;
    let (first, mut at) = (entries.len(), 0);
    while at < directory.len() {
        let listed = &directory[at..];
        let names = number(listed, 28, 2)? as usize;
        let name = listed.get(LISTED..LISTED + names).ok_or_else(|| wrong("a directory ends early"))?.to_vec();
        let all = LISTED + names + number(listed, 30, 2)? as usize + number(listed, 32, 2)? as usize;
        if !name.ends_with(b"/") {
            entries.push(Entry {
                archive: index,
                name,
                method: number(listed, 10, 2)? as u16,
                crc: number(listed, 16, 4)? as u32,
                packed: number(listed, 20, 4)?,
                size: number(listed, 24, 4)?,
                at: number(listed, 42, 4)?,
                end: start,
            });
        }
        at += all;
    }
    let mut following = start;
    entries[first..].sort_unstable_by_key(|entry| entry.at);
    for entry in entries[first..].iter_mut().rev() {
        entry.end = following;
        following = entry.at;
    }
    Ok(())
}

/// Cuts the entries into what a thread takes at once: large ones first, each alone, then those that lie side by side.
fn runs(entries: &[Entry]) -> Vec<&[Entry]> {
    let (mut alone, mut runs, mut from) = (Vec::new(), Vec::new(), 0);
    for at in 0..entries.len() {
        let (first, entry) = (&entries[from], &entries[at]);
        let full = at - from == RUN || entry.archive != first.archive || entry.end - first.at > WINDOW;
        if at > from && (full || entry.size > STREAM) {
            runs.push(&entries[from..at]);
            from = at;
        }
        if entry.size > STREAM {
            alone.push(&entries[at..=at]);
            from = at + 1;
        }
    }
    if from < entries.len() {
        runs.push(&entries[from..]);
    }
    alone.append(&mut runs);
    alone
}

/// What the threads share.
struct Work<'a> {
    archives: Vec<OwnedFd>,
    runs: Vec<&'a [Entry]>,
    next: AtomicUsize,
    root: Option<OwnedFd>,
}

/// One thread.
struct Worker<'a> {
    work: &'a Work<'a>,
    packed: Buffer,
    unpacked: Buffer,
    inflate: Decompressor,
}

impl<'a> Worker<'a> {
    fn new(work: &'a Work<'a>) -> Self {
        let (packed, unpacked) = (Buffer::new(WINDOW as usize), Buffer::new(WINDOW as usize));
        Self { work, packed, unpacked, inflate: Decompressor::new() }
    }

    fn run(&mut self) -> io::Result<u64> {
        let mut bytes = 0;
        while let Some(run) = self.work.runs.get(self.work.next.fetch_add(1, Relaxed)) {
            match run {
                [entry] if entry.size > STREAM => self.stream(entry)?,
                run => self.whole(run)?,
            }
            bytes += run.iter().map(|entry| entry.size).sum::<u64>();
        }
        Ok(bytes)
    }

    /// Unpacks entries that lie side by side: one read, and a call for each.
    fn whole(&mut self, run: &[Entry]) -> io::Result<()> {
        let [first, ..] = run else { return Ok(()) };
        let end = run.last().map_or(first.end, |last| last.end);
        let window = self.packed.first((end - first.at) as usize);
        read_at(&self.work.archives[first.archive], window, first.at)?;
        for entry in run {
            let header = &window[(entry.at - first.at) as usize..];
            let start = LOCAL + number(header, 26, 2)? as usize + number(header, 28, 2)? as usize;
            let packed =
                header.get(start..start + entry.packed as usize).ok_or_else(|| wrong("an entry ends early"))?;
            let content = match entry.method {
                0 => packed,
                8 => {
                    let content = self.unpacked.first(entry.size as usize);
                    let came = self.inflate.deflate_decompress(packed, content);
                    if came.map_err(|_| wrong("an entry cannot be inflated"))? != content.len() {
                        return Err(wrong("an entry is too short"));
                    }
                    content
                }
                _ => return Err(wrong("an entry is packed in another way")),
            };
            if libdeflater::crc32(content) != entry.crc {
                return Err(wrong("an entry has the wrong bytes"));
            }
            if let Some(root) = &self.work.root {
                write_all(&create(root, &entry.name)?, content)?;
            }
        }
        Ok(())
    }

    /// Unpacks a large entry piece by piece.
    fn stream(&mut self, entry: &Entry) -> io::Result<()> {
        if entry.method != 8 {
            return Err(wrong("a large entry is packed in another way"));
        }
        let archive = &self.work.archives[entry.archive];
        let file = self.work.root.as_ref().map(|root| create(root, &entry.name)).transpose()?;
        let mut header = [0; LOCAL];
        read_at(archive, &mut header, entry.at)?;
        let mut at = entry.at + LOCAL as u64 + number(&header, 26, 2)? + number(&header, 28, 2)?;
        let (mut left, mut input, mut crc) = (entry.packed, 0..0, Crc::new());
        let mut inflate = Decompress::new(false);
        loop {
            if input.is_empty() && left > 0 {
                let piece = left.min(PIECE as u64);
                read_at(archive, self.packed.first(piece as usize), at)?;
                (input, at, left) = (0..piece as usize, at + piece, left - piece);
            }
            let (before, made) = (inflate.total_in(), inflate.total_out());
            let content = self.unpacked.first(PIECE);
            let state = inflate.decompress(&self.packed.bytes()[input.clone()], content, FlushDecompress::None);
            let state = state.map_err(|_| wrong("an entry cannot be inflated"))?;
            input.start += (inflate.total_in() - before) as usize;
            let content = &content[..(inflate.total_out() - made) as usize];
            crc.update(content);
            if let Some(file) = &file {
                write_all(file, content)?;
            }
            if state == Status::StreamEnd {
                break;
            }
            if content.is_empty() && input.is_empty() && left == 0 {
                return Err(wrong("an entry ends early"));
            }
        }
        if inflate.total_out() != entry.size || crc.sum() != entry.crc {
            return Err(wrong("an entry has the wrong bytes"));
        }
        Ok(())
    }
}

/// Makes a file, and the directories above it where they are missing.
fn create(root: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let open = || openat(root, name, flags, Mode::from_raw_mode(0o666));
    match open() {
        Err(Errno::NOENT) => {
            for (at, _) in name.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                match mkdirat(root, &name[..at], Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {} // perhaps by another thread
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(open()?)
        }
        other => Ok(other?),
    }
}

fn write_all(file: impl AsFd, mut content: &[u8]) -> io::Result<()> {
    while !content.is_empty() {
        content = &content[write(&file, content)?..];
    }
    Ok(())
}
