//! Workers encode the pieces of a file, and the caller's thread writes them in order.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Error;

/// Longest wait for a worker before the caller is asked whether to continue.
const TICK: Duration = Duration::from_millis(100);

/// Creates jobs and writes their results, on the caller's thread.
pub(super) trait Pieces {
    /// The input of a piece.
    type Job: Send;
    /// An encoded piece.
    type Piece: Send;

    /// Returns the next job, or `None` after the last.
    fn next(&mut self) -> Result<Option<Self::Job>, Error>;

    /// Writes a piece; pieces arrive in the order of their jobs.
    fn write(&mut self, piece: Self::Piece) -> Result<(), Error>;

    /// Called every 100 ms while no piece is ready; an error stops the work.
    fn wait(&mut self) -> Result<(), Error>;
}

/// Shared by the workers and the caller.
struct WorkQueue<J, P> {
    state: Mutex<State<J, P>>,
    job_queued: Condvar,
    piece_made: Condvar,
}

struct State<J, P> {
    jobs: VecDeque<(u64, J)>,
    pieces: BTreeMap<u64, Result<P, Error>>,
    closed: bool,
}

/// Makes all pieces with this many workers, and at most two unwritten pieces per worker. With one worker, the caller's
/// thread does everything.
pub(super) fn in_order<T: Pieces>(
    workers: usize,
    pieces: &mut T,
    work: impl Fn(T::Job) -> Result<T::Piece, Error> + Sync,
) -> Result<(), Error> {
    let work = |job| catch_unwind(AssertUnwindSafe(|| work(job))).unwrap_or_else(|_| Err(Error::defect()));
    let state = State { jobs: VecDeque::new(), pieces: BTreeMap::new(), closed: false };
    let queue = WorkQueue { state: Mutex::new(state), job_queued: Condvar::new(), piece_made: Condvar::new() };
    std::thread::scope(|scope| {
        // Ends the workers however this function ends, also by a panic of the reader.
        let _closing = Closing(&queue);
        let worker = || queue.worker_loop(&work);
        let start = |_| std::thread::Builder::new().name("shoal-encode".to_owned()).spawn_scoped(scope, worker).ok();
        let started = if workers > 1 { (0..workers).map_while(start).count() } else { 0 };
        if started > 0 {
            return queue.caller_loop(started as u64 * 2, pieces);
        }
        while let Some(job) = pieces.next()? {
            pieces.write(work(job)?)?;
        }
        Ok(())
    })
}

struct Closing<'a, J, P>(&'a WorkQueue<J, P>);

impl<J, P> Drop for Closing<'_, J, P> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        state.jobs.clear();
        drop(state);
        self.0.job_queued.notify_all();
    }
}

impl<J, P> WorkQueue<J, P> {
    fn lock(&self) -> MutexGuard<'_, State<J, P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues jobs and writes pieces, on the caller's thread.
    fn caller_loop<T: Pieces<Job = J, Piece = P>>(&self, window: u64, pieces: &mut T) -> Result<(), Error> {
        let (mut given, mut taken) = (0, 0);
        let mut more = true;
        loop {
            while more && given - taken < window {
                match pieces.next()? {
                    Some(job) => {
                        self.lock().jobs.push_back((given, job));
                        self.job_queued.notify_one();
                        given += 1;
                    }
                    None => more = false,
                }
            }
            if given == taken {
                return Ok(());
            }
            match self.piece(taken) {
                Some(piece) => {
                    pieces.write(piece?)?;
                    taken += 1;
                }
                None => pieces.wait()?,
            }
        }
    }

    /// Returns a piece, if it is ready within [`TICK`].
    fn piece(&self, at: u64) -> Option<Result<P, Error>> {
        let waiting = |state: &mut State<J, P>| !state.pieces.contains_key(&at);
        let (mut state, _) =
            self.piece_made.wait_timeout_while(self.lock(), TICK, waiting).unwrap_or_else(PoisonError::into_inner);
        state.pieces.remove(&at)
    }

    /// Makes pieces, on a worker's thread.
    fn worker_loop(&self, work: &impl Fn(J) -> Result<P, Error>) {
        let idle = |state: &mut State<J, P>| state.jobs.is_empty() && !state.closed;
        loop {
            let mut state = self.job_queued.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
            let Some((at, job)) = state.jobs.pop_front() else { return };
            drop(state);
            let piece = work(job);
            self.lock().pieces.insert(at, piece);
            self.piece_made.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up, and records what it receives.
    struct Numbers {
        next: u64,
        count: u64,
        most: u64,
        written: Vec<u64>,
        waits: u64,
        patience: u64,
    }

    impl Pieces for Numbers {
        type Job = u64;
        type Piece = u64;

        fn next(&mut self) -> Result<Option<u64>, Error> {
            self.most = self.most.max(self.next - self.written.len() as u64);
            self.next += 1;
            Ok((self.next <= self.count).then_some(self.next - 1))
        }

        fn write(&mut self, piece: u64) -> Result<(), Error> {
            self.written.push(piece);
            Ok(())
        }

        fn wait(&mut self) -> Result<(), Error> {
            self.waits += 1;
            if self.waits < self.patience { Ok(()) } else { Err(Error::cancelled()) }
        }
    }

    fn numbers(count: u64) -> Numbers {
        Numbers { next: 0, count, most: 0, written: Vec::new(), waits: 0, patience: u64::MAX }
    }

    #[test]
    fn pieces_are_written_in_order_and_few_are_ahead() {
        for workers in [1, 2, 5] {
            let mut numbers = numbers(300);
            in_order(workers, &mut numbers, |job| {
                std::thread::sleep(Duration::from_micros(job * 7919 % 300));
                Ok(job)
            })
            .unwrap();
            assert_eq!(numbers.written, (0..300).collect::<Vec<_>>());
            assert!(numbers.most <= workers as u64 * 2);
        }
    }

    #[test]
    fn who_waits_for_a_slow_worker_is_asked_and_can_end_it() {
        let mut numbers = Numbers { patience: 3, ..numbers(4) };
        let slow = |job| {
            std::thread::sleep(TICK * 10);
            Ok(job)
        };
        assert_eq!(in_order(2, &mut numbers, slow), Err(Error::cancelled()));
        assert_eq!((numbers.waits, numbers.written.len()), (3, 0));
    }

    #[test]
    fn an_error_or_a_panic_of_a_worker_ends_all_in_its_turn() {
        for workers in [1, 3] {
            let mut failing = numbers(100);
            let work = |job| if job == 7 { Err(Error::cancelled()) } else { Ok(job) };
            assert_eq!(in_order(workers, &mut failing, work), Err(Error::cancelled()));
            assert_eq!(failing.written, (0..7).collect::<Vec<_>>());
            let mut panicking = numbers(100);
            let work = |job| if job == 7 { panic!("on purpose") } else { Ok(job) };
            assert_eq!(in_order(workers, &mut panicking, work), Err(Error::defect()));
            assert_eq!(panicking.written, (0..7).collect::<Vec<_>>());
        }
    }
}
