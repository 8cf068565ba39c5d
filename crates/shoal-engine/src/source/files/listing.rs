//! Splits a walk or a list into partitions, and these into pages that the journal folds.
//!
//! Not here: the walk (`walk.rs`), the payload of a partition (`entries.rs`).

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::entries::{FileEntries, Mark, PayloadBuilder, of_locators, same_as};
use super::paths::Paths;
use super::prefetch::SLOW;
use super::spool::Spool;
use super::tree::{Selection, Tree};
use super::walk::{Step, Walk};
use crate::display::escape;
use crate::error::Result;
use crate::partition::{Cursor, Key, Partition};
use crate::source::pages::Pages;
use crate::source::{BoxFuture, Entries, Listing, ListingEnd, Unmatched};

/// Most entries of a partition: as in a page of a list/get service, few enough that a kill costs little and that two
/// lanes share a small tree.
const PARTITION_MAX: u32 = 100;
/// Steps of the walk after which it yields, so that a stop is noticed: well below a millisecond.
const PAUSE: u32 = 1024;

/// The cursor of a page: the `seq` of its first partition. A resumed listing starts at the beginning and compares,
/// since the order of a directory may have changed. So nothing is looked up by the cursor.
fn cursor(seq: u64) -> Cursor {
    Cursor(seq.to_le_bytes()[..].into())
}

/// A partition with this payload. The caller sets `seq` and `after`.
pub(super) fn partition(payload: Vec<u8>) -> Partition {
    let payload: Arc<[u8]> = payload.into();
    // The key does not depend on names, and the payload is valid because we made it.
    let (key, len) = FileEntries::new(&payload, &Paths::default())
        .map_or((Key::default(), None), |entries| (entries.key(), Some(entries.len())));
    Partition { seq: 0, key, after: Cursor::default(), next: None, payload, len }
}

/// The listing of a tree.
pub(super) struct TreeListing {
    tree: Arc<Tree>,
    walk: Walk,
    pages: Pages,
    builder: PayloadBuilder,
    /// Whether anything has been listed.
    any: bool,
    /// Names of files that have several, if they stay names of one file.
    spool: Option<Spool>,
}

impl TreeListing {
    pub fn new(tree: Arc<Tree>) -> TreeListing {
        let walk = Walk::new(tree.clone(), SLOW);
        let (pages, builder) = (Pages::new(0, cursor(0)), PayloadBuilder::new());
        TreeListing { tree, walk, pages, builder, any: false, spool: None }
    }

    /// Sets the last entry aside if it is a file with several names.
    fn sets_aside(&mut self) -> Result<bool> {
        let Some(file) = self.walk.several_names() else { return Ok(false) };
        let spool = match &mut self.spool {
            Some(spool) => spool,
            spool => spool.insert(Spool::new()?),
        };
        spool.add(file, self.walk.path())?;
        Ok(true)
    }

    /// The next files with several names, each with all of them.
    fn groups(&mut self) -> Result<Option<Partition>> {
        let Some(spool) = &mut self.spool else { return Ok(None) };
        let groups = spool.groups(PARTITION_MAX as usize)?;
        let locators = groups.iter().flat_map(|group| {
            // Other names of the file may be outside of the tree.
            let other = |at: usize| group.get(usize::from(at == 0));
            let locator = move |(at, path): (usize, &Vec<u8>)| match other(at) {
                Some(other) => same_as(path, other),
                None => path.clone(),
            };
            group.iter().enumerate().map(locator)
        });
        let payload = (!groups.is_empty()).then(|| of_locators(locators));
        Ok(payload.map(|payload| self.pages.number(partition(payload), cursor)))
    }

    async fn advance(&mut self) -> Result<Option<Partition>> {
        let mut steps = 0;
        loop {
            match self.walk.step()? {
                Step::Entry(Mark::File) if self.sets_aside()? => self.any = true,
                Step::Entry(mark) => {
                    self.builder.push(self.walk.directory(), self.walk.name(), mark);
                    self.any = true;
                    if self.builder.len() == PARTITION_MAX {
                        return Ok(Some(self.pages.number(partition(self.builder.take()), cursor)));
                    }
                }
                Step::Left | Step::Nothing => {}
                Step::End => {
                    let rest = (self.builder.len() > 0).then(|| self.builder.take());
                    return match rest {
                        Some(payload) => Ok(Some(self.pages.number(partition(payload), cursor))),
                        None => self.groups(),
                    };
                }
            }
            steps += 1;
            if steps % PAUSE == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl Listing for TreeListing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(self.advance())
    }

    fn end(&mut self) -> ListingEnd {
        let unmatched = match &*self.tree.selection {
            Selection::Walk(Some(pattern)) if !self.any => {
                let (mut is_bare, path) = (true, self.tree.path.join(pattern.text()));
                // What cannot be listed has failed already.
                let _ = self.tree.root.names(|_| {
                    is_bare = false;
                    Ok(())
                });
                Some(Unmatched { pattern: escape(path.as_os_str().as_bytes()), is_bare })
            }
            _ => None,
        };
        let remarks = self.walk.skip_stats.remarks(self.tree.follows());
        ListingEnd { remarks, unmatched, ..ListingEnd::default() }
    }
}

/// The listing of a list.
pub(super) struct PathsListing {
    paths: Arc<Paths>,
    at: usize,
    pages: Pages,
}

impl PathsListing {
    pub fn new(paths: Arc<Paths>) -> PathsListing {
        PathsListing { paths, at: 0, pages: Pages::new(0, cursor(0)) }
    }
}

impl Listing for PathsListing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        let run = self.at..self.paths.len().min(self.at + PARTITION_MAX as usize);
        self.at = run.end;
        let next = (!run.is_empty()).then(|| {
            let payload = of_locators(run.filter_map(|index| self.paths.get(index)));
            self.pages.number(partition(payload), cursor)
        });
        Box::pin(async move { Ok(next) })
    }
}
