//! Tar archives: what is read of them in every form, what is refused, and that no bytes whatever do harm.
//!
//! Here: headers, extensions, names, types, and what the others use. Elsewhere: `damage.rs` (cut and flipped bytes, ends,
//! checksums of the packing), `links.rs` (hard links), `runs.rs` (limits, lanes, resuming), `listing.rs` (cursors of any
//! archives), `gnu.rs` (what GNU tar makes). Limits of memory and time
//! are in the hostile tests.

mod damage;
mod gnu;
mod links;
mod listing;
mod runs;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tar.rs"]
mod writer;

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_engine::options::Workers;
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::Source;
use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, FormatsIn};
use shoal_engine::testing::archives::{Outcome, read_tar};
use shoal_engine::testing::names;
use shoal_engine::transfer::{self, Transfer};
use shoal_engine::{Kind, TransferOptions};
use writer::Tar;

type Objects = BTreeMap<Vec<u8>, Vec<u8>>;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packer = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0)).unwrap();
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// The archive as it is, and packed by every method.
fn packings(bytes: &[u8]) -> [(&'static str, Vec<u8>); 5] {
    [
        ("tar", bytes.to_vec()),
        ("tar.gz", gzip(bytes)),
        ("tar.bz2", bzip2(bytes)),
        ("tar.xz", xz(bytes)),
        ("tar.zst", zstd(bytes)),
    ]
}

fn archives(paths: &[PathBuf], options: ArchiveOptions) -> Arc<dyn Source> {
    Arc::new(Archives::new(ArchivesFrom::Paths(paths.to_vec()), FormatsIn::Tar, options).unwrap())
}

/// A packed archive of these bytes is unpacked whole by one worker and by several.
fn unpacks_whole(bytes: &[u8], expected: &Objects) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.tar.zst");
    std::fs::write(&path, bytes).unwrap();
    for workers in [1, 3] {
        let sink = MemorySink::new();
        let options = TransferOptions { workers: Workers::Fixed(workers), ..TransferOptions::default() };
        let source = archives(std::slice::from_ref(&path), ArchiveOptions::default());
        let outcome = Transfer::new(source, Arc::new(sink.clone()), options).run(&mut |_| ControlFlow::Continue(()));
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!(outcome.report.run.failed, 0, "{:?}", outcome.report.failures);
        assert!(sink.objects() == *expected, "with {workers} workers");
    }
}

/// Unpacks an archive of these bytes.
fn unpack(bytes: &[u8], options: ArchiveOptions) -> (transfer::Outcome, Objects) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.tar");
    std::fs::write(&path, bytes).unwrap();
    unpack_file(&path, options)
}

fn unpack_file(path: &Path, options: ArchiveOptions) -> (transfer::Outcome, Objects) {
    let sink = MemorySink::new();
    let source = archives(&[path.to_owned()], options);
    let transfer = Transfer::new(source, Arc::new(sink.clone()), TransferOptions::default());
    let outcome = transfer.run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(outcome.report.run.balanced(), "{:?}", outcome.report.run);
    (outcome, sink.objects())
}

fn failures(outcome: &transfer::Outcome) -> Vec<(String, &str)> {
    let failures = outcome.report.failures.iter();
    let mut failures: Vec<_> =
        failures.map(|failure| (failure.name.escape_ascii().to_string(), failure.kind.as_str())).collect();
    failures.sort();
    failures
}

fn whole(bytes: &[u8]) -> Objects {
    let (outcome, objects) = unpack(bytes, ArchiveOptions::default());
    assert_eq!(failures(&outcome), []);
    objects
}

fn objects<const N: usize>(objects: [(&str, &[u8]); N]) -> Objects {
    objects.into_iter().map(|(name, data)| (name.as_bytes().to_vec(), data.to_vec())).collect()
}

/// What stands in the archive, without a run: files by name, and the kinds of failures.
fn read(bytes: &[u8]) -> Result<Vec<(String, Outcome)>, Kind> {
    let entries = read_tar(bytes).map_err(|error| error.kind())?;
    Ok(entries.into_iter().map(|(name, outcome)| (name.escape_ascii().to_string(), outcome)).collect())
}

fn file(name: &str, data: &[u8]) -> (String, Outcome) {
    (name.to_owned(), Outcome::File(data.to_vec()))
}

fn no_file(name: &str) -> (String, Outcome) {
    (name.to_owned(), Outcome::NoFile)
}

#[test]
fn every_form_of_a_name_and_a_length_is_read() {
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(250));
    let mut tar = Tar::new();
    tar.file("plain", b"one");
    tar.file("empty", b"");
    tar.file("block", &[7; 512]);
    tar.header(|header| header.prefix("p/q").name("split")).data(b"two");
    tar.long(b'L', long.as_bytes()).file("cut", b"three");
    tar.pax(&[("path", "pax/\u{e4}".as_bytes()), ("mtime", b"12.5")]).file("other", b"four");
    tar.long(b'K', b"where it leads").header(|header| header.name("link").flag(b'2')).data(b"");
    tar.header(|header| header.name("v7").magic(b"").flag(0)).data(b"five");
    tar.header(|header| header.name("gnu").magic(b"ustar  \0").prefix("not a prefix")).data(b"six");
    let star = |header: writer::Header| header.field(508, b"tar\0").field(476, b"14000000000 14000000000 ");
    tar.header(|header| star(header.name("star").prefix(&"s".repeat(131)))).data(b"nine");
    tar.header(|header| header.name("base256").size_256(5)).raw(b"seven");
    tar.header(|header| header.name("signed").signed_sum()).data(b"8");
    let expected = objects([
        ("plain", b"one"),
        ("empty", b""),
        ("block", &[7; 512]),
        ("p/q/split", b"two"),
        (&long, b"three"),
        ("pax/\u{e4}", b"four"),
        ("v7", b"five"),
        ("gnu", b"six"),
        (&format!("{}/star", "s".repeat(131)), b"nine"),
        ("base256", b"seven"),
        ("signed", b"8"),
    ]);
    for (packing, bytes) in packings(&tar.end()) {
        assert_eq!(whole(&bytes), expected, "{packing}");
    }
}

#[test]
fn the_length_of_a_pax_header_is_the_length_and_what_lies_in_a_file_stays_there() {
    // CVE-2025-62518: a reader that takes the length of the inner header finds the inner archive's entries.
    let inner = Tar::new().file("inner", b"hidden").bytes();
    let mut tar = Tar::new();
    tar.pax(&[("size", inner.len().to_string().as_bytes())]).header(|header| header.name("outer").size(0)).raw(&inner);
    tar.file("behind", b"seen");
    assert_eq!(read(&tar.end()).unwrap(), [file("outer", &inner), file("behind", b"seen")]);
}

#[test]
fn an_extension_that_is_malformed_or_in_doubt_ends_the_archive_there() {
    type Case = (&'static str, &'static dyn Fn(&mut Tar));
    let cases: [Case; 12] = [
        ("records", &|tar| _ = tar.records(b'x', b"9 path=x\n5 no\n")),
        ("a length", &|tar| _ = tar.pax(&[("size", b"-1")])),
        ("a time", &|tar| _ = tar.pax(&[("mtime", b"noon")])),
        ("two headers", &|tar| _ = tar.pax(&[("path", b"a")]).pax(&[("size", b"1")])),
        ("two names", &|tar| _ = tar.long(b'L', b"a").long(b'L', b"b")),
        ("a name for all", &|tar| _ = tar.records(b'g', b"9 path=a\n")),
        ("a length for all", &|tar| _ = tar.records(b'g', b"10 size=1\n")),
        ("a number", &|tar| _ = tar.header(|header| header.name("n").field(124, b"12x45"))),
        ("a negative length", &|tar| _ = tar.header(|header| header.name("n").size_256(-5))),
        ("a huge extension", &|tar| _ = tar.header(|header| header.name("n").flag(b'x').size(1 << 40))),
        ("a directory with contents", &|tar| _ = tar.header(|header| header.name("d").flag(b'5')).data(b"data")),
        ("one block of zeros", &|tar| _ = tar.raw(&[0; 512])),
    ];
    for (case, add) in cases {
        let mut tar = Tar::new();
        tar.file("before", b"1");
        add(&mut tar);
        tar.file("behind", b"2");
        for (packing, bytes) in packings(&tar.end()) {
            let entries = read(&bytes).unwrap();
            assert_eq!(entries, [file("before", b"1"), no_file("archive")], "{case}, {packing}");
        }
    }
}

#[test]
fn global_headers_and_labels_are_no_entries() {
    let mut tar = Tar::new();
    tar.records(b'g', b"52 comment=0123456789abcdef0123456789abcdef01234567\n");
    tar.header(|header| header.name("a label").flag(b'V')).data(b"");
    tar.file("a", b"1");
    assert_eq!(read(&tar.end()).unwrap(), [file("a", b"1")]);
}

#[test]
fn names_as_tar_writes_them_of_a_directory_lose_what_is_before_them() {
    let mut tar = Tar::new();
    tar.header(|header| header.name("./").flag(b'5')).data(b"");
    tar.header(|header| header.name("./a/").flag(b'5')).data(b"");
    tar.file("./a/b", b"1").file("././c", b"2");
    tar.header(|header| header.name("old/").flag(0)).data(b"");
    tar.file("full/", b"3").file("d/./e", b"4").file(".//f", b"5");
    let refused = |name: &str| (name.to_owned(), Outcome::Failed(Kind::UnsafeName));
    let entries = [
        no_file("a"),
        file("a/b", b"1"),
        file("c", b"2"),
        no_file("old"),
        no_file("full"),
        refused("d/./e"),
        refused("/f"),
    ];
    assert_eq!(read(&tar.end()).unwrap(), entries);
}

#[test]
fn links_devices_and_pipes_are_left_out_and_counted() {
    let mut tar = Tar::new();
    for (name, flag) in [("s", b'2'), ("s2", b'2'), ("c", b'3'), ("b", b'4'), ("p", b'6')] {
        tar.header(|header| header.name(name).flag(flag).link("../../etc/passwd")).data(b"");
    }
    tar.file("s/below", b"x").file("f", b"1");
    let (outcome, found) = unpack(&tar.end(), ArchiveOptions::default());
    assert_eq!(found, objects([("f", b"1")]));
    // What a link stood for is taken: nothing is written through it, nor in its place.
    assert_eq!(failures(&outcome), [("s/below".to_owned(), "name-conflict")]);
    let said = outcome.report.notes.join("\n");
    assert!(said.contains("2 symbolic links") && said.contains("3 devices or pipes"), "{said}");
}

#[test]
fn sparse_files_and_unknown_types_are_failures_of_their_own() {
    let mut tar = Tar::new();
    tar.file("a", b"1");
    tar.header(|header| header.name("old-gnu").flag(b'S').field(482, &[1])).blocks(&[(504, 1), (504, 0)], b"data");
    tar.pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.name", b"real")]).file("GNUSparseFile.1/real", b"map and data");
    tar.header(|header| header.name("multi").flag(b'M')).data(b"rest");
    tar.header(|header| header.name("odd").flag(b'Q')).data(b"what is it");
    tar.file("z", b"2");
    let (outcome, found) = unpack(&tar.end(), ArchiveOptions::default());
    assert_eq!(found, objects([("a", b"1"), ("z", b"2")]));
    let names: Vec<String> = failures(&outcome).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["multi", "odd", "old-gnu", "real"]);
}

#[test]
fn hostile_names_are_refused_and_odd_ones_kept() {
    let mut tar = Tar::new();
    let (mut bad, odd) = (names::UNSAFE(), names::LEGAL());
    bad.retain(|name| *name != b"./a"); // ordinary in a tar, see above
    for name in bad.iter().chain(&odd) {
        tar.pax(&[("path", name)]).file("x", b"data");
    }
    let (outcome, found) = unpack(&tar.end(), ArchiveOptions::default());
    for name in &odd {
        let kept = name.contains(&b'\\') || found.get(&name[..]).is_some_and(|data| data == b"data");
        assert!(kept, "{}", name.escape_ascii());
    }
    // An empty path stands for that of the header.
    let (backslashes, header) = (odd.iter().filter(|name| name.contains(&b'\\')).count(), 1);
    let shown: Vec<String> = found.keys().map(|name| name.escape_ascii().to_string()).collect();
    assert_eq!(found.len(), odd.len() - backslashes + header, "{shown:?}");
    assert_eq!(outcome.report.run.failed as usize, bad.len() - header + backslashes);
}
