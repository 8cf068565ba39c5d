//! `Rate`: the rate history of a run, evenly spaced however long the run takes. Not here: a sample's row (`rows.rs`).

use rusqlite::Connection;

use super::rows::Sample;

/// Most samples of one run.
const SAMPLES_MAX: usize = 1000;
/// Shortest time between two samples, in milliseconds. It is doubled whenever there are too many.
const SPACING_MS: u64 = 1000;
/// Samples that wait for the next commit to be written with it.
const PENDING_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Rate {
    /// Not written yet.
    pending: Vec<Sample>,
    stored: usize,
    last_ms: Option<u64>,
    spacing_ms: u64,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { pending: Vec::new(), stored: 0, last_ms: None, spacing_ms: SPACING_MS }
    }
}

impl Rate {
    pub(super) fn load(connection: &Connection, run: i64) -> Result<Rate, rusqlite::Error> {
        let samples = Sample::load(connection, run)?;
        let times = || samples.iter().flatten().map(|sample| sample.at_ms);
        let (stored, last_ms) = (samples.len(), times().next_back());
        let span = last_ms.unwrap_or(0).saturating_sub(times().next().unwrap_or(0));
        let spacing = span / stored.max(1) as u64;
        // Pauses between sessions make it longer. The next thinning is never more than a doubling away.
        let spacing_ms = spacing.clamp(SPACING_MS, SPACING_MS << 20);
        Ok(Rate { pending: Vec::new(), stored, last_ms, spacing_ms })
    }

    /// Whether it is time for another sample.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        // After a clock was set back, the spacing counts from there.
        self.last_ms.is_none_or(|last| now_ms < last || now_ms - last >= self.spacing_ms)
    }

    /// Adds a sample, if it is time for one.
    pub(super) fn add(&mut self, sample: Sample) {
        if !self.is_due(sample.at_ms) {
            return;
        }
        self.last_ms = Some(sample.at_ms);
        if self.pending.len() >= PENDING_MAX {
            self.pending.pop();
        }
        self.pending.push(sample);
    }

    /// Forgets what is not written yet.
    pub(super) fn forget_pending(&mut self) {
        *self = Rate { stored: self.stored, ..Rate::default() };
    }

    /// Writes what is pending, and returns how many are stored then, for [`Rate::written`].
    pub(super) fn write(&self, connection: &Connection, run: i64) -> Result<usize, rusqlite::Error> {
        for sample in &self.pending {
            sample.write(connection, run)?;
        }
        let stored = self.stored + self.pending.len();
        if stored > SAMPLES_MAX { Ok(stored - Sample::thin(connection, run)?) } else { Ok(stored) }
    }

    pub(super) fn written(&mut self, stored: usize) {
        if stored < self.stored {
            self.spacing_ms *= 2;
        }
        self.stored = stored;
        self.pending.clear();
    }
}
