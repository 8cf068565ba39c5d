//! One open file: read by position, and checked for changes.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parquet::file::reader::{ChunkReader, Length};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use shoal_engine::Kind;

use super::fault::{Fault, Result};

/// Bytes that are read for the header of a page. Most headers are shorter, but those with statistics may be longer.
const HEADER: usize = 1 << 10;

/// What tells whether a file is the one that was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Facts {
    /// Length in bytes.
    pub size: u64,
    /// Change time in nanoseconds since 1970, which no program can set.
    pub changed: i128,
}

impl Facts {
    fn of(found: &Stat) -> Facts {
        let changed = i128::from(found.st_ctime) * 1_000_000_000 + i128::from(found.st_ctime_nsec);
        Facts { size: found.st_size as u64, changed }
    }

    /// Those of a path, which may have links. `None` if it is not a regular file.
    pub fn of_path(path: &Path) -> Result<Option<Facts>> {
        let found = rustix::fs::stat(path).map_err(unreadable)?;
        Ok(is_regular(&found).then(|| Facts::of(&found)))
    }
}

fn is_regular(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

/// An open file of a dataset.
pub struct DataFile {
    fd: OwnedFd,
    /// Absolute.
    pub path: Box<[u8]>,
    /// When it was opened.
    pub facts: Facts,
}

impl DataFile {
    pub fn open(path: &[u8]) -> Result<DataFile> {
        // A pipe or device is opened, not waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let open = || rustix::fs::open(Path::new(OsStr::from_bytes(path)), flags, Mode::empty());
        let fd = rustix::io::retry_on_intr(open).map_err(unreadable)?;
        let found = rustix::fs::fstat(&fd).map_err(unreadable)?;
        match is_regular(&found) {
            true => Ok(DataFile { fd, path: path.into(), facts: Facts::of(&found) }),
            false => Err(Fault::new(Kind::BadAnswer, "not a regular file")),
        }
    }

    /// Reads exactly these bytes.
    pub fn bytes(&self, at: u64, length: usize) -> Result<Bytes> {
        let end = at.checked_add(length as u64).filter(|end| *end <= self.facts.size);
        if end.is_none() {
            return Err(Fault::new(Kind::Archive, format!("the file ends before byte {at} + {length}")));
        }
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(length)
            .map_err(|_| Fault::new(Kind::TooLarge, format!("no memory for a page of {length} bytes")))?;
        self.append(&mut bytes, at, length)?;
        Ok(Bytes::from(bytes))
    }

    /// Appends exactly `length` bytes to a vector that has room for them.
    pub fn append(&self, into: &mut Vec<u8>, at: u64, length: usize) -> Result<()> {
        let mut done = 0;
        while done < length {
            let space = &mut into.spare_capacity_mut()[..length - done];
            let read = match rustix::io::pread(&self.fd, space, at + done as u64) {
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(unreadable(errno)),
                Ok(([], _)) => return Err(self.changed()),
                Ok((read, _)) => read.len(),
            };
            // SAFETY: the kernel has filled the first `read` bytes behind the old end, and they are within the capacity.
            unsafe { into.set_len(into.len() + read) };
            done += read;
        }
        Ok(())
    }

    /// Checks that it is as it was when it was opened.
    pub fn unchanged(&self) -> Result<()> {
        let now = rustix::fs::fstat(&self.fd).map_err(unreadable)?;
        if Facts::of(&now) == self.facts { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> Fault {
        Fault::new(Kind::Changed, "the file changed while it was read")
    }
}

/// The last part of a path.
pub fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Why a file or directory cannot be opened or read.
pub fn unreadable(errno: Errno) -> Fault {
    let why = || io::Error::from(errno).to_string().to_lowercase();
    let (kind, why) = match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::STALE => (Kind::Vanished, "it no longer exists".into()),
        Errno::ACCESS | Errno::PERM => (Kind::Denied, format!("cannot read it: {}", why())),
        Errno::MFILE | Errno::NFILE => (Kind::OutOfFiles, "no file descriptors are left".into()),
        _ => (Kind::ReadFailed, format!("cannot read it: {}", why())),
    };
    Fault { errno: Some(errno.raw_os_error()), ..Fault::new(kind, why) }
}

/// A file as the library reads it.
pub struct Chunks {
    pub file: Arc<DataFile>,
    /// Where the library last began to read a header.
    pub header_at: AtomicU64,
}

impl Chunks {
    pub fn new(file: &Arc<DataFile>) -> Chunks {
        Chunks { file: file.clone(), header_at: AtomicU64::new(0) }
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.file.facts.size
    }
}

impl ChunkReader for Chunks {
    type T = HeaderBytes;

    fn get_read(&self, start: u64) -> parquet::errors::Result<HeaderBytes> {
        self.header_at.store(start, Relaxed);
        Ok(HeaderBytes { file: self.file.clone(), at: start, held: Vec::new(), taken: 0 })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(self.file.bytes(start, length)?)
    }
}

/// The bytes from some place on, read as they are needed.
pub struct HeaderBytes {
    file: Arc<DataFile>,
    at: u64,
    held: Vec<u8>,
    taken: usize,
}

impl io::Read for HeaderBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.held.len() {
            let left = usize::try_from(self.file.facts.size.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let length = HEADER.min(left);
            (self.held, self.taken) = (Vec::with_capacity(length), 0);
            self.file.append(&mut self.held, self.at, length).map_err(io::Error::other)?;
            self.at += length as u64;
        }
        let length = into.len().min(self.held.len() - self.taken);
        into[..length].copy_from_slice(&self.held[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}
