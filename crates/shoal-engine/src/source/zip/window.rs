//! The part of an archive that a lane has in memory, so that one read serves many small entries.

use std::sync::{Arc, Weak};

use super::local::{self, Checked};
use crate::error::Result;
use crate::fs::read::Space;
use crate::source::archive::format::Archive;
use crate::source::archive::member::Member;

/// Bytes read at once, unless an entry needs more. They fit in the cache of a core while they are unpacked.
const USUAL: usize = 256 << 10;
/// Bytes read beyond the minimal length of an entry, for extra fields that only its own header has.
const SLACK: u64 = 64;

/// A range of an archive, in memory.
pub(super) struct Window {
    /// A weak reference, so that the window does not keep the archive open.
    archive: Weak<Archive>,
    from: u64,
    held: usize,
    space: Space,
}

impl Window {
    pub fn new() -> Window {
        Window { archive: Weak::new(), from: 0, held: 0, space: Space::new(0) }
    }

    /// Releases its memory.
    pub fn shrink(&mut self) {
        *self = Window::new();
    }

    /// Returns at least `length` bytes from `at` on. All of them must be in the archive.
    fn bytes(&mut self, archive: &Arc<Archive>, at: u64, length: usize) -> Result<&[u8]> {
        let same = self.archive.as_ptr() == Arc::as_ptr(archive);
        if !same || at < self.from || at + length as u64 > self.from + self.held as u64 {
            self.read(archive, at, length)?;
        }
        Ok(&self.space[(at - self.from) as usize..self.held])
    }

    fn read(&mut self, archive: &Arc<Archive>, at: u64, length: usize) -> Result<()> {
        let wanted = length.max(USUAL);
        if self.space.len() < wanted {
            self.space = Space::new(0); // not both in memory at once
            self.space = Space::new(wanted);
        }
        self.held = 0;
        let most = usize::try_from(archive.file.len().saturating_sub(at)).unwrap_or(usize::MAX);
        let held = archive.file.read_at(&mut self.space[..wanted.min(most)], at)?;
        if held < length {
            return Err(archive.file.cut_short());
        }
        if self.archive.as_ptr() != Arc::as_ptr(archive) {
            self.archive = Arc::downgrade(archive);
        }
        (self.from, self.held) = (at, held);
        Ok(())
    }

    /// Returns the offset of the compressed bytes of an entry, after checking its header.
    pub fn data(&mut self, archive: &Arc<Archive>, member: &Member) -> Result<u64> {
        Ok(member.at + self.header(archive, member, 0)? as u64)
    }

    /// Returns the compressed bytes of an entry.
    pub fn entry(&mut self, archive: &Arc<Archive>, member: &Member) -> Result<&[u8]> {
        let packed = member.packed as usize;
        let header = self.header(archive, member, packed)?;
        Ok(&self.bytes(archive, member.at, header + packed)?[header..header + packed])
    }

    /// Returns the length of the header of an entry. Reads about `more` bytes after it as well.
    fn header(&mut self, archive: &Arc<Archive>, member: &Member, more: usize) -> Result<usize> {
        let least = (local::LENGTH + local::raw_name(archive, member).len() + more) as u64;
        let mut length = (least + SLACK).min(member.bound - member.at) as usize;
        loop {
            // In a valid archive, the directory follows, so the header ends before the file does. A false one could
            // point beyond it.
            if member.at + length as u64 > archive.file.len() {
                return Err(local::beyond());
            }
            match local::check(self.bytes(archive, member.at, length)?, archive, member)? {
                Checked::Length(length) => return Ok(length),
                Checked::More(more) => length = more,
            }
        }
    }
}
