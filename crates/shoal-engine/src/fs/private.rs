//! The directory `.shoal` and the files in it: opened without following links, readable by their owner only.
//!
//! Here: making and opening that directory, creating files in it, the ballast, the boot id. Not here: the lock
//! (`lock.rs`), what stands in the files (`journal/`), the files a user asked for.
//!
//! Everything is opened relative to a directory fd and by one component at a time, so `O_NOFOLLOW` refuses every link
//! there is below the destination; the destination's own path may contain links and is resolved once.

#![allow(clippy::disallowed_methods)]

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::storage::REMOTE;
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// The name of shoal's own directory in a destination.
pub const SHOAL_DIR: &str = ".shoal";
/// Owner only: names and sources in a journal are nobody else's business.
const DIR_MODE: Mode = Mode::RWXU;
/// Likewise for files.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Kind and permission bits in `st_mode` that others than the owner hold.
const OTHERS: u32 = 0o077;

/// A directory that holds files of shoal's own.
#[derive(Debug)]
pub struct PrivateDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDir {
    /// Opens `.shoal` in `destination`, making both where they are missing.
    ///
    /// # Errors
    /// [`Kind::Journal`] if `.shoal` is a link or no directory; the kinds of a full or read-only file system.
    pub fn create(destination: &Path) -> Result<PrivateDir> {
        std::fs::create_dir_all(destination)
            .map_err(|error| io_fault("the destination cannot be created", destination, &error))?;
        let parent = Self::around(destination)?;
        match rustix::fs::mkdirat(&parent.fd, SHOAL_DIR, DIR_MODE) {
            // The entry must survive a power cut, or the journal would be lost as a whole.
            Ok(()) => parent.sync()?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(fault("cannot be made", &parent.path.join(SHOAL_DIR), errno)),
        }
        parent.subdirectory(OsStr::new(SHOAL_DIR))?.ok_or_else(|| {
            let path = parent.path.join(SHOAL_DIR);
            fault("cannot be opened", &path, Errno::NOENT)
        })
    }

    /// Opens `.shoal` in `destination` if it is there.
    ///
    /// # Errors
    /// [`Kind::Journal`] if it is a link, no directory, or may not be read.
    pub fn open(destination: &Path) -> Result<Option<PrivateDir>> {
        match std::fs::symlink_metadata(destination) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            _ => Self::around(destination)?.subdirectory(OsStr::new(SHOAL_DIR)),
        }
    }

    /// Opens a directory that is not shoal's own, such as the one a user put a journal in; its mode is left alone.
    ///
    /// # Errors
    /// [`Kind::Journal`] if it is missing or may not be read.
    pub fn around(directory: &Path) -> Result<PrivateDir> {
        let path = std::fs::canonicalize(directory)
            .map_err(|error| io_fault("the directory cannot be opened", directory, &error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|errno| fault("the directory cannot be opened", &path, errno))?;
        Ok(PrivateDir { fd, path })
    }

    /// The directory's fd.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The directory's path, free of links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory of shoal's own in this one, and closes it to others; `None` if it is missing.
    fn subdirectory(&self, name: &OsStr) -> Result<Option<PrivateDir>> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(self.wrong_type(name, "a directory")),
            Err(errno) => return Err(fault("cannot be opened", &path, errno)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|errno| fault("cannot be read", &path, errno))?;
        if stat.st_mode & OTHERS != 0 && stat.st_uid == rustix::process::geteuid().as_raw() {
            // A file system without permissions refuses or ignores this; there is nothing to protect then.
            let _ = rustix::fs::fchmod(&fd, DIR_MODE);
        }
        Ok(Some(PrivateDir { fd, path }))
    }

    /// Opens a regular file, making it if `create`, for the lock. Never use it on a database: closing any fd of one
    /// gives up the POSIX locks that SQLite holds on it.
    pub(super) fn file(&self, name: &OsStr, create: bool) -> Result<Option<OwnedFd>> {
        let mut flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK; // a FIFO must not hold us up
        flags |= if create { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDONLY };
        match rustix::fs::openat(&self.fd, name, flags, FILE_MODE) {
            Ok(fd) => match rustix::fs::fstat(&fd) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Ok(Some(fd)),
                Ok(_) => Err(self.wrong_type(name, "a regular file")),
                Err(errno) => Err(fault("cannot be read", &self.path.join(name), errno)),
            },
            Err(Errno::NOENT) if !create => Ok(None),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => Err(self.wrong_type(name, "a regular file")),
            Err(errno) => Err(fault("cannot be opened", &self.path.join(name), errno)),
        }
    }

    /// Whether a regular file of that name is there; looked up without opening it.
    ///
    /// # Errors
    /// [`Kind::Journal`] if something else has that name.
    pub fn has_file(&self, name: &OsStr) -> Result<bool> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Ok(true),
            Ok(_) => Err(self.wrong_type(name, "a regular file")),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(fault("cannot be read", &self.path.join(name), errno)),
        }
    }

    /// Makes an empty file that only its owner may read, unless one is there. SQLite gives the mode of a database to
    /// the files beside it, so this one call settles them all.
    ///
    /// # Errors
    /// As [`PrivateDir::has_file`], and the kinds of a full or read-only file system.
    pub fn ensure_file(&self, name: &OsStr) -> Result<()> {
        if self.has_file(name)? {
            return Ok(());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, name, flags, FILE_MODE)
            .map_err(|errno| fault("cannot be made", &self.path.join(name), errno))?;
        // Whatever the umask took away. A file system without permissions refuses; there is nothing to protect then.
        let _ = rustix::fs::fchmod(&file, FILE_MODE);
        self.sync()
    }

    /// Makes a file of `length` bytes that really takes that much room: random bytes, since zeros may be stored as a
    /// hole and a pattern may be compressed. One that is there already stays.
    ///
    /// # Errors
    /// The kinds of a full or read-only file system; nothing is left behind then.
    pub fn reserve(&self, name: &OsStr, length: usize) -> Result<()> {
        let there = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|stat| stat.st_size as u64 >= length as u64) {
            return Ok(());
        }
        self.remove(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let filled = rustix::fs::openat(&self.fd, name, flags, FILE_MODE).and_then(|fd| {
            let mut block = [0; 64 << 10];
            let mut left = length;
            while left > 0 {
                let part = left.min(block.len());
                fastrand::fill(&mut block[..part]);
                left -= rustix::io::write(&fd, &block[..part])?;
            }
            rustix::fs::fdatasync(fd) // delayed allocation ends here
        });
        filled.map_err(|errno| {
            let _ = self.remove(name);
            fault("cannot be made", &self.path.join(name), errno)
        })
    }

    /// Removes a file; whether there was one.
    ///
    /// # Errors
    /// [`Kind::Journal`] if it cannot be removed.
    pub fn remove(&self, name: &OsStr) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(fault("cannot be removed", &self.path.join(name), errno)),
        }
    }

    /// Whether the path still leads to this directory: SQLite opens by path, so somebody could have put another in
    /// its place in between.
    ///
    /// # Errors
    /// [`Kind::Journal`] if it does not.
    pub fn check_unmoved(&self) -> Result<()> {
        let ours = rustix::fs::fstat(&self.fd);
        let there = rustix::fs::statat(rustix::fs::CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        match (ours, there) {
            (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) => Ok(()),
            (Ok(_), Ok(_)) => Err(Error::new(Kind::Journal, "was replaced while it was being opened")
                .on(&escape(self.path.as_os_str().as_bytes()))),
            (Err(errno), _) | (_, Err(errno)) => Err(fault("cannot be read", &self.path, errno)),
        }
    }

    /// Whether programs on this machine can share memory through files here. Network and user-space file systems are
    /// not trusted with it: SQLite's write-ahead log needs it, and finds out too late where it does not hold.
    pub fn shares_memory(&self) -> bool {
        // The type's width differs between architectures; every magic number fits in 32 bits.
        rustix::fs::fstatfs(&self.fd).is_ok_and(|stat| !REMOTE.contains(&(stat.f_type as u32)))
    }

    /// Makes the entries of this directory durable.
    fn sync(&self) -> Result<()> {
        match rustix::fs::fsync(&self.fd) {
            // Some file systems cannot sync a directory and say so.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(errno) => Err(fault("cannot be synced", &self.path, errno)),
        }
    }

    fn wrong_type(&self, name: &OsStr, wanted: &str) -> Error {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink());
        let why = match is_link {
            true => format!("is a symbolic link, but shoal keeps its journal only in {wanted}"),
            false => format!("is not {wanted}, so the journal cannot be kept there"),
        };
        Error::new(Kind::Journal, why)
            .on(&escape(self.path.join(name).as_os_str().as_bytes()))
            .hint("remove it, or keep the journal elsewhere with `journal`")
    }
}

/// Whether a path, links followed, leads to a directory.
pub fn is_directory(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// What changes with every boot of this machine; `None` where the kernel does not say.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// An error of the operating system, on a path.
pub(super) fn fault(what: &str, path: &Path, errno: Errno) -> Error {
    io_fault(what, path, &std::io::Error::from(errno))
}

fn io_fault(what: &str, path: &Path, error: &std::io::Error) -> Error {
    let errno = error.raw_os_error();
    let kind = match errno.map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => Kind::DestinationFull,
        Some(Errno::ROFS) => Kind::DestinationReadOnly,
        _ => Kind::Journal,
    };
    Error::new(kind, format!("{what}: {}", plain(error))).on(&escape(path.as_os_str().as_bytes())).errno(errno)
}

/// The system's words in lower case and without the number, which the error carries anyway.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}
