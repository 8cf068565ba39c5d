//! Reads files, on the thread of the lane: opened relative to their directory, small ones with a single read.
//!
//! A small file takes four system calls: open, read, fstat, close. Its change time, which programs cannot set, shows
//! whether the bytes are from a single state of the file: if it is older than the time before the open, the file has
//! not changed since. If the file changed just before, shoal waits at most 20 ms and reads it again between two calls
//! of fstat. A large file is read between two calls of fstat as well. On file systems with change times in steps of a
//! second or two (FAT, ext4 with 128-byte inodes, servers over such disks), which show in a time without nanoseconds,
//! shoal waits until the step has passed. If the clock of another machine sets the change time, a change that keeps the
//! length can go unnoticed: if that clock lags by more than the file's age, or if it is ahead and has such steps.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::entries::{Mark, parts};
use super::modes::OpenPartition;
use super::paths::Paths;
use super::tree::{Selection, Tree};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::Dir;
use crate::fs::read::{self, Facts, Space, TICK, unreadable};
use crate::object::{ObjectMeta, Payload};
use crate::partition::Partition;
use crate::source::in_pieces::in_pieces;
use crate::source::turn::Turn;
use crate::source::{Body, Entries, Fetcher, Job, Lane, LocalFuture, Take, WHOLE_MAX};

/// Directories that a lane keeps open, for entries that alternate between a few.
const KEPT: usize = 4;
/// Bytes of a large file read at once.
const PIECE: usize = 256 << 10;

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

/// The state of one lane for reading.
struct Reader<'t> {
    opener: Opener<'t>,
    /// One byte more than a whole object may have, so that a single read shows whether the file is larger.
    buffer: Space,
}

/// Opens files by one component relative to their directory.
struct Opener<'t> {
    tree: &'t Tree,
    /// Whether the paths of directories may contain links: in a list, or if links are followed.
    through_links: bool,
    /// The most recently used first.
    directories: Vec<(Vec<u8>, Dir)>,
}

/// The result of the first read.
enum FirstRead {
    /// The object, and its length.
    Whole(Facts, usize),
    /// A larger file, and how many bytes of it were read.
    More(OwnedFd, Facts, usize),
    /// Changed within the current step of a coarse change time. Read it again after this time.
    Fresh(Facts, Duration),
}

/// Where the first read puts the bytes.
enum ReadTarget<'a> {
    /// The lane's buffer.
    Buffer(&'a mut Space),
    /// The sink's memory, after this many bytes.
    Place(&'a mut Vec<u8>, usize),
}

impl ReadTarget<'_> {
    /// Reads once, to offset `at` of the object. Returns 0 at the end of the file, or if one byte more than a whole
    /// object has been read.
    fn read(&mut self, file: &OwnedFd, at: usize) -> Result<usize, Errno> {
        match self {
            ReadTarget::Buffer(buffer) => read::read(file.as_fd(), &mut buffer[at..=WHOLE_MAX]),
            ReadTarget::Place(space, start) => {
                space.truncate(*start + at);
                read::append(file.as_fd(), space, WHOLE_MAX + 1 - at)
            }
        }
    }

    /// Reads to the end of the file, or one byte more than a whole object may have.
    fn fill(&mut self, file: &OwnedFd) -> Result<usize> {
        let mut held = 0;
        loop {
            match self.read(file, held).map_err(|errno| refused(file, errno, held as u64))? {
                0 => return Ok(held),
                length => held += length,
            }
        }
    }
}

impl<'t> Reader<'t> {
    fn new(tree: &'t Tree) -> Reader<'t> {
        let through_links = tree.follow || matches!(tree.selection, Selection::List);
        let opener = Opener { tree, through_links, directories: Vec::new() };
        Reader { opener, buffer: Space::new(WHOLE_MAX + 1) }
    }

    /// Answers one job. `now` is the coarse time before anything is opened.
    async fn fetch(&mut self, lane: &dyn Lane, mut job: Job, mut now: i128) {
        if job.is_again() {
            job = match lane.is_there(job, &mut |job| self.opener.facts(job, now).as_ref().map(meta)) {
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
                Ok(FirstRead::Whole(facts, length)) => {
                    lane.whole(job, &meta(&facts), Payload::Borrowed(&self.buffer[..length]));
                    return;
                }
                Ok(FirstRead::More(file, facts, held)) => return self.large(lane, job, &file, &facts, held).await,
                Ok(FirstRead::Fresh(facts, wait)) => match waited.replace(facts) {
                    None => tokio::time::sleep(wait).await,
                    Some(before) => return lane.failed(job, changed(&before, &facts, facts.size)),
                },
                Err(error) => return lane.failed(job, error),
            }
            now = read::coarse_now();
        }
    }

    /// Passes on a large file in pieces; its first `held` bytes are in the buffer.
    async fn large(&mut self, lane: &dyn Lane, job: Job, file: &OwnedFd, facts: &Facts, held: usize) {
        in_pieces(lane, job, &meta(facts), async |body| self.pieces(file, facts, held, body).await).await;
    }

    async fn pieces(&mut self, file: &OwnedFd, facts: &Facts, held: usize, body: &mut Body) -> Result<()> {
        let (mut at, mut held) = (0, held);
        if body.has_space() {
            // Read directly into the sink's space, from the start: copying the buffer would cost as much and misalign
            // the rest.
            read::rewind(file.as_fd()).map_err(|errno| unreadable(errno, None))?;
            held = 0;
        }
        while at < facts.size
            && held == 0
            && let Some(read) =
                body.fill(|space| read::append(file.as_fd(), space, usize::MAX).map_err(|e| refused(file, e, at)))
        {
            match read? {
                0 => break,
                read => at += read as u64,
            }
            if at < facts.size {
                tokio::task::yield_now().await;
            }
        }
        let mut turn = Turn::new();
        while at < facts.size {
            if held == 0 {
                if self.buffer.len() < PIECE {
                    self.buffer = Space::new(PIECE);
                }
                held = read::read(file.as_fd(), &mut self.buffer).map_err(|e| refused(file, e, at))?;
                if held == 0 {
                    break;
                }
            }
            let wanted = held.min(usize::try_from(facts.size - at).unwrap_or(usize::MAX));
            body.write(&self.buffer[..wanted])?;
            at += wanted as u64;
            held = 0;
            turn.after_piece().await;
        }
        let after = read::facts(file.as_fd()).map_err(|errno| unreadable(errno, None))?;
        match same(facts, &after) && at == facts.size {
            true => Ok(()),
            false => Err(changed(facts, &after, at)),
        }
    }
}

impl Opener<'_> {
    /// Opens a file and reads it, if it is small.
    fn first(&mut self, job: &Job, now: i128, mut to: ReadTarget<'_>) -> Result<FirstRead> {
        let (path, mark) = parts(job.entry().locator);
        if let Mark::Unreadable(errno) = mark {
            let hint = "fix the cause, then list again with `resume=\"update\"`";
            let error = unreadable(errno, None);
            let why = format!("this directory or link could not be read when it was listed: {}", error.why());
            return Err(Error::new(error.kind(), why).errno(error.os_error()).hint(hint));
        }
        let file = self.open(path).map_err(|errno| unreadable(errno, None))?;
        let held = to.read(&file, 0).map_err(|errno| refused(&file, errno, 0))?;
        let facts = read::facts(file.as_fd()).map_err(|errno| unreadable(errno, None))?;
        if !facts.regular {
            return Err(no_file());
        }
        let calm = read::settled(facts.changed, now);
        if calm && facts.size == held as u64 && held <= WHOLE_MAX {
            return Ok(FirstRead::Whole(facts, held));
        }
        if calm && facts.size > WHOLE_MAX as u64 && matches!(to, ReadTarget::Buffer(_)) {
            return Ok(FirstRead::More(file, facts, held));
        }
        // A timestamp ahead of this clock is from another machine, or the clock was set back. Then the time to wait is
        // unknown.
        let step = read::step(facts.changed);
        if !calm && step > 0 && facts.changed <= now {
            let wait = facts.changed + step + TICK + TICK - read::coarse_now();
            return Ok(FirstRead::Fresh(facts, Duration::from_nanos(wait.max(0) as u64)));
        }
        // Read again from the start, now that there is metadata to compare with, and after the clock has passed the
        // change time of the file: from then on, any change is visible.
        if !calm {
            let wait = (facts.changed + TICK + TICK - read::coarse_now()).clamp(0, TICK + TICK);
            std::thread::sleep(Duration::from_nanos(wait as u64));
        }
        read::rewind(file.as_fd()).map_err(|errno| unreadable(errno, None))?;
        if facts.size > WHOLE_MAX as u64 {
            return Ok(FirstRead::More(file, facts, 0));
        }
        let held = to.fill(&file)?;
        match read::facts(file.as_fd()).map_err(|errno| unreadable(errno, None))? {
            after if same(&facts, &after) && after.size == held as u64 => Ok(FirstRead::Whole(after, held)),
            after => Err(changed(&facts, &after, held as u64)),
        }
    }

    /// Returns the metadata of a file without reading it, or `None` if it changed just now or cannot be opened. A link on
    /// the way to it counts as a part of it: set to another target, it is another file.
    fn facts(&mut self, job: &Job, now: i128) -> Option<Facts> {
        let (path, mark) = parts(job.entry().locator);
        let file = (mark == Mark::File).then(|| self.open(path).ok())??;
        let facts = read::facts(file.as_fd()).ok().filter(|facts| facts.regular)?;
        let links = match self.follows() {
            true => self.tree.root.links_changed(path).ok()?, // after the file was opened through them
            false => 0,
        };
        let changed = [facts.changed, links].into_iter().max_by_key(|&time| time + read::step(time))?;
        read::settled(changed, now).then_some(Facts { changed, ..facts })
    }

    fn follows(&self) -> bool {
        self.tree.follow || matches!(self.tree.selection, Selection::File)
    }

    fn open(&mut self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let (directory, name) = match memchr::memrchr(b'/', path) {
            None => (&b""[..], path),
            Some(0) => (&b"/"[..], &path[1..]),
            Some(at) => (&path[..at], &path[at + 1..]),
        };
        if name.is_empty() || name == b"." || name == b".." {
            return Err(Errno::ISDIR);
        }
        let follow = self.follows();
        read::open(self.directory(directory)?, name, follow)
    }

    fn directory(&mut self, path: &[u8]) -> Result<&Dir, Errno> {
        if path.is_empty() {
            return Ok(&self.tree.root);
        }
        match self.directories.iter().position(|(known, _)| known == path) {
            Some(0) => {}
            Some(at) => self.directories[..=at].rotate_right(1),
            None => {
                self.directories.truncate(KEPT - 1); // before opening another: there may be few descriptors
                let directory = self.tree.root.below(path, self.through_links)?;
                self.directories.insert(0, (path.to_vec(), directory));
            }
        }
        Ok(&self.directories[0].1)
    }
}

fn meta(facts: &Facts) -> ObjectMeta {
    ObjectMeta {
        size: Some(facts.size),
        last_modified: facts.last_modified(),
        changed: i64::try_from(facts.changed).ok(),
        mode: Some(facts.mode),
        ..ObjectMeta::default()
    }
}

fn same(before: &Facts, after: &Facts) -> bool {
    (before.size, before.written, before.changed) == (after.size, after.written, after.changed)
}

fn no_file() -> Error {
    Error::new(Kind::BadAnswer, "no longer a regular file")
}

/// The error of a read that failed at byte `at`: of an empty pipe, a directory, or a file that cannot be read.
fn refused(file: &OwnedFd, errno: Errno, at: u64) -> Error {
    match read::facts(file.as_fd()) {
        Ok(facts) if !facts.regular => no_file(),
        _ => unreadable(errno, Some(at)),
    }
}

fn changed(before: &Facts, after: &Facts, read: u64) -> Error {
    let what = match before.size == after.size {
        true if read == after.size => "it was written to".to_owned(),
        true => format!("{read} bytes could be read of the expected {}", after.size),
        false => format!("it had {} bytes, then {}", before.size, after.size),
    };
    Error::new(Kind::Changed, format!("the file changed while it was read: {what}"))
        .hint("run again with `resume=\"failed\"` when nothing writes to it")
}
