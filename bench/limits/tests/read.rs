//! The bare loop reads all there is below a directory; it promises nothing else.

use std::os::unix::fs::symlink;

use shoal_limits::{Read, read};

#[test]
fn every_byte_of_every_file_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("a/b/c");
    std::fs::create_dir_all(&deep).unwrap();
    let mut bytes = 0;
    // Around the size of a buffer, where a loop that stops too early or too late shows.
    for (number, size) in [0, 1, 10_000, 1_000_000, 1_048_575, 1_048_576, 1_048_577, 2_097_152].into_iter().enumerate()
    {
        std::fs::write(directory.path().join(format!("{number}")), vec![7; size]).unwrap();
        std::fs::write(deep.join(format!("{number}")), vec![7; size]).unwrap();
        bytes += 2 * size as u64;
    }
    for number in 0..500 {
        std::fs::write(deep.join(format!("small-{number}")), b"small").unwrap();
        bytes += 5;
    }
    symlink(&deep, directory.path().join("link")).unwrap();
    symlink(deep.join("0"), directory.path().join("link-to-a-file")).unwrap();
    for threads in [1, 3] {
        let outcome = read(&Read { directory: directory.path().to_owned(), threads }).unwrap();
        assert_eq!((outcome.objects, outcome.bytes), (516, bytes));
        assert!(outcome.seconds > 0.0);
    }
}

#[test]
fn an_empty_directory_is_nothing_and_a_missing_one_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let job = Read { directory: directory.path().to_owned(), threads: 2 };
    assert_eq!(read(&job).unwrap().objects, 0);
    let job = Read { directory: directory.path().join("missing"), threads: 2 };
    assert_eq!(read(&job).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
