//! The readers of archives over any bytes, without a run: what the fuzz targets `tar` and `zip` and the test over their
//! corpora run.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::{Error, HostId, Kind, Result};
use crate::name::Name;
use crate::object::{Fingerprint, ObjectMeta, ObjectWriter, Payload, Put, WHOLE_MAX};
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::format::{Archive, Format, Unpacker};
use crate::source::archive::member::{EntryKind, Member};
use crate::source::archive::options::ArchiveOptions;
use crate::source::archive::plan::Plan;
use crate::source::tar::Tar;
use crate::source::zip::Zip;
use crate::source::{Body, BodyClock, Entries, Entry, Job, Lane, Limits, LocalFuture, Take, Written};

/// Most bytes that an archive of a fuzz target may unpack to: small, so that many can be tried.
const SIZE_MAX: u64 = 1 << 20;
/// Most entries of one.
const ENTRIES_MAX: u64 = 10_000;

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A file, with its bytes.
    File(Vec<u8>),
    /// A file whose name is not safe, or that could not be unpacked.
    Failed(Kind),
    /// A directory, link or device, or an entry that is known to be a failure from what the archive says of it.
    NoFile,
}

/// The entries of a tar archive, in its order; or why it is refused as a whole.
///
/// # Errors
/// As of planning an archive.
///
/// # Panics
/// When a promise of the reader is broken.
pub fn read_tar(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Outcome)>> {
    read(&Tar::default(), bytes)
}

/// The entries of a zip archive; the same.
///
/// # Errors
/// As of planning an archive.
///
/// # Panics
/// When a promise of the reader is broken.
pub fn read_zip(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Outcome)>> {
    read(&Zip::default(), bytes)
}

/// Checks what must hold for any bytes at all that are read as a zip archive.
///
/// # Panics
/// When a promise of the reader is broken.
pub fn check_zip(bytes: &[u8]) {
    let read = read_zip(bytes);
    assert_eq!(shown(&read), shown(&read_zip(bytes)), "the same bytes are the same archive");
    if let Ok(entries) = &read {
        // Each takes 46 bytes in the directory and 30 in front of its contents, which no other entry shares. One more may
        // stand for an archive before this one.
        assert!(entries.len() <= bytes.len() / 76 + 1, "more entries than headers");
    }
}

/// Checks what must hold for any bytes at all that are read as a tar archive.
///
/// # Panics
/// When a promise of the reader is broken.
pub fn check_tar(bytes: &[u8]) {
    let read = read_tar(bytes);
    assert_eq!(shown(&read), shown(&read_tar(bytes)), "the same bytes are the same archive");
    let packed =
        [&[0x1f, 0x8b][..], b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"].iter().any(|magic| bytes.starts_with(magic));
    let passed_over = bytes.get(1..4) == Some(&[0x2a, 0x4d, 0x18]);
    if let (Ok(entries), false, false) = (&read, packed, passed_over) {
        // Every entry has a header of its own, and contents that stand in the archive as they are; one more may stand for
        // what could not be read.
        assert!(entries.len() <= bytes.len() / 512 + 1, "more entries than headers");
        // All of them can be more than the archive: hard links become copies.
        let longest = entries.iter().map(|(_, outcome)| if let Outcome::File(data) = outcome { data.len() } else { 0 });
        assert!(longest.max() <= Some(bytes.len()), "more contents than bytes");
    }
}

fn shown(read: &Result<Vec<(Vec<u8>, Outcome)>>) -> Result<&[(Vec<u8>, Outcome)], Kind> {
    read.as_deref().map_err(Error::kind)
}

fn read(format: &dyn Format, bytes: &[u8]) -> Result<Vec<(Vec<u8>, Outcome)>> {
    let options = ArchiveOptions { max_size: Some(SIZE_MAX), max_entries: ENTRIES_MAX, ..ArchiveOptions::default() };
    let file = in_memory(bytes);
    let plan = format.plan(&file, &options)?;
    check_plan(&plan, bytes);
    unpack_all(format, Archive::of_one(file, plan))
}

/// The entries of a tar archive whose file is cut to `length` once it is known what is in it.
///
/// # Errors
/// As of planning an archive.
pub fn read_tar_cut(bytes: &[u8], length: u64) -> Result<Vec<(Vec<u8>, Outcome)>> {
    read_cut(&Tar::default(), bytes, length)
}

/// The same of a zip archive.
///
/// # Errors
/// As of planning an archive.
pub fn read_zip_cut(bytes: &[u8], length: u64) -> Result<Vec<(Vec<u8>, Outcome)>> {
    read_cut(&Zip::default(), bytes, length)
}

fn read_cut(format: &dyn Format, bytes: &[u8], length: u64) -> Result<Vec<(Vec<u8>, Outcome)>> {
    let file = in_memory(bytes);
    let plan = format.plan(&file, &ArchiveOptions::default())?;
    rustix::fs::ftruncate(&file.fd, length).expect("a file in memory can be cut");
    unpack_all(format, Archive::of_one(file, plan))
}

fn unpack_all(format: &dyn Format, archive: Archive) -> Result<Vec<(Vec<u8>, Outcome)>> {
    let archive = Arc::new(archive);
    let mut unpacker = format.unpacker();
    let mut entries = Vec::new();
    for number in 0..archive.plan.members.len() {
        let member = &archive.plan.members[number];
        let name = archive.plan.name(member);
        let outcome = match (member.what, Name::parse(name)) {
            (EntryKind::File, Ok(name)) => unpack(&mut *unpacker, &archive, number as u32, name),
            (EntryKind::File, Err(error)) => Outcome::Failed(error.kind()),
            _ => Outcome::NoFile,
        };
        entries.push((name.to_vec(), outcome));
    }
    Ok(entries)
}

fn check_plan(plan: &Plan, bytes: &[u8]) {
    assert!(plan.members.len() as u64 <= ENTRIES_MAX && plan.size <= SIZE_MAX, "beyond a limit");
    // Memory follows the archive, not what it claims; names may be three times as long once they are UTF-8.
    let unpacked = bytes.len().max(plan.unpacked.len());
    assert!(plan.text.len() <= 3 * unpacked + 64, "{} bytes of names in {unpacked}", plan.text.len());
    let mut names = std::collections::HashSet::new();
    for member in &plan.members {
        let name = plan.name(member);
        // A name that is refused fails wherever it stands, twice too.
        if member.what == EntryKind::File && Name::parse(name).is_ok() {
            assert!(names.insert(name), "a name twice: {}", name.escape_ascii());
        }
    }
}

/// A file that holds these bytes and has no name.
fn in_memory(bytes: &[u8]) -> ArchiveFile {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let fd = rustix::fs::memfd_create(c"archive", flags).expect("a file in memory");
    let mut left = bytes;
    while !left.is_empty() {
        let written = rustix::io::write(&fd, left).expect("a file in memory takes bytes");
        left = &left[written..];
    }
    let facts = crate::fs::read::facts(std::os::fd::AsFd::as_fd(&fd)).expect("a file in memory has a length");
    ArchiveFile {
        fd,
        path: (*b"archive").into(),
        name: (*b"archive").into(),
        prefix: Box::default(),
        facts,
        stop: Arc::default(),
        room: 32 << 20, // more than the limits of a fuzz target let through
    }
}

fn unpack(unpacker: &mut dyn Unpacker, archive: &Arc<Archive>, number: u32, name: Name) -> Outcome {
    let member = &archive.plan.members[number as usize];
    let desk = Desk::default();
    let job = Job {
        slot: 0,
        index: 0,
        entries: Rc::new(Nothing),
        tried: false,
        doubted: false,
        again: false,
        name: name.into(),
    };
    finish(unpacker.fetch(&desk, job, archive, number));
    let mut answers = desk.answers.into_inner();
    assert_eq!(answers.len(), 1, "a job is answered exactly once");
    match answers.remove(0) {
        Ok(data) => {
            check_data(member, &data);
            Outcome::File(data)
        }
        Err(kind) => Outcome::Failed(kind),
    }
}

fn check_data(member: &Member, data: &[u8]) {
    assert_eq!(data.len() as u64, member.size, "an entry is as long as it says");
    // A tar has none, and says 0.
    assert!(member.crc == 0 || crc32fast::hash(data) == member.crc, "an entry has the checksum that it says");
}

/// Runs a future that waits for nothing but its turn.
fn finish(future: LocalFuture<'_, ()>) {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    for _ in 0..1_000_000 {
        if let Poll::Ready(()) = future.as_mut().poll(&mut context) {
            return;
        }
    }
    panic!("an entry that never ends");
}

/// A lane that keeps what it is handed.
#[derive(Default)]
struct Desk {
    answers: RefCell<Vec<Result<Vec<u8>, Kind>>>,
    /// What the body in work has.
    body: Rc<RefCell<Vec<u8>>>,
}

impl Lane for Desk {
    fn take(&self) -> Take {
        Take::Stop
    }

    fn wake(&self) -> LocalFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn limits(&self) -> Limits {
        Limits { in_flight: 1, depth: 1, is_crowded: false, is_ending: false }
    }

    fn whole(&self, _: Job, meta: &ObjectMeta, mut payload: Payload<'_>) -> Option<Written> {
        let data = payload.take().expect("bytes");
        assert!(data.len() <= WHOLE_MAX, "too large to be handed over whole");
        assert_eq!(meta.size, Some(data.len() as u64));
        self.answers.borrow_mut().push(Ok(data));
        None
    }

    fn begin<'a>(&'a self, _: &'a Job, meta: &'a ObjectMeta) -> LocalFuture<'a, Result<Body>> {
        self.body.borrow_mut().clear();
        let body = Body::new(Box::new(Pieces(self.body.clone())), Rc::new(NoClock), meta.clone());
        Box::pin(std::future::ready(Ok(body)))
    }

    fn finished(&self, _: Job, body: Body, result: Result<()>) -> Option<Written> {
        assert_eq!(body.bytes(), self.body.borrow().len() as u64);
        self.answers.borrow_mut().push(result.map(|()| self.body.take()).map_err(|error| error.kind()));
        None
    }

    fn withdraw(&self, _: Written, _: Fingerprint, _: Error) {
        panic!("an archive withdraws nothing");
    }

    fn failed(&self, _: Job, error: Error) {
        self.answers.borrow_mut().push(Err(error.kind()));
    }

    fn requeued(&self, _: Job) {
        panic!("nothing stops this lane");
    }

    fn stalled(&self) -> Duration {
        Duration::ZERO
    }
}

struct Pieces(Rc<RefCell<Vec<u8>>>);

impl ObjectWriter for Pieces {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.0.borrow_mut().extend_from_slice(piece);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        Ok(Put::Written)
    }
}

struct NoClock;

impl BodyClock for NoClock {
    fn wrote(&self, _: usize, _: Duration) {}
}

/// The entries of a partition that there is none of.
struct Nothing;

impl Entries for Nothing {
    fn len(&self) -> u32 {
        1
    }

    fn get(&self, _: u32) -> Entry<'_> {
        Entry { name: b"", locator: b"", host: HostId(0), skip: None, unlisted: None }
    }
}
