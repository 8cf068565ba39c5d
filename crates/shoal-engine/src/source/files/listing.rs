//! From a walk or a list to partitions, in pages that the journal folds.

use std::sync::Arc;

use super::ahead::SLOW;
use super::run::{Builder, Run, of_locators};
use super::walk::{Step, Walk};
use super::{Paths, Tree, What};
use crate::error::Result;
use crate::partition::{Cursor, Key, Partition};
use crate::source::{BoxFuture, Entries, Listing};

/// Entries of a partition at the most: as of a page of a list/get service, small enough that a kill costs little and that
/// two lanes share a small tree.
const PARTITION_MAX: u32 = 100;
/// Partitions of a page. The journal folds page by page: 10,000 files are one row.
const PAGE: u64 = 100;
/// Entries after which the event loop is asked whether the run goes on: well below a millisecond.
const PAUSE: u32 = 1024;

/// Where a page begins: the `seq` of its first partition. What lies before is listed again and compared, since the order
/// of a directory may be another one the next time; so nothing is looked up by it.
fn place(seq: u64) -> Cursor {
    Cursor(seq.to_le_bytes()[..].into())
}

/// A partition of this payload; `seq` and `after` are the caller's to set.
pub(super) fn partition(payload: Vec<u8>) -> Partition {
    let payload: Arc<[u8]> = payload.into();
    // Names play no part in it, and the payload is our own.
    let (key, len) =
        Run::new(&payload, &Paths::default()).map_or((Key::default(), None), |run| (run.key(), Some(run.len())));
    Partition { seq: 0, key, after: Cursor::default(), next: None, payload, len }
}

/// Numbers partitions and gathers them into pages.
struct Pages {
    seq: u64,
    after: Cursor,
    /// Partitions in the page so far.
    filled: u64,
}

impl Pages {
    fn new() -> Pages {
        Pages { seq: 0, after: place(0), filled: 0 }
    }

    /// The next partition.
    fn number(&mut self, payload: Vec<u8>) -> Partition {
        let mut numbered = Partition { seq: self.seq, after: self.after.clone(), ..partition(payload) };
        self.seq += 1;
        self.filled += 1;
        if self.filled == PAGE {
            self.filled = 0;
            self.after = place(self.seq);
            numbered.next = Some(self.after.clone());
        }
        numbered
    }
}

/// The listing of a tree.
pub(super) struct OfTree {
    tree: Arc<Tree>,
    walk: Walk,
    pages: Pages,
    run: Builder,
    /// Whether anything has been listed.
    any: bool,
}

impl OfTree {
    pub fn new(tree: Arc<Tree>) -> OfTree {
        tree.seen.reset();
        let walk = Walk::new(tree.clone(), SLOW);
        OfTree { tree, walk, pages: Pages::new(), run: Builder::new(), any: false }
    }

    async fn advance(&mut self) -> Result<Option<Partition>> {
        let mut steps = 0;
        loop {
            match self.walk.step()? {
                Step::Entry(mark) => {
                    self.run.push(self.walk.directory(), self.walk.name(), mark);
                    self.any = true;
                    if self.run.len() == PARTITION_MAX {
                        return Ok(Some(self.pages.number(self.run.take())));
                    }
                }
                Step::Nothing => {}
                Step::End => {
                    if let (What::Walk(Some(pattern)), false) = (&self.tree.what, self.any) {
                        self.tree.seen.unmatched(pattern.text());
                    }
                    let rest = (self.run.len() > 0).then(|| self.run.take());
                    return Ok(rest.map(|payload| self.pages.number(payload)));
                }
            }
            steps += 1;
            if steps % PAUSE == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl Listing for OfTree {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(self.advance())
    }
}

/// The listing of a list.
pub(super) struct OfList {
    paths: Arc<Paths>,
    at: usize,
    pages: Pages,
}

impl OfList {
    pub fn new(paths: Arc<Paths>) -> OfList {
        OfList { paths, at: 0, pages: Pages::new() }
    }
}

impl Listing for OfList {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        let run = self.at..self.paths.len().min(self.at + PARTITION_MAX as usize);
        self.at = run.end;
        let next = (!run.is_empty()).then(|| {
            let payload = of_locators(run.filter_map(|index| self.paths.get(index)));
            self.pages.number(payload)
        });
        Box::pin(async move { Ok(next) })
    }
}
