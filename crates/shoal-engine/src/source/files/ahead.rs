//! Directories read ahead by a few threads, so that a cold disk or a network file system has several requests at once.
//!
//! The walk orders the directories it will come to next, and takes them in its own order: nothing of the listing depends on
//! who read what. Where directories come fast, from the page cache, there are no orders and no threads: they would cost
//! more than they bring.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::fs::dir::Dir;
use crate::fs::walk::{Block, Kind};

/// Threads at the most.
const HELPERS: usize = 4;
/// Directories read ahead, over all levels and at one. Each holds a block of entries, and a descriptor where it has
/// directories in it.
const ORDERS_MAX: usize = 16;
pub(super) const LEVEL_MAX: usize = 8;
/// A directory that takes this long, on average, was not in the page cache: there it takes 5 to 10 µs.
pub(super) const SLOW: Duration = Duration::from_micros(60);
/// What each byte of its entries takes in the page cache: 0.3 µs an entry.
const ENTRY_BYTE: Duration = Duration::from_nanos(15);
/// The average moves by one part in this many with each directory.
const INERTIA: u32 = 8;

/// An opened directory and its first entries; without the descriptor where nothing more needs it.
pub(super) type Opened = Result<(Option<Dir>, Block), Errno>;

/// A directory to read.
pub(super) struct Order {
    around: Arc<Dir>,
    name: Box<[u8]>,
    size: usize,
    state: Mutex<State>,
    done: Condvar,
}

enum State {
    Waiting,
    InWork,
    Done(Opened, Duration),
    Taken,
}

impl Order {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let opened = read(&self.around, &self.name, self.size);
        let pace = pace(began, &opened);
        *self.state() = State::Done(opened, pace);
        self.done.notify_one();
    }
}

/// How long a directory took, less what its entries take anywhere.
pub(super) fn pace(began: Instant, opened: &Opened) -> Duration {
    let entries = opened.as_ref().map_or(0, |(_, block)| block.len());
    began.elapsed().saturating_sub(ENTRY_BYTE * entries as u32)
}

fn read(around: &Dir, name: &[u8], size: usize) -> Opened {
    let directory = around.open(name)?;
    let mut block = directory.block(size)?;
    if !block.is_last() {
        block.append(directory.block(size)?);
    }
    let needed = !block.is_last() || block.any(|kind| matches!(kind, Kind::Directory | Kind::Unknown));
    Ok((needed.then_some(directory), block))
}

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Arc<Order>>,
    stopped: bool,
}

impl Pool {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let queue = self.queue();
            let idle = |queue: &mut Queue| queue.orders.is_empty() && !queue.stopped;
            let mut queue = self.work.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
            if queue.stopped {
                return;
            }
            let order = queue.orders.pop_front();
            drop(queue);
            if let Some(order) = order {
                order.work();
            }
        }
    }
}

/// The threads, and what they are to read. Dropped, it waits for the directories in work and no others.
pub(super) struct Ahead {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
    /// Ordered and not taken.
    out: usize,
    /// What a directory takes, on average.
    pace: Duration,
    slow: Duration,
}

impl Ahead {
    /// Reads ahead where a directory takes longer than `slow`.
    pub fn new(slow: Duration) -> Ahead {
        Ahead { pool: Arc::default(), threads: Vec::new(), out: 0, pace: Duration::ZERO, slow }
    }

    /// Threads that were started, and what they share.
    #[cfg(test)]
    pub fn threads(&self) -> (usize, std::sync::Weak<impl Sized + use<>>) {
        (self.threads.len(), Arc::downgrade(&self.pool))
    }

    /// Whether another directory should be ordered.
    pub fn has_room(&self) -> bool {
        self.pace >= self.slow && self.out < ORDERS_MAX
    }

    /// The walk has read a directory itself, and this is how long it took.
    pub fn took(&mut self, time: Duration) {
        self.pace = (self.pace * (INERTIA - 1) + time) / INERTIA;
    }

    pub fn order(&mut self, around: &Arc<Dir>, name: &[u8], size: usize) -> Arc<Order> {
        let (state, done) = (Mutex::new(State::Waiting), Condvar::new());
        let order = Arc::new(Order { around: around.clone(), name: name.into(), size, state, done });
        self.out += 1;
        self.pool.queue().orders.push_back(order.clone());
        if self.threads.len() < HELPERS {
            let pool = self.pool.clone();
            let started = std::thread::Builder::new().name("shoal-walk".into()).spawn(move || pool.run());
            self.threads.extend(started.ok()); // without it the walk reads on its own
        }
        self.pool.work.notify_one();
        order
    }

    /// What was ordered; `None` where nobody has begun: then it is quicker to read it here.
    pub fn take(&mut self, order: &Order) -> Option<Opened> {
        self.out -= 1;
        let state = order.state();
        let working = |state: &mut State| matches!(state, State::InWork);
        let mut state = order.done.wait_while(state, working).unwrap_or_else(PoisonError::into_inner);
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

impl Drop for Ahead {
    fn drop(&mut self) {
        self.pool.queue().stopped = true;
        self.pool.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // it has nothing to say
        }
    }
}
