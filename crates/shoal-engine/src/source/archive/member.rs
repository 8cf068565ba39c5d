//! One entry of an archive: [`Member`], its kind, and the faults that are known before it is unpacked.
//!
//! Not here: the list of all entries (`plan.rs`), the messages for faults (`fault.rs`).

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `Member::modified` of an entry without a time.
pub(crate) const NO_TIME: i64 = i64::MIN;

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its name in `Plan::text`; set by `Plan::push`.
    pub name: Range<u32>,
    /// Unpacked length, as declared.
    pub size: u64,
    /// Packed length.
    pub packed: u64,
    /// Where it begins: its header or its contents, depending on the format.
    pub at: u64,
    /// Where it must end at the latest.
    pub bound: u64,
    /// When it was last changed, in seconds since 1970, or [`NO_TIME`]. A flag of the format can mark it as local time.
    pub modified: i64,
    /// CRC-32 of the unpacked bytes, if the format has one.
    pub crc: u32,
    /// The compression method, as the format numbers it.
    pub method: u16,
    /// Flags of the format.
    pub flags: u16,
    pub what: EntryKind,
    /// Permission bits, at most 0o777; 0 if the archive has none for it.
    pub mode: u16,
}

impl Member {
    /// Its permission bits, if the archive has some.
    pub fn mode(&self) -> Option<u32> {
        (self.mode != 0).then_some(self.mode.into())
    }

    /// When it was last changed.
    pub fn last_modified(&self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.modified.unsigned_abs());
        match self.modified {
            NO_TIME => None,
            0.. => UNIX_EPOCH.checked_add(seconds),
            _ => UNIX_EPOCH.checked_sub(seconds),
        }
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    /// Its name has no slash at the end. `empty`: no other entry is inside it; set by `Plan::checked`.
    Directory {
        empty: bool,
    },
    /// A symbolic link. shoal never creates it.
    Link,
    /// A device, pipe or socket. shoal never creates it.
    Special,
    /// An entry that fails before anything is unpacked.
    Fault(Fault),
}

/// Why an entry fails, as known from the list of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An earlier entry has the same name.
    Duplicate,
    /// A file where an earlier entry needs a directory, or the reverse.
    Conflict,
    Encrypted,
    /// Its compression (`Member::method`) is not supported.
    Method,
    /// A sparse file of a tar.
    Sparse,
    /// A hard link whose target is not a file of the archive.
    HardLink(NoFile),
    /// A backslash in its name.
    Backslash,
    /// More components than `max_depth`.
    TooDeep,
    /// The reason is in `Plan::reasons`, at this index.
    Damaged(u16),
}

/// What the target of a hard link is instead of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFile {
    /// A name that is not safe.
    Outside,
    /// A name that no earlier entry has.
    Missing,
    /// A link, a directory, a device, or an entry that has failed.
    Other,
}

impl Default for Member {
    fn default() -> Member {
        Member {
            name: 0..0,
            size: 0,
            packed: 0,
            at: 0,
            bound: 0,
            modified: NO_TIME,
            crc: 0,
            method: 0,
            flags: 0,
            what: EntryKind::File,
            mode: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_takes_64_bytes() {
        assert_eq!(size_of::<Member>(), 64);
    }
}
