//! Tar archives: what is read of them in every form, what is refused, and that no bytes whatever do harm.
//! (What zip and tar share, names above all, is in `archives.rs` too; limits of memory and time in the hostile tests.)

mod support;
#[path = "support/tar.rs"]
mod writer;

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use shoal_engine::options::Workers;
use shoal_engine::sink::Sink;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::Source;
use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, FormatsIn};
use shoal_engine::testing::archives::{Outcome, check_tar, read_tar, read_tar_cut, read_zip_cut};
use shoal_engine::testing::faults::FailingSink;
use shoal_engine::testing::{names, source_contract};
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
    for (name, flag) in [("s", b'2'), ("s2", b'2'), ("h", b'1'), ("c", b'3'), ("b", b'4'), ("p", b'6')] {
        tar.header(|header| header.name(name).flag(flag).link("../../etc/passwd")).data(b"");
    }
    tar.header(|header| header.name("h2").flag(b'1').size(999)); // of the file it leads to: nothing follows
    tar.file("s/below", b"x").file("f", b"1");
    let (outcome, found) = unpack(&tar.end(), ArchiveOptions::default());
    assert_eq!(found, objects([("f", b"1")]));
    // What a link stood for is taken: nothing is written through it, nor in its place.
    assert_eq!(failures(&outcome), [("s/below".to_owned(), "name-conflict")]);
    let said = outcome.report.notes.join("\n");
    for words in ["2 symbolic links", "2 hard links"] {
        assert!(said.contains(words), "{said}");
    }
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
fn an_archive_ends_with_zeros_or_where_it_ends() {
    let entry = Tar::new().file("a", b"1").bytes();
    let block = [0u8; 512];
    let ends: [(&str, Vec<u8>); 4] = [
        ("two blocks", [&entry[..], &block, &block].concat()),
        ("with more behind", [&entry[..], &block, &block, b"whatever follows"].concat()),
        ("one block", [&entry[..], &block].concat()),
        ("none", entry.clone()),
    ];
    for (case, bytes) in &ends {
        for (packing, bytes) in packings(bytes) {
            assert_eq!(read(&bytes).unwrap(), [file("a", b"1")], "{case}, {packing}");
        }
    }
    for bytes in [vec![0; 10_240], vec![0; 512], gzip(&[0; 1024])] {
        assert_eq!(read(&bytes).unwrap(), []);
    }
    let nothing = [&b""[..], b"x", &[b'x'; 600], &gzip(b""), &gzip(&[b'x'; 600]), &zstd(b"short")];
    for bytes in nothing {
        let result = read(bytes);
        assert!(matches!(result, Err(Kind::Archive)) || result == Ok(Vec::new()), "{result:?}");
    }
}

#[test]
fn a_header_with_a_wrong_checksum_ends_the_archive_and_what_was_before_it_stays() {
    let mut tar = Tar::new();
    tar.file("a", b"1").file("b", b"2").file("c", b"3");
    let mut bytes = tar.end();
    bytes[1024 + 3] ^= 1; // in the name of the second
    for (packing, bytes) in packings(&bytes) {
        let (outcome, found) = unpack(&bytes, ArchiveOptions::default());
        assert_eq!(found, objects([("a", b"1")]), "{packing}");
        assert_eq!(failures(&outcome), [("x.tar".to_owned(), "archive")], "{packing}");
        let reason = &outcome.report.failures[0].reason;
        assert!(reason.contains("checksum") && reason.contains("byte 1024"), "{reason}");
    }
}

#[test]
fn an_archive_cut_anywhere_keeps_what_was_whole_before_it() {
    let mut tar = Tar::new();
    tar.file("a", b"first").pax(&[("path", b"pax/b")]).file("b", &[9; 700]).file("c", b"third");
    let bytes = tar.bytes();
    let entries = [(1024, file("a", b"first")), (4096 - 512, file("pax/b", &[9; 700])), (4608, file("c", b"third"))];
    assert_eq!(bytes.len(), 4608);
    for end in 1..bytes.len() {
        let result = read(&bytes[..end]);
        if end < 512 {
            assert_eq!(result, Err(Kind::Archive), "cut at {end}");
            continue;
        }
        let found = result.unwrap();
        let whole: Vec<_> = found.iter().filter(|(_, outcome)| matches!(outcome, Outcome::File(_))).cloned().collect();
        let expected: Vec<_> =
            entries.iter().filter(|(last, _)| *last <= end).map(|(_, entry)| entry.clone()).collect();
        // The last one is whole a little before its block is.
        assert!(whole.starts_with(&expected) && whole.len() <= expected.len() + 1, "cut at {end}: {found:?}");
        let on_border = [1024, 4096 - 512].contains(&end);
        assert_eq!(found.len() > whole.len(), !on_border, "cut at {end}: {found:?}");
    }
    for (packing, bytes) in packings(&bytes) {
        for end in 0..bytes.len() {
            check_tar(&bytes[..end]);
        }
        let cut = read(&bytes[..bytes.len() - 1]);
        assert!(cut.is_err() || cut.unwrap().iter().any(|(_, outcome)| *outcome == Outcome::NoFile), "{packing}");
    }
}

#[test]
fn flipped_bytes_do_no_harm() {
    let mut tar = Tar::new();
    tar.pax(&[("path", b"pax/b"), ("size", b"5")]).file("b", b"12345").long(b'L', b"long").file("c", b"third");
    for (_, bytes) in packings(&tar.end()) {
        for at in 0..bytes.len() {
            for bit in [1, 0x80] {
                let mut flipped = bytes.clone();
                flipped[at] ^= bit;
                check_tar(&flipped);
            }
        }
    }
}

/// Files of an archive, with contents in which a change is not likely to lead to the same bytes.
fn wordy() -> (Tar, Vec<(String, Outcome)>) {
    let mut tar = Tar::new();
    let mut entries = Vec::new();
    for name in ["one", "folder/two", "three"] {
        let data: String =
            (0..40).map(|line| format!("{line:03} is a line of {name}, {}\n", line * line % 7)).collect();
        tar.file(name, data.as_bytes());
        entries.push(file(name, data.as_bytes()));
    }
    (tar, entries)
}

#[test]
fn no_byte_that_a_checksum_finds_wrong_arrives() {
    let (tar, entries) = wordy();
    let bytes = tar.end();
    for (packing, bytes) in [("gz", gzip(&bytes)), ("bz2", bzip2(&bytes)), ("xz", xz(&bytes))] {
        let mut refused = 0;
        for at in 0..bytes.len() {
            for bits in [1 << (at % 8), 0xff] {
                let mut flipped = bytes.clone();
                flipped[at] ^= bits;
                let Ok(found) = read(&flipped) else {
                    refused += 1;
                    continue;
                };
                let files: Vec<_> = found.iter().filter(|entry| matches!(entry.1, Outcome::File(_))).collect();
                assert!(files.iter().all(|file| entries.contains(file)), "{packing}, byte {at} by {bits:#x}");
                assert!(found == entries || found.len() > files.len(), "{packing}, byte {at}: nothing says so");
            }
        }
        assert!(refused > bytes.len(), "{packing}: {refused}");
    }
    let packed = gzip(&bytes);
    for (what, at) in [("checksum", packed.len() - 8), ("length", packed.len() - 4)] {
        let mut wrong = packed.clone();
        wrong[at] ^= 1;
        let (outcome, found) = unpack(&wrong, ArchiveOptions::default());
        assert!(found.is_empty(), "{what}: {:?}", found.keys());
        assert_eq!(failures(&outcome), [("x.tar".to_owned(), "archive")], "{what}");
        let reason = &outcome.report.failures[0].reason;
        assert!(reason.contains("gzip") && reason.contains("none is unpacked"), "{reason}");
    }
}

#[test]
fn a_checksum_is_seen_behind_a_header_that_breaks_and_behind_any_end() {
    let entries = |bytes: &[u8]| {
        let mut wrong = gzip(bytes);
        assert!(read(&wrong).is_ok());
        let at = wrong.len() - 8;
        wrong[at] ^= 1;
        assert_eq!(read(&wrong), Err(Kind::Archive));
        read(&gzip(bytes)).unwrap()
    };
    let tar = wordy().0.file("z", b"end").bytes();
    let mut broken = tar.clone();
    broken.extend([b'x'; 100_000]);
    assert_eq!(entries(&broken).len(), 5, "four files, and what stands for the rest");
    let long = [&tar[..], &vec![0; 9 << 19]].concat();
    assert_eq!(entries(&long).len(), 4);
    // What is behind the end is unpacked, so it is not without limits.
    let bomb = gzip(&[&tar[..], &vec![0; 100 << 20]].concat());
    assert!(read(&bomb).is_err());
}

#[test]
fn a_packed_stream_that_breaks_off_keeps_what_was_whole_before_that() {
    let data = |number: u32| -> Vec<u8> {
        (0..25_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).rotate_left(n ^ number).to_le_bytes()).collect()
    };
    let mut tar = Tar::new();
    (0..20).for_each(|number| _ = tar.file(&format!("{number}"), &data(number)));
    for (packing, bytes) in &packings(&tar.end())[1..] {
        let entries = read(&bytes[..bytes.len() / 2]).unwrap();
        let [files @ .., (_, last)] = &entries[..] else { panic!("{packing}: nothing") };
        assert_eq!(*last, Outcome::NoFile, "{packing}");
        // bzip2 unpacks a block of 100 to 900 kB when it has all of it.
        assert!((1..=11).contains(&files.len()), "{packing}: {}", files.len());
        for (number, found) in files.iter().enumerate() {
            assert!(*found == file(&format!("{number}"), &data(number as u32)), "{packing}: {number}");
        }
    }
}

#[test]
fn zeros_behind_a_gzip_stream_are_its_padding_and_nothing_else_is() {
    let (tar, entries) = wordy();
    let bytes = tar.end();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let packed = [gzip(first), gzip(second)].concat();
    for zeros in [1, 7, 512, 200_000] {
        assert_eq!(read(&[&packed[..], &vec![0; zeros]].concat()).unwrap(), entries, "{zeros}");
    }
    for tail in [&b"garbage! garbage!"[..], b"\0\0\0garbage!", &[&[0; 64], &gzip(b"more")[..]].concat()] {
        assert_eq!(read(&[&packed[..], tail].concat()), Err(Kind::Archive), "{}", tail.escape_ascii());
    }
}

#[test]
fn an_archive_that_is_cut_while_it_is_read_is_an_error_and_no_signal() {
    let mut tar = Tar::new();
    for number in 0..40u32 {
        // More than is kept of a packed one, of a kind that does not pack well.
        let data: Vec<u8> =
            (0..250_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).rotate_left(n ^ number).to_le_bytes()).collect();
        tar.file(&format!("large-{number}"), &data).file(&format!("small-{number}"), &data[..300]);
    }
    let bytes = tar.end();
    for (packing, bytes) in [("tar", bytes.clone()), ("tar.gz", gzip(&bytes)), ("tar.zst", zstd(&bytes))] {
        for length in [0, 1000, bytes.len() as u64 / 2, bytes.len() as u64 - 1] {
            let entries = read_tar_cut(&bytes, length).unwrap();
            assert_eq!(entries.len(), 80);
            for (name, outcome) in entries {
                assert_eq!(outcome, Outcome::Failed(Kind::Changed), "{packing} {length}: {}", name.escape_ascii());
            }
        }
    }
    let zip = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/zip/several")).unwrap();
    for (name, outcome) in read_zip_cut(&zip, 20).unwrap() {
        assert_eq!(outcome, Outcome::Failed(Kind::Changed), "zip: {}", name.escape_ascii());
    }
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
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.tar.zst");
    std::fs::write(&path, zstd(&bytes)).unwrap();
    for workers in [1, 3] {
        let sink = MemorySink::new();
        let options = TransferOptions { workers: Workers::Fixed(workers), ..TransferOptions::default() };
        let source = archives(std::slice::from_ref(&path), ArchiveOptions::default());
        let outcome = Transfer::new(source, Arc::new(sink.clone()), options).run(&mut |_| ControlFlow::Continue(()));
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!(outcome.report.run.failed, 0, "{:?}", outcome.report.failures);
        assert!(sink.objects() == expected, "with {workers} workers");
    }
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

/// A tree as GNU tar can pack it; what of it is to arrive.
fn tree(root: &Path, long_names: bool) -> Objects {
    let mut expected = Objects::new();
    let mut put = |name: String, data: &[u8]| {
        let path = root.join(&name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
        expected.insert(name.into_bytes(), data.to_vec());
    };
    for size in [0, 1, 511, 512, 513, 70_000] {
        put(format!("sizes/{size}"), &vec![b'x'; size]);
    }
    put("umlaut \u{e4} and space".into(), b"1");
    if long_names {
        put(format!("{}/{}/{}", "a".repeat(90), "b".repeat(120), "c".repeat(200)), b"2");
    }
    std::fs::create_dir(root.join("empty")).unwrap();
    std::os::unix::fs::symlink("sizes/1", root.join("link")).unwrap();
    expected
}

#[test]
fn what_gnu_tar_packs_arrives() {
    if !support::has("tar", "--version") {
        return;
    }
    for format in ["v7", "ustar", "oldgnu", "gnu", "pax"] {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let expected = tree(&root, !["v7", "ustar"].contains(&format));
        for (option, ending) in
            [("", "tar"), ("-z", "tar.gz"), ("-j", "tar.bz2"), ("-J", "tar.xz"), ("--zstd", "tar.zst")]
        {
            let path = temp.path().join(format!("x.{ending}"));
            let mut command = Command::new("tar");
            command.arg("-C").arg(&root).args(["--format", format, "-cf"]).arg(&path);
            command.args(Some(option).filter(|option| !option.is_empty())).arg(".");
            let output = command.output().unwrap();
            if !output.status.success() {
                // The packers are programs of their own, which may be missing.
                eprintln!("skipped: tar {option}: {}", String::from_utf8_lossy(&output.stderr));
                continue;
            }
            let (outcome, found) = unpack_file(&path, ArchiveOptions::default());
            assert_eq!(failures(&outcome), [], "{format} {option}");
            assert!(found == expected, "{format} {option}: {:?}", found.keys());
        }
    }
}

#[test]
fn what_gnu_tar_makes_of_holes_hard_links_and_attributes_is_told_apart() {
    if !support::has("tar", "--version") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a"), b"1").unwrap();
    std::fs::hard_link(root.join("a"), root.join("b")).unwrap();
    let holes = std::fs::File::create(root.join("holes")).unwrap();
    std::os::unix::fs::FileExt::write_at(&holes, b"end", 8 << 20).unwrap();
    std::fs::write(root.join("z"), b"2").unwrap();
    for (format, options) in [
        ("gnu", &[][..]),
        ("pax", &["--sparse-version=0.0"]),
        ("pax", &["--sparse-version=0.1"]),
        ("pax", &["--sparse-version=1.0", "--xattrs"]),
    ] {
        let path = temp.path().join("x.tar");
        let mut command = Command::new("tar");
        command.arg("-C").arg(&root).args(["--format", format, "--sort=name", "-S"]).args(options);
        let output = command.arg("-cf").arg(&path).arg(".").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (outcome, found) = unpack_file(&path, ArchiveOptions::default());
        assert_eq!(found, objects([("a", b"1"), ("z", b"2")]), "{format} {options:?}");
        let names: Vec<String> = failures(&outcome).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["holes"], "{format} {options:?}");
    }
}
