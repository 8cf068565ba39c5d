//! From a walk or a list to partitions, in pages at which a listing can go on.

use std::sync::Arc;

use super::ahead::SLOW;
use super::run::{Builder, Run, of_locators};
use super::walk::{Step, Walk};
use super::{Paths, Tree, What};
use crate::error::{Error, Kind, Result};
use crate::partition::{Cursor, Key, Partition};
use crate::source::{BoxFuture, Listing};

/// Entries of a partition at the most: as of a page of a list/get service, small enough that a kill costs little and that
/// two lanes share a small tree.
const PARTITION_MAX: u32 = 100;
/// Partitions of a page. The journal folds page by page: 10,000 files are one row, and a listing that goes on passes
/// over as many at the most.
const PAGE: u64 = 100;
/// Entries after which the event loop is asked whether the run goes on: well below a millisecond.
const PAUSE: u32 = 1024;

/// Where a page begins: what `Cursor` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    /// `seq` of its first partition.
    seq: u64,
    /// The path of the entry before it, or the number of paths before it; empty at the start.
    behind: Box<[u8]>,
}

impl Place {
    fn cursor(&self) -> Cursor {
        Cursor([&self.seq.to_le_bytes(), &*self.behind].concat().into())
    }

    fn of(cursor: Option<&Cursor>) -> Result<Place> {
        let Some(cursor) = cursor else { return Ok(Place::default()) };
        let (seq, behind) = cursor.0.split_first_chunk::<8>().ok_or_else(refused)?;
        Ok(Place { seq: u64::from_le_bytes(*seq), behind: behind.into() })
    }
}

fn refused() -> Error {
    Error::new(Kind::CursorRefused, "the journal's place in the listing is not one of this source")
        .hint("list from the start and skip what is committed: --relist")
}

/// A partition of this payload; `seq` and `after` are the caller's to set.
pub(super) fn partition(payload: Vec<u8>) -> Partition {
    let payload: Arc<[u8]> = payload.into();
    // Names play no part in it, and the payload is our own.
    let (key, len) = Run::new(&payload, &Paths::default())
        .map_or((Key::default(), None), |run| (Key::of(run.locators()), Some(run.locators().count() as u32)));
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
    fn new(place: &Place) -> Pages {
        Pages { seq: place.seq, after: place.cursor(), filled: 0 }
    }

    /// The next partition; `behind`: where a listing would go on after it.
    fn number(&mut self, payload: Vec<u8>, behind: &[u8]) -> Partition {
        let mut numbered = Partition { seq: self.seq, after: self.after.clone(), ..partition(payload) };
        self.seq += 1;
        self.filled += 1;
        if self.filled == PAGE {
            self.filled = 0;
            self.after = Place { seq: self.seq, behind: behind.into() }.cursor();
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
    /// Whether anything has been listed, or something stands before this listing.
    any: bool,
}

impl OfTree {
    pub fn new(tree: Arc<Tree>, after: Option<Cursor>) -> Result<OfTree> {
        let place = Place::of(after.as_ref())?;
        tree.seen.reset();
        let behind = Some(&*place.behind).filter(|behind| !behind.is_empty());
        let walk = Walk::new(tree.clone(), behind, SLOW);
        Ok(OfTree { tree, walk, pages: Pages::new(&place), run: Builder::new(), any: behind.is_some() })
    }

    async fn advance(&mut self) -> Result<Option<Partition>> {
        let mut steps = 0;
        loop {
            match self.walk.step()? {
                Step::Entry(mark) => {
                    self.run.push(self.walk.directory(), self.walk.name(), mark);
                    self.any = true;
                    if self.run.len() == PARTITION_MAX {
                        return Ok(Some(self.pages.number(self.run.take(), self.walk.path())));
                    }
                }
                Step::Nothing => {}
                Step::End => {
                    if let (What::Walk(Some(pattern)), false) = (&self.tree.what, self.any) {
                        self.tree.seen.unmatched(pattern.text());
                    }
                    let rest = (self.run.len() > 0).then(|| self.run.take());
                    return Ok(rest.map(|payload| self.pages.number(payload, self.walk.path())));
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
    pub fn new(paths: Arc<Paths>, after: Option<Cursor>) -> Result<OfList> {
        let place = Place::of(after.as_ref())?;
        let at = match *place.behind {
            [] => 0,
            _ => u64::from_le_bytes((*place.behind).try_into().map_err(|_| refused())?) as usize,
        };
        if at > paths.len() {
            return Err(refused());
        }
        Ok(OfList { paths, at, pages: Pages::new(&place) })
    }
}

impl Listing for OfList {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        let run = self.at..self.paths.len().min(self.at + PARTITION_MAX as usize);
        self.at = run.end;
        let next = (!run.is_empty()).then(|| {
            let payload = of_locators(run.filter_map(|index| self.paths.get(index)));
            self.pages.number(payload, &(self.at as u64).to_le_bytes())
        });
        Box::pin(async move { Ok(next) })
    }
}
