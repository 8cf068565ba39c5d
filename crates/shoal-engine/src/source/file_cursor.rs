//! The cursor of a listing that cuts one file after the other into partitions. It holds a hash of all files up to the one
//! that it is in: the listing resumes only if these are still the same. Not here: what is hashed of a file.

use crate::error::{Error, Kind, Result};
use crate::partition::Cursor;

/// Where a page begins: the contents of a `Cursor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageStart {
    /// `seq` of its first partition.
    pub seq: u64,
    /// `None` at the start of the listing.
    pub within: Option<Position>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Index of the file.
    pub at: u64,
    /// How many partitions of that file come before.
    pub done: u32,
    /// The hash of all files up to that one.
    pub chain: u128,
}

impl PageStart {
    /// Returns the cursor of this page.
    pub fn cursor(&self) -> Cursor {
        let mut bytes = self.seq.to_le_bytes().to_vec();
        if let Some(Position { at, done, chain }) = &self.within {
            bytes.extend_from_slice(&at.to_le_bytes());
            bytes.extend_from_slice(&done.to_le_bytes());
            bytes.extend_from_slice(&chain.to_le_bytes());
        }
        Cursor(bytes.into())
    }

    /// Reads a cursor; without one, the listing begins.
    ///
    /// # Errors
    /// [`Kind::CursorRefused`] for what [`PageStart::cursor`] has not made.
    pub fn of(cursor: Option<&Cursor>) -> Result<PageStart> {
        match cursor {
            None => Ok(PageStart { seq: 0, within: None }),
            Some(cursor) => {
                PageStart::read(&cursor.0).ok_or_else(|| refused("the journal's cursor is not from this source"))
            }
        }
    }

    fn read(bytes: &[u8]) -> Option<PageStart> {
        let (seq, rest) = bytes.split_first_chunk()?;
        let seq = u64::from_le_bytes(*seq);
        if rest.is_empty() {
            return Some(PageStart { seq, within: None });
        }
        let (at, rest) = rest.split_first_chunk()?;
        let (done, chain) = rest.split_first_chunk()?;
        let (at, done) = (u64::from_le_bytes(*at), u32::from_le_bytes(*done));
        Some(PageStart { seq, within: Some(Position { at, done, chain: u128::from_le_bytes(chain.try_into().ok()?) }) })
    }
}

/// The error of a listing that cannot continue at its cursor.
pub fn refused(why: &str) -> Error {
    Error::new(Kind::CursorRefused, why).hint("list from the start and skip what is committed: `resume=\"relist\"`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        let within = Some(Position { at: 7, done: 17, chain: 1 << 100 });
        for start in [PageStart { seq: 0, within: None }, PageStart { seq: 300, within }] {
            assert_eq!(PageStart::of(Some(&start.cursor())).unwrap(), start);
        }
        assert_eq!(PageStart::of(Some(&Cursor([1, 2].as_slice().into()))).unwrap_err().kind(), Kind::CursorRefused);
        assert_eq!(PageStart::of(None).unwrap(), PageStart { seq: 0, within: None });
    }
}
