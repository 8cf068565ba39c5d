//! `Dir`: an open directory. Everything in it is reached by one component relative to its fd.
//!
//! Here: opening, creating, stat, renaming and removing, none of which follows a link. Not here: contents of files
//! (`file.rs`), durability (`sync.rs`), which names are used for what (`sink/dir/`).
//!
//! Only the path of the root is resolved by name, once. Below it each step takes one component from a [`Name`], which has
//! no `..`, so `O_NOFOLLOW` alone keeps every step inside. The `RESOLVE_*` flags of openat2 ensure it a second time.
//!
//! [`Name`]: crate::name::Name

#![allow(clippy::disallowed_methods)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags};
use rustix::io::{Errno, Result};

/// Rejects links of any kind, and `..`.
pub(super) const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// Readable, because a directory opened with `O_PATH` can be neither synced nor locked.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A new file. If anything has the name, even a dangling link, the error is `EEXIST`.
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The permissions of a new file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The usual ones: for everyone, less the umask.
    Usual,
    /// These permission bits, less the umask. The owner may always use a directory.
    Bits(u32),
    /// For the owner only.
    Owner,
}

impl Access {
    fn file(self) -> Mode {
        match self {
            Access::Usual => Mode::from_raw_mode(0o666),
            Access::Bits(bits) => Mode::from_raw_mode(bits & 0o777),
            Access::Owner => Mode::from_raw_mode(0o600),
        }
    }

    fn directory(self) -> Mode {
        match self {
            Access::Usual => Mode::from_raw_mode(0o777),
            Access::Bits(bits) => Mode::from_raw_mode(bits & 0o777 | 0o700),
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
    /// When it was created, in nanoseconds since 1970 on the file system's clock. `None`: the file system does not store
    /// that.
    pub born: Option<i64>,
    /// The change time, in the same unit. No program can set it.
    pub changed: i64,
    /// The modification time, which programs can set.
    pub written: i64,
    /// Length in bytes.
    pub size: u64,
    /// Kind and permission bits.
    pub mode: u32,
    /// Names of it.
    pub links: u32,
    /// The number of its user.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
    /// Which one it is.
    pub id: FileId,
}

/// Which file or directory it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    /// Its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// Which directory on which mount of which file system: renames work within one mount only, and syncfs covers one device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryId {
    device: (u32, u32),
    /// 0 before Linux 5.8. Then a bind mount is detected when the rename fails.
    mount: u64,
    inode: u64,
}

impl DirectoryId {
    /// Whether a rename from one to the other is possible.
    pub(crate) fn is_on_mount_of(&self, other: &DirectoryId) -> bool {
        (self.device, self.mount) == (other.device, other.mount)
    }

    /// Whether they are the same directory.
    pub(crate) fn is(&self, other: &DirectoryId) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
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

    /// Creates a directory in this one, unless it exists.
    pub(crate) fn make(&self, component: &[u8], access: Access) -> Result<()> {
        match rustix::fs::mkdirat(&self.0, component, access.directory()) {
            Err(Errno::EXIST) => Ok(()),
            result => result,
        }
    }

    /// Creates a file. `EEXIST` if the name is taken.
    pub(crate) fn create(&self, name: &[u8], access: Access) -> Result<OwnedFd> {
        self.enter(name, NEW_FILE, access.file())
    }

    /// Opens a file for reading.
    pub(crate) fn read(&self, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        self.enter(name, flags, Mode::empty())
    }

    /// Opens a file for writing.
    pub(crate) fn write(&self, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        self.enter(name, flags, Mode::empty())
    }

    /// Makes a symbolic link. `EEXIST` if the name is taken.
    pub(crate) fn make_link(&self, text: &[u8], name: &[u8]) -> Result<()> {
        rustix::fs::symlinkat(text, &self.0, name)
    }

    /// The path that a symbolic link leads to.
    pub(crate) fn link_text(&self, name: &[u8]) -> Result<Vec<u8>> {
        rustix::fs::readlinkat(&self.0, name, Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// Sets the modification time of a symbolic link.
    pub(crate) fn set_link_time(&self, name: &[u8], time: std::time::SystemTime) -> Result<()> {
        rustix::fs::utimensat(&self.0, name, &super::file::modified(time), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Sets user and group of a symbolic link.
    pub(crate) fn set_link_owner(&self, name: &[u8], user: u32, group: u32) -> Result<()> {
        let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
        rustix::fs::chownat(&self.0, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Gives a file in this directory another name. `EEXIST` if that is taken.
    pub(crate) fn add_name(&self, from: &[u8], to: &Dir, name: &[u8]) -> Result<()> {
        rustix::fs::linkat(&self.0, from, &to.0, name, AtFlags::empty())
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, name: &[u8]) -> Result<()> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)
    }

    /// Sets the permission bits of the directory `component` in this one, which may not be opened.
    pub(crate) fn set_mode_of(&self, component: &[u8], mode: u32) -> Result<()> {
        rustix::fs::chmodat(&self.0, component, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())
    }

    /// Creates a file without a name, for [`Dir::name`]. The kernel removes it with its fd.
    pub(crate) fn nameless(&self, access: Access) -> Result<OwnedFd> {
        self.enter(b".", OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, access.file())
    }

    /// Gives a nameless file a name that nothing has.
    pub(crate) fn name(&self, file: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        // AT_EMPTY_PATH would need a capability before Linux 6.10. Through /proc, none is needed.
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, path, &self.0, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Sets the permission bits. A file system without permissions may reject this, which is no failure.
    pub(crate) fn set_mode(&self, mode: u32) {
        let _ = rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode & 0o7777));
    }

    /// Whether this process may create files in it.
    pub(crate) fn takes_files(&self) -> bool {
        let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(&self.0, c".", wanted, AtFlags::EACCESS).is_ok()
    }

    /// What `name` is.
    pub(crate) fn look(&self, name: &[u8]) -> Result<Look> {
        rustix::fs::statx(&self.0, name, AtFlags::SYMLINK_NOFOLLOW, LOOKED_AT).map(|found| look(&found))
    }

    /// What this directory itself is, and which one.
    pub(crate) fn place(&self) -> Result<(Look, DirectoryId)> {
        let wanted = LOOKED_AT | StatxFlags::MNT_ID | StatxFlags::INO;
        let found = rustix::fs::statx(&self.0, c"", AtFlags::EMPTY_PATH, wanted)?;
        let mount = match found.stx_mask & StatxFlags::MNT_ID.bits() != 0 {
            true => found.stx_mnt_id,
            false => 0,
        };
        let device = (found.stx_dev_major, found.stx_dev_minor);
        Ok((look(&found), DirectoryId { device, mount, inode: found.stx_ino }))
    }

    /// Moves a file to a name that nothing has; `EEXIST` otherwise. Returns whether that was atomic: some file systems
    /// support neither the flag nor links, and then a kill in between can leave an empty file.
    pub(crate) fn rename_new(&self, from: &[u8], to: &Dir, name: &[u8]) -> Result<bool> {
        match rustix::fs::renameat_with(&self.0, from, &to.0, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            result => return result.map(|()| true),
        }
        match rustix::fs::linkat(&self.0, from, &to.0, name, AtFlags::empty()) {
            Ok(()) => return self.remove(from).map(|()| true),
            // The errors of file systems without links. (A temporary file cannot have too many.)
            Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::MLINK | Errno::INVAL | Errno::ACCESS) => {}
            Err(errno) => return Err(errno),
        }
        drop(to.create(name, Access::Owner)?); // takes the name; then the file replaces it
        let moved = self.rename_over(from, to, name);
        if moved.is_err() {
            let _ = to.remove(name);
        }
        moved.map(|()| false)
    }

    /// Moves a file to a name and replaces what had it. A link there is replaced, not followed.
    pub(crate) fn rename_over(&self, from: &[u8], to: &Dir, name: &[u8]) -> Result<()> {
        rustix::fs::renameat(&self.0, from, &to.0, name)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &[u8]) -> Result<()> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::empty())
    }

    /// Calls `each` with the names in it, except `.` and `..`, until it fails.
    pub(crate) fn names(&self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            match entry?.file_name().to_bytes() {
                b"." | b".." => {}
                name => each(name)?,
            }
        }
        Ok(())
    }

    /// Whether an entry has exactly these bytes. This reads the directory, so it is only for file systems that fold names.
    pub(crate) fn has_entry(&self, name: &[u8]) -> Result<bool> {
        match self.names(|entry| if entry == name { Err(Errno::EXIST) } else { Ok(()) }) {
            Err(Errno::EXIST) => Ok(true),
            result => result.map(|()| false),
        }
    }

    /// Whether different names can mean the same file here, as far as the directory has a flag for that.
    pub(crate) fn is_marked_folding(&self) -> bool {
        /// `FS_CASEFOLD_FL`: ext4, f2fs and tmpfs set it for each directory.
        const CASEFOLD: u32 = 0x4000_0000;
        rustix::fs::ioctl_getflags(&self.0).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
    }

    fn enter(&self, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        loop {
            match rustix::fs::openat2(&self.0, name, flags, mode, INSIDE) {
                // Sandboxes without openat2 (old ones return EPERM). The text of the module says why this is as safe.
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

/// The fields of [`Look`].
const LOOKED_AT: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

fn look(found: &rustix::fs::Statx) -> Look {
    Look {
        kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
        born: (found.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| nanoseconds(found.stx_btime)),
        changed: nanoseconds(found.stx_ctime),
        written: nanoseconds(found.stx_mtime),
        size: found.stx_size,
        mode: u32::from(found.stx_mode),
        links: found.stx_nlink,
        user: found.stx_uid,
        group: found.stx_gid,
        id: FileId { device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino },
    }
}

/// What an open file is.
pub(crate) fn look_at(file: BorrowedFd<'_>) -> Result<Look> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, LOOKED_AT).map(|found| look(&found))
}

pub(super) fn nanoseconds(time: rustix::fs::StatxTimestamp) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.tv_nsec))
}

/// Creates a directory and its parents by path, if they are missing. The path may contain links.
pub(crate) fn make_path(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

/// The same. A new directory has these permission bits, less the umask; an existing one keeps its own.
pub(crate) fn make_path_with(path: &Path, bits: u32) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    match std::fs::DirBuilder::new().mode(bits | 0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// The path without links, or unchanged if it cannot be resolved.
pub(crate) fn resolved(path: &Path) -> std::path::PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The same for a path whose end may not exist yet.
pub(crate) fn resolved_beyond(path: &Path) -> std::path::PathBuf {
    match (std::fs::canonicalize(path), path.parent(), path.file_name()) {
        (Ok(resolved), ..) => resolved,
        (Err(_), Some(parent), Some(name)) => resolved_beyond(parent).join(name),
        _ => path.to_owned(),
    }
}

/// Whether something is mounted below a directory, whose path must have no links. `true` if that is unknown.
pub(crate) fn has_mounts_below(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(mounts) = std::fs::read("/proc/thread-self/mountinfo") else { return true };
    // The kernel escapes these four in octal. The fifth field is the mount point.
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
