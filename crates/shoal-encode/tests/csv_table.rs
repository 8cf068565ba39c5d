//! A table as CSV: lines, quotes, nulls, and every type's text.

mod written;

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Int32Builder, ListBuilder, StringDictionaryBuilder, StringRunBuilder,
};
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, DictionaryArray, DurationMillisecondArray, Float16Array, Float64Array,
    Int32Array, Int64Array, LargeStringArray, NullArray, PrimitiveArray, RecordBatch, RecordBatchIterator,
    RecordBatchOptions, StringArray, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampSecondArray, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use half::f16;
use shoal_encode::{ErrorKind, Format, Options, encode_table};
use written::{BARE, batch, column, table};

fn text(batches: &[RecordBatch], options: Options) -> String {
    String::from_utf8(table(batches, Format::Csv, options).unwrap()).unwrap()
}

#[test]
fn a_table_of_small_integers_is_what_a_join_of_strings_gives() {
    for first in [0_i64, 95, 999] {
        let columns = (0..10).map(|place| {
            let values = (0..5000).map(|row| first + row + place);
            (format!("c{place}"), Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)
        });
        let lines: Vec<String> = (0..5000)
            .map(|row| (0..10).map(|place| (first + row + place).to_string()).collect::<Vec<_>>().join(","))
            .collect();
        let table = RecordBatch::try_from_iter(columns).unwrap();
        assert_eq!(text(&[table], BARE), lines.join("\n"));
    }
}

#[test]
fn text_is_quoted_only_where_it_must_be() {
    let values = vec!["plain", "a b", "a,b", "say \"hi\"", "\"", "two\nlines", "cr\r", "", " ", "é;\t'", "\"\",\"\""];
    let expected = "plain\na b\n\"a,b\"\n\"say \"\"hi\"\"\"\n\"\"\"\"\n\"two\nlines\"\n\"cr\r\"\n\"\"\n \né;\t'\n\
                    \"\"\"\"\",\"\"\"\"\"";
    assert_eq!(column(Arc::new(StringArray::from(values.clone()))), expected);
    assert_eq!(column(Arc::new(LargeStringArray::from(values.clone()))), expected);
    assert_eq!(column(Arc::new(StringViewArray::from(values))), expected);
}

#[test]
fn a_header_names_the_columns_in_quotes_where_they_need_them() {
    let one = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let table = batch(vec![("a,b", one()), ("\"q\"", one()), ("", one()), ("plain", one())]);
    assert_eq!(text(&[table], Options::default()), "\"a,b\",\"\"\"q\"\"\",\"\",plain\n1,1,1,1\n");
}

#[test]
fn a_null_is_nothing_and_an_empty_text_is_not() {
    let table = batch(vec![
        ("int", Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)])) as ArrayRef),
        ("text", Arc::new(StringArray::from(vec![None, Some(""), Some("x")]))),
        ("float", Arc::new(Float64Array::from(vec![None, Some(0.5), None]))),
        ("null", Arc::new(NullArray::new(3))),
    ]);
    assert_eq!(text(&[table], BARE), "1,,,\n,\"\",0.5,\n-3,x,,");
}

#[test]
fn header_and_final_newline_are_each_left_out_on_their_own() {
    let table = batch(vec![("a", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]);
    for (header, final_newline, expected) in
        [(true, true, "a\n1\n2\n"), (true, false, "a\n1\n2"), (false, true, "1\n2\n"), (false, false, "1\n2")]
    {
        assert_eq!(text(std::slice::from_ref(&table), Options { header, final_newline }), expected);
    }
}

#[test]
fn an_empty_table_is_its_header() {
    let table = batch(vec![("a", new_null_array(&DataType::Int64, 0)), ("b", new_null_array(&DataType::Utf8, 0))]);
    let tables = [table];
    assert_eq!(text(&tables, Options::default()), "a,b\n");
    assert_eq!(text(&tables, Options { final_newline: false, ..Options::default() }), "a,b");
    assert_eq!(text(&tables, BARE), "");
}

#[test]
fn a_table_without_columns_is_an_empty_file() {
    let rows = RecordBatchOptions::new().with_row_count(Some(3));
    let table = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &rows).unwrap();
    assert_eq!(text(&[table], Options::default()), "");
}

#[test]
fn several_batches_are_one_table_and_are_appended() {
    let part = |values: Vec<Option<i64>>| batch(vec![("a", Arc::new(Int64Array::from(values)) as ArrayRef)]);
    let batches = [part(vec![Some(1), Some(2)]), part(vec![]), part(vec![None]), part(vec![Some(4)])];
    assert_eq!(text(&batches, Options { final_newline: false, ..Options::default() }), "a\n1\n2\n\n4");

    let mut out = b"before|".to_vec();
    let mut reader = RecordBatchIterator::new(batches.iter().cloned().map(Ok), batches[0].schema());
    encode_table(&mut reader, Format::Csv, &Options::default(), &mut out).unwrap();
    assert_eq!(out, b"before|a\n1\n2\n\n4\n");
}

#[test]
fn a_slice_of_a_table_is_only_its_rows() {
    let table = batch(vec![
        ("a", Arc::new(Int64Array::from(vec![1, 2, 3, 4])) as ArrayRef),
        ("b", Arc::new(Int64Array::from(vec![5, 6, 7, 8]))),
    ]);
    assert_eq!(text(&[table.slice(1, 2)], BARE), "2,6\n3,7");
    let mixed = batch(vec![
        ("a", Arc::new(StringArray::from(vec![Some("w"), None, Some("y"), Some("z")])) as ArrayRef),
        ("b", Arc::new(Int64Array::from(vec![5, 6, 7, 8]))),
    ]);
    assert_eq!(text(&[mixed.slice(1, 2)], BARE), ",6\ny,7");
}

/// The values without a null (the tight path), and with one (the other).
fn both_ways<T: ArrowPrimitiveType>(values: Vec<T::Native>, expected: &[String]) {
    let plain = PrimitiveArray::<T>::from_iter_values(values.iter().copied());
    assert_eq!(column(Arc::new(plain)), expected.join("\n"), "{} without nulls", T::DATA_TYPE);
    let nullable: PrimitiveArray<T> = values.into_iter().map(Some).chain([None]).collect();
    assert_eq!(column(Arc::new(nullable)), expected.join("\n") + "\n\n", "{} with a null", T::DATA_TYPE);
}

macro_rules! extremes {
    ($($arrow:ty: $native:ty),*) => {$({
        let tens = (0..20).filter_map(|power| <$native>::try_from(10_u64.pow(power)).ok());
        let mut values = vec![<$native>::MIN, <$native>::MAX, 0, 1, 9, 42];
        values.extend(tens.flat_map(|ten| [ten, ten - 1]));
        #[allow(unused_comparisons)]
        if <$native>::MIN < 0 {
            values.extend(values.clone().into_iter().map(|value| (0 as $native).wrapping_sub(value)));
        }
        let expected: Vec<String> = values.iter().map(ToString::to_string).collect();
        both_ways::<$arrow>(values, &expected);
    })*};
}

#[test]
fn whole_numbers_of_every_length_and_type_are_written_in_full() {
    extremes!(
        Int8Type: i8, Int16Type: i16, Int32Type: i32, Int64Type: i64,
        UInt8Type: u8, UInt16Type: u16, UInt32Type: u32, UInt64Type: u64
    );
}

#[test]
fn every_number_below_a_million_is_written_right() {
    let values: Vec<i64> = (0..1_000_000).collect();
    let expected: Vec<String> = values.iter().map(ToString::to_string).collect();
    assert_eq!(column(Arc::new(Int64Array::from(values))), expected.join("\n"));
}

#[test]
fn floats_are_written_as_python_prints_them() {
    let doubles = [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-1.5, "-1.5"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.5e300, "1.5e+300"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.25e-7, "1.25e-07"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        (2_f64.powi(53), "9007199254740992.0"),
        (84_069_610_606_362.0 + 0.625, "84069610606362.62"), // halfway: the even digit
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ];
    let expected = doubles.map(|(_, text)| text.to_owned());
    both_ways::<Float64Type>(doubles.map(|(value, _)| value).to_vec(), &expected);

    let singles = [
        (0.1_f32, "0.1"),
        (1.0, "1.0"),
        (f32::MAX, "3.4028235e+38"),
        (1e-5, "1e-05"),
        (1e15, "1000000000000000.0"),
        (f32::NAN, "NaN"),
    ];
    let expected = singles.map(|(_, text)| text.to_owned());
    both_ways::<Float32Type>(singles.map(|(value, _)| value).to_vec(), &expected);

    let halves = [f16::from_f32(0.5), f16::from_f32(0.1), f16::MAX];
    assert_eq!(column(Arc::new(Float16Array::from_iter_values(halves))), "0.5\n0.099975586\n65504.0");
}

#[test]
fn booleans_are_true_and_false() {
    let mut values = BooleanBuilder::new();
    values.extend([Some(true), None, Some(false)]);
    assert_eq!(column(Arc::new(values.finish())), "true\n\nfalse");
}

#[test]
fn other_plain_types_have_their_iso_text() {
    let moment = 1_700_000_000_250_000;
    assert_eq!(column(Arc::new(TimestampMicrosecondArray::from(vec![moment]))), "2023-11-14T22:13:20.250");
    for (zone, expected) in [
        ("UTC", "2023-11-14T22:13:20.250Z"),
        ("+02:00", "2023-11-15T00:13:20.250+02:00"),
        ("Europe/Berlin", "2023-11-14T23:13:20.250+01:00"),
    ] {
        let zoned = TimestampMicrosecondArray::from(vec![moment]).with_timezone(zone);
        assert_eq!(column(Arc::new(zoned)), expected);
    }
    assert_eq!(column(Arc::new(Date32Array::from(vec![Some(0), None, Some(-1)]))), "1970-01-01\n\n1969-12-31");
    assert_eq!(column(Arc::new(Time64MicrosecondArray::from(vec![3_661_000_001]))), "01:01:01.000001");
    assert_eq!(column(Arc::new(DurationMillisecondArray::from(vec![1500]))), "PT1.5S");
    let decimals = Decimal128Array::from(vec![12345, -1]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(column(Arc::new(decimals)), "123.45\n-0.01");
    let mut bytes = BinaryBuilder::new();
    bytes.append_value([0, 255]);
    assert_eq!(column(Arc::new(bytes.finish())), "00ff");
}

#[test]
fn a_dictionary_column_is_its_values() {
    let mut texts = StringDictionaryBuilder::<Int8Type>::new();
    for value in [Some("b"), Some("a,a"), None, Some("b")] {
        texts.append_option(value);
    }
    assert_eq!(column(Arc::new(texts.finish())), "b\n\"a,a\"\n\nb");

    let keys = Int32Array::from(vec![Some(1), Some(0), Some(1), None]);
    let numbers = DictionaryArray::<Int32Type>::new(keys, Arc::new(Int64Array::from(vec![Some(7), None])));
    assert_eq!(column(Arc::new(numbers)), "\n7\n\n\n", "the end of the last line, which is empty, stays");

    let none =
        DictionaryArray::<Int32Type>::new(Int32Array::from(vec![None, None]), Arc::new(StringArray::new_null(0)));
    assert_eq!(column(Arc::new(none)), "\n\n");
}

#[test]
fn a_run_end_encoded_column_is_its_values() {
    let mut runs = StringRunBuilder::<Int32Type>::new();
    runs.extend([Some("x"), Some("x"), None, Some("y")]);
    assert_eq!(column(Arc::new(runs.finish())), "x\nx\n\ny");
}

#[test]
fn a_nested_column_is_refused_by_name_and_nothing_is_written() {
    let mut lists = ListBuilder::new(Int32Builder::new());
    lists.append(true);
    let table =
        batch(vec![("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef), ("li\nsts", Arc::new(lists.finish()))]);
    let mut out = b"kept".to_vec();
    let mut reader = RecordBatchIterator::new([Ok(table.clone())], table.schema());
    let error = encode_table(&mut reader, Format::Csv, &Options::default(), &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let said = error.to_string();
    assert!(said.starts_with(r#"column "li\nsts" has the type List("#), "{said}");
    assert!(said.contains(".parquet"), "{said}");
    assert_eq!(out, b"kept");
}

#[test]
fn a_value_without_text_is_an_error_that_names_its_column_and_nothing_is_written() {
    // Year 292277026596 is none that a calendar has.
    let table = batch(vec![("when", Arc::new(TimestampSecondArray::from(vec![0, i64::MAX])) as ArrayRef)]);
    let mut out = b"kept".to_vec();
    let mut reader = RecordBatchIterator::new([Ok(table.clone())], table.schema());
    let error = encode_table(&mut reader, Format::Csv, &Options::default(), &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Arrow);
    assert!(error.to_string().starts_with(r#"writing column "when" of type Timestamp("#), "{error}");
    assert_eq!(out, b"kept");
}

#[test]
fn an_unknown_time_zone_is_an_error_that_names_its_column() {
    let zoned = TimestampSecondArray::from(vec![0]).with_timezone("Nowhere/Land");
    let error = table(&[batch(vec![("when", Arc::new(zoned) as ArrayRef)])], Format::Csv, BARE).unwrap_err();
    assert!(error.to_string().contains(r#"column "when""#), "{error}");
}

#[test]
fn a_reader_that_fails_is_an_error_in_every_format_and_nothing_is_written() {
    let good = batch(vec![("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    for format in [Format::Csv, Format::Parquet, Format::Arrow, Format::JsonLines] {
        let broken = ArrowError::ComputeError("the producer\nraised".to_owned());
        let mut reader = RecordBatchIterator::new([Ok(good.clone()), Err(broken)], good.schema());
        let mut out = b"kept".to_vec();
        let error = encode_table(&mut reader, format, &Options::default(), &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Arrow, "{format}");
        assert_eq!(error.to_string(), "reading the table failed: Compute error: the producer raised", "{format}");
        assert_eq!(out, b"kept", "{format}");
    }
}

#[test]
fn a_table_is_no_npy_file() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    let error = table(&[RecordBatch::new_empty(schema)], Format::Npy, BARE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("name it .csv, .parquet, .arrow or .jsonl"), "{error}");
}
