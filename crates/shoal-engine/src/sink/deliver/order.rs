//! Objects in the order of the listing: what came too early waits until all before it have come or will not come.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::Chunk;
use crate::partition::RETRIED_FROM;
use crate::sink::Place;

/// What is known of the places that are not behind the consumer yet.
#[derive(Default)]
pub(super) struct Order {
    seq: u64,
    index: u32,
    /// Came too early; `None`: will not come.
    early: BTreeMap<Place, Option<Vec<Chunk>>>,
    /// How many entries a partition has, where that is known.
    lengths: HashMap<u64, u32>,
    /// Partitions all of whose entries are settled.
    complete: BTreeMap<u64, ()>,
}

impl Order {
    /// Whether this is the object that all others wait for.
    pub fn awaits(&self, place: Place) -> bool {
        place.seq >= RETRIED_FROM || (place.seq, place.index) == (self.seq, self.index)
    }

    /// A partition is opened, which has so many entries.
    pub fn opened(&mut self, seq: u64, len: Option<u32>, out: &mut VecDeque<Chunk>) {
        if let Some(len) = len {
            self.lengths.insert(seq, len);
            self.advance(out);
        }
    }

    /// An object has come (in pieces, maybe), or will not come.
    pub fn settled(&mut self, place: Place, chunks: Option<Vec<Chunk>>, out: &mut VecDeque<Chunk>) {
        if place.seq >= RETRIED_FROM {
            out.extend(chunks.into_iter().flatten()); // behind everything, in any order
            return;
        }
        self.early.insert(place, chunks);
        self.advance(out);
    }

    /// Everything of a partition is settled.
    pub fn complete(&mut self, seq: u64, out: &mut VecDeque<Chunk>) {
        if seq >= self.seq && seq < RETRIED_FROM {
            self.complete.insert(seq, ());
            self.advance(out);
        }
    }

    fn advance(&mut self, out: &mut VecDeque<Chunk>) {
        loop {
            let place = Place { seq: self.seq, index: self.index };
            if let Some(chunks) = self.early.remove(&place) {
                out.extend(chunks.into_iter().flatten());
                self.index += 1;
                continue;
            }
            let is_over = self.lengths.get(&self.seq).is_some_and(|&len| self.index >= len);
            if !is_over && !self.complete.contains_key(&self.seq) {
                return;
            }
            self.lengths.remove(&self.seq);
            self.complete.remove(&self.seq);
            (self.seq, self.index) = (self.seq + 1, 0);
        }
    }
}
