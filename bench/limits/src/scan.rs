//! The job `records`: a flat file read in pieces into one buffer a thread, and one field of each record added up.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::pread;

use crate::buffer::Buffer;
use crate::outcome::Outcome;

/// Bytes of a record: ts of 8, id and len of 4 each, all little-endian.
const RECORD: usize = 16;

/// Where in a record its len begins.
const FIELD: usize = 12;

/// Bytes a thread reads at once: whole records, few calls, and all of it still in the processor's cache when it is added.
const PIECE: usize = 1 << 20;

/// What to add up, and how.
#[derive(Clone, Debug)]
pub struct Scan {
    /// A file of records.
    pub file: PathBuf,
    /// Threads, each with one buffer.
    pub threads: usize,
}

/// Adds up the field of every whole record of a file, as fast as a loop can; returns the sum, too.
///
/// # Errors
/// Whatever goes wrong ends it, also a file that is cut short meanwhile.
pub fn scan(job: &Scan) -> io::Result<(Outcome, u64)> {
    let began = Instant::now();
    let file = open(&job.file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let objects = u64::try_from(fstat(&file)?.st_size).map_err(io::Error::other)? / RECORD as u64;
    let (bytes, next) = (objects * RECORD as u64, AtomicU64::new(0));
    let sum: io::Result<u64> = std::thread::scope(|scope| {
        let worker = || scope.spawn(|| add_pieces(&file, bytes, &next));
        let workers: Vec<_> = (0..job.threads.max(1)).map(|_| worker()).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| io::Error::other("a thread panicked"))?).sum()
    });
    Ok((Outcome { objects, bytes, seconds: began.elapsed().as_secs_f64() }, sum?))
}

/// Takes pieces until there are no more.
fn add_pieces(file: &OwnedFd, bytes: u64, next: &AtomicU64) -> io::Result<u64> {
    let (mut buffer, mut sum) = (Buffer::new(PIECE), 0);
    loop {
        let at = next.fetch_add(PIECE as u64, Relaxed);
        if at >= bytes {
            return Ok(sum);
        }
        let piece = buffer.first(usize::try_from(bytes - at).map_or(PIECE, |left| left.min(PIECE)));
        let mut came = 0;
        while came < piece.len() {
            match pread(file, &mut piece[came..], at + came as u64)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                more => came += more,
            }
        }
        sum += add(piece);
    }
}

/// Adds up the field of whole records.
fn add(piece: &[u8]) -> u64 {
    let (records, _) = piece.as_chunks::<RECORD>();
    let field = |record: &[u8; RECORD]| {
        u32::from_le_bytes([record[FIELD], record[FIELD + 1], record[FIELD + 2], record[FIELD + 3]])
    };
    records.iter().map(|record| u64::from(field(record))).sum()
}
