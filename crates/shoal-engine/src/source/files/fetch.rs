//! Fetches files, on the thread of the lane: small ones with a single read, large ones in pieces, links as their texts.
//!
//! Not here: opening and reading a file (`open.rs`), pieces (`large.rs`), links (`links.rs`).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::entries::{Mark, other_name, parts};
use super::links;
use super::modes::OpenPartition;
use super::open::{FirstRead, Opener, ReadTarget, changed};
use super::paths::Paths;
use super::tree::Tree;
use crate::error::Result;
use crate::fs::dir::FileId;
use crate::fs::read::{self, Facts, Space};
use crate::object::Payload;
use crate::partition::Partition;
use crate::source::turn::Turn;
use crate::source::{Entries, Fetcher, Job, Lane, LocalFuture, Take, WHOLE_MAX};

/// The fetcher of one lane.
pub(super) struct FileFetcher {
    tree: Arc<Tree>,
    paths: Arc<Paths>,
}

impl FileFetcher {
    pub fn new(tree: Arc<Tree>, paths: Arc<Paths>) -> FileFetcher {
        FileFetcher { tree, paths }
    }
}

impl Fetcher for FileFetcher {
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let opened = OpenPartition::new(&partition.payload, &self.tree, &self.paths);
        Box::pin(async move { Ok(Rc::new(opened?) as Rc<dyn Entries>) })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut reader = Reader::new(&self.tree);
            let mut turn = Turn::new();
            loop {
                match lane.take() {
                    Take::Stop => return Ok(()),
                    Take::Wait => {
                        lane.wake().await;
                        turn = Turn::new();
                    }
                    Take::Job(job) => {
                        let now = read::coarse_now();
                        reader.fetch(&*lane, job, now).await;
                        turn.after_object_at(now).await;
                    }
                }
            }
        })
    }
}

/// Names of one file, as they were listed.
#[derive(Default)]
struct Group {
    first: Vec<u8>,
    /// Those that became files of their own, the last one last, and which file each was when it was fetched: the first, and
    /// others if that has failed, or if a name is another file by now.
    made: Vec<(Option<FileId>, Vec<u8>)>,
    /// How many of them were not fetched here.
    seeded: usize,
}

/// How many names of a file are tried to make a further one a hard link of.
const NAMES_TRIED: usize = 4;

/// The state of one lane for reading.
pub(super) struct Reader<'t> {
    opener: Opener<'t>,
    /// One byte more than a whole object may have, so that a single read shows whether the file is larger.
    pub buffer: Space,
    /// The last file with several names: the first one, and those that were not made links of another.
    group: Group,
}

impl<'t> Reader<'t> {
    fn new(tree: &'t Tree) -> Reader<'t> {
        Reader { opener: Opener::new(tree), buffer: Space::new(WHOLE_MAX + 1), group: Group::default() }
    }

    /// Whether the destination takes links, and so holes.
    pub(super) fn takes_links(&self) -> bool {
        self.opener.tree.takes.links
    }

    /// Answers one job. `now` is the coarse time before anything is opened.
    async fn fetch(&mut self, lane: &dyn Lane, mut job: Job, mut now: i128) {
        if parts(job.entry().locator).1 == Mark::Link {
            return links::fetch(&mut self.opener, lane, job);
        }
        job = match self.linked(lane, job) {
            Some(job) => job,
            None => return,
        };
        if job.is_again() {
            job = match lane.is_there(job, &mut |job| self.opener.settled_meta(job, now)) {
                Some(wanted) => wanted,
                None => return,
            };
        }
        let mut waited: Option<Facts> = None;
        loop {
            let mut first = None;
            let answer = lane.whole_in_place(job, &mut |job, space| {
                let start = space.len();
                let found = first.insert(self.opener.first(job, now, ReadTarget::Place(space, start)));
                matches!(found, Ok(FirstRead::Whole(..)))
            });
            job = match answer {
                Some(job) => job,
                None => return,
            };
            match first.unwrap_or_else(|| self.opener.first(&job, now, ReadTarget::Buffer(&mut self.buffer))) {
                Ok(FirstRead::Whole(meta, length)) => {
                    lane.whole(job, &meta, Payload::Borrowed(&self.buffer[..length]));
                    return;
                }
                Ok(FirstRead::More(file, facts, meta, held)) => {
                    return self.large(lane, job, &file, &facts, &meta, held).await;
                }
                Ok(FirstRead::Fresh(facts, wait)) => match waited.replace(facts) {
                    None => tokio::time::sleep(wait).await,
                    Some(before) => return lane.failed(job, changed(&before, &facts, facts.size)),
                },
                Err(error) => return lane.failed(job, error),
            }
            now = read::coarse_now();
        }
    }

    /// Has a further name of a file made a hard link of one before it. Returns the job if that is not possible: then it becomes
    /// a file of its own, of which the names that follow may become links.
    fn linked(&mut self, lane: &dyn Lane, mut job: Job) -> Option<Job> {
        let Some((path, other)) = names(&job) else { return Some(job) };
        // Of the first name, the locator has the second. When it is tried again, that is there.
        let is_first = self.group.first != other && path < other && !job.is_tried();
        let first = if is_first { &path } else { &other };
        if self.group.first != *first {
            let made = if is_first { Vec::new() } else { vec![(self.opener.id_of(&other), other.clone())] };
            self.group = Group { first: first.clone(), seeded: made.len(), made };
        } else if let Some((id, _)) = self.group.made[self.group.seeded..].last_mut() {
            *id = self.opener.last().or(*id); // as it was fetched
        }
        let Some(meta) = self.opener.meta(&job) else { return Some(job) }; // fetching it tells why
        let (id, seeded) = (self.opener.last(), self.group.seeded);
        let mut same = self.group.made.iter().enumerate().rev().filter(|(_, (other, _))| *other == id).peekable();
        let is_lost = same.peek().is_some_and(|(at, _)| *at >= seeded);
        for (_, (_, name)) in same.take(NAMES_TRIED) {
            job = lane.linked(job, name, &meta)?;
        }
        self.opener.tree.unlinked.fetch_add(u64::from(is_lost), Relaxed);
        self.group.made.push((id, path));
        Some(job)
    }
}

/// The name of a file that has several, and another one.
fn names(job: &Job) -> Option<(Vec<u8>, Vec<u8>)> {
    let locator = job.entry().locator;
    other_name(locator).map(|other| (parts(locator).0.to_vec(), other.to_vec()))
}
