//! Zip archives: what is read of them in every form, and how they are named.
//!
//! Elsewhere: `runs.rs` (many archives as one job, going on, trying again), `../zip_hostile.rs` (what is refused),
//! `../contracts.rs` (the contract of a source).

mod runs;
#[path = "../support/zip.rs"]
mod writer;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::Source;
use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, Backslashes, Encoding, FormatsIn};
use shoal_engine::testing::archives::{Outcome as Read, read_zip};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, TransferOptions};
use writer::{DOS, Entry, Local, Zip, crc, deflate, field};

type Objects = BTreeMap<Vec<u8>, Vec<u8>>;

fn archives(directory: &Path, glob: &str, options: ArchiveOptions) -> Archives {
    let from = ArchivesFrom::Pattern(directory.join(glob).to_str().unwrap().to_owned());
    Archives::new(from, FormatsIn::Zip, options).unwrap()
}

fn run(source: impl Source + 'static) -> (Outcome, Objects) {
    let sink = MemorySink::new();
    let transfer = Transfer::new(Arc::new(source), Arc::new(sink.clone()), TransferOptions::default());
    let outcome = transfer.run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(outcome.report.run.balanced(), "{:?}", outcome.report.run);
    (outcome, sink.objects())
}

/// All of one archive.
fn unzip(bytes: &[u8], options: ArchiveOptions) -> (Outcome, Objects) {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("x.zip"), bytes).unwrap();
    run(archives(temp.path(), "x.zip", options))
}

/// The names of what came out, where nothing may fail.
fn names(bytes: &[u8], options: ArchiveOptions) -> Vec<String> {
    let (outcome, objects) = unzip(bytes, options);
    assert_eq!(outcome.report.run.failed, 0, "{:?}", outcome.report.failures);
    objects.into_keys().map(|name| String::from_utf8(name).unwrap()).collect()
}

fn failures(outcome: &Outcome) -> Vec<(String, &str)> {
    let failures = outcome.report.failures.iter();
    let mut all: Vec<_> =
        failures.map(|failure| (String::from_utf8_lossy(&failure.name).into_owned(), failure.kind.as_str())).collect();
    all.sort();
    all
}

/// Bytes that pack to about a third.
fn text(length: usize) -> Vec<u8> {
    let words = ["shoal ", "object ", "name ", "source ", "sink ", "partition\n", "lane ", "barrier\n"];
    let mut random = 1u64;
    let mut bytes = Vec::with_capacity(length + 10);
    while bytes.len() < length {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(words[(random >> 61) as usize].as_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn every_size_in_every_method_comes_out_as_it_went_in() {
    let sizes = [0, 1, 100, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 300 << 10, (8 << 20) - 1, (8 << 20) + 1, 9 << 20];
    let mut entries = Vec::new();
    let mut expected = Objects::new();
    for size in sizes {
        let data = text(size);
        let packings = [
            ("stored", 0, data.clone()),
            ("deflate", 8, deflate(&data)),
            ("deflate64", 9, deflate(&data[..data.len().min(1 << 10)])),
            ("zstd", 93, zstd::encode_all(&data[..], 1).unwrap()),
        ];
        for (method, number, packed) in packings {
            let data = if number == 9 { &data[..data.len().min(1 << 10)] } else { &data[..] };
            let name = format!("{method}/{size}");
            expected.insert(name.clone().into_bytes(), data.to_vec());
            entries.push(Entry { packed, method: number, ..Entry::stored(&name, data) });
            let described = format!("{method}/described {size}");
            expected.insert(described.clone().into_bytes(), data.to_vec());
            entries.push(Entry { name: described.into_bytes(), ..entries.last().unwrap().clone() }.described());
        }
    }
    let zip = Zip::of(entries);
    for bytes in [zip.done(), zip.done_wide(), zip.commented(b"made by hand")] {
        let (outcome, objects) = unzip(&bytes, ArchiveOptions::default());
        assert_eq!(failures(&outcome), []);
        assert!(objects == expected, "{:?}", objects.keys().map(|name| name.escape_ascii().to_string()));
    }
}

#[test]
fn bzip2_xz_and_lzma_are_unpacked_and_others_named() {
    use std::io::Write;
    let data = text(200_000);
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(&data).unwrap();
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0)).unwrap();
    xz.write_all(&data).unwrap();
    let options = lzma_rust2::LzmaOptions::with_preset(0);
    let (properties, window) = (options.get_props(), options.dict_size.to_le_bytes());
    let mut lzma = lzma_rust2::LzmaWriter::new_no_header(Vec::new(), &options, true).unwrap();
    lzma.write_all(&data).unwrap();
    let lzma = [&[9, 20, 5, 0, properties][..], &window, &lzma.finish().unwrap()].concat();
    let entry = |name: &str, method, packed| Entry { packed, method, ..Entry::stored(name, &data) };
    let zip = Zip::of([
        entry("bzip2", 12, bzip2.finish().unwrap()),
        entry("xz", 95, xz.finish().unwrap()),
        entry("lzma", 14, lzma),
        entry("wavpack", 97, data.clone()),
        Entry { flags: 1 << 11 | 1, ..entry("secret", 8, data.clone()) },
        Entry { flags: 1 << 11 | 1, ..entry("aes", 99, data.clone()) },
    ]);
    let (outcome, objects) = unzip(&zip.done(), ArchiveOptions::default());
    assert_eq!(objects.keys().map(|name| &name[..]).collect::<Vec<_>>(), [&b"bzip2"[..], b"lzma", b"xz"]);
    assert!(objects.values().all(|found| *found == data));
    let unsupported = ["aes", "secret", "wavpack"].map(|name| (name.to_owned(), "unsupported"));
    assert_eq!(failures(&outcome), unsupported);
    let why = |name: &[u8]| outcome.report.failures.iter().find(|f| &*f.name == name).unwrap().reason.clone();
    assert!(why(b"wavpack").contains("method 97 (wavpack)"), "{}", why(b"wavpack"));
    assert!(why(b"secret").contains("encrypted") && why(b"aes").contains("encrypted"));
}

#[test]
fn windows_that_only_one_lane_at_a_time_may_have_change_nothing_of_what_comes_out() {
    use std::io::Write;
    let data = text(100_000).repeat(100);
    let zstd = |data: &[u8], window: u32| {
        let mut packer = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        packer.window_log(window).unwrap();
        packer.include_contentsize(false).unwrap();
        packer.write_all(data).unwrap();
        packer.finish().unwrap()
    };
    let options = lzma_rust2::LzmaOptions::with_preset(0);
    let mut lzma = lzma_rust2::LzmaWriter::new_no_header(Vec::new(), &options, true).unwrap();
    lzma.write_all(&data).unwrap();
    let lzma =
        [&[9, 20, 5, 0, options.get_props()][..], &(64u32 << 20).to_le_bytes(), &lzma.finish().unwrap()].concat();
    let entry =
        |name: String, method, packed: &[u8]| Entry { packed: packed.to_vec(), method, ..Entry::stored(name, &data) };
    // A frame that needs more than those in front of it, of which a piece has been handed over.
    let (front, rest) = data.split_at(400_000);
    let frames = [zstd(front, 20), zstd(rest, 26)].concat();
    let packings = [("zstd", 93, zstd(&data, 26)), ("frames", 93, frames), ("lzma", 14, lzma)];
    let all = (0..6).flat_map(|number| packings.iter().map(move |packing| (number, packing)));
    let mut entries: Vec<_> =
        all.map(|(number, (name, method, packed))| entry(format!("{name}/{number}"), *method, packed)).collect();
    entries.push(entry("too wide".to_owned(), 93, &zstd(&data, 27)));
    entries.push(entry("too wide behind".to_owned(), 93, &[zstd(front, 26), zstd(rest, 27)].concat()));
    let options = ArchiveOptions { max_ratio: 100_000, ..ArchiveOptions::default() };
    let (outcome, objects) = unzip(&Zip::of(entries).done(), options);
    assert_eq!(objects.len(), 18);
    assert!(objects.values().all(|found| *found == data));
    let refused = ["too wide", "too wide behind"].map(|name| (name.to_owned(), Kind::TooLarge.as_str()));
    assert_eq!(failures(&outcome), refused);
    let why = &outcome.report.failures[0].reason;
    assert!(why.contains("a window of more than 64 MiB"), "{why}");
}

#[test]
fn zip64_and_what_lies_in_front_of_an_archive_make_no_difference() {
    let data = text(5000);
    let entries =
        || [Entry::deflated("a", &data).wide(), Entry::stored("b", &data), Entry::stored("c", b"").wide().described()];
    let expected: Vec<&str> = vec!["a", "b", "c"];
    let plain = Zip::of(entries());
    for program in [&b""[..], b"#!/bin/sh\nexec unzip\n", &[0; 5000]] {
        let front = |bytes: Vec<u8>| [program, &bytes].concat();
        assert_eq!(names(&front(plain.done()), ArchiveOptions::default()), expected);
        assert_eq!(names(&front(plain.done_wide()), ArchiveOptions::default()), expected);
        // The same with offsets that count from the start of the file.
        let mut shifted = Zip { bytes: program.to_vec(), ..Zip::default() };
        entries().iter().for_each(|entry| shifted.push(entry));
        assert_eq!(names(&shifted.done(), ArchiveOptions::default()), expected);
        assert_eq!(names(&shifted.done_wide(), ArchiveOptions::default()), expected);
    }
    assert!(names(&Zip::default().done(), ArchiveOptions::default()).is_empty(), "an empty archive is one");
    assert!(names(&Zip::default().done_wide(), ArchiveOptions::default()).is_empty());
}

#[test]
fn more_entries_than_16_bits_count() {
    let count = 66_000;
    let zip = Zip::of((0..count).map(|number| Entry::stored(format!("{}/{number}", number % 10), b"x")));
    for bytes in [zip.done(), zip.done_wide()] {
        let (outcome, objects) = unzip(&bytes, ArchiveOptions::default());
        assert_eq!((outcome.report.run.failed, objects.len()), (0, count));
    }
}

#[test]
fn names_come_in_the_charset_that_the_archive_says() {
    let plain = |name: &[u8], host: u8| Entry { flags: 0, host, ..Entry::stored(name, b"x") };
    let unicode = |name: &[u8], says: &str, sum: u32| {
        let field = field(0x7075, &[&[1][..], &sum.to_le_bytes(), says.as_bytes()].concat());
        Entry { extra: field, ..plain(name, DOS) }
    };
    let zip = Zip::of([
        plain(b"\x81ber", DOS),
        plain("\u{e9}t\u{e9}".as_bytes(), writer::UNIX),
        Entry::stored("日本", b"x"),
        unicode(b"?.txt", "\u{20ac}.txt", crc(b"?.txt")),
        unicode(b"renamed", "\u{20ac}", crc(b"before")),
    ]);
    let found = names(&zip.done(), ArchiveOptions::default());
    assert_eq!(found, ["renamed", "\u{e9}t\u{e9}", "\u{fc}ber", "\u{20ac}.txt", "日本"]);
    let encoding =
        |label: &str| ArchiveOptions { encoding: Encoding::Label(label.into()), ..ArchiveOptions::default() };
    let zip = Zip::of([plain(b"\x95\x5c", DOS), Entry::stored("日本", b"x"), plain(b"\x8f\xec", DOS)]);
    assert_eq!(names(&zip.done(), encoding("Shift_JIS")), ["嬢", "日本", "表"]);
    let wrong = Archives::new(ArchivesFrom::Paths(vec![]), FormatsIn::Zip, encoding("klingon")).err().unwrap();
    assert_eq!(wrong.kind(), Kind::Config);
}

#[test]
fn the_same_names_are_safe_and_unsafe_as_everywhere() {
    use shoal_engine::testing::names::{LEGAL, UNSAFE};
    for name in UNSAFE() {
        let data: &[u8] = if name.ends_with(b"/") { b"" } else { b"x" };
        let (outcome, objects) = unzip(&Zip::of([Entry::stored(&name, data)]).done(), ArchiveOptions::default());
        assert!(objects.is_empty(), "{}", name.escape_ascii());
        // A slash at the end makes it a directory, which is left out or refused.
        match (name.last(), outcome.report.run.failed) {
            (Some(b'/'), 0) => assert_eq!(outcome.report.run.skipped, 1),
            (_, failed) => assert_eq!((failed, failures(&outcome)[0].1), (1, "unsafe-name"), "{}", name.escape_ascii()),
        }
    }
    for name in LEGAL() {
        let (outcome, objects) = unzip(&Zip::of([Entry::stored(&name, b"x")]).done(), ArchiveOptions::default());
        match name.contains(&b'\\') {
            true => assert_eq!(failures(&outcome)[0].1, "unsafe-name", "a backslash"),
            false => assert_eq!(objects.keys().collect::<Vec<_>>(), [&name], "{:?}", failures(&outcome)),
        }
    }
    let separator = || ArchiveOptions { backslashes: Backslashes::Separator, ..ArchiveOptions::default() };
    let zip = Zip::of([Entry::stored(r"a\b\c", b"x"), Entry::stored(r"d\", b""), Entry::stored(r"..\x", b"x")]);
    let (outcome, objects) = unzip(&zip.done(), separator());
    assert_eq!(objects.into_keys().collect::<Vec<_>>(), [b"a/b/c"]);
    assert_eq!(failures(&outcome), [("../x".to_owned(), "unsafe-name")]);
}

#[test]
fn duplicates_and_files_in_the_place_of_directories_are_failures_and_the_first_stays() {
    let zip = Zip::of([
        Entry::stored("a", b"first"),
        Entry::stored("a", b"second"),
        Entry::stored("a/b", b"below a file"),
        Entry::stored("d/e", b"file"),
        Entry::stored("d", b"in the place of a directory"),
        Entry::stored("deep/".repeat(120) + "x", b"too deep"),
        Entry::stored("file/..", b"refused, and no reason to refuse the next"),
        Entry::stored("file", b"file"),
    ]);
    let (outcome, objects) = unzip(&zip.done(), ArchiveOptions::default());
    let written = [("a", "first"), ("d/e", "file"), ("file", "file")];
    assert_eq!(objects, Objects::from(written.map(|(name, data)| (name.into(), data.into()))));
    let found: Vec<_> = failures(&outcome).into_iter().map(|(name, kind)| (name.len(), kind)).collect();
    assert_eq!(
        found,
        [(1, "repeated"), (3, "name-conflict"), (1, "name-conflict"), (601, "archive"), (7, "unsafe-name")]
    );
    let deeper = ArchiveOptions { max_depth: 121, ..ArchiveOptions::default() };
    assert_eq!(unzip(&zip.done(), deeper).1.len(), 4);
}

#[test]
fn directories_modes_times_and_links_on_disk() {
    let mode = |mut entry: Entry, mode: u32| {
        entry.mode = mode;
        entry
    };
    let stamp = field(0x5455, &[&[1][..], &1_000_000_000u32.to_le_bytes()].concat());
    let zip = Zip::of([
        Entry::stored("empty/inner/", b""),
        Entry::stored("full/", b""),
        Entry { extra: stamp, ..mode(Entry::deflated("full/run.sh", b"#!/bin/sh\n"), 0o104_755) },
        mode(Entry::stored("link", b"/etc/passwd"), 0o120_777),
        mode(Entry::stored("pipe", b""), 0o010_644),
        Entry { time: (12 << 11, (2001 - 1980) << 9 | 9 << 5 | 9), ..Entry::stored("dos", b"x") },
    ]);
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("x.zip"), zip.done()).unwrap();
    let out = temp.path().join("out");
    let options = TransferOptions { keep_times: Some(true), ..TransferOptions::default() };
    let sink = DirSink::new(&out, DirOptions::of(&options)).unwrap();
    let source = archives(temp.path(), "x.zip", ArchiveOptions::default());
    let outcome = Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.error.is_none() && outcome.report.run.balanced(), "{:?}", outcome.error);
    assert_eq!((outcome.report.run.written, outcome.report.run.failed), (2, 0));
    let made = |path: &str| std::fs::symlink_metadata(out.join(path));
    assert!(made("empty/inner").unwrap().is_dir() && made("full").unwrap().is_dir());
    assert!(made("link").is_err() && made("pipe").is_err());
    let script = made("full/run.sh").unwrap();
    assert_eq!(script.permissions().mode() & 0o7111, 0o111, "its owner may run it, and nobody becomes another by it");
    assert_eq!(script.modified().unwrap(), UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    assert_eq!(made("dos").unwrap().permissions().mode() & 0o111, 0);
    let noon = UNIX_EPOCH + Duration::from_secs(1_000_036_800);
    let off = made("dos").unwrap().modified().unwrap().duration_since(noon).unwrap_or_else(|early| early.duration());
    assert!(off <= Duration::from_secs(15 * 3600), "noon somewhere: {off:?}");
    let notes = outcome.report.notes.join("; ");
    assert!(notes.contains("1 symbolic link was skipped") && notes.contains("1 device or pipe was"), "{notes}");
}

#[test]
fn bytes_are_read_without_a_run_as_with_one() {
    let zip = Zip::of([Entry::deflated("a", &text(100_000)), Entry::stored("../b", b"x"), Entry::stored("d/", b"")]);
    let found = read_zip(&zip.done()).unwrap();
    let outcomes: Vec<_> = found.iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, [&Read::File(text(100_000)), &Read::Failed(Kind::UnsafeName), &Read::NoFile]);
    let local = Local { name: Some(b"z".to_vec()), ..Local::default() };
    let lying = Zip::of([Entry { local, ..Entry::stored("a", b"x") }]);
    assert_eq!(read_zip(&lying.done()).unwrap()[0].1, Read::Failed(Kind::Archive));
}
