//! Partitions that stay open for long (their host is slow, or waits) are cut: what is written of them is committed, so that a
//! kill loses seconds. What has not begun leaves its partition for a later try, as failed objects do; of objects that are
//! tried again anyway, the journal still has the row. What is in flight keeps its partition open until it has ended.
//!
//! Not for streams: what is behind an object cannot be reached without it.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::super::commit::DEFERRED_MAX;
use super::LaneState;
use crate::error::{Error, Kind};

/// Objects that wait for a later try, at which no more partitions are cut: well below the number at which the listing waits.
const DEFERRED_ENOUGH: u64 = DEFERRED_MAX / 2;

impl LaneState {
    /// Cuts what has been open for too long since its first object was written.
    pub(super) fn cut_old(&self) {
        let Some(most) = self.shared.open_max else { return };
        if self.shared.counters.deferred.load(Relaxed) >= DEFERRED_ENOUGH {
            return;
        }
        let old: Vec<u32> = {
            let slots = self.slots.open.borrow();
            let numbered = slots.iter().enumerate();
            numbered
                .filter(|(_, slot)| slot.as_ref().is_some_and(|slot| slot.is_older_than(most)))
                .map(|(number, _)| number as u32)
                .collect()
        };
        old.into_iter().for_each(|number| self.cut(number));
    }

    fn cut(&self, number: u32) {
        let now = Instant::now();
        let mut waiting = Vec::new();
        {
            let mut slots = self.slots.open.borrow_mut();
            let Some(slot) = slots[number as usize].as_mut() else { return };
            slot.is_cut = true;
            waiting.extend(slot.given_back.drain(..));
        }
        self.waiting.again.borrow_mut().retain(|(of, index)| {
            let stays = *of != number;
            waiting.extend((!stays).then_some(*index));
            stays
        });
        self.waiting.due.borrow_mut().retain(|Reverse((at, of, index))| {
            let stays = *of != number || *at > now;
            waiting.extend((!stays).then_some(*index));
            stays
        });
        for index in waiting {
            if let Some(slot) = self.slots.open.borrow_mut()[number as usize].as_mut() {
                slot.waiting -= 1;
            }
            self.postpone(number, index);
        }
        // What need not be fetched is settled on the way.
        while self.settles_fresh(number) {}
        self.close_if_settled(number);
    }

    /// An object leaves its partition before it was begun.
    pub(super) fn postpone(&self, number: u32, index: u32) {
        self.slots.skip_in_sink(number, index);
        let mut slots = self.slots.open.borrow_mut();
        let Some(slot) = slots[number as usize].as_mut() else { return };
        let tried = slot.tried_so_far(index, self.shared.hosts.paused(slot.host(index)));
        let error = Error::new(Kind::Postponed, "its turn has not come: what was there before it is committed first");
        slot.postponed(index, &error, tried, Duration::ZERO);
    }
}
