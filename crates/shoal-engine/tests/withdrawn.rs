//! Objects that are withdrawn after they were committed: what had their bytes fails with them, and their files go, also
//! after a kill. Not here: one that nothing else depends on (`engine.rs`), how services make objects doubtful
//! (`tests/hostile/test_overlong.py`).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_engine::options::{Resume, Workers};
use shoal_engine::session::Twice;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::{
    Flush, Flushed, Sealed, Sink, SinkProperties, SinkState, Start, Started, StateRow, Wake, WithdrawnObject, Writer,
};
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, ObjectKey, Result, TransferOptions};

/// Two objects named `x` and two others; each its own partition, one after the other.
fn source(bytes: &[u8]) -> MemorySource {
    let names: [&[u8]; 4] = [b"first", b"x\0one", b"x\0two", b"last"];
    let page = names.map(|name| (name.to_vec(), bytes.to_vec()));
    MemorySource::new(vec![page.to_vec()], 1).numbered().twice(Twice::Conflict)
}

/// The same, with these objects withdrawn when all is written.
fn withdrawing(names: &'static [&'static [u8]]) -> MemorySource {
    source(b"short").answering(move |name, _| match names.contains(&name) {
        true => Answer::Withdrawn { kind: Kind::ShortBody, at_end: true },
        false => Answer::Whole,
    })
}

fn copy(source: MemorySource, sink: impl Sink + 'static, resume: Resume) -> Outcome {
    let options = TransferOptions { resume, workers: Workers::Fixed(1), ..TransferOptions::default() };
    let outcome = Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(outcome.report.run.balanced() && outcome.report.total.balanced(), "{:?}", outcome.report);
    outcome
}

fn directory(path: &Path) -> DirSink {
    DirSink::new(path, DirOptions::default()).unwrap()
}

/// Written, skipped and failed.
fn counts(outcome: &Outcome) -> (u64, u64, u64) {
    let total = &outcome.report.total;
    (total.written, total.skipped, total.failed)
}

#[test]
fn what_had_the_bytes_of_an_object_that_is_withdrawn_fails_with_it_and_both_are_fetched_again() {
    let dir = tempfile::tempdir().unwrap();

    let outcome = copy(withdrawing(&[b"x\0one"]), directory(dir.path()), Resume::Auto);

    assert_eq!(counts(&outcome), (2, 0, 2), "{:?}", outcome.report.failures);
    assert!(!dir.path().join("x").exists(), "a failure has no file");
    let mended = copy(source(b"right"), directory(dir.path()), Resume::Failed);
    assert_eq!(counts(&mended), (3, 1, 0), "{:?}", mended.report.failures);
    assert_eq!(std::fs::read(dir.path().join("x")).unwrap(), b"right");
}

#[test]
fn an_object_with_the_bytes_of_another_can_be_withdrawn_and_the_other_stays() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = copy(withdrawing(&[b"x\0two"]), directory(dir.path()), Resume::Auto);
    assert_eq!(counts(&outcome), (3, 0, 1), "{:?}", outcome.report.failures);
    assert_eq!(std::fs::read(dir.path().join("x")).unwrap(), b"short", "it counts for the first");
}

#[test]
fn two_of_one_name_that_are_both_withdrawn_fail_once_each() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = copy(withdrawing(&[b"x\0one", b"x\0two"]), directory(dir.path()), Resume::Auto);
    assert_eq!(counts(&outcome), (2, 0, 2), "{:?}", outcome.report.failures);
    assert!(!dir.path().join("x").exists());
}

#[test]
fn a_file_that_was_changed_since_it_was_written_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let source = source(b"short").answering(move |name, _| match name {
        b"x\0one" => Answer::Withdrawn { kind: Kind::ShortBody, at_end: true },
        b"last" => {
            std::fs::write(path.join("x"), b"other").unwrap();
            Answer::Whole
        }
        _ => Answer::Whole,
    });
    assert_eq!(counts(&copy(source, directory(dir.path()), Resume::Auto)), (2, 0, 2));
    assert_eq!(std::fs::read(dir.path().join("x")).unwrap(), b"other");
}

/// A directory from which withdrawn files are not removed: as after a kill behind the commit, or where that fails.
struct Killed(DirSink);

impl Sink for Killed {
    fn identity(&self) -> String {
        self.0.identity()
    }
    fn properties(&self) -> SinkProperties {
        self.0.properties()
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        self.0.journal_dir()
    }
    fn has_begun(&self) -> bool {
        self.0.has_begun()
    }
    fn admit(&self, raw: &[u8]) -> Result<ObjectKey> {
        self.0.admit(raw)
    }
    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        self.0.start(start, state)
    }
    fn clock(&self) -> Result<Option<i64>> {
        self.0.clock()
    }
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        self.0.writer(lane, wake)
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        self.0.flush(sealed, reason)
    }
    fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        self.0.withdrawing(objects)
    }
    fn withdraw(&self, _: &WithdrawnObject) {}
    fn finish(&self) -> Result<Option<String>> {
        self.0.finish()
    }
}

#[test]
fn after_a_kill_between_the_failure_and_the_removal_the_next_session_removes_the_file() {
    for twice in [Twice::Conflict, Twice::SameObject] {
        // The right bytes may be those that were withdrawn: then the surplus was none of theirs.
        for right in [&b"right"[..], b"short"] {
            let dir = tempfile::tempdir().unwrap();
            let x = dir.path().join("x");
            let outcome = copy(withdrawing(&[b"x\0one"]).twice(twice), Killed(directory(dir.path())), Resume::Auto);
            assert_eq!((counts(&outcome), x.exists()), ((2, 0, 2), true));
            let gone = source(right).twice(twice).answering(|_, _| Answer::Fail(Kind::Forbidden));
            assert_eq!(counts(&copy(gone, directory(dir.path()), Resume::Failed)), (2, 0, 2));
            assert!(!x.exists(), "a failure has no file, whatever becomes of it");

            let mended = copy(source(right).twice(twice), directory(dir.path()), Resume::Failed);

            assert_eq!(counts(&mended), (3, 1, 0), "{:?}", mended.report.failures);
            copy(source(right).twice(twice), directory(dir.path()), Resume::Relist);
            assert_eq!(std::fs::read(&x).unwrap(), right, "it is removed once, and not again");
        }
    }
}
