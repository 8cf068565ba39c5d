//! Splits archives into partitions: plans one after the other, and cuts each into partitions. Pages of partitions are
//! the points at which a listing can resume.
//!
//! A listing resumes only if all archives up to its cursor are those that were listed, by path, size and change time:
//! any other archive would be skipped without notice. How an archive is cut depends on that archive alone. Entries that
//! take long come first, each in its own partition, so that the rest is unpacked at the same time. The others follow in
//! the order of the archive, so that one read serves many.

use std::iter::once;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use xxhash_rust::xxh3::Xxh3;

use super::cache::ArchiveCache;
use super::entries::of_ranges;
use super::find::Found;
use super::format::Archive;
use super::member::EntryKind;
use super::plan::Plan;
use super::skip_stats::SkipStats;
use super::subdirectories;
use crate::display::escape;
use crate::error::{Class, Error, Kind, Result};
use crate::fs::read;
use crate::part::{Part, Seen};
use crate::partition::{Cursor, Key, Partition};
use crate::source::file_cursor::{PageStart, Position, refused};
use crate::source::pages::Pages;
use crate::source::{BoxFuture, Listing, ListingEnd};

/// Most entries of a partition, as in a page of a list/get service.
const ENTRIES_MAX: u32 = 100;
/// Most unpacked bytes of a partition with several entries: about 10 ms of work.
const OUTPUT_MAX: u64 = 8 << 20;
/// Entries of more bytes come first.
const LARGE: u64 = 64 << 20;
/// Archives of at most this many bytes are planned on the thread of the listing: it takes well under 0.1 s.
const AT_ONCE: u64 = 4 << 20;
/// Bytes at the start of a planned archive that the kernel is asked to read: a lane gets its first partition soon.
const FIRST: u64 = 8 << 20;

/// The hash of the archives, from the first one on.
#[derive(Default)]
struct Chain {
    hasher: Xxh3,
    /// How many archives are hashed.
    count: usize,
}

impl Chain {
    /// Returns the hash of all archives up to index `at`, including whether the subdirectory of each is its full name
    /// (`full`).
    fn up_to(&mut self, at: usize, found: &[Found], full: impl Fn(&[u8]) -> bool) -> u128 {
        for next in found.get(self.count..=at).unwrap_or_default() {
            self.hasher.update(&(next.path.len() as u64).to_le_bytes());
            self.hasher.update(&next.path);
            self.hasher.update(&next.size.to_le_bytes());
            self.hasher.update(&next.changed.to_le_bytes());
            self.hasher.update(&[u8::from(full(&next.path))]);
            self.count += 1;
        }
        self.hasher.digest128()
    }
}

/// An archive that is being cut into partitions.
struct Cut {
    /// `None` if it failed as a whole.
    archive: Option<Arc<Archive>>,
    /// Searched for large entries up to here.
    searched: u32,
    /// The other entries are cut up to here.
    at: u32,
    ended: bool,
    /// Partitions so far.
    done: u32,
}

impl Cut {
    fn new(archive: Option<Arc<Archive>>) -> Cut {
        Cut { archive, searched: 0, at: 0, ended: false, done: 0 }
    }

    /// Returns the entries of its next partition. An archive that failed has one partition without entries.
    fn next(&mut self) -> Option<Vec<Range<u32>>> {
        let ranges = self.ranges()?;
        self.done += 1;
        Some(ranges)
    }

    fn ranges(&mut self) -> Option<Vec<Range<u32>>> {
        let Some(archive) = &self.archive else {
            return (!std::mem::replace(&mut self.ended, true)).then(Vec::new);
        };
        let (plan, count) = (&archive.plan, archive.plan.members.len() as u32);
        if plan.sequential {
            return (count > 0 && !std::mem::replace(&mut self.ended, true)).then(|| forward(plan));
        }
        let is_large = |number: u32| {
            let member = &plan.members[number as usize];
            member.size > LARGE && member.what == EntryKind::File
        };
        while self.searched < count {
            self.searched += 1;
            if is_large(self.searched - 1) {
                return Some(once(self.searched - 1..self.searched).collect());
            }
        }
        let mut ranges: Vec<Range<u32>> = Vec::new();
        let (mut entries, mut output) = (0, 0);
        while self.at < count && entries < ENTRIES_MAX {
            let member = &plan.members[self.at as usize];
            if !is_large(self.at) {
                let size = if member.what == EntryKind::File { member.size } else { 0 };
                if entries > 0 && output + size > OUTPUT_MAX {
                    break;
                }
                (entries, output) = (entries + 1, output + size);
                match ranges.last_mut() {
                    Some(last) if last.end == self.at => last.end += 1,
                    _ => ranges.push(self.at..self.at + 1),
                }
            }
            self.at += 1;
        }
        (entries > 0).then_some(ranges)
    }
}

/// Returns all entries of an archive that is read from front to back. Copies of earlier files come last.
fn forward(plan: &Plan) -> Vec<Range<u32>> {
    let mut copies = plan.links.clone();
    copies.sort_unstable();
    let mut from = 0;
    let mut ranges = Vec::with_capacity(2 * copies.len() + 1);
    for copy in copies {
        ranges.push(from..copy);
        from = copy + 1;
    }
    ranges.push(from..plan.members.len() as u32);
    ranges.retain(|range| !range.is_empty());
    ranges.extend(plan.links.iter().map(|&link| link..link + 1));
    ranges
}

/// The listing of archives.
pub(super) struct ArchiveListing {
    cache: Arc<ArchiveCache>,
    part: Option<Part>,
    seen: Option<Seen>,
    stats: SkipStats,
    /// Where to begin, until the archives are found.
    begin: Option<PageStart>,
    found: Vec<Found>,
    chain: Chain,
    at: usize,
    cut: Option<Cut>,
    /// Partitions of the archive at `at` that come before the cursor.
    before: u32,
    pages: Pages,
}

impl ArchiveListing {
    pub fn new(cache: Arc<ArchiveCache>, part: Option<Part>, after: Option<Cursor>) -> Result<ArchiveListing> {
        let begin = PageStart::of(after.as_ref())?;
        let pages = Pages::new(begin.seq, begin.cursor());
        let begin = Some(begin);
        let (stats, found, chain) = Default::default();
        Ok(ArchiveListing { cache, part, seen: None, stats, begin, found, chain, at: 0, cut: None, before: 0, pages })
    }

    async fn advance(&mut self) -> Result<Option<Partition>> {
        if let Some(begin) = &self.begin {
            let (mut found, unmatched) = self.cache.find.all().await?;
            if let (true, Some(glob)) = (found.is_empty(), unmatched.first()) {
                return Err(Error::new(Kind::Config, "no file matches")
                    .on(&escape(glob.as_bytes()))
                    .errno(Some(rustix::io::Errno::NOENT.raw_os_error())));
            }
            self.stats.unmatched(unmatched);
            if self.cache.options.into_subdirectories
                && !self.cache.is_as_before(self.cache.find.subdirectories(&found))
            {
                return Err(refused("archives were added or removed that change the subdirectories of others"));
            }
            if let Some(part) = self.part {
                let names: Vec<_> = found.iter().map(|found| self.cache.find.name(&found.path)).collect();
                let (own, seen) = subdirectories::part_of(part, &names)?;
                self.seen = Some(seen);
                let mut own = own.into_iter();
                found.retain(|_| own.next().unwrap_or(false));
            }
            if let Some(within) = &begin.within {
                let at = usize::try_from(within.at).unwrap_or(usize::MAX);
                if at >= found.len() || self.chain.up_to(at, &found, |path| is_full(&self.cache, path)) != within.chain
                {
                    let why = "the archives before the point where the run stopped are not the ones that were listed";
                    return Err(refused(why));
                }
                (self.at, self.before) = (at, within.done);
            }
            (self.found, self.begin) = (found, None);
        }
        while let Some(found) = self.found.get(self.at) {
            if let Some(cut) = &mut self.cut {
                match cut.next() {
                    Some(_) if cut.done <= self.before => continue,
                    Some(ranges) => return Ok(Some(self.partition(&ranges))),
                    None => (self.cut, self.at, self.before) = (None, self.at + 1, 0),
                }
                continue;
            }
            let archive = match planned(&self.cache, found).await {
                Ok(archive) => Some(archive),
                Err(error) if error.class() == Class::Object => None,
                Err(error) => return Err(error),
            };
            let facts = archive.as_ref().map(|archive| (archive.file.facts.size, archive.file.facts.changed));
            if self.before > 0 && facts != Some((found.size, found.changed)) {
                return Err(refused("the archive at which the run stopped cannot be read as before"));
            }
            if let Some(archive) = &archive {
                self.stats.archive(archive);
                read::will_need(archive.file.fd.as_fd(), 0, FIRST.min(archive.file.len()));
            }
            self.cut = Some(Cut::new(archive));
            tokio::task::yield_now().await; // planning takes a while: let the engine check for a stop
        }
        Ok(None)
    }

    fn partition(&mut self, ranges: &[Range<u32>]) -> Partition {
        let found = &self.found[self.at];
        let cut = self.cut.as_ref();
        let archive = cut.and_then(|cut| cut.archive.as_deref());
        let payload = of_ranges(&found.path, archive.map(|archive| &archive.file.facts), ranges).into();
        let key = key(found, archive, ranges);
        let len = archive.map_or(1, |_| ranges.iter().map(|range| range.end - range.start).sum());
        let partition = Partition { seq: 0, key, after: Cursor::default(), next: None, payload, len: Some(len) };
        self.pages.number(partition, |seq| {
            let done = cut.map_or(0, |cut| cut.done);
            let chain = self.chain.up_to(self.at, &self.found, |path| is_full(&self.cache, path));
            PageStart { seq, within: Some(Position { at: self.at as u64, done, chain }) }.cursor()
        })
    }
}

impl Listing for ArchiveListing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(self.advance())
    }

    fn end(&mut self) -> ListingEnd {
        ListingEnd { remarks: self.stats.remarks(), seen: self.seen, ..ListingEnd::default() }
    }
}

/// Whether the subdirectory of an archive is its full name.
fn is_full(cache: &ArchiveCache, path: &[u8]) -> bool {
    cache.options.into_subdirectories && cache.subdirectories().is_ok_and(|all| all.is_shared(&cache.find.name(path)))
}

/// Plans an archive. A large one is planned on its own thread: a compressed tar is unpacked for its plan, and a run
/// that stops must not wait for that.
async fn planned(cache: &Arc<ArchiveCache>, found: &Found) -> Result<Arc<Archive>> {
    if found.size <= AT_ONCE {
        return cache.listed(&found.path, &Arc::default());
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let work = {
        let (cache, path, stop) = (cache.clone(), found.path.clone(), stop.clone());
        move || {
            let _ = sender.send(cache.listed(&path, &stop)); // fails if the listing has stopped
        }
    };
    let Ok(thread) = std::thread::Builder::new().name("shoal-plan".into()).spawn(work) else {
        return cache.listed(&found.path, &Arc::default());
    };
    let mut planning = Planning { stop, thread: Some(thread) };
    let archive = receiver.await;
    if let Some(thread) = planning.thread.take() {
        let _ = thread.join(); // if it panicked, it sent nothing
    }
    archive.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "listing an archive panicked")))
}

/// A thread that plans an archive. Dropping it stops the thread and waits for its end.
struct Planning {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Planning {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.store(true, Relaxed);
            let _ = thread.join(); // it returns nothing
        }
    }
}

/// Returns the key of a partition: a hash of the path, size and change time of the archive, and of each entry.
fn key(found: &Found, archive: Option<&Archive>, ranges: &[Range<u32>]) -> Key {
    let mut hasher = Xxh3::new();
    hasher.update(&(found.path.len() as u64).to_le_bytes());
    hasher.update(&found.path);
    let Some(archive) = archive else { return Key(hasher.digest128()) };
    hasher.update(&archive.file.facts.size.to_le_bytes());
    hasher.update(&archive.file.facts.changed.to_le_bytes());
    for member in ranges.iter().flat_map(|range| &archive.plan.members[range.start as usize..range.end as usize]) {
        let name = archive.plan.name(member);
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update(&member.at.to_le_bytes());
        hasher.update(&member.size.to_le_bytes());
        hasher.update(&member.crc.to_le_bytes());
    }
    Key(hasher.digest128())
}
