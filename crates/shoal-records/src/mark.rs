//! What makes an append all or nothing: a mark on the file while one is under way.
//!
//! The mark is an extended attribute with the file's length before and after the append. It is set before the first byte
//! and removed behind the last one. A file that is shorter than its mark says was left in the midst, by a program that
//! writes or by one that was killed: its length is the one before. One that is as long is whole, so that a mark that
//! outlives its append by a crash hides nothing.
//!
//! Where a file system has no such attributes there are no marks, and an append that is killed may leave some of its records.

use std::os::fd::BorrowedFd;

use rustix::fs::XattrFlags;

const NAME: &str = "user.shoal.append";

/// The file's length before an append, and after it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub before: u64,
    pub after: u64,
}

impl Mark {
    /// The mark of a file, if it has one.
    pub fn of(file: BorrowedFd<'_>) -> Option<Self> {
        let mut found = [0; 17]; // one byte more, so that a longer value is none of ours
        let length = rustix::fs::fgetxattr(file, NAME, &mut found[..]).ok()?;
        let (before, after) = found.get(..length)?.split_first_chunk()?;
        let after = u64::from_le_bytes(after.try_into().ok()?);
        Some(Self { before: u64::from_le_bytes(*before), after })
    }

    /// Sets it. A file system that cannot is no reason not to append.
    pub fn set(self, file: BorrowedFd<'_>) {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&self.before.to_le_bytes());
        value[8..].copy_from_slice(&self.after.to_le_bytes());
        let _ = rustix::fs::fsetxattr(file, NAME, &value, XattrFlags::empty());
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
