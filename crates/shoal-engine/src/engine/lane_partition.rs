//! One open partition on one lane: which of its objects are in flight, waiting for another try, or settled.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::in_flight_partition::{InFlightPartition, Origin, Tally};
use crate::error::{Error, HostId, Kind, Side};
use crate::journal::{Failed, Retried, Settled};
use crate::report::{Reason, Skipped};
use crate::sink::{Mode, SinkProperties};
use crate::source::{Entries, Entry};

/// How an object has been tried so far.
#[derive(Clone, Copy)]
pub(crate) struct Tried {
    pub count: u32,
    first: Instant,
    /// Spent on it before it came to this lane.
    before: Duration,
    /// Pauses of its host when it first failed here.
    paused_at_first: Duration,
}

impl Tried {
    /// Time spent on it, less pauses of its host.
    pub fn time(&self, paused: Duration) -> Duration {
        self.before + self.first.elapsed().saturating_sub(paused.saturating_sub(self.paused_at_first))
    }
}

/// A lane's share of a partition.
pub(crate) struct LanePartition {
    pub open: Arc<InFlightPartition>,
    pub entries: Rc<dyn Entries>,
    pub in_flight: u32,
    /// Objects given back or waiting for another try on this lane.
    pub waiting: u32,
    /// Of many hosts: the lane takes nothing from it now, because its host is paused or has no room.
    pub parked: bool,
    /// Those that wait for their host, where the partition has one host of many.
    pub given_back: VecDeque<u32>,
    pub tally: Tally,
    /// No object of it is begun any more.
    pub is_cut: bool,
    /// Since when an object of it is written that is not committed.
    since: Option<Instant>,
    tried: HashMap<(u32, Side), Tried>,
    writing: SinkProperties,
}

impl LanePartition {
    pub fn new(open: Arc<InFlightPartition>, entries: Rc<dyn Entries>, writing: SinkProperties) -> LanePartition {
        LanePartition {
            open,
            entries,
            in_flight: 0,
            waiting: 0,
            parked: false,
            given_back: VecDeque::new(),
            tally: Tally::default(),
            is_cut: false,
            since: None,
            tried: HashMap::new(),
            writing,
        }
    }

    /// Nothing left to take and nothing unsettled.
    pub fn is_settled(&self) -> bool {
        self.in_flight == 0 && self.waiting == 0 && self.open.untaken() == 0
    }

    pub fn host(&self, index: u32) -> HostId {
        self.entries.get(index).host
    }

    /// Whether an object has failed before.
    pub fn is_tried(&self, index: u32) -> bool {
        let before = match &self.open.origin {
            Origin::Listed => false,
            Origin::Retried(due) => due.get(index as usize).is_some_and(|due| *due.kind != *Kind::Postponed.as_str()),
        };
        before || self.tried.contains_key(&(index, Side::Source))
    }

    /// Whether it has failed for the length of its body when it was last tried in another partition.
    pub fn is_doubted(&self, index: u32) -> bool {
        match &self.open.origin {
            Origin::Listed => false,
            Origin::Retried(due) => due.get(index as usize).is_some_and(|due| *due.kind == *Kind::ShortBody.as_str()),
        }
    }

    /// Whether a run that was cut off may have begun it.
    pub fn is_again(&self) -> bool {
        self.open.mode == Mode::Redo
    }

    /// Counts a failed try. `waited`: how long its host has said nothing. An object that comes back again and again to ask
    /// such a host brings only the time that is stored with it.
    pub fn count_try(&mut self, index: u32, side: Side, paused: Duration, waited: Duration) -> Tried {
        let (count, before) = self.tried_before(index);
        let tried = self.tried.entry((index, side)).or_insert_with(|| Tried {
            count,
            first: Instant::now(),
            before: before + waited,
            paused_at_first: paused,
        });
        tried.count += 1;
        *tried
    }

    /// How often it has failed so far, and how long it has been tried.
    pub fn tried_so_far(&self, index: u32, paused: Duration) -> (u32, Duration) {
        let tried = self.tried.get(&(index, Side::Source));
        tried.map_or_else(|| self.tried_before(index), |tried| (tried.count, tried.time(paused)))
    }

    /// The same before it came to this lane.
    fn tried_before(&self, index: u32) -> (u32, Duration) {
        match &self.open.origin {
            Origin::Listed => (0, Duration::ZERO),
            Origin::Retried(due) => {
                due.get(index as usize).map_or((0, Duration::ZERO), |d| (d.tries, Duration::from_millis(d.tried_ms)))
            }
        }
    }

    /// Takes back what `count_try` counted: the host was to blame.
    pub fn uncount_try(&mut self, index: u32, side: Side) {
        if let Some(tried) = self.tried.get_mut(&(index, side)) {
            tried.count -= 1;
        }
    }

    /// The partition that an object is written with, and the one that it is counted in.
    pub fn numbers(&self, index: u32) -> (u64, u64) {
        let seq = self.open.partition.seq;
        match &self.open.origin {
            Origin::Listed => (seq, seq),
            Origin::Retried(due) => (seq, due.get(index as usize).map_or(seq, |due| due.seq)),
        }
    }

    /// Whether its first object was written so long ago.
    pub fn is_older_than(&self, most: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() > most) && !self.entries.is_stream()
    }

    /// `kept`: an earlier session has written it.
    pub fn written(&mut self, index: u32, bytes: u64, kept: bool) {
        self.since.get_or_insert_with(Instant::now);
        match self.open.origin {
            Origin::Listed => {
                self.tally.written += 1;
                self.tally.bytes += bytes;
                if kept {
                    self.tally.skips.add(Reason::Kept);
                }
            }
            Origin::Retried(_) => self.retried(index, Ok(Settled::Written { bytes, kept })),
        }
    }

    pub fn skipped(&mut self, index: u32, reason: Reason) {
        match self.open.origin {
            Origin::Listed => {
                self.tally.skips.add(reason);
                if reason.is_listed() {
                    self.tally.left_out.push(Skipped { name: self.entries.get(index).name.into(), reason });
                }
            }
            Origin::Retried(_) => self.retried(index, Ok(Settled::Skipped(reason))),
        }
    }

    /// Failed for good, or deferred by `wait`.
    pub fn failed(&mut self, index: u32, error: &Error, tried: Option<(u32, Duration)>, wait: Option<Duration>) {
        let (tries, time) = tried.unwrap_or((1, Duration::ZERO));
        let failed = failed(&self.entries.get(index), error, self.writing, (tries, time), wait);
        match self.open.origin {
            Origin::Listed => self.tally.failures.push(failed),
            Origin::Retried(_) => self.retried(index, Err(failed)),
        }
    }

    /// It leaves its partition before it was begun. Of one that is tried again, the journal has the row.
    pub fn postponed(&mut self, index: u32, error: &Error, tried: (u32, Duration), wait: Duration) {
        match self.open.origin {
            Origin::Listed => self.failed(index, error, Some(tried), Some(wait)),
            Origin::Retried(_) => self.tally.returned.push(self.entries.get(index).locator.into()),
        }
    }

    fn retried(&mut self, index: u32, outcome: Result<Settled, Failed>) {
        let (locator, (_, seq)) = (self.entries.get(index).locator.into(), self.numbers(index));
        self.tally.retried.push(Retried { locator, seq, outcome });
    }
}

/// As the journal keeps it.
pub(crate) fn failed(
    entry: &Entry<'_>,
    error: &Error,
    writing: SinkProperties,
    (tries, time): (u32, Duration),
    wait: Option<Duration>,
) -> Failed {
    Failed {
        locator: entry.locator.into(),
        name: entry.name.into(),
        kind: error.kind().as_str(),
        reason: writing.advised(error.why()),
        tries,
        tried_ms: time.as_millis() as u64,
        due_ms: wait.map(|wait| now_ms() + wait.as_millis() as u64),
    }
}

/// Unix milliseconds: the journal outlives this process, so its times are of the calendar.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
