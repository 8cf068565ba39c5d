//! `TempFile`: a file with a random name that only its owner can read until it gets its final name.
//!
//! Temporary files are in `.shoal/tmp/`. If the final name is on another mount, which a rename cannot reach, the file
//! is created beside it, without a name for as long as possible, so that even a killed run leaves nothing. Not here:
//! the random names (`temp_name.rs`), removing leftovers (`cleanup.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::destination::Destination;
use super::directory::Directory;
use super::target::Target;
use super::temp_name::{TempName, random_file_name};
use crate::fs::dir::{Access, Dir};
use crate::fs::error::{FsError, Operation};
use crate::fs::{extents, file};

/// Names tried before giving up; one in 2^64 is taken.
const TRIES: u32 = 8;

/// A temporary file. It is removed if it is dropped before it has its final name.
pub(super) struct TempFile {
    destination: Arc<Destination>,
    /// The directory of the final name, if the file is there. `None`: it is in `.shoal/tmp`.
    beside: Option<Arc<Directory>>,
    name: Option<TempName>,
    /// Open until the file is sealed.
    file: Option<OwnedFd>,
    attributes: Attributes,
    bytes: u64,
    /// It has a hole, perhaps at its end, where the file itself does not reach yet.
    has_hole: bool,
}

impl TempFile {
    /// Creates the temporary file of an object.
    pub fn create(target: Target<'_>, attributes: Attributes) -> Result<TempFile, FsError> {
        let beside = target.directory.on_other_mount.then(|| target.directory.clone());
        TempFile::create_in(target.destination.clone(), beside, attributes)
    }

    fn create_in(
        destination: Arc<Destination>,
        beside: Option<Arc<Directory>>,
        attributes: Attributes,
    ) -> Result<TempFile, FsError> {
        let mut temp = TempFile { destination, beside, name: None, file: None, attributes, bytes: 0, has_hole: false };
        match temp.beside.as_ref().map(|directory| directory.dir.nameless(Access::Owner)) {
            Some(Ok(file)) => {
                temp.file = Some(file);
                return Ok(temp);
            }
            // Not every file system supports files without a name, and their errors differ.
            None | Some(Err(Errno::NOTSUP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS)) => {}
            Some(Err(errno)) => return Err(Operation::Create.failed()(errno)),
        }
        for turn in 1.. {
            let name = random_file_name();
            match temp.dir().create(&name, Access::Owner) {
                Ok(file) => {
                    temp.file = Some(file);
                    temp.name = Some(name);
                    break;
                }
                Err(Errno::EXIST) if turn < TRIES => {}
                Err(errno) => return Err(Operation::Create.failed()(errno)),
            }
        }
        Ok(temp)
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FsError> {
        file::write_all(self.file()?, bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Continues with a hole.
    pub fn hole(&mut self, length: u64) -> Result<(), FsError> {
        extents::go_to(self.file()?, self.bytes + length).map_err(Operation::Write.failed())?;
        self.bytes += length;
        self.has_hole = true;
        Ok(())
    }

    /// Appends bytes of another file. `None` if the kernel cannot copy between the two.
    pub fn copy(&mut self, from: BorrowedFd<'_>, at: u64, length: usize) -> Result<Option<usize>, FsError> {
        let copied = extents::copy(from, at, self.file()?, length).map_err(Operation::Write.failed())?;
        self.bytes += copied.unwrap_or(0) as u64;
        Ok(copied)
    }

    /// The number of bytes written.
    pub fn size(&self) -> u64 {
        self.bytes
    }

    /// Ends writing: sets mode and modification time, syncs if `durable`, and closes the file.
    pub fn seal(&mut self, durable: bool) -> Result<(), FsError> {
        if self.has_hole {
            extents::end_at(self.file()?, self.bytes).map_err(Operation::Write.failed())?;
        }
        self.attributes.set(self.file()?, &self.destination, true)?;
        if durable {
            file::sync(self.file()?)?;
        }
        if self.name.is_none() {
            let name = random_file_name();
            self.dir().name(self.file()?, &name).map_err(Operation::Rename.failed())?;
            self.name = Some(name);
        }
        match self.file.take() {
            Some(file) => file::close(file),
            None => Ok(()),
        }
    }

    /// Gives a sealed file its final name. Fails with `EEXIST` if the name is taken.
    pub fn publish(&mut self, target: Target<'_>) -> Result<(), FsError> {
        self.rename(target, |from, name| from.rename_new(name, &target.directory.dir, target.leaf()).map(drop))
    }

    /// Gives a sealed file its final name, and replaces the file that has it.
    pub fn replace(&mut self, target: Target<'_>) -> Result<(), FsError> {
        self.rename(target, |from, name| from.rename_over(name, &target.directory.dir, target.leaf()))
    }

    fn rename(
        &mut self,
        target: Target<'_>,
        rename: impl Fn(&Dir, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<(), FsError> {
        let name = self.name.ok_or_else(|| Operation::Rename.failed()(Errno::BADF))?;
        match rename(self.dir(), &name) {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            // One file system, but a rename is not possible: a bind mount on an old kernel, a project quota.
            Err(Errno::XDEV) if self.beside.is_none() => {
                *self = self.copy_beside(target.directory)?;
                self.rename(target, rename)
            }
            Err(errno) => Err(Operation::Rename.failed()(errno)),
        }
    }

    fn copy_beside(&self, directory: &Arc<Directory>) -> Result<TempFile, FsError> {
        let name = self.name.ok_or_else(|| Operation::Rename.failed()(Errno::BADF))?;
        let from = self.dir().read(&name).map_err(Operation::Open.failed())?;
        let mut copy = Self::create_in(self.destination.clone(), Some(directory.clone()), self.attributes.clone())?;
        file::copy(from.as_fd(), copy.file()?)?;
        copy.bytes = self.bytes;
        copy.seal(directory.syncs_each_file())?;
        Ok(copy)
    }

    /// Opens a sealed file for reading. `None` if that fails.
    pub fn read(&self) -> Option<OwnedFd> {
        self.dir().read(&self.name?).ok()
    }

    fn file(&self) -> Result<BorrowedFd<'_>, FsError> {
        let file = self.file.as_ref().map(AsFd::as_fd);
        file.ok_or_else(|| Operation::Write.failed()(Errno::BADF))
    }

    fn dir(&self) -> &Dir {
        match &self.beside {
            Some(directory) => &directory.dir,
            None => &self.destination.tmp,
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(name) = self.name {
            let _ = self.dir().remove(&name);
        }
    }
}
