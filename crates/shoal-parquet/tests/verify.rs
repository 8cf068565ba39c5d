//! What a check without a journal finds.

mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use shoal_engine::Kind;
use shoal_engine::source::memory::MemorySource;
use shoal_engine::transfer::Transfer;
use shoal_parquet::schema::FOOTER_CHECKSUM;
use shoal_parquet::sink::{ParquetOptions, ParquetSink};
use shoal_parquet::verify::{RowPlace, Verified, VerifyOptions, verify};
use support::{Layout, Objects, batch, file, objects, options, write};

fn check(directory: &Path) -> Verified {
    let mut last = None;
    let verified = verify(directory, &VerifyOptions { workers: 3, ..VerifyOptions::default() }, &mut |progress| {
        last = Some(*progress);
        ControlFlow::Continue(())
    });
    let (verified, last) = (verified.unwrap(), last.unwrap());
    assert_eq!((last.files, last.objects, last.bytes), (verified.files, verified.objects, verified.bytes));
    assert_eq!(last.files, last.files_total);
    verified
}

fn bytes_of(objects: &Objects) -> u64 {
    objects.values().map(|data| data.len() as u64).sum()
}

/// A dataset of three files of 400 rows, in row groups of 100.
fn dataset() -> (tempfile::TempDir, Vec<std::path::PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let objects: Objects = (0..1200).map(|n| (format!("n{n:06}").into(), format!("{n}").into())).collect();
    let paths = write(directory.path(), &objects, 400, &Layout { group_rows: 100, ..Layout::default() });
    (directory, paths)
}

/// The one damaged file of a dataset: its name, its faults, and what was found first.
fn damaged(verified: &Verified) -> (&str, u64, &str) {
    let [damaged] = &verified.damaged[..] else { panic!("{verified:?}") };
    assert!(!verified.is_good());
    (&damaged.file, damaged.faults, &damaged.reason)
}

#[test]
fn a_whole_dataset_is_good_and_counted() {
    for layout in [Layout::default(), Layout::of_others(), Layout { has_index: false, ..Layout::default() }] {
        let directory = tempfile::tempdir().unwrap();
        let objects = objects(2000);
        let paths = write(directory.path(), &objects, 300, &layout);
        let verified = check(directory.path());
        let without_checksums = if layout.has_checksums { 0 } else { paths.len() as u64 };
        let (files, objects, bytes) = (paths.len() as u64, objects.len() as u64, bytes_of(&objects));
        assert_eq!(verified, Verified { files, objects, bytes, without_checksums, ..Verified::default() });
        assert!(verified.is_good());
    }
}

/// Writes a dataset as a copy does.
fn pack(directory: &Path, objects: &Objects, parquet: ParquetOptions) {
    let all: Vec<_> = objects.iter().map(|(name, data)| (name.clone(), data.clone())).collect();
    let pages = all.chunks(100).map(<[_]>::to_vec).collect();
    let options = shoal_engine::TransferOptions { durability: Default::default(), ..options(2) };
    let sink = ParquetSink::new(directory, parquet, &options).unwrap();
    let source = MemorySource::new(pages, 20);
    let run = Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(run.error.is_none() && run.report.run.failed == 0, "{:?} {:?}", run.error, run.report.failures);
}

#[test]
fn what_the_sink_writes_is_good() {
    let directory = tempfile::tempdir().unwrap();
    let objects = objects(3000);
    pack(directory.path(), &objects, ParquetOptions { shard_size: 100_000, group_rows: 250, ..Default::default() });
    let verified = check(directory.path());
    assert!(verified.is_good() && verified.notes.is_empty(), "{verified:?}");
    assert_eq!((verified.objects, verified.bytes), (objects.len() as u64, bytes_of(&objects)));
    assert_eq!(verified.without_checksums, 0);
}

#[test]
fn a_changed_byte_is_found_by_its_checksum_and_the_rest_is_checked() {
    let (directory, paths) = dataset();
    let mut bytes = std::fs::read(&paths[1]).unwrap();
    bytes[20] ^= 4;
    std::fs::write(&paths[1], bytes).unwrap();
    let verified = check(directory.path());
    let why = "row group 0 does not match its checksum: any row of it may be wrong";
    assert_eq!(damaged(&verified), ("objects-000001.parquet", 1, why));
    assert_eq!((verified.files, verified.objects, verified.duplicates), (3, 1100, 0));
}

#[test]
fn a_changed_bit_behind_the_row_groups_of_a_file_of_shoal_is_found() {
    let (directory, objects) = (tempfile::tempdir().unwrap(), objects(50));
    pack(directory.path(), &objects, ParquetOptions::default());
    let path = directory.path().join("objects-000000.parquet");
    let whole = std::fs::read(&path).unwrap();
    let footer = |bytes: &[u8]| {
        let reader = parquet::file::metadata::ParquetMetaDataReader::new();
        reader.parse_and_finish(&bytes::Bytes::copy_from_slice(bytes)).unwrap()
    };
    let (start, length) = footer(&whole).row_groups().last().unwrap().columns().last().unwrap().byte_range();
    let mut unseen = 0;
    for at in (start + length) as usize..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bytes).unwrap();
        let verified = check(directory.path());
        if verified.is_good() && verified.without_checksums == 0 {
            // The key of the checksum, or its length, is not what it was: it must be there for the checksum to count.
            let footer = footer(&bytes);
            let pairs = footer.file_metadata().key_value_metadata().unwrap();
            assert!(pairs.iter().all(|pair| pair.key != FOOTER_CHECKSUM), "byte {at}");
            unseen += 1;
        }
    }
    assert!(unseen <= FOOTER_CHECKSUM.len() + 1, "{unseen} changes were not seen");
}

#[test]
fn a_file_that_is_cut_short_is_found() {
    let (directory, paths) = dataset();
    let bytes = std::fs::read(&paths[2]).unwrap();
    for length in [0, 4, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&paths[2], &bytes[..length]).unwrap();
        let verified = check(directory.path());
        let (file, faults, reason) = damaged(&verified);
        assert_eq!((file, faults, verified.objects), ("objects-000002.parquet", 1, 800));
        assert!(reason.starts_with("not a Parquet file"), "{reason}");
    }
}

#[test]
fn a_damaged_page_without_a_checksum_is_found_with_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let objects: Objects = (0..3000).map(|n| (format!("n{n:06}").into(), format!("{n}").into())).collect();
    let layout = Layout { group_rows: 100_000, has_checksums: false, ..Layout::default() };
    let paths = write(directory.path(), &objects, 3000, &layout);
    let mut bytes = std::fs::read(&paths[0]).unwrap();
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new();
    let metadata = metadata.parse_and_finish(&bytes::Bytes::from(bytes.clone())).unwrap();
    let (start, length) = metadata.row_group(0).column(2).byte_range();
    bytes[(start + length / 2) as usize..][..1000].fill(0xff);
    std::fs::write(&paths[0], bytes).unwrap();
    let verified = check(directory.path());
    let (_, faults, reason) = damaged(&verified);
    assert_eq!(verified.objects + faults, 3000);
    assert!(faults < 2000 && reason.starts_with("row ") && reason.contains("column \"data\""), "{reason}");
}

fn raw_file(path: &Path, names: Vec<Option<&str>>, data: Vec<Option<&[u8]>>, sizes: Vec<Option<i64>>) {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("name", Arc::new(StringArray::from(names))),
        ("size", Arc::new(Int64Array::from(sizes))),
        ("data", Arc::new(BinaryArray::from(data))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, one)| (name, one, true)));
    std::fs::write(path, file(&batch.unwrap(), &Layout { has_checksums: false, ..Layout::default() })).unwrap();
}

#[test]
fn rows_that_must_not_be_are_found() {
    let cases = [
        (vec![Some("a"), None], vec![Some(&b"A"[..]), Some(b"B")], vec![Some(1), Some(1)], "row 1: its name is null"),
        (vec![Some("a"), Some("b")], vec![None, Some(b"B")], vec![Some(1), Some(1)], "row 0: its data is null"),
        (
            vec![Some("a"), Some("b")],
            vec![Some(b"A"), Some(b"B")],
            vec![Some(1), Some(2)],
            "row 1: its \"size\" is 2, but its data has 1 bytes",
        ),
    ];
    for (names, data, sizes, why) in cases {
        let directory = tempfile::tempdir().unwrap();
        raw_file(&directory.path().join("objects-000000.parquet"), names, data, sizes);
        let verified = check(directory.path());
        assert_eq!(damaged(&verified), ("objects-000000.parquet", 1, why));
        assert_eq!(verified.objects, 1);
    }
}

#[test]
fn a_name_that_is_there_twice_is_found_with_both_places_whatever_the_memory() {
    let (directory, paths) = dataset();
    let rows: Vec<_> = ["other", "n000017", "n000500", "other"].map(|name| (name.as_bytes(), &b"x"[..])).into();
    std::fs::write(paths[0].with_file_name("objects-000003.parquet"), file(&batch(rows), &Layout::default())).unwrap();
    for memory in [0, 1 << 30] {
        let options = VerifyOptions { workers: 2, memory, ..VerifyOptions::default() };
        let verified = verify(directory.path(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((verified.duplicates, verified.objects, verified.damaged.len()), (3, 1204, 0));
        assert!(!verified.is_good());
        let place = |file: &str, row| RowPlace { file: format!("objects-{file}.parquet"), row };
        let mut found: Vec<_> = verified.examples.iter().map(|one| (&one.name[..], &one.first, &one.second)).collect();
        found.sort();
        let wanted = [
            (&b"n000017"[..], &place("000000", 17), &place("000003", 1)),
            (b"n000500", &place("000001", 100), &place("000003", 2)),
            (b"other", &place("000003", 0), &place("000003", 3)),
        ];
        assert_eq!(found, wanted);
    }
}

#[test]
fn files_that_are_missing_and_unfinished_ones_are_damage() {
    let (directory, paths) = dataset();
    std::fs::remove_file(&paths[1]).unwrap();
    std::fs::create_dir_all(directory.path().join(".shoal/tmp")).unwrap();
    std::fs::write(directory.path().join(".shoal/tmp/x.parquet"), b"PAR1").unwrap();
    let verified = check(directory.path());
    let name = directory.path().file_name().unwrap().to_str().unwrap();
    let why = "1 file in .shoal/tmp not finished, and not read: run the copy into this directory again to finish it";
    let missing = "it is missing: there are files with higher numbers, or the journal knows it";
    let mut found: Vec<_> = verified.damaged.iter().map(|one| (&*one.file, one.faults, &*one.reason)).collect();
    found.sort_unstable();
    assert_eq!(found, [(name, 1, why), ("objects-000001.parquet", 1, missing)]);
}

#[test]
fn a_check_stops_when_told_and_says_what_it_cannot_do() {
    let (directory, _) = dataset();
    let stopped = verify(directory.path(), &VerifyOptions::default(), &mut |_| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap_err().kind(), Kind::Interrupted);
    let empty = tempfile::tempdir().unwrap();
    let nothing = |path: &Path| {
        let verified = verify(path, &VerifyOptions::default(), &mut |_| ControlFlow::Continue(()));
        verified.unwrap_err().kind()
    };
    assert_eq!(nothing(empty.path()), Kind::Config);
    assert_eq!(nothing(&empty.path().join("missing")), Kind::Config);
    let options = VerifyOptions { memory: 0, temporary: empty.path().join("missing"), ..VerifyOptions::default() };
    let error = verify(directory.path(), &options, &mut |_| ControlFlow::Continue(()));
    // Few names fit into any memory, so it is not needed here.
    assert!(error.is_ok_and(|verified| verified.is_good()));
}
