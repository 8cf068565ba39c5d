//! Counters while a run goes on: one set per lane, so that lanes never share a cache line, summed by whoever looks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What one lane has done so far.
#[repr(align(128))] // two cache lines: adjacent-line prefetch would share one
#[derive(Default)]
pub(crate) struct LaneCounters {
    pub written: AtomicU64,
    pub bytes: AtomicU64,
    /// Bytes that the sink has taken, those of unfinished and of failed objects included.
    pub moved: AtomicU64,
    pub skipped: AtomicU64,
    pub failed: AtomicU64,
    pub duplicates: AtomicU64,
    pub unchanged: AtomicU64,
    /// Of `written`: there already, from an earlier session.
    pub kept: AtomicU64,
    pub unverified: AtomicU64,
    pub wasted: AtomicU64,
    pub retries: AtomicU64,
    pub in_flight: AtomicU64,
    /// Ticks of its clock: a lane that is blocked in the sink has none.
    pub beats: AtomicU64,
}

/// Only the lane itself writes, so a plain load and store is enough and costs no locked instruction.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// Counterpart of [`add`]. A lane may take back what another has counted, so only the sum of all lanes is never below zero.
pub(crate) fn sub(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_sub(amount), Relaxed);
}

/// Sums of all lanes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub written: u64,
    pub bytes: u64,
    pub moved: u64,
    pub skipped: u64,
    pub failed: u64,
    pub duplicates: u64,
    pub unchanged: u64,
    pub kept: u64,
    pub unverified: u64,
    pub wasted: u64,
    pub retries: u64,
    pub in_flight: u64,
    pub beats: u64,
}

/// The counters of every lane.
pub(crate) struct Counters {
    pub lanes: Vec<LaneCounters>,
    /// Names listed in this run and not committed before.
    pub listed: AtomicU64,
    /// Objects whose partition is committed in this run.
    pub committed: AtomicU64,
    /// Objects that wait for a later try; and when the next of them is due, in Unix milliseconds (0: not known, or none).
    pub deferred: AtomicU64,
    pub next_due: AtomicU64,
    /// Writes that wait for another try, over all lanes.
    pub writes_waiting: AtomicU64,
    pub listing_retries: AtomicU64,
    pub out_of_files: AtomicU64,
}

impl Counters {
    /// `deferred`: objects that earlier runs deferred, which are this run's work too.
    pub fn new(lanes: usize, deferred: u64) -> Counters {
        Counters {
            lanes: (0..lanes).map(|_| LaneCounters::default()).collect(),
            listed: AtomicU64::new(deferred),
            committed: AtomicU64::new(0),
            deferred: AtomicU64::new(deferred),
            next_due: AtomicU64::new(0),
            writes_waiting: AtomicU64::new(0),
            listing_retries: AtomicU64::new(0),
            out_of_files: AtomicU64::new(0),
        }
    }

    pub fn sums(&self) -> Sums {
        let sum = |sum: &mut u64, counter: &AtomicU64| *sum = sum.wrapping_add(counter.load(Relaxed));
        let mut sums = Sums::default();
        for lane in &self.lanes {
            sum(&mut sums.written, &lane.written);
            sum(&mut sums.bytes, &lane.bytes);
            sum(&mut sums.moved, &lane.moved);
            sum(&mut sums.skipped, &lane.skipped);
            sum(&mut sums.failed, &lane.failed);
            sum(&mut sums.duplicates, &lane.duplicates);
            sum(&mut sums.unchanged, &lane.unchanged);
            sum(&mut sums.kept, &lane.kept);
            sum(&mut sums.unverified, &lane.unverified);
            sum(&mut sums.wasted, &lane.wasted);
            sum(&mut sums.retries, &lane.retries);
            sum(&mut sums.in_flight, &lane.in_flight);
            sum(&mut sums.beats, &lane.beats);
        }
        // What one lane takes back can be seen before what another has added.
        for sum in [
            &mut sums.written,
            &mut sums.bytes,
            &mut sums.skipped,
            &mut sums.duplicates,
            &mut sums.unchanged,
            &mut sums.kept,
        ] {
            *sum = if sum.cast_signed() < 0 { 0 } else { *sum };
        }
        sums
    }
}
