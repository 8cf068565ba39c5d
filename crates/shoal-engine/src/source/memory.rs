//! Source: objects in memory, in pages. For tests of engine and sinks, and the shortest example of a source.
//!
//! The answer of each fetch can be scripted, so that tests can make objects fail, stall or arrive in pieces.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::in_pieces::in_pieces;
use super::{
    Behind, Body, BoxFuture, Entries, Entry, Fetcher, Job, Lane, Listing, LocalFuture, Skip, Source, SourceProperties,
    Take, Written, locators,
};
use crate::error::{Error, HostId, Kind, Result};
use crate::object::{Fingerprint, ObjectMeta, Payload};
use crate::partition::{Cursor, Partition};
use crate::poison::ignore_poison;
use crate::session::Twice;

/// How one fetch is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The whole object at once.
    Whole,
    /// These bytes instead.
    Other(Vec<u8>),
    /// The object in pieces of this many bytes.
    Pieces(usize),
    /// Some pieces, then this error.
    Broken(Kind),
    /// This error.
    Fail(Kind),
    /// That the connection broke, and a wish to be asked again only after this time.
    Later(Duration),
    /// The whole object, which is then withdrawn: at once, or only when the lane ends.
    Withdrawn {
        /// The failure.
        kind: Kind,
        /// When the lane ends.
        at_end: bool,
    },
    /// Returned without a fetch.
    GivenBack,
    /// A panic.
    Panic,
}

/// Names and bytes.
type Page = Vec<(Vec<u8>, Vec<u8>)>;
type Script = dyn Fn(&[u8], u32) -> Answer + Send + Sync;
type Times = dyn Fn(&[u8]) -> SystemTime + Send + Sync;

/// Pages of named objects.
#[derive(Clone)]
pub struct MemorySource {
    identity: String,
    pages: Arc<Vec<Page>>,
    per_partition: usize,
    directories: bool,
    twice: Twice,
    behind: Behind,
    numbered: bool,
    times: Option<Arc<Times>>,
    script: Arc<Script>,
    fetches: Arc<Mutex<HashMap<Vec<u8>, u32>>>,
}

impl MemorySource {
    /// Returns a source of these pages, cut into partitions of at most `per_partition` objects.
    pub fn new(pages: Vec<Page>, per_partition: usize) -> MemorySource {
        MemorySource {
            identity: "memory:".to_owned(),
            pages: Arc::new(pages),
            per_partition: per_partition.max(1),
            directories: false,
            twice: Twice::SameObject,
            behind: Behind::Trusted,
            numbered: false,
            times: None,
            script: Arc::new(|_, _| Answer::Whole),
            fetches: Arc::default(),
        }
    }

    /// Answers the n-th fetch (from 1) of a name with the result of `script`.
    #[must_use]
    pub fn answering(mut self, script: impl Fn(&[u8], u32) -> Answer + Send + Sync + 'static) -> MemorySource {
        self.script = Arc::new(script);
        self
    }

    /// Treats a name that ends in a slash as an empty directory, which the sink creates.
    #[must_use]
    pub fn with_directories(mut self) -> MemorySource {
        self.directories = true;
        self
    }

    /// Sets how to treat an object whose name is that of a file of this run.
    #[must_use]
    pub fn twice(mut self, twice: Twice) -> MemorySource {
        self.twice = twice;
        self
    }

    /// Sets how a resumed run can trust the part of the listing before its cursor.
    #[must_use]
    pub fn behind(mut self, behind: Behind) -> MemorySource {
        self.behind = behind;
        self
    }

    /// Sets its identity; without this, all have the same.
    #[must_use]
    pub fn named(mut self, identity: &str) -> MemorySource {
        self.identity = identity.to_owned();
        self
    }

    /// Cuts names before their NUL byte; the rest distinguishes objects of the same name.
    #[must_use]
    pub fn numbered(mut self) -> MemorySource {
        self.numbered = true;
        self
    }

    /// Sets the times of objects. The argument is the name with its number.
    #[must_use]
    pub fn with_times(mut self, times: impl Fn(&[u8]) -> SystemTime + Send + Sync + 'static) -> MemorySource {
        self.times = Some(Arc::new(times));
        self
    }

    /// Returns how often each name was fetched.
    pub fn fetches(&self) -> HashMap<Vec<u8>, u32> {
        ignore_poison(self.fetches.lock()).clone()
    }

    fn find(&self, name: &[u8]) -> Option<&[u8]> {
        self.pages.iter().flatten().find(|(known, _)| known == name).map(|(_, data)| &**data)
    }

    fn partitions(&self) -> Vec<Partition> {
        let mut seq = 0;
        let mut all = Vec::new();
        for (number, page) in self.pages.iter().enumerate() {
            let after = Cursor([(number as u64).to_le_bytes(), u64::to_le_bytes(seq)].concat().into());
            for run in page.chunks(self.per_partition) {
                let names: Vec<&[u8]> = run.iter().map(|(name, _)| &**name).collect();
                all.push(Partition { seq, after: after.clone(), ..locators::partition(b"", &names) });
                seq += 1;
            }
        }
        all
    }
}

impl Source for MemorySource {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn properties(&self) -> SourceProperties {
        let has_times = self.times.is_some();
        SourceProperties { twice: self.twice, has_times, behind: self.behind, ..SourceProperties::default() }
    }

    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        let first = self.partitions().iter().position(|p| after.as_ref().is_none_or(|after| p.after == *after));
        if after.is_some() && first.is_none() && !self.pages.is_empty() {
            return Err(Error::new(Kind::CursorRefused, "no page has this cursor")
                .hint("`resume=\"relist\"` lists from the start"));
        }
        let rest: Vec<Partition> = self.partitions().split_off(first.unwrap_or(0));
        Ok(Box::new(MemoryListing(rest.into_iter())))
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(locators::partition(b"", locators))
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(self.clone()))
    }
}

struct MemoryListing(std::vec::IntoIter<Partition>);

impl Listing for MemoryListing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        let next = self.0.next();
        Box::pin(async move { Ok(next) })
    }
}

struct Names {
    names: Vec<Box<[u8]>>,
    directories: bool,
    numbered: bool,
}

impl Entries for Names {
    fn len(&self) -> u32 {
        self.names.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let locator = &*self.names[index as usize];
        let end = locator.iter().position(|&byte| byte == 0).filter(|_| self.numbered);
        let full = &locator[..end.unwrap_or(locator.len())];
        match full.strip_suffix(b"/").filter(|_| self.directories) {
            None => Entry { name: full, locator, host: HostId(0), skip: None, unlisted: None },
            Some(name) => {
                Entry { name, locator, host: HostId(0), skip: Some(Skip::Directory { make: true }), unlisted: None }
            }
        }
    }
}

impl Fetcher for MemorySource {
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let names = locators::parse(&partition.payload);
        let entries = Rc::new(Names { names, directories: self.directories, numbered: self.numbered });
        Box::pin(async move { Ok(entries as Rc<dyn Entries>) })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut late: Vec<Late> = Vec::new();
            loop {
                match lane.take() {
                    Take::Stop => break,
                    Take::Wait => lane.wake().await,
                    Take::Job(job) => {
                        self.answer(&*lane, job, &mut late).await;
                        tokio::task::yield_now().await;
                    }
                }
            }
            late.into_iter().for_each(|late| withdraw(&*lane, late));
            Ok(())
        })
    }
}

impl MemorySource {
    async fn answer(&self, lane: &dyn Lane, job: Job, late: &mut Vec<Late>) {
        let name = job.entry().locator.to_vec();
        let count = {
            let mut fetches = ignore_poison(self.fetches.lock());
            let count = fetches.entry(name.clone()).or_default();
            *count += 1;
            *count
        };
        let Some(data) = self.find(&name) else {
            return lane.failed(job, Error::new(Kind::Vanished, "not there any more"));
        };
        let last_modified = self.times.as_ref().map(|times| times(&name));
        let meta = ObjectMeta { size: Some(data.len() as u64), last_modified, ..ObjectMeta::default() };
        let job = match job.is_again() {
            false => job,
            true => match lane.is_there(job, &mut |_| Some(meta.clone())) {
                Some(wanted) => wanted,
                None => return,
            },
        };
        match (self.script)(&name, count) {
            Answer::Whole => _ = lane.whole(job, &meta, Payload::Borrowed(data)),
            Answer::Other(data) => _ = lane.whole(job, &ObjectMeta::default(), Payload::Owned(data)),
            Answer::Withdrawn { kind, at_end } => match (lane.whole(job, &meta, Payload::Borrowed(data)), at_end) {
                (Some(written), true) => late.push((written, Fingerprint::of(data), kind)),
                (Some(written), false) => withdraw(lane, (written, Fingerprint::of(data), kind)),
                (None, _) => {}
            },
            Answer::Fail(kind) => lane.failed(job, Error::new(kind, "as scripted")),
            Answer::Later(wait) => {
                lane.failed(job, Error::new(Kind::Disconnected, "as scripted").retry_after(Some(wait)));
            }
            Answer::GivenBack => lane.requeued(job),
            Answer::Pieces(size) => pieces(lane, job, &meta, data, size.max(1), None).await,
            Answer::Broken(kind) => pieces(lane, job, &meta, data, 1, Some(kind)).await,
            Answer::Panic => panic!("as scripted"),
        }
    }
}

/// What is withdrawn when the lane ends.
type Late = (Written, Fingerprint, Kind);

fn withdraw(lane: &dyn Lane, (written, wrote, kind): Late) {
    lane.withdraw(written, wrote, Error::new(kind, "as scripted"));
}

/// Passes on pieces of this size; with an error, only some of them.
async fn pieces(lane: &dyn Lane, job: Job, meta: &ObjectMeta, data: &[u8], size: usize, broken: Option<Kind>) {
    let until = if broken.is_some() { data.len() / 2 } else { data.len() };
    let write = async |body: &mut Body| {
        data[..until].chunks(size).try_for_each(|piece| body.write(piece))?;
        broken.map_or(Ok(()), |kind| Err(Error::new(kind, "as scripted")))
    };
    in_pieces(lane, job, meta, write).await;
}
