//! The part of an archive that a lane has in memory: one read serves many small entries.

use std::sync::{Arc, Weak};

use super::local::{self, Checked};
use crate::error::Result;
use crate::fs::read::Space;
use crate::source::archive::format::Archive;
use crate::source::archive::member::Member;

/// Bytes read at once, unless an entry needs more: what stays in a core's own cache while it is unpacked.
const USUAL: usize = 256 << 10;
/// What is read behind an entry's least length, for extra fields that only its own header has.
const SLACK: u64 = 64;

/// A range of an archive.
pub(super) struct Window {
    /// Not held open by that.
    archive: Weak<Archive>,
    from: u64,
    held: usize,
    space: Space,
}

impl Window {
    pub fn new() -> Window {
        Window { archive: Weak::new(), from: 0, held: 0, space: Space::new(0) }
    }

    /// Gives its memory back.
    pub fn shrink(&mut self) {
        *self = Window::new();
    }

    /// `length` bytes at least from `at` on, all of which lie in the archive.
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
            self.space = Space::new(0); // not both at once
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

    /// Where the packed bytes of an entry begin; its header has been held against the directory.
    pub fn data(&mut self, archive: &Arc<Archive>, member: &Member) -> Result<u64> {
        Ok(member.at + self.header(archive, member, 0)? as u64)
    }

    /// The packed bytes of an entry.
    pub fn entry(&mut self, archive: &Arc<Archive>, member: &Member) -> Result<&[u8]> {
        let packed = member.packed as usize;
        let header = self.header(archive, member, packed)?;
        Ok(&self.bytes(archive, member.at, header + packed)?[header..header + packed])
    }

    /// The length of an entry's header; about as many bytes behind it as `more` are read with it.
    fn header(&mut self, archive: &Arc<Archive>, member: &Member, more: usize) -> Result<usize> {
        let least = (local::LENGTH + local::raw_name(archive, member).len() + more) as u64;
        let mut length = (least + SLACK).min(member.bound - member.at) as usize;
        loop {
            // The directory lies behind it, and in that any header ends; but a lying one could point beyond the file.
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
