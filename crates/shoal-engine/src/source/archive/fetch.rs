//! Fetches entries, on the thread of the lane: finds the archive of a job and lets its format unpack the entry.

use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use super::cache::ArchiveCache;
use super::entries::{ArchiveEntries, Locator, changed};
use super::fault::failure;
use super::format::{Archive, Unpacker};
use super::member::EntryKind;
use crate::error::{Error, Kind, Result};
use crate::fs::read;
use crate::partition::Partition;
use crate::source::turn::Turn;
use crate::source::{Entries, Fetcher, Job, Lane, LocalFuture, Take};

/// Bytes after the end of a partition that the kernel is asked to read as well: the next partition begins there.
const AHEAD: u64 = 4 << 20;
/// Most bytes requested from the kernel at once. In a larger entry, its own read-ahead takes over.
const AHEAD_MAX: u64 = 16 << 20;

/// The fetcher of one lane.
pub(super) struct ArchiveFetcher {
    cache: Arc<ArchiveCache>,
    /// The archives of the partitions that this lane has opened.
    opened: RefCell<Vec<Weak<Archive>>>,
    /// The last archive, and up to where its bytes were requested.
    asked: RefCell<(Weak<Archive>, u64)>,
}

impl ArchiveFetcher {
    pub fn new(cache: Arc<ArchiveCache>) -> ArchiveFetcher {
        ArchiveFetcher { cache, opened: RefCell::default(), asked: RefCell::default() }
    }

    fn entries(&self, partition: &Partition) -> Result<Rc<dyn Entries>> {
        let entries = ArchiveEntries::new(&partition.payload, &self.cache)?;
        let mut opened = self.opened.borrow_mut();
        opened.retain(|archive| archive.strong_count() > 0);
        for archive in entries.archives() {
            if !opened.iter().any(|known| known.as_ptr() == Arc::as_ptr(archive)) {
                opened.push(Arc::downgrade(archive));
            }
        }
        if let (Some(archive), Some(extent)) = (entries.archives().first(), entries.extent()) {
            self.ask(archive, extent);
        }
        Ok(Rc::new(entries))
    }

    /// Asks the kernel to read the bytes that are needed next, once.
    fn ask(&self, archive: &Arc<Archive>, extent: Range<u64>) {
        let mut asked = self.asked.borrow_mut();
        let same = asked.0.as_ptr() == Arc::as_ptr(archive);
        let from = if same && asked.1 > extent.start { asked.1.min(extent.end) } else { extent.start };
        let end = extent.end.saturating_add(AHEAD).min(from.saturating_add(AHEAD_MAX)).min(archive.file.len());
        if end > from && !(same && asked.1 >= extent.end) {
            read::will_need(archive.file.fd.as_fd(), from, end - from);
            *asked = (Arc::downgrade(archive), end);
        }
    }

    fn archive(&self, path: &[u8]) -> Result<Arc<Archive>> {
        let known = self.opened.borrow().iter().filter_map(Weak::upgrade).find(|archive| *archive.file.path == *path);
        match known {
            Some(archive) => Ok(archive),
            None => self.cache.archive(path),
        }
    }
}

impl Fetcher for ArchiveFetcher {
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let entries = self.entries(partition);
        Box::pin(async move { entries })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut unpacker = LaneUnpacker { fetch: self, current: None, unpackers: Vec::new() };
            let mut turn = Turn::new();
            loop {
                match lane.take() {
                    Take::Stop => return Ok(()),
                    Take::Wait => {
                        unpacker.current = None; // its file is not held while there is nothing to do
                        lane.wake().await;
                        turn = Turn::new();
                    }
                    Take::Job(job) => {
                        unpacker.fetch(&*lane, job).await;
                        turn.after_object().await;
                    }
                }
            }
        })
    }
}

/// The state of one lane for unpacking.
struct LaneUnpacker<'f> {
    fetch: &'f ArchiveFetcher,
    /// The archive of the last entry.
    current: Option<Arc<Archive>>,
    /// One for each format, created when first needed.
    unpackers: Vec<Option<Box<dyn Unpacker>>>,
}

impl LaneUnpacker<'_> {
    /// Answers one job.
    async fn fetch(&mut self, lane: &dyn Lane, job: Job) {
        let (number, archive) = match self.find(&job) {
            Ok(found) => found,
            Err(error) => return lane.failed(job, error),
        };
        match archive.plan.members[number as usize].what {
            EntryKind::File => {}
            EntryKind::Fault(fault) => return lane.failed(job, failure(fault, &archive, number)),
            _ => return lane.failed(job, Error::new(Kind::Internal, "this entry of the archive must not be fetched")),
        }
        let formats = &self.fetch.cache.formats;
        if self.unpackers.is_empty() {
            self.unpackers.resize_with(formats.len(), || None);
        }
        let unpacker = self.unpackers[archive.format].get_or_insert_with(|| formats[archive.format].unpacker());
        unpacker.fetch(lane, job, &archive, number).await;
    }

    /// Returns the number of the entry of a job, and its archive.
    fn find(&mut self, job: &Job) -> Result<(u32, Arc<Archive>)> {
        let entry = job.entry();
        let located = Locator::parse(entry.locator);
        let archive = match &self.current {
            Some(archive) if *archive.file.path == *located.path => archive.clone(),
            _ => {
                let archive = self.fetch.archive(located.path)?;
                self.current.insert(archive).clone()
            }
        };
        match located.entry {
            Some((number, _)) if located.holds(&archive) => Ok((number, archive)),
            Some(_) => Err(changed()),
            // It failed as a whole. A failure counts as one object, so a retry cannot turn it into many.
            None => Err(Error::new(Kind::Archive, "it can be read now, but its entries have not been listed")
                .hint("list again with `resume=\"update\"`")),
        }
    }
}
