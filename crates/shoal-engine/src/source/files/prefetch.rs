//! Directories read ahead by a few threads, so that a cold disk or a network file system has several requests at once.
//!
//! The walk enqueues the directories it will enter next, and takes the results in its own order, so the listing does
//! not depend on which thread read what. If directories come fast, from the page cache, nothing is enqueued and no
//! thread is started: that would cost more than it saves.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::fs::dir::Dir;
use crate::fs::walk::{Block, Kind};
use crate::poison::ignore_poison;

/// Most threads.
const HELPERS: usize = 4;
/// Most directories read ahead, over all levels and on one level. Each holds a block of entries, and a descriptor if it
/// contains directories.
const TASKS_MAX: usize = 16;
pub(super) const LEVEL_MAX: usize = 8;
/// If a directory takes this long on average, it was not in the page cache, where it takes 5 to 10 µs.
pub(super) const SLOW: Duration = Duration::from_micros(60);
/// Time for each byte of its entries from the page cache: 0.3 µs for an entry.
const ENTRY_BYTE: Duration = Duration::from_nanos(15);
/// Each directory counts for one part in this many of the average.
const INERTIA: u32 = 8;

/// An open directory and its first entries; without the descriptor if it is no longer needed.
pub(super) type OpenedDirectory = Result<(Option<Dir>, Block), Errno>;

/// A directory to read.
pub(super) struct PrefetchTask {
    around: Arc<Dir>,
    name: Box<[u8]>,
    size: usize,
    /// Its files are looked at, too.
    keeps: bool,
    state: Mutex<State>,
    done: Condvar,
}

enum State {
    Waiting,
    InWork,
    Done(OpenedDirectory, Duration),
    Taken,
}

impl PrefetchTask {
    fn state(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    fn work(&self) {
        {
            let mut state = self.state();
            if !matches!(*state, State::Waiting) {
                return;
            }
            *state = State::InWork;
        }
        let began = Instant::now();
        let opened = read(&self.around, &self.name, self.size, self.keeps);
        let pace = pace(began, &opened);
        *self.state() = State::Done(opened, pace);
        self.done.notify_one();
    }
}

/// How long a directory took, less the time that its entries take from the page cache.
pub(super) fn pace(began: Instant, opened: &OpenedDirectory) -> Duration {
    let entries = opened.as_ref().map_or(0, |(_, block)| block.len());
    began.elapsed().saturating_sub(ENTRY_BYTE * entries as u32)
}

fn read(around: &Dir, name: &[u8], size: usize, keeps: bool) -> OpenedDirectory {
    let directory = around.open(name)?;
    let mut block = directory.block(size)?;
    if !block.is_last() {
        block.append(directory.block(size)?);
    }
    let needed = keeps || !block.is_last() || block.any(|kind| matches!(kind, Kind::Directory | Kind::Unknown));
    Ok((needed.then_some(directory), block))
}

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Arc<PrefetchTask>>,
    stopped: bool,
}

impl Pool {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        ignore_poison(self.queue.lock())
    }

    fn run(&self) {
        loop {
            let queue = self.queue();
            let idle = |queue: &mut Queue| queue.tasks.is_empty() && !queue.stopped;
            let mut queue = ignore_poison(self.work.wait_while(queue, idle));
            if queue.stopped {
                return;
            }
            let task = queue.tasks.pop_front();
            drop(queue);
            if let Some(task) = task {
                task.work();
            }
        }
    }
}

/// The threads and their queue. Dropping it waits only for the directories that are being read.
pub(super) struct Prefetch {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
    /// Tasks enqueued and not taken.
    out: usize,
    /// Average time of a directory.
    pace: Duration,
    slow: Duration,
}

impl Prefetch {
    /// Reads ahead if directories take longer than `slow`.
    pub fn new(slow: Duration) -> Prefetch {
        Prefetch { pool: Arc::default(), threads: Vec::new(), out: 0, pace: Duration::ZERO, slow }
    }

    /// Number of threads started, and a handle that is dead once all have ended.
    #[cfg(test)]
    pub fn threads(&self) -> (usize, std::sync::Weak<impl Sized + use<>>) {
        (self.threads.len(), Arc::downgrade(&self.pool))
    }

    /// Whether another directory should be enqueued.
    pub fn has_room(&self) -> bool {
        self.pace >= self.slow && self.out < TASKS_MAX
    }

    /// Records how long the walk took to read a directory itself.
    pub fn took(&mut self, time: Duration) {
        self.pace = (self.pace * (INERTIA - 1) + time) / INERTIA;
    }

    /// Has a directory read ahead.
    pub fn enqueue(&mut self, around: &Arc<Dir>, name: &[u8], size: usize, keeps: bool) -> Arc<PrefetchTask> {
        let (state, done) = (Mutex::new(State::Waiting), Condvar::new());
        let task = Arc::new(PrefetchTask { around: around.clone(), name: name.into(), size, keeps, state, done });
        self.out += 1;
        self.pool.queue().tasks.push_back(task.clone());
        if self.threads.len() < HELPERS {
            let pool = self.pool.clone();
            let started = std::thread::Builder::new().name("shoal-walk".into()).spawn(move || pool.run());
            self.threads.extend(started.ok()); // without a thread, the walk reads by itself
        }
        self.pool.work.notify_one();
        task
    }

    /// Takes the result of a task, waiting for it if it is being read. `None` if no thread has begun it: then it is
    /// quicker to read it here.
    pub fn take(&mut self, task: &PrefetchTask) -> Option<OpenedDirectory> {
        self.out -= 1;
        let state = task.state();
        let working = |state: &mut State| matches!(state, State::InWork);
        let mut state = ignore_poison(task.done.wait_while(state, working));
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(opened, time) => {
                drop(state);
                self.took(time);
                Some(opened)
            }
            _ => None,
        }
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.pool.queue().stopped = true;
        self.pool.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // it returns nothing
        }
    }
}
