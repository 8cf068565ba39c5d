//! Zip archives made to do harm or to be misread: each is refused with its reason, before anything is written where its
//! structure is in doubt; and no bytes whatever are more than an error.

#[path = "support/zip.rs"]
mod writer;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, FormatsIn};
use shoal_engine::testing::archives::{Outcome, check_zip, read_zip, read_zip_cut};
use shoal_engine::transfer::Transfer;
use shoal_engine::{Kind, TransferOptions};
use writer::{Entry, Local, Zip, end, field, locator, record64};

type Objects = BTreeMap<Vec<u8>, Vec<u8>>;

/// Why an archive is refused as a whole.
fn refused(bytes: &[u8]) -> String {
    match read_zip(bytes) {
        Err(error) if error.kind() == Kind::Archive => error.why().to_owned(),
        other => panic!("not refused: {other:?}"),
    }
}

fn outcomes(bytes: &[u8]) -> Vec<Outcome> {
    read_zip(bytes).unwrap().into_iter().map(|(_, outcome)| outcome).collect()
}

/// What a run with these options does: files written, and each failure's kind and reason.
fn run(bytes: &[u8], options: ArchiveOptions) -> (usize, Vec<(String, String)>) {
    let (objects, failures) = unzip(bytes, options);
    (objects.len(), failures)
}

fn unzip(bytes: &[u8], options: ArchiveOptions) -> (Objects, Vec<(String, String)>) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.zip");
    std::fs::write(&path, bytes).unwrap();
    let sink = MemorySink::new();
    let source = Archives::new(ArchivesFrom::Paths(vec![path]), FormatsIn::Any, options).unwrap();
    let outcome = Transfer::new(Arc::new(source), Arc::new(sink.clone()), TransferOptions::default())
        .run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.error.is_none() && outcome.report.run.balanced(), "{:?}", outcome.error);
    let failures = outcome.report.failures.iter();
    (sink.objects(), failures.map(|failure| (failure.kind.as_str().to_owned(), failure.reason.clone())).collect())
}

fn zip() -> Zip {
    Zip::of([
        Entry::deflated("a", &[b'a'; 1000]),
        Entry::stored("b", b"stored"),
        Entry::deflated("c", b"cc").described(),
    ])
}

/// As in Fifield's "a better zip bomb": each entry is packed as "everything up to the end of the last one", quoting the
/// headers of those behind it in stored blocks.
fn quoted(count: usize) -> Vec<u8> {
    let kernel = writer::deflate(&vec![0; 1 << 20]);
    let mut heads: Vec<Vec<u8>> = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    let (mut packed, mut size) = (kernel, 1u64 << 20);
    let mut data = vec![0; 1 << 20];
    for number in (0..count).rev() {
        let entry = Entry {
            packed: packed.clone(),
            size,
            crc: writer::crc(&data),
            method: 8,
            ..Entry::stored(format!("{number:03}"), b"")
        };
        let mut head = Zip::of([Entry { packed: Vec::new(), ..entry.clone() }]).bytes;
        head[18..22].copy_from_slice(&(packed.len() as u32).to_le_bytes());
        let length = head.len() as u16;
        packed = [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), &head, &packed].concat();
        size += u64::from(length);
        data.splice(0..0, head.iter().copied());
        heads.insert(0, head);
        entries.insert(0, entry);
    }
    // The stored blocks in front of each quoted header belong to the entry before it.
    let mut zip = Zip { bytes: packed[5..].to_vec(), ..Zip::default() };
    let mut offset = 0;
    for (number, entry) in entries.iter().enumerate() {
        zip.line(entry, offset);
        offset += heads[number].len() as u64 + 5;
    }
    zip.done()
}

#[test]
fn entries_that_share_bytes_are_refused_before_the_first_output() {
    let quoted = quoted(50);
    assert!(refused(&quoted).contains("entries share bytes"), "{}", refused(&quoted));
    // Full overlap: one entry under many names.
    let entry = Entry::deflated("x", &[0; 100_000]);
    let mut full = Zip::of([entry.clone()]);
    (0..50).for_each(|number| full.line(&Entry { name: vec![b'0' + number], ..entry.clone() }, 0));
    assert!(refused(&full.done()).contains("entries share bytes"), "{}", refused(&full.done()));
    for bytes in [quoted.clone(), full.done()] {
        let (written, failures) = run(&bytes, ArchiveOptions::default());
        assert_eq!((written, failures.len()), (0, 1), "one failure for the archive, and no output");
        assert_eq!(failures[0].0, "archive");
    }
    // Who trusts it can have it: names are the same in both headers of the first kind.
    let trusting = ArchiveOptions { allow_overlap: true, ..ArchiveOptions::default() };
    assert_eq!(run(&quoted, trusting).0, 50);
    // By a longer header than the directory knows of, which only shows when it is read.
    let mut longer =
        Zip::of([Entry { local_extra: field(9, &[0; 4]), ..Entry::stored("a", b"x") }, Entry::stored("b", b"y")]);
    let at = 28; // length of the extra fields
    longer.bytes[at..at + 2].copy_from_slice(&40u16.to_le_bytes());
    assert_eq!(outcomes(&longer.done()), [Outcome::Failed(Kind::Archive), Outcome::File(b"y".to_vec())]);
    let mut into = Zip::of([Entry::stored("a", b"x")]);
    into.bytes[at..at + 2].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(outcomes(&into.done()), [Outcome::Failed(Kind::Archive)]);
}

#[test]
fn an_end_that_lies_is_refused_with_what_it_lies_about() {
    let zip = zip();
    let (length, offset) = (zip.directory.len() as u32, zip.bytes.len() as u32);
    let with = |tail: &[u8]| [&zip.bytes[..], &zip.directory, tail].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("no end record", with(b"")),
        ("claims 65535 entries", with(&end(u16::MAX, length, offset, b""))),
        ("end record counts 2 entries", with(&end(2, length, offset, b""))),
        ("more than there are before", with(&end(3, 1 << 30, offset, b""))),
        ("claims to begin at byte", with(&end(3, length, offset + 1, b""))),
        ("refers to a zip64 record, but has none", with(&end(3, length, u32::MAX, b""))),
        ("refers to a zip64 record, but has none", with(&end(3, u32::MAX, offset, b""))),
        ("its directory is damaged at entry 1", with(&end(3, length - 1, offset, b""))),
        ("two ends", with(&end(3, length, offset, &end(0, 0, 0, b"")))),
        ("two ends", zip.commented(&zip.done())),
        ("ends within its comment", with(&end(3, length, offset, b"comment"))[..].split_last().unwrap().1.to_vec()),
        ("3 bytes follow the end", [zip.done(), b"xxx".to_vec()].concat()),
    ];
    for (why, bytes) in cases {
        assert!(refused(&bytes).contains(why), "{why}: {}", refused(&bytes));
    }
}

#[test]
fn a_zip64_end_that_lies_is_refused() {
    let zip = zip();
    let (length, offset) = (zip.directory.len() as u64, zip.bytes.len() as u64);
    let at = offset + length;
    let narrow = end(u16::MAX, u32::MAX, u32::MAX, b"");
    let with = |record: Vec<u8>, locator: Vec<u8>, end: Vec<u8>| {
        [&zip.bytes[..], &zip.directory, &record, &locator, &end].concat()
    };
    let good = || record64(3, length, offset);
    assert_eq!(outcomes(&with(good(), locator(at), narrow.clone())).len(), 3);
    // A narrow record that says the same is no contradiction.
    assert_eq!(outcomes(&with(good(), locator(at), end(3, length as u32, offset as u32, b""))).len(), 3);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("is not where", with(good(), locator(at + 1), narrow.clone())),
        ("is not where", with(good(), locator(0), narrow.clone())),
        ("is not where", with(good(), locator(u64::MAX), narrow.clone())),
        ("is not where", with(b"x".repeat(56), locator(at), narrow.clone())),
        ("are inconsistent", with(good(), locator(at), end(2, length as u32, offset as u32, b""))),
        ("are inconsistent", with(good(), locator(at), end(3, length as u32, 0, b""))),
        ("claims 4294967296 entries", with(record64(1 << 32, length, offset), locator(at), narrow.clone())),
        ("more than there are before", with(record64(3, u64::MAX, offset), locator(at), narrow.clone())),
        ("claims to begin at byte", with(record64(3, length, u64::MAX), locator(at), narrow.clone())),
    ];
    for (why, bytes) in cases {
        assert!(refused(&bytes).contains(why), "{why}: {}", refused(&bytes));
    }
}

#[test]
fn a_directory_that_lies_is_refused() {
    let line = |change: &dyn Fn(&mut Entry)| {
        let mut entry = Entry::deflated("a", &[b'a'; 1000]);
        change(&mut entry);
        refused(&Zip::of([entry]).done())
    };
    assert!(line(&|entry| entry.said_offset = Some(5000)).contains("beyond the directory"));
    assert!(line(&|entry| entry.said_packed = Some(5000)).contains("beyond the directory"));
    assert!(line(&|entry| (entry.said_packed, entry.zip64) = (Some(u64::MAX), true)).contains("beyond the directory"));
    assert!(line(&|entry| (entry.said_offset, entry.zip64) = (Some(u64::MAX), true)).contains("beyond the directory"));
    assert!(line(&|entry| entry.said_packed = Some(1 << 40)).contains("refers to a zip64 field, but has none"));
    let mut split = Zip::of([Entry::stored("a", b"x")]);
    split.directory[34] = 1;
    assert!(refused(&split.done()).contains("one part of several"));
}

#[test]
fn an_entry_whose_own_header_says_something_else_fails_alone() {
    let data = [b'a'; 1000];
    let lies: Vec<Local> = vec![
        Local { name: Some(b"z".to_vec()), ..Local::default() },
        Local { name: Some(b"aa".to_vec()), ..Local::default() },
        Local { method: Some(0), ..Local::default() },
        Local { flags: Some(1 << 11 | 1), ..Local::default() },
        Local { crc: Some(7), ..Local::default() },
        Local { packed: Some(7), ..Local::default() },
        Local { size: Some(7), ..Local::default() },
        Local { size: Some(u32::MAX), ..Local::default() },
    ];
    for described in [false, true] {
        for local in &lies {
            let entry = Entry { local: local.clone(), ..Entry::deflated("a", &data) };
            let entry = if described && local.flags.is_none() { entry.described() } else { entry };
            let found = outcomes(&Zip::of([entry, Entry::stored("b", b"y")]).done());
            let lied_behind = described && local.size == Some(u32::MAX); // "it stands behind", as some packers say it
            match lied_behind {
                false => assert_eq!(found[0], Outcome::Failed(Kind::Archive), "{described} {local:?}"),
                true => assert_eq!(found[0], Outcome::File(data.to_vec())),
            }
            assert_eq!(found[1], Outcome::File(b"y".to_vec()));
        }
    }
    let mut gone = Zip::of([Entry::stored("a", b"x")]);
    gone.bytes[0] = 0;
    assert_eq!(outcomes(&gone.done()), [Outcome::Failed(Kind::Archive)]);
}

#[test]
fn an_entry_is_exactly_what_was_declared_or_nothing_of_it_is_kept() {
    // Below a whole object, in one piece, in several pieces; by every way of unpacking.
    for size in [1000, 100_000, 9 << 20] {
        let data: Vec<u8> = (0..size).map(|n| (n / 11 % 256) as u8).collect();
        for method in [0, 8, 93] {
            let packed = match method {
                0 => data.clone(),
                8 => writer::deflate(&data),
                _ => zstd::encode_all(&data[..], 1).unwrap(),
            };
            let good = Entry { packed, method, ..Entry::stored("a", &data) };
            let found = unzip(&Zip::of([good.clone()]).done(), ArchiveOptions::default());
            assert!(found.1.is_empty() && found.0[&b"a"[..]] == data, "{size} {method}: {:?}", found.1);
            let mut wrong = vec![Entry { crc: good.crc ^ 1, ..good.clone() }];
            if method != 0 {
                wrong.push(Entry { size: good.size - 1, ..good.clone() });
                wrong.push(Entry { size: good.size + 1, ..good.clone() });
                let mut cut = good.clone();
                cut.packed.truncate(cut.packed.len() / 2);
                wrong.push(cut);
            }
            for entry in wrong {
                let (objects, failures) = unzip(&Zip::of([entry]).done(), ArchiveOptions::default());
                assert_eq!((objects.len(), failures[0].0.as_str()), (0, "integrity"), "{size} {method}");
            }
        }
    }
    // What is stored has one size.
    let lying = Entry { size: 7, ..Entry::stored("a", b"x") };
    assert_eq!(outcomes(&Zip::of([lying]).done()), [Outcome::NoFile]);
}

#[test]
fn limits_name_the_option_that_raises_them() {
    let bomb = Zip::of((0..2).map(|n| Entry::deflated(format!("{n}"), &vec![0; 40 << 20]))).done();
    let (written, failures) = run(&bomb, ArchiveOptions::default());
    assert_eq!((written, failures.len()), (0, 1));
    assert!(failures[0].1.contains("over 100 times as many"), "{failures:?}");
    assert_eq!(run(&bomb, ArchiveOptions { max_ratio: 1100, ..ArchiveOptions::default() }).0, 2);
    let small = zip().done();
    let limited = |options| run(&small, options).1;
    let why = limited(ArchiveOptions { max_size: Some(1007), ..ArchiveOptions::default() });
    assert!(why[0].1.contains("1008 bytes or more, but only 1007 are allowed"), "{why:?}");
    assert_eq!(limited(ArchiveOptions { max_size: Some(1008), ..ArchiveOptions::default() }), []);
    let why = limited(ArchiveOptions { max_entries: 2, ..ArchiveOptions::default() });
    assert!(why[0].1.contains("more than 2 entries"), "{why:?}");
    // Its end counts three: that is enough, and the directory is not looked at.
    let mut damaged = small.clone();
    let at = small.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    damaged[at] = b'?';
    assert!(run(&damaged, ArchiveOptions::default()).1[0].1.contains("damaged at entry 1"));
    let few = ArchiveOptions { max_entries: 2, ..ArchiveOptions::default() };
    assert_eq!(run(&damaged, few).1, why);
    // An entry that declares little is not unpacked further than that.
    let lying = Entry { size: 10, ..Entry::deflated("a", &vec![0; 40 << 20]) };
    let (written, failures) = run(&Zip::of([lying]).done(), ArchiveOptions::default());
    assert_eq!((written, failures[0].0.as_str()), (0, "integrity"));
    assert!(failures[0].1.contains("more than the 10 bytes"), "{failures:?}");
}

#[test]
fn every_cut_and_every_flipped_byte_of_a_small_archive_is_an_error_at_most() {
    let wide = Zip::of([Entry::deflated("dir/a", &[b'a'; 300]).wide(), Entry::stored("b", b"stored")]).done_wide();
    let names =
        Zip::of([Entry { flags: 0, host: writer::DOS, ..Entry::stored(b"\x81", b"x") }, Entry::stored("d/", b"")]);
    for bytes in [zip().done(), wide, names.commented(b"comment")] {
        let good = read_zip(&bytes).unwrap();
        for length in 0..bytes.len() {
            assert!(read_zip(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            for mask in [0xff, 0x01, 0x80, 0x20] {
                let mut flipped = bytes.clone();
                flipped[at] ^= mask;
                check_zip(&flipped);
                // Contents that come out are those that went in: a checksum of 32 bits finds any single flipped byte.
                for (_, outcome) in read_zip(&flipped).unwrap_or_default() {
                    if let Outcome::File(data) = outcome {
                        assert!(good.iter().any(|(_, known)| *known == Outcome::File(data.clone())), "byte {at}");
                    }
                }
            }
        }
        for at in 0..bytes.len() - 8 {
            for number in [0u64, u64::MAX, 1 << 31, 0xffff_ffff] {
                let mut overwritten = bytes.clone();
                overwritten[at..at + 4].copy_from_slice(&number.to_le_bytes()[..4]);
                check_zip(&overwritten);
                overwritten[at..at + 8].copy_from_slice(&number.to_le_bytes());
                check_zip(&overwritten);
            }
        }
    }
}

#[test]
fn whatever_is_no_archive_says_so() {
    for bytes in [&b""[..], b"PK", b"PK\x05\x06", &[b'x'; 100_000], &[0; 30], b"PK\x03\x04"] {
        assert!(refused(bytes).contains("no end record"), "{}", refused(bytes));
    }
    let (_, failures) = run(b"#!/bin/sh\n", ArchiveOptions::default());
    assert!(failures[0].1.contains("neither a zip nor a tar archive"), "{failures:?}");
}

#[test]
fn an_archive_that_is_cut_short_once_it_is_planned_has_changed_from_there_on() {
    let data: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
    let large = Entry::stored("large", &[&data[..]; 8].concat());
    let mut zip = Zip::default();
    let ends = [Entry::stored("a", b"x"), Entry::deflated("b", &data), large, Entry::stored("c", b"y")].map(|entry| {
        zip.push(&entry);
        zip.bytes.len() as u64
    });
    let bytes = zip.done();
    for length in [0, 10, 1000, 200_000, 2 << 20] {
        let found = read_zip_cut(&bytes, length).unwrap();
        for ((name, outcome), end) in found.iter().zip(ends) {
            match outcome {
                Outcome::File(_) => assert!(end <= length, "cut at {length}, {end}"),
                outcome => assert_eq!(*outcome, Outcome::Failed(Kind::Changed), "{length} {}", name.escape_ascii()),
            }
        }
        assert_eq!(found[3].1, Outcome::Failed(Kind::Changed));
    }
}
