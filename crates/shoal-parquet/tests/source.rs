//! What the source promises for datasets that are whole: the contract of all sources, and resuming.

mod support;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parquet::basic::{Compression, GzipLevel};
use parquet::file::properties::WriterVersion;
use shoal_engine::listed::{Listed, each_listed};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::testing::source_contract;
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, TransferOptions};
use support::{Layout, Objects, batch, file, objects, options, read, source, write};

#[test]
fn datasets_of_all_layouts_keep_the_contract_of_a_source() {
    let expected = objects(1200);
    let of_others = Layout::of_others();
    let layouts = [
        Layout::default(),
        Layout { compression: Compression::UNCOMPRESSED, delta: false, ..Layout::default() },
        Layout { version: WriterVersion::PARQUET_2_0, group_rows: 100_000, ..Layout::default() },
        Layout { page_bytes: 1, ..Layout::default() },
        Layout { page_bytes: 1 << 20, ..of_others.clone() },
        Layout { group_rows: 7, ..of_others.clone() },
        Layout { compression: Compression::GZIP(GzipLevel::default()), delta: true, ..of_others.clone() },
        Layout { has_index: true, ..of_others },
    ];
    for layout in layouts {
        println!("{layout:?}");
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &expected, 500, &layout);
        source_contract::run(&source(directory.path()), &expected);
    }
}

fn copy(directory: &Path, out: &Path, stop_after: u64) -> Outcome {
    // One worker: with two, all but the first page may be committed where one of them gets no processor.
    let sink = DirSink::new(out, DirOptions::of(&options(1))).unwrap();
    let transfer = Transfer::new(source(directory), Arc::new(sink), options(1)).in_batches_of(100);
    let outcome = transfer.run(&mut |progress| match progress.committed >= stop_after {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    assert!(outcome.report.run.balanced() && outcome.report.total.balanced());
    outcome
}

/// The files of a directory, by name.
fn tree(root: &Path) -> Objects {
    let mut found = Objects::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true if entry.file_name() == ".shoal" => {}
                true => directories.push(entry.path()),
                false => {
                    let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().as_bytes().to_vec();
                    found.insert(name, std::fs::read(entry.path()).unwrap());
                }
            }
        }
    }
    found
}

/// Copies a part (a page of the listing has 2,000 rows here), lets `change` change the dataset, and copies the rest.
fn interrupted(change: impl FnOnce(&[PathBuf])) -> (Objects, Objects, [Outcome; 2]) {
    let (directory, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected: Objects = (0..8000).map(|n| (format!("d{}/n{n:06}", n % 9).into(), format!("{n}").into())).collect();
    let paths = write(directory.path(), &expected, 2000, &Layout { group_rows: 20, ..Layout::default() });
    let first = copy(directory.path(), out.path(), 2400);
    assert_eq!(first.error.as_ref().map(shoal_engine::Error::kind), Some(Kind::Interrupted));
    assert!(first.report.total.written < 8000);
    change(&paths);
    let second = copy(directory.path(), out.path(), u64::MAX);
    assert!(second.error.is_none(), "{:?}", second.error);
    (expected, tree(out.path()), [first, second])
}

fn says_that_the_listing_changed(outcome: &Outcome) -> bool {
    outcome.report.notes.iter().any(|note| note.contains("the listing has changed"))
}

#[test]
fn a_copy_that_was_interrupted_continues_and_writes_each_object_once() {
    let (expected, found, [first, second]) = interrupted(|_| {});
    assert!(found == expected);
    assert!(!says_that_the_listing_changed(&second));
    assert_eq!(second.report.total.written, 8000);
    // What was committed is not fetched again.
    assert!(second.report.run.written <= 8000 - first.report.total.written);
}

#[test]
fn a_file_that_was_replaced_between_two_sessions_is_noticed() {
    let other: Objects = (0..2000).map(|n| (format!("new/n{n:06}").into(), b"new".to_vec())).collect();
    let bytes = file(&batch(other.iter().map(|(name, data)| (&name[..], &data[..]))), &Layout::default());
    let (expected, found, [_, second]) = interrupted(|paths| {
        std::fs::write(paths[0].with_extension("tmp"), &bytes).unwrap();
        std::fs::rename(paths[0].with_extension("tmp"), &paths[0]).unwrap();
    });
    assert!(says_that_the_listing_changed(&second), "{:?}", second.report.notes);
    assert!(other.iter().all(|(name, data)| found.get(name) == Some(data)));
    let rest = expected.iter().skip(2000);
    assert!(rest.into_iter().all(|(name, data)| found.get(name) == Some(data)));
    assert_eq!(second.report.total.written, 8000);
}

#[test]
fn a_file_that_was_touched_or_deleted_between_two_sessions_is_noticed() {
    let (_, _, [_, second]) = interrupted(|paths| std::fs::remove_file(&paths[0]).unwrap());
    assert!(says_that_the_listing_changed(&second), "{:?}", second.report.notes);
    let total = second.report.total;
    assert_eq!(
        (total.listed, total.written, total.failed),
        (6001, 6000, 1),
        "the dataset is a failure: it is incomplete"
    );
    let (expected, found, [_, second]) = interrupted(|paths| {
        let bytes = std::fs::read(&paths[0]).unwrap();
        std::fs::write(&paths[0], bytes).unwrap(); // the same, but its change time says that it may not be
    });
    assert!(says_that_the_listing_changed(&second) && found == expected);
}

#[test]
fn files_that_are_added_behind_the_cursor_are_copied_too() {
    let other: Objects = (0..100).map(|n| (format!("new/n{n:06}").into(), b"new".to_vec())).collect();
    let bytes = file(&batch(other.iter().map(|(name, data)| (&name[..], &data[..]))), &Layout::default());
    let (expected, found, [_, second]) =
        interrupted(|paths| std::fs::write(paths[0].with_file_name("objects-000009.parquet"), &bytes).unwrap());
    assert!(!says_that_the_listing_changed(&second));
    assert_eq!(found.len(), expected.len() + other.len());
}

#[test]
fn failures_are_retried_by_their_locators_once_the_file_is_repaired() {
    let (directory, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected: Objects = (0..900).map(|n| (format!("n{n:06}").into(), format!("{n}").into())).collect();
    let paths = write(directory.path(), &expected, 1000, &Layout::default());
    let good = std::fs::read(&paths[0]).unwrap();
    let mut bad = good.clone();
    bad[100] ^= 1; // in the first row group, in the names
    std::fs::write(&paths[0], bad).unwrap();
    let first = copy(directory.path(), out.path(), u64::MAX);
    assert_eq!((first.report.total.written, first.report.total.failed), (600, 300));
    std::fs::write(&paths[0], good).unwrap();
    let second = copy(directory.path(), out.path(), u64::MAX);
    // One name could not be read as it is, so it is not the row that failed.
    let (written, failed) = (second.report.total.written, second.report.total.failed);
    assert!(written >= 890 && written + failed == 900, "{written} written, {failed} failed");
    assert!(tree(out.path()).iter().all(|(name, data)| expected.get(name) == Some(data)));
}

#[test]
fn checksums_that_another_program_copied_do_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let expected = objects(300);
    write(directory.path(), &expected, 1000, &Layout { stale: true, ..Layout::of_others() });
    let (outcome, arrived) = read(directory.path());
    assert!(outcome.report.run.failed == 0 && arrived == expected, "{:?}", outcome.report.failures);
}

#[test]
fn metadata_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let expected: Objects = (0..12).map(|n| (format!("n{n:02}").into(), vec![b'x'; n])).collect();
    write(directory.path(), &expected, 100, &Layout::default());
    let mut listed = Vec::new();
    let each = &mut |one: Result<Listed, _>| {
        listed.push(one.unwrap());
        ControlFlow::Continue(())
    };
    each_listed(&*source(directory.path()), &TransferOptions::default(), each).unwrap();
    assert_eq!(listed.len(), 12);
    for (row, listed) in listed.iter().enumerate() {
        assert_eq!((listed.size, &listed.name[..]), (Some(row as u64), format!("n{row:02}").as_bytes()));
        let time = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789 + row as u64);
        assert_eq!(listed.modified, (!row.is_multiple_of(3)).then_some(time));
        assert!(listed.archive.as_ref().unwrap().ends_with(b"/objects-000000.parquet"));
    }
}
