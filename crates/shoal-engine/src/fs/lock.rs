//! `Lock`: one process at a time uses a journal.
//!
//! It is an `flock` on a file, which the kernel releases when the holder dies, so no lock is ever stale. The text in the
//! file is only for the message to a second process. Not here: where the file is (`journal/`).

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::private::{PrivateDir, boot_id, fault};
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// How often a held lock is tried again, and the pause in between: [`Lock::holder`] holds it for some microseconds.
const TRIES: u32 = 5;
/// The same for a lock that each process holds for a moment only, such as one sync: 30 s in all.
const MOMENTS: u32 = 3_000;
const PAUSE: Duration = Duration::from_millis(10);
/// Longest text read from a lock file, in bytes; ours is below 400.
const TEXT_MAX: usize = 1024;

/// Held until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: OwnedFd,
    /// A forked child has a copy of the fd. Dropping that must not unlock it for the parent.
    pid: u32,
}

/// The process that holds a lock, as the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Process id. 0: not known.
    pub pid: u32,
    /// Host name, escaped.
    pub host: String,
    /// Boot id of that host.
    pub boot: String,
    /// Unix seconds at which it was taken.
    pub since: u64,
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Kind::JournalLocked`] with the owner; [`Kind::Journal`] if the file system has no locks.
    pub fn take(dir: &PrivateDir, name: &OsStr) -> Result<Lock> {
        Lock::take_where_possible(dir, name)?.ok_or_else(|| no_locks(dir, name))
    }

    /// Takes the lock together with others that share it, and keeps out those that take it alone.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn share(dir: &PrivateDir, name: &OsStr) -> Result<Lock> {
        let locked = Lock::acquire(dir, name, FlockOperation::NonBlockingLockShared, TRIES)?;
        locked.ok_or_else(|| no_locks(dir, name))
    }

    /// Takes a lock that each process holds only for a moment, and waits for it.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn take_for_a_moment(dir: &PrivateDir, name: &OsStr) -> Result<Lock> {
        let locked = Lock::acquire(dir, name, FlockOperation::NonBlockingLockExclusive, MOMENTS)?;
        locked.ok_or_else(|| no_locks(dir, name))
    }

    /// The same. `None` if the file system has no locks.
    ///
    /// # Errors
    /// [`Kind::JournalLocked`] with the owner; [`Kind::Journal`] if the file cannot be created.
    pub fn take_where_possible(dir: &PrivateDir, name: &OsStr) -> Result<Option<Lock>> {
        let Some(lock) = Lock::acquire(dir, name, FlockOperation::NonBlockingLockExclusive, TRIES)? else {
            return Ok(None);
        };
        let owner = Owner::this_process();
        let text = format!("pid {}\nhost {}\nboot {}\nsince {}\n", owner.pid, owner.host, owner.boot, owner.since);
        // Only for a message, so a full disk does not matter. Truncated last: a reader in between sees too much, not too
        // little.
        if rustix::io::pwrite(&lock.file, text.as_bytes(), 0).is_ok() {
            let _ = rustix::fs::ftruncate(&lock.file, text.len() as u64);
        }
        Ok(Some(lock))
    }

    /// `None` if the file system has no locks. The file keeps the text of the last process that had it alone.
    fn acquire(dir: &PrivateDir, name: &OsStr, how: FlockOperation, tries: u32) -> Result<Option<Lock>> {
        let path = dir.path().join(name);
        let file = dir.file(name, true)?.ok_or_else(|| fault("cannot be made", &path, Errno::NOENT))?;
        for turn in 1.. {
            match rustix::fs::flock(&file, how) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if turn < tries => std::thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => return Err(refusal(dir, &read(&file))),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(Lock { file, pid: std::process::id() }))
    }

    /// The process that holds the lock now, if one does.
    ///
    /// # Errors
    /// [`Kind::Journal`] if the file cannot be read.
    pub fn holder(dir: &PrivateDir, name: &OsStr) -> Result<Option<Owner>> {
        let Some(file) = dir.file(name, false)? else {
            return Ok(None);
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Ok(Some(read(&file))),
            _ => Ok(None), // closing the file releases it
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // Closing is not enough if a forked child still has the fd.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

impl Owner {
    fn this_process() -> Owner {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Owner {
            pid: std::process::id(),
            host: escape(rustix::system::uname().nodename().to_bytes()),
            boot: boot_id().unwrap_or_default(),
            since: since.map_or(0, |time| time.as_secs()),
        }
    }

    /// Whether the owner ran on this machine since it booted, but is not visible here.
    fn is_gone(&self) -> bool {
        let here = Owner::this_process();
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        let same_machine = self.host == here.host && self.boot == here.boot;
        same_machine && pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
    }
}

fn no_locks(dir: &PrivateDir, name: &OsStr) -> Error {
    fault("cannot be locked", &dir.path().join(name), Errno::NOLCK)
        .hint("keep the journal on a local disk with `journal`")
}

fn read(file: impl AsFd) -> Owner {
    let mut text = [0; TEXT_MAX];
    let length = rustix::io::pread(file, &mut text[..], 0).unwrap_or(0);
    let mut owner = Owner::default();
    for line in String::from_utf8_lossy(&text[..length]).lines() {
        match line.split_once(' ') {
            Some(("pid", value)) => owner.pid = value.parse().unwrap_or(0),
            Some(("host", value)) => owner.host = escape(value.as_bytes()),
            Some(("boot", value)) => owner.boot = escape(value.as_bytes()),
            Some(("since", value)) => owner.since = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    owner
}

fn refusal(dir: &PrivateDir, owner: &Owner) -> Error {
    let on = escape(dir.path().as_os_str().as_bytes());
    let error = Error::new(
        Kind::JournalLocked,
        match owner.pid {
            0 => "another run is active here".to_owned(),
            pid => format!("another run is active here: pid {pid} on host \"{}\"", owner.host),
        },
    )
    .on(&on);
    match owner.is_gone() {
        true => error.hint(format!(
            "process {} is not visible here: it runs in another container, or a process forked from it still holds \
            the lock",
            owner.pid
        )),
        false => error.hint("wait until it ends, or stop it and run the same command again"),
    }
}
