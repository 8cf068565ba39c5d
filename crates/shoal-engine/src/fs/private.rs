//! The directory `.shoal` and the files in it: opened without following links, readable by their owner only.
//!
//! Here: creating and opening that directory, creating files in it, the ballast, the boot id. Not here: the lock
//! (`lock.rs`), the contents of the files (`journal/`), the files of the user.
//!
//! Everything is opened relative to a directory fd and one component at a time, so `O_NOFOLLOW` rejects every link below
//! the destination. The destination's own path may contain links and is resolved once.

#![allow(clippy::disallowed_methods)]

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::plain;
use super::storage::REMOTE;
use super::sync::sync_directory;
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::name::{JOB, PARTS_DIR, SHOAL_DIR};

/// For the owner only, because a journal has names and sources.
const DIR_MODE: Mode = Mode::RWXU;
/// Likewise for files.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Largest file that is read as a whole, in bytes.
const SMALL_MAX: u64 = 1 << 20;
/// Bits of `st_mode` that give permissions to others than the owner.
const OTHERS: u32 = 0o077;

/// A directory with files of shoal's own.
#[derive(Debug)]
pub struct PrivateDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDir {
    /// Opens `.shoal` in `destination`, and creates both if they are missing.
    ///
    /// # Errors
    /// [`Kind::Journal`] if `.shoal` is a link or no directory; the kinds of a full or read-only file system.
    pub fn create(destination: &Path) -> Result<PrivateDir> {
        std::fs::create_dir_all(destination)
            .map_err(|error| io_fault("the destination cannot be created", destination, error))?;
        Self::around(destination)?.create_in(OsStr::new(SHOAL_DIR))
    }

    /// Opens a directory of shoal's own in this one, and creates it if it is missing.
    ///
    /// # Errors
    /// As [`PrivateDir::create`].
    pub fn create_in(&self, name: &OsStr) -> Result<PrivateDir> {
        let failed = |what, errno| fault(what, &self.path.join(name), errno);
        match rustix::fs::mkdirat(&self.fd, name, DIR_MODE) {
            // The entry must survive a power cut, or the journal would be lost as a whole.
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed("cannot be made", errno)),
        }
        self.open_in(name)?.ok_or_else(|| failed("cannot be opened", Errno::NOENT))
    }

    /// Opens `.shoal` in `destination` if it is there.
    ///
    /// # Errors
    /// [`Kind::Journal`] if it is a link, no directory, or may not be read.
    pub fn open(destination: &Path) -> Result<Option<PrivateDir>> {
        match std::fs::symlink_metadata(destination) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            _ => Self::around(destination)?.open_in(OsStr::new(SHOAL_DIR)),
        }
    }

    /// Opens a directory that is not shoal's own, such as that of `journal=PATH`. Its mode does not change.
    ///
    /// # Errors
    /// [`Kind::Journal`] if it is missing or may not be read.
    pub fn around(directory: &Path) -> Result<PrivateDir> {
        let path = std::fs::canonicalize(directory)
            .map_err(|error| io_fault("the directory cannot be opened", directory, error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|errno| fault("the directory cannot be opened", &path, errno))?;
        Ok(PrivateDir { fd, path })
    }

    /// Refuses a run without parts, if this `.shoal` is that of a destination which a job writes in parts.
    ///
    /// # Errors
    /// [`Kind::Config`] if it is; else as [`PrivateDir::open_in`].
    pub fn keep_out_of_parts(&self) -> Result<()> {
        let in_parts = match self.open_in(OsStr::new(PARTS_DIR))? {
            Some(parts) => parts.has_file(OsStr::new(JOB))?,
            None => false,
        };
        if !in_parts {
            return Ok(());
        }
        let destination = self.path.parent().unwrap_or(&self.path);
        Err(Error::new(Kind::Config, "this destination is written in parts, so a run needs `part`")
            .on(&escape(destination.as_os_str().as_bytes()))
            .hint("use `part` with the job's number of parts, or choose another destination"))
    }

    /// The directory's fd.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The directory's path, free of links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory of shoal's own in this one, and takes the permissions of others away. `None` if it is missing.
    ///
    /// # Errors
    /// [`Kind::Journal`] if it is a link, no directory, or may not be read.
    pub fn open_in(&self, name: &OsStr) -> Result<Option<PrivateDir>> {
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
            // A file system without permissions rejects or ignores this, and needs none.
            let _ = rustix::fs::fchmod(&fd, DIR_MODE);
        }
        Ok(Some(PrivateDir { fd, path }))
    }

    /// Opens a regular file for the lock, and creates it if `create`. Never use this on a database: closing any fd of one
    /// releases the POSIX locks that SQLite holds on it.
    pub(super) fn file(&self, name: &OsStr, create: bool) -> Result<Option<OwnedFd>> {
        let mut flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK; // opening a FIFO must not wait
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

    /// Whether a regular file with that name exists. It is not opened.
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

    /// Creates an empty file that only its owner may read, unless there is one. SQLite gives the mode of a database to the
    /// files beside it, so this is enough for all of them.
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
        // Restores what the umask took away. A file system without permissions rejects this and needs none.
        let _ = rustix::fs::fchmod(&file, FILE_MODE);
        self.sync()
    }

    /// Reads a small file. `None` if it is missing.
    ///
    /// # Errors
    /// [`Kind::Journal`] if it is not a regular file, is larger than 1 MiB, or cannot be read.
    pub fn read(&self, name: &OsStr) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name, false)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let limit = SMALL_MAX + 1;
        match std::io::Read::read_to_end(&mut std::io::Read::take(std::fs::File::from(file), limit), &mut bytes) {
            Ok(read) if (read as u64) < limit => Ok(Some(bytes)),
            Ok(_) => Err(fault("cannot be read", &self.path.join(name), Errno::FBIG)),
            Err(error) => Err(io_fault("cannot be read", &self.path.join(name), error)),
        }
    }

    /// Creates a small file, whole or not at all: it is durable when this returns. Returns false if there is one already:
    /// on a network, another machine may have created it, and this one may not have noticed. The caller has a lock.
    ///
    /// # Errors
    /// The kinds of a full or read-only file system.
    pub fn create_whole(&self, name: &OsStr, bytes: &[u8]) -> Result<bool> {
        let mut temporary = name.to_owned();
        temporary.push(".new");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = rustix::fs::openat(&self.fd, &temporary, flags, FILE_MODE).and_then(|file| {
            let mut left = bytes;
            while !left.is_empty() {
                left = &left[rustix::io::write(&file, left)?..];
            }
            rustix::fs::fsync(&file)?;
            // The server decides, whatever this machine has cached. Not every file system has hard links.
            match rustix::fs::linkat(&self.fd, &temporary, &self.fd, name, AtFlags::empty()) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(_) => rustix::fs::renameat(&self.fd, &temporary, &self.fd, name).map(|()| true),
            }
        });
        let _ = self.remove(&temporary); // the next one that creates it writes over it
        let created = written.map_err(|errno| fault("cannot be made", &self.path.join(name), errno))?;
        self.sync().map(|()| created)
    }

    /// Creates a file of `length` bytes that really takes that much space: of random bytes, because zeros may be stored as
    /// a hole and a pattern may be compressed. An existing one stays.
    ///
    /// # Errors
    /// The kinds of a full or read-only file system. Nothing is left then.
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

    /// Removes a file. Returns whether there was one.
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

    /// Checks that the path still leads to this directory: SQLite opens by path, and another directory could have
    /// replaced this one in between.
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

    /// Whether programs on this machine can share memory through files here. SQLite's write-ahead log needs that, and
    /// notices too late if it does not work. So network and user-space file systems are not trusted.
    pub fn shares_memory(&self) -> bool {
        // The type's width differs between architectures; every magic number fits in 32 bits.
        rustix::fs::fstatfs(&self.fd).is_ok_and(|stat| !REMOTE.contains(&(stat.f_type as u32)))
    }

    /// Makes the entries of this directory durable.
    fn sync(&self) -> Result<()> {
        sync_directory(&self.fd).map_err(|failed| fault("cannot be synced", &self.path, failed.errno))
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

/// An id that changes with every boot of this machine. `None` if the kernel has none.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// An error of the operating system, on a path.
pub(super) fn fault(what: &str, path: &Path, errno: Errno) -> Error {
    io_fault(what, path, errno.into())
}

fn io_fault(what: &str, path: &Path, error: std::io::Error) -> Error {
    let errno = error.raw_os_error();
    let kind = match errno.map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => Kind::DestinationFull,
        Some(Errno::ROFS) => Kind::DestinationReadOnly,
        _ => Kind::Journal,
    };
    Error::new(kind, format!("{what}: {}", plain(error))).on(&escape(path.as_os_str().as_bytes())).errno(errno)
}
