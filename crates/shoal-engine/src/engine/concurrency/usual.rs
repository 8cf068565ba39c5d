//! The usual rate at rest, and whether the medium has changed: a cache that is used up, a server that gets slower or faster.

use super::comparison::Noise;

/// A rate that differs so much from the usual one, in logarithms and standard deviations, is another medium …
const CHANGED: f64 = 0.25;
const CHANGED_DEVIATIONS: f64 = 4.0;
/// … if it does so in as many windows in a row.
const CHANGED_WINDOWS: i32 = 3;
/// Recent rates that differ so much are a reason to probe. (The deviation of their mean is 0.38 of that of one.)
const SHIFTED: f64 = 0.06;
const SHIFTED_DEVIATIONS: f64 = 1.5;
/// Windows that tell how much rates vary, and the least that they do, as the variance of a difference of two.
const ENOUGH: u32 = 8;
const NOISE_MIN: f64 = 0.001;
/// Part of the mean that a new rate replaces, and of the mean of recent ones.
const FADING: f64 = 0.1;
const RECENT: f64 = 0.25;

/// What a rate says of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    AsBefore,
    /// Something is a little different: it is worth to probe.
    Shifted,
    /// It is another one: what is known is worth nothing.
    Changed,
}

/// The rate of one number at rest, as a logarithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub number: usize,
    mean: f64,
    variance: f64,
    /// Mean of the last few windows.
    recent: f64,
    windows: u32,
    /// Windows in a row that were far above (positive) or below.
    off: i32,
}

impl Usual {
    /// From the mean rate of so many windows.
    pub fn new(number: usize, mean: f64, windows: u32) -> Usual {
        Usual { number, mean, variance: 0.0, recent: mean, windows, off: 0 }
    }

    /// The variance of the difference of two windows: what was seen at rest, once that is enough.
    pub fn noise(&self, before: Noise) -> Noise {
        if self.windows < ENOUGH { before } else { Noise((self.variance * 2.0).max(NOISE_MIN)) }
    }

    /// Takes the rate of one more window. `before`: the noise of comparisons, until enough was seen at rest.
    pub fn take(&mut self, rate: f64, before: Noise) -> Medium {
        let off = rate - self.mean;
        let deviation = (self.noise(before).0 / 2.0).sqrt();
        if self.windows >= 2 && off.abs() > CHANGED.max(CHANGED_DEVIATIONS * deviation) {
            let sign = if off > 0.0 { 1 } else { -1 };
            self.off = if self.off * sign > 0 { self.off + sign } else { sign };
            return if self.off.abs() >= CHANGED_WINDOWS { Medium::Changed } else { Medium::AsBefore };
        }
        self.off = 0;
        self.windows += 1;
        let part = FADING.max(1.0 / f64::from(self.windows));
        // What is far off must not hide what comes after it.
        let near = if self.windows > ENOUGH { off.clamp(-2.0 * deviation, 2.0 * deviation) } else { off };
        self.mean += part * near;
        self.variance += part * (near * near - self.variance);
        self.recent += RECENT * (rate - self.recent);
        if (self.recent - self.mean).abs() > SHIFTED.max(SHIFTED_DEVIATIONS * deviation) {
            self.mean = self.recent;
            return Medium::Shifted;
        }
        Medium::AsBefore
    }
}
