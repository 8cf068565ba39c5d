//! How many objects are in flight, from measured throughput. Bytes a second and pauses of a host are elsewhere
//! (`rate.rs`, `retry.rs`).
//!
//! `auto` here is a doubling start: the number doubles while that brings more. After two doublings in a row that brought
//! nothing it goes back to the best. A host that says "slow down" halves it at once; it creeps up again afterwards.

use std::time::{Duration, Instant};

use crate::options::Workers;
use crate::report::{Report, Step};

/// One look at the throughput; shorter ones are mostly noise on two busy cores.
const LOOK: Duration = Duration::from_millis(250);
/// What a doubling must bring to count. Measured into `null:` on two cores: 94,000/s with 32 in flight, then 104,000, and
/// 117,000 with 128: each step small, the sum worth having.
const GAIN: f64 = 1.04;
/// Doublings in a row without gain that end the search: one look can be unlucky.
const MISSES: u32 = 2;
/// In flight at the start: what one lane takes before the next is put to work.
const START: usize = 32;
/// In flight per lane at the most: beyond, connections only cost memory.
const PER_LANE_MAX: usize = 128;
/// Descriptors of a lane that reads files: four of its event loop, the directory, the file; two to spare.
const FILES_OF_A_LANE: usize = 8;
/// Connections per lane at the start and at the most, where each has several objects in flight. Measured into `null:` with
/// 64 on each: 656,000/s with 256 in flight, 728,000 with 512.
const DEEP_START: usize = 2;
const DEEP_MAX: usize = 8;

/// Part of all cores' time that this process takes or waits for when more lanes would only wait for a core. What it waits
/// for counts: the kernel's own threads, which write back what a barrier wants, take up to a third of the cores.
const BUSY: f64 = 0.85;

/// What a lane waits for, and so how many objects in flight make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A network: many in flight on each lane.
    Network,
    /// Its own reads: one on each lane, to begin with a lane for each core.
    Blocking { cores: usize },
}

/// What the engine saw since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub now: Instant,
    /// Objects finished.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// In flight right now.
    pub in_flight: usize,
    /// Answers so far that asked to slow down.
    pub throttled: u64,
    /// Times a file descriptor was missing.
    pub out_of_files: u64,
    /// Objects that one connection may have in flight.
    pub depth: usize,
}

/// Chooses the number of objects in flight over all lanes.
pub(crate) struct Concurrency {
    target: usize,
    ceiling: usize,
    floor: usize,
    growing: bool,
    lanes: usize,
    /// How many there are, where that is what lanes may wait for.
    cores: Option<usize>,
    /// Objects in flight on one connection, when that was last looked at.
    depth: usize,
    /// What sets the ceiling, if not this file.
    limited: Option<usize>,
    /// Throughput and number of the best look.
    best: (f64, usize),
    misses: u32,
    /// The last look, and the processor time that was wanted until then.
    last: Option<(Sample, Duration)>,
    reason: String,
    began: Instant,
    /// What the number was so far, and what was seen when the last step began.
    path: Vec<Step>,
    stepped: Option<Sample>,
}

impl Concurrency {
    /// `files_max`: in flight that the open-file limit allows. `source_max`: what the source says makes sense.
    pub fn new(
        workers: Workers,
        reach: Reach,
        lanes: usize,
        files_max: usize,
        source_max: Option<usize>,
    ) -> Concurrency {
        let (wanted, growing, mut reason) = match (workers, reach) {
            (Workers::Fixed(count), _) => (count.max(1), false, "as asked".to_owned()),
            (Workers::Auto, Reach::Network) => (START, true, "still growing".to_owned()),
            (Workers::Auto, Reach::Blocking { cores }) => (cores, true, "one per core; still growing".to_owned()),
        };
        let mut ceiling = match (growing, reach) {
            (false, _) => wanted,
            (true, Reach::Network) => PER_LANE_MAX * lanes,
            (true, Reach::Blocking { .. }) => lanes,
        };
        // A lane has descriptors of its own (its event loop, a directory) besides the object it reads.
        let files_max = if reach == Reach::Network { files_max } else { (files_max / FILES_OF_A_LANE).max(1) };
        let mut limited = None;
        for (limit, why) in [(Some(files_max), "the open-file limit"), (source_max, "the source")] {
            if let Some(limit) = limit.filter(|&limit| limit < ceiling) {
                ceiling = limit.max(1);
                limited = Some(ceiling);
                reason = format!("limited by {why}");
            }
        }
        let target = wanted.min(ceiling);
        let best = (0.0, target);
        Concurrency {
            target,
            ceiling,
            floor: 1,
            growing,
            lanes,
            cores: if let Reach::Blocking { cores } = reach { Some(cores) } else { None },
            depth: 1,
            limited,
            best,
            misses: 0,
            last: None,
            reason,
            began: Instant::now(),
            path: vec![Step { workers: target, ..Step::default() }],
            stepped: None,
        }
    }

    /// The path so far, in order of time.
    pub fn path(&self) -> Vec<Step> {
        self.path.clone()
    }

    /// Keeps account of the path: what is measured belongs to the number that held until now.
    fn record(&mut self, sample: &Sample) {
        let since = self.stepped.map_or(self.began, |before| before.now);
        let seconds = sample.now.saturating_duration_since(since).as_secs_f64();
        let (objects, bytes) = self.stepped.map_or((0, 0), |before| (before.objects, before.bytes));
        if let Some(step) = self.path.last_mut().filter(|_| seconds > 0.0) {
            step.objects_per_second = sample.objects.saturating_sub(objects) as f64 / seconds;
            step.bytes_per_second = sample.bytes.saturating_sub(bytes) as f64 / seconds;
        }
        if self.path.last().is_some_and(|step| step.workers != self.target) {
            if self.path.len() >= Report::STEPS_MAX {
                self.path.remove(Report::STEPS_MAX / 2);
            }
            let at = sample.now.saturating_duration_since(self.began);
            self.path.push(Step { at, workers: self.target, ..Step::default() });
            self.stepped = Some(*sample);
        }
    }

    /// Objects in flight over all lanes.
    pub fn target(&self) -> usize {
        self.target
    }

    /// Why not more.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Looks at the run; call it often, it acts on its own schedule. `wanted` is the time that all threads of this
    /// process had a processor or waited for one; it is asked for seldom, since the answer costs something.
    pub fn look(&mut self, sample: Sample, wanted: impl FnOnce() -> Duration) {
        self.choose(sample, wanted);
        self.record(&sample);
    }

    fn choose(&mut self, sample: Sample, wanted: impl FnOnce() -> Duration) {
        let Some((last, wanted_before)) = self.last else {
            self.last = Some((sample, wanted()));
            return;
        };
        if sample.depth > self.depth && self.growing {
            self.deepen(sample.depth);
        }
        let wanted = if sample.out_of_files > last.out_of_files {
            self.ceiling = (self.target / 2).max(self.floor);
            self.shrink("the open-file limit");
            wanted_before
        } else if sample.throttled > last.throttled {
            self.shrink("the host asked to slow down");
            wanted_before
        } else {
            let elapsed = sample.now.duration_since(last.now);
            if elapsed < LOOK {
                return;
            }
            let (wanted, seconds) = (wanted(), elapsed.as_secs_f64());
            let cores = wanted.saturating_sub(wanted_before).as_secs_f64() / seconds;
            self.step(&sample, &last, seconds, cores);
            wanted
        };
        self.last = Some((sample, wanted));
    }

    /// Several objects share a connection now: a limit of connections or files is no longer one of objects.
    fn deepen(&mut self, depth: usize) {
        self.depth = depth;
        self.ceiling = DEEP_MAX * depth * self.lanes;
        if let Some(limit) = self.limited {
            self.ceiling = self.ceiling.min(limit.saturating_mul(depth));
        }
        self.target = self.target.max(DEEP_START * depth * self.lanes).min(self.ceiling);
        self.best = (0.0, self.target);
        self.misses = 0;
    }

    fn shrink(&mut self, why: &str) {
        self.target = (self.target / 2).max(self.floor);
        self.growing = false;
        why.clone_into(&mut self.reason);
    }

    /// `wanted`: cores that this process had or waited for.
    fn step(&mut self, sample: &Sample, last: &Sample, seconds: f64, wanted: f64) {
        // Large objects are measured in bytes: 64 KiB weigh as much as one object.
        let work = |s: &Sample| s.objects as f64 + s.bytes as f64 / 65536.0;
        let throughput = (work(sample) - work(last)) / seconds;
        let busy = sample.in_flight * 10 >= self.target * 8;
        if self.growing && self.cores.is_some_and(|cores| wanted >= BUSY * cores as f64) {
            // Not the end of the search: what follows may have to wait for a disk.
            self.best = (self.best.0.max(throughput), self.target);
            self.reason = "all cores are busy".to_owned();
        } else if self.growing && busy {
            if throughput >= self.best.0 * GAIN {
                self.best = (throughput, self.target);
                self.misses = 0;
            } else {
                self.misses += 1;
            }
            if self.misses >= MISSES || self.target >= self.ceiling {
                self.growing = false;
                self.target = self.best.1;
                self.reason = format!("throughput stopped growing at {}", self.target);
            } else {
                self.target = (self.target * 2).min(self.ceiling);
            }
        } else if !self.growing && self.reason.starts_with("the host") && self.target < self.ceiling {
            self.target += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `auto` against a machine whose throughput for n in flight is `speed(n)`.
    fn settle(speed: impl Fn(usize) -> f64, lanes: usize) -> usize {
        let mut auto = Concurrency::new(Workers::Auto, Reach::Network, lanes, 10_000, None);
        let (mut now, mut objects) = (Instant::now(), 0.0);
        for _ in 0..200 {
            let (at, in_flight) = (now, auto.target());
            let sample = Sample {
                now: at,
                objects: objects as u64,
                bytes: 0,
                in_flight,
                throttled: 0,
                out_of_files: 0,
                depth: 1,
            };
            auto.look(sample, || Duration::ZERO);
            now += LOOK;
            objects += speed(auto.target()) * LOOK.as_secs_f64();
        }
        auto.target()
    }

    #[test]
    fn auto_stops_where_throughput_stops() {
        let found = settle(|n| n.min(64) as f64 * 1000.0, 2);
        assert_eq!(found, 64);
        assert_eq!(settle(|_| 50_000.0, 2), 32, "nothing is gained: back to the start");
        let unlucky = settle(|n| if n == 64 { 1000.0 } else { n.min(200) as f64 * 1000.0 }, 2);
        assert_eq!(unlucky, 256, "one bad look does not end the search");
    }

    #[test]
    fn a_fixed_number_stays_and_a_throttled_one_halves_and_recovers() {
        let mut fixed = Concurrency::new(Workers::Fixed(40), Reach::Network, 2, 10_000, None);
        let mut sample = Sample {
            now: Instant::now(),
            objects: 0,
            bytes: 0,
            in_flight: 40,
            throttled: 0,
            out_of_files: 0,
            depth: 1,
        };
        fixed.look(sample, || Duration::ZERO);
        sample.throttled = 1;
        fixed.look(sample, || Duration::ZERO);
        assert_eq!(fixed.target(), 20);
        for _ in 0..100 {
            sample.now += LOOK;
            fixed.look(sample, || Duration::ZERO);
        }
        assert_eq!(fixed.target(), 40);
    }

    #[test]
    fn lanes_that_only_wait_for_a_core_are_not_added_and_those_that_wait_for_a_disk_are() {
        let mut auto = Concurrency::new(Workers::Auto, Reach::Blocking { cores: 2 }, 32, 10_000, None);
        let (mut now, mut objects, mut wanted) = (Instant::now(), 0, Duration::ZERO);
        let mut look = |auto: &mut Concurrency, share: f64| {
            let in_flight = auto.target();
            let sample = Sample { now, objects, bytes: 0, in_flight, throttled: 0, out_of_files: 0, depth: 1 };
            auto.look(sample, || wanted);
            now += LOOK;
            objects += 1000 * auto.target() as u64;
            wanted += LOOK.mul_f64(2.0 * share);
        };
        (0..20).for_each(|_| look(&mut auto, 0.95));
        assert_eq!((auto.target(), auto.reason()), (2, "all cores are busy"));
        (0..20).for_each(|_| look(&mut auto, 0.3));
        assert!(auto.target() > 8, "{}", auto.target());
    }

    #[test]
    fn the_open_file_limit_is_a_ceiling() {
        let auto = Concurrency::new(Workers::Auto, Reach::Network, 2, 5, None);
        assert_eq!((auto.target(), auto.reason()), (5, "limited by the open-file limit"));
    }
}
