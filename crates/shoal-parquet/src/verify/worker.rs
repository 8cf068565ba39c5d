//! The threads of a check. Each takes a row group or, if there is none, opens the next file. At the end they look for names
//! that are there twice.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shoal_engine::display::escape;
use shoal_engine::{Error, Kind, Result};

use super::names::{AllNames, EXAMPLES, Found as Twice, NameEntry, split};
use super::{DamagedFile, Duplicate, RowPlace, Verified, VerifyOptions, VerifyProgress};
use crate::read::dataset::Found;
use crate::read::fault::Fault;
use crate::read::file::name_of;
use crate::read::open_file::OpenFile;
use crate::read::row::AtRow;

/// Rows after which names are handed over, and a stop is noticed.
const ROWS: usize = 4096;
/// Most bytes of contents in between.
const BYTES: u64 = 16 << 20;

/// What the threads share.
pub struct Shared {
    found: Vec<Found>,
    work: Mutex<Work>,
    nice: bool,
    /// What the kernel did not allow.
    note: Mutex<Option<String>>,
    names: AllNames,
    next_part: AtomicUsize,
    twice: Mutex<Twice>,
    damaged: Mutex<Vec<(usize, DamagedFile)>>,
    files: AtomicU64,
    objects: AtomicU64,
    bytes: AtomicU64,
    without_checksums: AtomicU64,
    pub stop: AtomicBool,
    error: Mutex<Option<Error>>,
    pub ended: Ended,
}

#[derive(Default)]
struct Work {
    next_file: usize,
    /// Row groups of files that are open.
    groups: VecDeque<Group>,
    /// Threads that may still add row groups or names.
    busy: usize,
}

struct Group {
    /// The number of the file.
    number: usize,
    file: Arc<OpenFile>,
    group: usize,
    /// Row groups of the file that are not finished.
    left: Arc<AtomicUsize>,
}

/// How many threads have ended; wakes the one that waits for them.
#[derive(Default)]
pub struct Ended(Mutex<usize>, Condvar);

impl Ended {
    fn add(&self) {
        *lock(&self.0) += 1;
        self.1.notify_one();
    }

    /// Waits until so many have ended, or so long.
    pub fn wait(&self, threads: usize, most: Duration) {
        let _ = self.1.wait_timeout_while(lock(&self.0), most, |ended| *ended < threads);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that may still add row groups or names, until this is dropped: also if it panics.
struct Busy<'a>(&'a Mutex<Work>);

impl<'a> Busy<'a> {
    fn new(of: &'a Mutex<Work>, work: &mut Work) -> Busy<'a> {
        work.busy += 1;
        Busy(of)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(self.0).busy -= 1;
    }
}

enum Task<'a> {
    Group(Group, Busy<'a>),
    Open(usize, Busy<'a>),
    /// Others may still add something.
    Wait,
    Done,
}

impl Shared {
    pub fn new(found: Vec<Found>, options: &VerifyOptions) -> Shared {
        Shared {
            nice: options.nice,
            note: Mutex::default(),
            names: AllNames::new(options.memory, &options.temporary),
            found,
            work: Mutex::default(),
            next_part: AtomicUsize::new(0),
            twice: Mutex::default(),
            damaged: Mutex::default(),
            files: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            without_checksums: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            error: Mutex::default(),
            ended: Ended::default(),
        }
    }

    pub fn found(&self) -> &[Found] {
        &self.found
    }

    pub fn progress(&self) -> VerifyProgress {
        let (files, objects, bytes) = (&self.files, &self.objects, &self.bytes);
        let files_total = self.found.len() as u64;
        VerifyProgress {
            files: files.load(Relaxed),
            files_total,
            objects: objects.load(Relaxed),
            bytes: bytes.load(Relaxed),
        }
    }

    /// Why it stopped by itself.
    pub fn error(&self) -> Option<Error> {
        lock(&self.error).take()
    }

    /// The work of one thread.
    pub fn work(&self) {
        if self.nice
            && let Err(note) = shoal_engine::fs::neighbour::lower_priority()
        {
            lock(&self.note).get_or_insert(note);
        }
        if let Err(error) = self.groups().and_then(|()| self.parts()) {
            lock(&self.error).get_or_insert(error);
            self.stop.store(true, Relaxed);
        }
        self.ended.add();
    }

    fn groups(&self) -> Result<()> {
        let mut names = Vec::new();
        loop {
            if self.stop.load(Relaxed) {
                return Ok(());
            }
            match self.task() {
                Task::Group(group, _busy) => self.group(&group, &mut names)?,
                Task::Open(number, _busy) => self.open(number)?,
                Task::Wait => std::thread::sleep(Duration::from_millis(1)),
                Task::Done => return Ok(()),
            }
        }
    }

    fn task(&self) -> Task<'_> {
        let mut work = lock(&self.work);
        if let Some(group) = work.groups.pop_front() {
            return Task::Group(group, Busy::new(&self.work, &mut work));
        }
        if work.next_file < self.found.len() {
            work.next_file += 1;
            return Task::Open(work.next_file - 1, Busy::new(&self.work, &mut work));
        }
        if work.busy > 0 { Task::Wait } else { Task::Done }
    }

    fn open(&self, number: usize) -> Result<()> {
        let file = match OpenFile::open(&self.found[number].path) {
            Ok(file) => Arc::new(file),
            Err(fault) => {
                self.files.fetch_add(1, Relaxed);
                return self.fault(number, fault);
            }
        };
        let count = file.parquet.groups.len();
        self.without_checksums.fetch_add(u64::from(file.parquet.checksums.is_none()), Relaxed);
        if count == 0 {
            self.files.fetch_add(1, Relaxed);
        }
        let left = Arc::new(AtomicUsize::new(count));
        let groups = (0..count).map(|group| Group { number, file: file.clone(), group, left: left.clone() });
        lock(&self.work).groups.extend(groups);
        Ok(())
    }

    fn group(&self, group: &Group, names: &mut Vec<NameEntry>) -> Result<()> {
        let verdict = loop {
            if self.stop.load(Relaxed) {
                return Ok(());
            }
            if let Some(verdict) = group.file.check(group.group) {
                break verdict;
            }
        };
        // A row group with a wrong checksum is one fault, however many of its rows can be read.
        match verdict {
            Err(fault) => self.fault(group.number, fault)?,
            Ok(()) => self.rows(group, names)?,
        }
        if group.left.fetch_sub(1, Relaxed) == 1 {
            self.files.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn rows(&self, group: &Group, names: &mut Vec<NameEntry>) -> Result<()> {
        let before = group.file.parquet.rows_before(group.group);
        let (mut at, mut objects, mut bytes) = (None, 0, 0);
        for row in 0..group.file.parquet.groups[group.group].rows {
            let here = AtRow::new(at.take(), &group.file, group.group, row);
            match name_and_size(&here) {
                Ok((name, size)) => {
                    names.push(NameEntry::new(name, group.number, before + u64::from(row)));
                    (objects, bytes) = (objects + 1, bytes + size);
                }
                Err(fault) => self.fault(group.number, fault)?,
            }
            at = Some(here);
            if names.len() >= ROWS || bytes >= BYTES {
                self.add(&mut objects, &mut bytes, names)?;
                if self.stop.load(Relaxed) {
                    return Ok(());
                }
            }
        }
        self.add(&mut objects, &mut bytes, names)
    }

    fn add(&self, objects: &mut u64, bytes: &mut u64, names: &mut Vec<NameEntry>) -> Result<()> {
        self.objects.fetch_add(std::mem::take(objects), Relaxed);
        self.bytes.fetch_add(std::mem::take(bytes), Relaxed);
        self.names.add(names)
    }

    /// Notes that something is wrong in a file.
    fn fault(&self, number: usize, fault: Fault) -> Result<()> {
        if fault.is_general() {
            return Err(fault.to_error().on(&escape(&self.found[number].path)));
        }
        let mut damaged = lock(&self.damaged);
        match damaged.iter_mut().find(|(file, _)| *file == number) {
            Some((_, file)) => file.faults += 1,
            None => {
                let file = self.name_of(number);
                damaged.push((number, DamagedFile { file, reason: fault.why, faults: 1 }));
            }
        }
        Ok(())
    }

    fn name_of(&self, number: usize) -> String {
        String::from_utf8_lossy(name_of(&self.found[number].path)).into_owned()
    }

    fn parts(&self) -> Result<()> {
        while !self.stop.load(Relaxed) {
            let part = self.next_part.fetch_add(1, Relaxed);
            if part >= self.names.parts() {
                break;
            }
            let found = self.names.found(part)?;
            lock(&self.twice).join(found);
        }
        Ok(())
    }

    /// What was found, after all threads have ended.
    pub fn result(&self) -> Result<Verified> {
        let mut damaged = std::mem::take(&mut *lock(&self.damaged));
        damaged.sort_unstable_by_key(|(number, _)| *number);
        let twice = std::mem::take(&mut *lock(&self.twice));
        let examples = twice.examples.iter().take(EXAMPLES).map(|(first, second)| {
            let (name, first) = (self.read_name(*first)?, self.place(*first));
            Ok(Duplicate { name, first, second: self.place(*second) })
        });
        let examples = examples.collect::<Result<Vec<_>>>()?;
        let now = self.progress();
        Ok(Verified {
            files: now.files,
            objects: now.objects,
            bytes: now.bytes,
            without_checksums: self.without_checksums.load(Relaxed),
            duplicates: twice.count,
            examples,
            damaged: damaged.into_iter().map(|(_, file)| file).collect(),
            notes: lock(&self.note).take().into_iter().collect(),
        })
    }

    fn place(&self, place: u64) -> RowPlace {
        let (file, row) = split(place);
        RowPlace { file: self.name_of(file), row }
    }

    /// Reads the name at a place again.
    fn read_name(&self, place: u64) -> Result<Vec<u8>> {
        let (number, mut row) = split(place);
        let path = &self.found[number].path;
        let failed = |fault: Fault| fault.to_error().on(&escape(path));
        let file = OpenFile::open(path).map_err(failed)?;
        let mut group = 0;
        while let Some(rows) =
            file.parquet.groups.get(group).map(|group| u64::from(group.rows)).filter(|rows| row >= *rows)
        {
            (row, group) = (row - rows, group + 1);
        }
        if !file.has(group, row as u32) {
            return Err(failed(Fault::new(Kind::Changed, "the file changed while it was read")));
        }
        let block = file.names(group, row as u32);
        let name = block.get().map_or_else(|| Err(crate::read::open_file::undecoded()), |names| names.name(row as u32));
        name.map(<[u8]>::to_vec).map_err(failed)
    }
}

/// The name of a row, which must be UTF-8, and the length of its contents.
fn name_and_size(at: &AtRow) -> Result<(&[u8], u64), Fault> {
    let (_, bytes) = at.object()?;
    let name = at.name()?;
    match std::str::from_utf8(name) {
        Ok(_) => Ok((name, bytes.len() as u64)),
        Err(_) => Err(at.wrong("its name is not UTF-8")),
    }
}
