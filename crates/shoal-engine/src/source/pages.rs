//! Numbers the partitions of a listing and puts them into pages. Not here: listings that get their pages from a service.

use crate::partition::{Cursor, Partition};

/// Partitions of a page. The journal folds whole pages: 10,000 objects are one row.
const PAGE: u64 = 100;

/// Where a listing is.
pub struct Pages {
    seq: u64,
    /// Where the page begins.
    after: Cursor,
    /// Partitions in the page so far.
    filled: u64,
}

impl Pages {
    /// The next partition is the first of a page, and has this number.
    pub fn new(seq: u64, after: Cursor) -> Pages {
        Pages { seq, after, filled: 0 }
    }

    /// Numbers the next partition. `cursor` makes the cursor of the page that begins with a number.
    pub fn number(&mut self, partition: Partition, cursor: impl FnOnce(u64) -> Cursor) -> Partition {
        let mut numbered = Partition { seq: self.seq, after: self.after.clone(), ..partition };
        self.seq += 1;
        self.filled += 1;
        if self.filled == PAGE {
            self.filled = 0;
            self.after = cursor(self.seq);
            numbered.next = Some(self.after.clone());
        }
        numbered
    }
}
