//! The engine: copies a source's partitions into a sink. It knows `Source`, `Sink` and `Partition`,
//! but not HTTP, archives, paths or Python.
//!
//! ```text
//! source ──partitions──▶ queue ──▶ lane: fetch ▸ fetch ▸ fetch ──▶ writer ──┐ sealed partitions
//!   ▲  (bounded, ordered)      ──▶ lane: fetch ▸ fetch ▸ fetch ──▶ writer ──┼──▶ committer: barrier ▸ journal
//!   └──────────── on restart: continue after the last committed page ◀──────┘
//! ```
//!
//! The states of a partition: listed (`listing.rs`) → queued, up to the high-water mark (`queue.rs`) → open on a lane,
//! or in parts on several (`open.rs`, `lane/`, `slot.rs`) → every object written, skipped, failed or deferred → sealed
//! → synced → in the journal (`commit.rs`) → below the frontier (`frontier.rs`), where one row represents all
//! partitions. ARCHITECTURE.md has the table of the states of a partition, an object and a file after a kill.

mod budget;
mod cancel;
mod commit;
mod concurrency;
mod filter;
mod frontier;
mod lane;
mod learnt;
mod lease;
mod listing;
mod open;
mod progress;
mod queue;
mod rate;
mod retry;
mod slot;
mod threads;

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::display::count;
use crate::error::{Error, Kind, Result};
use crate::journal::{Credited, Journal, Standing};
use crate::options::{Pass, Resume, TransferOptions, Workers};
use crate::report::{Counts, Failure, Progress, Report, archive_of, is_of_archives};
use crate::session::Lease;
use crate::sink::{Sink, Started};
use crate::source::{Entry, Source, WHOLE_MAX};
use tokio::sync::Notify;

use commit::Message;
use concurrency::{Concurrency, Reach, Setup};
pub(crate) use filter::Filter;
use frontier::Frontier;
use lease::Keeper;
use progress::Counters;
use threads::Threads;

/// Connections of one lane before the next is put to work, where writing costs nothing.
const LANE_FILL: usize = 32;
/// Lanes at the most, where each is blocked by what it fetches: for each core, and in any case. A disk or a network file
/// system wants that many requests at once before it is busy, however few cores ask (64 are a tenth faster than 32 with cold
/// files on a virtual disk).
const BLOCKED_LANES: usize = 16;
const BLOCKED_LANES_MIN: usize = 64;
/// Failures shown in the report; all of them are in the journal.
pub(crate) const FAILURES_SHOWN: usize = 20;

/// What all threads of a run share.
pub(crate) struct Shared {
    source: Arc<dyn Source>,
    sink: Arc<dyn Sink>,
    options: TransferOptions,
    lanes: usize,
    /// What the listing was begun as.
    pass: Pass,
    queue: queue::Queue,
    frontier: Mutex<Frontier>,
    retry: retry::Retry,
    cancel: cancel::Cancel,
    budget: budget::Budget,
    rate: rate::Rate,
    filter: filter::Filter,
    counters: Counters,
    /// Lowers the priority of the calling thread, if the run is to leave the machine to others.
    lower: Option<fn() -> Result<(), String>>,
    /// Each lane works on one object at a time, blocked by what it fetches: lanes = workers.
    blocking: bool,
    /// Objects in flight over all lanes, as `concurrency` wants it.
    target: AtomicUsize,
    /// What the next session may start from.
    learnt: learnt::Learnt,
    /// Objects in flight on one connection, as the source knows by now.
    depth: AtomicUsize,
    out_of_files: AtomicU64,
    listing_retries: AtomicU64,
    deferred: AtomicU64,
    /// When the next of them is due, in Unix milliseconds; 0: not known, or none.
    next_due: AtomicU64,
    batch: Option<u64>,
    notes: Mutex<Vec<String>>,
    /// How many objects had a name that another had before, and what the sink advises.
    repeated: Mutex<(u64, String)>,
    /// The sink has room again; one for each lane.
    room: Vec<Notify>,
    /// The failure that was one too many.
    last_failure: Mutex<Option<Failure>>,
    committer: Sender<Message>,
}

impl Shared {
    fn frontier(&self) -> MutexGuard<'_, Frontier> {
        self.frontier.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn note(&self, text: &str) {
        self.notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(text.to_owned());
    }

    /// What every thread of the run does first.
    fn lower_priority(&self) {
        if let Some(Err(refused)) = self.lower.map(|lower| lower()) {
            let notes = &mut *self.notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if !notes.contains(&refused) {
                notes.push(refused); // the kernel refuses it to every thread
            }
        }
    }

    /// Counts an object that had a name which another had before, where something can be done about it.
    fn repeated(&self, error: &Error) {
        if let Some(advice) = error.advice() {
            let (count, known) = &mut *self.repeated.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *count += 1;
            if known.is_empty() {
                advice.clone_into(known);
            }
        }
    }

    /// How long until the next deferred object is due.
    fn retry_in(&self) -> Option<Duration> {
        let due = Some(self.next_due.load(Relaxed)).filter(|&due| due > 0)?;
        Some(Duration::from_millis(due.saturating_sub(slot::now_ms())))
    }

    fn tell_committer(&self, message: Message) {
        // It hangs up only when the run is over; then nobody needs to know.
        let _ = self.committer.send(message);
    }

    /// How many lanes share `target` objects in flight. As asked for, or where writing takes time, all of them; else no more
    /// than it takes: into `null:` one thread with 32 connections beats two with 16 each (120,000/s to 94,000/s on two
    /// cores, one request at a time).
    fn busy_lanes(&self, target: usize) -> usize {
        match self.options.workers {
            _ if self.blocking => target.clamp(1, self.lanes),
            Workers::Auto if !self.sink.blocks() => {
                target.div_ceil(LANE_FILL * self.depth.load(Relaxed)).clamp(1, self.lanes)
            }
            _ => self.lanes,
        }
    }

    /// Stops the run when too many objects have failed; `entry` is the last of them.
    fn check_failures(&self, entry: &Entry<'_>, last: &Error, tries: u32) {
        if self.stop_at_failures(last) {
            // Its partition will not be committed any more, so the journal cannot tell.
            let (kind, reason) = (last.kind().as_str().to_owned(), last.why().to_owned());
            let archive = is_of_archives(&self.source.identity()).then(|| archive_of(entry.locator).into());
            let failure = Failure { name: entry.name.into(), archive, kind, reason, tries };
            self.last_failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(failure);
        }
    }

    /// Stops the run when too many objects have failed; whether they have.
    fn stop_at_failures(&self, last: &Error) -> bool {
        let Some(most) = self.options.max_failures else { return false };
        let too_many = self.counters.sums().failed > most;
        if too_many {
            let why = format!("more than {most} objects failed; the last one: {}", last.line());
            self.cancel.fail(
                Error::new(Kind::TooManyFailures, why)
                    .hint("fix the cause and run the same command again, or raise `max_failures`"),
            );
        }
        too_many
    }
}

/// What a run with `nice` needs of the system.
pub(crate) struct Neighbour {
    /// Lowers the priority of the calling thread; the error is a note for the report.
    pub lower: fn() -> Result<(), String>,
    /// Whether others wait for what this process uses. `None`: this system does not say.
    pub others_suffer: Option<Box<dyn FnMut(Instant) -> bool>>,
}

/// Everything a run needs, made by `transfer`.
pub(crate) struct Run {
    pub source: Arc<dyn Source>,
    pub sink: Arc<dyn Sink>,
    pub options: TransferOptions,
    pub journal: Journal,
    pub standing: Standing,
    pub started: Started,
    /// Until when may be written, as the sink knows it.
    pub lease: Arc<Lease>,
    /// This machine's clock before the destination's was read.
    pub local: i64,
    /// In flight that the open-file limit allows.
    pub files_max: usize,
    /// For tests: objects of a batch.
    pub batch: Option<u64>,
    /// With `nice`.
    pub neighbour: Option<Neighbour>,
}

impl Run {
    /// Runs to the end on threads of its own; `observer` is called on the caller's thread about every 50 ms.
    pub fn run(self, observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>) -> (Report, Option<Error>) {
        let began = Instant::now();
        let Run { source, sink, options, journal, standing, started, lease, local, files_max, batch, .. } = self;
        let lower = self.neighbour.as_ref().map(|neighbour| neighbour.lower);
        let mut others_suffer = self.neighbour.and_then(|neighbour| neighbour.others_suffer);
        let cores = cores(options.nice);
        let lanes = lane_count(&*source, options.workers, cores);
        let (sender, messages) = channel();
        let blocking = !source.is_network();
        let reach = if blocking { Reach::Blocking { cores } } else { Reach::Network };
        let setup = Setup {
            workers: options.workers,
            reach,
            lanes,
            files_max,
            memory_max: usize::try_from(options.memory).unwrap_or(usize::MAX) / WHOLE_MAX,
            source_max: source.in_flight_max(),
            learnt: standing.learnt.and_then(|learnt| usize::try_from(learnt).ok()),
            storage: source.storage(),
            writes: sink.blocks(),
        };
        let mut concurrency = Concurrency::new(setup, began);
        let filter = match filter::Filter::new(&options.include, &options.exclude) {
            Ok(filter) => filter,
            Err(error) => return (Report::default(), Some(error)),
        };
        let deferred_before = journal.deferred();
        let keeper = Arc::new(Keeper::new(journal, sink.clone(), lease, started.began, local));
        let shared = Arc::new(Shared {
            lanes,
            pass: standing.pass,
            blocking,
            queue: queue::Queue::new(lanes, standing.mark),
            frontier: Mutex::new(Frontier::new(standing.frontier, standing.chain)),
            retry: retry::Retry::new(options.max_retries, options.retry_timeout),
            cancel: cancel::Cancel::default(),
            budget: budget::Budget::new(options.memory),
            rate: rate::Rate::new(options.limit_rate),
            filter,
            counters: Counters::new(lanes),
            lower,
            target: AtomicUsize::new(concurrency.target()),
            learnt: learnt::Learnt::default(),
            depth: AtomicUsize::new(1),
            out_of_files: AtomicU64::new(0),
            listing_retries: AtomicU64::new(0),
            deferred: AtomicU64::new(deferred_before),
            next_due: AtomicU64::new(0),
            batch,
            notes: Mutex::new([standing.notes.clone(), started.notes.clone(), source.notes()].concat()),
            last_failure: Mutex::default(),
            repeated: Mutex::default(),
            room: (0..lanes).map(|_| Notify::new()).collect(),
            committer: sender,
            source,
            sink,
            options,
        });
        let weak = Arc::downgrade(&shared); // the sink must not keep the run alive
        shared.sink.wake_with(Box::new(move || {
            if let Some(shared) = weak.upgrade() {
                shared.room.iter().for_each(Notify::notify_one);
            }
        }));
        // Objects that earlier runs deferred are this run's work too.
        shared.counters.listed.fetch_add(deferred_before, Relaxed);
        let mut threads = match Threads::start(&shared, keeper.clone(), messages, &standing, started.began.is_some()) {
            Ok(threads) => threads,
            Err(error) => return (Report::default(), Some(error)),
        };
        threads.watch(&shared, &standing, &mut concurrency, began, &mut others_suffer, observer);
        let (committed, ending) = threads.join(&shared, &keeper);
        let clock = keeper.clock().ok().flatten(); // of a destination that is gone, the last lease stays
        let mut journal = keeper.journal();
        if let Some(in_flight) = shared.learnt.get() {
            journal.note_learnt(in_flight);
        }
        let ended = journal.end_session(clock, ending);
        let has_ended = ended.is_ok() && clock.is_some() == started.began.is_some();
        let finished = if has_ended { shared.sink.finish() } else { Ok(()) };
        let error = shared.cancel.take_reason().or(finished.err()).or(ended.err());
        let mut report = report(&shared, &journal, committed, &started);
        report.resumed_from = standing.totals.written;
        report.elapsed = began.elapsed();
        report.workers = concurrency.chosen();
        report.concurrency = concurrency.path(report.elapsed);
        report.notes.extend(shared.source.remarks());
        let (repeated, advice) = &*shared.repeated.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *repeated > 0 {
            let objects = if *repeated == 1 { "1 object" } else { &format!("{} objects", count(*repeated)) };
            report.notes.push(format!("{objects} failed because another object has the same name: {advice}"));
        }
        let kept = shared.counters.sums().kept;
        if kept > 0 {
            report
                .notes
                .push(format!("{kept} of the objects were already at the destination, from an earlier session"));
        }
        report.workers_reason = match shared.source.depth() {
            1 => concurrency.reason(),
            depth => format!("{}; up to {depth} requests pipelined on each connection", concurrency.reason()),
        };
        let lists = standing.completed_at.is_some() || shared.options.resume != Resume::Failed;
        report.complete = lists && error.is_none() && shared.source.is_whole() && report.total.unfinished == 0;
        // What an earlier session has committed was not held against the patterns in this one.
        if report.complete && standing.totals.listed == 0 && report.run.listed > 0 {
            report.notes.extend(shared.filter.notes(report.run.listed));
        }
        if !lists && error.is_none() {
            let note = "the listing of this run is not finished: run again without `resume=\"failed\"` to continue it";
            report.notes.push(note.into());
        }
        let error = error.or_else(|| unbalanced(&report));
        (report, error)
    }
}

/// A panic is a defect of shoal; it ends the run like any other error.
fn panicked(part: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    Error::new(Kind::Internal, format!("{part} panicked: {}", crate::display::escape(text.as_bytes())))
        .hint("this is a bug in shoal, please report it; committed work is kept, and the same command resumes")
}

/// Cores that the run may use: those in this process's affinity mask, and no more than a CPU quota of its control group
/// allows (cgroup 1 and 2, the least of the group and of all above it, rounded down, at least 1); with `nice`, half of them.
/// What the standard library does not see: groups above a container's own root, cgroup 2 mounted elsewhere than at
/// `/sys/fs/cgroup`, and a change later on.
fn cores(nice: bool) -> usize {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    if nice { all.div_ceil(2) } else { all }
}

/// Lanes that the run may come to have.
fn lane_count(source: &dyn Source, workers: Workers, cores: usize) -> usize {
    let lanes = match (workers, source.is_network()) {
        (Workers::Fixed(count), true) => count.clamp(1, cores),
        (Workers::Fixed(count), false) => count.max(1),
        (Workers::Auto, true) => cores,
        (Workers::Auto, false) => (cores * BLOCKED_LANES).max(BLOCKED_LANES_MIN),
    };
    lanes.min(source.lanes_max().unwrap_or(lanes)).max(1)
}

fn report(shared: &Shared, journal: &Journal, committed: Credited, started: &Started) -> Report {
    let sums = shared.counters.sums();
    let (uncommitted, deferred) = (shared.queue.uncommitted(), journal.deferred());
    let last_failure = shared.last_failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    let recorded = journal.failures(FAILURES_SHOWN).filter_map(Result::ok);
    let mut total = journal.totals();
    total.listed += uncommitted;
    total.unfinished += uncommitted;
    Report {
        run: Counts {
            listed: shared.counters.listed.load(Relaxed),
            written: committed.written,
            skipped: committed.skipped,
            failed: committed.failed,
            unfinished: uncommitted + deferred,
            bytes: committed.bytes,
        },
        total,
        retries: sums.retries + shared.listing_retries.load(Relaxed),
        unverified: sums.unverified,
        wasted: sums.wasted,
        duplicates: sums.duplicates,
        unchanged: sums.unchanged,
        durability: started.durability.clone(),
        publish: started.publish.clone(),
        paused: shared.retry.paused_total(),
        failures: last_failure.into_iter().chain(recorded).take(FAILURES_SHOWN).collect(),
        notes: std::mem::take(&mut *shared.notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())),
        ..Report::default()
    }
}

fn unbalanced(report: &Report) -> Option<Error> {
    let fine = report.run.balanced() && report.total.balanced() && report.run.unfinished == 0;
    (!fine).then(|| {
        let why = format!("the counts do not balance: this run {:?}, in all {:?}", report.run, report.total);
        Error::new(Kind::Internal, why).hint("this is a bug in shoal, please report it")
    })
}
