//! Datasets that are damaged, or are none: what can be read arrives unchanged, and everything else is a failure.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, ListArray,
    RecordBatch, StringArray, StringViewArray, TimestampMillisecondArray, types::Int32Type,
};
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaDataReader;
use shoal_engine::Kind;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::transfer::Outcome;
use support::{Layout, Objects, batch, file, objects, options, read, run_into, write};

fn small(count: usize) -> Objects {
    (0..count).map(|n| (format!("name-{n:05}").into_bytes(), format!("{n}-").repeat(n % 9).into_bytes())).collect()
}

/// What each failure says: its name, kind and reason.
fn failures(outcome: &Outcome) -> Vec<(String, String, String)> {
    let failures = outcome.report.failures.iter();
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    failures.map(|failure| (text(&failure.name), failure.kind.clone(), failure.reason.clone())).collect()
}

/// The one failure of a dataset of which nothing can be read.
fn only_failure(directory: &Path) -> (String, String, String) {
    let (outcome, objects) = read(directory);
    assert!(outcome.error.is_none() && objects.is_empty(), "{:?}", outcome.error);
    let failures = failures(&outcome);
    assert_eq!((failures.len(), outcome.report.run.listed), (1, 1), "{failures:?}");
    failures.into_iter().next().unwrap()
}

/// Reads a file of these bytes. What arrives must be what was written; returns how many arrived and failed.
fn arrives(bytes: &[u8], expected: &Objects, at: usize) -> (usize, u64) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("objects-000000.parquet"), bytes).unwrap();
    let (outcome, arrived) = read(directory.path());
    assert!(outcome.error.is_none(), "at {at}: {:?}", outcome.error);
    for (name, data) in &arrived {
        assert_eq!(expected.get(name), Some(data), "at {at}: {}", String::from_utf8_lossy(name));
    }
    let run = outcome.report.run;
    assert!(run.failed > 0 || arrived == *expected, "at {at}: something is missing, and nothing says so");
    assert_eq!(run.written as usize, arrived.len());
    (arrived.len(), run.failed)
}

fn layouts() -> [Layout; 3] {
    let plain = Layout { compression: Compression::UNCOMPRESSED, delta: false, ..Layout::default() };
    [Layout::default(), plain, Layout { has_checksums: false, ..Layout::default() }]
}

#[test]
fn a_file_that_ends_anywhere_is_one_failure() {
    let expected = small(400);
    for layout in layouts() {
        let bytes = file(&batch(expected.iter().map(|(name, data)| (&name[..], &data[..]))), &layout);
        for at in (0..bytes.len()).step_by(bytes.len() / 60) {
            assert_eq!(arrives(&bytes[..at], &expected, at), (0, 1), "cut at {at}");
        }
    }
}

#[test]
fn a_changed_byte_in_a_row_group_is_a_failure_of_its_objects() {
    let expected = small(900);
    for layout in layouts().into_iter().filter(|layout| layout.has_checksums) {
        let bytes = file(&batch(expected.iter().map(|(name, data)| (&name[..], &data[..]))), &layout);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(bytes.clone())).unwrap();
        for group in metadata.row_groups() {
            let (first, last) = (group.columns()[0].byte_range(), group.columns().last().unwrap().byte_range());
            let (begin, end) = (first.0 as usize, (last.0 + last.1) as usize);
            for at in (begin..end).step_by((end - begin) / 25).chain([end - 1]) {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << (at % 8);
                assert_eq!(arrives(&bytes, &expected, at), (600, 300), "at {at}");
            }
        }
    }
}

#[test]
fn a_changed_bit_in_the_index_of_pages_never_mixes_rows() {
    let expected = small(4500);
    // Pages of about 2,000 rows, which are read one by one: a wrong index could give the rows of one to another.
    let layout = Layout { group_rows: 100_000, page_bytes: 24 << 10, delta: false, ..Layout::default() };
    let bytes = file(&batch(expected.iter().map(|(name, data)| (&name[..], &data[..]))), &layout);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(bytes.clone())).unwrap();
    for column in [0, 2] {
        let index = metadata.row_group(0).column(column).offset_index_range().unwrap();
        for bit in index.start * 8..index.end * 8 {
            let (at, mut bytes) = ((bit / 8) as usize, bytes.clone());
            bytes[at] ^= 1 << (bit % 8);
            arrives(&bytes, &expected, at);
        }
    }
}

#[test]
fn a_changed_byte_behind_the_row_groups_never_mixes_rows() {
    let expected = small(900);
    let layout = Layout { group_rows: 100_000, page_bytes: 1 << 10, ..Layout::default() };
    let bytes = file(&batch(expected.iter().map(|(name, data)| (&name[..], &data[..]))), &layout);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(bytes.clone())).unwrap();
    let last = metadata.row_groups().last().unwrap().columns().last().unwrap().byte_range();
    let begin = (last.0 + last.1) as usize;
    for at in (begin..bytes.len()).step_by(3) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        arrives(&bytes, &expected, at);
    }
}

#[test]
fn a_damaged_page_without_a_checksum_is_a_failure_of_the_objects_in_it() {
    let expected = small(3000);
    let layout = Layout { group_rows: 100_000, has_checksums: false, ..Layout::default() };
    let bytes = file(&batch(expected.iter().map(|(name, data)| (&name[..], &data[..]))), &layout);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(bytes.clone())).unwrap();
    let (start, length) = metadata.row_group(0).column(2).byte_range();
    let mut damaged = bytes.clone();
    let middle = (start + length / 2) as usize;
    damaged[middle..middle + 40].fill(0xff);
    let (arrived, failed) = arrives(&damaged, &expected, middle);
    assert!(arrived > 2000 && (1..1000).contains(&failed), "{arrived} arrived, {failed} failed");
}

#[test]
fn a_row_group_whose_names_cannot_be_found_is_one_failure_and_the_others_arrive() {
    let expected = small(900);
    let layout = Layout { has_index: false, has_checksums: false, ..Layout::default() };
    let mut bytes = file(&batch(expected.iter().map(|(name, data)| (&name[..], &data[..]))), &layout);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(bytes.clone())).unwrap();
    let (start, _) = metadata.row_group(1).column(0).byte_range();
    bytes[start as usize..start as usize + 30].fill(0xff);
    assert_eq!(arrives(&bytes, &expected, start as usize), (600, 1));
}

fn one_file(directory: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
    let bytes = file(&batch.unwrap(), &Layout::of_others());
    std::fs::write(directory.join("some.parquet"), bytes).unwrap();
}

#[test]
fn a_column_that_is_missing_or_of_a_wrong_type_is_named() {
    let text = || Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef;
    let number = || Arc::new(Int64Array::from(vec![1, 1])) as ArrayRef;
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)]), None]);
    let cases: Vec<(Vec<(&str, ArrayRef)>, &str)> = vec![
        (vec![("name", text())], "no column \"data\" (its columns: name)"),
        (vec![("Name", text()), ("data", text())], "no column \"name\" (its columns: Name, data)"),
        (vec![("name", number()), ("data", text())], "its column \"name\" is INT64, not a string"),
        (vec![("name", text()), ("data", number())], "its column \"data\" is INT64, not binary or a string"),
        (vec![("name", text()), ("data", Arc::new(list))], "its column \"data\" is a group of columns"),
        (vec![("name", text()), ("data", text()), ("size", text())], "its column \"size\" is BYTE_ARRAY"),
        (
            vec![("name", text()), ("data", text()), ("last_modified", number())],
            "its column \"last_modified\" is INT64",
        ),
    ];
    for (columns, wanted) in cases {
        let directory = tempfile::tempdir().unwrap();
        one_file(directory.path(), columns);
        let (name, kind, reason) = only_failure(directory.path());
        assert_eq!((&name[..], &kind[..]), ("some.parquet", "archive"));
        assert!(reason.contains(wanted), "{reason}");
    }
}

#[test]
fn what_is_not_parquet_is_a_failure_that_says_so() {
    for (bytes, wanted) in
        [(&b""[..], "it is empty"), (b"PAR1", "not a Parquet file"), (&[7; 5000], "not a Parquet file")]
    {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x.parquet"), bytes).unwrap();
        let (_, kind, reason) = only_failure(directory.path());
        assert_eq!(kind, "archive");
        assert!(reason.contains(wanted), "{reason}");
    }
}

#[test]
fn nulls_and_wrong_sizes_are_failures_that_name_the_row_and_the_file() {
    let directory = tempfile::tempdir().unwrap();
    one_file(
        directory.path(),
        vec![
            ("name", Arc::new(StringArray::from(vec![Some("a"), None, Some("c"), Some("d"), Some("e"), Some("f")]))),
            ("data", Arc::new(StringArray::from(vec![Some("A"), Some("B"), None, Some("DD"), Some("E"), Some("")]))),
            ("size", Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(0), Some(3), None, Some(-1)]))),
        ],
    );
    let (outcome, arrived) = read(directory.path());
    let arrived: Vec<_> = arrived.into_keys().collect();
    assert_eq!(arrived, [b"a", b"e"]);
    let mut failures = failures(&outcome);
    failures.sort();
    let kinds: Vec<_> = failures.iter().map(|(name, kind, _)| (&name[..], &kind[..])).collect();
    assert_eq!(kinds, [("c", "archive"), ("d", "integrity"), ("f", "integrity"), ("some.parquet", "archive")]);
    let reasons: Vec<_> =
        failures.iter().map(|(.., reason)| reason.rsplit_once("parquet\": ").map_or(&reason[..], |r| r.1)).collect();
    let wanted = [
        "row 2: its data is null",
        "row 3: its \"size\" is 3, but its data has 2 bytes",
        "row 5: its \"size\" is -1",
        "row 1: its name is null",
    ];
    assert_eq!(reasons, wanted);
    assert!(failures[0].2.contains("some.parquet"), "{}", failures[0].2);
}

#[test]
fn files_of_other_programs_arrive_whatever_type_has_their_bytes() {
    let names = vec!["a", "b", "a-longer-name-than-twelve"];
    let text = || Arc::new(StringArray::from(names.clone())) as ArrayRef;
    let times = TimestampMillisecondArray::from(vec![Some(0), Some(-1), None]).with_timezone("UTC");
    let columns: Vec<Vec<(&str, ArrayRef)>> = vec![
        vec![("data", text()), ("other", Arc::new(Int32Array::from(vec![1, 2, 3]))), ("name", text())],
        vec![
            ("name", Arc::new(LargeStringArray::from(names.clone()))),
            ("data", Arc::new(LargeBinaryArray::from_iter_values(&names))),
        ],
        vec![
            ("name", Arc::new(StringViewArray::from(names.clone()))),
            ("data", Arc::new(BinaryArray::from_iter_values(&names))),
        ],
        vec![
            ("name", Arc::new(names.iter().copied().collect::<DictionaryArray<Int32Type>>())),
            ("data", Arc::new(names.iter().copied().collect::<DictionaryArray<Int32Type>>())),
            ("size", Arc::new(Int32Array::from(vec![1, 1, 25]))),
            ("last_modified", Arc::new(times)),
        ],
    ];
    let expected: Objects = names.iter().map(|name| (name.as_bytes().to_vec(), name.as_bytes().to_vec())).collect();
    for columns in columns {
        let directory = tempfile::tempdir().unwrap();
        one_file(directory.path(), columns);
        let (outcome, arrived) = read(directory.path());
        assert!(outcome.error.is_none() && arrived == expected, "{:?}", failures(&outcome));
    }
}

#[test]
fn unsafe_names_are_refused_and_the_rest_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["good", "../up", "/abs", "a/../b", "nul\0byte", "", "a//b", ".."];
    let rows: Vec<_> = names.iter().map(|name| (name.as_bytes(), &b"x"[..])).collect();
    std::fs::write(directory.path().join("objects-000000.parquet"), file(&batch(rows), &Layout::default())).unwrap();
    let out = directory.path().join("sub/out");
    let sink = DirSink::new(&out, DirOptions::of(&options(2))).unwrap();
    let outcome = run_into(directory.path(), Arc::new(sink), options(2));
    assert_eq!((outcome.report.run.written, outcome.report.run.failed), (1, 7), "{:?}", failures(&outcome));
    assert!(failures(&outcome).iter().all(|(_, kind, _)| kind == "unsafe-name"));
    let mut written: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    written.sort();
    assert_eq!(written, [".shoal", "good"]);
}

#[test]
fn a_file_without_rows_is_nothing_and_a_directory_without_files_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (outcome, _) = read(directory.path());
    assert_eq!(outcome.error.unwrap().kind(), Kind::Config);
    std::fs::write(directory.path().join("a.parquet"), file(&batch([]), &Layout::default())).unwrap();
    std::fs::write(directory.path().join(".hidden.parquet"), b"no dataset").unwrap();
    std::fs::write(directory.path().join("readme.txt"), b"no dataset").unwrap();
    std::fs::create_dir(directory.path().join("sub.parquet")).unwrap();
    let (outcome, objects) = read(directory.path());
    assert!(outcome.error.is_none() && objects.is_empty());
    assert_eq!(outcome.report.run.listed, 0);
}

#[test]
fn a_huge_row_arrives_among_small_ones() {
    let mut expected = objects(300);
    expected.insert(b"huge".to_vec(), (0..80 << 20).map(|n| (n * 7 % 253) as u8).collect());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &expected, 1000, &Layout { compression, ..Layout::default() });
        let (outcome, arrived) = read(directory.path());
        assert!(outcome.error.is_none() && arrived == expected);
    }
}

#[test]
fn the_same_name_in_two_files_is_written_once() {
    let directory = tempfile::tempdir().unwrap();
    let rows = |data: &'static [u8]| file(&batch([(&b"twice"[..], data)]), &Layout::default());
    std::fs::write(directory.path().join("a.parquet"), rows(b"1")).unwrap();
    std::fs::write(directory.path().join("b.parquet"), rows(b"2")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let sink = DirSink::new(out.path(), DirOptions::of(&options(1))).unwrap();
    let outcome = run_into(directory.path(), Arc::new(sink), options(1));
    assert_eq!(failures(&outcome)[0].1, "repeated");
    let kinds: BTreeMap<_, _> = [(outcome.report.run.written, outcome.report.run.failed)].into();
    assert_eq!(kinds, [(1, 1)].into());
}
