//! Hands out objects that are due for a retry, as partitions of their own.
//!
//! The committer calls it on its thread: an object is in the journal or in the queue, and between the two it must not be missed
//! by the question of whether the run is over.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::in_flight_partition::{InFlightPartition, Origin};
use super::lane_partition::now_ms;
use super::lease::Keeper;
use super::shared::Shared;
use crate::error::{Kind, Result};
use crate::journal::Due;
use crate::partition::{Cursor, Key};
use crate::sink::Mode;

/// Objects of one partition, at most.
const OBJECTS_MAX: usize = 100;
/// How often it is looked at which deferred object is due next.
const DUE_LOOK: Duration = Duration::from_secs(1);

pub(super) struct RetryFeeder {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    /// The number of the next partition. They are numbered from the far end, never in the way of the listing's own.
    next: u64,
    /// Partitions above it are from before the listing started over.
    forgotten: u64,
    /// Partitions that are not committed.
    uncommitted: HashSet<u64>,
    /// When it was looked at last which deferred object is due next.
    looked_at_due: Option<Instant>,
    /// The source waits to be told that all failures of earlier sessions were selected.
    in_turn: bool,
}

impl RetryFeeder {
    pub fn new(shared: Arc<Shared>, keeper: Arc<Keeper>) -> RetryFeeder {
        let in_turn = shared.source.properties().in_turn;
        let (next, forgotten, uncommitted) = (u64::MAX, u64::MAX, HashSet::new());
        RetryFeeder { shared, keeper, next, forgotten, uncommitted, looked_at_due: None, in_turn }
    }

    /// A partition was committed, and others may have become due.
    pub fn committed(&mut self, partition: u64) {
        self.uncommitted.remove(&partition);
        self.looked_at_due = None;
    }

    /// The listing starts over: what was written is listed anew, and so fetched anew.
    pub fn forget(&mut self) {
        self.forgotten = self.next;
    }

    /// Whether a partition of retries is from before the listing started over. Then it does not count.
    pub fn is_forgotten(&self, partition: u64) -> bool {
        partition > self.forgotten
    }

    /// Whether a partition is committed; `None`: it is the listing's.
    pub fn is_committed(&self, partition: u64) -> Option<bool> {
        (partition > self.next).then(|| !self.uncommitted.contains(&partition))
    }

    /// Hands out what is due, as much as the queue takes.
    pub fn feed(&mut self) -> Result<()> {
        self.hand_out_due()?;
        self.tell_next_due()
    }

    fn hand_out_due(&mut self) -> Result<()> {
        if self.keeper.journal().deferred() == 0 {
            self.end_retries();
            return Ok(());
        }
        if self.shared.hosts.are_all_gated() {
            return Ok(());
        }
        while let Some(most) = self.shared.queue.takes_again() {
            let mut due = self.keeper.journal().take_due(now_ms(), most)?;
            if due.is_empty() {
                self.end_retries();
                break;
            }
            // What has the name of one that was a repetition is no leftover of it, but the first, which stays.
            let is_repeated =
                |due: &Due| [Kind::Repeated, Kind::NameConflict].iter().any(|kind| *due.kind == *kind.as_str());
            if !self.shared.source.properties().in_turn {
                due.sort_by_key(is_repeated);
            }
            for due in due.chunk_by(|one, other| is_repeated(one) == is_repeated(other)) {
                let mode = if is_repeated(&due[0]) { Mode::First } else { Mode::Redo };
                let mut by_host: BTreeMap<_, Vec<Due>> = BTreeMap::new();
                for due in due {
                    by_host.entry(self.shared.source.host_at(&due.locator)).or_default().push(due.clone());
                }
                for mut due in by_host.into_values() {
                    while !due.is_empty() {
                        let rest = due.split_off(due.len().min(OBJECTS_MAX));
                        self.hand_out(std::mem::replace(&mut due, rest), mode)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn end_retries(&mut self) {
        if std::mem::take(&mut self.in_turn) {
            self.shared.source.end_retries();
        }
    }

    /// Notes for the display when the next deferred object is due.
    fn tell_next_due(&mut self) -> Result<()> {
        if self.looked_at_due.is_some_and(|looked| looked.elapsed() < DUE_LOOK) {
            return Ok(());
        }
        self.looked_at_due = Some(Instant::now());
        let next = self.keeper.journal().next_due()?;
        self.shared.counters.next_due.store(next.unwrap_or_default(), Relaxed);
        Ok(())
    }

    fn hand_out(&mut self, due: Vec<Due>, mode: Mode) -> Result<()> {
        let locators: Vec<_> = due.iter().map(|due| due.locator.clone()).collect();
        let mut partition = self.shared.source.select(&locators)?;
        partition.seq = self.next;
        partition.key = Key::of(locators.iter().map(|locator| &**locator));
        partition.after = Cursor::default();
        partition.len = Some(locators.len() as u32);
        self.uncommitted.insert(self.next);
        self.next -= 1;
        let host = locators.first().and_then(|locator| self.shared.source.host_at(locator));
        let is_in_turn = self.shared.source.is_in_turn(&partition);
        let open = InFlightPartition::new(partition, mode, Origin::Retried(due), host);
        self.shared.queue.push_again(open.in_turn(is_in_turn));
        Ok(())
    }
}
