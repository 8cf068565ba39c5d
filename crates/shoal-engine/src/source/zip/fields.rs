//! Numbers, flags and extra fields of zip archives, and the error for an archive that is damaged.

use crate::error::{Error, Kind};

/// The number at byte `at`. The caller has checked that it is there.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u16::from_le_bytes(*chunk))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// In place of a number that is in the zip64 field.
pub(super) const ELSEWHERE: u32 = u32::MAX;

/// Why an entry with its numbers twice is refused: some readers use the first, some the last.
pub(super) const TWO_ZIP64: &str = "it has two zip64 fields, and programs differ on which one they read";

/// The extra fields that are read.
pub(super) mod id {
    pub const ZIP64: u16 = 0x0001;
    pub const NTFS: u16 = 0x000a;
    pub const UNIX_TIME: u16 = 0x5455;
    pub const UNICODE_PATH: u16 = 0x7075;
}

/// Flags of a `Member`: those of the archive, and two of ours in unused bits.
pub(super) mod flag {
    pub const ENCRYPTED: u16 = 1;
    /// Sizes and checksum follow the entry.
    pub const DESCRIPTOR: u16 = 1 << 3;
    pub const STRONGLY_ENCRYPTED: u16 = 1 << 6;
    pub const UTF8: u16 = 1 << 11;
    pub const MASKED: u16 = 1 << 13;
    /// The name was decoded. Its raw bytes follow it in the plan's text, after their length in two bytes.
    pub const RAW_NAME: u16 = 1 << 14;
    /// The time is local: seconds since 1970, as if there were no time zones.
    pub const LOCAL_TIME: u16 = 1 << 15;
}

/// The extra fields of a header. Up to three bytes after the last field are padding. A field that is longer than the
/// rest ends the iteration with an error.
pub(super) struct Fields<'a>(pub &'a [u8]);

/// A field that claims more bytes than are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overlong;

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u16, &'a [u8]), Overlong>;

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_at_checked(4)?;
        match rest.split_at_checked(usize::from(u16_at(head, 2))) {
            Some((field, rest)) => {
                self.0 = rest;
                Some(Ok((u16_at(head, 0), field)))
            }
            None => {
                self.0 = &[];
                Some(Err(Overlong))
            }
        }
    }
}

/// The numbers of a zip64 field, 8 bytes each, in a fixed order. Each is there only if the header refers to it.
pub(super) struct Wide<'a>(pub Option<&'a [u8]>);

impl Wide<'_> {
    /// Returns `narrow`, or the next number of the zip64 field if `narrow` refers to it; `None` if there is none.
    pub fn widen(&mut self, narrow: u32) -> Option<u64> {
        if narrow != ELSEWHERE {
            return Some(u64::from(narrow));
        }
        let (number, rest) = self.0?.split_first_chunk()?;
        self.0 = Some(rest);
        Some(u64::from_le_bytes(*number))
    }

    /// The same for the number of a disk.
    pub fn disk(&mut self, narrow: u16) -> Option<u32> {
        if narrow != u16::MAX {
            return Some(u32::from(narrow));
        }
        let (number, rest) = self.0?.split_first_chunk()?;
        self.0 = Some(rest);
        Some(u32::from_le_bytes(*number))
    }
}

/// The error for an archive that cannot be read as a whole.
pub(super) fn damaged(why: impl Into<String>) -> Error {
    Error::new(Kind::Archive, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_from_padding_and_damage() {
        let bytes = [1, 0, 2, 0, 7, 8, 9, 0, 0, 0, 0, 0];
        let found: Vec<_> = Fields(&bytes).collect();
        assert_eq!(found, [Ok((1, &[7u8, 8][..])), Ok((9, &[][..]))]);
        assert_eq!(Fields(&[1, 0, 2, 0, 7]).collect::<Vec<_>>(), [Err(Overlong)]);
        assert_eq!(Fields(&[0, 0, 0]).count(), 0);
    }

    #[test]
    fn wide_numbers_come_in_order_and_only_where_asked_for() {
        let bytes: Vec<u8> = [5u64.to_le_bytes(), 6u64.to_le_bytes()].concat();
        let mut wide = Wide(Some(&bytes));
        assert_eq!([wide.widen(1), wide.widen(ELSEWHERE), wide.widen(2)], [Some(1), Some(5), Some(2)]);
        assert_eq!([wide.widen(ELSEWHERE), wide.widen(ELSEWHERE)], [Some(6), None]);
        assert_eq!((Wide(None).widen(ELSEWHERE), Wide(None).disk(3)), (None, Some(3)));
    }
}
