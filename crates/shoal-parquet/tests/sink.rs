//! What a dataset has after runs that end well, fail at random moments and continue.

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use shoal_engine::options::{Durability, Overwrite, Resume};
use shoal_engine::session::Twice;
use shoal_engine::sink::Sink;
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::testing::faults::FailingSink;
use shoal_engine::testing::sink_contract;
use shoal_engine::transfer::Transfer;
use shoal_engine::{Kind, TransferOptions};
use shoal_parquet::sink::{ParquetOptions, ParquetSink};
use support::runs::{ended, expected, files, leftovers, objects, options, rows, run, sink, source};

#[test]
fn the_sink_keeps_the_contract() {
    sink_contract::run(|path| sink(path, &options()), |_| None);
}

#[test]
fn every_object_is_one_row_in_files_of_about_the_given_size() {
    let directory = tempfile::tempdir().unwrap();
    let objects = objects(10_000, 200);
    let outcome = run(source(&objects, 500), sink(directory.path(), &options()), options());
    ended(&outcome);
    assert_eq!(outcome.report.run.written, 10_000);
    assert!(rows(directory.path()) == expected(&objects));
    let files = files(directory.path());
    assert!(!files.is_empty() && files[0].ends_with("objects-000000.parquet"), "{files:?}");
    assert_eq!(leftovers(directory.path()), 0);
}

#[test]
fn times_are_kept_and_null_where_the_source_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let objects = objects(300, 20);
    let timed = source(&objects, 100).with_times(|name| {
        UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789 + u64::from(name[name.len() - 1]))
    });
    ended(&run(timed, sink(directory.path(), &options()), options()));
    let mut times = 0;
    for path in files(directory.path()) {
        for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let column = batch.column(3).as_primitive::<TimestampNanosecondType>();
            for (row, name) in batch.column(0).as_string::<i32>().iter().enumerate() {
                let last = *name.unwrap().as_bytes().last().unwrap();
                assert_eq!(column.value(row), 1_700_000_000_123_456_789 + i64::from(last));
                times += 1;
            }
            assert_eq!(batch.column(4).null_count(), batch.num_rows());
        }
    }
    assert_eq!(times, 300);
}

/// Fails after a random number of operations, again and again, and lets the last session end.
fn interrupted(seed: u64, objects: &[(Vec<u8>, Vec<u8>)], options: &TransferOptions, operations: u64) {
    let directory = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut published: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for session in 0.. {
        let inner = sink(directory.path(), options);
        let last = session == 4;
        let sink: Arc<dyn Sink> = match last {
            true => inner,
            false => Arc::new(FailingSink::new(inner, random.u64(..operations), random.bool())),
        };
        let outcome = run(source(objects, 500), sink, options.clone());
        for (path, bytes) in &published {
            assert!(&std::fs::read(path).unwrap() == bytes, "{path:?} was rewritten");
        }
        published.extend(files(directory.path()).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())));
        if last || outcome.error.is_none() {
            ended(&outcome);
            break;
        }
    }
    assert!(rows(directory.path()) == expected(objects), "seed {seed}");
    assert_eq!(leftovers(directory.path()), 0);
}

#[test]
fn a_run_that_fails_at_30_random_moments_has_every_object_once() {
    let objects = objects(6_000, 100);
    for seed in 0..30 {
        interrupted(seed, &objects, &options(), 7_000);
    }
}

#[test]
fn partitions_larger_than_memory_are_written_in_parts_and_committed_whole() {
    let objects = objects(400, 200_000);
    let options = TransferOptions { memory: 8 << 20, ..options() };
    for seed in 0..6 {
        interrupted(seed, &objects, &options, 500);
    }
}

#[test]
fn a_published_file_that_is_missing_or_short_stops_the_run() {
    for short in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let objects = objects(3_000, 100);
        let failing = FailingSink::new(sink(directory.path(), &options()), 2_500, false);
        assert!(run(source(&objects, 500), Arc::new(failing), options()).error.is_some());
        // Another run publishes what the first one left.
        let other = MemorySource::new(vec![vec![(b"x".to_vec(), b"1".to_vec())]], 100).named("other:");
        ended(&run(other, sink(directory.path(), &options()), options()));
        let first = files(directory.path()).remove(0);
        match short {
            true => File::options().write(true).open(&first).unwrap().set_len(1000).unwrap(),
            false => std::fs::remove_file(&first).unwrap(),
        }
        let error = run(source(&objects, 500), sink(directory.path(), &options()), options()).error.unwrap();
        assert_eq!(error.kind(), Kind::DestinationFailed);
        assert!(error.to_string().contains("objects-000000.parquet"), "{error}");
    }
}

/// Copies a page of 1,000 objects, one of which does not come, and stops when more than half are committed; or when it is
/// known that this one is retried later.
fn stopped_in_the_middle(path: &Path, source: MemorySource, deferred: u64) {
    let missing = |name: &[u8], _: u32| match name {
        b"o-000950" => Answer::Fail(Kind::Timeout),
        _ => Answer::Whole,
    };
    let run = Transfer::new(Arc::new(source.answering(missing)), sink(path, &options()), options()).in_batches_of(100);
    let outcome = run.run(&mut |progress| match progress.committed {
        600.. if progress.deferred >= deferred => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::Interrupted));
    assert!(outcome.report.run.written >= 600, "{:?}", outcome.report.run);
}

#[test]
fn a_page_that_changed_adds_only_names_that_are_not_there() {
    for deferred in [0, 1] {
        let directory = tempfile::tempdir().unwrap();
        let mut objects = objects(1_000, 100);
        stopped_in_the_middle(directory.path(), MemorySource::new(vec![objects.clone()], 100), deferred);
        objects.insert(50, (b"o-000049-new".to_vec(), b"new".to_vec()));
        let source = MemorySource::new(vec![objects.clone()], 100);
        let outcome = run(source, sink(directory.path(), &options()), options());
        ended(&outcome);
        assert!(rows(directory.path()) == expected(&objects), "{deferred} deferred");
        assert_eq!(outcome.report.total.written, 1_001);
    }
}

#[test]
fn an_object_with_the_name_of_a_stored_one_is_written_only_if_its_bytes_are() {
    let twice = [
        (Twice::SameObject, None),
        (Twice::Repeated, Some(Kind::Repeated)),
        (Twice::Conflict, Some(Kind::NameConflict)),
        (Twice::Reissued, Some(Kind::NameConflict)),
    ];
    for (twice, kind) in twice {
        let directory = tempfile::tempdir().unwrap();
        let mut objects = objects(1_000, 100);
        objects[10].0 = b"o-000950\0another".to_vec();
        let source = || MemorySource::new(vec![objects.clone()], 100).numbered().twice(twice);
        stopped_in_the_middle(directory.path(), source(), 1);
        let outcome = run(source(), sink(directory.path(), &options()), options());
        assert!(outcome.error.is_none(), "{twice:?}: {:?}", outcome.error);
        let found: Vec<_> = outcome.report.failures.iter().map(|failure| failure.kind.clone()).collect();
        let wanted: Vec<_> = kind.iter().map(|kind| kind.as_str().to_owned()).collect();
        assert_eq!(found, wanted, "{twice:?}");
        let (total, failed) = (outcome.report.total, u64::from(kind.is_some()));
        assert_eq!((total.written, total.failed, total.unfinished), (1_000 - failed, failed, 0), "{twice:?}");
        // What is one object for the source counts twice and is stored once.
        assert_eq!(rows(directory.path()).len(), 999, "{twice:?}");
    }
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let with = |change: fn(&mut TransferOptions)| {
        let mut options = options();
        change(&mut options);
        ParquetSink::new(Path::new("x"), ParquetOptions::default(), &options).err().map(|error| error.kind())
    };
    assert_eq!(with(|_| {}), None);
    assert_eq!(with(|options| options.resume = Resume::Update), Some(Kind::Config));
    assert_eq!(with(|options| options.resume = Resume::Restart), Some(Kind::Config));
    assert_eq!(with(|options| options.overwrite = Overwrite::Always), Some(Kind::Config));
    assert_eq!(with(|options| options.durability = Durability::None), Some(Kind::Config));
}

#[test]
fn names_that_are_not_utf8_and_objects_that_are_too_large_are_failures() {
    let directory = tempfile::tempdir().unwrap();
    let objects = vec![
        (b"a\xff".to_vec(), b"1".to_vec()),
        (b"../b\0".to_vec(), b"2".to_vec()),
        (b"large".to_vec(), vec![7; 2 << 20]),
    ];
    let options = TransferOptions { memory: 8 << 20, ..options() };
    let outcome = run(source(&objects, 10), sink(directory.path(), &options), options);
    assert!(outcome.error.is_none());
    assert_eq!((outcome.report.run.written, outcome.report.run.failed), (1, 2));
    assert_eq!(rows(directory.path()), expected(&objects[1..2]));
    let kinds: Vec<_> = outcome.report.failures.iter().map(|failure| failure.kind.clone()).collect();
    assert!(kinds.len() == 2, "{kinds:?}");
}

#[test]
fn files_that_the_journal_does_not_know_stop_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let objects = objects(300, 20);
    ended(&run(source(&objects, 100), sink(directory.path(), &options()), options()));
    std::fs::remove_dir_all(directory.path().join(".shoal")).unwrap();
    let error = run(source(&objects, 100), sink(directory.path(), &options()), options()).error.unwrap();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.to_string().contains("objects-000000.parquet"), "{error}");
    assert!(rows(directory.path()) == expected(&objects));
}

#[test]
fn a_dataset_that_was_moved_in_the_middle_of_a_run_is_continued() {
    let directory = tempfile::tempdir().unwrap();
    let (before, after) = (directory.path().join("before"), directory.path().join("after"));
    let objects = objects(1_000, 100);
    stopped_in_the_middle(&before, MemorySource::new(vec![objects.clone()], 100), 0);
    std::fs::rename(&before, &after).unwrap();
    let outcome = run(MemorySource::new(vec![objects.clone()], 100), sink(&after, &options()), options());
    ended(&outcome);
    assert!(outcome.report.run.written < 500, "{:?}", outcome.report.run);
    assert!(rows(&after) == expected(&objects));
}
