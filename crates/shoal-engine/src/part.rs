//! `Part`: one of several parts of a job. Each part is a run of its own, on this machine or another, at any time. `Seen`:
//! what a part has seen of the whole.
//!
//! Not here: how a source is divided (`source/part.rs`), where the journal of a part is (`journal/parts.rs`).

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Kind, Result};
use crate::option::{Opt, Setting, Type, Value};

/// Part `index` of `count`, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    index: u32,
    count: u32,
}

impl Part {
    /// # Errors
    /// [`Kind::Config`] if `index` is not below `count`.
    pub fn new(index: u32, count: u32) -> Result<Part> {
        match index < count {
            true => Ok(Part { index, count }),
            false => Err(Error::new(
                Kind::Config,
                format!("part {index} of {count} does not exist: parts are counted from 0"),
            )),
        }
    }

    /// Its number.
    pub fn index(self) -> u32 {
        self.index
    }

    /// The number of parts.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Whether a name belongs to this part. Each name belongs to exactly one. Journals depend on this choice.
    pub fn has(self, name: &[u8]) -> bool {
        self.has_hash(xxh3_64(name))
    }

    /// The same for a name with this `xxh3_64`.
    fn has_hash(self, hash: u64) -> bool {
        hash % u64::from(self.count) == u64::from(self.index)
    }
}

impl Setting for Part {
    const TAKES: Type = Type::Part;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        let Value::Part(index, count) = given else { return Err(option.refuses(named, given)) };
        let (Ok(index), Ok(count)) = (u32::try_from(*index), u32::try_from(*count)) else {
            return Err(option.refuses(named, given));
        };
        Part::new(index, count).map_err(|_| option.refuses(named, given))
    }

    fn given(&self) -> Value {
        Value::Part(self.index().into(), self.count().into())
    }
}

/// The names of a listing before it was divided: how many, and the sum of their hashes, which has no order. All parts of
/// a job must see the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// How many.
    pub count: u64,
    /// The sum of their `xxh3_64`, modulo 2^64.
    pub sum: u64,
}

impl Seen {
    /// Adds a name. Returns whether it belongs to this part.
    pub fn add(&mut self, name: &[u8], part: Part) -> bool {
        let hash = xxh3_64(name);
        self.join(Seen { count: 1, sum: hash });
        part.has_hash(hash)
    }

    /// Adds other names.
    pub fn join(&mut self, other: Seen) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// As the user types it: `3/16`.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_below_the_number_of_parts() {
        assert!(Part::new(0, 0).is_err() && Part::new(3, 3).is_err());
        assert_eq!(Part::new(2, 3).unwrap().to_string(), "2/3");
    }
}
