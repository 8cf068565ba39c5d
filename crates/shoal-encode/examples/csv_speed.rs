//! Prints what a value costs when tables and arrays become CSV, in nanoseconds: the median and the best of many files.
//!
//! `cargo run --release -p shoal-encode --example csv_speed`
#![allow(clippy::disallowed_macros)] // an example is a program, and this one's purpose is to print

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray, TimestampMicrosecondArray,
};
use shoal_encode::{Format, NdArray, Options, encode_array, encode_table};

const ROWS: usize = 5_000;
const COLUMNS: usize = 10;
const FILES: usize = 2_000; // enough that a median says something on a machine that does other things too

fn main() {
    let plain = Options { header: false, final_newline: false };
    let tables = [
        ("table, 10 x int64, small", batch(|row, column| integers(row, |row| row + column as i64))),
        ("table, 10 x int64, wide", batch(|row, column| integers(row, |row| (row << 40) * (1 - column as i64)))),
        ("table, 10 x int64 with nulls", batch(|_, _| nullable())),
        ("table, 10 x float64", batch(|_, column| floats(column))),
        ("table, 10 x utf8", batch(|_, _| strings())),
        ("table, 10 x timestamp", batch(|_, _| timestamps())),
        ("table, int64 and utf8", batch(|_, column| if column % 2 == 0 { integers(0, |row| row) } else { strings() })),
    ];
    for (what, table) in &tables {
        measure(what, |out| {
            let mut reader = RecordBatchIterator::new([Ok(table.clone())], table.schema());
            encode_table(&mut reader, Format::Csv, &plain, out).expect("a table of plain columns");
        });
    }
    let values: Vec<u8> =
        (0..ROWS).flat_map(|row| (0..COLUMNS).flat_map(move |column| ((row + column) as i64).to_ne_bytes())).collect();
    let shape = [ROWS, COLUMNS];
    let descr = if cfg!(target_endian = "little") { "<i8" } else { ">i8" };
    for (what, format, strides) in [
        ("array, int64, C order", Format::Csv, [COLUMNS as isize * 8, 8]),
        ("array, int64, Fortran order", Format::Csv, [8, ROWS as isize * 8]),
        (".npy, int64, C order", Format::Npy, [COLUMNS as isize * 8, 8]),
        (".npy, int64, Fortran order", Format::Npy, [8, ROWS as isize * 8]),
    ] {
        let array = NdArray::within(descr, &shape, &strides, &values, 0).expect("the array fills the values");
        measure(what, |out| encode_array(&array, format, &plain, out).expect("a plain array"));
    }
}

fn measure(what: &str, mut encode: impl FnMut(&mut Vec<u8>)) {
    let mut out = Vec::new();
    let mut seconds: Vec<f64> = (0..FILES)
        .map(|_| {
            out.clear();
            let start = Instant::now();
            encode(black_box(&mut out));
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let (median, best) = (seconds[FILES / 2], seconds[0]);
    let per_value = 1e9 / (ROWS * COLUMNS) as f64;
    println!(
        "{what:<30} {:>7} bytes  median {:>6.3} ms, {:>6.2} ns/value  best {:>6.2} ns/value",
        out.len(),
        median * 1e3,
        median * per_value,
        best * per_value
    );
}

fn batch(column: impl Fn(i64, usize) -> ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter((0..COLUMNS).map(|place| (format!("c{place}"), column(1, place))))
        .expect("equal lengths")
}

fn integers(first: i64, value: impl Fn(i64) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((first..).take(ROWS).map(value)))
}

fn nullable() -> ArrayRef {
    Arc::new((0..ROWS as i64).map(|row| (row % 7 != 0).then_some(row)).collect::<Int64Array>())
}

fn floats(column: usize) -> ArrayRef {
    let mut random = fastrand::Rng::with_seed(column as u64);
    Arc::new(Float64Array::from_iter_values((0..ROWS).map(|_| random.f64())))
}

fn strings() -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("value {row}"))))
}

fn timestamps() -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values((0..ROWS as i64).map(|row| row * 1_234_567_890)))
}
