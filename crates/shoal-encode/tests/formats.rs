//! Names and formats; Parquet, Arrow and JSON lines read back.

mod written;

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    TimestampMicrosecondArray, UnionArray,
};
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, UnionFields};
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use serde_json::{Value, json};
use shoal_encode::{Format, Options, encode_table};
use written::{BARE, batch, table};

fn people() -> [RecordBatch; 2] {
    let part = |first: i64| {
        let mut lists = ListBuilder::new(Int32Builder::new());
        lists.append_value([Some(1), None]);
        lists.append_null();
        lists.append_value([]);
        batch(vec![
            ("id", Arc::new(Int64Array::from(vec![Some(first), None, Some(i64::MAX)])) as ArrayRef),
            ("name", Arc::new(StringArray::from(vec![Some("a\"\n"), Some(""), None]))),
            ("score", Arc::new(Float64Array::from(vec![Some(0.5), Some(-1e300), None]))),
            ("ok", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
            ("when", Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None, Some(1)]).with_timezone("UTC"))),
            ("list", Arc::new(lists.finish())),
        ])
    };
    [part(1), part(2)]
}

fn labels(values: [&str; 2]) -> RecordBatch {
    let mut labels = StringDictionaryBuilder::<Int32Type>::new();
    values.iter().for_each(|value| labels.append_value(value));
    batch(vec![("label", Arc::new(labels.finish()) as ArrayRef)])
}

fn joined(batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(&batches[0].schema(), batches).unwrap()
}

#[test]
fn the_ending_of_a_name_says_the_format() {
    for (ending, format) in Format::ENDINGS {
        for name in [format!("a.{ending}"), format!("d.csv/b.c.{}", ending.to_uppercase()), format!(".{ending}")] {
            assert_eq!(Format::of_name(name.as_bytes()), Some(format), "{name}");
        }
    }
    for name in ["", "csv", "a.csv.gz", "a.csv/", "a.csv/b", "a.", "a.txt", "a.csv "] {
        assert_eq!(Format::of_name(name.as_bytes()), None, "{name}");
    }
    assert_eq!(Format::of_name(b"\xff.npy"), Some(Format::Npy));
}

#[test]
fn every_format_is_called_by_an_ending_of_its_own() {
    for (_, format) in Format::ENDINGS {
        assert_eq!(Format::of_name(format!("x.{format}").as_bytes()), Some(format));
    }
}

#[test]
fn parquet_reads_back_as_the_table_and_is_compressed_with_snappy() {
    let file = bytes::Bytes::from(table(&people(), Format::Parquet, Options::default()).unwrap());
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(builder.metadata().row_group(0).column(0).compression(), Compression::SNAPPY);
    let read: Vec<RecordBatch> = builder.build().unwrap().map(Result::unwrap).collect();
    assert_eq!(joined(&read), joined(&people()));
}

#[test]
fn arrow_reads_back_as_the_table_batch_by_batch() {
    let file = table(&people(), Format::Arrow, Options::default()).unwrap();
    let read: Vec<RecordBatch> = FileReader::try_new(Cursor::new(file), None).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, people());
}

#[test]
fn batches_with_dictionaries_of_their_own_become_one_arrow_file() {
    for parts in [vec![labels(["a", "b"]), labels(["c", "a"])], vec![labels(["a", "b"])]] {
        let file = table(&parts, Format::Arrow, Options::default()).unwrap();
        let read: Vec<RecordBatch> =
            FileReader::try_new(Cursor::new(file), None).unwrap().map(Result::unwrap).collect();
        let texts = |batches: &[RecordBatch]| -> Vec<String> {
            let texts = |batch: &RecordBatch| {
                let labels = batch.column(0).as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
                labels.into_iter().map(|text| text.unwrap().to_owned()).collect::<Vec<_>>()
            };
            batches.iter().flat_map(texts).collect()
        };
        assert_eq!(texts(&read), texts(&parts));
    }
}

#[test]
fn a_table_without_rows_reads_back_with_its_columns() {
    let empty = [people()[0].slice(0, 0)];
    for batches in [&empty[..], &[labels(["a", "b"]).slice(0, 0)]] {
        let arrow = table(batches, Format::Arrow, Options::default()).unwrap();
        assert_eq!(FileReader::try_new(Cursor::new(arrow), None).unwrap().schema(), batches[0].schema());
        let parquet = bytes::Bytes::from(table(batches, Format::Parquet, Options::default()).unwrap());
        assert_eq!(*ParquetRecordBatchReaderBuilder::try_new(parquet).unwrap().schema(), batches[0].schema());
        assert_eq!(table(batches, Format::JsonLines, Options::default()).unwrap(), b"");
    }
}

#[test]
fn no_batch_at_all_is_a_table_without_rows() {
    for schema in [people()[0].schema(), labels(["a", "b"]).schema()] {
        let mut out = Vec::new();
        let mut reader = RecordBatchIterator::new([], schema.clone());
        encode_table(&mut reader, Format::Arrow, &Options::default(), &mut out).unwrap();
        assert_eq!(FileReader::try_new(Cursor::new(out), None).unwrap().schema(), schema);
    }
}

#[test]
fn json_lines_parse_back_with_a_null_where_there_is_no_value() {
    let text = String::from_utf8(table(&people(), Format::JsonLines, Options::default()).unwrap()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    assert!(text.ends_with("}\n"));
    assert_eq!(
        lines[3],
        json!({"id": 2, "name": "a\"\n", "score": 0.5, "ok": true, "when": "1970-01-01T00:00:00Z", "list": [1, null]})
    );
    assert_eq!(lines[1], json!({"id": null, "name": "", "score": -1e300, "ok": null, "when": null, "list": null}));
    assert_eq!(table(&people(), Format::JsonLines, BARE).unwrap(), text.trim_end().as_bytes());
}

#[test]
fn a_type_that_a_format_cannot_hold_is_an_error_and_nothing_is_written() {
    let fields = UnionFields::from_iter([(0, Arc::new(Field::new("n", DataType::Int64, true)))]);
    let union = UnionArray::try_new(fields, vec![0].into(), None, vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let field = Field::new("u", union.data_type().clone(), false);
    let schema = Arc::new(arrow_schema::Schema::new(vec![field]));
    let strange = RecordBatch::try_new(schema.clone(), vec![Arc::new(union)]).unwrap();
    for format in [Format::Csv, Format::Parquet, Format::JsonLines] {
        let mut reader = RecordBatchIterator::new([Ok(strange.clone())], schema.clone());
        let mut out = b"kept".to_vec();
        let error = encode_table(&mut reader, format, &Options::default(), &mut out).unwrap_err();
        assert!(error.to_string().contains("Union"), "{format}: {error}");
        assert_eq!(out, b"kept", "{format}");
    }
}
