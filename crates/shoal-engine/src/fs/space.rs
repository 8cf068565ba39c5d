//! Free space on a file system.

use std::os::fd::BorrowedFd;

/// What is left on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Free {
    /// Bytes that this user may still write.
    pub bytes: u64,
    /// Files that may still be created. `None` if the file system does not count them.
    pub inodes: Option<u64>,
}

/// What is left on the file system of `file`.
pub(crate) fn free(file: BorrowedFd<'_>) -> rustix::io::Result<Free> {
    let found = rustix::fs::fstatvfs(file)?;
    let blocks = match rustix::process::geteuid().is_root() {
        true => found.f_bfree, // only root may use the reserve
        false => found.f_bavail,
    };
    Ok(Free {
        bytes: blocks.saturating_mul(found.f_frsize),
        inodes: (found.f_files > 0).then_some(found.f_ffree), // btrfs has 0
    })
}
