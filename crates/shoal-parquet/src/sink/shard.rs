//! Files that are being written, in `.shoal/tmp`, and the threads that encode row groups into them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::Advice;
use shoal_engine::sink::Wake;
use shoal_engine::{Error, Kind, Result};

use super::failure::{io_failed, parquet_failed};
use super::group::{Format, Growing};
use super::rows::Rows;
use super::state::{self, Placed};
use super::withdrawn::WithdrawnNames;

/// Contents of a row group that are compressed as a sample; if that saves less than a sixteenth, the group is not.
const SAMPLE: usize = 64 << 10;
/// A thread that encodes waits for others at most so many times as long as it has worked.
const WAIT_MAX: u32 = 4;

/// A file that is being written.
pub(super) struct Shard {
    /// Its name in `.shoal/tmp`.
    pub name: String,
    pub begun: Instant,
    /// It is for [`Spill`]s.
    pub is_spill: bool,
    /// `None` after it was finished, or after a write has failed.
    pub growing: Option<Growing>,
    /// What was appended and is not committed.
    pub pending: Vec<Placed>,
}

/// Rows of one partition that were written before its end, because they were too many bytes for memory. They have a file of
/// their own, so that what is committed of a file is always whole partitions.
pub(super) struct Spill {
    pub shard: Arc<Mutex<Shard>>,
    /// Row groups that are not written yet.
    pub left: AtomicUsize,
}

/// A row group to write.
pub(super) struct Job {
    /// Rows, and the partition that they are of.
    pub parts: Vec<(u64, Rows)>,
    pub spill: Option<Arc<Spill>>,
}

/// What lanes, encoders and `flush` share.
pub(super) struct Shards {
    pub tmp: PathBuf,
    /// The names of its files have this.
    pub session: String,
    pub withdrawn: WithdrawnNames,
    pub format: Format,
    /// Bytes after which no more row groups of complete partitions go to a file.
    shard_size: u64,
    /// Bytes of rows in memory, and how many there may be before lanes wait.
    held: AtomicU64,
    held_max: u64,
    queue: Mutex<Queue>,
    /// There is a job, or the end.
    some: Condvar,
    /// A job has ended.
    ended: Condvar,
    /// All that are not finished.
    pub open: Mutex<Vec<Arc<Mutex<Shard>>>>,
    /// Those that no row group is being written to: of complete partitions, and of spills.
    idle: Mutex<[Vec<Arc<Mutex<Shard>>>; 2]>,
    wakes: Mutex<Vec<Wake>>,
    failed: Mutex<Option<Failed>>,
    has_failed: AtomicBool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Jobs that an encoder has taken.
    encoding: usize,
    is_over: bool,
}

struct Failed {
    kind: Kind,
    why: String,
    errno: Option<i32>,
    hint: Option<String>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shards {
    pub fn new(tmp: PathBuf, format: Format, withdrawn: WithdrawnNames, shard_size: u64, held_max: u64) -> Shards {
        Shards {
            tmp,
            session: format!("{:016x}", fastrand::u64(..)),
            withdrawn,
            format,
            shard_size,
            held: AtomicU64::new(0),
            held_max,
            queue: Mutex::default(),
            some: Condvar::new(),
            ended: Condvar::new(),
            open: Mutex::default(),
            idle: Mutex::default(),
            wakes: Mutex::default(),
            failed: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Wakes this lane when there is room again.
    pub fn add_wake(&self, wake: Wake) {
        lock(&self.wakes).push(wake);
    }

    pub fn hold(&self, bytes: usize) {
        self.held.fetch_add(bytes as u64, SeqCst);
    }

    /// Rows have left memory.
    pub fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes as u64, SeqCst);
        lock(&self.wakes).iter().for_each(|wake| wake());
    }

    pub fn has_room(&self) -> bool {
        self.held.load(SeqCst) < self.held_max
    }

    /// The error that has stopped an encoder.
    pub fn check(&self) -> Result<()> {
        if !self.has_failed.load(SeqCst) {
            return Ok(());
        }
        let failed = lock(&self.failed);
        let Some(failed) = &*failed else { return Ok(()) };
        let error = Error::new(failed.kind, failed.why.clone()).errno(failed.errno);
        Err(match &failed.hint {
            Some(hint) => error.hint(hint.clone()),
            None => error,
        })
    }

    fn fail(&self, error: &Error) {
        let (why, hint) = (error.why().to_owned(), error.advice().map(str::to_owned));
        lock(&self.failed).get_or_insert(Failed { kind: error.kind(), why, errno: error.os_error(), hint });
        self.has_failed.store(true, SeqCst);
    }

    pub fn submit(&self, job: Job) {
        if let Some(spill) = &job.spill {
            spill.left.fetch_add(1, SeqCst);
        }
        lock(&self.queue).jobs.push_back(job);
        self.some.notify_one();
    }

    /// Begins a file for the rows of a partition that is too large for memory.
    pub fn spill(&self) -> Result<Arc<Spill>> {
        Ok(Arc::new(Spill { shard: self.take(1)?, left: AtomicUsize::new(0) }))
    }

    fn take(&self, kind: usize) -> Result<Arc<Mutex<Shard>>> {
        if let Some(idle) = lock(&self.idle)[kind].pop() {
            return Ok(idle);
        }
        let name = state::temporary(&self.session, false);
        let path = self.tmp.join(&name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| io_failed("create", &path, &error))?;
        let growing = Growing::new(file).map_err(|error| parquet_failed("write", &path, &error))?;
        let shard =
            Shard { name, begun: Instant::now(), is_spill: kind == 1, growing: Some(growing), pending: Vec::new() };
        let shard = Arc::new(Mutex::new(shard));
        lock(&self.open).push(shard.clone());
        Ok(shard)
    }

    /// The file of a spill that is committed can take another, unless it was finished.
    pub fn give_back(&self, shard: Arc<Mutex<Shard>>) {
        if lock(&shard).growing.is_some() {
            lock(&self.idle)[1].push(shard);
        }
    }

    /// Forgets files that were finished.
    pub fn forget_finished(&self) {
        let is_open = |shard: &Arc<Mutex<Shard>>| lock(shard).growing.is_some();
        lock(&self.open).retain(is_open);
        lock(&self.idle)[0].retain(is_open);
    }

    /// Takes the files of spills that no partition uses.
    pub fn take_idle_spills(&self) -> Vec<Arc<Mutex<Shard>>> {
        std::mem::take(&mut lock(&self.idle)[1])
    }

    /// Whether row groups are queued or being encoded.
    pub fn is_busy(&self) -> bool {
        let queue = lock(&self.queue);
        !queue.jobs.is_empty() || queue.encoding > 0
    }

    /// Waits until all row groups are written, an encoder has failed, or `until`.
    pub fn wait(&self, until: Option<Instant>) -> Result<()> {
        let mut queue = lock(&self.queue);
        while !queue.jobs.is_empty() || queue.encoding > 0 {
            self.check()?;
            let left = until.map_or(Duration::from_secs(1), |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            queue = self.ended.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(queue);
        self.check()
    }

    /// Ends the encoders. Row groups that are queued are dropped.
    pub fn end(&self) {
        lock(&self.queue).is_over = true;
        self.some.notify_all();
    }

    /// Encodes until the end; on a thread of its own.
    pub fn encode(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if queue.is_over {
                return;
            }
            let Some(job) = queue.jobs.pop_front() else {
                queue = self.some.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.encoding += 1;
            drop(queue);
            let bytes = job.parts.iter().map(|(_, rows)| rows.bytes()).sum();
            let spill = job.spill.clone();
            let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.write(job)));
            match written {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.fail(&error),
                Err(_) => self.fail(&Error::new(Kind::Internal, "a thread that encodes row groups panicked")),
            }
            self.release(bytes);
            queue = lock(&self.queue);
            queue.encoding -= 1;
            if let Some(spill) = spill {
                spill.left.fetch_sub(1, SeqCst);
            }
            self.ended.notify_all();
        }
    }

    fn write(&self, job: Job) -> Result<()> {
        self.check()?;
        let places: Vec<_> = job.parts.iter().map(|(seq, rows)| (*seq, rows.len() as u32)).collect();
        let parts: Vec<_> = job.parts.into_iter().map(|(_, rows)| rows).collect();
        let packed = is_worth_packing(&parts);
        loop {
            let shard = match &job.spill {
                Some(spill) => spill.shard.clone(),
                None => self.take(0)?,
            };
            let mut locked = lock(&shard);
            let path = self.tmp.join(&locked.name);
            let Some(mut growing) = locked.growing.take() else {
                match job.spill {
                    Some(_) => return Err(Error::new(Kind::Internal, "a file was finished before its partition")),
                    None => continue, // a commit has finished it meanwhile
                }
            };
            let (group, from) = (growing.groups() as u32, growing.length());
            // After an error the file is not used again: what it has beyond its last commit is not known.
            let courtesy = Courtesy::new();
            growing
                .append(&self.format, parts, packed, || courtesy.give_way())
                .map_err(|error| parquet_failed("write", &path, &error))?;
            begin_writing_back(growing.file(), from, growing.length());
            let takes_more = growing.length() < self.shard_size;
            locked.growing = Some(growing);
            let mut first = 0;
            for (seq, rows) in places {
                locked.pending.push(Placed { seq, group, first, rows });
                first += rows;
            }
            drop(locked);
            if job.spill.is_none() && takes_more {
                lock(&self.idle)[0].push(shard);
            }
            return Ok(());
        }
    }
}

/// Has the kernel write these bytes to the disk now, so that the disk is not idle until the next sync. They are dirty, so
/// they stay in the page cache.
fn begin_writing_back(file: &File, from: u64, to: u64) {
    let _ = rustix::fs::fadvise(file, from, NonZero::new(to - from), Advice::DontNeed);
}

/// Whether compression saves something on a sample from the middle.
fn is_worth_packing(parts: &[Rows]) -> bool {
    let Some(sample) = parts.get(parts.len() / 2).map(|rows| rows.sample(SAMPLE)) else { return false };
    let packed = zstd::bulk::compress(sample, 1).map_or(usize::MAX, |packed| packed.len());
    packed < sample.len() - sample.len() / 16
}

/// Lets other threads go first, while a row group is encoded. Encoding can wait, but a lane that loses its core for some
/// milliseconds leaves its connections idle: 477,000 objects per second instead of 553,000, on two cores.
struct Courtesy {
    begun: Instant,
    waited: Cell<Duration>,
}

impl Courtesy {
    fn new() -> Courtesy {
        Courtesy { begun: Instant::now(), waited: Cell::default() }
    }

    /// Not if it has waited for long already: other programs may leave it nothing.
    fn give_way(&self) {
        let before = self.begun.elapsed();
        let waited = self.waited.get();
        if waited <= before.saturating_sub(waited) * WAIT_MAX {
            std::thread::yield_now();
            self.waited.set(waited + self.begun.elapsed().saturating_sub(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_waited_for_long_does_not_give_way() {
        let worked = Duration::from_secs(1);
        for (waited, gives_way) in [(worked * WAIT_MAX / 2, true), (worked * WAIT_MAX * 2, false)] {
            let begun = Instant::now().checked_sub(worked + waited).unwrap();
            let courtesy = Courtesy { begun, waited: Cell::new(waited) };
            courtesy.give_way();
            assert_eq!(courtesy.waited.get() > waited, gives_way);
        }
    }
}
