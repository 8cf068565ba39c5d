//! The destination's clock: a file of shoal's own at the destination that is touched to see which timestamp it gets.
//!
//! The times of sessions and files are compared on this clock only, because a network file system uses its server's
//! clock. The file also tells other processes of the run until when they may write. Not here: what follows from times
//! (`session.rs`, `sink/collision.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::fs::dir::{Access, Dir, Look};
use crate::fs::error::{FsError, Operation};
use crate::fs::file;
use crate::session::{Granted, Interval, LEASE};

/// Longest wait for the clock to advance before a first session. A kernel's clock advances every 1–10 ms. If it is
/// coarser, a file created just before the run counts as the run's.
const STEP_MAX: Duration = Duration::from_millis(50);
/// The same before a session that resumes: files of the previous one must be older. vfat's clock advances every 2 s.
const COARSE_STEP_MAX: Duration = Duration::from_millis(2_100);

/// Longest wait for the end of another run's lease, in case the clock does not advance: 1 s more than a lease.
const LEASE_MAX: Duration = Duration::from_nanos(LEASE as u64 + 1_000_000_000);
/// How often the clock is read meanwhile: often enough that the wait is not noticeably longer than the lease.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The clock's file in the run's own directory. Only one run at a time has it, so one name is enough.
const NAME: &[u8] = b"clock";

/// Maps the kernel's time to the clock's, for tests of clocks that jump.
pub type Warp = Arc<dyn Fn(i64) -> i64 + Send + Sync>;

/// The clock of one session.
pub(super) struct Clock {
    /// A duplicate fd of the run's own directory.
    own: Dir,
    file: OwnedFd,
    warp: Option<Warp>,
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// What the first reading of the clock found.
pub(super) struct First {
    pub now: i64,
    /// The mode of a file created with all bits: 0777 less the umask, or what the directory's default ACL allows.
    pub file_mode: u32,
    /// The file system stores creation times.
    pub births: bool,
}

impl Clock {
    /// Reads the clock for the first time. Waits until it has advanced, so that existing files are older than the
    /// result and the files of this session are not. Also waits for the end of the lease of another run that was killed
    /// here, because that run would count files created before as its own.
    pub fn start(own: &Dir, path: &Path, earlier: &[Interval], warp: Option<Warp>) -> Result<(Clock, First)> {
        let at = |failed: FsError| failed.at_start(path, own.as_fd());
        // If a run was killed, or could not record its end, it left the file, and touched it before each of its leases.
        let left = own.look(NAME).ok().map(|look| warp.as_ref().map_or(look.changed, |warp| warp(look.changed)));
        let opened = || -> Result<(Clock, Look), FsError> {
            let _ = own.remove(NAME);
            let file = own.create(NAME, Access::Bits(0o777)).map_err(Operation::Create.failed())?;
            let own = Dir::from(rustix::io::fcntl_dupfd_cloexec(own, 0).map_err(Operation::Open.failed())?);
            let clock = Clock { own, file, warp: warp.clone() };
            tell(clock.file.as_fd(), Granted { began: i64::MAX, ends: i64::MAX, from: i64::MAX, until: i64::MIN });
            let look = clock.own.look(NAME).map_err(Operation::Stat.failed())?;
            Ok((clock, look))
        };
        let (clock, look) = opened().map_err(at)?;
        let first = clock.now().map_err(at)?;
        let most = if earlier.is_empty() { STEP_MAX } else { COARSE_STEP_MAX };
        let waiting = Instant::now();
        let mut now = loop {
            let now = clock.now().map_err(at)?;
            if now != first || waiting.elapsed() > most {
                break now;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        // If the clock was set back since then, the end of that lease cannot be waited for.
        let others = left.filter(|&left| left <= now && !earlier.iter().any(|session| session.holds(left)));
        if let Some(left) = others {
            let waiting = Instant::now();
            while now <= left.saturating_add(LEASE) && waiting.elapsed() < LEASE_MAX {
                std::thread::sleep(LOOK_EVERY);
                now = clock.now().map_err(at)?;
            }
        }
        Ok((clock, First { now, file_mode: look.mode & 0o777, births: look.born.is_some() }))
    }

    /// The time now.
    pub fn now(&self) -> Result<i64, FsError> {
        file::touch(self.file.as_fd()).map(|now| self.shown(now)).map_err(Operation::Stat.failed())
    }

    /// The time on this clock when the kernel's clock showed `kernel`.
    pub fn shown(&self, kernel: i64) -> i64 {
        self.warp.as_ref().map_or(kernel, |warp| warp(kernel))
    }

    /// Removes the file at the end of a session, so that another run does not wait for its lease.
    pub fn remove(&self) {
        let _ = self.own.remove(NAME); // if it stays, the next run waits for the lease
    }

    /// A duplicate fd of the file, to tell other processes of the lease.
    pub fn handle(&self) -> Option<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(&self.file, 0).ok()
    }
}

/// Opens the clock's file of a session that another process has started.
pub(super) fn of_another(own: &Dir) -> rustix::io::Result<OwnedFd> {
    own.read(NAME)
}

/// Writes a lease into the file for other processes.
pub(super) fn tell(file: BorrowedFd<'_>, granted: Granted) {
    let Granted { began, ends, from, until } = granted;
    let text = [began, ends, from, until].map(i64::to_le_bytes).concat();
    let _ = rustix::io::pwrite(file, &text, 0); // a process that cannot read the lease waits
}

/// Reads the lease that another process has written. `None` if there is none yet.
pub(super) fn told(file: BorrowedFd<'_>) -> Option<Granted> {
    let mut text = [0; 32];
    let length = rustix::io::pread(file, &mut text[..], 0).ok()?;
    let number = |at: usize| text[8 * at..][..8].try_into().map(i64::from_le_bytes).ok();
    (length == text.len()).then_some(())?;
    Some(Granted { began: number(0)?, ends: number(1)?, from: number(2)?, until: number(3)? })
}
