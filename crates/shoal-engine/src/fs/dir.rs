//! `Dir`: a directory held open; everything in it is reached by one component relative to its fd.
//!
//! Here: opening, making, creating, looking, renaming and removing, none of which follows a link. Not here: contents
//! of files (`file.rs`), durability (`sync.rs`), what any of it means.
//!
//! Only the root's own path is resolved by name, once. Below it each step takes one component from a [`Name`], which
//! has no `..`, so `O_NOFOLLOW` alone keeps every step inside; openat2's `RESOLVE_*` flags say the same to the kernel a
//! second time.
//!
//! [`Name`]: crate::name::Name

#![allow(clippy::disallowed_methods)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags};
use rustix::io::{Errno, Result};

/// Links of any kind and ways upwards are refused.
pub(super) const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// Readable, since a directory opened with `O_PATH` can be neither synced nor locked.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A new file; whatever has the name already, also a dangling link, is `EEXIST`.
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Who may use what is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// As any program makes it: everybody, less the umask.
    Usual,
    /// The same of a file that may be run.
    Executable,
    /// Its owner alone.
    Owner,
}

impl Access {
    fn file(self) -> Mode {
        match self {
            Access::Usual => Mode::from_raw_mode(0o666),
            Access::Executable => Mode::from_raw_mode(0o777),
            Access::Owner => Mode::from_raw_mode(0o600),
        }
    }

    fn directory(self) -> Mode {
        match self {
            Access::Usual | Access::Executable => Mode::from_raw_mode(0o777),
            Access::Owner => Mode::from_raw_mode(0o700),
        }
    }
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir(OwnedFd);

/// What has a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// File, directory, link …
    pub kind: FileType,
    /// When it came into being, in nanoseconds since 1970 on the file system's clock. Where the file system does not
    /// remember that, its last change: later, so that a stranger's file may be taken for a newer one.
    pub born: i128,
    /// When its contents were last written, in the same unit.
    pub written: i128,
    /// Kind and permission bits.
    pub mode: u32,
}

/// Which mount of which file system: renames work within one place only, and syncfs reaches one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    device: (u32, u32),
    /// 0 before Linux 5.8; then a bind mount is found when the rename fails.
    mount: u64,
}

impl Dir {
    /// Opens a directory by its path, which may contain links.
    pub(crate) fn root(path: &Path) -> Result<Dir> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        rustix::fs::open(path, flags, Mode::empty()).map(Dir)
    }

    /// Opens the directory `component` in this one.
    pub(crate) fn open(&self, component: &[u8]) -> Result<Dir> {
        self.enter(component, DIRECTORY, Mode::empty()).map(Dir)
    }

    /// Makes a directory in this one; one that is there already is as good.
    pub(crate) fn make(&self, component: &[u8], access: Access) -> Result<()> {
        match rustix::fs::mkdirat(&self.0, component, access.directory()) {
            Err(Errno::EXIST) => Ok(()),
            result => result,
        }
    }

    /// Makes a directory that was not there; `EEXIST` otherwise.
    pub(crate) fn make_new(&self, component: &[u8], access: Access) -> Result<()> {
        rustix::fs::mkdirat(&self.0, component, access.directory())
    }

    /// Creates a file that was not there.
    pub(crate) fn create(&self, name: &[u8], access: Access) -> Result<OwnedFd> {
        self.enter(name, NEW_FILE, access.file())
    }

    /// Opens a file for reading.
    pub(crate) fn read(&self, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        self.enter(name, flags, Mode::empty())
    }

    /// Creates a file without a name, to be named by [`Dir::name`]; it vanishes with its fd.
    pub(crate) fn nameless(&self, access: Access) -> Result<OwnedFd> {
        self.enter(b".", OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, access.file())
    }

    /// Gives a nameless file a name that nothing has.
    pub(crate) fn name(&self, file: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        // AT_EMPTY_PATH would need a capability before Linux 6.10; through /proc anybody may.
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, path, &self.0, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// What `name` is.
    pub(crate) fn look(&self, name: &[u8]) -> Result<Look> {
        let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::MTIME | StatxFlags::CTIME | StatxFlags::BTIME;
        let found = rustix::fs::statx(&self.0, name, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        let born = match found.stx_mask & StatxFlags::BTIME.bits() != 0 {
            true => found.stx_btime,
            false => found.stx_ctime,
        };
        Ok(Look {
            kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
            born: nanoseconds(born),
            written: nanoseconds(found.stx_mtime),
            mode: u32::from(found.stx_mode),
        })
    }

    /// Where this directory lies.
    pub(crate) fn place(&self) -> Result<Place> {
        let found = rustix::fs::statx(&self.0, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        let mount = match found.stx_mask & StatxFlags::MNT_ID.bits() != 0 {
            true => found.stx_mnt_id,
            false => 0,
        };
        Ok(Place { device: (found.stx_dev_major, found.stx_dev_minor), mount })
    }

    /// Moves a file to a name that nothing has; `EEXIST` otherwise.
    pub(crate) fn rename_new(&self, from: &[u8], to: &Dir, name: &[u8]) -> Result<()> {
        match rustix::fs::renameat_with(&self.0, from, &to.0, name, RenameFlags::NOREPLACE) {
            // Some network and user-space file systems know no flags: take the name first, then replace what we made.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                drop(to.create(name, Access::Owner)?);
                let moved = self.rename_over(from, to, name);
                if moved.is_err() {
                    let _ = to.remove(name);
                }
                moved
            }
            result => result,
        }
    }

    /// Moves a file to a name and replaces what had it; a link there is replaced, not followed. Of a directory: only to
    /// a free name or over an empty directory, `ENOTEMPTY`, `EEXIST` or `ENOTDIR` otherwise.
    pub(crate) fn rename_over(&self, from: &[u8], to: &Dir, name: &[u8]) -> Result<()> {
        rustix::fs::renameat(&self.0, from, &to.0, name)
    }

    /// Lets two names change places, in one step.
    pub(crate) fn exchange(&self, from: &[u8], to: &Dir, name: &[u8]) -> Result<()> {
        rustix::fs::renameat_with(&self.0, from, &to.0, name, RenameFlags::EXCHANGE)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, name: &[u8]) -> Result<()> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &[u8]) -> Result<()> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::empty())
    }

    /// Calls `each` with the names in it, `.` and `..` left out, until it fails.
    pub(crate) fn names(&self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            match entry?.file_name().to_bytes() {
                b"." | b".." => {}
                name => each(name)?,
            }
        }
        Ok(())
    }

    /// Locks it for this holder alone; whether nobody else has a lock on it, also where there are no locks at all.
    pub(crate) fn lock_alone(&self) -> bool {
        rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
    }

    /// Locks it together with others; waits for one who locked it alone.
    pub(crate) fn lock_together(&self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::LockShared);
    }

    /// Gives the lock up, also for the copies of the fd that forked children have.
    pub(crate) fn unlock(&self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }

    fn enter(&self, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        loop {
            match rustix::fs::openat2(&self.0, name, flags, mode, INSIDE) {
                // Sandboxes without openat2, old ones with the wrong answer; the module's text says why this is as safe.
                Err(Errno::NOSYS | Errno::PERM) => return rustix::fs::openat(&self.0, name, flags, mode),
                Err(Errno::INTR | Errno::AGAIN) => {}
                result => return result,
            }
        }
    }
}

impl From<OwnedFd> for Dir {
    fn from(fd: OwnedFd) -> Dir {
        Dir(fd)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn nanoseconds(time: rustix::fs::StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Makes a directory and its parents by path, where they are missing; the path may contain links.
pub(crate) fn make_path(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

/// The path without links, or as it is where that cannot be told.
pub(crate) fn resolved(path: &Path) -> std::path::PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The same of a path whose end is not there yet.
pub(crate) fn resolved_beyond(path: &Path) -> std::path::PathBuf {
    match (std::fs::canonicalize(path), path.parent(), path.file_name()) {
        (Ok(resolved), ..) => resolved,
        (Err(_), Some(parent), Some(name)) => resolved_beyond(parent).join(name),
        _ => path.to_owned(),
    }
}

/// Whether something is mounted below a directory, whose path must be free of links; yes, where that cannot be told.
pub(crate) fn has_mounts_below(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(mounts) = std::fs::read("/proc/thread-self/mountinfo") else { return true };
    // The kernel writes these four as octal escapes, and the mount point as the fifth field.
    let mut wanted = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => wanted.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => wanted.push(byte),
        }
    }
    if wanted != b"/" {
        wanted.push(b'/');
    }
    let mut points = mounts.split(|&byte| byte == b'\n').filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    points.any(|point| point.len() > wanted.len() && point.starts_with(&wanted))
}
