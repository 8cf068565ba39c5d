//! The search for the best number of objects in flight: from one window to the number of the next.
//!
//! - **climb**: twice as many, while that brings more;
//! - **trim**: then as few as do as well;
//! - **rest**: there, with a probe of the next number above and below from time to time, rarely if nothing changes;
//! - again from there, when the rate at rest has changed.
//!
//! Not here: how a difference is told from noise (`comparison.rs`), when a medium has changed (`usual.rs`), limits and errors (`mod.rs`).

use std::time::Duration;

use super::comparison::{Comparison, Noise, Rules, Verdict};
use super::numbers::{between, down, up};
use super::usual::{Medium, Usual};
use super::window::{Length, Weight, Window};

/// Part of the number that must really be in flight. Less, and something else is the limit: the listing, the consumer.
const FILLED: f64 = 0.8;
/// Windows in a row before fewer are tried for that reason.
const UNFILLED_WINDOWS: u32 = 5;
/// Part of all cores' time from which on more lanes would only wait for a core. Time in which threads wait for one does not
/// count: lanes that a disk wakes all at once wait too, and more of them still keep the disk busier (measured on two cores
/// with cold files: "all cores are busy" with 8 lanes, and 64 were half as fast again).
const BUSY: f64 = 0.9;
/// A trial of a smaller number can cost half of the throughput of its window: not in the first two seconds, which may be all.
const TRIM_AFTER: Duration = Duration::from_secs(2);
/// A window is at least this part of the run so far: a job of half a second should not end before its search.
const WINDOWS: u32 = 40;
/// Longest wait for enough objects.
const WINDOW_MAX: Duration = Duration::from_secs(2);
/// Windows at rest between probes of the next number above: where that brings nothing, it costs nothing.
const UP_EVERY: f64 = 10.0;
/// The same below, which costs throughput: at first, at most, and how much rarer with each that found nothing.
const DOWN_EVERY: (f64, f64) = (16.0, 150.0);
const DOWN_RARER: f64 = 1.5;
/// While climbing, four pairs must do: a number that takes long to judge may bring much less, because a small server with too
/// many connections works in bursts. One pair is not enough to end a climb: the medium may have paused.
const CLIMB: Rules = Rules { least: 2, pairs: 4, decides: true, more: 2.0, no_more: 2.0 };
/// While trimming, it is for the larger number to prove its worth.
const TRIM: Rules = Rules { least: 1, pairs: 8, decides: true, more: 2.0, no_more: 1.0 };
/// At rest nothing moves before it is clear; the next probe goes on where this one has ended. Probes are made again and
/// again, and chance must not add one step to the other.
const PROBE: Rules = Rules { least: 1, pairs: 4, decides: false, more: 3.0, no_more: 2.0 };
/// Part of all cores' time below which lanes mostly wait for the medium. So early, and where a lane costs so little, twice
/// as many are taken unless they clearly bring less: a search that waits for proof would last longer than a short run.
const IDLE: f64 = 0.5;
const EARLY: Duration = Duration::from_secs(1);
/// A loss with a larger number that is worth to be told, as a difference of logarithms.
const LOWER: f64 = 0.125;
/// A gain of the next number above that shows that the best is far away, as a difference of logarithms.
const FAR: f64 = 0.25;

/// What limits the search from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub ceiling: usize,
    /// No smaller number is worth a trial.
    pub floor: usize,
    /// This number was too much lately.
    pub barred: Option<usize>,
    /// How many there are for this process, where lanes may wait for one.
    pub cores: Option<f64>,
    pub others_suffer: bool,
    /// Since the run began.
    pub elapsed: Duration,
}

impl Conditions {
    /// The number to try above `best`, where `next` would be next: half-way to one that was too much.
    fn above(&self, best: usize, next: usize) -> Option<usize> {
        let next = self.barred.map_or(next, |barred| next.min((best + barred) / 2));
        Some(next.min(self.ceiling)).filter(|&next| next > best)
    }
}

/// Why the number is not larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The search has not ended.
    Searching,
    /// This larger number brought nothing.
    Flat { to: usize },
    /// This larger number brought less.
    Lower { with: usize },
    /// All cores are busy.
    Cores,
    /// Fewer are in flight than may be: the listing or the consumer is the limit.
    Unfilled,
    /// Other programs wait.
    Others,
    /// It is the largest number allowed.
    Ceiling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Climb,
    Trim,
    ProbeUp,
    ProbeDown,
}

pub(super) struct Search {
    best: usize,
    /// What `best` was trimmed from: later candidates are compared with it, so that small losses do not add up.
    reference: usize,
    /// The largest number that is known to bring less; 0: none.
    worse: usize,
    /// The last number that was climbed to with proof that it brings more, and its rate, if later ones were taken without.
    proven: Option<(usize, f64)>,
    why: Why,
    comparison: Option<(Purpose, Comparison)>,
    comparisons: u32,
    weight: Weight,
    noise: Noise,
    usual: Option<Usual>,
    /// Probes that were not clear: above and below.
    kept: [Option<Comparison>; 2],
    trimmed: bool,
    /// Windows in a row in which the number was not filled.
    unfilled: u32,
    /// Windows at rest until the next probes above and below, and from one below to the next.
    up_in: f64,
    down_in: f64,
    down_every: f64,
}

impl Search {
    pub fn new(start: usize) -> Search {
        Search {
            best: start,
            reference: start,
            worse: 0,
            proven: None,
            why: Why::Searching,
            comparison: None,
            comparisons: 0,
            weight: Weight::new(),
            noise: Noise::new(),
            usual: None,
            kept: [None, None],
            trimmed: false,
            unfilled: 0,
            up_in: UP_EVERY,
            down_in: DOWN_EVERY.0,
            down_every: DOWN_EVERY.0,
        }
    }

    /// The number that the next window is for.
    pub fn target(&self) -> usize {
        self.comparison.as_ref().map_or(self.best, |(_, comparison)| comparison.target())
    }

    /// The largest number that is in force now and then.
    pub fn largest(&self) -> usize {
        self.comparison.as_ref().map_or(self.best, |(_, comparison)| comparison.high)
    }

    /// The best number so far.
    pub fn best(&self) -> usize {
        self.best
    }

    /// Comparisons so far.
    pub fn comparisons(&self) -> u32 {
        self.comparisons
    }

    pub fn is_comparing(&self) -> bool {
        self.comparison.is_some()
    }

    /// Whether the search has come to an end, for now.
    pub fn is_at_rest(&self) -> bool {
        self.trimmed && matches!(self.why, Why::Flat { .. } | Why::Lower { .. } | Why::Cores | Why::Ceiling)
    }

    pub fn why(&self) -> Why {
        self.why
    }

    /// Begins anew at another number.
    pub fn restart(&mut self, best: usize) {
        let (weight, noise) = (std::mem::replace(&mut self.weight, Weight::new()), self.noise);
        *self = Search { weight, noise, comparisons: self.comparisons, ..Search::new(best) };
    }

    /// How long the next window is: longer in a run that has been longer, which can wait for a clear answer.
    pub fn length(&self, elapsed: Duration) -> Length {
        let (at_least, at_most, units, rounds) = match (&self.comparison, self.why) {
            (Some((Purpose::Climb, _)), _) | (None, Why::Searching | Why::Unfilled) => (8, 50, 12.0, 1.0),
            _ => (50, 500, 64.0, 2.0),
        };
        let at_least = (elapsed / WINDOWS).clamp(Duration::from_millis(at_least), Duration::from_millis(at_most));
        Length { at_least, at_most: at_least + WINDOW_MAX, units, rounds }
    }

    /// Takes the window that was measured with `target`.
    pub fn take(&mut self, window: Window, conditions: &Conditions) {
        let number = self.target();
        if number == self.best {
            self.look_at_medium(&window);
        }
        let Some((purpose, mut comparison)) = self.comparison.take() else {
            self.weight.learn(&window);
            return self.at_rest(window, conditions);
        };
        let upwards = matches!(purpose, Purpose::Climb | Purpose::ProbeUp);
        if upwards && number == comparison.high && conditions.others_suffer {
            (self.why, self.up_in) = (Why::Others, UP_EVERY);
            return;
        }
        match comparison.add(window, &self.weight, self.usual_noise()) {
            // There is more to do than when this trial began.
            None if purpose == Purpose::Trim
                && self.why == Why::Unfilled
                && number == self.best
                && Self::refusal(&window, conditions).is_none() =>
            {
                self.climb(Some(window), conditions);
            }
            None if purpose == Purpose::Climb && Self::is_early(&window, conditions) && comparison.has_pair() => {
                let ([low_rate, high_rate], _) = comparison.rates();
                let (proven, rate) = *self.proven.get_or_insert((comparison.low, low_rate));
                if comparison.high >= proven * 4 && high_rate <= rate {
                    self.flat(&comparison);
                    (self.best, self.usual, self.proven) = (proven, None, None);
                    return self.trim(None, conditions);
                }
                self.adopt(comparison.high, &comparison);
                self.climb((number == comparison.high).then_some(window), conditions);
            }
            None => self.comparison = Some((purpose, comparison)),
            Some(verdict) => {
                self.noise = comparison.noise(self.noise);
                let of_high = (number == comparison.high).then_some(window);
                let of_low = (number == comparison.low).then_some(window);
                match (purpose, verdict) {
                    (_, Verdict::Open) => {
                        self.kept[usize::from(purpose == Purpose::ProbeDown)] = Some(comparison);
                    }
                    (Purpose::Climb, Verdict::High) => {
                        (self.worse, self.proven) = (comparison.low, None);
                        self.adopt(comparison.high, &comparison);
                        self.climb(of_high, conditions);
                    }
                    (Purpose::ProbeUp, Verdict::High) => {
                        self.worse = comparison.low;
                        self.adopt(comparison.high, &comparison);
                        if comparison.gain() > FAR {
                            return self.climb(of_high, conditions);
                        }
                        self.up_in = 0.0;
                    }
                    (Purpose::ProbeDown, Verdict::Low) => {
                        self.spare(&comparison);
                        self.adopt(comparison.low, &comparison);
                        self.down_in = 0.0;
                    }
                    (Purpose::Climb, Verdict::Low) => {
                        self.flat(&comparison);
                        self.trim(of_low, conditions);
                    }
                    (Purpose::ProbeUp, Verdict::Low) => {
                        self.flat(&comparison);
                    }
                    (Purpose::Trim, Verdict::Low) => {
                        let better = comparison.gain() < 0.0;
                        self.reference = if better { comparison.low } else { comparison.high };
                        self.spare(&comparison);
                        self.adopt(comparison.low, &comparison);
                        if self.worse >= self.best {
                            self.worse = 0;
                        }
                        let reference = if better { of_low } else { of_high };
                        self.trim(reference, conditions);
                    }
                    (Purpose::Trim, Verdict::High) => {
                        self.worse = comparison.low;
                        self.trim(of_high, conditions);
                    }
                    (Purpose::ProbeDown, Verdict::High) => {
                        self.worse = comparison.low;
                        self.down_every = (self.down_every * DOWN_RARER).min(DOWN_EVERY.1);
                        self.down_in = self.down_every;
                    }
                }
            }
        }
    }

    fn adopt(&mut self, number: usize, comparison: &Comparison) {
        let (rates, windows) = comparison.rates();
        let mean = rates[usize::from(number == comparison.high)];
        self.best = number;
        self.usual = Some(Usual::new(number, mean, windows));
        self.kept = [None, None];
        self.weight.forget();
        (self.up_in, self.down_in, self.down_every) = (UP_EVERY, DOWN_EVERY.0, DOWN_EVERY.0);
    }

    fn flat(&mut self, comparison: &Comparison) {
        let to = comparison.high;
        self.why = if comparison.gain() < -LOWER { Why::Lower { with: to } } else { Why::Flat { to } };
    }

    fn usual_noise(&self) -> Noise {
        self.usual.as_ref().map_or(self.noise, |usual| usual.noise(self.noise))
    }

    /// The larger number is not needed, whatever was said of it before.
    fn spare(&mut self, comparison: &Comparison) {
        if !matches!(self.why, Why::Flat { .. } | Why::Lower { .. } | Why::Ceiling) {
            self.why = Why::Flat { to: comparison.high };
        }
    }

    fn is_early(window: &Window, conditions: &Conditions) -> bool {
        conditions.elapsed < EARLY && conditions.cores.is_some_and(|cores| window.cores < IDLE * cores)
    }

    /// Why no larger number is to be tried now, if so.
    fn refusal(window: &Window, conditions: &Conditions) -> Option<Why> {
        if conditions.others_suffer {
            Some(Why::Others)
        } else if window.filled < FILLED {
            Some(Why::Unfilled)
        } else if conditions.cores.is_some_and(|cores| window.cores >= BUSY * cores) {
            Some(Why::Cores)
        } else {
            None
        }
    }

    /// Compares with twice as many. `window`: of `best`, if the last one was.
    fn climb(&mut self, window: Option<Window>, conditions: &Conditions) {
        let Some(high) = conditions.above(self.best, self.best * 2) else {
            self.why = Why::Ceiling;
            return self.trim(window, conditions);
        };
        if let Some(why) = window.and_then(|window| Self::refusal(&window, conditions)) {
            self.why = why;
            return self.trim(window, conditions);
        }
        self.why = Why::Searching;
        self.compare(Purpose::Climb, self.best, high, false, window, CLIMB);
    }

    /// Compares with fewer, as long as there is a number that may do as well. `window`: of `reference`, if the last one was.
    fn trim(&mut self, window: Option<Window>, conditions: &Conditions) {
        if self.reference < self.best || self.worse >= self.best {
            (self.reference, self.worse) = (self.best, 0);
        }
        let candidate = match self.worse {
            0 => Some(self.best / 2).filter(|&half| half > 0),
            worse => between(worse, self.best),
        };
        let candidate = candidate.filter(|&low| low >= conditions.floor);
        match candidate {
            Some(_) if conditions.elapsed < TRIM_AFTER => self.trimmed = false,
            Some(low) => {
                let low = self
                    .proven
                    .take()
                    .map(|(proven, _)| proven)
                    .filter(|&proven| proven > self.worse && (conditions.floor..low).contains(&proven))
                    .unwrap_or(low);
                self.trimmed = true;
                self.compare(Purpose::Trim, low, self.reference, true, window, TRIM);
                return;
            }
            None => self.trimmed = true,
        }
        self.reference = self.best;
    }

    fn compare(
        &mut self,
        purpose: Purpose,
        low: usize,
        high: usize,
        high_first: bool,
        window: Option<Window>,
        rules: Rules,
    ) {
        let kept =
            self.kept.iter_mut().find(|kept| kept.as_ref().is_some_and(|kept| kept.low == low && kept.high == high));
        let mut comparison = match kept.and_then(Option::take) {
            Some(kept) => kept.resume(high_first),
            None => Comparison::new(low, high, high_first, rules),
        };
        if let Some(window) = window {
            let verdict = comparison.add(window, &self.weight, self.noise);
            debug_assert!(verdict.is_none(), "one window makes no pair");
        }
        self.comparison = Some((purpose, comparison));
        self.comparisons += 1;
    }

    fn at_rest(&mut self, window: Window, conditions: &Conditions) {
        let refusal = Self::refusal(&window, conditions);
        self.unfilled = if refusal == Some(Why::Unfilled) { self.unfilled + 1 } else { 0 };
        if matches!(self.why, Why::Searching | Why::Cores | Why::Unfilled | Why::Others) {
            match refusal {
                // What others suffer from may be the last trial.
                None if self.why == Why::Others && self.up_in > 1.0 => {}
                None => return self.climb(Some(window), conditions),
                Some(why) => self.why = why,
            }
        }
        // The listing may only be about to begin.
        if (1..UNFILLED_WINDOWS).contains(&self.unfilled) {
            return;
        }
        if !self.trimmed && conditions.elapsed >= TRIM_AFTER {
            self.reference = self.best;
            return self.trim(Some(window), conditions);
        }
        (self.up_in, self.down_in) = (self.up_in - 1.0, self.down_in - 1.0);
        let above = conditions.above(self.best, up(self.best)).filter(|_| refusal.is_none() && self.up_in <= 0.0);
        let is_worth = |below: usize| below < self.best && below >= conditions.floor;
        let below = Some(down(self.best)).filter(|&below| is_worth(below) && self.down_in <= 0.0);
        if let Some(above) = above {
            self.up_in = UP_EVERY;
            self.compare(Purpose::ProbeUp, self.best, above, false, Some(window), PROBE);
        } else if let Some(below) = below {
            self.down_in = self.down_every;
            self.compare(Purpose::ProbeDown, below, self.best, true, Some(window), PROBE);
        }
    }

    /// Looks whether the rate of `best` is still what it was.
    fn look_at_medium(&mut self, window: &Window) {
        let purpose = self.comparison.as_ref().map(|(purpose, _)| *purpose);
        let resting = matches!(purpose, None | Some(Purpose::ProbeUp | Purpose::ProbeDown));
        if !resting || window.filled < FILLED {
            return;
        }
        let rate = self.weight.rate(window);
        let Some(usual) = self.usual.as_mut().filter(|usual| usual.number == self.best) else {
            self.usual = Some(Usual::new(self.best, rate, 1));
            return;
        };
        match usual.take(rate, self.noise) {
            Medium::AsBefore => {}
            Medium::Shifted => {
                (self.up_in, self.down_in, self.down_every) = (0.0, 0.0, DOWN_EVERY.0);
                (self.kept, self.comparison) = ([None, None], None);
            }
            Medium::Changed => self.restart(self.best),
        }
    }
}
