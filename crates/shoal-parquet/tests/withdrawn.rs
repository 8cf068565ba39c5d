//! Objects that were written as rows and then withdrawn: the rows go, once, whenever a session is killed.

mod support;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use shoal_engine::session::Twice;
use shoal_engine::sink::{
    Flush, Flushed, Sealed, Sink, SinkProperties, SinkState, Start, Started, StateRow, Wake, WithdrawnObject, Writer,
};
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Error, Kind, ObjectKey, Result, TransferOptions};
use shoal_parquet::sink::{ParquetOptions, ParquetSink};
use shoal_parquet::verify::{VerifyOptions, verify};
use support::Objects;
use support::runs::{ended, expected, files, leftovers, objects, options, rows, run, sink, source};

type Pages = Vec<(Vec<u8>, Vec<u8>)>;

/// What the service sends of these is short by a byte, and withdrawn when it is written.
fn withdrawing(objects: &Pages, wrong: &[usize]) -> MemorySource {
    let mut sent = objects.clone();
    for at in wrong {
        sent[*at].1.pop();
    }
    let wrong: BTreeSet<_> = wrong.iter().map(|at| objects[*at].0.clone()).collect();
    MemorySource::new(sent.chunks(500).map(<[_]>::to_vec).collect(), 100).answering(move |name, _| {
        match wrong.contains(name) {
            true => Answer::Withdrawn { kind: Kind::ShortBody, at_end: false },
            false => Answer::Whole,
        }
    })
}

fn without(objects: &Pages, wrong: &[usize]) -> Objects {
    let mut left = expected(objects);
    wrong.iter().for_each(|at| _ = left.remove(&objects[*at].0));
    left
}

fn failed(outcome: &Outcome, count: u64) {
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(outcome.report.complete);
    assert_eq!(outcome.report.total.failed, count, "{:?}", outcome.report.failures);
}

fn is_sound(directory: &Path) {
    let found = verify(directory, &VerifyOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.is_good(), "{found:?}");
    assert_eq!(leftovers(directory), 0);
}

/// Each file with its number on the disk, which changes when it is replaced.
fn identities(directory: &Path) -> Vec<(PathBuf, u64)> {
    let number = |path: &PathBuf| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    files(directory).into_iter().map(|path| (path.clone(), number(&path))).collect()
}

/// All objects have at least two bytes, so that one can be missing.
fn some(count: usize) -> Pages {
    objects(count, 100).into_iter().map(|(name, data)| (name, [&b"ab"[..], &data].concat())).collect()
}

#[test]
fn rows_of_withdrawn_objects_are_removed_and_the_next_run_adds_the_right_ones() {
    let directory = tempfile::tempdir().unwrap();
    let (objects, wrong) = (some(3_000), [0, 1, 2, 777, 1500, 2998, 2999]);
    let outcome = run(withdrawing(&objects, &wrong), sink(directory.path(), &options()), options());
    failed(&outcome, 7);
    assert!(rows(directory.path()) == without(&objects, &wrong));
    is_sound(directory.path());
    let before = identities(directory.path());
    let outcome = run(source(&objects, 500), sink(directory.path(), &options()), options());
    ended(&outcome);
    assert_eq!((outcome.report.run.written, outcome.report.total.written), (7, 3_000));
    assert!(rows(directory.path()) == expected(&objects));
    is_sound(directory.path());
    let after = identities(directory.path());
    assert!(before.iter().all(|file| after.contains(file)), "nothing is written anew without a reason");
}

#[test]
fn a_row_that_a_retry_has_written_is_removed_too() {
    let directory = tempfile::tempdir().unwrap();
    let objects = some(300);
    let missing = |name: &[u8], _: u32| match name {
        b"o-000007" => Answer::Fail(Kind::Forbidden),
        _ => Answer::Whole,
    };
    failed(&run(source(&objects, 500).answering(missing), sink(directory.path(), &options()), options()), 1);
    for _ in 0..2 {
        failed(&run(withdrawing(&objects, &[7]), sink(directory.path(), &options()), options()), 1);
        assert!(rows(directory.path()) == without(&objects, &[7]));
        is_sound(directory.path());
    }
    ended(&run(source(&objects, 500), sink(directory.path(), &options()), options()));
    assert!(rows(directory.path()) == expected(&objects));
    is_sound(directory.path());
}

#[test]
fn a_file_of_which_all_rows_are_withdrawn_stays_as_an_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    let objects = some(40);
    let wrong: Vec<_> = (0..40).collect();
    failed(&run(withdrawing(&objects, &wrong), sink(directory.path(), &options()), options()), 40);
    assert_eq!((rows(directory.path()).len(), files(directory.path()).len()), (0, 1));
    is_sound(directory.path());
    ended(&run(source(&objects, 500), sink(directory.path(), &options()), options()));
    assert!(rows(directory.path()) == expected(&objects));
    is_sound(directory.path());
}

#[test]
fn rows_of_partitions_that_are_too_large_for_memory_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let objects = objects(400, 200_000);
    let (wrong, options) = ([3, 200, 399], TransferOptions { memory: 8 << 20, ..options() });
    failed(&run(withdrawing(&objects, &wrong), sink(directory.path(), &options), options.clone()), 3);
    assert!(rows(directory.path()) == without(&objects, &wrong));
    ended(&run(source(&objects, 500), sink(directory.path(), &options), options));
    assert!(rows(directory.path()) == expected(&objects));
    is_sound(directory.path());
}

#[test]
fn of_a_name_that_a_listing_has_twice_only_the_withdrawn_row_goes() {
    // A service's object, listed twice: one answer is withdrawn, and which row it was does not matter.
    let directory = tempfile::tempdir().unwrap();
    let mut objects = some(300);
    objects.push(objects[5].clone());
    let once = |name: &[u8], count: u32| match (name, count) {
        (b"o-000005", 2) => Answer::Withdrawn { kind: Kind::ShortBody, at_end: true },
        _ => Answer::Whole,
    };
    let outcome = run(source(&objects, 500).answering(once), sink(directory.path(), &options()), options());
    failed(&outcome, 1);
    assert!(rows(directory.path()) == expected(&objects), "once");
    ended(&run(source(&objects, 500), sink(directory.path(), &options()), options()));
    assert!(rows(directory.path()) == expected(&objects));
    is_sound(directory.path());
}

/// Two objects of one name, of which one is withdrawn.
fn twins(directory: &Path, other: &[u8]) -> Outcome {
    let mut objects = some(300);
    objects[9] = (b"twin".to_vec(), b"short".to_vec());
    objects[205] = (b"twin\0other".to_vec(), other.to_vec());
    let one = |name: &[u8], _: u32| match name {
        b"twin" => Answer::Withdrawn { kind: Kind::ShortBody, at_end: true },
        _ => Answer::Whole,
    };
    let source = source(&objects, 500).numbered().twice(Twice::Conflict).answering(one);
    run(source, sink(directory, &options()), options())
}

fn twin_rows(directory: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for path in files(directory) {
        let single = tempfile::tempdir().unwrap();
        std::fs::copy(&path, single.path().join("objects-000000.parquet")).unwrap();
        let (_, objects) = support::read(single.path());
        found.extend(objects.get(&b"twin"[..]).cloned());
    }
    found
}

#[test]
fn of_two_objects_with_one_name_the_other_row_is_never_removed() {
    // Their lengths tell them apart.
    let directory = tempfile::tempdir().unwrap();
    failed(&twins(directory.path(), b"of another length"), 1);
    assert_eq!(twin_rows(directory.path()), [b"of another length".to_vec()]);
    is_sound(directory.path());

    // Nothing does: neither is removed, and the object stays a failure.
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        failed(&twins(directory.path(), b"other"), 1);
        let found = verify(directory.path(), &VerifyOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((found.objects, found.duplicates), (300, 1));
    }
    let outcome = twins(directory.path(), b"other");
    assert!(outcome.report.failures[0].reason.contains("could not be removed yet"), "{:?}", outcome.report.failures);
}

/// When a session ends as if it were killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The flush after the one with the rows: the files are open.
    Flush,
    BeforeMend,
    /// The files are written, and the journal does not know them.
    AfterMend,
    /// The journal knows them.
    BeforeRename,
    AfterRename,
}

struct Killed {
    inner: Arc<dyn Sink>,
    at: Moment,
    withdrawn: AtomicBool,
    mended: AtomicBool,
}

impl Killed {
    fn new(inner: Arc<dyn Sink>, at: Moment) -> Arc<Killed> {
        Arc::new(Killed { inner, at, withdrawn: AtomicBool::new(false), mended: AtomicBool::new(false) })
    }

    fn fails<T>(&self, at: Moment) -> Result<T> {
        Err(Error::new(Kind::DestinationFailed, format!("killed: {at:?}")))
    }
}

impl Sink for Killed {
    fn identity(&self) -> String {
        self.inner.identity()
    }
    fn properties(&self) -> SinkProperties {
        self.inner.properties()
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        self.inner.journal_dir()
    }
    fn admit(&self, raw: &[u8]) -> Result<ObjectKey> {
        self.inner.admit(raw)
    }
    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        self.inner.start(start, state)
    }
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        self.inner.writer(lane, wake)
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        if self.at == Moment::Flush && self.withdrawn.load(SeqCst) {
            return self.fails(Moment::Flush);
        }
        self.inner.flush(sealed, reason)
    }
    fn publish(&self, state: &[StateRow]) -> Result<()> {
        let is_at = |at| self.mended.load(SeqCst) && self.at == at;
        if is_at(Moment::BeforeRename) {
            return self.fails(self.at);
        }
        self.inner.publish(state)?;
        if is_at(Moment::AfterRename) { self.fails(self.at) } else { Ok(()) }
    }
    fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        self.withdrawn.store(true, SeqCst);
        self.inner.withdrawing(objects)
    }
    fn mend(&self, state: &dyn SinkState, stop: &mut dyn FnMut() -> bool) -> Result<Vec<StateRow>> {
        if self.at == Moment::BeforeMend {
            return self.fails(self.at);
        }
        let state = self.inner.mend(state, stop)?;
        self.mended.store(true, SeqCst);
        if self.at == Moment::AfterMend { self.fails(self.at) } else { Ok(state) }
    }
}

#[test]
fn a_session_that_is_killed_while_it_removes_rows_leaves_it_to_the_next() {
    for at in [Moment::BeforeMend, Moment::AfterMend, Moment::BeforeRename, Moment::AfterRename] {
        let directory = tempfile::tempdir().unwrap();
        let (objects, wrong) = (some(2_000), [5, 6, 1000, 1999]);
        let killed = Killed::new(sink(directory.path(), &options()), at);
        let outcome = run(withdrawing(&objects, &wrong), killed, options());
        assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::DestinationFailed), "{at:?}");
        // Another run into the same directory does it as well.
        let other = MemorySource::new(vec![vec![(b"other".to_vec(), b"1".to_vec())]], 100).named("other:");
        ended(&run(other, sink(directory.path(), &options()), options()));
        let mut left = without(&objects, &wrong);
        left.insert(b"other".to_vec(), b"1".to_vec());
        assert!(rows(directory.path()) == left, "{at:?}");
        is_sound(directory.path());
        ended(&run(source(&objects, 500), sink(directory.path(), &options()), options()));
        left.extend(expected(&objects));
        assert!(rows(directory.path()) == left, "{at:?}");
        is_sound(directory.path());
    }
}

#[test]
fn rows_in_open_files_of_a_killed_session_are_removed_and_the_places_of_the_others_are_known() {
    for (count, wrong) in [(1_000, vec![0, 1, 50, 99, 150]), (600, (0..300).collect())] {
        let directory = tempfile::tempdir().unwrap();
        let mut objects = some(count);
        let parquet = ParquetOptions { group_rows: 250, commit_every: Default::default(), ..Default::default() };
        let open = || Arc::new(ParquetSink::new(directory.path(), parquet.clone(), &options()).unwrap());
        let killed = Killed::new(open(), Moment::Flush);
        let pages = MemorySource::new(vec![objects.clone()], 50);
        let (last, waits) = (objects[count - 1].0.clone(), killed.clone());
        let script: BTreeSet<_> = wrong.iter().map(|at| objects[*at].0.clone()).collect();
        let pages = pages.answering(move |name, _| {
            while name == last && !waits.withdrawn.load(SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            match script.contains(name) {
                true => Answer::Withdrawn { kind: Kind::ShortBody, at_end: false },
                false => Answer::Whole,
            }
        });
        let transfer = Transfer::new(Arc::new(pages), killed, options()).in_batches_of(300);
        let outcome = transfer.run(&mut |_| ControlFlow::Continue(()));
        assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::DestinationFailed));
        assert!(files(directory.path()).is_empty() && leftovers(directory.path()) > 0);

        // The page has changed, so names are compared with those that are stored.
        objects.insert(0, (b"new".to_vec(), b"new".to_vec()));
        for _ in 0..2 {
            let again = MemorySource::new(vec![objects.clone()], 50);
            let outcome = run(again, open(), options());
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
            let found = rows(directory.path());
            assert!(found.iter().all(|row| objects.contains(&(row.0.clone(), row.1.clone()))));
            is_sound(directory.path());
        }
        assert!(rows(directory.path()) == expected(&objects));
    }
}

#[test]
fn what_is_damaged_is_not_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let objects = some(300);
    let killed = Killed::new(sink(directory.path(), &options()), Moment::BeforeMend);
    assert!(run(withdrawing(&objects, &[5]), killed, options()).error.is_some());
    let path = files(directory.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[2_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = run(source(&objects, 500), sink(directory.path(), &options()), options()).error.unwrap();
    assert_eq!(error.kind(), Kind::DestinationFailed);
    assert!(error.to_string().contains("does not match its checksum"), "{error}");
}
