//! Threads over partitions.
//!
//! Here: [`Pool`] (how many workers, and how to stop them), [`fold`] (all partitions now, results merged in order) and
//! [`Ordered`] (results one by one, in order, never more than a window ahead of the consumer). A panic in a worker is an
//! error. Not here: the work on a partition.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// Most workers: beyond this, memory bandwidth has long been the limit.
const WORKERS_MAX: usize = 256;

/// How many threads work, and the flag that stops them.
///
/// Clones share the flag, so that another thread can [`Pool::cancel`]. Threads live as long as one call.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    workers: Option<usize>,
    cancelled: Arc<AtomicBool>,
}

impl Pool {
    /// So many workers, or one for each processor.
    #[must_use]
    pub fn new(workers: Option<usize>) -> Self {
        Self { workers, cancelled: Arc::default() }
    }

    /// How many work.
    #[must_use]
    pub fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.workers.unwrap_or_else(cores).clamp(1, WORKERS_MAX)
    }

    /// Ends everything that this pool does, as soon as the partitions under way allow.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::cancelled()) } else { Ok(()) }
    }
}

/// What has been merged: the place of the next result, and those that came too early.
struct Merged<R> {
    next: u64,
    early: BTreeMap<u64, R>,
    error: Option<Error>,
}

/// Does `work` on each of so many partitions; gives every worker's state at the end.
///
/// `merge` gets the results in the order of the partitions, whatever the order in which they were made.
pub(crate) fn fold<S: Send, R: Send>(
    pool: &Pool,
    count: u64,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, u64) -> Result<R> + Sync,
    merge: impl FnMut(R) -> Result<()> + Send,
) -> Result<Vec<S>> {
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let merged = Mutex::new((Merged { next: 0, early: BTreeMap::new(), error: None }, merge));
    let fail = |error| {
        failed.store(true, Ordering::Relaxed);
        lock(&merged).0.error.get_or_insert(error);
    };
    let worker = || {
        let mut state = match guarded(|| Ok(state())) {
            Ok(state) => state,
            Err(error) => {
                fail(error);
                return None;
            }
        };
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                break;
            }
            let result = pool.check().and_then(|()| guarded(|| work(&mut state, at)));
            let outcome = result.and_then(|result| {
                let (merged, merge) = &mut *lock(&merged);
                merged.early.insert(at, result);
                while let Some(result) = merged.early.remove(&merged.next) {
                    merged.next += 1;
                    guarded(|| merge(result))?;
                }
                Ok(())
            });
            if let Err(error) = outcome {
                fail(error);
            }
        }
        Some(state)
    };
    let others = (pool.workers() as u64).min(count).saturating_sub(1);
    let states = std::thread::scope(|scope| {
        let started: Vec<_> = (0..others).map_while(|_| start(|build| build.spawn_scoped(scope, worker))).collect();
        let mut states: Vec<S> = worker().into_iter().collect();
        for thread in started {
            match thread.join() {
                Ok(state) => states.extend(state),
                Err(_) => fail(defect("a worker")),
            }
        }
        states
    });
    let error = lock(&merged).0.error.take();
    error.map_or(Ok(states), Err)
}

/// Starts a thread; none if the system has none left, and then the others do its work.
fn start<T>(spawn: impl FnOnce(std::thread::Builder) -> std::io::Result<T>) -> Option<T> {
    spawn(std::thread::Builder::new().name("shoal-records".to_owned())).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn defect(what: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("{what} panicked: this is a bug in shoal, please report it"))
}

/// Makes an error of a panic. What the work has touched is not used again after one.
fn guarded<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(defect("the work on a partition")))
}

/// The results of partitions in their order, made ahead by workers.
///
/// Dropping it stops them and waits until they have ended.
pub(crate) struct Ordered<S, R> {
    shared: Arc<Shared<R>>,
    work: Arc<Work<S, R>>,
    threads: Vec<JoinHandle<()>>,
    /// Where the caller does the work: with one worker, or where no thread could be started.
    own: Option<S>,
    pool: Pool,
}

type MakeState<S> = dyn Fn() -> S + Send + Sync;
type DoWork<S, R> = dyn Fn(&mut S, u64) -> Result<R> + Send + Sync;

struct Work<S, R> {
    state: Box<MakeState<S>>,
    work: Box<DoWork<S, R>>,
}

struct Shared<R> {
    turn: Mutex<Turn<R>>,
    changed: Condvar,
    count: u64,
    window: u64,
}

struct Turn<R> {
    /// The next partition to be worked on.
    take: u64,
    /// The partition whose result is handed out next; the first of `ready`.
    give: u64,
    ready: VecDeque<Option<Result<R>>>,
    closed: bool,
}

impl<S: 'static, R: Send + 'static> Ordered<S, R> {
    pub(crate) fn new(
        pool: &Pool,
        count: u64,
        state: impl Fn() -> S + Send + Sync + 'static,
        work: impl Fn(&mut S, u64) -> Result<R> + Send + Sync + 'static,
    ) -> Self {
        let workers = (pool.workers() as u64).min(count);
        // Two for each worker: one in hand, one that waits to be taken.
        let window = workers.max(1) * 2;
        let turn = Turn { take: 0, give: 0, ready: VecDeque::new(), closed: false };
        let shared = Arc::new(Shared { turn: Mutex::new(turn), changed: Condvar::new(), count, window });
        let work = Arc::new(Work { state: Box::new(state), work: Box::new(work) });
        let mut threads = Vec::new();
        if workers > 1 {
            threads.extend((0..workers).map_while(|_| {
                let (shared, work, pool) = (shared.clone(), work.clone(), pool.clone());
                start(|build| build.spawn(move || shared.labour(&work, &pool)))
            }));
        }
        let own = threads.is_empty().then(|| (work.state)());
        Self { shared, work, threads, own, pool: pool.clone() }
    }

    /// The next result, waited for until then; none after the last, or after an error. The inner none: it was not made in
    /// time.
    pub(crate) fn next(&mut self, until: Option<Instant>) -> Option<Option<Result<R>>> {
        let mut turn = lock(&self.shared.turn);
        if turn.closed || turn.give == self.shared.count {
            return None;
        }
        let result = match &mut self.own {
            Some(state) => {
                let at = turn.give;
                drop(turn);
                let result = self.pool.check().and_then(|()| guarded(|| (self.work.work)(state, at)));
                turn = lock(&self.shared.turn);
                result
            }
            None => loop {
                if let Some(Some(_)) = turn.ready.front()
                    && let Some(Some(result)) = turn.ready.pop_front()
                {
                    break result;
                }
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                turn = match left {
                    Some(left) if left.is_zero() => return Some(None),
                    Some(left) => {
                        self.shared.changed.wait_timeout(turn, left).unwrap_or_else(PoisonError::into_inner).0
                    }
                    None => self.shared.changed.wait(turn).unwrap_or_else(PoisonError::into_inner),
                };
            },
        };
        turn.give += 1;
        turn.closed |= result.is_err();
        drop(turn);
        self.shared.changed.notify_all();
        Some(Some(result))
    }
}

impl<R: Send> Shared<R> {
    /// What a worker does until there is nothing left to take.
    fn labour<S>(&self, work: &Work<S, R>, pool: &Pool) {
        let state = guarded(|| Ok((work.state)()));
        let mut state = state.ok();
        loop {
            let mut turn = lock(&self.turn);
            while !turn.closed && turn.take < self.count && turn.take >= turn.give + self.window {
                turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
            }
            if turn.closed || turn.take >= self.count {
                return;
            }
            let at = turn.take;
            turn.take += 1;
            turn.ready.push_back(None);
            drop(turn);
            let result = match &mut state {
                Some(state) => pool.check().and_then(|()| guarded(|| (work.work)(state, at))),
                None => Err(defect("a worker")),
            };
            let mut turn = lock(&self.turn);
            let place = (at - turn.give) as usize;
            turn.ready[place] = Some(result);
            drop(turn);
            self.changed.notify_all();
        }
    }
}

impl<S, R> Drop for Ordered<S, R> {
    fn drop(&mut self) {
        lock(&self.shared.turn).closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_are_merged_in_order_and_every_state_comes_back() {
        let mut merged = Vec::new();
        let work = |state: &mut u64, at: u64| {
            std::thread::sleep(std::time::Duration::from_micros(at * 7919 % 200));
            *state += 1;
            Ok(at)
        };
        let merge = |at| {
            merged.push(at);
            Ok(())
        };
        let states = fold(&Pool::new(Some(4)), 200, || 0, work, merge).unwrap();
        assert_eq!(merged, (0..200).collect::<Vec<_>>());
        assert_eq!((states.len(), states.iter().sum::<u64>()), (4, 200));
    }

    #[test]
    fn a_panic_is_an_error_of_this_crate() {
        let work = |_: &mut (), at| if at == 5 { panic!("on purpose") } else { Ok(at) };
        for workers in [1, 3] {
            let pool = Pool::new(Some(workers));
            let error = fold(&pool, 50, || (), work, |_| Ok(())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal);
            let mut ordered = Ordered::new(&pool, 50, || (), work);
            let found: Vec<_> = std::iter::from_fn(|| ordered.next(None).flatten()).collect();
            assert_eq!(found.len(), 6);
            assert_eq!(found[4], Ok(4));
            assert_eq!(found[5].as_ref().unwrap_err().kind(), ErrorKind::Internal);
            let error = fold(&pool, 50, || panic!("on purpose"), |(), at| Ok(at), |_| Ok(())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal);
        }
    }

    #[test]
    fn nobody_works_further_ahead_than_the_window() {
        let taken = Arc::new(AtomicU64::new(0));
        let counted = taken.clone();
        let work = move |_: &mut (), at: u64| {
            counted.fetch_max(at + 1, Ordering::SeqCst);
            Ok(at)
        };
        let mut ordered = Ordered::new(&Pool::new(Some(2)), 100, || (), work);
        for at in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            assert!(taken.load(Ordering::SeqCst) <= at + 4);
            assert_eq!(ordered.next(None), Some(Some(Ok(at))));
        }
        assert_eq!(ordered.next(None), None);
    }

    #[test]
    fn who_waits_for_a_result_may_look_around_in_between() {
        let (open, gate) = std::sync::mpsc::channel();
        let gate = Arc::new(Mutex::new(gate));
        let work = move |_: &mut (), at: u64| {
            let _ = gate.lock().unwrap().recv_timeout(Duration::from_secs(30)); // not for ever: it would hang, not fail
            Ok(at)
        };
        let mut ordered = Ordered::new(&Pool::new(Some(2)), 2, || (), work);
        let begun = Instant::now();
        assert_eq!(ordered.next(Some(begun + Duration::from_millis(5))), Some(None));
        (0..2).for_each(|_| open.send(()).unwrap());
        assert_eq!(ordered.next(None), Some(Some(Ok(0))));
        assert_eq!(ordered.next(None), Some(Some(Ok(1))));
        assert_eq!(ordered.next(Some(begun)), None);
    }
}
