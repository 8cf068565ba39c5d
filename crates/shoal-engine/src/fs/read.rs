//! Reading files of a source, which may change, block, or not be regular files.
//!
//! Here: opening without blocking, reading, stat of an open file, and what a failed call means for an object. Not here:
//! which files (`source/files/`), directories (`walk.rs`). Nothing is mapped into memory: if another program truncated the
//! file, that would kill the process.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result, retry_on_intr};

use super::dir::{Dir, FileId};
use super::error::plain;
use crate::display::escape;
use crate::error::{Error, Kind};

/// Most bytes of one read to the end of a vector: a stop must not wait for longer.
const APPEND_MAX: usize = 8 << 20;

/// Alignment of memory for reads, in bytes. Some processors copy at half the speed or less to an address that is 8 to 24
/// bytes further in its page than the source, and an allocator begins large blocks 16 bytes into a page (measured: 1 MB in
/// 121 µs there, in 60 µs 64 bytes into a page).
pub(crate) const ALIGNED: usize = 64;

/// How many bytes to skip in front, so that the rest is aligned.
pub(crate) fn lead(memory: *const u8) -> usize {
    memory.align_offset(ALIGNED).min(ALIGNED)
}

/// Aligned memory to read into, which is reused.
pub(crate) struct Space {
    bytes: Vec<u8>,
    lead: usize,
}

impl Space {
    pub(crate) fn new(length: usize) -> Space {
        let mut bytes = vec![0; length + ALIGNED];
        let lead = lead(bytes.as_ptr());
        bytes.truncate(lead + length);
        Space { bytes, lead }
    }
}

impl std::ops::Deref for Space {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.lead..]
    }
}

impl std::ops::DerefMut for Space {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.lead..]
    }
}

/// The stat of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Whether it is a regular file.
    pub regular: bool,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// The number of its user.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
    /// Whether it has several names.
    pub has_several_names: bool,
    /// Which one it is.
    pub id: FileId,
    /// Bytes that it takes on its disk.
    pub allocated: u64,
    /// Length in bytes.
    pub size: u64,
    /// The modification time, in nanoseconds since 1970.
    pub written: i128,
    /// The change time, in the same unit. No program can set it back.
    pub changed: i128,
}

impl Facts {
    fn of(found: &rustix::fs::Stat) -> Facts {
        Facts {
            regular: FileType::from_raw_mode(found.st_mode) == FileType::RegularFile,
            mode: found.st_mode & 0o7777,
            user: found.st_uid,
            group: found.st_gid,
            has_several_names: found.st_nlink > 1,
            id: FileId { device: found.st_dev, inode: found.st_ino },
            allocated: found.st_blocks as u64 * 512,
            size: found.st_size as u64,
            written: nanoseconds(found.st_mtime, found.st_mtime_nsec),
            changed: nanoseconds(found.st_ctime, found.st_ctime_nsec),
        }
    }

    /// The modification time.
    pub(crate) fn last_modified(&self) -> Option<SystemTime> {
        system_time(self.written)
    }
}

/// A time of a file, from nanoseconds since 1970.
pub(crate) fn system_time(written: i128) -> Option<SystemTime> {
    let all = written.unsigned_abs();
    let time = match u64::try_from(all) {
        Ok(nanoseconds) => Duration::from_nanos(nanoseconds),
        // After the year 2554.
        Err(_) => Duration::new(u64::try_from(all / 1_000_000_000).ok()?, (all % 1_000_000_000) as u32),
    };
    if written < 0 { UNIX_EPOCH.checked_sub(time) } else { UNIX_EPOCH.checked_add(time) }
}

/// Opens `name`, one component, in a directory for reading. A pipe or device is opened, not waited for.
pub(crate) fn open(directory: &Dir, name: &[u8], follow: bool) -> Result<OwnedFd> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    flags.set(OFlags::NOFOLLOW, !follow);
    retry_on_intr(|| rustix::fs::openat(directory.as_fd(), name, flags, Mode::empty()))
}

/// Opens the file at `path` below a directory, over links that stay below it. `EXDEV` if one leads elsewhere, or is absolute.
pub(crate) fn open_inside(directory: &Dir, path: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(directory.as_fd(), path, flags, Mode::empty(), resolve) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            result => return result,
        }
    }
}

/// Opens a file by its path, which may contain links, for reading. A pipe or device is opened, not waited for.
pub(crate) fn open_path(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
}

/// The stat of a path, which may contain links.
pub(crate) fn facts_of(path: &Path) -> Result<Facts> {
    rustix::fs::stat(path).map(|found| Facts::of(&found))
}

/// Whether anything has this path, also a link that leads nowhere.
pub fn is_there(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok()
}

/// Reads once, from byte `at` on.
pub(crate) fn read_at(file: BorrowedFd<'_>, into: &mut [u8], at: u64) -> Result<usize> {
    retry_on_intr(|| rustix::io::pread(file, &mut *into, at))
}

/// Reads up to `length` bytes from byte `at` on; fewer only where the file ends.
pub(crate) fn bytes_at(file: BorrowedFd<'_>, at: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    loop {
        let done = bytes.len();
        if done == length || append_at(file, &mut bytes, at + done as u64, length - done)? == 0 {
            return Ok(bytes);
        }
    }
}

/// Reads once to the end of a vector, from byte `at` on, at most `most` bytes and as much as its memory takes.
pub(crate) fn append_at(file: BorrowedFd<'_>, to: &mut Vec<u8>, at: u64, most: usize) -> Result<usize> {
    append_with(to, most, |space| rustix::io::pread(file, space, at))
}

/// Tells the kernel to read a range that will be needed soon, if it supports that.
pub(crate) fn will_need(file: BorrowedFd<'_>, at: u64, length: u64) {
    if let Some(length) = std::num::NonZeroU64::new(length) {
        let _ = rustix::fs::fadvise(file, at, Some(length), rustix::fs::Advice::WillNeed);
    }
}

/// Reads once to the end of a vector, at most `most` bytes and as much as its memory takes. 0 at the end of the file, or if
/// no memory is left.
pub(crate) fn append(file: BorrowedFd<'_>, to: &mut Vec<u8>, most: usize) -> Result<usize> {
    append_with(to, most, |space| rustix::io::read(file, space))
}

/// What a read into memory that is not initialised returns: the bytes it has filled, and the rest.
type Filled<'a> = (&'a mut [u8], &'a mut [MaybeUninit<u8>]);

fn append_with(
    to: &mut Vec<u8>,
    most: usize,
    read: impl for<'a> Fn(&'a mut [MaybeUninit<u8>]) -> Result<Filled<'a>>,
) -> Result<usize> {
    let space = to.spare_capacity_mut();
    let most = space.len().min(most).min(APPEND_MAX);
    let length = retry_on_intr(|| read(&mut space[..most]).map(|(filled, _)| filled.len()))?;
    // SAFETY: the kernel has filled the first `length` bytes behind the old end, and they are within the capacity.
    unsafe { to.set_len(to.len() + length) };
    Ok(length)
}

/// Reads once.
pub(crate) fn read(file: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize> {
    retry_on_intr(|| rustix::io::read(file, &mut *into))
}

/// Whether something can be read from a stream now, or it has ended.
pub(crate) fn is_ready(file: BorrowedFd<'_>) -> Result<bool> {
    let mut polled = [rustix::event::PollFd::from_borrowed_fd(file, rustix::event::PollFlags::IN)];
    retry_on_intr(|| rustix::event::poll(&mut polled, Some(&rustix::time::Timespec::default()))).map(|ready| ready > 0)
}

/// Whether a file can be read only from front to back (a pipe, a terminal); `None` if it cannot be read as one.
pub(crate) fn is_stream(file: BorrowedFd<'_>) -> Result<Option<bool>> {
    let found = rustix::fs::fstat(file)?;
    Ok(match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Some(false),
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice => Some(true),
        _ => None,
    })
}

/// Standard input, with a descriptor of its own.
pub(crate) fn stdin() -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)
}

/// Seeks to the first byte.
pub(crate) fn rewind(file: BorrowedFd<'_>) -> Result<()> {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0)).map(|_| ())
}

/// Its stat now.
pub(crate) fn facts(file: BorrowedFd<'_>) -> Result<Facts> {
    rustix::fs::fstat(file).map(|found| Facts::of(&found))
}

/// The time of day at the kernel's last tick, which the times of files are; in nanoseconds since 1970.
pub(crate) fn coarse_now() -> i128 {
    time_of(rustix::time::ClockId::RealtimeCoarse)
}

/// The time of day, in the same unit.
pub(crate) fn now() -> i128 {
    time_of(rustix::time::ClockId::Realtime)
}

fn time_of(clock: rustix::time::ClockId) -> i128 {
    let now = rustix::time::clock_gettime(clock);
    nanoseconds(now.tv_sec, now.tv_nsec as u64)
}

/// One time of a file in nanoseconds since 1970.
pub(crate) fn nanoseconds(seconds: i64, rest: u64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(rest)
}

/// How much a change time may be behind the clock: it is the time of the kernel's last tick, and ticks are at most 10 ms
/// apart.
pub(crate) const TICK: i128 = 10_000_000;
/// The longest step of a change time without nanoseconds: FAT's. (A file with nanoseconds has 0 of them by chance once in
/// 10^9, and then counts as fresh for two seconds more.)
const STEP: i128 = 2_000_000_000;

/// The step of the times of a file, besides the tick.
pub(crate) fn step(changed: i128) -> i128 {
    if changed % 1_000_000_000 == 0 { STEP } else { 0 }
}

/// Whether any change after `now`, a coarse time, gives a file another change time than this.
pub(crate) fn settled(changed: i128, now: i128) -> bool {
    changed + step(changed) + TICK < now
}

/// Why a file or directory of the source could not be opened or read. `from`: the first byte of a failed read.
pub(crate) fn unreadable(errno: Errno, from: Option<u64>) -> Error {
    let at = from.map_or_else(String::new, |byte| format!(" at byte {byte}"));
    let error = |kind, why: String| Error::new(kind, why).errno(Some(errno.raw_os_error()));
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::STALE => error(Kind::Vanished, "listed, but it no longer exists".into()),
        Errno::ACCESS | Errno::PERM => error(Kind::Denied, format!("cannot read it{at}: {}", plain(errno))),
        Errno::LOOP => error(Kind::BadAnswer, "not a regular file: it is a symbolic link".into()),
        Errno::ISDIR => error(Kind::BadAnswer, "not a regular file: it is a directory".into()),
        Errno::NXIO | Errno::NODEV => error(Kind::BadAnswer, "not a regular file".into()),
        Errno::MFILE => error(Kind::OutOfFiles, "this process has no file descriptors left".into())
            .hint("raise the limit with ulimit -n, or use fewer workers"),
        Errno::NFILE => error(Kind::OutOfFiles, "this machine has no file descriptors left".into()),
        Errno::IO => error(Kind::ReadFailed, format!("cannot read it{at}: {}", plain(errno)))
            .hint("check the kernel log (dmesg)"),
        _ => error(Kind::ReadFailed, format!("cannot read it{at}: {}", plain(errno))),
    }
}

/// The same for the directory or file that is the source of a run.
pub(crate) fn unusable(errno: Errno, path: &Path) -> Error {
    use std::os::unix::ffi::OsStrExt;
    let why = match errno {
        Errno::NOENT => "no such file or directory".into(),
        errno => format!("the source cannot be opened: {}", plain(errno)),
    };
    Error::new(Kind::Config, why).on(&escape(path.as_os_str().as_bytes())).errno(Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_far_future_or_past_is_kept() {
        let second = 1_000_000_000;
        for written in [0, 7, -7, 253_402_214_400 * second + 9, -253_402_214_400 * second - 9] {
            let time = system_time(written).unwrap();
            let since = |time: Duration| i128::try_from(time.as_nanos()).unwrap();
            let back = time.duration_since(UNIX_EPOCH).map_or_else(|before| -since(before.duration()), since);
            assert_eq!(back, written);
        }
    }
}
