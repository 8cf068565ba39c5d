//! Which of two numbers in flight is better, from windows that are measured in turn until the difference is clear.
//!
//! Each pair of neighbouring windows gives one difference of rates, so what changes slowly (a disk cache that fills, another
//! program) changes both alike. The order is low, high, high, low, low …: each turn begins where the last one ended.

use super::window::{Weight, Window};

/// Gains around this count: a larger number must bring 3.5 % to be worth having.
const CLEAR: (f64, f64) = (0.02, 0.05);
/// Most noise that is believed, 17 % each way: more is a medium that has changed meanwhile.
const NOISE_MAX: f64 = 0.03;
/// Variance of a number of objects, as a part of the number: they come more regularly than by chance alone.
const COUNTING: f64 = 0.25;
/// Pairs that the noise of earlier comparisons counts for.
const PRIOR: f64 = 2.0;

/// When a comparison ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The larger number is not given up after fewer pairs of windows.
    pub least: u32,
    /// Pairs at the most, and whether the mean decides after them.
    pub pairs: u32,
    pub decides: bool,
    /// Standard errors that make it clear that the larger number brings more, and that it does not.
    pub more: f64,
    pub no_more: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The larger number brings more.
    High,
    /// The smaller one does as well.
    Low,
    /// Not clear after all the pairs there are for now; more can be added.
    Open,
}

/// The variance of differences between neighbouring windows: learnt from one comparison for the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise(pub f64);

impl Noise {
    /// 6 % each way, until something is known.
    pub fn new() -> Noise {
        Noise(0.004)
    }
}

#[derive(Debug)]
pub(super) struct Comparison {
    pub low: usize,
    pub high: usize,
    /// Whether the window that is measured next belongs to the larger number.
    pub on_high: bool,
    /// The first window of a pair.
    first: Option<Window>,
    pairs: f64,
    mean: f64,
    /// Sum of the squared deviations from the mean.
    squares: f64,
    /// Sums of the rates of both, in pairs.
    rates: [f64; 2],
    /// Sum of the variances that counting objects has.
    counting: f64,
    rules: Rules,
    pairs_max: u32,
}

impl Comparison {
    pub fn new(low: usize, high: usize, on_high: bool, rules: Rules) -> Comparison {
        Comparison {
            low,
            high,
            on_high,
            first: None,
            pairs: 0.0,
            mean: 0.0,
            squares: 0.0,
            rates: [0.0; 2],
            counting: 0.0,
            rules,
            pairs_max: rules.pairs,
        }
    }

    /// The number to measure next.
    pub fn target(&self) -> usize {
        if self.on_high { self.high } else { self.low }
    }

    /// Mean gain of the larger number, as a difference of logarithms.
    pub fn gain(&self) -> f64 {
        self.mean
    }

    pub fn has_pair(&self) -> bool {
        self.pairs > 0.0
    }

    /// Mean rates of both, and of how many windows each.
    pub fn rates(&self) -> ([f64; 2], u32) {
        (self.rates.map(|sum| sum / self.pairs), self.pairs as u32)
    }

    /// Takes the window of `target`.
    pub fn add(&mut self, window: Window, weight: &Weight, noise: Noise) -> Option<Verdict> {
        let Some(first) = self.first.take() else {
            self.first = Some(window);
            self.on_high = !self.on_high;
            return None;
        };
        let (high, low) = if self.on_high { (&window, &first) } else { (&first, &window) };
        let (low_rate, high_rate) = (weight.rate(low), weight.rate(high));
        let difference = high_rate - low_rate;
        self.rates = [self.rates[0] + low_rate, self.rates[1] + high_rate];
        self.pairs += 1.0;
        let off = difference - self.mean;
        self.mean += off / self.pairs;
        self.squares += off * (difference - self.mean);
        self.counting += COUNTING / high.units().max(1.0) + COUNTING / low.units().max(1.0);
        self.verdict(noise)
    }

    fn verdict(&self, noise: Noise) -> Option<Verdict> {
        // What is seen replaces what is supposed.
        let supposed = noise.0.max(self.counting / self.pairs);
        let spread = (PRIOR * supposed + self.squares) / (PRIOR + self.pairs - 1.0);
        let error = (spread / self.pairs).sqrt();
        if self.mean - self.rules.more * error > CLEAR.0 {
            Some(Verdict::High)
        } else if self.pairs >= f64::from(self.rules.least) && self.mean + self.rules.no_more * error < CLEAR.1 {
            Some(Verdict::Low)
        } else if self.pairs < f64::from(self.pairs_max) {
            None
        } else if !self.rules.decides {
            Some(Verdict::Open)
        } else if self.mean * 2.0 > CLEAR.0 + CLEAR.1 {
            Some(Verdict::High)
        } else {
            Some(Verdict::Low)
        }
    }

    /// Continues with as many pairs again.
    pub fn resume(mut self, on_high: bool) -> Comparison {
        self.pairs_max += self.pairs as u32;
        self.on_high = on_high;
        self
    }

    /// What this comparison has taught about noise.
    pub fn noise(&self, before: Noise) -> Noise {
        Noise(((PRIOR * before.0 + self.squares) / (PRIOR + (self.pairs - 1.0).max(0.0))).min(NOISE_MAX))
    }
}
