//! Appending: whole records, one call after the other, whatever happened before.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, UInt16Array, UInt32Array};
use shoal_records::{
    AppendOptions, ErrorKind, Format, Kind, OpenOptions, Pool, Records, ScanOptions, Tail, append, recover,
};

use crate::written::{Written, index, index_format, random_bytes, random_format};

fn options() -> AppendOptions {
    AppendOptions::default()
}

#[test]
fn records_go_behind_the_last_one() {
    let file = Written::new(b"");
    let (_, bytes) = index(&mut fastrand::Rng::with_seed(40), 300, 10);
    let format = index_format();
    let mut first = 0;
    for part in bytes.chunks(16 * 70) {
        let done = append(&file.path, part, &format, options()).unwrap();
        assert_eq!((done.first, done.records, done.cut), (first, part.len() as u64 / 16, 0));
        first += done.records;
    }
    assert_eq!(std::fs::read(&file.path).unwrap(), bytes);
    let done = append(&file.path, b"", &format, AppendOptions { durable: true, ..options() }).unwrap();
    assert_eq!((done.first, done.records), (300, 0));
}

#[test]
fn a_file_that_is_not_there_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.bin");
    append(&path, &[1; 16], &index_format(), options()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [1; 16]);
    let error = append(&folder.path().join("no/new.bin"), &[1; 16], &index_format(), options()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ENOENT));
}

#[test]
fn bytes_behind_the_last_whole_record_are_refused_and_kept_unless_the_caller_has_them_cut_off() {
    let header = b"header";
    let before = [header.as_slice(), &[1; 16], &[2; 9]].concat();
    let file = Written::new(&before);
    let with_header = AppendOptions { offset: 6, ..options() };
    let error = append(&file.path, &[3; 32], &index_format(), with_header).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Torn);
    assert!(error.to_string().contains("1 whole ones and 9 more bytes"), "{error}");
    assert_eq!(std::fs::read(&file.path).unwrap(), before);
    let done = append(&file.path, &[3; 32], &index_format(), AppendOptions { cut: true, ..with_header }).unwrap();
    assert_eq!((done.first, done.records, done.cut), (1, 2, 9));
    assert_eq!(std::fs::read(&file.path).unwrap(), [header.as_slice(), &[1; 16], &[3; 32]].concat());
}

#[test]
fn records_of_another_size_outlive_an_append_with_the_wrong_format() {
    let records = [7; 30]; // three of ten bytes
    let file = Written::new(&records);
    let refused = |file: &Written, why: ErrorKind| {
        let error = append(&file.path, &[3; 16], &index_format(), options()).unwrap_err();
        assert_eq!(error.kind(), why);
        std::fs::read(&file.path).unwrap()
    };
    assert_eq!(refused(&file, ErrorKind::Torn), records);
    // Also where an append of the right format was killed: not even its own bytes are touched by another's.
    let killed = Written::new(&[records.as_slice(), &[8; 4]].concat());
    if mark(&killed, 30, 40) {
        assert_eq!(refused(&killed, ErrorKind::Unfinished), [records.as_slice(), &[8; 4]].concat());
    }
}

/// Marks a file as an append of an older version does; false where the file system has no extended attributes.
fn mark(file: &Written, before: u64, after: u64) -> bool {
    let path = std::ffi::CString::new(file.path.to_str().unwrap()).unwrap();
    let value = [&[before, after].map(u64::to_le_bytes).concat()[..], &[1; 16]].concat();
    let name = c"user.shoal.append".as_ptr();
    // SAFETY: the strings end with a zero, and the value is as long as it says.
    unsafe { libc::setxattr(path.as_ptr(), name, value.as_ptr().cast(), value.len(), 0) == 0 }
}

#[test]
fn the_mark_of_an_older_version_hides_nothing_unless_the_caller_decides() {
    let bytes = [1; 48];
    let file = Written::new(&bytes);
    let open =
        || Records::open(&[&file.path], index_format(), OpenOptions { tail: Tail::Drop, ..OpenOptions::default() });
    let settle = |keep| recover(&file.path, keep, Duration::from_secs(30)).unwrap();
    // Nothing was appended, or all.
    for (before, after) in [(48, 96), (16, 48)] {
        if !mark(&file, before, after) {
            eprintln!("notice: no extended attributes in {}: not tested", file.path.display());
            return;
        }
        assert_eq!(open().unwrap().len(), 3);
        assert_eq!(settle(false), 0, "all of it is whole");
    }
    // Some of it, more than it, and less than was there before.
    for (before, after, cut) in [(16, 64, 32), (16, 32, 32), (64, 96, 0)] {
        for keep in [true, false] {
            std::fs::write(&file.path, bytes).unwrap();
            mark(&file, before, after);
            assert_eq!(open().unwrap_err().kind(), ErrorKind::Unfinished);
            let refused = append(&file.path, &[2; 16], &index_format(), AppendOptions { cut: true, ..options() });
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unfinished);
            assert_eq!(std::fs::read(&file.path).unwrap(), bytes);
            let cut = if keep { 0 } else { cut };
            assert_eq!(settle(keep), cut);
            assert_eq!(open().unwrap().len(), 3 - cut / 16);
        }
    }
}

#[test]
fn what_is_no_whole_record_is_refused_and_nothing_is_written() {
    let file = Written::new(b"abc");
    assert_eq!(append(&file.path, &[1; 17], &index_format(), options()).unwrap_err().kind(), ErrorKind::Invalid);
    let far = AppendOptions { offset: 4, ..options() };
    assert_eq!(append(&file.path, &[1; 16], &index_format(), far).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(std::fs::read(&file.path).unwrap(), b"abc");
    assert!(append(file.folder.path(), &[1; 16], &index_format(), options()).is_err());
    assert_eq!(
        append("/dev/null".as_ref(), &[1; 16], &index_format(), options()).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[test]
fn a_full_medium_leaves_the_file_as_it_was() {
    // A limit on the size of files stands for a full medium; it is the process's, so a child takes it.
    const NAME: &str = "append::a_full_medium_leaves_the_file_as_it_was";
    if let Ok(path) = std::env::var("SHOAL_RECORDS_FULL") {
        // SAFETY: plain calls with valid arguments.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: 100, rlim_max: 100 };
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        let error = append(path.as_ref(), &[2; 160], &index_format(), options()).unwrap_err();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Io, Some(libc::EFBIG)));
        return;
    }
    let file = Written::new(&[1; 48]);
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env("SHOAL_RECORDS_FULL", &file.path)
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    assert!(String::from_utf8_lossy(&status.stdout).contains("1 passed"));
    assert_eq!(std::fs::read(&file.path).unwrap(), [1; 48]);
}

#[test]
fn who_holds_the_lock_for_too_long_is_named_as_the_reason() {
    let file = Written::new(&[1; 20]);
    let held = std::fs::File::open(&file.path).unwrap();
    // SAFETY: a plain call with an open descriptor.
    assert_eq!(unsafe { libc::flock(held.as_raw_fd(), libc::LOCK_EX) }, 0);
    let short = AppendOptions { wait: Duration::from_millis(20), ..options() };
    let error = append(&file.path, &[1; 16], &index_format(), short).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert_eq!(std::fs::read(&file.path).unwrap(), [1; 20]);
}

#[test]
fn a_reader_waits_for_an_append_that_is_under_way() {
    let file = Written::new(&[1; 20]);
    let mut writer = std::fs::OpenOptions::new().append(true).open(&file.path).unwrap();
    // SAFETY: a plain call with an open descriptor.
    assert_eq!(unsafe { libc::flock(writer.as_raw_fd(), libc::LOCK_EX) }, 0);
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        writer.write_all(&[1; 12]).unwrap();
    });
    let records = Records::open(&[&file.path], index_format(), OpenOptions::default()).unwrap();
    assert_eq!(records.len(), 2);
    late.join().unwrap();
}

#[test]
fn many_append_at_once_while_another_reads() {
    const WRITERS: u64 = 4;
    const CALLS: u64 = 60;
    let format = Format::from_struct("<QQQ", Some(&["writer", "call", "row"].map(String::from))).unwrap();
    let file = Written::new(b"");
    let rows = |writer: u64, call: u64| -> Vec<u8> {
        (0..1 + call % 50).flat_map(|row| [writer, call, row].map(u64::to_le_bytes).concat()).collect()
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (file, format) = (&file, &format);
            scope.spawn(move || {
                for call in 0..CALLS {
                    append(&file.path, &rows(writer, call), format, options()).unwrap();
                }
            });
        }
        let mut records = file.open(&format);
        let mut seen = 0;
        let all: u64 = WRITERS * (0..CALLS).map(|call| 1 + call % 50).sum::<u64>();
        while seen < all {
            records = records.refresh().unwrap();
            let mut bytes = vec![0; records.len() as usize * 24];
            records.read_into(&mut bytes, &Pool::new(Some(2))).unwrap();
            check_runs(&bytes);
            assert!(records.len() >= seen);
            seen = records.len();
            // A table opened now has whole records only, too.
            let anew = Records::open(&[&file.path], format.clone(), OpenOptions::default()).unwrap();
            assert!(anew.len() >= seen);
        }
        assert_eq!(seen, all);
    });
}

/// The rows of each call stand one after the other, up to the end that was read.
fn check_runs(bytes: &[u8]) {
    let rows: Vec<[u64; 3]> = bytes
        .chunks_exact(24)
        .map(|record| [0, 8, 16].map(|at| u64::from_le_bytes(record[at..at + 8].try_into().unwrap())))
        .collect();
    for pair in rows.windows(2) {
        let [before, after] = [pair[0], pair[1]];
        let ended = before[2] == before[1] % 50;
        let wanted = if ended { 0 } else { before[2] + 1 };
        assert_eq!(after[2], wanted, "{before:?} {after:?}");
        assert!(ended || before[..2] == after[..2], "{before:?} {after:?}");
    }
}

#[test]
fn a_table_becomes_the_records_it_was_read_from() {
    let mut random = fastrand::Rng::with_seed(41);
    for _ in 0..30 {
        let format = random_format(&mut random, 7);
        let mut bytes = random_bytes(&mut random, &format, 500);
        // What a record cannot say differently: gaps are zeros, truth is 1.
        let mut kept = vec![false; format.size()];
        for field in format.fields() {
            kept[field.offset..][..field.kind.size()].fill(true);
        }
        for record in bytes.chunks_mut(format.size()) {
            record.iter_mut().zip(&kept).filter(|(_, kept)| !**kept).for_each(|(byte, _)| *byte = 0);
            for field in format.fields().iter().filter(|field| field.kind == Kind::Bool) {
                record[field.offset] = u8::from(record[field.offset] != 0);
            }
        }
        let file = Written::new(&bytes);
        let options = ScanOptions { batch: Some(200), ..ScanOptions::default() };
        let mut again = Vec::new();
        for batch in file.open(&format).scan(&options, &Pool::default()).unwrap() {
            format.encode(&batch.unwrap(), &mut again).unwrap();
        }
        assert!(again == bytes, "{format:?}");
    }
}

#[test]
fn a_table_that_does_not_fit_the_records_is_refused() {
    let format = Format::from_struct("<IH", Some(&["a", "b"].map(String::from))).unwrap();
    let column = |values: &[Option<u32>]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
    let short = || Arc::new(UInt16Array::from(vec![1])) as ArrayRef;
    for (columns, part) in [
        (vec![("a", column(&[Some(1)]))], "\"b\""),
        (vec![("a", column(&[Some(1)])), ("b", column(&[Some(1)]))], "cast it"),
        (vec![("a", column(&[None])), ("b", short())], "nulls"),
        (vec![("a", column(&[Some(1)])), ("b", short()), ("c", short())], "\"c\""),
    ] {
        let mut to = vec![9];
        let error = format.encode(&RecordBatch::try_from_iter(columns).unwrap(), &mut to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(to, [9]);
    }
}
