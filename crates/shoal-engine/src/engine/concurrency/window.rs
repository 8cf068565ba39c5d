//! What one number of objects in flight brings: from samples of the run's counters to windows that can be compared.
//!
//! After a change of the number, what was begun before still finishes: nothing counts until one round of objects is over. A
//! window then lasts for whole rounds, because answers of a distant server come in waves, and part of a wave is no rate.

use std::time::{Duration, Instant};

/// The counters of a run at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub now: Instant,
    /// Objects that the sink has taken.
    pub objects: u64,
    /// Bytes that the sink has taken, those of unfinished objects included.
    pub bytes: u64,
    /// Objects that are settled in any way.
    pub settled: u64,
    /// Ticks of the lanes' clocks: a lane that is blocked has none.
    pub beats: u64,
    /// Objects in flight now.
    pub in_flight: usize,
    /// Answers so far that asked to slow down.
    pub throttled: u64,
    /// Connections so far that were late, refused, reset or without an answer.
    pub late: u64,
    /// Connections that take long to be made now.
    pub slow: usize,
    /// Times that a file descriptor was missing.
    pub out_of_files: u64,
    /// Objects that one connection may have in flight.
    pub depth: usize,
    /// A host is paused: nothing that is measured says anything about the number.
    pub paused: bool,
    /// `nice`: other programs wait for what this run uses.
    pub others_suffer: bool,
}

#[cfg(test)]
impl Sample {
    /// Nothing has happened yet.
    pub fn at(now: Instant) -> Sample {
        Sample {
            now,
            objects: 0,
            bytes: 0,
            settled: 0,
            beats: 0,
            in_flight: 0,
            throttled: 0,
            late: 0,
            slow: 0,
            out_of_files: 0,
            depth: 1,
            paused: false,
            others_suffer: false,
        }
    }
}

/// Bytes that weigh as much as one object in the length of a window: a part of a large object is a sign of life too.
const UNIT: f64 = 1_048_576.0;
/// Longest wait for the objects that were in flight before a change, and for lanes that are not needed any more to finish
/// what they have begun.
const SETTLE_MAX: Duration = Duration::from_secs(2);

/// How long a window is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    pub at_least: Duration,
    pub at_most: Duration,
    /// Objects, so that chance does not decide.
    pub units: f64,
    /// Times that each object in flight is replaced.
    pub rounds: f64,
}

/// What was measured while one number was in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub objects: f64,
    pub bytes: f64,
    pub seconds: f64,
    /// Mean part of the number that was really in flight.
    pub filled: f64,
    /// Cores that this process used.
    pub cores: f64,
}

impl Window {
    /// What the counters tell of the time between two samples.
    pub fn between(first: &Sample, last: &Sample) -> Window {
        Window {
            objects: last.objects.saturating_sub(first.objects) as f64,
            bytes: last.bytes.saturating_sub(first.bytes) as f64,
            seconds: last.now.duration_since(first.now).as_secs_f64(),
            filled: 1.0,
            cores: 0.0,
        }
    }

    /// Objects and parts of large ones, each at most one unit: how much chance is in it.
    pub fn units(&self) -> f64 {
        self.objects + self.bytes / UNIT
    }
}

/// Measures windows.
pub(super) struct Meter {
    target: usize,
    changed: Sample,
    /// Since when the number is really in force, with the processor time until then.
    begun: Option<(Sample, Duration)>,
    filled: f64,
    looks: u32,
}

impl Meter {
    pub fn new(sample: Sample, target: usize) -> Meter {
        Meter { target, changed: sample, begun: None, filled: 0.0, looks: 0 }
    }

    /// The next sample; a window if it is complete. `cpu`: processor time of this process so far.
    pub fn look(&mut self, sample: Sample, length: Length, cpu: impl Fn() -> Duration) -> Option<Window> {
        let Some((begun, cpu_before)) = &self.begun else {
            if self.settles(&sample) {
                self.begin(sample, cpu());
            }
            return None;
        };
        self.filled += sample.in_flight as f64 / self.target as f64;
        self.looks += 1;
        let elapsed = sample.now.duration_since(begun.now);
        let mut window = Window::between(begun, &sample);
        window.filled = self.filled / f64::from(self.looks);
        let enough = length.units.max(length.rounds * self.target as f64);
        if elapsed < length.at_least || window.units() < enough && elapsed < length.at_most {
            return None;
        }
        let cpu = cpu();
        window.cores = cpu.saturating_sub(*cpu_before).as_secs_f64() / window.seconds;
        self.begin(sample, cpu);
        Some(window)
    }

    fn begin(&mut self, sample: Sample, cpu: Duration) {
        (self.begun, self.filled, self.looks) = (Some((sample, cpu)), 0.0, 0);
    }

    /// Whether what was in flight before the change is over.
    pub fn is_settled(&self) -> bool {
        self.begun.is_some()
    }

    fn settles(&self, sample: &Sample) -> bool {
        let waited = sample.now.duration_since(self.changed.now);
        let round = sample.objects.saturating_sub(self.changed.objects) >= self.changed.in_flight as u64;
        !waited.is_zero() && (round && sample.in_flight <= self.target || waited >= SETTLE_MAX)
    }
}

/// How many bytes cost as much as one object, learnt from windows with objects of different sizes.
///
/// The time of a window is `a · objects + b · bytes`; the weight is `a / b`, by least squares over recent windows with the
/// same number in flight. Where all objects have one size, any weight compares them rightly.
pub(super) struct Weight {
    bytes: f64,
    /// Sums of products of objects, bytes and time, per second.
    sums: [f64; 5],
}

/// Before anything is learnt: from the page cache, a file of 64 KiB takes about twice as long as an empty one.
const WEIGHT: f64 = 65_536.0;
/// A weight outside is noise: 4 MiB are 10 ms of a disk, 4 kB an answer that costs nothing but its bytes.
const WEIGHTS: (f64, f64) = (4096.0, 4_194_304.0);
/// What is kept of older windows with each new one: the last twenty count.
const KEPT: f64 = 0.95;
/// Sizes must differ that much (1 less the squared correlation) to tell objects from bytes.
const SPREAD: f64 = 0.02;

impl Weight {
    pub fn new() -> Weight {
        Weight { bytes: WEIGHT, sums: [0.0; 5] }
    }

    /// The number in flight has changed: what comes is not to be mixed with what was.
    pub fn forget(&mut self) {
        self.sums = [0.0; 5];
    }

    pub fn learn(&mut self, window: &Window) {
        if window.objects == 0.0 || window.bytes == 0.0 {
            return;
        }
        // Scaled, so that both are of about the same size.
        let (x, y) = (window.objects / window.seconds, window.bytes / window.seconds / WEIGHT);
        for (sum, new) in self.sums.iter_mut().zip([x * x, x * y, y * y, x, y]) {
            *sum = *sum * KEPT + new;
        }
        let [xx, xy, yy, x, y] = self.sums;
        let determinant = xx * yy - xy * xy;
        if determinant < SPREAD * xx * yy {
            return;
        }
        let (a, b) = (x * yy - y * xy, y * xx - x * xy);
        let weight = if b <= 0.0 { WEIGHTS.1 } else { (a / b * WEIGHT).clamp(WEIGHTS.0, WEIGHTS.1) };
        // In steps, so that one odd window does not overturn it.
        self.bytes = self.bytes.powf(0.8) * weight.powf(0.2);
    }

    /// Logarithm of the work in a window per second.
    pub fn rate(&self, window: &Window) -> f64 {
        ((window.objects + window.bytes / self.bytes).max(1e-3) / window.seconds).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_byte_costs_is_learnt_from_objects_of_different_sizes() {
        let mut weight = Weight::new();
        for size in [10e3, 4e6, 500e3, 20e3, 2e6].repeat(12) {
            // A disk: 5 ms for each object, 100 MB/s.
            let objects = 100.0;
            let seconds = objects * (0.005 + size / 100e6);
            weight.learn(&Window { objects, bytes: objects * size, seconds, filled: 1.0, cores: 0.1 });
        }
        assert!((weight.bytes / 500e3 - 1.0).abs() < 0.1, "{}", weight.bytes);
        let before = weight.bytes;
        for _ in 0..50 {
            weight.learn(&Window { objects: 10.0, bytes: 1e5, seconds: 0.051, filled: 1.0, cores: 0.1 });
        }
        assert!((weight.bytes / before - 1.0).abs() < 0.1, "one size teaches nothing: {}", weight.bytes);
    }
}
