//! `Partition`: the ordered, resumable run of objects that is the unit of listing, work, commit and resume.
//!
//! Here: its place in the listing, its identity, its opaque content. Not here: what a page or an
//! archive means; only the source that made the payload reads it.

use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

/// Where a listing goes on: opaque to all but the source that made it, kept in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash)]
pub struct Cursor(pub Arc<[u8]>);

/// Same key = same objects in the same order. A re-listed partition with another key is redone whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Key(pub u128);

impl Key {
    /// The key of a run of locators. Lengths are hashed too, so that `ab`,`c` and `a`,`bc` differ.
    pub fn of<'a>(locators: impl IntoIterator<Item = &'a [u8]>) -> Key {
        let mut hasher = Xxh3::new();
        for locator in locators {
            hasher.update(&(locator.len() as u64).to_le_bytes());
            hasher.update(locator);
        }
        Key(hasher.digest128())
    }

    /// The key of a sequence that ends with `next`: how the journal remembers everything behind its frontier in one row.
    pub fn chain(self, next: Key) -> Key {
        let mut hasher = Xxh3::new();
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&next.0.to_le_bytes());
        Key(hasher.digest128())
    }
}

/// Numbers from here on belong to partitions of objects that are tried again later, counted down from the far end anew in
/// each run; they say nothing of a place in the listing.
pub const RETRIED_FROM: u64 = 1 << 63;

/// An ordered, resumable run of objects.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Place in the listing: dense and ascending from 0, the same again when the listing is the same.
    pub seq: u64,
    /// Identity of the objects in it.
    pub key: Key,
    /// A listing that starts here produces this partition again. Partitions of one page share it.
    pub after: Cursor,
    /// Where the listing continues behind it; only for the last partition of a page, and not behind the last page.
    pub next: Option<Cursor>,
    /// What the source needs to open it.
    pub payload: Arc<[u8]>,
    /// How many objects it holds, where the listing already knows.
    pub len: Option<u32>,
}
