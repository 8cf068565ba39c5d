//! Records to Arrow batches and to blocks.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field as ArrowField, Schema, TimeUnit};
use shoal_records::{ErrorKind, Format, Kind, OpenOptions, Pool, Records, ScanOptions};

use crate::written::{Cell, Written, cell, index, index_format, random_bytes, random_format};

fn batches(records: &Records, options: &ScanOptions, workers: usize) -> Vec<RecordBatch> {
    let scan = records.scan(options, &Pool::new(Some(workers))).unwrap();
    assert_eq!(
        scan.schema().fields().len(),
        options.columns.as_ref().map_or(records.format().fields().len(), Vec::len)
    );
    scan.map(Result::unwrap).collect()
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// A value of a column, widened.
fn value(array: &ArrayRef, at: usize, kind: Kind) -> Cell {
    match kind {
        Kind::Bool => Cell::Integer(array.as_boolean().value(at).into()),
        Kind::U8 => Cell::Integer(array.as_primitive::<UInt8Type>().value(at).into()),
        Kind::U16 => Cell::Integer(array.as_primitive::<UInt16Type>().value(at).into()),
        Kind::U32 => Cell::Integer(array.as_primitive::<UInt32Type>().value(at).into()),
        Kind::U64 => Cell::Integer(array.as_primitive::<UInt64Type>().value(at).into()),
        Kind::I8 => Cell::Integer(array.as_primitive::<Int8Type>().value(at).into()),
        Kind::I16 => Cell::Integer(array.as_primitive::<Int16Type>().value(at).into()),
        Kind::I32 => Cell::Integer(array.as_primitive::<Int32Type>().value(at).into()),
        Kind::I64 => Cell::Integer(array.as_primitive::<Int64Type>().value(at).into()),
        Kind::F16 => Cell::Float(array.as_primitive::<Float16Type>().value(at).to_f64()),
        Kind::F32 => Cell::Float(array.as_primitive::<Float32Type>().value(at).into()),
        Kind::F64 => Cell::Float(array.as_primitive::<Float64Type>().value(at)),
        Kind::Bytes(_) => Cell::Bytes(array.as_fixed_size_binary().value(at).to_vec()),
    }
}

fn same(one: &Cell, other: &Cell) -> bool {
    match (one, other) {
        (Cell::Float(one), Cell::Float(other)) => one == other || (one.is_nan() && other.is_nan()),
        _ => one == other,
    }
}

#[test]
fn random_formats_come_out_as_they_went_in() {
    let mut random = fastrand::Rng::with_seed(10);
    for round in 0..40 {
        let format = random_format(&mut random, 8);
        let count = random.usize(0..3000);
        let bytes = random_bytes(&mut random, &format, count);
        let file = Written::new(&bytes);
        let options = ScanOptions { batch: Some(random.u64(1..900)), ..ScanOptions::default() };
        let found = batches(&file.open(&format), &options, 1 + round % 3);
        assert_eq!(rows(&found), count);
        let mut records = bytes.chunks(format.size());
        for batch in found {
            for at in 0..batch.num_rows() {
                let record = records.next().unwrap();
                for (field, array) in format.fields().iter().zip(batch.columns()) {
                    let (is, was) = (value(array, at, field.kind), cell(field, record));
                    assert!(same(&is, &was), "{field:?}: {is:?} was {was:?}");
                }
            }
        }
    }
}

#[test]
fn a_limit_ends_a_scan_at_the_record() {
    let mut random = fastrand::Rng::with_seed(11);
    let (all, bytes) = index(&mut random, 600_000, 10);
    let (file, format) = (Written::new(&bytes), index_format());
    for limit in [0, 1, 8192, 262_144, 262_145, 599_999, 600_000, 600_001, u64::MAX] {
        for condition in [None, Some("id == 3")] {
            let wanted =
                all.iter().filter(|row| condition.is_none() || row.1 == 3).count().min(limit.min(1 << 40) as usize);
            let condition = condition.map(|text| text.parse().unwrap());
            let options = ScanOptions { limit: Some(limit), condition, ..ScanOptions::default() };
            assert_eq!(rows(&batches(&file.open(&format), &options, 2)), wanted, "{limit}");
        }
    }
}

#[test]
fn a_scan_that_is_dropped_ends_its_threads() {
    let mut random = fastrand::Rng::with_seed(12);
    let (_, bytes) = index(&mut random, 2_000_000, 10);
    let (file, format) = (Written::new(&bytes), index_format());
    let mut scan = file.open(&format).scan(&ScanOptions::default(), &Pool::new(Some(3))).unwrap();
    assert!(scan.next().is_some());
    drop(scan);
    let pool = Pool::new(Some(3));
    let mut scan = file.open(&format).scan(&ScanOptions::default(), &pool).unwrap();
    pool.cancel();
    let error = scan.by_ref().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("cancelled"), "{error}");
    assert!(scan.next().is_none());
}

#[test]
fn columns_are_given_in_the_order_asked_for_and_wrong_ones_refused() {
    let (file, format) = (Written::new(&[1; 32]), index_format());
    let ask = |columns: &[&str]| {
        let columns = Some(columns.iter().map(ToString::to_string).collect());
        file.open(&format).scan(&ScanOptions { columns, ..ScanOptions::default() }, &Pool::default())
    };
    let batch = ask(&["len", "ts"]).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["len", "ts"]);
    assert_eq!(ask(&["size"]).err().unwrap().kind(), ErrorKind::Invalid);
    assert_eq!(ask(&["len", "len"]).err().unwrap().kind(), ErrorKind::Invalid);
    let none = ask(&[]).unwrap().next().unwrap().unwrap();
    assert_eq!((none.num_rows(), none.num_columns()), (2, 0));
}

#[test]
fn times_keep_their_arrow_type() {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let schema =
        Schema::new(vec![ArrowField::new("at", time.clone(), false), ArrowField::new("n", DataType::Int16, false)]);
    let format = Format::from_schema(&schema).unwrap();
    let file = Written::new(&[0, 0, 0, 0, 0, 0, 0, 1, 5, 0]);
    let batch = batches(&file.open(&format), &ScanOptions::default(), 1).remove(0);
    assert_eq!(batch.column(0).data_type(), &time);
    assert_eq!(batch.schema().as_ref(), &schema);
    assert_eq!(batch.column(0).to_data().buffers()[0].typed_data::<i64>(), [1 << 56]);
}

#[test]
fn blocks_give_every_byte_once() {
    let mut random = fastrand::Rng::with_seed(13);
    for size in [1, 7, 16, 65_536, 1_500_000] {
        let format = Format::new(Vec::new(), size).unwrap();
        let bytes = random_bytes(&mut random, &format, 3_000_000 / size + 1);
        let file = Written::new(&bytes);
        for ahead in [false, true] {
            for records in [None, Some(1000)] {
                let mut blocks = file.open(&format).blocks(records, ahead);
                let mut found = Vec::new();
                while let Some(block) = blocks.next_block().unwrap() {
                    assert!(block.len().is_multiple_of(size) && !block.is_empty());
                    found.extend_from_slice(block);
                }
                assert!(found == bytes, "{size} {ahead} {records:?}");
                assert!(blocks.next_block().unwrap().is_none());
            }
        }
        // Dropped in the midst.
        file.open(&format).blocks(Some(1), true).next_block().unwrap();
    }
}

#[test]
fn slices_and_many_files_are_one_table() {
    let mut random = fastrand::Rng::with_seed(14);
    let (_, bytes) = index(&mut random, 10_000, 10);
    let folder = tempfile::tempdir().unwrap();
    // More files than are kept open, one of them empty, each with a header of five bytes.
    let mut paths = Vec::new();
    let mut rest = bytes.as_slice();
    for at in 0..200 {
        let (now, later) = rest.split_at(if at == 199 { rest.len() } else { (at % 9 * 16).min(rest.len()) });
        let path = folder.path().join(format!("{at:03}"));
        std::fs::write(&path, [b"head:", now].concat()).unwrap();
        paths.push(path);
        rest = later;
    }
    let options = OpenOptions { offset: 5, ..OpenOptions::default() };
    let all = Records::open(&paths, index_format(), options).unwrap();
    assert_eq!((all.len(), all.paths().count()), (10_000, 200));
    for range in [0..10_000, 0..0, 17..18, 100..900, 9_000..20_000, 20_000..30_000] {
        let part = all.slice(range.clone());
        let wanted = &bytes[range.start.min(10_000) as usize * 16..range.end.min(10_000) as usize * 16];
        assert_eq!(part.len() as usize * 16, wanted.len());
        let mut read = vec![0; wanted.len()];
        part.read_into(&mut read, &Pool::new(Some(3))).unwrap();
        assert!(read == wanted, "{range:?}");
        read.fill(0);
        part.read_at(0, &mut read).unwrap();
        assert!(read == wanted, "{range:?}");
        assert_eq!(rows(&batches(&part, &ScanOptions::default(), 2)), wanted.len() / 16);
    }
    let inner = all.slice(100..900).slice(10..20);
    assert_eq!(inner.range(), 110..120);
    let mut one = [0; 16];
    inner.read_at(9, &mut one).unwrap();
    assert_eq!(one, bytes[119 * 16..][..16]);
    assert_eq!(inner.read_at(10, &mut one).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(inner.read_at(u64::MAX, &mut one).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(inner.read_at(0, &mut one[1..]).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(inner.read_into(&mut one, &Pool::default()).unwrap_err().kind(), ErrorKind::Invalid);
}
