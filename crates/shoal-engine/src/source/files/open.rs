//! Opens and reads files: relative to their directory, small ones with a single read.
//!
//! A small file takes four system calls: open, read, fstat, close. Its change time, which programs cannot set, shows
//! whether the bytes are from a single state of the file: if it is older than the time before the open, the file has
//! not changed since. If the file changed just before, shoal waits at most 20 ms and reads it again between two calls
//! of fstat. A large file is read between two calls of fstat as well. On file systems with change times in steps of a
//! second or two (FAT, ext4 with 128-byte inodes, servers over such disks), which show in a time without nanoseconds,
//! shoal waits until the step has passed. If the clock of another machine sets the change time, a change that keeps the
//! length can go unnoticed: if that clock lags by more than the file's age, or if it is ahead and has such steps. The
//! change time stands for extended attributes, too, which are read before it.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::entries::{Mark, parts};
use super::options::Links;
use super::tree::{Selection, Tree};
use crate::error::{Error, Kind, Result};
use crate::fs::attributes;
use crate::fs::dir::{Dir, FileId};
use crate::fs::extents::has_hole;
use crate::fs::read::{self, Facts, Space, TICK, unreadable};
use crate::object::{AttributeScope, Extended, FileAttributes, ObjectMeta, Owner};
use crate::source::{Job, WHOLE_MAX};

/// Directories that a lane keeps open, for entries that alternate between a few.
const KEPT: usize = 4;
/// The block of most file systems: a file that takes less than its size has holes, or is compressed.
const BLOCK: u64 = 4 << 10;

/// Opens files by one component relative to their directory.
pub(super) struct Opener<'t> {
    pub tree: &'t Tree,
    /// Whether the paths of directories may contain links: in a list, or if links are followed.
    through_links: bool,
    /// The most recently used first.
    directories: Vec<(Vec<u8>, Dir)>,
    /// Which file was opened last.
    last: Cell<Option<FileId>>,
}

/// The result of the first read.
pub(super) enum FirstRead {
    /// The object, and its length.
    Whole(ObjectMeta, usize),
    /// A file that is passed on in pieces, and how many bytes of it were read.
    More(OwnedFd, Facts, ObjectMeta, usize),
    /// Changed within the current step of a coarse change time. Read it again after this time.
    Fresh(Facts, Duration),
}

/// Where the first read puts the bytes.
pub(super) enum ReadTarget<'a> {
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

impl<'t> Opener<'t> {
    pub fn new(tree: &'t Tree) -> Opener<'t> {
        let through_links = tree.follows() || matches!(*tree.selection, Selection::List);
        Opener { tree, through_links, directories: Vec::new(), last: Cell::new(None) }
    }

    /// Which file was opened last.
    pub fn last(&self) -> Option<FileId> {
        self.last.get()
    }

    /// Which file has this path.
    pub fn id_of(&mut self, path: &[u8]) -> Option<FileId> {
        let file = self.open(path, Mark::File).ok()?;
        read::facts(file.as_fd()).ok().map(|facts| facts.id)
    }

    /// Opens a file and reads it, if it is small.
    pub fn first(&mut self, job: &Job, now: i128, mut to: ReadTarget<'_>) -> Result<FirstRead> {
        let (path, mark) = parts(job.entry().locator);
        if let Mark::Unreadable(errno) = mark {
            let hint = "fix the cause, then list again with `resume=\"update\"`";
            let error = unreadable(errno, None);
            let why = format!("this directory or link could not be read when it was listed: {}", error.why());
            return Err(Error::new(error.kind(), why).errno(error.os_error()).hint(hint));
        }
        let file = self.open(path, mark).map_err(|errno| unopened(errno, mark))?;
        let held = to.read(&file, 0).map_err(|errno| refused(&file, errno, 0))?;
        let extended = self.extended(&file).map_err(|errno| unreadable(errno, None))?;
        let facts = read::facts(file.as_fd()).map_err(|errno| unreadable(errno, None))?;
        if !facts.regular {
            return Err(no_file());
        }
        let calm = read::settled(facts.changed, now);
        let in_pieces = facts.size > WHOLE_MAX as u64 || self.has_holes(&file, &facts);
        if calm && facts.size == held as u64 && !in_pieces {
            return Ok(FirstRead::Whole(self.meta_of(&facts, extended), held));
        }
        if calm && in_pieces && matches!(to, ReadTarget::Buffer(_)) {
            let meta = self.meta_of(&facts, extended);
            return Ok(FirstRead::More(file, facts, meta, held));
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
        let extended = self.extended(&file).map_err(|errno| unreadable(errno, None))?;
        if in_pieces {
            let meta = self.meta_of(&facts, extended);
            return Ok(FirstRead::More(file, facts, meta, 0));
        }
        read::rewind(file.as_fd()).map_err(|errno| unreadable(errno, None))?;
        let held = to.fill(&file)?;
        match read::facts(file.as_fd()).map_err(|errno| unreadable(errno, None))? {
            after if same(&facts, &after) && after.size == held as u64 => {
                Ok(FirstRead::Whole(self.meta_of(&after, extended), held))
            }
            after => Err(changed(&facts, &after, held as u64)),
        }
    }

    /// Whether a small file has holes that the destination takes. The position of the file changes if it may have.
    fn has_holes(&self, file: &OwnedFd, facts: &Facts) -> bool {
        self.tree.takes.links
            && facts.allocated < facts.size.next_multiple_of(BLOCK)
            && has_hole(file.as_fd(), facts.size)
    }

    /// Returns what is known of a file without reading it, or `None` if it changed just now or cannot be opened. A link on
    /// the way to it counts as a part of it: set to another target, it is another file.
    pub fn settled_meta(&mut self, job: &Job, now: i128) -> Option<ObjectMeta> {
        let (path, mark) = parts(job.entry().locator);
        let meta = self.meta(job)?;
        let links = match self.follows(mark) {
            true => self.tree.root.links_changed(path).ok()?, // after the file was opened through them
            false => 0,
        };
        let changed = [meta.changed?.into(), links].into_iter().max_by_key(|&time| time + read::step(time))?;
        read::settled(changed, now).then_some(ObjectMeta { changed: i64::try_from(changed).ok(), ..meta })
    }

    /// The same of a file that may have changed just now.
    pub fn meta(&mut self, job: &Job) -> Option<ObjectMeta> {
        let (path, mark) = parts(job.entry().locator);
        let file = matches!(mark, Mark::File | Mark::LinkToFile).then(|| self.open(path, mark).ok())??;
        let extended = self.extended(&file).ok()?;
        let facts = read::facts(file.as_fd()).ok().filter(|facts| facts.regular)?;
        Some(self.meta_of(&facts, extended))
    }

    fn follows(&self, mark: Mark) -> bool {
        mark == Mark::LinkToFile || self.tree.follows() || !matches!(*self.tree.selection, Selection::Walk(_))
    }

    fn open(&mut self, path: &[u8], mark: Mark) -> Result<OwnedFd, Errno> {
        let (directory, name) = split(path)?;
        if mark == Mark::LinkToFile && self.tree.options.links == Some(Links::Inside) {
            return read::open_inside(&self.tree.root, path);
        }
        let follow = self.follows(mark);
        read::open(self.directory(directory)?, name, follow)
    }

    /// The directory at `path`, and keeps it open.
    pub fn directory(&mut self, path: &[u8]) -> Result<&Dir, Errno> {
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

    fn extended(&self, file: &OwnedFd) -> Result<Extended, Errno> {
        match self.tree.takes.attributes {
            AttributeScope::None => Ok(Extended::new()),
            scope => attributes::read(file.as_fd(), scope),
        }
    }

    fn meta_of(&self, facts: &Facts, extended: Extended) -> ObjectMeta {
        self.last.set(Some(facts.id));
        ObjectMeta {
            size: Some(facts.size),
            last_modified: facts.last_modified(),
            changed: i64::try_from(facts.changed).ok(),
            mode: Some(facts.mode & 0o777),
            attributes: attributes(self.tree, facts, extended),
            has_several_names: facts.has_several_names && self.tree.keeps_hard_links(),
            ..ObjectMeta::default()
        }
    }
}

/// What else belongs to a file with these extended attributes, as far as the destination takes it.
pub(super) fn attributes(tree: &Tree, facts: &Facts, extended: Extended) -> Option<Arc<FileAttributes>> {
    let is_exact = tree.takes.attributes == AttributeScope::All;
    let owner = is_exact.then_some(Owner { user: facts.user, group: facts.group, mode: facts.mode });
    (is_exact || !extended.is_empty()).then(|| Arc::new(FileAttributes { owner, extended }))
}

/// The directory of a path, and the name in it.
pub(super) fn split(path: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let (directory, name) = match memchr::memrchr(b'/', path) {
        None => (&b""[..], path),
        Some(0) => (&b"/"[..], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
    };
    if name.is_empty() || name == b"." || name == b".." {
        return Err(Errno::ISDIR);
    }
    Ok((directory, name))
}

pub(super) fn same(before: &Facts, after: &Facts) -> bool {
    (before.size, before.written, before.changed) == (after.size, after.written, after.changed)
}

fn no_file() -> Error {
    Error::new(Kind::BadAnswer, "no longer a regular file")
}

/// The error of a file that cannot be opened.
fn unopened(errno: Errno, mark: Mark) -> Error {
    let error = |kind, why: &str| Error::new(kind, why).errno(Some(errno.raw_os_error()));
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG if mark == Mark::LinkToFile => {
            error(Kind::Vanished, "a symbolic link that leads to nothing")
                .hint("`links=\"skip\"` leaves out links, and `ignore_vanished=True` those that lead to nothing")
        }
        Errno::XDEV if mark == Mark::LinkToFile => {
            error(Kind::Denied, "a symbolic link that leads out of the source, or has an absolute path")
                .hint("`links=\"follow\"` reads what links lead to, wherever it is")
        }
        errno => unreadable(errno, None),
    }
}

/// The error of a read that failed at byte `at`: of an empty pipe, a directory, or a file that cannot be read.
pub(super) fn refused(file: &OwnedFd, errno: Errno, at: u64) -> Error {
    match read::facts(file.as_fd()) {
        Ok(facts) if !facts.regular => no_file(),
        _ => unreadable(errno, Some(at)),
    }
}

pub(super) fn changed(before: &Facts, after: &Facts, read: u64) -> Error {
    let what = match before.size == after.size {
        true if read == after.size => "it was written to".to_owned(),
        true => format!("{read} bytes could be read of the expected {}", after.size),
        false => format!("it had {} bytes, then {}", before.size, after.size),
    };
    Error::new(Kind::Changed, format!("the file changed while it was read: {what}"))
        .hint("run again with `resume=\"failed\"` when nothing writes to it")
}
