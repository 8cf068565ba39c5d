//! Archives that are cut, broken, or end in some way: what was whole before arrives, or nothing, and it is said.

use shoal_engine::Kind;
use shoal_engine::source::archive::ArchiveOptions;
use shoal_engine::testing::archives::{Outcome, check_tar, read_tar_cut, read_zip_cut};

use crate::writer::Tar;
use crate::{bzip2, failures, file, gzip, objects, packings, read, unpack, xz, zstd};

#[test]
fn an_archive_ends_with_zeros_and_one_without_says_that_entries_may_be_missing() {
    let entry = Tar::new().file("a", b"1").bytes();
    let block = [0u8; 512];
    let ends: [(&str, Vec<u8>); 3] = [
        ("two blocks", [&entry[..], &block, &block].concat()),
        ("with more behind", [&entry[..], &block, &block, b"whatever follows"].concat()),
        ("one block", [&entry[..], &block].concat()),
    ];
    for (case, bytes) in &ends {
        for (packing, bytes) in packings(bytes) {
            assert_eq!(read(&bytes).unwrap(), [file("a", b"1")], "{case}, {packing}");
        }
    }
    // As if cut in front of "b"; an empty entry has nothing but its header.
    for entries in [entry, Tar::new().file("a", b"").bytes()] {
        for (packing, bytes) in packings(&entries) {
            let (outcome, found) = unpack(&bytes, ArchiveOptions::default());
            assert_eq!(found.len(), 1, "{packing}");
            assert_eq!(failures(&outcome), [("x.tar".to_owned(), "archive")], "{packing}");
            let reason = &outcome.report.failures[0].reason;
            assert!(reason.contains("ends early") && reason.contains("mark its end are missing"), "{reason}");
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
fn what_stands_behind_the_end_is_told_unless_it_is_padding() {
    let (first, second) = (Tar::new().file("a", b"1").end(), Tar::new().file("b", b"2").end());
    let ends: [(&[u8], bool); 4] = [(&[0; 9216], false), (&second, true), (b"more", true), (&[0; 0], false)];
    for (tail, told) in ends {
        for (packing, bytes) in packings(&[&first[..], tail].concat()) {
            let (outcome, found) = unpack(&bytes, ArchiveOptions::default());
            assert_eq!(found, objects([("a", b"1")]), "{packing}");
            assert_eq!(failures(&outcome), [], "{packing}");
            let notes = outcome.report.notes.join("\n");
            assert_eq!(notes.contains("\"x.tar\" has data after its end"), told, "{packing}: {notes}");
        }
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
        assert!(found.len() > whole.len(), "cut at {end}: nothing says so: {found:?}");
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
