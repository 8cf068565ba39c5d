//! Which objects of a lane take the place of others: not those that hang, up to a limit. Objects of hosts that have never
//! answered take at most half of the places once as many hang as may: the next ones would hang too. Not here: when a
//! request hangs (`silence.rs`), how many places there are (`engine/lane/`).

use std::collections::HashMap;
use std::hash::Hash;

/// The objects of one lane that are requested. `J` names one.
#[derive(Debug)]
pub(crate) struct Places<J> {
    in_flight: usize,
    /// Those that ask a host which is paused or has never answered, and those that hang.
    asked: HashMap<J, Asked>,
    /// How many of these hang.
    hanging: usize,
    /// How many of them may take no place.
    hanging_max: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// Its host is paused: the answer is one about the host.
    is_probe: bool,
    /// It takes no place.
    hangs: bool,
}

impl<J: Copy + Eq + Hash> Places<J> {
    pub fn new(hanging_max: usize) -> Places<J> {
        Places { in_flight: 0, asked: HashMap::new(), hanging: 0, hanging_max }
    }

    /// An object is requested. `is_unheard`: its host has never answered.
    pub fn asks(&mut self, job: J, is_unheard: bool) {
        self.in_flight += 1;
        if is_unheard {
            self.asked.entry(job).or_default();
        }
    }

    /// An object that will be requested, or hangs, asks whether its host is back.
    pub fn probes(&mut self, job: J) {
        self.asked.entry(job).or_default().is_probe = true;
    }

    /// An object hangs. Returns whether it takes no place any more, and did.
    pub fn hangs(&mut self, job: J) -> bool {
        let (may, asked) = (self.hanging < self.hanging_max, self.asked.entry(job).or_default());
        let is_new = may && !asked.hangs;
        asked.hangs |= may;
        self.hanging += usize::from(is_new);
        self.in_flight -= usize::from(is_new);
        is_new
    }

    /// An object is answered, or something of it arrives: it takes its place again. Returns whether it had none, and whether
    /// it was a probe.
    pub fn arrives(&mut self, job: J) -> (bool, bool) {
        if self.asked.is_empty() {
            return (false, false);
        }
        let asked = self.asked.remove(&job).unwrap_or_default();
        self.hanging -= usize::from(asked.hangs);
        self.in_flight += usize::from(asked.hangs);
        (asked.hangs, asked.is_probe)
    }

    /// An object that has arrived is settled.
    pub fn ends(&mut self) {
        self.in_flight -= 1;
    }

    /// Objects that take a place.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether all places are taken. `unheard`: how many of them hosts may have that have never answered.
    pub fn are_full(&self, places: usize, unheard: usize) -> bool {
        let surplus = match self.hanging >= self.hanging_max {
            true => (self.asked.len() - self.hanging).saturating_sub(unheard),
            false => 0,
        };
        self.in_flight.saturating_sub(surplus) >= places
    }

    /// How many more objects may be requested from hosts that have never answered.
    pub fn room_for_unheard(&self, unheard: usize) -> usize {
        (self.hanging_max + unheard).saturating_sub(self.asked.len())
    }
}
