//! Temporary files: unguessable names, readable by their owner only until they are put in place, gone when dropped.
//!
//! They live in `.shoal/tmp/`. Across a mount a rename cannot reach the final place, so there they lie beside it:
//! without a name as long as possible, so that even a killed run leaves nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::session::{Parent, Session};
use crate::fs::dir::{Access, Dir};
use crate::fs::error::{Doing, Trouble};
use crate::fs::file;

const PREFIX: &[u8] = b".shoal-";
/// Of files, and of the directories of partitions that are not published.
const SUFFIX: &[u8] = b".tmp";
const DIRECTORY_SUFFIX: &[u8] = b".dir";
/// 16 hexadecimal digits between the two.
const DIGITS: usize = 16;
const LENGTH: usize = PREFIX.len() + DIGITS + SUFFIX.len();
/// Names tried before giving up; one in 2^64 is taken.
const TRIES: u32 = 8;

pub(super) type TempName = [u8; LENGTH];

/// A name for a temporary file.
pub(super) fn random_name() -> TempName {
    named_at_random(SUFFIX)
}

/// A name for a directory that is not published, or not any more.
pub(super) fn random_directory_name() -> TempName {
    named_at_random(DIRECTORY_SUFFIX)
}

fn named_at_random(suffix: &[u8]) -> TempName {
    let mut name = [0; LENGTH];
    name[..PREFIX.len()].copy_from_slice(PREFIX);
    name[LENGTH - suffix.len()..].copy_from_slice(suffix);
    let number = fastrand::u64(..);
    for (at, digit) in name[PREFIX.len()..][..DIGITS].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * at)) as usize & 15];
    }
    name
}

/// Whether a name is one that [`random_name`] makes.
pub(super) fn is_ours(name: &[u8]) -> bool {
    has_digits(name, SUFFIX)
}

/// The same for [`random_directory_name`].
pub(super) fn is_our_directory(name: &[u8]) -> bool {
    has_digits(name, DIRECTORY_SUFFIX)
}

fn has_digits(name: &[u8], suffix: &[u8]) -> bool {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(suffix));
    digits.is_some_and(|digits| {
        digits.len() == DIGITS && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// A temporary file. Dropped before it is in place, it is removed.
pub(super) struct Temp {
    session: Arc<Session>,
    /// The directory beside the final place, where that is; else `.shoal/tmp`.
    beside: Option<Arc<Parent>>,
    name: Option<TempName>,
    /// Open until it is sealed.
    file: Option<OwnedFd>,
    attributes: Attributes,
    bytes: u64,
}

impl Temp {
    /// Creates one for a file in `parent`.
    pub(super) fn create(
        session: &Arc<Session>,
        parent: &Arc<Parent>,
        attributes: Attributes,
    ) -> Result<Temp, Trouble> {
        match parent.elsewhere {
            false => Self::named(session, None, attributes),
            true => Self::beside(session, parent, attributes),
        }
    }

    fn beside(session: &Arc<Session>, parent: &Arc<Parent>, attributes: Attributes) -> Result<Temp, Trouble> {
        match parent.dir.nameless(Access::Owner) {
            Ok(file) => {
                let (session, beside) = (session.clone(), Some(parent.clone()));
                Ok(Temp { session, beside, name: None, file: Some(file), attributes, bytes: 0 })
            }
            // Not every file system has files without a name; the answers differ.
            Err(Errno::NOTSUP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {
                Self::named(session, Some(parent.clone()), attributes)
            }
            Err(errno) => Err(Doing::Create.failed()(errno)),
        }
    }

    fn named(session: &Arc<Session>, beside: Option<Arc<Parent>>, attributes: Attributes) -> Result<Temp, Trouble> {
        let mut temp = Temp { session: session.clone(), beside, name: None, file: None, attributes, bytes: 0 };
        for turn in 1.. {
            let name = random_name();
            match temp.dir().create(&name, Access::Owner) {
                Ok(file) => {
                    temp.file = Some(file);
                    temp.name = Some(name);
                    break;
                }
                Err(Errno::EXIST) if turn < TRIES => {}
                Err(errno) => return Err(Doing::Create.failed()(errno)),
            }
        }
        Ok(temp)
    }

    /// Appends.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        file::write_all(self.file()?, bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Bytes written.
    pub(super) fn size(&self) -> u64 {
        self.bytes
    }

    /// Ends writing: the mode becomes that of any new file, the time that of its source where it is kept, and it is
    /// closed. `durable`: synced before.
    pub(super) fn seal(&mut self, durable: bool) -> Result<(), Trouble> {
        file::set_mode(self.file()?, self.attributes.mode(self.session.file_mode));
        if let Some(modified) = self.attributes.modified {
            file::set_modified(self.file()?, modified)?;
        }
        if durable {
            file::sync(self.file()?)?;
        }
        if self.name.is_none() {
            let name = random_name();
            self.dir().name(self.file()?, &name).map_err(Doing::Rename.failed())?;
            self.name = Some(name);
        }
        match self.file.take() {
            Some(file) => file::close(file),
            None => Ok(()),
        }
    }

    /// Gives a sealed file its final name, which nothing may have: `EEXIST` otherwise.
    pub(super) fn publish(&mut self, parent: &Arc<Parent>, leaf: &[u8]) -> Result<(), Trouble> {
        self.moved(parent, |from, name| from.rename_new(name, &parent.dir, leaf).map(drop))
    }

    /// Gives a sealed file its final name in place of what has it.
    pub(super) fn replace(&mut self, parent: &Arc<Parent>, leaf: &[u8]) -> Result<(), Trouble> {
        self.moved(parent, |from, name| from.rename_over(name, &parent.dir, leaf))
    }

    fn moved(
        &mut self,
        parent: &Arc<Parent>,
        rename: impl Fn(&Dir, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<(), Trouble> {
        let name = self.name.ok_or_else(|| Doing::Rename.failed()(Errno::BADF))?;
        match rename(self.dir(), &name) {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            // One file system, but a border all the same: a bind mount on an old kernel, a project quota.
            Err(Errno::XDEV) if self.beside.is_none() => {
                *self = self.copied_beside(parent)?;
                self.moved(parent, rename)
            }
            Err(errno) => Err(Doing::Rename.failed()(errno)),
        }
    }

    fn copied_beside(&self, parent: &Arc<Parent>) -> Result<Temp, Trouble> {
        let name = self.name.ok_or_else(|| Doing::Rename.failed()(Errno::BADF))?;
        let from = self.dir().read(&name).map_err(Doing::Open.failed())?;
        let mut copy = Self::beside(&self.session, parent, self.attributes)?;
        file::copy(from.as_fd(), copy.file()?)?;
        copy.bytes = self.bytes;
        copy.seal(parent.barrier == crate::fs::sync::Barrier::Each)?;
        Ok(copy)
    }

    /// Opens what was written, to read it again; `None`: it cannot be.
    pub(super) fn read(&self) -> Option<OwnedFd> {
        self.dir().read(&self.name?).ok()
    }

    fn file(&self) -> Result<BorrowedFd<'_>, Trouble> {
        let file = self.file.as_ref().map(AsFd::as_fd);
        file.ok_or_else(|| Doing::Write.failed()(Errno::BADF))
    }

    fn dir(&self) -> &Dir {
        match &self.beside {
            Some(parent) => &parent.dir,
            None => &self.session.tmp,
        }
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(name) = self.name {
            let _ = self.dir().remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_own_making_are_swept() {
        for _ in 0..1000 {
            assert!(is_ours(&random_name()) && !is_our_directory(&random_name()));
            assert!(is_our_directory(&random_directory_name()) && !is_ours(&random_directory_name()));
        }
        for name in ["journal.db", ".shoal-.tmp", ".shoal-0123456789abcdeg.tmp", ".shoal-0123456789abcdef.tmp2", "x"] {
            assert!(!is_ours(name.as_bytes()), "{name}");
        }
    }
}
