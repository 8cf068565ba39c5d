//! Appending records, whole ones only.
//!
//! Here: [`append`], and [`recover`] for a file in doubt. What an append promises, of a file that only it writes to:
//!
//! - All records of a call stand one after the other, also when several programs append at once: each holds the file's lock.
//! - After a failed call the file is as long as before; where it could not be cut back, the error says so. Of one that was
//!   killed in its midst readers see nothing, and the next call cuts off what it left, and says so.
//! - Nothing else is cut off unless the caller asks for it: not what another program may have written since (`mark.rs`), and
//!   not bytes behind the last whole record, which are as likely good records of another size.
//! - Readers see all records of a call or none (`mark.rs`; where the file system has no extended attributes: whole records).
//!
//! Not here: converting values to the bytes of records, which the caller does.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::mark::{self, Mark};

/// Pause between two tries for the lock: an append of a megabyte takes about as long.
const PAUSE: Duration = Duration::from_millis(1);

/// How records are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendOptions {
    /// Bytes in front of the first record; the file must have them already.
    pub offset: u64,
    /// Whether to return only after the records are on the medium.
    pub durable: bool,
    /// Longest wait for others that append.
    pub wait: Duration,
    /// Whether to cut off bytes behind the last whole record, rather than refuse the file.
    pub cut: bool,
}

impl Default for AppendOptions {
    fn default() -> Self {
        // 30 s: an append needs milliseconds, so a program that holds the lock for longer hangs.
        Self { offset: 0, durable: false, wait: Duration::from_secs(30), cut: false }
    }
}

/// What an append has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The place of the first new record in the file.
    pub first: u64,
    /// How many were appended.
    pub records: u64,
    /// Bytes that were cut off before: of an append that was killed, and with [`AppendOptions::cut`] of half a record.
    pub cut: u64,
}

/// Appends records, given as their bytes, to a file that is made if it is not there.
///
/// # Errors
///
/// Invalid: `rows` holds no whole number of records, or the file is shorter than the offset or no regular file. Torn: the
/// file ends within a record, and not by an append that was killed. Unfinished: one was killed, and another program may have
/// written since; or one has written while this call did. Locked: another program holds the lock for too long. Io:
/// the file cannot be opened, written or made durable; it is as long as before, or the text says that it is not.
pub fn append(path: &Path, rows: &[u8], format: &Format, options: AppendOptions) -> Result<Appended> {
    let size = format.size() as u64;
    if !(rows.len() as u64).is_multiple_of(size) {
        return Err(Error::invalid(format!(
            "{} bytes to append are not a multiple of the record size, {size} bytes",
            rows.len()
        )));
    }
    let file = open(path, OFlags::CREATE)?;
    let file = file.as_fd();
    lock(path, file, options.wait)?;
    // Closing the file gives the lock back, also after an error.
    let length = length(path, file)?;
    // The lock is ours: the append that set a mark has ended.
    let mark = Mark::of(path, file)?;
    let whole = mark.map_or(Ok(length), |mark| mark.counted(path, file, length))?;
    let Some(body) = whole.checked_sub(options.offset) else {
        let text = format!("{length} bytes long, but the offset of the first record is {}", options.offset);
        return Err(Error::file(ErrorKind::Invalid, path, text));
    };
    let torn = body % size;
    if torn > 0 && !options.cut {
        let text = format!(
            "{body} bytes of records of {size} bytes: {} whole ones and {torn} more bytes; check the format and the \
            offset, or truncate the tail",
            body / size
        );
        return Err(Error::file(ErrorKind::Torn, path, text));
    }
    let end = whole - torn;
    let cut = length - end;
    if cut > 0 {
        truncate(file, end).map_err(|errno| Error::io(path, format_args!("truncating it to {end} bytes"), errno))?;
    }
    let mut written = 0;
    let result = match write(file, end, rows, &mut written) {
        Ok(()) if options.durable => {
            sync(path, file, length == 0).map_err(|errno| ("syncing what was appended", errno))
        }
        result => result.map_err(|errno| ("appending", errno)),
    };
    if let Err((doing, errno)) = result {
        let (now, expected) = (self::length(path, file)?, end + written);
        if now != expected {
            let text = format!("another program wrote to it during an append: it has {now} bytes, not {expected}");
            return Err(Error::file(ErrorKind::Unfinished, path, text));
        }
        // A caller that retries would append the remaining records twice.
        if truncate(file, end).is_err() {
            let doing = format_args!("{doing}, and then truncating it to {end} bytes,");
            return Err(Error::io(path, doing, errno));
        }
        let _ = Mark::remove(file);
        return Err(Error::io(path, doing, errno));
    }
    // One that stays does no harm: the file is as long as it says.
    let _ = Mark::remove(file);
    Ok(Appended { first: body / size, records: rows.len() as u64 / size, cut })
}

/// Settles a file after its last append was interrupted: keeps it as it is, or cuts it to the length before that append. How
/// many bytes were cut off; none if no append was interrupted.
///
/// # Errors
///
/// Locked: another program holds the lock for too long. Io: the file cannot be opened or changed.
pub fn recover(path: &Path, keep: bool, wait: Duration) -> Result<u64> {
    let file = open(path, OFlags::empty())?;
    let file = file.as_fd();
    lock(path, file, wait)?;
    let length = length(path, file)?;
    let Some(mark) = Mark::of(path, file)? else { return Ok(0) };
    let is_whole = mark.counted(path, file, length).is_ok_and(|whole| whole == length);
    let before = mark.before;
    let cut = if keep || is_whole { 0 } else { length.saturating_sub(before) };
    if cut > 0 {
        truncate(file, before)
            .map_err(|errno| Error::io(path, format_args!("truncating it to {before} bytes"), errno))?;
    }
    Mark::remove(file).map_err(|errno| Error::io(path, "removing the mark of an append", errno))?;
    Ok(cut)
}

fn open(path: &Path, create: OFlags) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let opened = again(|| rustix::fs::open(path, flags | create, Mode::from_raw_mode(0o666)));
    opened.map_err(|errno| Error::io(path, "opening it to append", errno))
}

fn lock(path: &Path, file: BorrowedFd<'_>, wait: Duration) -> Result<()> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if begun.elapsed() < wait => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => {
                let text = format!("another program has held its lock for {} s", wait.as_secs_f64());
                return Err(Error::file(ErrorKind::Locked, path, text));
            }
            Err(errno) => return Err(Error::io(path, "locking", errno)),
        }
    }
}

fn length(path: &Path, file: BorrowedFd<'_>) -> Result<u64> {
    let found = rustix::fs::fstat(file).map_err(|errno| Error::io(path, "looking at its length", errno))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(found.st_size as u64),
        _ => Err(Error::file(ErrorKind::Invalid, path, "not a regular file: nothing can be appended to it safely")),
    }
}

/// Makes the records durable, and the file's name where the file may be new.
fn sync(path: &Path, file: BorrowedFd<'_>, new: bool) -> rustix::io::Result<()> {
    again(|| rustix::fs::fdatasync(file))?;
    if !new {
        return Ok(());
    }
    #[allow(clippy::disallowed_methods)] // where the file is, not where a link to it is
    let found = path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = found.parent().unwrap_or(Path::new("/"));
    let directory = again(|| rustix::fs::open(parent, flags, Mode::empty()))?;
    match again(|| rustix::fs::fsync(&directory)) {
        // Some file systems cannot sync a directory and say so; there is nothing better to call.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        result => result,
    }
}

fn truncate(file: BorrowedFd<'_>, length: u64) -> rustix::io::Result<()> {
    again(|| rustix::fs::ftruncate(file, length))
}

/// Calls the system until no signal comes in between.
fn again<T>(call: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Writes the records step by step, each with its mark. A file system that cannot set one does not prevent the append.
fn write(file: BorrowedFd<'_>, end: u64, rows: &[u8], written: &mut u64) -> rustix::io::Result<()> {
    let mut marked = 0;
    while let rest @ [_, ..] = &rows[*written as usize..] {
        if *written == marked {
            marked += match mark::set(file, end, end + marked, rest) {
                Err(_) if marked == 0 => rest.len() as u64,
                result => result?,
            };
            // Programs that do not know the lock must not get their bytes in between: the caller looks what it is.
            if *written > 0 && rustix::fs::fstat(file)?.st_size as u64 != end + *written {
                return Err(Errno::BUSY);
            }
        }
        // In one call, unless the kernel stops early: where the medium is full.
        match rustix::io::write(file, &rest[..(marked - *written) as usize]) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(more) => *written += more as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
