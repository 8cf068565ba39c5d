//! Reading directories of a source, a block at a time, in the order of the file system.
//!
//! Here: opening a directory below a root, one `getdents` call as a [`Block`], the kind of an entry. Not here: the order of
//! a walk and which entries are wanted (`source/files/`), contents of files (`read.rs`).

#![allow(clippy::disallowed_methods)]

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::{Errno, Result};

use super::dir::{Dir, FileId, INSIDE};
use super::read::nanoseconds;

/// Links that the kernel follows on the way to one file.
const LINKS_MAX: u32 = 40;

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
    /// The file system does not say; [`Dir::kind`] does.
    Unknown,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::File, Kind::Directory, Kind::Link, Kind::Pipe, Kind::Socket, Kind::Device, Kind::Unknown];

    fn of(found: FileType) -> Kind {
        match found {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            FileType::Fifo => Kind::Pipe,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Kind::Device,
            FileType::Unknown => Kind::Unknown,
        }
    }
}

/// The kind of what is at a path, which may contain links. `follow`: also as its last component.
pub(crate) fn kind_of(path: &Path, follow: bool) -> Result<Kind> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let found = rustix::fs::statat(rustix::fs::CWD, path, flags)?;
    Ok(Kind::of(FileType::from_raw_mode(found.st_mode)))
}

/// Entries of a directory that were read and not yet used.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Of each entry: its kind, the length of its name, the name.
    bytes: Vec<u8>,
    at: usize,
    /// It has the last entries of the directory.
    ended: bool,
}

impl Block {
    /// The next entry.
    pub(crate) fn peek(&self) -> Option<(Kind, &[u8])> {
        entry(&self.bytes, self.at).map(|(kind, name, _)| (kind, name))
    }

    /// Moves on by one entry.
    pub(crate) fn advance(&mut self) {
        if let Some((_, _, next)) = entry(&self.bytes, self.at) {
            self.at = next;
        }
    }

    /// Whether it has the last entries of the directory.
    pub(crate) fn is_last(&self) -> bool {
        self.ended
    }

    /// The position of the next entry, for [`Block::at`].
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// The entry at a position, and the position of the one after it.
    pub(crate) fn at(&self, position: usize) -> Option<(Kind, &[u8], usize)> {
        entry(&self.bytes, position)
    }

    /// Bytes of its entries.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the next block of the same directory.
    pub(crate) fn append(&mut self, next: Block) {
        self.bytes.extend_from_slice(&next.bytes);
        self.ended = next.ended;
    }

    /// Whether it holds an entry of such a kind.
    pub(crate) fn any(&self, wanted: impl Fn(Kind) -> bool) -> bool {
        let mut at = 0;
        while let Some((kind, _, next)) = self.at(at) {
            if wanted(kind) {
                return true;
            }
            at = next;
        }
        false
    }
}

fn entry(bytes: &[u8], at: usize) -> Option<(Kind, &[u8], usize)> {
    let (&[kind, low, high], rest) = bytes.get(at..)?.split_first_chunk::<3>()?;
    let length = usize::from(u16::from_le_bytes([low, high]));
    Some((Kind::ALL[usize::from(kind)], rest.get(..length)?, at + 3 + length))
}

impl Dir {
    /// Opens the directory at `path`, several components below this one. `follow`: links in the path are followed,
    /// wherever they lead. The empty path is this directory.
    pub(crate) fn below(&self, path: &[u8], follow: bool) -> Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = if path.is_empty() { b"." } else { path };
        loop {
            let opened = match follow {
                true => rustix::fs::openat(self.as_fd(), path, flags, Mode::empty()),
                false => rustix::fs::openat2(self.as_fd(), path, flags, Mode::empty(), INSIDE),
            };
            match opened {
                Err(Errno::INTR | Errno::AGAIN) => {}
                // Sandboxes without openat2, and paths that are too long for one call: a component at a time.
                Err(Errno::NOSYS | Errno::PERM) if !follow => return self.step_by_step(path, follow),
                Err(Errno::NAMETOOLONG) => return self.step_by_step(path, follow),
                result => return result.map(Dir::from),
            }
        }
    }

    fn step_by_step(&self, path: &[u8], follow: bool) -> Result<Dir> {
        let step = |from: &Dir, component: &[u8]| match follow {
            true => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                rustix::fs::openat(from.as_fd(), component, flags, Mode::empty()).map(Dir::from)
            }
            false => from.open(component),
        };
        let mut directory = step(self, if path.starts_with(b"/") { b"/" } else { b"." })?;
        for component in path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
            directory = step(&directory, component)?;
        }
        Ok(directory)
    }

    /// Reads on in this directory: about `size` bytes of entries, without `.` and `..`.
    pub(crate) fn block(&self, size: usize) -> Result<Block> {
        let mut raw: Vec<u8> = Vec::with_capacity(size);
        let mut block = Block::default();
        loop {
            let mut reading = RawDir::new(self.as_fd(), raw.spare_capacity_mut());
            loop {
                let found = match reading.next() {
                    None => {
                        block.ended = true;
                        return Ok(block);
                    }
                    Some(Err(Errno::INTR)) => continue,
                    // `ENOENT`, too: the directory was removed, with entries that were never listed.
                    Some(found) => found?,
                };
                let name = found.file_name().to_bytes();
                if name != b"." && name != b".." {
                    let kind = Kind::of(found.file_type());
                    let [low, high] = (name.len() as u16).to_le_bytes();
                    block.bytes.extend_from_slice(&[kind as u8, low, high]);
                    block.bytes.extend_from_slice(name);
                }
                if reading.is_buffer_empty() {
                    break;
                }
            }
            if !block.bytes.is_empty() {
                block.bytes.shrink_to_fit();
                return Ok(block);
            }
        }
    }

    /// The kind of the entry `name`. `follow`: of what a link leads to.
    pub(crate) fn kind(&self, name: &[u8], follow: bool) -> Result<Kind> {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let found = rustix::fs::statat(self.as_fd(), name, flags)?;
        Ok(Kind::of(FileType::from_raw_mode(found.st_mode)))
    }

    /// Which file `name` is, if it is a regular file with several names. `None` also if it cannot be looked at.
    pub(crate) fn several_names(&self, name: &[u8]) -> Option<FileId> {
        let found = rustix::fs::statat(self.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(found.st_mode).is_file();
        (is_file && found.st_nlink > 1).then_some(FileId { device: found.st_dev, inode: found.st_ino })
    }

    /// Permission bits of the directory at `path`, several components below this one. `follow`: also of one that a link
    /// leads to. The empty path is this directory. In a tree that another program is changing, a link further up may lead
    /// to another directory; but a program that can create that link can change permissions there as well.
    pub(crate) fn mode(&self, path: &[u8], follow: bool) -> Result<u32> {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let found = rustix::fs::statat(self.as_fd(), if path.is_empty() { b"." } else { path }, flags)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => Ok(found.st_mode & 0o777),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// When one of the links on the way to `path` was last changed: those in the path, and those that their targets lead
    /// over. In nanoseconds since 1970; 0 if there is none.
    pub(crate) fn links_changed(&self, path: &[u8]) -> Result<i128> {
        let open = |at: BorrowedFd<'_>, component: &[u8]| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(at, component, flags, Mode::empty())
        };
        let reversed = |path: &[u8]| path.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec).collect::<Vec<_>>();
        let (mut at, mut left) = (open(self.as_fd(), b".")?, reversed(path));
        let (mut latest, mut followed) = (0, 0);
        while let Some(component) = left.pop() {
            if component.is_empty() {
                continue;
            }
            let found = rustix::fs::statat(&at, &*component, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Symlink if followed == LINKS_MAX => return Err(Errno::LOOP),
                FileType::Symlink => {
                    followed += 1;
                    latest = latest.max(nanoseconds(found.st_ctime, found.st_ctime_nsec));
                    let target = rustix::fs::readlinkat(&at, &*component, Vec::new())?.into_bytes();
                    if target.starts_with(b"/") {
                        at = open(at.as_fd(), b"/")?;
                    }
                    left.extend(reversed(&target));
                }
                FileType::Directory => at = open(at.as_fd(), &component)?,
                _ => {}
            }
        }
        Ok(latest)
    }

    /// Which directory this is.
    pub(crate) fn identity(&self) -> Result<FileId> {
        let found = rustix::fs::fstat(self.as_fd())?;
        Ok(FileId { device: found.st_dev, inode: found.st_ino })
    }

    /// The position up to which it was read, for [`Dir::go_to`].
    pub(crate) fn position(&self) -> Result<u64> {
        rustix::fs::tell(self.as_fd())
    }

    /// Continues at a position of this directory, which may have been opened again since.
    pub(crate) fn go_to(&self, position: u64) -> Result<()> {
        rustix::fs::seek(self.as_fd(), SeekFrom::Start(position)).map(|_| ())
    }
}
