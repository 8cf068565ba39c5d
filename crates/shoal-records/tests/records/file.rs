//! Files as they are found: torn, empty, cut short, replaced, growing.

use std::os::unix::fs::symlink;

use shoal_records::{
    Aggregate, ErrorKind, Format, Function, OpenOptions, Pool, Query, Records, ScanOptions, Tail, Value,
};

use crate::written::{Written, index, index_format};

fn sum(field: &str) -> Query {
    Query { aggregates: vec![Aggregate::of(Function::Sum, field)], ..Query::default() }
}

const DROP: OpenOptions = OpenOptions { offset: 0, tail: Tail::Drop };

#[test]
fn files_without_records_and_with_one_are_tables() {
    let format = index_format();
    let empty = Written::new(b"").open(&format);
    assert!(empty.is_empty());
    assert_eq!(empty.aggregate(&sum("len"), &Pool::default()).unwrap(), [Value::Integer(0)]);
    assert_eq!(empty.scan(&ScanOptions::default(), &Pool::default()).unwrap().count(), 0);
    assert!(empty.blocks(None, true).next_block().unwrap().is_none());
    assert!(empty.aggregate_by("id", &sum("len"), &Pool::default()).unwrap().is_empty());
    assert_eq!(empty.aggregate_by("id", &sum("len"), &Pool::default()).unwrap().to_batch().unwrap().num_rows(), 0);
    empty.read_into(&mut [], &Pool::default()).unwrap();

    let one = Written::new(&[1; 16]);
    assert_eq!(one.open(&format).aggregate(&sum("len"), &Pool::default()).unwrap(), [Value::Integer(0x0101_0101)]);
    assert_eq!(one.open(&format).scan(&ScanOptions::default(), &Pool::default()).unwrap().count(), 1);
}

#[test]
fn records_of_one_byte_and_of_64_kib_are_read() {
    let bytes: Vec<u8> = (0..5_000_000).map(|at| (at % 251) as u8).collect();
    let wanted: i128 = bytes.iter().map(|byte| i128::from(*byte)).sum();
    let small = Format::from_struct("B", None).unwrap();
    let file = Written::new(&bytes);
    assert_eq!(file.open(&small).aggregate(&sum("f0"), &Pool::new(Some(2))).unwrap(), [Value::Integer(wanted)]);

    let large = Format::from_struct("<65535sB", None).unwrap();
    let options = DROP;
    let records = Records::open(&[&file.path], large, options).unwrap();
    assert_eq!(records.len(), 5_000_000 / 65_536);
    let wanted: i128 = (1..=records.len() as usize).map(|at| i128::from(bytes[at * 65_536 - 1])).sum();
    assert_eq!(records.aggregate(&sum("f1"), &Pool::new(Some(2))).unwrap(), [Value::Integer(wanted)]);
    let rows: usize =
        records.scan(&ScanOptions::default(), &Pool::default()).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows as u64, records.len());
}

#[test]
fn a_torn_tail_is_refused_or_dropped() {
    let file = Written::new(&[7; 16 * 3 + 5]);
    let error = Records::open(&[&file.path], index_format(), OpenOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Torn, Some(file.path.as_path())));
    assert!(error.to_string().contains("3 whole ones and 5 more bytes"), "{error}");
    assert_eq!(Records::open(&[&file.path], index_format(), DROP).unwrap().len(), 3);
    let behind = OpenOptions { offset: 5, ..OpenOptions::default() };
    assert_eq!(Records::open(&[&file.path], index_format(), behind).unwrap().len(), 3);
}

#[test]
fn an_offset_beyond_the_end_is_refused() {
    let file = Written::new(&[7; 32]);
    let open = |offset| Records::open(&[&file.path], index_format(), OpenOptions { offset, tail: Tail::Drop });
    assert_eq!(open(32).unwrap().len(), 0);
    for offset in [33, u64::MAX] {
        let error = open(offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("32 bytes long"), "{error}");
    }
}

#[test]
fn what_is_no_file_of_records_is_refused() {
    let file = Written::new(b"");
    let folder = file.folder.path();
    let open = |path: &std::path::Path| Records::open(&[path], index_format(), OpenOptions::default()).unwrap_err();
    assert_eq!(
        (open(&folder.join("none")).kind(), open(&folder.join("none")).errno()),
        (ErrorKind::Io, Some(libc::ENOENT))
    );
    assert_eq!(open(folder).kind(), ErrorKind::Invalid);
    assert_eq!(open("/dev/zero".as_ref()).kind(), ErrorKind::Invalid);
    symlink("loop", folder.join("loop")).unwrap();
    assert_eq!(open(&folder.join("loop")).errno(), Some(libc::ELOOP));
    assert_eq!(Records::open::<&str>(&[], index_format(), DROP).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_file_cut_short_is_an_error_for_all_that_read_it() {
    let count = 2_000_000; // more than two workers read ahead
    let (_, bytes) = index(&mut fastrand::Rng::with_seed(30), count, 10);
    let file = Written::new(&bytes);
    let records = file.open(&index_format());
    let mut blocks = records.blocks(None, true);
    blocks.next_block().unwrap();
    let mut scan = records.scan(&ScanOptions::default(), &Pool::new(Some(2))).unwrap();
    scan.next().unwrap().unwrap();
    // In the midst of a record that nobody has read yet.
    std::fs::OpenOptions::new().write(true).open(&file.path).unwrap().set_len(bytes.len() as u64 - 100).unwrap();
    let error = scan.find_map(Result::err).unwrap();
    assert!(error.to_string().contains("truncated"), "{error}");
    let error = loop {
        match blocks.next_block() {
            Ok(block) => assert!(block.is_some(), "the end was reached without an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert!(blocks.next_block().unwrap().is_none());
    for workers in [1, 2] {
        let pool = Pool::new(Some(workers));
        assert_eq!(records.aggregate(&sum("len"), &pool).unwrap_err().kind(), ErrorKind::Changed);
        assert_eq!(records.aggregate_by("id", &sum("len"), &pool).unwrap_err().kind(), ErrorKind::Changed);
        assert_eq!(records.read_into(&mut vec![0; bytes.len()], &pool).unwrap_err().kind(), ErrorKind::Changed);
    }
    assert_eq!(records.read_at(count as u64 - 1, &mut [0; 16]).unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(records.refresh().unwrap_err().kind(), ErrorKind::Changed);
    records.read_at(0, &mut [0; 16]).unwrap();
}

#[test]
fn cutting_and_growing_while_scanning_never_gives_a_wrong_sum() {
    let format = Format::from_struct("<QQ", None).unwrap();
    let record = [5_u64.to_le_bytes(), 6_u64.to_le_bytes()].concat();
    let bytes = record.repeat(400_000);
    let file = Written::new(&bytes);
    let records = file.open(&format);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let handle = std::fs::OpenOptions::new().write(true).open(&file.path).unwrap();
            let mut random = fastrand::Rng::with_seed(31);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                handle.set_len(random.u64(0..bytes.len() as u64)).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&handle, &bytes, 0).unwrap();
            }
        });
        let mut outcomes = [0, 0];
        for _ in 0..60 {
            match records
                .aggregate(&Query { condition: Some("f0 != 0".parse().unwrap()), ..sum("f1") }, &Pool::new(Some(2)))
            {
                Ok(values) => {
                    // Zeros where the file was cut and grown again between two reads are not ours to see.
                    assert!(
                        matches!(values[0], Value::Integer(sum) if sum <= 6 * 400_000 && sum % 6 == 0),
                        "{values:?}"
                    );
                    outcomes[0] += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
                    outcomes[1] += 1;
                }
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(outcomes[0] + outcomes[1], 60);
    });
}

#[test]
fn a_file_that_another_took_the_place_of_is_still_the_one_opened() {
    let file = Written::new(&[1; 32]);
    let records = file.open(&index_format());
    let other = file.folder.path().join("other");
    std::fs::write(&other, [2; 16]).unwrap();
    std::fs::rename(&other, &file.path).unwrap();
    let mut read = [0; 32];
    records.read_into(&mut read, &Pool::default()).unwrap();
    assert_eq!(read, [1; 32]);
    assert_eq!(records.refresh().unwrap().len(), 2);
}

#[test]
fn a_replaced_file_of_many_is_noticed_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..200).map(|at| folder.path().join(at.to_string())).collect();
    for path in &paths {
        std::fs::write(path, [1; 16]).unwrap();
    }
    let records = Records::open(&paths, index_format(), OpenOptions::default()).unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, [2; 16]).unwrap();
    std::fs::rename(&other, &paths[190]).unwrap();
    let error = records.read_into(&mut [0; 3200], &Pool::new(Some(2))).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Changed, Some(paths[190].as_path())));
}

#[test]
fn looking_again_finds_whole_records_only() {
    let file = Written::new(&[1; 32]);
    let records = file.open(&index_format());
    let write = |bytes: &[u8]| std::fs::write(&file.path, bytes).unwrap();
    write(&[1; 47]);
    assert_eq!(records.refresh().unwrap().len(), 2);
    write(&[1; 53]);
    let grown = records.refresh().unwrap();
    assert_eq!((grown.len(), records.len()), (3, 2));
    let slice = records.slice(1..2);
    assert_eq!(slice.refresh().unwrap().len(), 1);
    write(&[1; 32]);
    assert_eq!(grown.refresh().unwrap_err().kind(), ErrorKind::Changed);
}

#[test]
fn a_sparse_file_larger_than_memory_needs_little() {
    let file = Written::new(b"");
    // Two tebibytes: a sum over all of it would take minutes, its ends do not.
    std::fs::OpenOptions::new().write(true).open(&file.path).unwrap().set_len(2 << 40).unwrap();
    let records = file.open(&index_format());
    assert_eq!(records.len(), 2 << 36);
    let end = records.slice((2 << 36) - 100_000..u64::MAX);
    assert_eq!(end.aggregate(&sum("len"), &Pool::default()).unwrap(), [Value::Integer(0)]);
    let count = Query { aggregates: vec![Aggregate::count()], ..Query::default() };
    assert_eq!(records.aggregate(&count, &Pool::default()).unwrap(), [Value::Integer(2 << 36)]);
    let options = ScanOptions { limit: Some(5), ..ScanOptions::default() };
    assert_eq!(records.scan(&options, &Pool::default()).unwrap().next().unwrap().unwrap().num_rows(), 5);
}
