//! `Shard`: one of several parts of a source, chosen by the hash of each object's name. It is for processes that share
//! the work without communication, such as the workers of a data loader.
//!
//! Each process lists everything and fetches only its own part. An object is in exactly one part. Not here: which
//! process has which part.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::{Entries, Entry, Fetcher, Lane, Listing, LocalFuture, Skip, Source, SourceProperties};
use crate::error::{Error, HostId, Kind, Result};
use crate::findings::Findings;
use crate::object::Storage;
use crate::partition::{Cursor, Partition};

/// Part `index` of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    fn has(self, name: &[u8]) -> bool {
        xxh3_64(name) % u64::from(self.count) == u64::from(self.index)
    }
}

/// One part of another source. It skips the objects of the other parts.
pub struct Shard {
    inner: Arc<dyn Source>,
    part: Part,
}

impl Shard {
    /// Returns this part of `inner`.
    pub fn new(inner: Arc<dyn Source>, part: Part) -> Shard {
        Shard { inner, part }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Source for Shard {
    fn identity(&self) -> String {
        format!("{} part {} of {}", self.inner.identity(), self.part.index, self.part.count)
    }
    fn properties(&self) -> SourceProperties {
        self.inner.properties()
    }
    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        self.inner.list(after)
    }
    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        self.inner.select(locators)
    }
    fn host_of(&self, partition: &Partition) -> Option<HostId> {
        self.inner.host_of(partition)
    }
    fn host_at(&self, locator: &[u8]) -> Option<HostId> {
        self.inner.host_at(locator)
    }
    fn fetcher(&self, lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(OfPart { inner: self.inner.fetcher(lane)?, part: self.part }))
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
    fn root_mode(&self) -> Option<u32> {
        self.inner.root_mode()
    }
}

struct OfPart {
    inner: Box<dyn Fetcher>,
    part: Part,
}

#[deny(clippy::missing_trait_methods)]
impl Fetcher for OfPart {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.inner.report_to(findings);
    }

    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        Box::pin(async move {
            let inner = self.inner.open(partition).await?;
            Ok(Rc::new(EntriesOfPart { inner, part: self.part }) as Rc<dyn Entries>)
        })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        self.inner.run(lane)
    }
}

struct EntriesOfPart {
    inner: Rc<dyn Entries>,
    part: Part,
}

impl Entries for EntriesOfPart {
    fn len(&self) -> u32 {
        self.inner.len()
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let entry = self.inner.get(index);
        // What could not be listed is missing in every part.
        let elsewhere = (entry.unlisted.is_none() && !self.part.has(entry.name)).then_some(Skip::Elsewhere);
        Entry { skip: entry.skip.or(elsewhere), ..entry }
    }

    fn is_stream(&self) -> bool {
        self.inner.is_stream()
    }

    fn request(&self, index: u32) -> &[u8] {
        self.inner.request(index)
    }

    fn within(&self, index: u32) -> Option<&[u8]> {
        self.inner.within(index)
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

    use super::{Part, Shard};
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
            let part = Arc::new(Shard::new(source.clone(), Part::new(index, 7).unwrap()));
            let outcome =
                Transfer::new(part, Arc::new(sink.clone()), Default::default()).run(&mut |_| ControlFlow::Continue(()));
            assert!(outcome.error.is_none());
            assert_eq!(outcome.report.run.written + outcome.report.run.skipped, 1000);
            assert!((100..200).contains(&outcome.report.run.written), "about a seventh");
            for (name, data) in sink.objects() {
                assert!(all.insert(name, data).is_none(), "in two parts");
            }
        }
        assert_eq!(all, objects.into_iter().collect());
        assert!(Part::new(7, 7).is_err());
    }
}
