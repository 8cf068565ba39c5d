//! Hard links: each becomes a copy of the file that it leads to, or a failure.

use shoal_engine::source::archive::ArchiveOptions;

use crate::writer::Tar;
use crate::{Objects, failures, gzip, objects, packings, unpack, unpacks_whole, zstd};

fn link(tar: &mut Tar, name: &str, target: &str) {
    tar.header(|header| header.name(name).flag(b'1').link(target));
}

fn unsupported(names: &[&str]) -> Vec<(String, &'static str)> {
    names.iter().map(|name| ((*name).to_owned(), "unsupported")).collect()
}

/// Bytes that do not pack.
fn noise(seed: u32, size: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    (0..size.div_ceil(4)).flat_map(|_| next().to_le_bytes()).take(size).collect()
}

#[test]
fn a_hard_link_is_a_copy_of_the_last_earlier_file_of_that_name() {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(100));
    let mut tar = Tar::new();
    tar.file("a", b"one").file("./dir/b", &[7; 70_000]).file("empty", b"");
    tar.long(b'L', long.as_bytes()).file("cut", b"long");
    link(&mut tar, "h", "a");
    link(&mut tar, "of-a-link", "h");
    link(&mut tar, "./dir/h", "dir/b");
    link(&mut tar, "h-empty", "./empty");
    tar.header(|header| header.name("h-sized").flag(b'1').link("a").size(999)); // nothing follows, whatever it says
    tar.long(b'K', long.as_bytes());
    link(&mut tar, "h-gnu", "cut");
    tar.pax(&[("linkpath", long.as_bytes())]);
    link(&mut tar, "h-pax", "cut");
    tar.file("a", b"two"); // a failure: the first stays
    link(&mut tar, "h-of-the-second", "a");
    let expected = objects([
        ("a", b"one"),
        ("dir/b", &[7; 70_000]),
        ("empty", b""),
        (&long, b"long"),
        ("h", b"one"),
        ("of-a-link", b"one"),
        ("dir/h", &[7; 70_000]),
        ("h-empty", b""),
        ("h-sized", b"one"),
        ("h-gnu", b"long"),
        ("h-pax", b"long"),
        ("h-of-the-second", b"two"),
    ]);
    for (packing, bytes) in packings(&tar.end()) {
        let (outcome, found) = unpack(&bytes, ArchiveOptions::default());
        assert_eq!(found, expected, "{packing}");
        assert_eq!(failures(&outcome), [("a".to_owned(), "repeated")], "{packing}");
        assert!(outcome.report.notes.iter().any(|note| note.contains("8 hard links became copies")), "{packing}");
    }
    let options = ArchiveOptions { into_subdirectories: true, ..ArchiveOptions::default() };
    let (_, found) = unpack(&tar.end(), options);
    assert_eq!(found[&b"x/of-a-link"[..]], b"one");
}

#[test]
fn a_hard_link_that_leads_to_no_earlier_file_is_a_failure() {
    let mut tar = Tar::new();
    tar.file("f", b"1");
    tar.header(|header| header.name("d/").flag(b'5')).data(b"");
    tar.header(|header| header.name("s").flag(b'2').link("f")).data(b"");
    tar.header(|header| header.name("p").flag(b'6')).data(b"");
    tar.header(|header| header.name("odd").flag(b'Q')).data(b"what is it");
    let targets = [
        ("01-missing", "gone"),
        ("02-later", "z"),
        ("03-above", "../f"),
        ("04-absolute", "/etc/passwd"),
        ("05-nothing", ""),
        ("06-directory", "d"),
        ("07-symbolic", "s"),
        ("08-below-a-link", "s/f"),
        ("09-pipe", "p"),
        ("10-failed", "odd"),
        ("11-failed-link", "01-missing"),
        ("12-itself", "12-itself"),
    ];
    for (name, target) in targets {
        link(&mut tar, name, target);
    }
    tar.file("z", b"2");
    for (packing, bytes) in packings(&tar.end()) {
        let (outcome, found) = unpack(&bytes, ArchiveOptions::default());
        assert_eq!(found, objects([("f", b"1"), ("z", b"2")]), "{packing}");
        let mut expected = unsupported(&targets.map(|(name, _)| name));
        expected.push(("odd".to_owned(), "archive"));
        assert_eq!(failures(&outcome), expected, "{packing}");
    }
}

#[test]
fn copies_count_towards_the_limits_before_anything_is_written() {
    let mut tar = Tar::new();
    tar.file("a", &[1; 400]);
    link(&mut tar, "b", "a");
    link(&mut tar, "c", "b");
    let mut bomb = Tar::new();
    bomb.file("a", &noise(1, 1 << 20));
    for number in 0..200 {
        link(&mut bomb, &format!("{number}"), "a");
    }
    // A large file behind much that packs well, which each of its copies would unpack again.
    let mut slow = Tar::new();
    slow.file("filler", &vec![0; 60 << 20]).file("noise", &noise(2, 3 << 20)).file("a", &vec![1; 9 << 20]);
    for number in 0..10 {
        link(&mut slow, &format!("{number}"), "a");
    }
    let small = ArchiveOptions { max_size: Some(1199), ..ArchiveOptions::default() };
    let just = ArchiveOptions { max_size: Some(1200), ..ArchiveOptions::default() };
    assert_eq!(unpack(&tar.end(), just).1.len(), 3);
    for (bytes, options, said) in [
        (tar.end(), small.clone(), "1199 are allowed"),
        (gzip(&tar.end()), small, "1199 are allowed"),
        (bomb.end(), ArchiveOptions::default(), "100 times"),
        (zstd(&bomb.end()), ArchiveOptions::default(), "100 times"),
        (zstd(&slow.end()), ArchiveOptions::default(), "its hard links would unpack"),
    ] {
        let (outcome, found) = unpack(&bytes, options);
        assert!(found.is_empty(), "{said}: {:?}", found.keys());
        assert_eq!(failures(&outcome), [("x.tar".to_owned(), "archive")], "{said}");
        assert!(outcome.report.failures[0].reason.contains(said), "{}", outcome.report.failures[0].reason);
    }
}

#[test]
fn copies_of_a_packed_archive_too_large_to_be_kept_are_right_with_any_number_of_lanes() {
    let mut tar = Tar::new();
    let mut expected = Objects::new();
    for (number, size) in [300, 70_000, 2 << 20, 9 << 20, 65_536, 25 << 20].into_iter().enumerate() {
        let data = noise(number as u32, size);
        tar.file(&format!("{number}"), &data);
        expected.insert(format!("{number}").into_bytes(), data);
    }
    for number in 0..30 {
        let (name, target) = (format!("links/{number}"), format!("{}", number * 7 % 5));
        link(&mut tar, &name, &target);
        expected.insert(name.into_bytes(), expected[target.as_bytes()].clone());
    }
    tar.file("last", b"behind the links");
    expected.insert(b"last".to_vec(), b"behind the links".to_vec());
    unpacks_whole(&zstd(&tar.end()), &expected);
}
