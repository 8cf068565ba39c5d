//! What the engine promises of any source and sink: counts that balance, retries, stops, shared partitions.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use shoal_engine::options::{Durability, Resume, Workers};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, TransferOptions};

fn pages(count: usize, per_page: usize) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let objects: Vec<_> = (0..count).map(|n| (format!("o-{n}").into_bytes(), vec![n as u8; n % 50])).collect();
    objects.chunks(per_page).map(<[_]>::to_vec).collect()
}

fn run(source: MemorySource, sink: &MemorySink, options: TransferOptions) -> Outcome {
    let outcome =
        Transfer::new(Arc::new(source), Arc::new(sink.clone()), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.report.run.balanced(), "{:?}", outcome.report);
    outcome
}

fn all_there(sink: &MemorySink, pages: &[Vec<(Vec<u8>, Vec<u8>)>]) -> bool {
    sink.objects() == pages.iter().flatten().cloned().collect()
}

#[test]
fn every_object_arrives_and_the_counts_balance() {
    let pages = pages(5000, 250);
    let sink = MemorySink::new();
    let outcome = run(MemorySource::new(pages.clone(), 100), &sink, TransferOptions::default());
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!((outcome.report.run.listed, outcome.report.run.written), (5000, 5000));
    assert!(all_there(&sink, &pages));
}

#[test]
fn an_empty_listing_is_a_complete_run() {
    for pages in [vec![], vec![vec![]], vec![vec![], vec![], vec![]]] {
        let outcome = run(MemorySource::new(pages, 100), &MemorySink::new(), TransferOptions::default());
        assert!(outcome.error.is_none() && outcome.report.complete);
    }
}

#[test]
fn a_budget_of_one_byte_slows_down_but_does_not_stop() {
    let pages = pages(500, 100);
    let sink = MemorySink::new();
    let outcome = run(
        MemorySource::new(pages.clone(), 10),
        &sink,
        TransferOptions { memory: 1, workers: Workers::Fixed(32), ..TransferOptions::default() },
    );
    assert!(outcome.error.is_none() && all_there(&sink, &pages));
}

#[test]
fn a_panic_in_a_lane_becomes_an_error_and_the_other_lanes_stop() {
    let source = MemorySource::new(pages(2000, 100), 10)
        .answering(|name, _| if name == b"o-700" { Answer::Panic } else { Answer::Whole });
    let outcome = run(source, &MemorySink::new(), TransferOptions::default());
    let error = outcome.error.expect("a panic is not silent");
    assert_eq!(error.kind(), Kind::Internal);
    assert!(error.to_string().contains("as scripted"), "{error}");
    assert!(outcome.report.run.unfinished > 0);
}

#[test]
fn a_failed_object_is_recorded_with_its_reason_and_the_rest_arrives() {
    let source = MemorySource::new(pages(300, 100), 100)
        .answering(|name, _| if name == b"o-7" { Answer::Fail(Kind::Forbidden) } else { Answer::Whole });
    let outcome = run(source, &MemorySink::new(), TransferOptions::default());
    assert!(outcome.error.is_none());
    assert_eq!((outcome.report.run.written, outcome.report.run.failed), (299, 1));
    let failure = &outcome.report.failures[0];
    assert_eq!((&*failure.name, &*failure.kind, &*failure.reason), (&b"o-7"[..], "forbidden", "as scripted"));
}

/// Files below a destination, but for shoal's own.
fn files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_name() != ".shoal")
        .map(|entry| if entry.file_type().unwrap().is_dir() { files(&entry.path()) } else { 1 })
        .sum()
}

/// Every seventh object is withdrawn after it was written.
fn withdrawing(at_end: bool, count: usize) -> MemorySource {
    MemorySource::new(pages(count, 100), 30).answering(move |name, _| {
        let number: usize = std::str::from_utf8(&name[2..]).unwrap().parse().unwrap();
        match number % 7 {
            0 => Answer::Withdrawn { kind: Kind::ShortBody, at_end },
            _ => Answer::Whole,
        }
    })
}

#[test]
fn an_object_that_was_written_and_withdrawn_is_a_failure_however_late() {
    for at_end in [false, true] {
        let sink = MemorySink::new();
        let outcome = run(withdrawing(at_end, 700), &sink, TransferOptions::default());
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        let (run, total) = (outcome.report.run, outcome.report.total);
        assert_eq!((run.listed, run.written, run.failed), (700, 600, 100), "{at_end}");
        assert_eq!(run, total);
        assert!(outcome.report.complete);
        assert_eq!(sink.objects().len(), 600);
        assert!(outcome.report.failures.iter().all(|failure| failure.kind == "short-body" && failure.tries == 1));
    }
}

#[test]
fn what_was_withdrawn_stays_a_failure_until_it_is_tried_again() {
    for at_end in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let copy = |source: MemorySource, resume: Resume| {
            let sink = DirSink::new(dir.path(), DirOptions::default()).unwrap();
            let options = TransferOptions { resume, ..TransferOptions::default() };
            Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |_| ControlFlow::Continue(()))
        };
        let counts = |outcome: &Outcome| {
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
            let total = outcome.report.total;
            assert_eq!(files(dir.path()) as u64, total.written, "a failure has no file");
            (total.written, total.failed, total.bytes)
        };
        let all = pages(70, 100).concat();
        let size: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
        let lost: usize = all.iter().step_by(7).map(|(_, bytes)| bytes.len()).sum();
        let kept = (size - lost) as u64;
        assert_eq!(counts(&copy(withdrawing(at_end, 70), Resume::Auto)), (60, 10, kept));
        assert_eq!(
            counts(&copy(withdrawing(at_end, 70), Resume::Auto)),
            (60, 10, kept),
            "the same command says so again"
        );
        assert_eq!(counts(&copy(withdrawing(at_end, 70), Resume::Failed)), (60, 10, kept), "and if it happens again");
        assert_eq!(counts(&copy(MemorySource::new(pages(70, 100), 30), Resume::Failed)), (70, 0, size as u64));
    }
}

#[test]
fn tries_are_used_up_and_then_the_object_has_failed() {
    let source = MemorySource::new(pages(50, 50), 10)
        .answering(|name, _| if name == b"o-7" { Answer::Fail(Kind::ServerError) } else { Answer::Whole });
    let fetches = source.clone();
    let outcome = run(source, &MemorySink::new(), TransferOptions { max_retries: 3, ..TransferOptions::default() });
    assert_eq!(outcome.report.run.failed, 1);
    assert_eq!(outcome.report.failures[0].tries, 4);
    assert_eq!(fetches.fetches()[&b"o-7"[..]], 4);
}

#[test]
fn an_object_that_must_wait_long_is_deferred_and_its_partition_committed_meanwhile() {
    // Throttled answers wait up to 1, 2, 4 s: well over what a partition waits for.
    let source = MemorySource::new(pages(50, 50), 50).answering(|name, count| {
        if name == b"o-7" && count < 4 { Answer::Fail(Kind::Throttled) } else { Answer::Whole }
    });
    let mut seen_deferred = false;
    let sink = MemorySink::new();
    let outcome = Transfer::new(Arc::new(source), Arc::new(sink.clone()), TransferOptions::default()).run(&mut |p| {
        seen_deferred |= p.deferred == 1 && p.committed >= 49;
        ControlFlow::Continue(())
    });
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!((outcome.report.run.written, outcome.report.run.failed), (50, 0));
    assert!(outcome.report.run.balanced() && outcome.report.total.balanced());
    // Jitter can make all three waits short; then nothing was deferred.
    assert!(seen_deferred || outcome.report.elapsed < Duration::from_secs(3));
}

#[test]
fn too_many_failures_stop_the_run() {
    let source = MemorySource::new(pages(3000, 100), 10).answering(|_, _| Answer::Fail(Kind::Forbidden));
    let outcome =
        run(source, &MemorySink::new(), TransferOptions { max_failures: Some(10), ..TransferOptions::default() });
    assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::TooManyFailures));
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let pages = pages(20_000, 1000);
    let mut written = 0;
    for session in 0.. {
        let dir = DirOptions { durability: Durability::None, ..DirOptions::default() };
        let sink = DirSink::new(&directory.path().join("out"), dir).unwrap();
        let source = MemorySource::new(pages.clone(), 100);
        let options = TransferOptions { durability: Durability::None, ..TransferOptions::default() };
        let began = Instant::now();
        let outcome = Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |progress| {
            let enough = session < 3 && progress.committed > 1000;
            if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(outcome.report.run.balanced() && outcome.report.total.balanced(), "{:?}", outcome.report);
        written += outcome.report.run.written;
        match outcome.error {
            None => break,
            Some(error) => assert_eq!(error.kind(), Kind::Interrupted),
        }
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    assert_eq!(written, 20_000, "committed objects are not written again");
}

#[test]
fn what_auto_has_found_is_there_for_the_next_session_and_only_another_search_replaces_it() {
    let directory = tempfile::tempdir().unwrap();
    let pages = pages(40_000, 1000); // on a busy machine, the search takes long
    let copy = |count: usize, out: &str, workers, stops: bool| {
        let dir = DirOptions { durability: Durability::None, ..DirOptions::default() };
        let sink = DirSink::new(&directory.path().join(out), dir).unwrap();
        // After 4,000 objects it gets so slow that it can be stopped before its end.
        let source = MemorySource::new(pages[..count].to_vec(), 100).answering(move |name, _| {
            let number: usize = std::str::from_utf8(&name[2..]).unwrap().parse().unwrap();
            if stops && number >= 4_000 {
                std::thread::sleep(Duration::from_millis(10));
            }
            Answer::Whole
        });
        let options = TransferOptions { durability: Durability::None, workers, ..TransferOptions::default() };
        let database = directory.path().join(out).join(".shoal/journal.db");
        let learnt = || -> rusqlite::Result<Option<u32>> {
            let database = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            database.query_row("SELECT learnt FROM progress", [], |row| row.get(0))
        };
        let outcome = Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |_| {
            // A kill now would not lose it.
            match stops && learnt().is_ok_and(|found| found.is_some()) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        assert!(outcome.report.run.balanced() && outcome.report.total.balanced(), "{:?}", outcome.report);
        (outcome, learnt().unwrap())
    };
    let (outcome, learnt) = copy(40, "out", Workers::Auto, true);
    assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::Interrupted));
    assert_eq!(learnt.map(|found| found as usize), Some(outcome.report.workers), "also when it was interrupted");
    let (outcome, _) = copy(40, "out", Workers::Auto, true);
    let began = outcome.report.concurrency.first().map(|step| step.workers);
    assert_eq!(began, learnt.map(|found| found as usize), "the next session begins with it");
    let (outcome, kept) = copy(40, "out", Workers::Fixed(3), false);
    assert!(outcome.report.complete && outcome.report.run.written > 2_000, "{:?}", outcome.report);
    assert_eq!(kept, learnt, "a number that was asked for is not found");
    let (outcome, kept) = copy(40, "out", Workers::Auto, false);
    assert_eq!((outcome.report.run.written, kept), (0, learnt), "there was nothing to do");
    assert_eq!(copy(1, "few", Workers::Auto, false).1, None, "too little to find anything");
}

#[test]
fn a_cap_on_bytes_is_kept() {
    let objects: Vec<_> = (0..40).map(|n| (format!("o-{n}").into_bytes(), vec![0; 10_000])).collect();
    let began = Instant::now();
    let options = TransferOptions { limit_rate: Some(400_000), ..TransferOptions::default() };
    let outcome = run(MemorySource::new(vec![objects], 10), &MemorySink::new(), options);
    assert!(outcome.error.is_none());
    let seconds = began.elapsed().as_secs_f64();
    assert!((0.5..3.0).contains(&seconds), "400 kB at 400 kB/s took {seconds} s");
}

#[test]
fn filters_skip_and_the_counts_still_balance() {
    let options = TransferOptions { include: vec!["o-1*".into()], exclude: vec!["o-11*".into()], ..Default::default() };
    let sink = MemorySink::new();
    let outcome = run(MemorySource::new(pages(200, 50), 10), &sink, options);
    let wanted = (0..200).map(|n| format!("o-{n}")).filter(|n| n.starts_with("o-1") && !n.starts_with("o-11")).count();
    assert_eq!(sink.objects().len(), wanted);
    assert_eq!(outcome.report.run.skipped, 200 - wanted as u64);
}

#[test]
fn no_good_answer_for_too_long_ends_the_run_and_nothing_has_failed() {
    let source = MemorySource::new(pages(2000, 100), 10).answering(|_, _| Answer::Fail(Kind::Connect));
    let options = TransferOptions { retry_timeout: Duration::from_secs(1), ..TransferOptions::default() };
    let outcome = run(source, &MemorySink::new(), options);
    assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::Unreachable));
    assert_eq!((outcome.report.run.failed, outcome.report.run.unfinished), (0, outcome.report.run.listed));
}
