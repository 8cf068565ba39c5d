//! The objects that the pipeline check compares. Pure. Not here: the check (`pipeline_check.rs`).

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_128;

/// Least number of different objects for a check: two equal objects can change places unnoticed.
pub(crate) const OBJECTS: usize = 16;
/// Small objects that are tried to find them, before the check is given up as impossible.
pub(crate) const TRIES: usize = 4096;

/// The hash by which bodies are compared.
pub(crate) fn hash(body: &[u8]) -> u128 {
    xxh3_128(body)
}

/// An object that was fetched by a single request.
#[derive(Debug)]
pub(crate) struct CheckObject {
    pub target: Vec<u8>,
    pub hash: u128,
    /// It was the first object with these bytes.
    is_new: bool,
}

/// The objects collected so far, on all connections.
#[derive(Debug, Default)]
pub(crate) struct CheckObjects {
    seen: Vec<CheckObject>,
    hashes: HashSet<u128>,
    looked: usize,
}

/// Whether there are enough objects for a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Enough {
    No,
    Yes,
    /// `TRIES` objects were tried, and too many are equal.
    Never,
}

impl CheckObjects {
    /// Adds an object. `depth`: how many requests will be pipelined.
    pub fn add(&mut self, depth: usize, body: &[u8], target: impl FnOnce(&mut Vec<u8>)) -> Enough {
        let most = depth.max(OBJECTS);
        let hash = hash(body);
        let is_new = self.hashes.len() < most && self.hashes.insert(hash);
        self.looked += 1;
        // Once there are as many objects as the pipeline is deep, a new one replaces a duplicate.
        let place = match self.seen.len() < most {
            true => Some(self.seen.len()),
            false => self.seen.iter().position(|seen| !seen.is_new).filter(|_| is_new),
        };
        if let Some(place) = place {
            let mut seen = CheckObject { target: Vec::new(), hash, is_new };
            target(&mut seen.target);
            self.seen.truncate(most);
            match self.seen.get_mut(place) {
                Some(other) => *other = seen,
                None => self.seen.push(seen),
            }
        }
        match self.seen.len() == most && self.hashes.len() >= OBJECTS {
            true => Enough::Yes,
            false if self.looked >= TRIES => Enough::Never,
            false => Enough::No,
        }
    }

    /// The objects, shuffled to spread the equal ones.
    pub fn take(&mut self) -> Vec<CheckObject> {
        let mut seen = std::mem::take(self).seen;
        fastrand::shuffle(&mut seen);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(collection: &mut CheckObjects, depth: usize, number: usize, body: &str) -> Enough {
        collection.add(depth, body.as_bytes(), |out| out.extend_from_slice(number.to_string().as_bytes()))
    }

    #[test]
    fn objects_count_only_where_their_bytes_are_new() {
        let mut collection = CheckObjects::default();
        assert!((0..400).all(|n| add(&mut collection, 16, n, "") == Enough::No));
        assert!((400..414).all(|n| add(&mut collection, 16, n, &n.to_string()) == Enough::No));
        assert_eq!(add(&mut collection, 16, 414, "413"), Enough::No);
        assert_eq!(add(&mut collection, 16, 415, "new"), Enough::Yes);
        let seen = collection.take();
        assert_eq!(seen.iter().map(|seen| seen.hash).collect::<HashSet<_>>().len(), 16);
    }

    #[test]
    fn there_are_as_many_as_the_pipeline_is_deep_and_never_more() {
        let mut collection = CheckObjects::default();
        assert!((0..199).all(|n| add(&mut collection, 200, n, &(n % 20).to_string()) == Enough::No));
        assert_eq!(add(&mut collection, 200, 199, "x"), Enough::Yes);
        assert_eq!(collection.take().len(), 200);
    }

    #[test]
    fn the_search_ends() {
        let mut collection = CheckObjects::default();
        assert!((1..TRIES).all(|n| add(&mut collection, 16, n, "same") == Enough::No));
        assert_eq!(add(&mut collection, 16, TRIES, "same"), Enough::Never);
    }
}
