//! The controller against models of media, in virtual time: the very code that runs, hours of it in milliseconds.
//!
//! A model says how many objects a second a number in flight brings, and what else the run would see. Each is run with steady
//! rates and with rates that sway by 20 %, from several seeds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Concurrency, Reach, Sample, Setup, Storage, numbers};
use crate::options::Workers;

/// A medium, as a function of the number in flight and of the time in seconds.
struct Medium {
    name: &'static str,
    setup: Setup,
    /// Objects a second.
    rate: Box<dyn Fn(f64, f64) -> f64>,
    /// Bad answers a second: throttled, and late.
    bad: Box<dyn Fn(f64, f64) -> (f64, f64)>,
    /// Part of the number that is really in flight.
    filled: Box<dyn Fn(f64) -> f64>,
    /// Cores in use, of those in `reach`.
    cores: Box<dyn Fn(f64) -> f64>,
    /// Bytes of the object at this position.
    size: Box<dyn Fn(u64) -> f64>,
    /// What a byte costs, as a part of an object.
    byte: f64,
    /// Seconds between a request and its answer.
    delay: f64,
    /// Requests that one connection may have unanswered.
    depth: usize,
    /// Other programs wait, at this time.
    others_suffer: Box<dyn Fn(f64) -> bool>,
}

impl Medium {
    fn blocking(name: &'static str, cores: usize, rate: impl Fn(f64, f64) -> f64 + 'static) -> Medium {
        Medium {
            name,
            setup: Setup {
                workers: Workers::Auto,
                reach: Reach::Blocking { cores },
                lanes: cores * 16,
                files_max: usize::MAX,
                memory_max: usize::MAX,
                learnt: None,
                storage: Storage::Other,
                writes: false,
            },
            rate: Box::new(rate),
            bad: Box::new(|_, _| (0.0, 0.0)),
            filled: Box::new(|_| 1.0),
            cores: Box::new(|_| 0.1),
            size: Box::new(|_| 10_000.0),
            byte: 0.0,
            delay: 0.0,
            depth: 1,
            others_suffer: Box::new(|_| false),
        }
    }

    /// A service that answers after `delay` seconds, and at most `most` objects a second.
    fn network(name: &'static str, delay: f64, most: impl Fn(f64) -> f64 + 'static) -> Medium {
        let rate = move |n: f64, t: f64| soft_min(n / (delay + 0.0002), most(t));
        let medium = Medium::blocking(name, 2, rate);
        Medium { setup: Setup { reach: Reach::Network, lanes: 2, ..medium.setup }, delay, ..medium }
    }

    /// Numbers that are tried as fixed ones.
    fn numbers(&self) -> impl Iterator<Item = usize> {
        let Setup { reach, lanes, .. } = self.setup;
        let most = if reach == Reach::Network { lanes * super::PER_LANE_MAX } else { lanes };
        std::iter::successors(Some(1), |&n| Some(numbers::up(n))).take_while(move |&n| n <= most)
    }

    /// The best rate of any fixed number at this time, and the smallest number that reaches 97 % of it.
    fn best(&self, t: f64) -> (f64, usize) {
        let best = self.numbers().map(|n| (self.rate)(n as f64, t)).fold(0.0, f64::max);
        (best, self.numbers().find(|&n| (self.rate)(n as f64, t) >= 0.97 * best).unwrap())
    }
}

/// The smaller of two rates, with the rounded corner that queues have.
fn soft_min(a: f64, b: f64) -> f64 {
    (a.powi(-6) + b.powi(-6)).powf(-1.0 / 6.0)
}

struct Look {
    /// Seconds since the start.
    at: f64,
    /// The number in force, and the best so far.
    number: usize,
    chosen: usize,
    /// Objects so far, and how many the best fixed number would have done until then.
    objects: f64,
    best: f64,
}

/// What a run came to.
struct Outcome {
    looks: Vec<Look>,
    /// Windows measured, by the time in seconds when they ended.
    windows: Vec<f64>,
    /// Part of the answers that was bad.
    bad: f64,
    chosen: usize,
    reason: String,
}

impl Outcome {
    /// Objects between two times, as a part of what the best fixed number would have done.
    fn part_of_best(&self, from: f64, to: f64) -> f64 {
        let at = |time: f64| self.looks.iter().rfind(|look| look.at <= time).unwrap_or(&self.looks[0]);
        (at(to).objects - at(from).objects) / (at(to).best - at(from).best)
    }
}

/// Runs a medium for so many seconds with rates that sway by `sway`.
fn run(medium: &Medium, seconds: f64, sway: f64, seed: u64) -> Outcome {
    let mut random = fastrand::Rng::with_seed(seed);
    let began = Instant::now();
    let mut auto = Concurrency::new(medium.setup, began);
    let (mut t, mut objects, mut best, mut bytes, mut cpu) = (0.0_f64, 0.0, 0.0, 0.0, 0.0);
    let (mut throttled, mut late) = (0.0, 0.0);
    let (mut swayed, mut until, mut windows) = (1.0, 0.0, 0);
    let mut requests = VecDeque::new(); // numbers in force, from when: their answers come after the delay
    let mut outcome = Outcome { looks: Vec::new(), windows: Vec::new(), bad: 0.0, chosen: 0, reason: String::new() };
    while t < seconds {
        let target = auto.target();
        requests.push_back((t, target));
        while requests.get(1).is_some_and(|&(from, _)| from <= t - medium.delay) {
            requests.pop_front();
        }
        let n = requests.front().filter(|&&(from, _)| from <= t - medium.delay).map_or(0, |&(_, n)| n) as f64;
        let sample = Sample {
            objects: objects as u64,
            settled: objects as u64,
            beats: (t / 0.02) as u64,
            bytes: bytes as u64,
            in_flight: (n.max(target as f64) * (medium.filled)(target as f64)).round() as usize,
            throttled: throttled as u64,
            late: late as u64,
            others_suffer: (medium.others_suffer)(t),
            depth: medium.depth,
            ..Sample::at(began + Duration::from_secs_f64(t))
        };
        auto.look(sample, || Duration::from_secs_f64(cpu));
        if auto.windows > windows {
            windows = auto.windows;
            outcome.windows.push(t);
        }
        outcome.looks.push(Look { at: t, number: auto.target(), chosen: auto.chosen(), objects, best });
        let step = auto.tick(sample.now).as_secs_f64();
        if t >= until {
            (swayed, until) = (1.0 + sway * (2.0 * random.f64() - 1.0), t + 0.1);
        }
        let size = (medium.size)(objects as u64);
        let cost = 1.0 + size * medium.byte; // an object costs as much more
        let done = if n > 0.0 { (medium.rate)(n, t) * swayed * step / cost } else { 0.0 };
        let (throttles, lates) = (medium.bad)(n, t);
        (throttled, late) = (throttled + throttles * step, late + lates * step);
        (objects, bytes) = (objects + done, bytes + done * size);
        best += medium.best(t).0 * swayed * step / cost;
        cpu += (medium.cores)(n) * step;
        t += step;
    }
    outcome.bad = (throttled + late) / (objects + throttled + late);
    (outcome.chosen, outcome.reason) = (auto.chosen(), auto.reason());
    outcome
}

const SECONDS: f64 = 300.0;

fn media() -> Vec<Medium> {
    let disk = |n: f64, _: f64| 200.0 / (1.0 + 0.08 * (n - 1.0)); // seeks get longer as more compete
    let page_cache = |cores: f64| move |n: f64, _: f64| 120_000.0 * n.min(cores) / (1.0 + 0.001 * (n - cores).max(0.0));
    let memory_bound = |n: f64, _: f64| soft_min(120_000.0 * n, 24.0 * 120_000.0);
    vec![
        Medium::blocking("a hard disk", 2, disk),
        Medium::blocking("a hard disk in a large machine", 64, disk),
        Medium::blocking("an SSD with 32-way parallelism", 2, |n, _| soft_min(n, 32.0) * 2_000.0),
        Medium::blocking("an SSD with 32-way parallelism, 8 cores", 8, |n, _| n.min(32.0) * 2_000.0),
        Medium { cores: Box::new(|n| n.min(2.0)), ..Medium::blocking("a page cache, 2 cores", 2, page_cache(2.0)) },
        Medium { cores: Box::new(|n| n.min(8.0)), ..Medium::blocking("a page cache, 8 cores", 8, page_cache(8.0)) },
        Medium { cores: Box::new(|n| n.min(64.0)), ..Medium::blocking("a page cache, 64 cores", 64, page_cache(64.0)) },
        Medium { cores: Box::new(|n| n.min(64.0)), ..Medium::blocking("memory that is the limit", 64, memory_bound) },
        Medium::network("a service at 0.1 ms", 0.0001, |_| 50_000.0),
        Medium::network("a service at 30 ms", 0.03, |_| 2_000.0),
        Medium::network("a service at 150 ms", 0.15, |_| 800.0),
        Medium::network("a service at 150 ms without an end", 0.15, |_| 1e9),
        Medium {
            filled: Box::new(|n| (3_000.0_f64 / (n * 1_000.0)).min(1.0)),
            ..Medium::blocking("a producer bound by the interpreter", 8, |n, _| soft_min(n * 1_000.0, 3_000.0))
        },
        Medium {
            size: Box::new(|at| [4e3, 4e6, 50e3, 1e6, 10e3][(at / 100 % 5) as usize]),
            byte: 1.0 / 500e3,
            ..Medium::blocking("objects of all sizes", 2, |n, _| soft_min(n, 16.0) * 1_000.0)
        },
    ]
}

/// Media, with rates that are steady and that sway, from several seeds.
fn each(media: Vec<Medium>, is_fine: impl Fn(&Medium, &Outcome) -> bool) {
    let mut failures = Vec::new();
    for medium in media {
        for (sway, seed) in [
            (0.0, 1),
            (0.2, 1),
            (0.2, 2),
            (0.2, 3),
            (0.2, 4),
            (0.2, 5),
            (0.2, 6),
            (0.2, 7),
            (0.2, 8),
            (0.2, 9),
            (0.2, 10),
        ] {
            let outcome = run(&medium, SECONDS, sway, seed);
            if !is_fine(&medium, &outcome) {
                let part = outcome.part_of_best(SECONDS * 0.05, SECONDS);
                let (name, chosen, reason) = (medium.name, outcome.chosen, &outcome.reason);
                failures.push(format!(
                    "{name}, swaying by {sway}, seed {seed}: {chosen} ({reason}); {part:.3} of the \
                    best; {} would do",
                    medium.best(SECONDS).1
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_medium_is_used_within_7_percent_of_its_best_with_few_workers() {
    each(media(), |medium, outcome| {
        let (_, fewest) = medium.best(SECONDS);
        outcome.part_of_best(SECONDS * 0.05, SECONDS) >= 0.93 && outcome.chosen * 2 <= fewest * 3
    });
}

#[test]
fn at_rest_the_number_stays_within_one_step() {
    each(media(), |_, outcome| {
        let one_step = |look: &Look| (numbers::down(look.chosen)..=numbers::up(look.chosen)).contains(&look.number);
        outcome.looks.iter().filter(|look| look.at > SECONDS / 2.0).all(one_step)
    });
}

/// A service that allows so many requests a second, and refuses the others.
fn throttled(delay: f64, allowed: f64) -> Medium {
    let requests = move |n: f64| n / (delay + 0.0002);
    Medium {
        bad: Box::new(move |n, _| ((requests(n) - allowed).max(0.0), 0.0)),
        rate: Box::new(move |n, _| requests(n).min(allowed)),
        ..Medium::network("a service that throttles", delay, |_| 1e9)
    }
}

/// A service that leaves connections above a number unanswered.
fn small(delay: f64, accepted: f64) -> Medium {
    Medium {
        bad: Box::new(move |n, _| (0.0, (n - accepted).max(0.0) / 0.25)),
        rate: Box::new(move |n, _| n.min(accepted) / (delay + 0.0002)),
        ..Medium::network("a service that accepts few connections", delay, |_| 1e9)
    }
}

#[test]
fn fewer_than_2_percent_are_refused_by_a_service_that_throttles_or_accepts_few() {
    for make in
        [|| throttled(0.03, 300.0), || throttled(0.03, 2_000.0), || throttled(0.15, 400.0), || small(0.002, 6.0)]
    {
        each(vec![make()], |medium, outcome| {
            let (_, fewest) = medium.best(SECONDS);
            outcome.bad < 0.02
                && outcome.part_of_best(SECONDS * 0.05, SECONDS) >= 0.7
                && outcome.chosen * 2 <= fewest * 3
        });
    }
}

/// When a medium changes, in seconds.
const CHANGE: f64 = 50.0;

fn changes() -> Vec<Medium> {
    let disk = |n: f64| 200.0 / (1.0 + 0.08 * (n - 1.0));
    let ssd = |n: f64| n.min(32.0) * 2_000.0;
    vec![
        Medium::blocking("a cache that is used up", 2, move |n, t| if t < CHANGE { ssd(n) } else { disk(n) }),
        Medium::blocking("a cache that begins", 2, move |n, t| if t < CHANGE { disk(n) } else { ssd(n) }),
        Medium::network("a server that gets slower", 0.03, |t| if t < CHANGE { 4_000.0 } else { 500.0 }),
        Medium::network("a server that gets faster", 0.03, |t| if t < CHANGE { 500.0 } else { 4_000.0 }),
    ]
}

#[test]
fn after_a_change_of_medium_the_rate_is_back_within_10_percent_after_30_windows() {
    each(changes(), |_, outcome| {
        let after: Vec<f64> = outcome.windows.iter().copied().filter(|&at| at > CHANGE).collect();
        outcome.part_of_best(after[30], after[60].max(after[30] + 2.0)) >= 0.9
    });
}

#[test]
fn bad_answers_that_the_number_does_not_cause_do_not_reduce_it_for_good() {
    let make = || {
        let medium = Medium::network("a service with bad answers", 0.03, |_| 2_000.0);
        let rate = |n: f64| soft_min(n / 0.0302, 2_000.0);
        Medium { bad: Box::new(move |n, _| (0.05 * rate(n), 0.0)), ..medium } // one in twenty, whatever the number
    };
    each(vec![make()], |_, outcome| outcome.part_of_best(SECONDS * 0.05, SECONDS) >= 0.85);
}

/// A service that pauses at each of these times for so long.
fn pausing(begins: Vec<f64>, pause: f64) -> Medium {
    let is_away = move |t: f64| begins.iter().any(|&begins| t >= begins && t < begins + pause);
    let rate = move |n: f64, t: f64| if is_away(t) { 0.0 } else { soft_min(n / 0.0302, 4_000.0) };
    Medium { rate: Box::new(rate), ..Medium::network("a service that pauses", 0.03, |_| 4_000.0) }
}

#[test]
fn a_pause_of_the_service_does_not_slow_down_the_seconds_after_it() {
    for pause in [0.1, 0.3, 0.6, 1.2] {
        for (begins, seed) in (1..=60).flat_map(|tenths| (1..=5).map(move |seed| (f64::from(tenths) / 10.0, seed))) {
            let ends = begins + pause;
            let outcome = run(&pausing(vec![begins], pause), ends + 4.0, 0.2, seed);
            let part = outcome.part_of_best(ends, ends + 4.0);
            // 0.92 in the mean. When the number was halved for each 60 ms of a pause, it was down to 0.01.
            assert!(part >= 0.4, "{part:.3} after a pause of {pause} s at {begins} s, seed {seed}");
        }
    }
}

#[test]
fn pauses_of_the_service_that_come_again_and_again_do_not_reduce_the_number() {
    for (pause, every) in [(0.1, 1.0), (0.3, 0.7), (0.3, 2.0), (0.6, 1.5)] {
        for seed in 1..=20 {
            let begins = (0..60).map(|n| 0.2 + f64::from(n) * every).collect();
            let outcome = run(&pausing(begins, pause), 15.0, 0.2, seed);
            let part = outcome.part_of_best(1.0, 15.0);
            assert!(part >= 0.6, "{part:.3} with pauses of {pause} s every {every} s, seed {seed}");
        }
    }
}

#[test]
fn a_slow_service_that_has_throttled_for_a_while_is_used_again() {
    for (delay, seed) in [0.15, 0.2, 0.3].into_iter().flat_map(|delay| (1..=5).map(move |seed| (delay, seed))) {
        let medium = Medium::network("a service that throttles for six seconds", delay, |_| 4_000.0);
        let bad = move |n: f64, t: f64| (if (1.0..7.0).contains(&t) { 0.3 * n / delay } else { 0.0 }, 0.0);
        let outcome = run(&Medium { bad: Box::new(bad), ..medium }, 120.0, 0.2, seed);
        let part = outcome.part_of_best(60.0, 120.0);
        assert!(part >= 0.5, "{part:.3} with answers after {delay} s, seed {seed}");
    }
}

#[test]
fn while_others_suffer_the_number_does_not_grow() {
    let medium = Medium {
        others_suffer: Box::new(|t| t < 50.0),
        ..Medium::blocking("a disk that others use too", 2, |n, _| n.min(32.0) * 2_000.0)
    };
    let outcome = run(&medium, 100.0, 0.0, 1);
    assert!(outcome.looks.iter().filter(|look| look.at < 50.0).all(|look| look.number <= 2));
    assert!(outcome.chosen >= 24, "{}", outcome.chosen);
}

#[test]
fn what_an_earlier_session_learnt_is_where_this_one_begins() {
    let medium = Medium::network("a service at 150 ms", 0.15, |_| 800.0);
    let learnt = run(&medium, SECONDS, 0.0, 1).chosen;
    let again = Medium { setup: Setup { learnt: Some(learnt), ..medium.setup }, ..medium };
    let outcome = run(&again, 5.0, 0.0, 1);
    assert_eq!(outcome.looks[0].number, learnt);
    assert!(outcome.part_of_best(1.0, 5.0) > 0.9, "{}", outcome.part_of_best(1.0, 5.0));
}

#[test]
fn a_fixed_number_stays_and_a_throttled_one_halves_and_recovers() {
    let fixed = |bad: fn(f64, f64) -> (f64, f64)| {
        let medium = Medium { bad: Box::new(bad), ..Medium::network("a service", 0.01, |_| 1e9) };
        Medium { setup: Setup { workers: Workers::Fixed(40), ..medium.setup }, ..medium }
    };
    let outcome = run(&fixed(|_, _| (0.0, 0.0)), 20.0, 0.2, 1);
    assert!(outcome.looks.iter().all(|look| look.number == 40) && outcome.reason == "as asked");
    let late = run(&fixed(|_, t| (0.0, if t < 1.0 { 100.0 } else { 0.0 })), 20.0, 0.2, 1);
    assert!(late.looks.iter().all(|look| look.number == 40), "only an answer that asks for it reduces it");
    let few = run(&fixed(|_, _| (40.0, 0.0)), 20.0, 0.2, 1);
    assert!(few.looks.iter().all(|look| look.number == 40), "one refusal in a hundred answers is normal");
    let outcome = run(&fixed(|_, t| (if t < 0.1 { 400.0 } else { 0.0 }, 0.0)), 20.0, 0.2, 1);
    assert_eq!(outcome.looks.iter().map(|look| look.number).min(), Some(20));
    assert_eq!((outcome.chosen, outcome.reason.as_str()), (40, "as asked"));
}

#[test]
fn pipelined_connections_are_not_trimmed_below_those_of_the_start() {
    // Any number does as well, so without a floor the fewest would be taken.
    let medium = Medium { depth: 64, ..Medium::network("a service with pipelining", 0.0001, |_| 500.0) };
    let least = super::DEEP_START * medium.depth * medium.setup.lanes;
    for seed in 1..=5 {
        let outcome = run(&medium, SECONDS, 0.2, seed);
        assert!(outcome.looks.iter().filter(|look| look.at > 1.0).all(|look| look.number >= least));
        assert_eq!(outcome.chosen, least);
    }
    let limited = Medium { setup: Setup { memory_max: 100, ..medium.setup }, ..medium };
    assert_eq!(run(&limited, SECONDS, 0.2, 1).chosen, 100, "a limit holds below it");
}

#[test]
fn limits_of_files_and_memory_are_ceilings_and_told() {
    let medium = || Medium::network("a service", 0.03, |_| 1e9);
    let files = Medium { setup: Setup { files_max: 5, ..medium().setup }, ..medium() };
    let outcome = run(&files, 20.0, 0.0, 1);
    assert_eq!((outcome.chosen, outcome.reason.as_str()), (5, "limited by the open-file limit"));
    let memory = Medium { setup: Setup { memory_max: 24, ..medium().setup }, ..medium() };
    let outcome = run(&memory, 20.0, 0.0, 1);
    assert_eq!((outcome.chosen, outcome.reason.as_str()), (24, "limited by the memory budget"));
    assert!(outcome.looks.iter().all(|look| look.number <= 24));
}
