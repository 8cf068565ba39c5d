//! What a run that was broken off may claim when it is resumed: never complete while something is missing.

mod support;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use shoal_engine::journal::{Commit, Done, Durable, Failed, Journal, Location, OpenOptions, RunKey};
use shoal_engine::options::{Durability, Resume, Workers};
use shoal_engine::session::Twice;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::source::Source;
use shoal_engine::source::files::{Files, FilesFrom, FilesOptions};
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, Progress, Report, TransferOptions};
use support::*;

type Page = Vec<(Vec<u8>, Vec<u8>)>;

fn objects(names: &[&str]) -> Page {
    names.iter().map(|name| (name.as_bytes().to_vec(), format!("bytes of {name}").into_bytes())).collect()
}

fn options() -> TransferOptions {
    TransferOptions { workers: Workers::Fixed(1), durability: Durability::None, ..TransferOptions::default() }
}

/// What binds a run with these options, but for the layout.
fn key_of(source: &MemorySource, layout: &str) -> RunKey {
    let options = [("include", "[]"), ("exclude", "[]"), ("layout", layout)];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    RunKey { source: source.identity(), options, secrets: Vec::new() }
}

fn retry() -> TransferOptions {
    TransferOptions { resume: Resume::Failed, ..options() }
}

fn copy(source: MemorySource, out: &Path, options: TransferOptions) -> Outcome {
    let sink = DirSink::new(out, DirOptions::of(&options)).unwrap();
    let outcome = Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.report.run.balanced() && outcome.report.total.balanced(), "{:?}", outcome.report);
    outcome
}

fn ended(outcome: Outcome) -> Report {
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    outcome.report
}

/// A name that fails with this kind; all others arrive.
fn failing(pages: &[Page], name: &'static str, kind: Kind) -> MemorySource {
    MemorySource::new(pages.to_vec(), 2).answering(move |asked, _| match asked == name.as_bytes() {
        true => Answer::Fail(kind),
        false => Answer::Whole,
    })
}

#[test]
fn an_object_that_failed_in_two_partitions_is_tried_again_once_and_the_counts_balance() {
    for (kind, total) in [(None, (3, 1, 0)), (Some(Kind::Forbidden), (2, 0, 2))] {
        let temp = temp_dir();
        let out = temp.path().join("out");
        let pages = [objects(&["a", "x"]), objects(&["x", "b"])];
        let first = ended(copy(failing(&pages, "x", Kind::Forbidden), &out, options()));
        assert_eq!((first.run.written, first.run.failed), (2, 2));
        let source = match kind {
            None => MemorySource::new(pages.to_vec(), 2),
            Some(kind) => failing(&pages, "x", kind),
        };
        let fetches = source.clone();
        let again = ended(copy(source, &out, retry()));
        assert_eq!((again.total.written, again.total.skipped, again.total.failed), total, "{again:?}");
        assert_eq!(fetches.fetches()[&b"x"[..]], 1);
        assert_eq!(out.join("x").exists(), kind.is_none());
    }
}

#[test]
fn a_retry_that_was_interrupted_is_taken_up_by_the_plain_command() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let pages = [objects(&["a", "b"]), objects(&["c", "x"])];
    let first = ended(copy(failing(&pages, "x", Kind::Forbidden), &out, options()));
    assert_eq!(first.run.failed, 1);
    let cut = copy(failing(&pages, "x", Kind::DestinationFull), &out, retry());
    assert_eq!(cut.error.map(|error| error.kind()), Some(Kind::DestinationFull));
    assert!(!cut.report.complete && cut.report.total.unfinished == 1, "{:?}", cut.report);
    // It still fails: said, and not called complete without a failure.
    let plain = ended(copy(failing(&pages, "x", Kind::Forbidden), &out, options()));
    assert_eq!((plain.total.written, plain.total.failed), (3, 1), "{plain:?}");
    assert!(!out.join("x").exists());
    assert!(copy(failing(&pages, "x", Kind::DestinationFull), &out, retry()).error.is_some());
    let plain = ended(copy(MemorySource::new(pages.to_vec(), 2), &out, options()));
    assert_eq!((plain.total.written, plain.total.failed, plain.complete), (4, 0, true), "{plain:?}");
    assert!(out.join("x").exists());
}

#[test]
fn failures_that_are_tried_again_do_not_make_a_listing_complete_that_was_broken_off() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let pages: Vec<Page> = (0..40).map(|page| objects(&[&format!("a-{page}"), &format!("b-{page}")])).collect();
    // Broken off late enough that the first pages are committed, "a-0" among them as a failure.
    let breaking = MemorySource::new(pages.clone(), 2).answering(|name, _| match name {
        b"a-0" => Answer::Fail(Kind::Forbidden),
        b"b-39" => {
            std::thread::sleep(Duration::from_millis(1500));
            Answer::Fail(Kind::DestinationFull)
        }
        _ => Answer::Whole,
    });
    let cut = copy(breaking, &out, options());
    assert!(cut.error.is_some() && cut.report.total.failed == 1, "{:?}", cut.report);
    let again = copy(MemorySource::new(pages.clone(), 2), &out, retry());
    assert!(again.error.is_none() && out.join("a-0").exists(), "{again:?}");
    assert!(!again.report.complete, "the listing has not ended: {:?}", again.report);
    let plain = ended(copy(MemorySource::new(pages.clone(), 2), &out, options()));
    assert_eq!((plain.total.written, plain.complete), (80, true), "{plain:?}");
    assert!(files(&out) == pages.into_iter().flatten().collect());
}

#[test]
fn what_was_added_to_the_last_page_since_it_was_committed_is_not_passed_over() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    // All of it is committed; only a later try of one object is left when the run is stopped. It is not due yet when the page is
    // listed again, or it would be there already.
    let source = MemorySource::new(vec![objects(&["a", "b", "c", "x"])], 2).answering(|asked, _| match asked {
        b"x" => Answer::Later(Duration::from_secs(4)),
        _ => Answer::Whole,
    });
    let sink = DirSink::new(&out, DirOptions::of(&options())).unwrap();
    let mut stop = |progress: &Progress| match progress.listing_done && progress.deferred > 0 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let cut = Transfer::new(Arc::new(source), Arc::new(sink), options()).run(&mut stop);
    assert_eq!((cut.report.total.written, cut.report.total.unfinished), (3, 1), "{:?}", cut.report);
    let pages = [objects(&["new-1", "new-2", "a", "b", "c", "x"])];
    let resumed = ended(copy(MemorySource::new(pages.to_vec(), 2), &out, options()));
    assert!(resumed.complete && files(&out) == pages.into_iter().flatten().collect(), "{resumed:?}");
    assert_eq!((resumed.total.listed, resumed.total.written), (6, 6), "{resumed:?}");
}

#[test]
fn a_torn_file_whose_name_moved_above_the_mark_is_replaced() {
    for twice in [Twice::SameObject, Twice::Repeated, Twice::Conflict] {
        let temp = temp_dir();
        let out = temp.path().join("out");
        let names: Vec<String> = (0..60).map(|n| format!("o-{n}")).collect();
        let page = objects(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let torn: PathBuf = out.join("o-3");
        let cut = torn.clone();
        let source = MemorySource::new(vec![page.clone()], 100).twice(twice).answering(move |name, _| {
            if name != b"o-50" {
                return Answer::Whole;
            }
            // What a power cut leaves of it, while the session runs.
            std::fs::File::options().write(true).open(&cut).unwrap().set_len(0).unwrap();
            Answer::Fail(Kind::DestinationFull)
        });
        assert!(copy(source, &out, options()).error.is_some());
        assert_eq!(std::fs::read(&torn).unwrap(), b"");

        // More partitions before it than were ever marked as handed out.
        let mut pages: Vec<Page> = (0..1100).map(|n| objects(&[&format!("new-{n}")])).collect();
        pages.push(page);
        let source = MemorySource::new(pages.clone(), 100).twice(twice);
        let resumed = ended(copy(source, &out, TransferOptions { workers: Workers::Fixed(4), ..options() }));
        if twice == Twice::SameObject {
            assert_eq!((resumed.total.written, resumed.total.failed, resumed.complete), (1160, 0, true), "{resumed:?}");
            assert!(files(&out) == pages.into_iter().flatten().collect());
        } else {
            // Without times a file looks whole where its object was never handed out: a failure, and not silence.
            assert_eq!((resumed.total.written, resumed.total.failed), (1159, 1), "{resumed:?}");
            assert_eq!(&*resumed.failures[0].name, b"o-3");
        }
    }
}

#[test]
fn a_directory_that_lists_in_another_order_when_it_is_resumed_is_copied_whole() {
    // Where a directory lists the files that were made last first.
    let Ok(temp) = tempfile::tempdir_in("/dev/shm") else { return };
    let (from, out) = (temp.path().join("from"), temp.path().join("out"));
    let names: Vec<String> = (0..25_000).map(|n| format!("o-{n}")).collect();
    std::fs::create_dir(&from).unwrap();
    let make = |names: &mut dyn Iterator<Item = &String>| {
        for name in names {
            std::fs::write(from.join(name), name).unwrap();
        }
    };
    make(&mut names.iter());
    let copy = |enough: u64| {
        let source = Files::new(FilesFrom::Path(from.clone()), FilesOptions::default()).unwrap();
        let sink = DirSink::new(&out, DirOptions::of(&options())).unwrap();
        Transfer::new(Arc::new(source), Arc::new(sink), options()).run(&mut |seen| match seen.committed >= enough {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    };
    let cut = copy(10_000); // a page of 10,000 is behind the frontier
    assert_eq!(cut.error.map(|error| error.kind()), Some(Kind::Interrupted));
    assert!(cut.report.total.written < 25_000, "it was not cut");
    names.iter().for_each(|name| std::fs::remove_file(from.join(name)).unwrap());
    make(&mut names.iter().rev());
    let resumed = ended(copy(u64::MAX));
    assert_eq!((resumed.total.written, resumed.total.failed, resumed.complete), (25_000, 0, true), "{resumed:?}");
    assert!(resumed.notes.iter().any(|note| note.contains("the listing has changed")), "{:?}", resumed.notes);
    assert!(names.iter().all(|name| std::fs::read(out.join(name)).is_ok_and(|bytes| bytes == name.as_bytes())));
}

#[test]
fn a_later_try_that_is_an_hour_ahead_because_the_clock_was_set_back_is_due_at_once() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let pages = [objects(&["a", "x"])];
    let source = MemorySource::new(pages.to_vec(), 2);
    let key = key_of(&source, "names");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let x = Failed {
        locator: b"x".as_slice().into(),
        name: b"x".as_slice().into(),
        kind: Kind::Timeout.as_str(),
        reason: "before the clock was set back".into(),
        tries: 1,
        tried_ms: 1,
        due_ms: Some(now + 3_600_000),
    };
    let partition = {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut listing = source.list(None).unwrap();
        runtime.block_on(listing.next()).unwrap().unwrap()
    };
    std::fs::create_dir(&out).unwrap();
    let (mut journal, _) = Journal::open(&Location::Directory(out.clone()), &key, &OpenOptions::default()).unwrap();
    journal.mark(1).unwrap();
    let done =
        Done { seq: 0, key: partition.key, listed: 2, written: 1, bytes: 10, failures: vec![x], ..Done::default() };
    journal.commit(&Commit { done: vec![done], ..Commit::default() }, Durable::All).unwrap();
    drop(journal);
    let began = Instant::now();
    let sink = DirSink::new(&out, DirOptions::of(&options())).unwrap();
    let resumed = ended(Transfer::new(Arc::new(source), Arc::new(sink), options()).run(&mut |_| {
        match began.elapsed() < Duration::from_secs(30) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()), // it waits for the hour to pass
        }
    }));
    assert_eq!((resumed.total.written, resumed.total.unfinished, resumed.complete), (2, 0, true), "{resumed:?}");
    assert!(out.join("x").exists());
}

#[test]
fn a_run_that_wrote_numbered_directories_is_refused_however_it_is_resumed() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    std::fs::create_dir_all(out.join("00/0000/00")).unwrap();
    std::fs::write(out.join("00/0000/00/a"), b"bytes of a").unwrap();
    let source = MemorySource::new(vec![objects(&["a", "b"])], 1);
    let location = Location::Directory(out.clone());
    let (mut journal, _) = Journal::open(&location, &key_of(&source, "partition"), &OpenOptions::default()).unwrap();
    journal.mark(1).unwrap();
    drop(journal);
    let database = out.join(".shoal/journal.db");
    let stored = |database| -> String {
        let connection = rusqlite::Connection::open(database).unwrap();
        connection.query_row("SELECT options FROM run", [], |row| row.get(0)).unwrap()
    };
    let recorded = r#"[["include","[]"],["exclude","[]"],["layout","partition"]]"#;
    assert_eq!(stored(&database), recorded, "as earlier versions have written it");
    for resume in [Resume::Auto, Resume::Failed, Resume::Relist, Resume::Update, Resume::Restart] {
        for dry_run in [false, true] {
            let outcome = copy(source.clone(), &out, TransferOptions { resume, dry_run, ..options() });
            let error = outcome.error.unwrap();
            assert_eq!(error.kind(), Kind::JournalMismatch, "{resume:?}, {dry_run}: {error}");
            assert!(error.advice().unwrap().contains("\"parquet:DIR\""), "{error}");
        }
    }
    assert_eq!(names(&out), ["00/0000/00/a"]);
    assert_eq!(stored(&database), recorded);
}
