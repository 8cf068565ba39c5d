//! The files of a table, and the table: [`Records`].
//!
//! Here: opening, counting records once, looking again for appended ones, slices, and reading bytes at a place. What
//! happens while another program writes:
//!
//! - Records that are appended later are not seen: the number of records is that of the moment of opening, until
//!   [`Records::refresh`] makes a table that has them.
//! - A file that is cut short is an error of kind `Changed` when a read finds less than it was promised. Nothing is mapped
//!   into memory, so this cannot kill the process.
//! - An append by this crate that is in progress has a mark on the file, and its records are not seen (`mark.rs`). It also
//!   holds a lock; a reader that finds an incomplete record, or a mark that proves nothing, waits for it.
//!
//! Not here: how a table is cut into partitions (`read.rs`).

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::mark::Mark;

/// Files of one table that stay open. The usual limit of a process is 1,024; more files are opened again each time.
const KEPT_OPEN: usize = 128;

/// Longest wait for an append that is under way when half a record is found, and the pause between two looks.
const SETTLE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// Looks at a length that changes each time: a program that does not set marks may write without end.
const LOOKS: usize = 1000;

/// What to do with bytes behind the last whole record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Refuse the file.
    #[default]
    Error,
    /// Leave them out.
    Drop,
}

/// How files are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bytes in front of the first record of every file.
    pub offset: u64,
    /// What to do with bytes behind the last whole record.
    pub tail: Tail,
}

/// Records of one format, in one file or in many one after the other; or a range of such.
///
/// Cheap to clone, and shared between threads. Nothing is read before it is asked for.
#[derive(Clone, Debug)]
pub struct Records {
    pub(crate) table: Arc<Table>,
    range: Range<u64>,
}

/// What the slices of a table share.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) format: Format,
    pub(crate) files: Vec<DataFile>,
    options: OpenOptions,
}

/// One file of a table.
#[derive(Debug)]
pub(crate) struct DataFile {
    path: PathBuf,
    /// Kept open, or opened for each partition.
    handle: Option<Arc<OwnedFd>>,
    /// Device and inode, by which a file that is opened again is known.
    identity: (u64, u64),
    /// Records of the files in front.
    pub(crate) first: u64,
    pub(crate) records: u64,
}

impl Records {
    /// Opens files that together are one table, in this order.
    ///
    /// # Errors
    ///
    /// Io: a file cannot be opened. Invalid: no file, a file that is not regular, or one shorter than the offset.
    /// Torn: a file ends within a record, and the tail is not to be dropped. Unfinished: an append was interrupted, and
    /// another program may have written since.
    pub fn open<P: AsRef<Path>>(paths: &[P], format: Format, options: OpenOptions) -> Result<Self> {
        if paths.is_empty() {
            return Err(Error::invalid("no files: pass at least one path"));
        }
        let mut files = Vec::with_capacity(paths.len());
        let mut first = 0;
        for (at, path) in paths.iter().enumerate() {
            let path = path.as_ref();
            let fd = open_to_read(path)?;
            let found = facts(path, fd.as_fd())?;
            let records = count(path, fd.as_fd(), format.size(), options, options.tail)?;
            let handle = (at < KEPT_OPEN).then(|| Arc::new(fd));
            files.push(DataFile { path: path.to_owned(), handle, identity: identity(&found), first, records });
            first += records;
        }
        Ok(Self { table: Arc::new(Table { format, files, options }), range: 0..first })
    }

    /// What one record is made of.
    #[must_use]
    pub fn format(&self) -> &Format {
        &self.table.format
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns true if there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The files, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.table.files.iter().map(|file| file.path.as_path())
    }

    /// How many records each file has.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.table.files.iter().map(|file| file.records)
    }

    /// The table of the first so many records of each file, all of which it must have: that of an earlier look.
    #[must_use]
    pub fn first_of_each(&self, counts: &[u64]) -> Self {
        let Table { format, files, options } = &*self.table;
        let mut first = 0;
        let with = |(file, &records): (&DataFile, &u64)| {
            first += records;
            let (path, handle) = (file.path.clone(), file.handle.clone());
            DataFile { path, handle, first: first - records, records, ..*file }
        };
        let files = files.iter().zip(counts).map(with).collect();
        Self { table: Arc::new(Table { format: format.clone(), files, options: *options }), range: 0..first }
    }

    /// Which records of the whole table these are.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns some of these records, counted from the first of these; a range beyond the last is clipped.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Self {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        Self { table: self.table.clone(), range: self.range.start + start..self.range.start + end }
    }

    /// Looks at the files' lengths again: the same table, with what was appended to them meanwhile. Records of the files
    /// behind one that grew have other places then. Half a record at an end is one that is being written, and is left out
    /// whatever the options say.
    ///
    /// A slice stays as it is. A file that another has taken the place of is still the one that was opened.
    ///
    /// # Errors
    ///
    /// Changed: a file has become shorter. Unfinished: an append was interrupted, and another program may have written since.
    /// Io: a file cannot be looked at.
    pub fn refresh(&self) -> Result<Self> {
        let table = &self.table;
        let mut counts = Vec::with_capacity(table.files.len());
        for file in &table.files {
            let records = count(&file.path, file.open()?.as_fd(), table.format.size(), table.options, Tail::Drop)?;
            if records < file.records {
                let text = format!("truncated: it had {} records, and has {records} now", file.records);
                return Err(Error::file(ErrorKind::Changed, &file.path, text));
            }
            counts.push(records);
        }
        let same = self.range != (0..table.len()) || self.counts().eq(counts.iter().copied());
        Ok(if same { self.clone() } else { self.first_of_each(&counts) })
    }

    /// Reads whole records, from the one with this place on, until `into` is full.
    ///
    /// # Errors
    ///
    /// Invalid: `into` holds no whole number of records, or more than there are. Changed, Io: as of any read.
    pub fn read_at(&self, first: u64, into: &mut [u8]) -> Result<()> {
        let size = self.format().size();
        let wanted = (into.len() / size) as u64;
        if !into.len().is_multiple_of(size) {
            return Err(Error::invalid(format!(
                "a buffer of {} bytes is not a multiple of the record size, {size} bytes",
                into.len()
            )));
        }
        if first.checked_add(wanted).is_none_or(|end| end > self.len()) {
            let len = self.len();
            return Err(Error::invalid(format!("{wanted} records from {first} on: there are only {len}")));
        }
        let (mut at, mut rest) = (self.range.start + first, into);
        while !rest.is_empty() {
            let file = self.table.file_of(at);
            let here = (file.first + file.records - at).min((rest.len() / size) as u64);
            let (now, later) = rest.split_at_mut(here as usize * size);
            let fd = file.open()?;
            self.table.read(file, fd.as_fd(), at - file.first, now)?;
            (at, rest) = (at + here, later);
        }
        Ok(())
    }
}

impl Table {
    /// How many records all files have.
    pub(crate) fn len(&self) -> u64 {
        self.files.last().map_or(0, |file| file.first + file.records)
    }

    /// The place of the file that has a record; there must be such a record.
    pub(crate) fn place_of(&self, record: u64) -> usize {
        self.files.partition_point(|file| file.first + file.records <= record)
    }

    fn file_of(&self, record: u64) -> &DataFile {
        &self.files[self.place_of(record)]
    }

    /// Fills memory from a record of a file on.
    pub(crate) fn read(&self, file: &DataFile, fd: BorrowedFd<'_>, record: u64, into: &mut [u8]) -> Result<()> {
        let mut at = self.options.offset + record * self.format.size() as u64;
        let mut filled = 0;
        while filled < into.len() {
            match rustix::io::pread(fd, &mut into[filled..], at) {
                Ok(0) => {
                    let promised = self.options.offset + file.records * self.format.size() as u64;
                    return Err(Error::file(
                        ErrorKind::Changed,
                        &file.path,
                        format!("truncated while it was read: it ends at byte {at}, but had {promised} bytes"),
                    ));
                }
                Ok(read) => (filled, at) = (filled + read, at + read as u64),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io(&file.path, format_args!("reading at byte {at}"), errno)),
            }
        }
        Ok(())
    }
}

impl DataFile {
    /// Its descriptor: the one kept, or a new one of the same file.
    pub(crate) fn open(&self) -> Result<Arc<OwnedFd>> {
        if let Some(fd) = &self.handle {
            return Ok(fd.clone());
        }
        let fd = open_to_read(&self.path)?;
        if identity(&facts(&self.path, fd.as_fd())?) != self.identity {
            return Err(Error::file(
                ErrorKind::Changed,
                &self.path,
                "it was replaced by another file since it was opened",
            ));
        }
        Ok(Arc::new(fd))
    }
}

/// Opens without waiting for the other end of a pipe, which is then refused.
fn open_to_read(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let fd = loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::INTR) => {}
            result => break result.map_err(|errno| Error::io(path, "opening", errno))?,
        }
    };
    // Wider read-ahead; a file system without this advice reads all the same.
    let _ = rustix::fs::fadvise(&fd, 0, None, Advice::Sequential);
    Ok(fd)
}

fn facts(path: &Path, fd: BorrowedFd<'_>) -> Result<Stat> {
    let found = rustix::fs::fstat(fd).map_err(|errno| Error::io(path, "looking at its length", errno))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(found),
        FileType::Directory => Err(Error::file(ErrorKind::Invalid, path, "a directory, not a file of records")),
        _ => Err(Error::file(ErrorKind::Invalid, path, "not a regular file: records need random access")),
    }
}

fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

/// A file's length without what an append that is under way, or was killed, has written of its records.
fn settled(path: &Path, fd: BorrowedFd<'_>) -> Result<u64> {
    let mut looks = 0;
    loop {
        let mark = Mark::of(path, fd)?;
        let length = facts(path, fd)?.st_size as u64;
        let counted = mark.as_ref().map_or(Ok(length), |mark| mark.counted(path, fd, length));
        // An append that continues in between changes the length or the mark, and takes the mark away when it has ended.
        let (now, later) = (facts(path, fd)?.st_size as u64, Mark::of(path, fd)?);
        looks += 1;
        if (now, &later) == (length, &mark) || looks == LOOKS {
            return counted;
        }
        if let (Some(mark), Some(later)) = (mark, later)
            && mark.continues(&later)
        {
            return Ok(mark.before);
        }
    }
}

/// Whole records of a file behind its header.
fn count(path: &Path, fd: BorrowedFd<'_>, size: usize, options: OpenOptions, tail: Tail) -> Result<u64> {
    let begun = Instant::now();
    let look = || whole(path, settled(path, fd)?, size as u64, options.offset, tail);
    loop {
        let found = look();
        let unsettled = |error: &Error| matches!(error.kind(), ErrorKind::Torn | ErrorKind::Unfinished);
        if !found.as_ref().is_err_and(unsettled) || begun.elapsed() >= SETTLE {
            return found;
        }
        // An append that is under way has the lock; when it has ended, the length is final.
        match rustix::fs::flock(fd, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                let now = look();
                let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
                if now == found {
                    return found;
                }
            }
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            Err(_) => return found,
        }
    }
}

/// How many whole records so many bytes have.
fn whole(path: &Path, length: u64, size: u64, offset: u64, tail: Tail) -> Result<u64> {
    let Some(body) = length.checked_sub(offset) else {
        let text = format!("{length} bytes long, but the offset of the first record is {offset}");
        return Err(Error::file(ErrorKind::Invalid, path, text));
    };
    let (whole, torn) = (body / size, body % size);
    if torn == 0 || tail == Tail::Drop {
        return Ok(whole);
    }
    let text = format!(
        "{body} bytes of records of {size} bytes: {whole} whole ones and {torn} more bytes; check the format and the \
        offset, or drop the tail"
    );
    Err(Error::file(ErrorKind::Torn, path, text))
}
