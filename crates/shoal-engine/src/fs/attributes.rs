//! Owners and extended attributes of files, which are also where ACLs and capabilities are.
//!
//! Not here: permission bits and times (`file.rs`), in which order all of them are set (`sink/dir/attributes.rs`).

use std::os::fd::BorrowedFd;

use rustix::fs::{Gid, Uid, XattrFlags};
use rustix::io::{Errno, Result};

use super::dir::Look;
use super::space::free;
use crate::object::{AttributeScope, Extended, Owner};

/// Bytes that are tried first for the names of a file, or a value.
const USUAL: usize = 1 << 10;
/// An attribute for which there is no room may be too large for any file: then this much is free.
const ROOM: u64 = 1 << 20;
/// The ACLs of a file, and for what will be created in a directory.
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// What is not copied: the label of SELinux is for its place, those of overlayfs say what lies below it, and XFS shows its ACLs
/// a second time.
const BOUND: [&[u8]; 3] = [b"security.selinux", b"trusted.overlay.", b"trusted.SGI_ACL_"];

/// Whether an attribute is an ACL.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    ACLS.contains(&name)
}

/// Whether an attribute is the ACL of the file itself.
pub(crate) fn is_access_acl(name: &[u8]) -> bool {
    name == ACLS[0]
}

/// Whether an attribute is copied.
fn is_copied(name: &[u8], scope: AttributeScope) -> bool {
    match scope {
        AttributeScope::None => false,
        AttributeScope::User => name.starts_with(b"user."),
        AttributeScope::All => {
            let spaces: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
            let is_bound = BOUND.iter().any(|bound| name.starts_with(bound));
            is_acl(name) || spaces.iter().any(|space| name.starts_with(space)) && !is_bound
        }
    }
}

/// The extended attributes that are copied. None where the file system has no such attributes.
pub(crate) fn read(file: BorrowedFd<'_>, scope: AttributeScope) -> Result<Extended> {
    let mut usual = [0; USUAL];
    let names = match rustix::fs::flistxattr(file, &mut usual) {
        Ok(0) | Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Ok(length) => usual[..length].to_vec(),
        Err(Errno::RANGE | Errno::TOOBIG) => grown(|space| rustix::fs::flistxattr(file, space))?,
        Err(errno) => return Err(errno),
    };
    let mut extended = Vec::new();
    for name in names.split(|&byte| byte == 0).filter(|name| is_copied(name, scope)) {
        match grown(|space| rustix::fs::fgetxattr(file, name, space)) {
            Ok(value) => extended.push((name.into(), value.into_boxed_slice())),
            Err(Errno::NODATA) => {} // removed meanwhile, which changes the change time of the file
            Err(errno) => return Err(errno),
        }
    }
    extended.sort();
    Ok(extended)
}

/// What a call returns that is given more and more memory.
fn grown(mut call: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut space = vec![0; USUAL];
    loop {
        match call(&mut space) {
            Ok(length) => {
                space.truncate(length);
                return Ok(space);
            }
            Err(Errno::RANGE) if space.len() < 1 << 24 => space.resize(space.len() * 4, 0),
            Err(errno) => return Err(errno),
        }
    }
}

/// Whether an error says that the file or its file system cannot have this, or that this user may not set it.
fn is_refused(errno: Errno, file: BorrowedFd<'_>) -> bool {
    match errno {
        Errno::NOTSUP | Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::RANGE | Errno::TOOBIG => {
            true
        }
        Errno::NOSPC | Errno::DQUOT => free(file).is_ok_and(|free| free.bytes > ROOM && free.inodes != Some(0)),
        _ => false,
    }
}

/// The result of a call; false if it was refused.
fn told(result: Result<()>, file: BorrowedFd<'_>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(errno) if is_refused(errno, file) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether a file has this attribute.
pub(crate) fn has(file: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> bool {
    grown(|space| rustix::fs::fgetxattr(file, name, space)).is_ok_and(|now| now == value)
}

/// Sets an extended attribute. False if it was refused.
pub(crate) fn set(file: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> Result<bool> {
    told(rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()), file)
}

/// Removes an extended attribute. False if that was refused.
pub(crate) fn remove(file: BorrowedFd<'_>, name: &[u8]) -> Result<bool> {
    match rustix::fs::fremovexattr(file, name) {
        Err(Errno::NODATA) => Ok(true),
        result => told(result, file),
    }
}

/// User and group as far as this process can set those of a file that has others now: only root can set any.
pub(crate) fn settable(owner: Owner, now: &Look) -> Owner {
    if rustix::process::geteuid().is_root() {
        return owner;
    }
    let is_member = || rustix::process::getgroups().is_ok_and(|groups| groups.contains(&Gid::from_raw(owner.group)));
    let can_have = now.group == owner.group || rustix::process::getegid().as_raw() == owner.group || is_member();
    Owner { user: now.user, group: if can_have { owner.group } else { now.group }, ..owner }
}

/// Sets user and group. If this process may not set both, it tries the group. False if anything was refused.
pub(crate) fn set_owner(file: BorrowedFd<'_>, now: &Look, owner: Owner) -> Result<bool> {
    if (now.user, now.group) == (owner.user, owner.group) {
        return Ok(true);
    }
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    if told(rustix::fs::fchown(file, Some(user), Some(group)), file)? {
        return Ok(true);
    }
    Ok(told(rustix::fs::fchown(file, None, Some(group)), file)? && now.user == owner.user)
}
