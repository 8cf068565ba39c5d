//! How many objects are in flight, from measured throughput.
//!
//! One controller for all jobs. What it sets is one number, over two knobs: for a medium that blocks a thread it is the
//! number of lanes; for a network, the objects in flight over all lanes (`Shared::busy_lanes` divides it).
//!
//! It maximises goodput, the objects and bytes that the sink takes, with as few in flight as reach it (`search.rs`). Answers
//! that ask to slow down, late connections (`hosts/trouble.rs`) and missing file descriptors reduce the number at once, and so
//! does a stall while connections take long (`stall.rs`). The models of media that prove it, in virtual time, are in `models.rs`. Bytes
//! a second and pauses of a host are elsewhere (`rate.rs`, `retry/`).

mod comparison;
#[cfg(test)]
mod models;
mod numbers;
mod path;
mod search;
mod stall;
mod usual;
mod window;

use std::time::{Duration, Instant};

use crate::hosts::{Answers, Consequence, Sign, Trouble};
use crate::object::Storage;
use crate::options::Workers;
use crate::report::Step;
use path::Path;
use search::{Conditions, Search, Why};
use stall::Stall;
use window::{Meter, Window};

pub(crate) use window::Sample;

/// In flight at the start, from a network: what the smallest servers accept at once (Python's `http.server` has a queue of
/// five connections).
const START: usize = 4;
/// Lanes at the start for a network file system, which answers many requests at once: a round trip is long.
const START_REMOTE: usize = 8;
/// In flight per lane at the most: beyond, connections only cost memory.
const PER_LANE_MAX: usize = 128;
/// Descriptors of a lane that reads files: four of its event loop, the directory, the file; two to spare.
const FILES_OF_A_LANE: usize = 8;
/// Connections per lane at the start and at the most, where each has several objects in flight. Fewer than at the start are
/// not tried: they save next to nothing. Measured on two cores with 64 on each, for 64, 256, 512 and 1,024 in flight:
/// 463,000, 635,000, 641,000 and 667,000/s into `null:`; 405,000, 537,000, 578,000 and 584,000/s into `parquet:`.
const DEEP_START: usize = 4;
const DEEP_MAX: usize = 8;
/// Part of the cores that is left for this process where it writes files: the kernel's own threads, which write back what a
/// barrier wants, take up to a third.
const WRITING: f64 = 0.7;
/// Time between two reductions for missing file descriptors, and after which one more step is allowed again.
const FILES_AGAIN: Duration = Duration::from_millis(500);
const FILES_BACK: Duration = Duration::from_secs(60);
/// Longest time between two looks: `progress` and signals have this pace too.
const TICK_MAX: Duration = Duration::from_millis(50);
/// How often a number that was reduced grows by a step again.
const CREEP: Duration = Duration::from_millis(250);
/// The same to a number that was too much before.
const CREEP_PAST: Duration = Duration::from_secs(1);

/// What a lane waits for, and so how many objects in flight make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A network: many in flight on each lane.
    Network,
    /// Its own reads: one on each lane, to begin with a lane for each core.
    Blocking { cores: usize },
}

/// What is known before the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub workers: Workers,
    pub reach: Reach,
    pub lanes: usize,
    /// In flight that the open-file limit allows.
    pub files_max: usize,
    /// In flight that the memory budget allows.
    pub memory_max: usize,
    /// What an earlier session of the run has found.
    pub learnt: Option<usize>,
    /// What the source's files are on.
    pub storage: Storage,
    /// The sink writes files.
    pub writes: bool,
}

/// Chooses the number of objects in flight over all lanes.
pub(crate) struct Concurrency {
    began: Instant,
    workers: Workers,
    reach: Reach,
    lanes: usize,
    search: Search,
    trouble: Trouble,
    /// Cores that are there for this process, where lanes may wait for one.
    cores: Option<f64>,
    /// What nothing passes, and why if that is not only this file.
    ceiling: usize,
    limited: Option<&'static str>,
    /// The same with one object on each connection, and whether that is a limit of connections.
    ceiling_alone: usize,
    is_limited_alone: bool,
    /// When a file descriptor was missing last.
    out_of_files_at: Option<Instant>,
    /// Objects in flight on one connection, as far as known.
    depth: usize,
    /// In flight that the memory budget allows.
    memory_max: usize,
    /// A fixed number as it is now, and the first sample of it.
    fixed: (usize, Option<Sample>),
    /// After a reduction, the number grows step by step; when it did last.
    creeps: bool,
    crept_at: Instant,
    /// As counted at the last look.
    out_of_files: u64,
    meter: Option<Meter>,
    stall: Stall,
    /// The number in force is smaller than the one before.
    lowered: bool,
    /// Comparisons that are on the path.
    compared: u32,
    /// Windows measured.
    #[cfg(test)]
    windows: u32,
    path: Path,
}

impl Concurrency {
    pub fn new(setup: Setup, began: Instant) -> Concurrency {
        let Setup { workers, reach, lanes, files_max, memory_max, learnt, storage, writes } = setup;
        let auto = match (reach, storage) {
            (Reach::Network, _) => START,
            (Reach::Blocking { cores }, Storage::Remote) => cores.max(START_REMOTE),
            // A disk that turns serves one request at a time; a virtual disk often claims to be one, and is not.
            (Reach::Blocking { cores }, Storage::Rotational) => cores.min(2),
            (Reach::Blocking { cores }, Storage::Memory | Storage::Other) => cores,
        };
        let (wanted, mut ceiling) = match (workers, reach) {
            (Workers::Fixed(count), _) => (count.max(1), count.max(1)),
            (Workers::Auto, Reach::Network) => (learnt.unwrap_or(auto), PER_LANE_MAX * lanes),
            (Workers::Auto, Reach::Blocking { .. }) => (learnt.unwrap_or(auto), lanes),
        };
        // A lane has descriptors of its own (its event loop, a directory) besides the object it reads.
        let files_max = if reach == Reach::Network { files_max } else { files_max / FILES_OF_A_LANE };
        let mut limited = None;
        for (limit, why) in [(files_max, "the open-file limit"), (memory_max, "the memory budget")] {
            if limit < ceiling {
                (ceiling, limited) = (limit.max(1), Some(why));
            }
        }
        let start = wanted.clamp(1, ceiling);
        let mut path = Path::default();
        path.enter(Duration::ZERO, start);
        Concurrency {
            began,
            workers,
            reach,
            lanes,
            search: Search::new(start),
            trouble: Trouble::default(),
            cores: match reach {
                Reach::Blocking { cores } if writes => Some(WRITING * cores as f64),
                Reach::Blocking { cores } => Some(cores as f64),
                Reach::Network => None,
            },
            ceiling,
            limited,
            ceiling_alone: ceiling,
            is_limited_alone: limited.is_some(),
            out_of_files_at: None,
            memory_max,
            depth: 1,
            fixed: (start, None),
            creeps: false,
            crept_at: began,
            out_of_files: 0,
            meter: None,
            stall: Stall::new(began),
            lowered: false,
            compared: 0,
            #[cfg(test)]
            windows: 0,
            path,
        }
    }

    /// Objects in flight over all lanes.
    pub fn target(&self) -> usize {
        match self.workers {
            Workers::Fixed(_) => self.fixed.0,
            Workers::Auto => self.search.target(),
        }
    }

    /// The number that the report tells: while another is tried, the best so far.
    pub fn chosen(&self) -> usize {
        match self.workers {
            Workers::Fixed(_) => self.fixed.0,
            Workers::Auto => self.search.best(),
        }
    }

    /// What a later session of the run begins with, once the search has come to an end.
    pub fn learnt(&self) -> Option<u32> {
        let is_free = self.trouble.last_barred().is_none_or(|barred| barred > self.search.best() * 2);
        let has_found = self.workers == Workers::Auto && self.depth == 1 && is_free && self.search.is_at_rest();
        u32::try_from(self.search.best()).ok().filter(|_| has_found)
    }

    /// The numbers that were tried in a run that has taken so long. The last one is `chosen`.
    pub fn path(&self, elapsed: Duration) -> Vec<Step> {
        self.path.steps(elapsed, self.chosen())
    }

    /// How long until `look` should be called again.
    pub fn tick(&self, now: Instant) -> Duration {
        match self.workers {
            Workers::Fixed(_) => TICK_MAX,
            Workers::Auto => (self.search.length(now - self.began).at_least / 2).min(TICK_MAX),
        }
    }

    /// Looks at the run. `cpu`: the processor time of this process so far.
    pub fn look(&mut self, sample: Sample, cpu: impl Fn() -> Duration) {
        let out_of_files = std::mem::replace(&mut self.out_of_files, sample.out_of_files);
        let since = self.out_of_files_at.map(|at| sample.now.saturating_duration_since(at));
        if sample.out_of_files > out_of_files && since.is_none_or(|since| since >= FILES_AGAIN) {
            self.ceiling = (self.target() / 2).max(1);
            self.limited = Some("the open-file limit");
            self.out_of_files_at = Some(sample.now);
            self.set(self.ceiling, &sample);
        } else if since.is_some_and(|since| since >= FILES_BACK) && self.ceiling < self.ceiling_alone {
            self.ceiling = numbers::up(self.ceiling).min(self.ceiling_alone);
            self.out_of_files_at = Some(sample.now);
        }
        if sample.paused {
            // What is measured now says something about the host, not about the number. Whatever is answered after the pause
            // belongs to the number in force.
            (self.meter, self.lowered) = (None, false);
            self.stall.pause(&sample);
            return;
        }
        // Bad answers may still belong to a larger number before.
        let settled = !self.lowered || self.meter.as_ref().is_some_and(Meter::is_settled);
        match self.workers {
            Workers::Fixed(_) => self.look_fixed(&sample, settled, cpu),
            Workers::Auto => {
                if sample.depth != self.depth {
                    return self.set_depth(&sample);
                }
                let (number, best) = (self.target(), self.search.best());
                let largest = self.search.largest();
                if self.reach == Reach::Network
                    && let Some(before) = self.stall.look(&sample, number, largest)
                {
                    self.trouble.bar(sample.now - self.began, largest, Sign::Stalled);
                    return self.set(before, &sample);
                }
                // What is late may have been begun while the larger number was in force. With one, nothing else is the cause.
                let blamed = if number == 1 { 1 } else { largest };
                match self.trouble.look(&self.answers(&sample), blamed, settled) {
                    Some(Consequence::Reduce(number)) => {
                        self.set(if best < blamed && !self.creeps { best } else { number }, &sample);
                        self.creeps = true;
                    }
                    Some(Consequence::Restore(number)) => self.set(number, &sample),
                    None if self.stall.spoils_windows() => self.meter = None,
                    None if self.creep(&sample, self.trouble.grows_to(sample.now - self.began), &cpu) => {}
                    None => self.measure(sample, cpu),
                }
            }
        }
    }

    fn measure(&mut self, sample: Sample, cpu: impl Fn() -> Duration) {
        let (target, elapsed) = (self.search.target(), sample.now - self.began);
        let Some(meter) = &mut self.meter else {
            self.meter = Some(Meter::new(sample, target));
            return;
        };
        let Some(window) = meter.look(sample, self.search.length(elapsed), cpu) else { return };
        #[cfg(test)]
        {
            self.windows += 1;
        }
        self.path.measured(target, &window);
        self.stall.measured(&window);
        let (ceiling, barred, cores) = (self.ceiling, self.trouble.barred(sample.now - self.began), self.cores);
        let floor = if self.depth == 1 { 1 } else { DEEP_START * self.depth * self.lanes };
        let conditions = Conditions { ceiling, floor, barred, cores, others_suffer: sample.others_suffer, elapsed };
        self.search.take(window, &conditions);
        // A service may let clients save up requests, so that for a moment larger numbers seem to bring more.
        let best = self.search.best();
        if self.search.target() > best && barred.is_none() && self.trouble.grows_to(sample.now - self.began) > best {
            self.creeps = true;
            return self.set(best, &sample);
        }
        // A comparison measures two numbers in turn: that is one step.
        let compared = std::mem::replace(&mut self.compared, self.search.comparisons());
        let number = self.search.target();
        if self.compared != compared || !self.search.is_comparing() || !self.path.has_before_last(number) {
            self.path.enter(elapsed, number);
        }
        if self.search.target() != target {
            self.lowered = self.search.target() < target;
            self.meter = Some(Meter::new(sample, self.search.target()));
        }
    }

    /// Continues the search at another number.
    fn set(&mut self, number: usize, sample: &Sample) {
        let number = number.clamp(1, self.ceiling);
        self.lowered = number < self.target();
        match self.workers {
            Workers::Fixed(_) => self.fixed = (number, Some(*sample)),
            Workers::Auto => self.search.restart(number),
        }
        self.path.enter(sample.now - self.began, number);
        self.meter = Some(Meter::new(*sample, number));
    }

    /// A fixed number is reduced only if a host asks for it or files run out, and grows again.
    fn look_fixed(&mut self, sample: &Sample, settled: bool, cpu: impl Fn() -> Duration) {
        let first = self.fixed.1.get_or_insert(*sample);
        self.path.measured(self.fixed.0, &Window::between(first, sample));
        match self.trouble.look(&Answers { late: 0, ..self.answers(sample) }, self.fixed.0, settled) {
            Some(Consequence::Reduce(number) | Consequence::Restore(number)) => self.set(number, sample),
            None => {
                let most = self.trouble.barred(sample.now - self.began).map_or(self.ceiling, |barred| barred - 1);
                self.creeps = true;
                self.creep(sample, most, cpu);
            }
        }
    }

    /// What was answered so far.
    fn answers(&self, sample: &Sample) -> Answers {
        let Sample { now, objects: good, throttled, late, .. } = *sample;
        Answers { now: now - self.began, good, throttled, late }
    }

    /// After a reduction, holds the number until it is known whether that has helped, and then raises it step by step.
    /// Returns whether it still does.
    fn creep(&mut self, sample: &Sample, most: usize, cpu: impl Fn() -> Duration) -> bool {
        let number = self.target();
        self.creeps &= self.trouble.is_open() || number < most.min(self.ceiling);
        if let Some(meter) = self.meter.as_mut().filter(|_| self.creeps) {
            meter.look(*sample, self.search.length(sample.now - self.began), cpu);
        }
        let wait = if self.trouble.barred(sample.now - self.began).is_some() { CREEP } else { CREEP_PAST };
        if self.creeps && !self.trouble.is_open() && sample.now - self.crept_at >= wait {
            self.crept_at = sample.now;
            self.set((number + (number / 16).max(1)).min(most), sample);
        }
        self.creeps
    }

    /// Other many objects share a connection now. A limit of connections or files is not one of objects.
    fn set_depth(&mut self, sample: &Sample) {
        let (before, depth) = (std::mem::replace(&mut self.depth, sample.depth), sample.depth);
        let deep = if self.is_limited_alone { self.ceiling_alone.saturating_mul(depth) } else { usize::MAX };
        let most = if depth == 1 { self.ceiling_alone } else { (DEEP_MAX * depth * self.lanes).min(deep) };
        self.ceiling = most.min(self.memory_max).max(1);
        let number = self.search.best();
        if depth > before {
            let number = number.max(DEEP_START * depth * self.lanes);
            self.stall.trust(number);
            self.set(number, sample);
        } else {
            self.set(number * depth / before, sample);
        }
    }

    /// Whether the next larger number was too much.
    fn is_barred(&self, number: usize) -> bool {
        self.trouble.last_barred().is_some_and(|barred| barred > number && numbers::up(number) >= barred)
    }

    /// Why the number is not larger.
    pub fn reason(&self) -> String {
        let number = self.chosen();
        let limited = || self.limited.map(|why| format!("limited by {why}"));
        if let Workers::Fixed(wanted) = self.workers {
            return if number == wanted {
                "as asked".to_owned()
            } else {
                limited().unwrap_or_else(|| "the server asked to slow down".to_owned())
            };
        }
        match self.search.why() {
            _ if self.is_barred(number) => self.trouble.reason().unwrap_or_default(),
            Why::Flat { to } if to > number => format!("throughput flat from {number} to {to}"),
            Why::Lower { with } if with > number => format!("throughput lower with {with}"),
            Why::Cores => "all cores are busy".to_owned(),
            Why::Unfilled => "more would have had nothing to do".to_owned(),
            Why::Others => "other programs wait for processors, memory or disk".to_owned(),
            _ if number >= self.ceiling => {
                limited().unwrap_or_else(|| "the largest number that makes sense".to_owned())
            }
            Why::Searching => "the run was too short to try more".to_owned(),
            _ => "no larger number brought more".to_owned(),
        }
    }
}
