//! `Run`: puts a run together, runs it to its end on threads of its own, and says what came of it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::Notify;

use super::commit::commit_state;
use super::concurrency::{Concurrency, Reach, Setup};
use super::doubles::Doubles;
use super::frontier::Frontier;
use super::lease::Keeper;
use super::progress::Counters;
use super::shared::{Parallel, Shared, Told};
use super::threads::{TICK, Threads, progress};
use super::{alike, budget, cancel, filter, learnt, queue, rate};
use crate::display::count;
use crate::error::{Error, Kind, Result};
use crate::hosts::{Hosts, Rules};
use crate::journal::{Credited, Journal, Standing};
use crate::options::{Resume, TransferOptions, Workers};
use crate::poison::ignore_poison;
use crate::report::{Counts, Progress, Reason, Report};
use crate::session::Lease;
use crate::sink::{Sink, Started};
use crate::source::{Source, SourceProperties, WHOLE_MAX};

/// Lanes at the most, where each is blocked by what it fetches: for each core, and in any case. A disk or a network file
/// system wants that many requests at once before it is busy, however few cores ask (64 are a tenth faster than 32 with cold
/// files on a virtual disk).
const BLOCKED_LANES: usize = 16;
const BLOCKED_LANES_MIN: usize = 64;
/// Objects in flight with many hosts, at least: slow hosts, with six connections each, must not take all that is allowed. The
/// hosts themselves are protected by the limit on their connections.
const LEAST_OF_MANY: usize = 256;
/// Objects of a lane that may hang, because their hosts are silent. Each may take a thread to look up a name (of
/// 512), four sockets, and what memory an object in flight may take.
const HANGING_OF_LANE: usize = 400;
/// Failures shown in the report; all of them are in the journal.
pub(crate) const FAILURES_SHOWN: usize = 20;

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
        let writing = sink.properties();
        // Where writing waits without a thread, one lane has many objects in flight although each read blocks it.
        let fetching = source.properties();
        let blocking = !fetching.is_network && !writing.waits;
        let lanes = lane_count(fetching, options.workers, cores, blocking);
        let (sender, messages) = channel();
        let reach = if blocking { Reach::Blocking { cores } } else { Reach::Network };
        let memory_max = usize::try_from(options.memory).unwrap_or(usize::MAX) / WHOLE_MAX;
        let setup = Setup {
            workers: options.workers,
            reach,
            lanes,
            files_max,
            memory_max,
            learnt: standing.learnt.and_then(|learnt| usize::try_from(learnt).ok()),
            storage: source.storage(),
            writes: writing.blocks,
        };
        let mut concurrency = Concurrency::new(setup, began);
        let filter = match filter::Filter::new(&options.include, &options.exclude) {
            Ok(filter) => filter,
            Err(error) => return (Report::default(), Some(error)),
        };
        let least = match options.workers {
            Workers::Auto if fetching.many_hosts => LEAST_OF_MANY.min(files_max),
            _ => 0,
        };
        let notes = [standing.notes.clone(), started.notes.clone(), source.notes()].concat();
        // Retries of failures know that these have failed.
        let retries = standing.completed_at.is_some() || options.resume == Resume::Failed;
        let may_be_wrong = fetching.is_network || fetching.once;
        let keeps_going = options.keep_going == Some(true) || options.max_failures.is_some();
        let watches = may_be_wrong && !retries && !keeps_going && !standing.before.has_succeeded;
        let open_max = (journal.is_kept() && !fetching.once && !options.dry_run).then_some(writing.open_max).flatten();
        let counters = Counters::new(lanes, journal.deferred());
        let keeper = Arc::new(Keeper::new(journal, sink.clone(), lease, started.began, local));
        let shared = Arc::new(Shared {
            pass: standing.pass,
            queue: queue::Queue::new(lanes, standing.mark, writing, fetching.many_hosts),
            writing,
            keeps_times: options.keep_times.unwrap_or(fetching.has_times),
            frontier: Mutex::new(Frontier::new(standing.frontier, standing.chain)),
            hosts: Hosts::new("the server", rules(&options, fetching.many_hosts)),
            destination: Hosts::new("the destination", rules(&options, false)),
            cancel: cancel::Cancel::default(),
            budget: budget::Budget::new(options.memory),
            rate: rate::Rate::new(options.limit_rate),
            filter,
            counters,
            lower,
            parallel: Parallel {
                lanes,
                blocking,
                target: AtomicUsize::new(concurrency.target().max(least)),
                least,
                depth: AtomicUsize::new(1),
                hanging_max: HANGING_OF_LANE.min(files_max / 16 / lanes).min(memory_max / 2 / lanes),
                learnt: learnt::Learnt::default(),
            },
            findings: Arc::default(),
            batch,
            open_max,
            alike: alike::Alike::new(watches, fetching.many_hosts),
            told: Told { notes: Mutex::new(notes), ..Told::default() },
            room: (0..lanes).map(|_| Notify::new()).collect(),
            doubles: Doubles::default(),
            committer: sender,
            source,
            sink,
            options,
        });
        let mut threads = match Threads::start(&shared, keeper.clone(), messages, &standing, started.began.is_some()) {
            Ok(threads) => threads,
            Err(error) => return (Report::default(), Some(error)),
        };
        threads.watch(&shared, &standing, &mut concurrency, began, &mut others_suffer, observer);
        let (committed, ending) = threads.join(&shared, &keeper);
        if !shared.cancel.is_raised() {
            let mut observed = Instant::now();
            let mut stop = || {
                if observed.elapsed() >= TICK {
                    observed = Instant::now();
                    if observer(&progress(&shared, &standing, &concurrency, began)).is_break() {
                        shared.cancel.interrupt();
                    }
                }
                shared.cancel.is_raised()
            };
            if let Err(error) = mend(&mut keeper.journal(), &*shared.sink, &mut stop) {
                shared.cancel.fail(error);
            }
        }
        let clock = keeper.clock().ok().flatten(); // of a destination that is gone, the last lease stays
        let mut journal = keeper.journal();
        if let Some(in_flight) = shared.parallel.learnt.get() {
            journal.note_learnt(in_flight);
        }
        let ended = journal.end_session(clock, ending);
        let has_ended = ended.is_ok() && clock.is_some() == started.began.is_some();
        let (note, finished) = match has_ended.then(|| shared.sink.finish()) {
            Some(Err(error)) => (None, Some(error)),
            Some(Ok(note)) => (note, None),
            None => (None, None),
        };
        let error = shared.cancel.take_reason().or(finished).or(ended.err());
        let mut report = report(&shared, &journal, committed, &started);
        report.notes.extend(note);
        report.resumed_from = standing.totals.written;
        report.elapsed = began.elapsed();
        report.workers = concurrency.chosen();
        report.concurrency = concurrency.path(report.elapsed);
        report.notes.extend(std::mem::take(&mut *ignore_poison(shared.told.remarks.lock())));
        report.notes.extend(shared.source.remarks());
        let (repeated, advice) = &*ignore_poison(shared.told.repeated.lock());
        if *repeated > 0 {
            let objects = if *repeated == 1 { "1 object" } else { &format!("{} objects", count(*repeated)) };
            report.notes.push(format!("{objects} failed because another object has the same name: {advice}"));
            report.advice.clone_from(advice);
        }
        let kept = shared.counters.sums().kept;
        if kept > 0 {
            report.notes.push(format!(
                "{kept} of the objects were already at the destination, from an earlier session; some of them may be \
                duplicates, which are otherwise skipped"
            ));
        }
        let vanished = journal.skips().of(Reason::Vanished);
        if vanished >= alike::ENOUGH && vanished == report.total.listed {
            report
                .notes
                .push(format!("all {} objects are gone from the source: is its address right?", count(vanished)));
        }
        let edited = journal.skips().of(Reason::Edited);
        report.edited = edited;
        if edited > 0 {
            let copies = if edited == 1 { "1 copy was" } else { &format!("{} copies were", count(edited)) };
            report.notes.push(format!(
                "{copies} changed at the destination, and not at the source, and left so: `overwrite=\"always\"` \
                replaces such copies"
            ));
        }
        report.workers_reason = match shared.findings.depth() {
            1 => concurrency.reason(),
            depth => format!("{}; up to {depth} requests pipelined on each connection", concurrency.reason()),
        };
        let lists = standing.completed_at.is_some() || shared.options.resume != Resume::Failed;
        report.complete =
            lists && error.is_none() && !shared.told.partial.load(Relaxed) && report.total.unfinished == 0;
        // What an earlier session has committed was not held against the patterns in this one.
        if report.complete && standing.totals.listed == 0 && report.run.listed > 0 {
            report.notes.extend(shared.filter.notes(report.run.listed));
        }
        if !lists && error.is_none() {
            let note = "the listing of this run is not finished: run again without `resume=\"failed\"` to continue it";
            report.notes.push(note.into());
        }
        let mut error = error.or_else(|| unbalanced(&report));
        if error.as_ref().is_some_and(|error| error.kind() == Kind::NothingMatched)
            && standing.before.is_blank
            && let Err(broken) = journal.forget()
        {
            error = Some(broken);
        }
        (report, error)
    }
}

fn rules(options: &TransferOptions, many: bool) -> Rules {
    Rules { max_retries: options.max_retries, timeout: options.retry_timeout, many }
}

/// Has the sink remove what was withdrawn, as much at a time as it likes.
fn mend(journal: &mut Journal, sink: &dyn Sink, stop: &mut dyn FnMut() -> bool) -> Result<()> {
    loop {
        let state = sink.mend(journal, stop).map_err(Error::of_sink)?;
        if state.is_empty() {
            return Ok(());
        }
        commit_state(journal, sink, state)?;
    }
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
fn lane_count(source: SourceProperties, workers: Workers, cores: usize, blocking: bool) -> usize {
    let lanes = match (workers, !blocking) {
        (Workers::Fixed(count), true) => count.clamp(1, cores),
        (Workers::Fixed(count), false) => count.max(1),
        (Workers::Auto, true) => cores,
        (Workers::Auto, false) => (cores * BLOCKED_LANES).max(BLOCKED_LANES_MIN),
    };
    lanes.min(source.lanes_max.unwrap_or(lanes)).max(1)
}

fn report(shared: &Shared, journal: &Journal, committed: Credited, started: &Started) -> Report {
    let sums = shared.counters.sums();
    let (uncommitted, deferred) = (shared.queue.uncommitted(), journal.deferred());
    let last_failure = ignore_poison(shared.told.last_failure.lock()).take();
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
        retries: sums.retries + shared.counters.listing_retries.load(Relaxed),
        unverified: sums.unverified,
        wasted: sums.wasted,
        duplicates: sums.duplicates,
        unchanged: sums.unchanged,
        durability: started.durability.clone(),
        publish: started.publish.clone(),
        paused: shared.hosts.paused_total() + shared.destination.paused_total(),
        failures: last_failure.into_iter().chain(recorded).take(FAILURES_SHOWN).collect(),
        notes: std::mem::take(&mut *ignore_poison(shared.told.notes.lock())),
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
