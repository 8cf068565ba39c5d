//! `OfPart`: one of several parts of a source, chosen by the hash of each object's name. It is for processes that share
//! the work without communication.
//!
//! Each part lists everything and fetches only its own objects. A name is in exactly one part. The objects of other parts
//! are left out when a partition is opened, so they do not count as listed. Partitions keep the keys of the whole listing.
//! Not here: archives with their own subdirectories, which are divided by archive (`archive/`).

use std::borrow::Cow;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use super::{
    BoxFuture, Entries, Entry, Fetcher, Known, Lane, Listing, ListingEnd, LocalFuture, Source, SourceProperties,
    Unlisted,
};
use crate::error::{HostId, Result};
use crate::findings::Findings;
use crate::object::{ObjectMeta, Storage, Takes};
use crate::part::{Part, Seen};
use crate::partition::{Cursor, Partition};

/// One part of another source, without the objects of the other parts.
pub struct OfPart {
    inner: Arc<dyn Source>,
    part: Part,
}

impl OfPart {
    /// Returns this part of `inner`.
    pub fn new(inner: Arc<dyn Source>, part: Part) -> OfPart {
        OfPart { inner, part }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Source for OfPart {
    fn identity(&self) -> String {
        self.inner.identity() // the journal has the part beside it
    }
    fn properties(&self) -> SourceProperties {
        self.inner.properties()
    }
    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        Ok(Box::new(ListingOfPart(self.inner.list(after)?)))
    }
    fn list_again(&self, cursor: Cursor) -> Result<Box<dyn Listing>> {
        Ok(Box::new(ListingOfPart(self.inner.list_again(cursor)?)))
    }
    fn may_shift(&self, cursor: &Cursor) -> bool {
        self.inner.may_shift(cursor)
    }
    fn begin_retries(&self, lists: bool) {
        self.inner.begin_retries(lists);
    }

    fn end_retries(&self) {
        self.inner.end_retries();
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        self.inner.select(locators)
    }
    fn host_of(&self, partition: &Partition) -> Option<HostId> {
        self.inner.host_of(partition)
    }
    fn is_in_turn(&self, partition: &Partition) -> bool {
        self.inner.is_in_turn(partition)
    }
    fn passed_to(&self, _takes: Takes) -> Option<Arc<dyn Source>> {
        None // it is before it is divided
    }
    fn bound(&self) -> Vec<(String, String)> {
        self.inner.bound()
    }
    fn directories(&self, _each: &mut dyn FnMut(&[u8], &ObjectMeta) -> Result<()>) -> Result<()> {
        Ok(()) // another part may still write into them
    }
    fn host_at(&self, locator: &[u8]) -> Option<HostId> {
        self.inner.host_at(locator)
    }
    fn request_of(&self, locator: &[u8]) -> Result<Option<String>> {
        self.inner.request_of(locator)
    }
    fn fetcher(&self, lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(FetcherOfPart { inner: self.inner.fetcher(lane)?, part: self.part }))
    }
    fn notes(&self) -> Vec<String> {
        self.inner.notes()
    }
    fn remarks(&self) -> Vec<String> {
        self.inner.remarks()
    }
    fn secrets(&self) -> Vec<u8> {
        self.inner.secrets()
    }
    fn storage(&self) -> Storage {
        self.inner.storage()
    }
    fn lists_below(&self, directory: &Path) -> bool {
        self.inner.lists_below(directory)
    }
    fn root(&self) -> Option<[u8; 32]> {
        self.inner.root()
    }

    fn root_mode(&self) -> Option<u32> {
        self.inner.root_mode()
    }
    fn divided(&self, _part: Part) -> Option<Arc<dyn Source>> {
        None
    }
}

/// Part `part` of a source: as the source divides itself, or by the hash of each name.
pub fn divide(source: Arc<dyn Source>, part: Part) -> Arc<dyn Source> {
    match source.divided(part) {
        Some(divided) => divided,
        None => Arc::new(OfPart::new(source, part)),
    }
}

/// How many objects of a partition are in this part is not known before its names are.
struct ListingOfPart(Box<dyn Listing>);

#[deny(clippy::missing_trait_methods)]
impl Listing for ListingOfPart {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        let next = self.0.next();
        Box::pin(async move { Ok(next.await?.map(|partition| Partition { len: None, ..partition })) })
    }

    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.0.report_to(findings);
    }

    fn end(&mut self) -> ListingEnd {
        self.0.end()
    }
}

struct FetcherOfPart {
    inner: Box<dyn Fetcher>,
    part: Part,
}

#[deny(clippy::missing_trait_methods)]
impl Fetcher for FetcherOfPart {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.inner.report_to(findings);
    }

    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        Box::pin(async move {
            let inner = self.inner.open(partition).await?;
            Ok(Rc::new(EntriesOfPart::new(inner, self.part)) as Rc<dyn Entries>)
        })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        self.inner.run(lane)
    }
}

struct EntriesOfPart {
    inner: Rc<dyn Entries>,
    /// The indexes in `inner` of the entries of this part.
    own: Box<[u32]>,
    seen: Seen,
}

impl EntriesOfPart {
    fn new(inner: Rc<dyn Entries>, part: Part) -> EntriesOfPart {
        // Where names could not be listed, they are missing in every part.
        let is_gap = |entry: &Entry<'_>| matches!(entry.unlisted, Some(Unlisted::Below | Unlisted::Anywhere));
        let mut seen = Seen::default();
        let mut is_own = |entry: Entry<'_>| is_gap(&entry) || seen.add(entry.name, part);
        let own = (0..inner.len()).filter(|&index| is_own(inner.get(index))).collect();
        EntriesOfPart { inner, own, seen }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Entries for EntriesOfPart {
    fn len(&self) -> u32 {
        self.own.len() as u32
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    fn get(&self, index: u32) -> Entry<'_> {
        self.inner.get(self.own[index as usize])
    }

    fn request(&self, index: u32) -> &[u8] {
        self.inner.request(self.own[index as usize])
    }

    fn within(&self, index: u32) -> Option<Cow<'_, [u8]>> {
        self.inner.within(self.own[index as usize])
    }

    fn is_stream(&self) -> bool {
        self.inner.is_stream()
    }

    fn known(&self, index: u32) -> Known {
        self.inner.known(self.own[index as usize])
    }

    fn seen(&self) -> Seen {
        self.seen
    }

    fn directory_mode(&self, directory: &[u8]) -> Option<u32> {
        self.inner.directory_mode(directory)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use super::OfPart;
    use crate::part::Part;
    use crate::sink::memory::MemorySink;
    use crate::source::memory::MemorySource;
    use crate::transfer::Transfer;

    #[test]
    fn every_object_is_in_exactly_one_part() {
        let objects: Vec<_> = (0..1000).map(|n| (format!("o-{n}").into_bytes(), vec![n as u8; n % 7])).collect();
        let source = Arc::new(MemorySource::new(objects.chunks(90).map(<[_]>::to_vec).collect(), 20));
        let mut all = BTreeMap::new();
        for index in 0..7 {
            let sink = MemorySink::new();
            let part = Arc::new(OfPart::new(source.clone(), Part::new(index, 7).unwrap()));
            let outcome =
                Transfer::new(part, Arc::new(sink.clone()), Default::default()).run(&mut |_| ControlFlow::Continue(()));
            assert!(outcome.error.is_none());
            let counts = outcome.report.run;
            assert_eq!((counts.listed, counts.skipped), (counts.written, 0), "others' objects are not listed");
            assert!((100..200).contains(&counts.written), "about a seventh");
            for (name, data) in sink.objects() {
                assert!(all.insert(name, data).is_none(), "in two parts");
            }
        }
        assert_eq!(all, objects.into_iter().collect());
    }
}
