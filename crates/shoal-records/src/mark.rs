//! What makes an append all or nothing: a mark on the file while one is under way.
//!
//! The mark is an extended attribute, set before the first byte and removed after the last one. It has the file's
//! length before the append and after it. A file of the first length is whole, and one of the second with the append's
//! last bytes. Otherwise the append is under way or was killed, or another program has written since. So bytes are
//! hidden or cut off only if the mark proves that they are the append's: it has the file's inode and birth, and
//! checksums of the block before and of each block to come. A write that is killed ends at the end of a block. An
//! append of many blocks goes in steps, each with a mark of its own. Without such a proof the file is in doubt, which
//! is an error, and the caller decides (`recover` in `append.rs`).
//!
//! A mark of an older version has the two lengths and the bytes before, which prove nothing about what came later.
//!
//! Where a file system has no such attributes there are no marks, and an append that is killed may leave some of its records.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};

const NAME: &str = "user.shoal.append";
/// Begins a mark that has checksums; an older one begins with a length, which cannot be so large.
const CHECKED: u64 = u64::MAX;
/// Bytes of a block: the smallest page of a kernel.
const BLOCK: u64 = 4096;
/// Bytes up to which an append is one step. A mark of 64 blocks costs 10 µs, and writing them ten times as much. Some file
/// systems have less than 4 KiB for all attributes of a file.
const STEP: u64 = 64 * BLOCK;
/// Bytes of the longest mark: six numbers, then the checksums.
const LONGEST: usize = 6 * 8 + (1 + (STEP / BLOCK) as usize) * 4;

/// The mark of a file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The file's length before the append.
    pub before: u64,
    /// The file's length after it.
    pub after: u64,
    /// Where the step begins that was under way; older marks have none.
    from: Option<u64>,
    value: Vec<u8>,
}

impl Mark {
    /// The mark of a file, if it has one.
    pub fn of(path: &Path, file: BorrowedFd<'_>) -> Result<Option<Self>> {
        let mut value = vec![0; LONGEST];
        let length = match rustix::fs::fgetxattr(file, NAME, &mut value[..]) {
            Ok(length) => length,
            Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS | Errno::PERM | Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(Error::io(path, "reading the mark of an append", errno)),
        };
        value.truncate(length);
        let numbers: Vec<u64> = value.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let (before, after, from) = match numbers[..] {
            [CHECKED, before, after, from, ..] => (before, after, Some(from)),
            [before, after, ..] => (before, after, None),
            _ => return Ok(None),
        };
        Ok(Some(Self { before, after, from, value }))
    }

    /// How much of a file of this length counts.
    ///
    /// # Errors
    ///
    /// Unfinished: nothing proves that what is behind the length before is the append's.
    pub fn counted(&self, path: &Path, file: BorrowedFd<'_>, length: u64) -> Result<u64> {
        let Self { before, after, .. } = *self;
        if length == before || length == after && self.is_whole(file).unwrap_or(false) {
            return Ok(length);
        }
        if self.proves(file, length).unwrap_or(false) {
            return Ok(before);
        }
        let text = format!(
            "an append that was to make it longer, from {before} to {after} bytes, was interrupted, and its {length} \
            bytes may have been written by another program since"
        );
        Err(Error::file(ErrorKind::Unfinished, path, text))
    }

    /// Whether the end of the file, which is as long as after the append, is that of the append. It may be a copy of the file.
    fn is_whole(&self, file: BorrowedFd<'_>) -> rustix::io::Result<bool> {
        let Some(from) = self.from else { return Ok(true) }; // an older mark says no more than the length
        if from > self.after || self.after - from > STEP {
            return Ok(false);
        }
        let mut step = vec![0; (self.after - from) as usize];
        read(file, &mut step, from)?;
        let (found, sums) = (value(file, self.before, self.after, from, &step)?, 6 * 8);
        Ok(found.get(sums..) == self.value.get(sums..))
    }

    /// Whether the file is what the append has left of this length.
    fn proves(&self, file: BorrowedFd<'_>, length: u64) -> rustix::io::Result<bool> {
        let fits = |from: &u64| self.before <= *from && *from <= length && length - from <= STEP;
        let Some(from) = self.from.filter(fits) else { return Ok(false) };
        let mut step = vec![0; (length - from) as usize];
        read(file, &mut step, from)?;
        Ok(self.value.starts_with(&value(file, self.before, self.after, from, &step)?))
    }

    /// Whether both are of one append, which continued in between.
    pub fn continues(&self, later: &Self) -> bool {
        self != later && (self.before, self.after) == (later.before, later.after)
    }

    /// Takes it away.
    pub fn remove(file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        match rustix::fs::fremovexattr(file, NAME) {
            Err(Errno::NODATA) => Ok(()),
            result => result,
        }
    }
}

/// The next step of an append that has come up to `from`: so many of the bytes that remain, which the mark now has.
pub(crate) fn set(file: BorrowedFd<'_>, before: u64, from: u64, rest: &[u8]) -> rustix::io::Result<u64> {
    let length = (rest.len() as u64).min(STEP - from % STEP);
    let value = value(file, before, from + rest.len() as u64, from, &rest[..length as usize])?;
    rustix::fs::fsetxattr(file, NAME, &value, XattrFlags::empty())?;
    Ok(length)
}

/// What a mark says about a step that begins at `from`. Of fewer bytes, up to the end of a block, it is the beginning.
fn value(file: BorrowedFd<'_>, before: u64, after: u64, from: u64, step: &[u8]) -> rustix::io::Result<Vec<u8>> {
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
    // Zero where the file system has no birth times.
    let birth = (found.stx_btime.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(found.stx_btime.tv_nsec);
    let mut block = vec![0; from.min(BLOCK) as usize];
    read(file, &mut block, from - from.min(BLOCK))?;
    let (first, others) = step.split_at(step.len().min((BLOCK - from % BLOCK) as usize));
    let blocks = [first].into_iter().filter(|first| !first.is_empty()).chain(others.chunks(BLOCK as usize));
    let sums = [&block[..]].into_iter().chain(blocks).map(crc32fast::hash);
    let numbers = [CHECKED, before, after, from, found.stx_ino, birth];
    Ok(numbers.into_iter().flat_map(u64::to_le_bytes).chain(sums.flat_map(u32::to_le_bytes)).collect())
}

/// Fills memory from a place on.
fn read(file: BorrowedFd<'_>, into: &mut [u8], from: u64) -> rustix::io::Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        match rustix::io::pread(file, &mut into[filled..], from + filled as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
