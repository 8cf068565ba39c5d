//! Tables written to one file piece by piece, read back.

use std::fs::File;
use std::io::{Cursor, Write};
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, Float32Array, Int8Array, Int32Array, Int64Array, RecordBatch,
    RecordBatchIterator, StringArray, StructArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow_ipc::reader::FileReader;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use shoal_encode::{
    Codec, Error, ErrorKind, Format, Options, Statistics, TableOptions, Written, encode_table, write_table,
};

/// So many rows of what an index file holds.
fn index(rows: std::ops::Range<u64>) -> RecordBatch {
    RecordBatch::try_from_iter([
        ("ts", Arc::new(UInt64Array::from_iter_values(rows.clone().map(|at| 1_700_000_000_000 + at))) as ArrayRef),
        ("id", Arc::new(UInt32Array::from_iter_values(rows.clone().map(|at| (at * 7919 % 1000) as u32)))),
        ("len", Arc::new(UInt32Array::from_iter_values(rows.map(|at| at as u32)))),
    ])
    .unwrap()
}

/// Columns with nulls, texts and nesting.
fn mixed(rows: i64) -> RecordBatch {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in 0..rows {
        match row % 3 {
            0 => lists.append_null(),
            1 => lists.append_value([]),
            _ => lists.append_value([Some(row as i32), None]),
        }
    }
    let texts = StringArray::from_iter((0..rows).map(|row| (row % 5 != 0).then(|| format!("text, {}", row % 11))));
    let numbers = Int64Array::from_iter((0..rows).map(|row| (row % 2 == 0).then_some(row)));
    let fields = [("a", DataType::Int64), ("b", DataType::Utf8)].map(|(name, kind)| Field::new(name, kind, true));
    let parts: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(texts.clone())];
    let pair = StructArray::try_new(fields.to_vec().into(), parts, None).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("list", Arc::new(lists.finish())),
        ("pair", Arc::new(pair)),
        ("text", Arc::new(texts)),
        ("ok", Arc::new(BooleanArray::from_iter((0..rows).map(|row| (row % 7 != 0).then_some(row % 2 == 0))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn with(workers: usize) -> TableOptions {
    TableOptions { workers: Some(workers), ..TableOptions::default() }
}

fn written(batches: &[RecordBatch], format: Format, options: &TableOptions) -> Result<(Vec<u8>, Written), Error> {
    let mut reader = RecordBatchIterator::new(batches.iter().cloned().map(Ok), batches[0].schema());
    let mut out = Cursor::new(Vec::new());
    let written = write_table(&mut reader, format, options, &mut out, &mut |_| true)?;
    assert_eq!(written.bytes, out.get_ref().len() as u64);
    Ok((out.into_inner(), written))
}

fn joined(batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(&batches[0].schema(), batches).unwrap()
}

fn read_parquet(file: Vec<u8>) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).unwrap();
    let schema = builder.schema().clone();
    let batches: Vec<RecordBatch> = builder.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

#[test]
fn parquet_reads_back_in_the_row_groups_asked_for_whatever_the_batches() {
    let batches = [index(0..700), index(700..701), index(701..701), index(701..5000)];
    for workers in [1, 2, 5] {
        let options = TableOptions { row_group_rows: 999, ..with(workers) };
        let (file, told) = written(&batches, Format::Parquet, &options).unwrap();
        assert_eq!(told.rows, 5000);
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file.clone())).unwrap();
        let rows: Vec<i64> = builder.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!(rows, [999, 999, 999, 999, 999, 5]);
        assert_eq!(read_parquet(file), joined(&batches));
    }
}

#[test]
fn parquet_with_nulls_and_nesting_reads_back() {
    let batches = [mixed(500), mixed(0), mixed(1501)];
    for workers in [1, 3] {
        let options = TableOptions { row_group_rows: 600, ..with(workers) };
        let (file, told) = written(&batches, Format::Parquet, &options).unwrap();
        assert_eq!((told.rows, read_parquet(file)), (2001, joined(&batches)));
    }
}

#[test]
fn parquet_options_show_in_the_file() {
    let batches = [index(0..1000)];
    let column = |options: &TableOptions| {
        let (file, _) = written(&batches, Format::Parquet, options).unwrap();
        assert_eq!(read_parquet(file.clone()), batches[0]);
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).unwrap();
        builder.metadata().row_group(0).column(1).clone()
    };
    let usual = column(&TableOptions::default());
    assert_eq!(usual.compression(), Compression::SNAPPY);
    assert!(usual.dictionary_page_offset().is_some());
    assert!(usual.statistics().is_some() && usual.column_index_offset().is_some());
    let bare = TableOptions {
        compression: Some(Codec::None),
        dictionary: false,
        statistics: Statistics::None,
        ..TableOptions::default()
    };
    let bare = column(&bare);
    assert_eq!(bare.compression(), Compression::UNCOMPRESSED);
    assert!(bare.dictionary_page_offset().is_none() && bare.statistics().is_none());
    assert!(bare.encodings().all(|encoding| encoding != Encoding::RLE_DICTIONARY));
    let small =
        TableOptions { compression: Some(Codec::Zstd), statistics: Statistics::Column, ..TableOptions::default() };
    let small = column(&small);
    assert!(matches!(small.compression(), Compression::ZSTD(_)));
    assert!(small.statistics().is_some() && small.column_index_offset().is_none());
}

#[test]
fn rows_too_large_for_a_group_of_so_many_make_smaller_groups() {
    // 4,000 rows of 64 KiB are 250 MiB; a group takes 128. All rows are one buffer, met again and again.
    let width = 64 << 10;
    let buffer = vec![7_u8; width * 500];
    let large = FixedSizeBinaryArray::try_new(width as i32, buffer.into(), None).unwrap();
    let batch = RecordBatch::try_from_iter([("raw", Arc::new(large) as ArrayRef)]).unwrap();
    let batches = vec![batch; 8];
    let (file, told) = written(&batches, Format::Parquet, &with(2)).unwrap();
    assert_eq!(told.rows, 4000);
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).unwrap();
    let rows: Vec<i64> = builder.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [2048, 1952]);
}

#[test]
fn text_is_the_same_as_encoded_at_once() {
    for batches in [vec![index(0..70_000), index(70_000..70_000), index(70_000..200_000)], vec![index(0..0)]] {
        for format in [Format::Csv, Format::JsonLines] {
            for text in [Options::default(), Options { header: false, final_newline: false }] {
                let mut at_once = Vec::new();
                let mut reader = RecordBatchIterator::new(batches.iter().cloned().map(Ok), batches[0].schema());
                encode_table(&mut reader, format, &text, &mut at_once).unwrap();
                for workers in [1, 3] {
                    let options = TableOptions { text, ..with(workers) };
                    let (file, told) = written(&batches, format, &options).unwrap();
                    assert!(file == at_once, "{format} {text:?} {workers}");
                    assert_eq!(told.rows, batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
                }
            }
        }
    }
}

#[test]
fn an_arrow_file_reads_back_batch_by_batch() {
    let batches = [index(0..1000), index(1000..3000)];
    let (file, told) = written(&batches, Format::Arrow, &with(2)).unwrap();
    assert_eq!(told.rows, 3000);
    let read: Vec<RecordBatch> = FileReader::try_new(Cursor::new(file), None).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, batches);
}

/// The header's text, and the elements behind it.
fn parts(file: &[u8]) -> (&str, &[u8]) {
    assert_eq!(&file[..6], b"\x93NUMPY");
    let (from, length) = match file[6] {
        1 => (10, usize::from(u16::from_le_bytes([file[8], file[9]]))),
        _ => (12, u32::from_le_bytes([file[8], file[9], file[10], file[11]]) as usize),
    };
    assert_eq!((from + length) % 64, 0);
    (std::str::from_utf8(&file[from..from + length]).unwrap(), &file[from + length..])
}

#[test]
fn npy_has_a_field_for_each_column() {
    let batches = [index(0..3), index(3..100_000)];
    for workers in [1, 2] {
        let (file, told) = written(&batches, Format::Npy, &with(workers)).unwrap();
        assert_eq!((told.rows, file[6]), (100_000, 1));
        let (header, elements) = parts(&file);
        let expected =
            "{'descr': [('ts', '<u8'), ('id', '<u4'), ('len', '<u4')], 'fortran_order': False, 'shape': (100000,), }";
        assert_eq!(header.trim_end(), expected);
        assert_eq!(elements.len(), 1_600_000);
        for at in [0_u64, 2, 3, 99_999] {
            let mut element = (1_700_000_000_000 + at).to_le_bytes().to_vec();
            element.extend(((at * 7919 % 1000) as u32).to_le_bytes());
            element.extend((at as u32).to_le_bytes());
            assert_eq!(elements[at as usize * 16..][..16], element);
        }
    }
}

#[test]
fn npy_of_every_kind_and_of_no_rows() {
    let text = FixedSizeBinaryArray::try_from_iter(["abc", "d\0\0"].iter()).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("o'k", Arc::new(BooleanArray::from(vec![false, true]))),
        ("grün", Arc::new(Int8Array::from(vec![-1, 2]))),
        ("text", Arc::new(text)),
        ("f", Arc::new(Float32Array::from(vec![0.5, -0.0]))),
        ("when", Arc::new(TimestampMicrosecondArray::from(vec![1, -1]).with_timezone("UTC"))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let (file, _) = written(&[batch.slice(1, 1)], Format::Npy, &with(1)).unwrap();
    assert_eq!(file[6], 3, "names that are not ASCII need version 3");
    let (header, elements) = parts(&file);
    let descr = "[('o\\'k', '|b1'), ('grün', '|i1'), ('text', '|S3'), ('f', '<f4'), ('when', '<M8[us]')]";
    assert!(header.contains(descr), "{header}");
    let mut expected = vec![1, 2, b'd', 0, 0];
    expected.extend((-0.0_f32).to_le_bytes());
    expected.extend((-1_i64).to_le_bytes());
    assert_eq!(elements, expected);
    let (empty, told) = written(&[batch.slice(0, 0)], Format::Npy, &with(2)).unwrap();
    assert_eq!((told.rows, parts(&empty).1.len()), (0, 0));
    assert!(parts(&empty).0.contains("'shape': (0,)"));
}

#[test]
fn what_npy_cannot_hold_is_refused_with_the_column() {
    let nulls = RecordBatch::try_from_iter([("n", Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef)]);
    let texts = RecordBatch::try_from_iter([("t", Arc::new(StringArray::from(vec!["x"])) as ArrayRef)]);
    let twice = Schema::new(vec![Field::new("n", DataType::Int8, false), Field::new("n", DataType::Int8, false)]);
    let twice = RecordBatch::new_empty(Arc::new(twice));
    for (batch, why) in [(nulls.unwrap(), "\"n\" has nulls"), (texts.unwrap(), "\"t\""), (twice, "two columns")] {
        let error = written(&[batch], Format::Npy, &with(2)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn tables_without_rows_or_batches_read_back_with_their_columns() {
    for batch in [index(0..0), mixed(0)] {
        let parquet = written(std::slice::from_ref(&batch), Format::Parquet, &with(2)).unwrap().0;
        assert_eq!(read_parquet(parquet), batch);
        let mut none = RecordBatchIterator::new([], batch.schema());
        let mut out = Cursor::new(Vec::new());
        let told = write_table(&mut none, Format::Parquet, &with(2), &mut out, &mut |_| true).unwrap();
        assert_eq!((told.rows, read_parquet(out.into_inner())), (0, batch));
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for format in [Format::Csv, Format::JsonLines, Format::Arrow, Format::Npy] {
        let options = TableOptions { compression: Some(Codec::Zstd), ..TableOptions::default() };
        let error = written(&[index(0..1)], format, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let plain = TableOptions { compression: Some(Codec::None), ..TableOptions::default() };
        assert!(written(&[index(0..1)], format, &plain).is_ok());
    }
    let options = TableOptions { row_group_rows: 0, ..TableOptions::default() };
    assert_eq!(written(&[index(0..1)], Format::Parquet, &options).unwrap_err().kind(), ErrorKind::Invalid);
    let error = written(&[mixed(1)], Format::Csv, &with(2)).unwrap_err();
    assert!(error.to_string().contains("\"list\""), "{error}");
}

#[test]
fn an_error_of_the_reader_comes_out_as_it_was() {
    for format in [Format::Parquet, Format::Csv, Format::JsonLines, Format::Arrow, Format::Npy] {
        for workers in [1, 2] {
            let cause = || Err(ArrowError::ExternalError(Box::new(std::io::Error::other("cut short"))));
            let batches = [Ok(index(0..100)), Ok(index(100..200)), cause()];
            let mut reader = RecordBatchIterator::new(batches, index(0..0).schema());
            let mut out = Cursor::new(Vec::new());
            let error = write_table(&mut reader, format, &with(workers), &mut out, &mut |_| true).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Arrow);
            let Some(ArrowError::ExternalError(own)) = error.reader() else { panic!("{error:?}") };
            assert_eq!(own.downcast_ref::<std::io::Error>().unwrap().to_string(), "cut short");
        }
    }
}

#[test]
fn a_full_medium_is_told_as_such_whichever_encoder_met_it() {
    for format in [Format::Parquet, Format::Csv, Format::JsonLines, Format::Arrow, Format::Npy] {
        for workers in [1, 2] {
            let mut full = File::options().write(true).open("/dev/full").unwrap();
            let mut reader = RecordBatchIterator::new([Ok(index(0..100_000))], index(0..0).schema());
            let error = write_table(&mut reader, format, &with(workers), &mut full, &mut |_| true).unwrap_err();
            assert_eq!((error.kind(), error.errno()), (ErrorKind::Write, Some(28)), "{format}: {error}");
            assert_eq!(error.to_string(), "writing the file failed: no space left on device");
        }
    }
}

#[test]
fn whoever_watches_hears_of_progress_and_can_end_it() {
    for format in [Format::Parquet, Format::Csv, Format::JsonLines, Format::Arrow, Format::Npy] {
        for workers in [1, 3] {
            let batches = (0..20).map(|at| Ok(index(at * 1000..(at + 1) * 1000)));
            let mut reader = RecordBatchIterator::new(batches, index(0..0).schema());
            let options = TableOptions { row_group_rows: 1000, ..with(workers) };
            let mut heard = Vec::new();
            let mut out = Cursor::new(Vec::new());
            let error = write_table(&mut reader, format, &options, &mut out, &mut |now| {
                heard.push(now);
                now.rows < 5000
            });
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
            assert!(heard.is_sorted_by_key(|now| (now.rows, now.bytes)), "{heard:?}");
            assert_eq!(heard.last().unwrap().rows, 5000);
        }
    }
}

#[test]
fn it_begins_where_the_file_stands() {
    let mut out = Cursor::new(Vec::new());
    out.write_all(b"before").unwrap();
    let mut reader = RecordBatchIterator::new([Ok(index(0..2))], index(0..0).schema());
    write_table(&mut reader, Format::Npy, &with(1), &mut out, &mut |_| true).unwrap();
    let file = out.into_inner();
    assert_eq!(&file[..6], b"before");
    assert!(parts(&file[6..]).0.contains("'shape': (2,)"));
}
