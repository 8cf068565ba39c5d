//! The threads of a run: starting them, watching them from the caller's thread, and joining them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::commit::Committer;
use super::concurrency::{Concurrency, Sample};
use super::lease::Keeper;
use super::listing::Known;
use super::message::Message;
use super::shared::Shared;
use super::{lane, listing};
use crate::error::{Error, Kind, Result};
use crate::journal::{Credited, Ending, Standing};
use crate::options::Resume;
use crate::report::{Counts, Progress};
use crate::source::Behind;

/// How often `observer` is called: signals must be seen within 100 ms.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// The threads of one run; it joins them.
pub(super) struct Threads {
    lanes: Vec<JoinHandle<()>>,
    listing: Option<JoinHandle<()>>,
    committer: JoinHandle<(Credited, Ending)>,
    /// Extends the lease.
    keeper: Option<JoinHandle<()>>,
    over: Receiver<()>,
    /// A lane could not be started: no further one is tried.
    refused: bool,
}

impl Threads {
    pub fn start(
        shared: &Arc<Shared>,
        keeper: Arc<Keeper>,
        messages: Receiver<Message>,
        standing: &Standing,
        leased: bool,
    ) -> Result<Threads> {
        let (alive, over) = channel::<()>();
        // Of a listing that was finished, only what is deferred is left.
        let listed = standing.completed_at.is_some();
        let lists = listed || shared.options.resume != Resume::Failed;
        let committer = Committer::new(shared.clone(), keeper.clone(), standing, lists);
        let committer = spawn(shared, "shoal-commit", move || committer.run(&messages, alive))?;
        let mut threads = Threads { lanes: Vec::new(), listing: None, committer, keeper: None, over, refused: false };
        if leased {
            let cancelled = shared.clone();
            match spawn(shared, "shoal-lease", move || keeper.extend(&cancelled.cancel)) {
                Ok(thread) => threads.keeper = Some(thread),
                Err(error) => shared.cancel.fail(error),
            }
        }
        threads.grow(shared);
        if listed || shared.options.resume == Resume::Failed {
            shared.listed_all();
            return Ok(threads);
        }
        let compare = shared.options.resume == Resume::Relist
            || shared.source.properties().behind == Behind::Names
            || standing.cursor.as_ref().is_some_and(|cursor| shared.source.may_shift(cursor));
        let (known, listing) = (Known::new(standing, compare), shared.clone());
        match spawn(shared, "shoal-list", move || listing::run(&listing, known)) {
            Ok(thread) => threads.listing = Some(thread),
            Err(error) => shared.cancel.fail(error),
        }
        Ok(threads)
    }

    /// Starts the lanes that the target asks for and that are not there yet.
    fn grow(&mut self, shared: &Arc<Shared>) {
        let wanted = shared.busy_lanes(shared.parallel.target.load(Relaxed));
        while !self.refused && self.lanes.len() < wanted {
            let (index, lane) = (self.lanes.len(), shared.clone());
            match spawn(shared, "shoal-lane", move || lane::run(&lane, index)) {
                Ok(thread) => self.lanes.push(thread),
                Err(error) => {
                    self.refused = true;
                    match index {
                        0 => shared.cancel.fail(error),
                        _ => {
                            let why = error.why();
                            shared.note(&format!("only {index} of {wanted} worker threads could be started: {why}"));
                        }
                    }
                }
            }
        }
    }

    /// Watches the run from the caller's thread until it is over.
    pub fn watch(
        &mut self,
        shared: &Arc<Shared>,
        standing: &Standing,
        concurrency: &mut Concurrency,
        began: Instant,
        others_suffer: &mut Option<Box<dyn FnMut(Instant) -> bool>>,
        observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) {
        let mut observed: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if observed.is_none_or(|observed| now - observed >= TICK) {
                observed = Some(now);
                if observer(&progress(shared, standing, concurrency, began)).is_break() {
                    shared.cancel.interrupt();
                }
            }
            let wait = observed.map_or(TICK, |observed| TICK.saturating_sub(observed.elapsed()));
            match self.over.recv_timeout(wait.min(concurrency.tick(now))) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
            for hosts in [&shared.hosts, &shared.destination] {
                hosts.tick().into_iter().for_each(|error| shared.cancel.fail(error));
            }
            let sums = shared.counters.sums();
            let now = Instant::now();
            let of_source = shared.hosts.pressure().map(|(throttled, silent)| {
                (throttled, silent + shared.findings.late_connections(), shared.findings.slow_connections())
            });
            let (throttled, late, slow) = of_source.unwrap_or_default();
            let (sink_throttled, sink_late) = shared.destination.pressure().unwrap_or_default();
            let sample = Sample {
                now,
                objects: sums.written + sums.duplicates + sums.unchanged,
                bytes: sums.moved,
                settled: sums.written + sums.skipped + sums.failed,
                beats: sums.beats,
                in_flight: sums.in_flight as usize,
                throttled: throttled + sink_throttled,
                late: late + sink_late,
                slow,
                out_of_files: shared.counters.out_of_files.load(Relaxed),
                depth: shared.findings.depth(),
                paused: is_paused(shared),
                others_suffer: others_suffer.as_mut().is_some_and(|suffer| suffer(now)),
            };
            concurrency.look(sample, processor_time);
            shared.parallel.learnt.note(concurrency.learnt(), sample.objects, began.elapsed());
            shared.parallel.depth.store(shared.findings.depth(), Relaxed);
            shared.parallel.target.store(concurrency.target().max(shared.parallel.least), Relaxed);
            self.grow(shared);
        }
        let _ = observer(&progress(shared, standing, concurrency, began));
    }

    pub fn join(self, shared: &Shared, keeper: &Keeper) -> (Credited, Ending) {
        shared.queue.finish();
        if shared.cancel.is_raised() {
            keeper.end(); // lanes that wait for it end
        }
        for thread in self.lanes.into_iter().chain(self.listing) {
            let _ = thread.join(); // their bodies catch panics and report them
        }
        shared.tell_committer(Message::LanesEnded);
        let outcome = self.committer.join();
        keeper.end();
        if let Some(thread) = self.keeper {
            let _ = thread.join(); // a panic in it is one in the journal, which the committer meets too
        }
        match outcome {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic), // its body catches panics; only a panic in a panic comes here
        }
    }
}

/// Whether nothing can be fetched, or written, for the time being.
fn is_paused(shared: &Shared) -> bool {
    shared.hosts.are_all_gated() || shared.destination.are_all_gated()
}

/// Time in which threads of this process had a processor, all together.
fn processor_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

fn spawn<T: Send + 'static>(
    shared: &Arc<Shared>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let run = shared.clone();
    let lowered = move || {
        run.lower_priority();
        drop(run);
        body()
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(lowered).map_err(|e| {
        Error::new(Kind::Internal, format!("a thread could not be started: {e}"))
            .errno(e.raw_os_error())
            .hint("raise the limit of processes (ulimit -u, or the container's pids limit)")
    })
}

pub(super) fn progress(shared: &Shared, standing: &Standing, concurrency: &Concurrency, began: Instant) -> Progress {
    let sums = shared.counters.sums();
    let listed = shared.counters.listed.load(Relaxed);
    let settled = sums.written + sums.skipped + sums.failed;
    Progress {
        run: Counts {
            listed,
            written: sums.written,
            skipped: sums.skipped,
            failed: sums.failed,
            unfinished: listed.saturating_sub(settled),
            bytes: sums.bytes,
        },
        before: standing.totals,
        listing_done: shared.queue.is_listed_all(),
        in_flight: sums.in_flight as usize,
        workers: concurrency.target(),
        retries: sums.retries + shared.counters.listing_retries.load(Relaxed),
        deferred: shared.counters.deferred.load(Relaxed),
        retry_in: shared.retry_in(),
        committed: shared.counters.committed.load(Relaxed),
        paused: is_paused(shared),
        elapsed: began.elapsed(),
    }
}
