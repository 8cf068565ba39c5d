//! Writing to an open file until all is written, with the result of `close`; comparing files; their times.
//!
//! Not here: opening (`dir.rs`), durability of directories (`sync.rs`), reading a source (`read.rs`).

use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::{Errno, retry_on_intr};

use super::error::{FsError, Operation};
use super::read::read;
use crate::object::Fingerprint;

/// How often EAGAIN is retried, and the pause in between: 2 s in all. No regular file should return it, but some user-space
/// file systems do.
const TRIES: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes moved at once by [`copy`].
const COPY_BLOCK: usize = 128 << 10;

/// Writes all of it.
pub(crate) fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), FsError> {
    let mut tries = 0;
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            // A write that writes nothing would do so again.
            Ok(0) => return Err(Operation::Write.failed()(Errno::IO)),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if tries < TRIES => {
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            Err(errno) => return Err(Operation::Write.failed()(errno)),
        }
    }
    Ok(())
}

/// Sets the permission bits. A file system without them may refuse this, which is no failure: then it is false.
pub(crate) fn set_mode(file: BorrowedFd<'_>, mode: u32) -> Result<bool, FsError> {
    match rustix::fs::fchmod(file, rustix::fs::Mode::from_raw_mode(mode)) {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => Ok(false),
        Err(errno) => Err(Operation::Chmod.failed()(errno)),
    }
}

/// Sets the modification time and not the access time. Call it after the last write, which would set it again.
pub(crate) fn set_modified(file: BorrowedFd<'_>, time: SystemTime) -> Result<(), FsError> {
    rustix::fs::futimens(file, &modified(time)).map_err(Operation::Utimens.failed())
}

/// This modification time, and the access time as it is.
pub(super) fn modified(time: SystemTime) -> Timestamps {
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Timestamps { last_access, last_modification: timespec(time) }
}

/// Sets the change time of a file to now, and nothing else.
pub(crate) fn stir(file: BorrowedFd<'_>) -> Result<(), FsError> {
    let found = rustix::fs::fstat(file).map_err(Operation::Stat.failed())?;
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: found.st_mtime, tv_nsec: found.st_mtime_nsec as _ };
    rustix::fs::futimens(file, &Timestamps { last_access, last_modification }).map_err(Operation::Utimens.failed())
}

/// Sets the times of a file to the present time of its file system, and returns that, in nanoseconds since 1970.
pub(crate) fn touch(file: BorrowedFd<'_>) -> rustix::io::Result<i64> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now })?;
    let found = rustix::fs::fstat(file)?;
    Ok(found.st_ctime.saturating_mul(1_000_000_000).saturating_add(found.st_ctime_nsec as i64))
}

/// The modification time of a file that was set to `time`, in nanoseconds since 1970.
pub(crate) fn stamp(time: SystemTime) -> Option<i64> {
    let Timespec { tv_sec, tv_nsec } = timespec(time);
    tv_sec.checked_mul(1_000_000_000)?.checked_add(tv_nsec)
}

/// The kernel clamps a time that its file system cannot store.
fn timespec(time: SystemTime) -> Timespec {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec { tv_sec: seconds(since), tv_nsec: since.subsec_nanos().into() },
        Err(before) => match before.duration() {
            before if before.subsec_nanos() == 0 => Timespec { tv_sec: -seconds(before), tv_nsec: 0 },
            // Nanoseconds count forwards, also before 1970.
            before => {
                let nanoseconds = 1_000_000_000 - before.subsec_nanos();
                Timespec { tv_sec: -seconds(before) - 1, tv_nsec: nanoseconds.into() }
            }
        },
    }
}

/// Makes a file's bytes durable. Never called twice for one file: after a failure the second call would succeed
/// although the bytes are lost.
pub(crate) fn sync(file: BorrowedFd<'_>) -> Result<(), FsError> {
    // An interrupted call has lost nothing: it only did not wait.
    retry_on_intr(|| rustix::fs::fsync(file)).map_err(Operation::Fsync.failed())
}

/// Closes the file and returns the result: network and user-space file systems report a failed write only here.
pub(crate) fn close(file: OwnedFd) -> Result<(), FsError> {
    // SAFETY: `into_raw_fd` releases the fd, so this call is its only owner and nothing uses it afterwards. Linux frees the
    // number whatever `close` returns, so it must not be closed again.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error();
    match errno.map_or(Errno::IO, Errno::from_raw_os_error) {
        Errno::INTR => Ok(()), // freed as well; the sync reports whether writes failed
        errno => Err(Operation::Close.failed()(errno)),
    }
}

/// Appends all of `from` to `to`.
pub(crate) fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), FsError> {
    let mut block = vec![0; COPY_BLOCK];
    loop {
        match read(from, &mut block).map_err(Operation::Write.failed())? {
            0 => return Ok(()),
            length => write_all(to, &block[..length])?,
        }
    }
}

/// Whether the contents of the file are these bytes.
pub(crate) fn holds(file: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<bool> {
    Ok(rest(file, bytes)?.is_some_and(<[u8]>::is_empty))
}

/// The fingerprint of a file of this size.
pub(crate) fn fingerprint(file: BorrowedFd<'_>, size: u64) -> rustix::io::Result<Fingerprint> {
    let mut first = vec![0; size.min(Fingerprint::HASHED as u64) as usize];
    let mut held = 0;
    while held < first.len() {
        match read(file, &mut first[held..])? {
            0 => break,
            length => held += length,
        }
    }
    Ok(Fingerprint { bytes: size, ..Fingerprint::of(&first[..held]) })
}

/// Whether these bytes begin with the contents of the file, which may grow meanwhile.
pub(crate) fn is_beginning(file: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<bool> {
    Ok(rest(file, bytes)?.is_some())
}

/// The bytes after those in the file. `None`: the file has others.
fn rest<'a>(file: BorrowedFd<'_>, bytes: &'a [u8]) -> rustix::io::Result<Option<&'a [u8]>> {
    let mut block = vec![0; COPY_BLOCK.min(bytes.len() + 1)];
    let mut rest = bytes;
    loop {
        match read(file, &mut block)? {
            0 => return Ok(Some(rest)),
            length => match rest.split_at_checked(length) {
                Some((same, more)) if *same == block[..length] => rest = more,
                _ => return Ok(None),
            },
        }
    }
}

/// Whether the contents of `other` begin with those of `one`.
pub(crate) fn begins(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let mut block = vec![0; COPY_BLOCK];
    let mut beside = vec![0; COPY_BLOCK];
    loop {
        let length = read(one, &mut block)?;
        if length == 0 {
            return Ok(true);
        }
        let mut held = 0;
        while held < length {
            match read(other, &mut beside[held..length])? {
                0 => return Ok(false),
                more => held += more,
            }
        }
        if block[..length] != beside[..length] {
            return Ok(false);
        }
    }
}

/// Keeps a write beyond `RLIMIT_FSIZE` from killing the process: the write then fails with EFBIG, which is the failure of
/// one object. A handler that the program has set stays; Python ignores the signal anyway.
pub(crate) fn survive_size_limit() {
    // SAFETY: sigaction is called with valid pointers to zeroed, then filled structures; a zeroed one is SIG_DFL without
    // flags. Changing the disposition is process-wide, which is why only the default (death) is replaced.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut before) == 0 && before.sa_sigaction == libc::SIG_DFL {
            let mut ignore: libc::sigaction = std::mem::zeroed();
            ignore.sa_sigaction = libc::SIG_IGN;
            libc::sigaction(libc::SIGXFSZ, &ignore, std::ptr::null_mut());
        }
    }
}
