//! Holes of files, and copying within the kernel. Not here: reading (`read.rs`), writing (`file.rs`).

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;
use rustix::io::{Errno, Result};

/// Whether a file has a hole before `size`. The position of the file changes.
pub(crate) fn has_hole(file: BorrowedFd<'_>, size: u64) -> bool {
    rustix::fs::seek(file, SeekFrom::Hole(0)).is_ok_and(|hole| hole < size)
}

/// The next data of a file from `at` on, before `size`; an empty range at `size` if only a hole is left. All of it where the
/// file system does not know holes. The position of the file changes.
pub(crate) fn next_data(file: BorrowedFd<'_>, at: u64, size: u64) -> Range<u64> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) if start < size => {
            let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size);
            start..end.clamp(start + 1, size)
        }
        Ok(_) | Err(Errno::NXIO) => size..size,
        Err(_) => at..size,
    }
}

/// Copies up to `length` bytes from `at` on to the position of another file: shared with it where the file system can, else
/// copied by the kernel. `None` if neither is possible between these files.
pub(crate) fn copy(from: BorrowedFd<'_>, at: u64, to: BorrowedFd<'_>, length: usize) -> Result<Option<usize>> {
    loop {
        let mut offset = at;
        match rustix::fs::copy_file_range(from, Some(&mut offset), to, None, length) {
            Ok(0) => return Ok(None), // of some file systems although more can be read
            Ok(copied) => return Ok(Some(copied)),
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC) => return Err(Errno::NOSPC),
            Err(Errno::DQUOT) => return Err(Errno::DQUOT),
            // Of a disk, too: reading tells on which side it is.
            Err(_) => return Ok(None),
        }
    }
}

/// Moves on to a byte, over a hole.
pub(crate) fn go_to(file: BorrowedFd<'_>, at: u64) -> Result<()> {
    rustix::fs::seek(file, SeekFrom::Start(at)).map(drop)
}

/// Sets the length of a file that may end with a hole.
pub(crate) fn end_at(file: BorrowedFd<'_>, length: u64) -> Result<()> {
    rustix::fs::ftruncate(file, length)
}
