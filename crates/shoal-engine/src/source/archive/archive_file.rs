//! The file of an archive: held open, read by position, and checked for changes. Nothing is mapped into memory.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Kind, Result};
use crate::fs::read::{self, Facts, unreadable};

/// An open archive file.
pub(crate) struct ArchiveFile {
    pub fd: OwnedFd,
    /// Where it was found. Locators begin with it.
    pub path: Box<[u8]>,
    /// Its name in the report if it fails as a whole.
    pub name: Box<[u8]>,
    /// Prefix of the names of its entries: empty, or a directory and a slash.
    pub prefix: Box<[u8]>,
    /// Its metadata when it was opened.
    pub facts: Facts,
    /// Set when its plan is no longer wanted. Reading it then fails.
    pub stop: Arc<AtomicBool>,
    /// How many unpacked bytes its plan may keep in memory.
    pub room: usize,
}

impl ArchiveFile {
    /// Its length when it was opened.
    pub fn len(&self) -> u64 {
        self.facts.size
    }

    /// Reads into `into` from byte `at` on. Returns how many bytes there were; fewer than `into` has only at the end.
    ///
    /// # Errors
    /// [`Kind::ReadFailed`] and similar errors; [`Kind::Interrupted`] once `stop` is set.
    pub fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize> {
        if self.stop.load(Relaxed) {
            return Err(Error::new(Kind::Interrupted, "stopped while the archive's entries were listed"));
        }
        let mut held = 0;
        while held < into.len() {
            let from = at + held as u64;
            match read::read_at(self.fd.as_fd(), &mut into[held..], from).map_err(|e| unreadable(e, Some(from)))? {
                0 => break,
                read => held += read,
            }
        }
        Ok(held)
    }

    /// Fills all of `into`.
    ///
    /// # Errors
    /// As `read_at`; [`Kind::Changed`] if the file ends before `into` is full.
    pub fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<()> {
        match self.read_at(into, at)? == into.len() {
            true => Ok(()),
            false => Err(self.cut_short()),
        }
    }

    /// The error for a file that is shorter than when it was opened.
    pub fn cut_short(&self) -> Error {
        let why = format!("the archive was truncated while it was read: it had {} bytes", self.facts.size);
        Error::new(Kind::Changed, why).hint("run again when nothing writes to it")
    }

    /// Checks that size and change time are the same as when it was opened.
    ///
    /// # Errors
    /// [`Kind::Changed`] if they are not.
    pub fn unchanged(&self) -> Result<()> {
        let now = read::facts(self.fd.as_fd()).map_err(|errno| unreadable(errno, None))?;
        match (now.size, now.changed) == (self.facts.size, self.facts.changed) {
            true => Ok(()),
            false if now.size < self.facts.size => Err(self.cut_short()),
            false => Err(Error::new(Kind::Changed, "the archive changed while it was read")
                .hint("run again when nothing writes to it")),
        }
    }
}
