//! What a file gets besides its bytes: permissions, owner, extended attributes, and last of all its time.
//!
//! Without `exact`, permissions are the nine bits of the source less the umask, and owner and set-id bits are ignored.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;

use super::destination::Destination;
use super::directory::Directory;
use super::lost::What;
use crate::fs::attributes::{self, is_access_acl, is_acl};
use crate::fs::dir::{Access, Dir, Look, look_at};
use crate::fs::error::{FsError, Operation};
use crate::fs::file;
use crate::fs::read::step;
use crate::object::{AttributeScope, Extended, FileAttributes, ObjectMeta, Owner};

/// Permission bits that not every user may set.
const SPECIAL: u32 = 0o7000;
/// Those that let a program run as its owner or group.
const SET_ID: u32 = 0o6000;

/// The attributes of an object's file.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    /// Permission bits. `None`: the usual ones, 0666 less the umask.
    bits: Option<u32>,
    /// The modification time. `None`: the time of the write.
    pub modified: Option<SystemTime>,
    more: Option<Arc<FileAttributes>>,
    /// It is a file with several names.
    pub has_several_names: bool,
}

impl Attributes {
    pub fn of(meta: &ObjectMeta, keep_times: bool) -> Attributes {
        let more = meta.attributes.clone();
        let modified = meta.last_modified.filter(|_| keep_times);
        Attributes { bits: meta.mode, modified, more, has_several_names: meta.has_several_names }
    }

    /// The permissions for creating the file under its own name. The kernel subtracts the umask. A file that gets more than
    /// these is for its owner alone until then.
    pub fn access(&self) -> Access {
        match self.more {
            Some(_) => Access::Owner,
            None => self.bits.map_or(Access::Usual, Access::Bits),
        }
    }

    /// Whether a file has other attributes. False if the source has no permission bits: of a service's objects, only
    /// the bytes are compared.
    pub fn differ(&self, look: &Look, file: BorrowedFd<'_>, destination: &Destination) -> bool {
        let Some(bits) = self.bits else { return false };
        let mode = match self.settable(look) {
            Some(owner) => (owner.user, owner.group, owner.mode) != (look.user, look.group, look.mode & 0o7777),
            None => bits & destination.file_mode != look.mode & 0o777,
        };
        let is_other = || {
            let now = attributes::read(file, destination.takes().attributes);
            now.is_ok_and(|now| now != *self.extended())
        };
        mode || self.has_other_time(look) || is_other()
    }

    /// Whether a file that has the size and time of its source lacks what else that has: it was copied without `exact`, or could
    /// not be kept. Costs nothing if the source has only bytes, permissions and times.
    pub fn are_missing(&self, look: &Look, directory: &Directory, name: &[u8], destination: &Destination) -> bool {
        let differ = || directory.dir.read(name).is_ok_and(|file| self.differ(look, file.as_fd(), destination));
        self.more.is_some() && differ()
    }

    /// Whether a file or link has another time.
    pub fn has_other_time(&self, look: &Look) -> bool {
        let near = step(look.written.into()); // a file system without nanoseconds rounds times
        let time = self.modified.and_then(file::stamp);
        time.is_some_and(|time| i128::from(time.abs_diff(look.written)) > near)
    }

    /// Writes the bytes of a new file, and all that belongs to it.
    pub fn fill(&self, file: OwnedFd, bytes: &[u8], destination: &Destination, durable: bool) -> Result<(), FsError> {
        file::write_all(file.as_fd(), bytes)?;
        match self.more {
            Some(_) => self.set(file.as_fd(), destination, true)?,
            None => self.set_time(file.as_fd())?,
        }
        if durable {
            file::sync(file.as_fd())?;
        }
        file::close(file)
    }

    /// Sets them. Call it after the last write. `new`: the file was created for this, and has no attributes of its own.
    ///
    /// The order matters. A change of the owner takes set-id bits and capabilities away. A file that may not be written to
    /// gets no attributes of users. An ACL belongs to the permissions that it was read with. The time is last: a file that has
    /// it is whole.
    pub fn set(&self, file: BorrowedFd<'_>, destination: &Destination, new: bool) -> Result<(), FsError> {
        let (lost, mut is_owner) = (&destination.lost, true);
        if let Some(owner) = self.owner() {
            let look = look_at(file).map_err(Operation::Stat.failed())?;
            if !new && (owner.user, owner.group) != (look.user, look.group) {
                file::set_mode(file, look.mode & 0o700)?; // another group must not get what this one may do
            }
            is_owner = attributes::set_owner(file, &look, owner).map_err(Operation::Chown.failed())?;
            lost.unless(is_owner, What::Owner)?;
        }
        self.set_extended(file, destination, new)?;
        let has_acl = self.extended().iter().any(|(name, _)| is_access_acl(name));
        match self.owner() {
            Some(owner) => {
                // A program must not run as another user than at its source.
                let wanted = if is_owner { owner.mode } else { owner.mode & !SET_ID };
                // The group has these bits only through the ACL, where they are its mask.
                let is_set = file::set_mode(file, if has_acl { wanted & !0o070 } else { wanted })?;
                let has = || look_at(file).is_ok_and(|look| look.mode & SPECIAL == wanted & SPECIAL);
                lost.unless(is_set && (wanted & SPECIAL == 0 || has()), What::Mode)?;
            }
            None => drop(file::set_mode(file, self.bits.unwrap_or(0o666) & destination.file_mode)?),
        }
        for (name, value) in self.extended().iter().filter(|(name, _)| is_acl(name)) {
            if attributes::has(file, name, value) {
                continue;
            }
            lost.unless(attributes::set(file, name, value).map_err(Operation::Xattr.failed())?, What::Acl)?;
        }
        self.set_time(file)
    }

    /// Sets the time. Of a file that has it, this is its last change.
    pub fn set_time(&self, file: BorrowedFd<'_>) -> Result<(), FsError> {
        self.modified.map_or(Ok(()), |modified| file::set_modified(file, modified))
    }

    /// Sets those of a symbolic link, which has an owner and a time.
    pub fn set_of_link(&self, dir: &Dir, name: &[u8], destination: &Destination) -> Result<(), FsError> {
        if let Some(owner) = self.owner() {
            let look = dir.look(name).map_err(Operation::Stat.failed())?;
            if (look.user, look.group) != (owner.user, owner.group) {
                let set = |user| match dir.set_link_owner(name, user, owner.group) {
                    Ok(()) => Ok(true),
                    Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => Ok(false),
                    Err(errno) => Err(Operation::Chown.failed()(errno)),
                };
                let is_set = set(owner.user)? || set(look.user)? && look.user == owner.user;
                destination.lost.unless(is_set, What::Owner)?;
            }
        }
        self.modified.map_or(Ok(()), |time| dir.set_link_time(name, time).map_err(Operation::Utimens.failed()))
    }

    /// Whether a link has another owner or time.
    pub fn differ_of_link(&self, look: &Look) -> bool {
        let is_other = |owner: Owner| (owner.user, owner.group) != (look.user, look.group);
        self.settable(look).is_some_and(is_other) || self.has_other_time(look)
    }

    /// Sets the extended attributes, and removes others; ACLs are only removed. The permissions may be others afterwards.
    pub fn set_extended(&self, file: BorrowedFd<'_>, destination: &Destination, new: bool) -> Result<(), FsError> {
        let (lost, wanted, scope) = (&destination.lost, self.extended(), destination.takes().attributes);
        // A new file may have an ACL from its directory.
        let now = match new && scope != AttributeScope::All {
            true => Extended::new(),
            false => attributes::read(file, scope).map_err(Operation::Xattr.failed())?,
        };
        if now == *wanted {
            return Ok(());
        }
        if !new {
            let look = look_at(file).map_err(Operation::Stat.failed())?;
            file::set_mode(file, look.mode & 0o7777 | 0o200)?;
        }
        let is_wanted = |name: &[u8]| wanted.iter().any(|(other, _)| **other == *name);
        for (name, _) in now.iter().filter(|(name, _)| !is_wanted(name)) {
            let is_set = attributes::remove(file, name).map_err(Operation::Xattr.failed())?;
            lost.unless(is_set, if is_acl(name) { What::Acl } else { What::Attribute })?;
        }
        for pair @ (name, value) in wanted.iter().filter(|(name, _)| !is_acl(name)) {
            if !now.contains(pair) {
                let is_set = attributes::set(file, name, value).map_err(Operation::Xattr.failed())?;
                lost.unless(is_set, What::Attribute)?;
            }
        }
        Ok(())
    }

    /// Owner and permissions as far as this process can set those of a file that has others now.
    fn settable(&self, look: &Look) -> Option<Owner> {
        let owner = self.owner()?;
        let settable = attributes::settable(owner, look);
        let is_same = (owner.user, owner.group) == (settable.user, settable.group);
        Some(Owner { mode: if is_same { owner.mode } else { owner.mode & !SET_ID }, ..settable })
    }

    fn owner(&self) -> Option<Owner> {
        self.more.as_ref().and_then(|more| more.owner)
    }

    fn extended(&self) -> &Extended {
        const NONE: &Extended = &Extended::new();
        self.more.as_ref().map_or(NONE, |more| &more.extended)
    }
}
