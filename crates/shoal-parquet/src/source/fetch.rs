//! Passes rows on, on the thread of the lane.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use shoal_engine::source::{Body, Entries, Fetcher, Job, Lane, LocalFuture, Take, Turn, WHOLE_MAX, in_pieces};
use shoal_engine::{ObjectMeta, Partition, Payload, Result};

use super::entries::{RowEntries, Wanted};
use super::files::{Files, changed};
use super::locator::{Locator, checksum, dataset_of};
use super::unknown::why_unknown;
use crate::read::fault::Result as Faulty;
use crate::read::open_file::OpenFile;
use crate::read::row::AtRow;

/// Bytes of a large object that are passed on at once.
const PIECE: usize = 256 << 10;
/// How often a lane is told to wait, every 20 ms if nothing happens, before it gives its pages back. It is told once
/// between two partitions too: decoding the same pages again for each made one worker ten times slower.
const WAITS: u32 = 3;

/// The fetcher of one lane.
pub struct RowFetcher {
    files: Arc<Files>,
    /// The files of the partitions that this lane has opened.
    opened: RefCell<Vec<Weak<OpenFile>>>,
}

impl RowFetcher {
    pub fn new(files: Arc<Files>) -> RowFetcher {
        RowFetcher { files, opened: RefCell::default() }
    }

    async fn entries(&self, partition: &Partition) -> Result<Rc<dyn Entries>> {
        let wanted = Wanted::parse(&partition.payload)?;
        let mut entries = RowEntries::new(&wanted, &self.files)?;
        let mut turn = Turn::new();
        for (file, group) in entries.groups() {
            let verdict = loop {
                if let Some(verdict) = file.check(group) {
                    break verdict;
                }
                turn.after_piece().await; // the objects of the partition before this one are passed on meanwhile
            };
            match verdict {
                Err(fault) if fault.is_general() => return Err(fault.to_error()),
                Err(_) => entries.doubt(&file, group),
                Ok(()) => {}
            }
        }
        let mut opened = self.opened.borrow_mut();
        opened.retain(|file| file.strong_count() > 0);
        for file in entries.files() {
            if !opened.iter().any(|known| known.as_ptr() == Arc::as_ptr(file)) {
                opened.push(Arc::downgrade(file));
            }
        }
        Ok(Rc::new(entries))
    }

    /// The file of a job.
    fn file(&self, path: &[u8]) -> Faulty<Arc<OpenFile>> {
        let opened = self.opened.borrow();
        let mut opened = opened.iter().filter_map(Weak::upgrade);
        match opened.find(|file| *file.parquet.file.path == *path) {
            Some(file) => Ok(file),
            None => self.files.get(path, None),
        }
    }
}

impl Fetcher for RowFetcher {
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        Box::pin(self.entries(partition))
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let (mut current, mut waits) = (None, 0);
            let mut turn = Turn::new();
            loop {
                match lane.take() {
                    Take::Stop => return Ok(()),
                    Take::Wait => {
                        waits += 1;
                        if waits > WAITS {
                            current = None; // its pages are not held while there is nothing to do
                        }
                        lane.wake().await;
                        turn = Turn::new();
                    }
                    Take::Job(job) => {
                        waits = 0;
                        self.fetch(&*lane, job, &mut current, &mut turn).await;
                        turn.after_object().await;
                    }
                }
            }
        })
    }
}

impl RowFetcher {
    /// Answers one job.
    async fn fetch(&self, lane: &dyn Lane, job: Job, current: &mut Option<AtRow>, turn: &mut Turn) {
        let (meta, bytes) = match self.find(&job, current) {
            Ok(found) => found,
            Err(fault) => return lane.failed(job, fault.to_error()),
        };
        if bytes.len() <= WHOLE_MAX {
            lane.whole(job, &meta, Payload::Borrowed(bytes));
            return;
        }
        let write = async |body: &mut Body| {
            for piece in bytes.chunks(PIECE) {
                body.write(piece)?;
                turn.after_piece().await;
            }
            Ok(())
        };
        in_pieces(lane, job, &meta, write).await;
    }

    /// Finds the row of a job: what its columns say, and its contents.
    fn find<'c>(&self, job: &Job, current: &'c mut Option<AtRow>) -> Faulty<(ObjectMeta, &'c [u8])> {
        let entry = job.entry();
        let located = Locator::parse(entry.locator);
        if dataset_of(located.path).is_some() {
            return Err(why_unknown(located, None));
        }
        let before = current.take();
        let file = match &before {
            Some(before) if *before.file.parquet.file.path == *located.path => before.file.clone(),
            _ => self.file(located.path)?,
        };
        let (Some(group), Some(row), Some(sum)) = (located.group, located.row, located.sum) else {
            return Err(why_unknown(located, Some(&file)));
        };
        let group = group as usize;
        if !file.has(group, row) {
            return Err(changed());
        }
        if !before.as_ref().is_some_and(|before| before.is_in(&file, group))
            && let Some(Err(fault)) = file.check(group)
        {
            return Err(fault);
        }
        let at = current.insert(AtRow::new(before, &file, group, row));
        match checksum(at.name()?) == sum {
            true => at.object(),
            false => Err(changed()),
        }
    }
}
