//! Tars as the source of a run: limits, any number of lanes, the contract of sources, going on after a stop.

use std::ops::ControlFlow;
use std::sync::Arc;

use shoal_engine::sink::Sink;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::source::archive::ArchiveOptions;
use shoal_engine::testing::faults::FailingSink;
use shoal_engine::testing::source_contract;
use shoal_engine::transfer::Transfer;
use shoal_engine::{Kind, TransferOptions};

use crate::writer::Tar;
use crate::{Objects, archives, failures, gzip, packings, read, support, unpack, unpacks_whole, zstd};

#[test]
fn what_goes_beyond_a_limit_is_refused_before_anything_is_written() {
    let limited = |bytes: &[u8], options: ArchiveOptions| {
        let (outcome, found) = unpack(bytes, options);
        assert!(found.is_empty(), "{:?}", found.keys());
        assert_eq!(failures(&outcome), [("x.tar".to_owned(), "archive")]);
        outcome.report.failures[0].reason.clone()
    };
    let mut tar = Tar::new();
    tar.file("a", b"1").file("zeros", &vec![0; 80 << 20]);
    let bomb = zstd(&tar.end());
    assert!(bomb.len() < 100_000);
    assert!(limited(&bomb, ArchiveOptions::default()).contains("100 times"));
    let trusted = ArchiveOptions { max_ratio: 1_000_000, ..ArchiveOptions::default() };
    assert_eq!(unpack(&bomb, trusted).1.len(), 2);
    let small = ArchiveOptions { max_size: Some(10), ..ArchiveOptions::default() };
    let tar = Tar::new().file("a", b"1").file("b", b"12345678901").end();
    for (_, bytes) in packings(&tar) {
        assert!(limited(&bytes, small.clone()).contains("10 are allowed"));
        let few = ArchiveOptions { max_entries: 1, ..ArchiveOptions::default() };
        assert!(limited(&bytes, few).contains("more than 1 entries"));
    }
    // A stream of nothing but headers.
    let mut endless = Tar::new();
    for _ in 0..20_000 {
        endless.records(b'g', &[0; 512]);
    }
    let endless = zstd(&endless.end());
    assert_eq!(read(&endless), Err(Kind::Archive), "this reader lets a MiB through");
    let (outcome, found) = unpack(&endless, ArchiveOptions::default());
    assert!(found.is_empty());
    assert_eq!(failures(&outcome), [("x.tar".to_owned(), "archive")], "a failure that stands for the rest");
}

#[test]
fn a_packed_archive_too_large_to_be_kept_is_read_forward_by_any_number_of_lanes() {
    let data = |number: u32| -> Vec<u8> {
        let size = if number.is_multiple_of(10) { 3 << 20 } else { 1000 * number };
        (0..size).map(|n| (n / 5 * number) as u8).collect()
    };
    let mut tar = Tar::new();
    let mut expected = Objects::new();
    for number in 0..150 {
        expected.insert(format!("{number}").into_bytes(), data(number));
        tar.file(&format!("{number}"), &data(number));
    }
    let bytes = tar.end();
    assert!(bytes.len() > 40 << 20);
    unpacks_whole(&zstd(&bytes), &expected);
}

#[test]
fn tars_keep_the_contract_of_a_source() {
    let temp = tempfile::tempdir().unwrap();
    let mut expected = Objects::new();
    let mut paths = Vec::new();
    type Packer = fn(&[u8]) -> Vec<u8>;
    let packers: [Packer; 3] = [<[u8]>::to_vec, gzip, zstd];
    for (number, pack) in packers.iter().enumerate() {
        let mut tar = Tar::new();
        for entry in 0..250usize {
            let name = format!("{number}/d{}/{entry}", entry % 7);
            let size = [0, 1, 511, 512, 513, 4096, 65_536, 65_537, 300_000][entry % 9] / (1 + entry / 90);
            let data: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            tar.file(&name, &data);
            expected.insert(name.into_bytes(), data);
        }
        let path = temp.path().join(format!("{number}.tar"));
        std::fs::write(&path, pack(&tar.end())).unwrap();
        paths.push(path);
    }
    source_contract::run(&archives(&paths, ArchiveOptions::default()), &expected);
}

#[test]
fn a_run_that_was_stopped_goes_on_and_ends_with_everything() {
    for (packing, small) in [("tar", false), ("tar.gz", true)] {
        let temp = tempfile::tempdir().unwrap();
        let (path, out) = (temp.path().join("x"), temp.path().join("out"));
        let mut tar = Tar::new();
        let mut expected = Objects::new();
        for number in 0..3000u32 {
            let name = format!("d{}/{number}", number % 11);
            let data = number.to_le_bytes().repeat(500);
            tar.file(&name, &data);
            expected.insert(name.into_bytes(), data);
        }
        let bytes = tar.end();
        std::fs::write(&path, if small { gzip(&bytes) } else { bytes }).unwrap();
        let run = |wrap: &dyn Fn(Arc<dyn Sink>) -> Arc<dyn Sink>| {
            let sink = wrap(Arc::new(DirSink::new(&out, DirOptions::default()).unwrap()));
            let source = archives(std::slice::from_ref(&path), ArchiveOptions::default());
            Transfer::new(source, sink, TransferOptions::default()).run(&mut |_| ControlFlow::Continue(()))
        };
        let stopped = run(&|sink| Arc::new(FailingSink::new(sink, 1500, false)));
        assert!(stopped.error.is_some() && !stopped.report.complete, "{packing}");
        let outcome = run(&|sink| sink);
        assert!(outcome.error.is_none(), "{packing}: {:?}", outcome.error);
        assert_eq!(outcome.report.total.failed, 0, "{packing}: {:?}", outcome.report.failures);
        assert!(support::files(&out) == expected, "{packing}");
    }
}
