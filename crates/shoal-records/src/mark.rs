//! What makes an append all or nothing: a mark on the file while one is under way.
//!
//! The mark is an extended attribute with the file's length before and after the append, and the last bytes before it. If
//! the file has other bytes there, it was rewritten since, and the mark means nothing. The mark is set before the first
//! byte and removed after the last one. A file that is shorter than its mark says belongs to an append that is in progress
//! or was killed: its length is the one before. One that is as long is whole, so that a mark that
//! outlives its append by a crash hides nothing.
//!
//! Where a file system has no such attributes there are no marks, and an append that is killed may leave some of its records.

use std::os::fd::BorrowedFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

const NAME: &str = "user.shoal.append";
/// How many of the bytes before an append are kept in its mark.
const TAIL: usize = 64;
/// The two lengths.
const LENGTHS: usize = 16;

/// The file's length before an append, and after it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub before: u64,
    pub after: u64,
}

impl Mark {
    /// The mark of a file, if it has one that was set where these bytes were before.
    pub fn of(file: BorrowedFd<'_>) -> Option<Self> {
        let mut found = [0; LENGTHS + TAIL + 1]; // one byte more, to detect a longer value, which is not ours
        let length = rustix::fs::fgetxattr(file, NAME, &mut found[..]).ok().filter(|&length| length < found.len())?;
        let (before, rest) = found[..length].split_first_chunk()?;
        let (after, tail) = rest.split_first_chunk()?;
        let mark = Self { before: u64::from_le_bytes(*before), after: u64::from_le_bytes(*after) };
        let mut now = [0; TAIL];
        let same = tail.is_empty() || mark.tail(file, &mut now[..tail.len()]) == Some(tail);
        same.then_some(mark)
    }

    /// Sets it. A file system that cannot set it does not prevent the append.
    pub fn set(self, file: BorrowedFd<'_>) {
        let mut tail = [0; TAIL];
        let length = usize::try_from(self.before).unwrap_or(TAIL).min(TAIL);
        let tail = self.tail(file, &mut tail[..length]).unwrap_or_default();
        let value = [&self.before.to_le_bytes(), &self.after.to_le_bytes(), tail].concat();
        let _ = rustix::fs::fsetxattr(file, NAME, &value, XattrFlags::empty());
    }

    /// So many bytes before the append; `None`: they are not there.
    fn tail<'t>(self, file: BorrowedFd<'_>, tail: &'t mut [u8]) -> Option<&'t [u8]> {
        let from = self.before.checked_sub(tail.len() as u64)?;
        let mut read = 0;
        while read < tail.len() {
            match rustix::io::pread(file, &mut tail[read..], from + read as u64) {
                Ok(0) => return None,
                Ok(more) => read += more,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(tail)
    }

    /// Takes it away. One that stays does no harm: the file is as long as it says, or as it was before.
    pub fn remove(file: BorrowedFd<'_>) {
        let _ = rustix::fs::fremovexattr(file, NAME);
    }
}

/// How much of a file's length counts.
pub(crate) fn counted(length: u64, mark: Option<Mark>) -> u64 {
    match mark {
        Some(mark) if length < mark.after => length.min(mark.before),
        _ => length,
    }
}
