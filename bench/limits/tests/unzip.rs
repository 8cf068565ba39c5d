//! The bare loop unpacks all that the lab's archives hold; it promises nothing else.

use std::path::{Path, PathBuf};

use libdeflater::{CompressionLvl, Compressor, crc32};
use shoal_limits::{Unzip, unzip};

/// Makes an archive; of `method` 0 an entry is stored.
fn archive(path: &Path, entries: &[(&str, &[u8], u16)]) {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content, method) in entries {
        let mut packed = content.to_vec();
        if *method == 8 {
            let mut compressor = Compressor::new(CompressionLvl::default());
            packed = vec![0; compressor.deflate_compress_bound(content.len())];
            let len = compressor.deflate_compress(content, &mut packed).unwrap();
            packed.truncate(len);
        }
        let at = file.len() as u32;
        let mut facts = vec![20, 0, 0, 0];
        facts.extend(method.to_le_bytes());
        facts.extend([0; 4]);
        for number in [crc32(content), packed.len() as u32, content.len() as u32] {
            facts.extend(number.to_le_bytes());
        }
        facts.extend((name.len() as u16).to_le_bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&facts);
        // An extra field in the entry's own header alone: its length is not the one in the directory.
        file.extend(4_u16.to_le_bytes());
        file.extend(name.as_bytes());
        file.extend([1, 0, 0, 0]);
        file.extend(packed);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&facts);
        directory.extend([0; 12]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, len) = (file.len() as u32, directory.len() as u32);
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend((entries.len() as u16).to_le_bytes().repeat(2));
    file.extend(len.to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    std::fs::write(path, file).unwrap();
}

/// Bytes that deflate makes smaller, but not to nothing.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| ((at * at) >> 7 & 0x1f) as u8).collect()
}

#[test]
fn every_entry_is_unpacked_once() {
    let directory = tempfile::tempdir().unwrap();
    let large = content((64 << 20) + 12_345); // a stream
    let sizes = [0, 1, 100, 300_000, 2_000_000];
    let contents: Vec<_> = sizes.into_iter().map(content).collect();
    let names: Vec<_> = (0..500).map(|number| format!("d{}/deep/{number}", number % 3)).collect();
    let mut expected: Vec<(PathBuf, &[u8])> = Vec::new();
    let mut first = vec![("made/", &[][..], 0)];
    for (number, name) in names.iter().enumerate() {
        let content = &contents[number % 3][..];
        first.push((name, content, if number % 5 == 0 { 0 } else { 8 }));
        expected.push((name.into(), content));
    }
    let second = [("a", &contents[3][..], 8), ("large", &large, 8), ("b", &contents[4], 8), ("c", &contents[4], 0)];
    expected.extend(second.iter().map(|(name, content, _)| (PathBuf::from(name), *content)));
    let archives = vec![directory.path().join("1.zip"), directory.path().join("2.zip"), directory.path().join("0.zip")];
    archive(&archives[0], &first);
    archive(&archives[1], &second);
    archive(&archives[2], &[]);
    let bytes = expected.iter().map(|(_, content)| content.len() as u64).sum::<u64>();
    for threads in [1, 3] {
        let out = directory.path().join(threads.to_string());
        std::fs::create_dir(&out).unwrap();
        for directory in [None, Some(out.clone())] {
            let outcome = unzip(&Unzip { archives: archives.clone(), directory, threads }).unwrap();
            assert_eq!((outcome.objects, outcome.bytes), (504, bytes));
            assert!(outcome.seconds > 0.0);
        }
        for (name, content) in &expected {
            assert!(std::fs::read(out.join(name)).unwrap() == *content, "{name:?}");
        }
    }
}

#[test]
fn wrong_bytes_and_a_missing_archive_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("1.zip");
    let run = || unzip(&Unzip { archives: vec![path.clone()], directory: None, threads: 2 });
    assert_eq!(run().unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let large = content((64 << 20) + 1);
    for (content, method) in [(&b"stored"[..], 0), (&content(1000), 8), (&large, 8)] {
        archive(&path, &[("a", content, method)]);
        run().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = 35 + (bytes.len() - 35 - 69) / 2; // between the headers, in the packed bytes
        bytes[middle] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(run().unwrap_err().kind(), std::io::ErrorKind::InvalidData, "{} bytes", content.len());
        bytes.truncate(bytes.len() - 1);
        std::fs::write(&path, &bytes).unwrap();
        assert!(run().is_err());
    }
}
