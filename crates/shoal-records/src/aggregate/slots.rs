//! Which cell a key has.
//!
//! Here: keys that lie close together are their own places ([`Slots::Dense`]), which costs a subtraction; keys that lie far
//! apart are looked up ([`Slots::Hashed`]). Which one is not known beforehand: the range grows with the keys seen. Not
//! here: cells (`table.rs`) and moving them (`groups.rs`).

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Widest range of keys whose cells are kept for all of it: 4 Mi cells of 8 bytes are 32 MiB for each worker and measure.
const DENSE_MAX: u64 = 4 << 20;

/// Narrowest range: smaller tables are not faster.
const DENSE_MIN: u64 = 1 << 10;

/// Where keys have their cells. Keys are bits with the sign extended: differences are right whatever the sign.
pub(super) enum Slots {
    /// The key `base` has the first of `len` cells.
    Dense { base: i128, len: u64 },
    /// `keys` holds each cell's key.
    Hashed { places: HashMap<u64, u32, Seed>, keys: Vec<u64> },
}

/// How cells must move before keys of a new range have theirs.
pub(super) enum Change {
    /// Not at all.
    None,
    /// So many new cells in front, and so many in all.
    Wider { in_front: usize, len: usize },
    /// Only those in use, one after the other.
    Hashed,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots::Dense { base: 0, len: 0 }
    }

    /// How many cells there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Slots::Dense { len, .. } => *len as usize,
            Slots::Hashed { keys, .. } => keys.len(),
        }
    }

    /// Whether keys from `low` to `high` have their cells, or get them one by one.
    pub(super) fn covers(&self, low: i128, high: i128) -> bool {
        match self {
            Slots::Dense { base, len } => *base <= low && high < *base + i128::from(*len),
            Slots::Hashed { .. } => true,
        }
    }

    /// Makes room for keys from `low` to `high`. `present` tells which cells are in use.
    pub(super) fn cover(&mut self, low: i128, high: i128, present: &[u8]) -> Change {
        let Slots::Dense { base, len } = self else { return Change::None };
        let last = *base + i128::from(*len) - 1;
        if *base <= low && high <= last {
            return Change::None;
        }
        if *len == 0 {
            let span = (high - low + 1) as u128;
            if span <= DENSE_MAX.into() {
                *len = (span as u64).next_power_of_two().max(DENSE_MIN);
                // Ids mostly begin near 0: where that takes no more cells, smaller ones will find theirs there.
                *base = if low >= 0 && high < i128::from(*len) { 0 } else { low };
                return Change::Wider { in_front: 0, len: *len as usize };
            }
        } else {
            let (least, greatest) = (low.min(*base), high.max(last));
            let span = (greatest - least + 1) as u128;
            if span <= DENSE_MAX.into() {
                let grown = (span as u64).next_power_of_two();
                // What is too much lies on the side that grows, so that many small steps cost few moves.
                let first = if low < *base { greatest + 1 - i128::from(grown) } else { least };
                let in_front = (*base - first) as usize;
                (*base, *len) = (first, grown);
                return Change::Wider { in_front, len: grown as usize };
            }
        }
        let keys: Vec<u64> = present
            .iter()
            .enumerate()
            .filter(|(_, present)| **present != 0)
            .map(|(at, _)| (*base + at as i128) as u64)
            .collect();
        let mut places = HashMap::with_capacity_and_hasher(keys.len() * 2, Seed::new());
        places.extend(keys.iter().enumerate().map(|(at, key)| (*key, at as u32)));
        *self = Slots::Hashed { places, keys };
        Change::Hashed
    }

    /// The key of a cell, as bits.
    pub(super) fn key(&self, at: usize) -> u64 {
        match self {
            Slots::Dense { base, .. } => (*base + at as i128) as u64,
            Slots::Hashed { keys, .. } => keys[at],
        }
    }
}

/// The place of a key among those looked up; a new one gets the next place.
#[inline(always)]
pub(super) fn place(places: &mut HashMap<u64, u32, Seed>, keys: &mut Vec<u64>, key: u64) -> u32 {
    *places.entry(key).or_insert_with(|| {
        keys.push(key);
        (keys.len() - 1) as u32
    })
}

/// Makes hashes of integers: a multiplication to 128 bits whose halves are joined. The start is random, so that a file
/// cannot be prepared with colliding keys.
#[derive(Clone)]
pub(super) struct Seed(u64);

impl Seed {
    fn new() -> Self {
        Seed(RandomState::new().hash_one(0_u64))
    }
}

impl BuildHasher for Seed {
    type Hasher = Multiply;

    fn build_hasher(&self) -> Multiply {
        Multiply(self.0)
    }
}

pub(super) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    #[inline(always)]
    fn write_u64(&mut self, key: u64) {
        // The fraction of the golden ratio, whose bits have no pattern.
        let wide = u128::from(key ^ self.0) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (wide as u64) ^ (wide >> 64) as u64;
    }
}
