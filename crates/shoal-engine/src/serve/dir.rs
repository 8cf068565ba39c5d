//! A directory as it is served: opening one object below the root, and walking the whole tree for a snapshot.
//!
//! Every path is resolved by the kernel from the root's descriptor, never by its text: beneath the root, through no link
//! of any kind (openat2). Only regular files are objects; `.shoal`, in any case, is none.
//! Not here: sorting and keeping names (`snapshot.rs`).

use super::snapshot::{Skipped, Sorter};
use crate::fs::read;
use crate::fs::root::lasting_identity;
use crate::name::is_shoal_dir;
use hyper::StatusCode;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest path that one system call takes (PATH_MAX less its NUL); a longer name could be listed but not opened.
const NAME_MAX: usize = 4095;
/// Objects up to this size are answered from one read.
pub(super) const WHOLE_MAX: u64 = 64 * 1024;
/// Bytes for one reading of a directory: some hundred entries a system call.
const ENTRIES: usize = 64 * 1024;

/// The root of what is served.
#[derive(Debug)]
pub(super) struct Directory {
    root: OwnedFd,
    identity: u64,
}

/// A refusal to a client: the status and a short text for it.
pub(super) type Refusal = (StatusCode, &'static str);

const NOT_FOUND: Refusal = (StatusCode::NOT_FOUND, "there is no object of this name");

/// One object, opened; its version is that of the moment of opening.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: OwnedFd,
    stat: Stat,
    /// The coarse time before it was opened.
    opened: i128,
}

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // The root itself may be reached through a link: the user named it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let identity = xxhash_rust::xxh3::xxh3_64(&lasting_identity(&root));
        let directory = Self { root, identity };
        directory.open_beneath(c".", OFlags::DIRECTORY)?;
        Ok(directory)
    }

    /// Tells this directory from any other one, also after a restart. A copy of a whole file system cannot be told from it.
    pub(super) fn identity(&self) -> u64 {
        self.identity
    }

    /// Opens the object of this name; the name is decoded and still a stranger's.
    pub(super) fn object(&self, name: &[u8]) -> Result<OpenFile, Refusal> {
        if let Some(text) = unsafe_name(name) {
            return Err((StatusCode::BAD_REQUEST, text));
        }
        if is_private(name) {
            return Err(NOT_FOUND);
        }
        let mut path = Vec::with_capacity(name.len() + 1);
        path.extend_from_slice(name);
        path.push(0);
        let path = CStr::from_bytes_with_nul(&path).map_err(|_| {
            (
                StatusCode::BAD_REQUEST,
                "a name cannot contain \
        NUL",
            )
        })?;
        let opened = read::coarse_now();
        // Looked at before it is opened: opening a device can have effects of its own (a tape is wound back, a watchdog
        // armed). Where links on the way lead this look elsewhere, opening fails.
        let stat = rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW).map_err(refusal)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(NOT_FOUND);
        }
        // O_NONBLOCK: one that has become a named pipe must not make this wait for its writer.
        let file = self.open_beneath(path, OFlags::NONBLOCK | OFlags::NOCTTY).map_err(refusal)?;
        let mut found = OpenFile { file, stat, opened };
        // Below /proc there are files that say they are empty, and are not.
        if found.size() == 0 && !found.read(0, 1).map_err(|_| READ_FAILED)?.is_empty() {
            return Err(READ_FAILED);
        }
        // What is read at once is compared with this look when it has been read.
        if found.size() > WHOLE_MAX {
            found.stat = rustix::fs::fstat(&found.file).map_err(|_| READ_FAILED)?;
            if FileType::from_raw_mode(found.stat.st_mode) != FileType::RegularFile {
                return Err(NOT_FOUND);
            }
        }
        Ok(found)
    }

    fn open_beneath(&self, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        retry_on_intr(|| rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve))
    }

    /// Hands every object's name to the sorter, in the order of the directories themselves.
    pub(super) fn walk(&self, sorter: &mut Sorter, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![MaybeUninit::uninit(); ENTRIES];
        // Each entry is the path of a directory with its trailing '/', the root the empty path.
        let mut left = vec![Vec::new()];
        while let Some(path) = left.pop() {
            if stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("the service is stopping"));
            }
            self.walk_one(&path, &mut buffer, &mut left, sorter)?;
        }
        Ok(())
    }

    fn walk_one(
        &self,
        path: &[u8],
        buffer: &mut [MaybeUninit<u8>],
        left: &mut Vec<Vec<u8>>,
        sorter: &mut Sorter,
    ) -> io::Result<()> {
        let Some(directory) = self.open_to_walk(path, sorter.skipped())? else {
            return Ok(());
        };
        let mut entries = RawDir::new(&directory, buffer);
        let mut name = path.to_vec();
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // The directory was removed while it was read.
                Err(Errno::NOENT | Errno::STALE) => {
                    sorter.skipped().vanished += 1;
                    break;
                }
                entry => entry?,
            };
            let last = entry.file_name().to_bytes();
            if matches!(last, b"." | b"..") || (path.is_empty() && is_private(last)) {
                continue;
            }
            name.truncate(path.len());
            name.extend_from_slice(last);
            match kind(&directory, entry.file_type(), entry.file_name())? {
                Some(FileType::RegularFile) if name.len() > NAME_MAX => sorter.skipped().names += 1,
                Some(FileType::RegularFile) if std::str::from_utf8(&name).is_err() => {
                    sorter.skipped().names += 1;
                }
                Some(FileType::RegularFile) => sorter.push(&name)?,
                Some(FileType::Directory) => {
                    name.push(b'/');
                    left.push(name.clone());
                }
                Some(_) => sorter.skipped().not_files += 1,
                // Where the file system does not tell what an entry is, it may have been a directory.
                None => sorter.skipped().vanished += 1,
            }
        }
        Ok(())
    }

    /// `None` where it may not be walked or is gone: that is counted.
    fn open_to_walk(&self, path: &[u8], skipped: &mut Skipped) -> io::Result<Option<OwnedFd>> {
        let mut text = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
        text.push(0);
        let text = CStr::from_bytes_with_nul(&text).map_err(io::Error::other)?;
        match self.open_beneath(text, OFlags::DIRECTORY) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::ACCESS | Errno::PERM | Errno::NAMETOOLONG) => {
                skipped.unreadable += 1;
                Ok(None)
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE) if !path.is_empty() => {
                skipped.vanished += 1;
                Ok(None)
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

const READ_FAILED: Refusal = (StatusCode::INTERNAL_SERVER_ERROR, "the object cannot be read; see the server's disk");

impl OpenFile {
    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// A strong tag: another file under the name, or any write to this one, changes it. The change time is part of it
    /// because the modification time can be set back. A file that has just changed can change again and keep its times:
    /// each answer has a tag of its own then, by the clock, so that no later one is taken for the same version.
    pub(super) fn tag(&self) -> Vec<u8> {
        let stat = &self.stat;
        let fresh = match read::settled(read::nanoseconds(stat.st_ctime, stat.st_ctime_nsec), self.opened) {
            true => String::new(),
            false => format!("-{:x}", read::now()),
        };
        format!(
            "\"{:x}-{:x}-{:x}.{:x}-{:x}.{:x}{fresh}\"",
            stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec
        )
        .into_bytes()
    }

    /// Up to `length` bytes from `first` on; fewer only where the file ends.
    pub(super) fn read(&self, first: u64, length: usize) -> io::Result<Vec<u8>> {
        Ok(read::bytes_at(self.file.as_fd(), first, length)?)
    }

    /// A part of it that must be there in full, and of the version that the tag names.
    pub(super) fn read_exactly(&self, first: u64, length: usize) -> Result<Vec<u8>, Refusal> {
        match self.read(first, length).and_then(|bytes| Ok((bytes.len() < length || self.changed()?, bytes))) {
            Ok((false, bytes)) => Ok(bytes),
            Ok(_) => Err((StatusCode::SERVICE_UNAVAILABLE, "the object changed while it was read; try again")),
            Err(_) => Err(READ_FAILED),
        }
    }

    /// Whether the file was written to since it was looked at, or another one took its name before it was opened.
    pub(super) fn changed(&self) -> io::Result<bool> {
        let now = rustix::fs::fstat(&self.file)?;
        let file = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_size);
        let times = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
        Ok(file(&now) != file(&self.stat) || times(&now) != times(&self.stat))
    }
}

/// Why an object cannot be opened, as a client is told.
fn refusal(errno: Errno) -> Refusal {
    match errno {
        Errno::ACCESS | Errno::PERM => (StatusCode::FORBIDDEN, "the service may not read this object"),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            (StatusCode::SERVICE_UNAVAILABLE, "too many files are open; try again")
        }
        // A file that another process has leased, a network file system that does not answer.
        Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR => {
            (StatusCode::SERVICE_UNAVAILABLE, "the object cannot be opened at the moment; try again")
        }
        // Missing, a link, a directory on the way that is none, a socket, too long: no such object.
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::ISDIR
        | Errno::LOOP
        | Errno::XDEV
        | Errno::NXIO
        | Errno::NODEV
        | Errno::NAMETOOLONG
        | Errno::INVAL
        | Errno::OPNOTSUPP => NOT_FOUND,
        _ => READ_FAILED,
    }
}

/// What an entry is; asked of the file where the directory does not say. `None` where it is gone.
fn kind(directory: &OwnedFd, told: FileType, name: &CStr) -> io::Result<Option<FileType>> {
    if told != FileType::Unknown {
        return Ok(Some(told));
    }
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Why a name can be no object's, whatever the disk holds.
pub(super) fn unsafe_name(name: &[u8]) -> Option<&'static str> {
    if name.contains(&0) {
        return Some("a name cannot contain NUL");
    }
    name.split(|byte| *byte == b'/')
        .any(|part| matches!(part, b"" | b"." | b".."))
        .then_some("a name must be a relative path without empty, \".\" or \"..\" parts")
}

/// Whether the first component is `.shoal`, where the engine keeps its own files.
fn is_private(name: &[u8]) -> bool {
    let first = name.split(|byte| *byte == b'/').next().unwrap_or(name);
    is_shoal_dir(first)
}
