//! Handing entries over, on the lane's own thread: finds the archive of a job and has its format unpack the entry.

use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use super::keep::Keep;
use super::plan::{Fault, NoFile, What};
use super::run::{Located, Run, changed};
use super::{Archive, Unpacker};
use crate::error::{Error, Kind, Result};
use crate::fs::read;
use crate::partition::Partition;
use crate::source::{Entries, Fetcher, Job, Lane, LocalFuture, Take};

/// Objects and nanoseconds after which the lane's other work has its turn: it looks for a stop every 20 ms.
const TURN_OBJECTS: u32 = 64;
const TURN_TIME: i128 = 10_000_000;
/// Bytes of an archive that are asked for before a partition is read, behind what the partition itself holds: the next
/// one begins there.
const AHEAD: u64 = 4 << 20;
/// Most bytes asked for at once: of a larger entry the kernel reads on by itself.
const AHEAD_MAX: u64 = 16 << 20;

/// The fetcher of one lane.
pub(super) struct Fetch {
    keep: Arc<Keep>,
    /// The archives of partitions that were opened here.
    opened: RefCell<Vec<Weak<Archive>>>,
    /// Up to where of the last archive was asked for.
    asked: RefCell<(Weak<Archive>, u64)>,
}

impl Fetch {
    pub fn new(keep: Arc<Keep>) -> Fetch {
        Fetch { keep, opened: RefCell::default(), asked: RefCell::default() }
    }

    fn run(&self, partition: &Partition) -> Result<Rc<dyn Entries>> {
        let run = Run::new(&partition.payload, &self.keep)?;
        let mut opened = self.opened.borrow_mut();
        opened.retain(|archive| archive.strong_count() > 0);
        for archive in run.archives() {
            if !opened.iter().any(|known| known.as_ptr() == Arc::as_ptr(archive)) {
                opened.push(Arc::downgrade(archive));
            }
        }
        if let (Some(archive), Some(extent)) = (run.archives().first(), run.extent()) {
            self.ask(archive, extent);
        }
        Ok(Rc::new(run))
    }

    /// Has the kernel read what is wanted next, once.
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
            None => self.keep.archive(path),
        }
    }
}

impl Fetcher for Fetch {
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let run = self.run(partition);
        Box::pin(async move { run })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut hands = Hands { fetch: self, current: None, unpackers: Vec::new() };
            let (mut objects, mut turn) = (0, read::coarse_now());
            loop {
                match lane.take() {
                    Take::Stop => return Ok(()),
                    Take::Wait => {
                        hands.current = None; // its file is not held while there is nothing to do
                        lane.wake().await;
                        (objects, turn) = (0, read::coarse_now());
                    }
                    Take::Job(job) => {
                        hands.fetch(&*lane, job).await;
                        objects += 1;
                        let now = read::coarse_now();
                        if objects >= TURN_OBJECTS || (now - turn).abs() >= TURN_TIME {
                            tokio::task::yield_now().await;
                            (objects, turn) = (0, now);
                        }
                    }
                }
            }
        })
    }
}

/// What one lane unpacks with.
struct Hands<'f> {
    fetch: &'f Fetch,
    /// The archive of the last entry.
    current: Option<Arc<Archive>>,
    /// Of each format, once it was met.
    unpackers: Vec<Option<Box<dyn Unpacker>>>,
}

impl Hands<'_> {
    /// Answers one job.
    async fn fetch(&mut self, lane: &dyn Lane, job: Job) {
        let (number, archive) = match self.find(&job) {
            Ok(found) => found,
            Err(error) => return lane.failed(job, error),
        };
        match archive.plan.members[number as usize].what {
            What::File => {}
            What::Fault(fault) => return lane.failed(job, failure(fault, &archive, number)),
            _ => return lane.failed(job, Error::new(Kind::Internal, "this entry of the archive must not be fetched")),
        }
        let formats = &self.fetch.keep.formats;
        if self.unpackers.is_empty() {
            self.unpackers.resize_with(formats.len(), || None);
        }
        let unpacker = self.unpackers[archive.format].get_or_insert_with(|| formats[archive.format].unpacker());
        unpacker.fetch(lane, job, &archive, number).await;
    }

    /// The archive of a job, and the number of its entry.
    fn find(&mut self, job: &Job) -> Result<(u32, Arc<Archive>)> {
        let entry = job.entry();
        let located = Located::read(entry.locator);
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
            // It failed as a whole. A failure stands for one object, so that trying it again cannot give many.
            None => Err(Error::new(Kind::Archive, "it can be read now, but its entries have not been listed")
                .hint("list again: `resume=\"update\"`")),
        }
    }
}

/// What a failure that was known from the plan says.
pub(super) fn failure(fault: Fault, archive: &Archive, number: u32) -> Error {
    match fault {
        Fault::Duplicate => {
            Error::new(Kind::Repeated, "an earlier entry of the archive has this name; the first one stays")
        }
        Fault::Conflict => Error::new(
            Kind::NameConflict,
            "an earlier entry is a file where this one needs a directory, or the reverse",
        ),
        Fault::Encrypted => Error::new(Kind::Unsupported, "the entry is encrypted, which shoal does not support"),
        Fault::Method => {
            let method = archive.plan.members[number as usize].method;
            let name = method_name(method).map_or_else(String::new, |name| format!(" ({name})"));
            let why = format!("compressed with method {method}{name}, which shoal does not support");
            Error::new(Kind::Unsupported, why)
        }
        Fault::Sparse => Error::new(Kind::Unsupported, "a sparse file, which shoal does not support"),
        Fault::HardLink(to) => Error::new(
            Kind::Unsupported,
            match to {
                NoFile::Outside => "a hard link to a path outside the archive",
                NoFile::Missing => "a hard link to a name that is not an earlier entry",
                NoFile::Other => "a hard link to an entry that is not a file, or that has failed",
            },
        ),
        Fault::Backslash => {
            Error::new(Kind::UnsafeName, "its name has a backslash (`backslashes=\"separator\"` reads it as a slash)")
        }
        Fault::TooDeep => {
            let why = "its name has more directories than allowed (`max_depth` raises the limit)";
            Error::new(Kind::Archive, why)
        }
        Fault::Damaged(reason) => {
            let why = archive.plan.reasons.get(usize::from(reason)).map_or("the archive is damaged here", |why| why);
            Error::new(Kind::Archive, why)
        }
    }
}

/// Methods of zip archives that are not supported.
fn method_name(method: u16) -> Option<&'static str> {
    Some(match method {
        1 => "shrink",
        2..=5 => "reduce",
        6 => "implode",
        10 => "pkware implode",
        16 => "z/OS cmpsc",
        18 => "terse",
        19 => "lz77",
        20 => "zstd, by its old number",
        94 => "mp3",
        96 => "jpeg",
        97 => "wavpack",
        98 => "ppmd",
        99 => "aes",
        _ => return None,
    })
}
