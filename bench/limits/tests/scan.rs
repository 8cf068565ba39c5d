//! The bare loop adds up a field of every record; it promises nothing else.

use shoal_limits::{Scan, scan};

/// Writes so many records, then some bytes of another one; returns the sum of their last fields.
fn write(path: &std::path::Path, records: u32, torn: usize) -> u64 {
    let mut content = Vec::new();
    for number in 0..records {
        content.extend_from_slice(&u64::MAX.to_le_bytes());
        content.extend_from_slice(&u32::MAX.to_le_bytes());
        content.extend_from_slice(&(u32::MAX - number).to_le_bytes());
    }
    content.extend_from_slice(&vec![255; torn]);
    std::fs::write(path, content).unwrap();
    (0..records).map(|number| u64::from(u32::MAX - number)).sum()
}

#[test]
fn every_whole_record_is_added_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("records");
    // Around the size of a piece, 65,536 records, where a loop that stops too early or too late shows.
    for (records, torn) in [(0, 0), (0, 15), (1, 0), (65_535, 0), (65_536, 0), (65_537, 7), (200_000, 15)] {
        let sum = write(&file, records, torn);
        for threads in [1, 3] {
            let (outcome, found) = scan(&Scan { file: file.clone(), threads }).unwrap();
            assert_eq!((outcome.objects, outcome.bytes, found), (u64::from(records), u64::from(records) * 16, sum));
            assert!(outcome.seconds > 0.0);
        }
    }
}

#[test]
fn a_missing_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let job = Scan { file: directory.path().join("missing"), threads: 2 };
    assert_eq!(scan(&job).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
