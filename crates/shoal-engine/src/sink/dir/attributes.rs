//! What a file gets besides its bytes: the permission bits of its source less the umask, and its timestamp. Owner and
//! set-id bits are ignored.

use std::os::fd::BorrowedFd;
use std::time::SystemTime;

use crate::fs::dir::{Access, Look};
use crate::fs::error::FsError;
use crate::fs::file;
use crate::fs::read::step;
use crate::object::ObjectMeta;

/// The attributes of an object's file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    /// Permission bits. `None`: the usual ones, 0666 less the umask.
    bits: Option<u32>,
    /// The modification time. `None`: the time of the write.
    pub modified: Option<SystemTime>,
}

impl Attributes {
    pub fn of(meta: &ObjectMeta, keep_times: bool) -> Attributes {
        Attributes { bits: meta.mode, modified: meta.last_modified.filter(|_| keep_times) }
    }

    /// The permissions for creating the file under its own name. The kernel subtracts the umask.
    pub fn access(self) -> Access {
        self.bits.map_or(Access::Usual, Access::Bits)
    }

    /// Whether a file has other attributes. False if the source has no permission bits: of a service's objects, only
    /// the bytes are compared. `most` is the mode of a file that is created here with all bits.
    pub fn differ(self, look: &Look, most: u32) -> bool {
        let near = step(look.written.into()); // a file system without nanoseconds rounds times
        let is_other =
            |time: SystemTime| file::stamp(time).is_some_and(|time| i128::from(time.abs_diff(look.written)) > near);
        self.bits.is_some_and(|bits| bits & most != look.mode & 0o777 || self.modified.is_some_and(is_other))
    }

    /// Sets them. Call it after the last write. `most` as in `differ`.
    pub fn set(self, file: BorrowedFd<'_>, most: u32) -> Result<(), FsError> {
        file::set_mode(file, self.bits.unwrap_or(0o666) & most)?;
        self.modified.map_or(Ok(()), |modified| file::set_modified(file, modified))
    }
}
