//! Tables and arrays to the bytes of a file.
//!
//! Here: which format a name asks for ([`Format`]), Arrow tables to CSV, Parquet, Arrow IPC files and JSON lines
//! ([`encode_table`]), strided arrays to `.npy` and CSV ([`encode_array`]). Both append to a `Vec<u8>` of the caller, which
//! can be cleared and reused. [`write_table`] writes a table of any size to an open file, in pieces, on all processors.
//!
//! Not here: creating and publishing files (the engine's `fs/publish.rs`), Python, printing. The caller imports a table
//! through Arrow's C interface, or an array by its pointer and strides, and passes the bytes to a sink.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
//! use shoal_encode::{Format, Options, encode_table};
//!
//! let batch = RecordBatch::try_from_iter([
//!     ("id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
//!     ("name", Arc::new(StringArray::from(vec![Some("a,b"), None]))),
//! ])?;
//! let schema = batch.schema();
//! let mut reader = RecordBatchIterator::new([Ok(batch)], schema);
//! let mut out = Vec::new();
//! let format = Format::of_name(b"out/people.csv").expect("a known ending");
//! encode_table(&mut reader, format, &Options::default(), &mut out)?;
//! assert_eq!(out, b"id,name\n1,\"a,b\"\n2,\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a CSV file looks like
//!
//! - Cells are separated by `,` and lines by `\n`. RFC 4180 quotes surround only text with a comma, a quote, a line feed
//!   or a carriage return, and empty text.
//! - A null is an empty cell, which differs from `""`. A table of one column therefore has an empty
//!   line for a null, which some readers skip.
//! - A float is the shortest text that reads back as the same float, in the form of Python's `repr` (`1.0`, `1e-05`);
//!   `NaN`, `inf` and `-inf` are the others. A half float is written as the single float it equals.
//! - `true` and `false`; dates and times in ISO 8601; durations as `PT1.5S`; bytes as hexadecimal digits.
//! - A table without columns is an empty file. Nested columns are refused.
//!
//! # Types that a format does not have
//!
//! - Parquet: timestamps and times in seconds are written in milliseconds, dates in milliseconds as dates in days. A value that
//!   does not fit, or a date with a time of day, is an error; so are unions and intervals.
//! - JSON lines: NaN and the infinities are `null`. Dates and times are text; one beyond what ISO 8601 can say is an error.
//! - CSV and JSON lines: a time at which the offset of its zone had seconds (before 1900, mostly) is an error.
//! - Dictionaries that do not fit under their keys when the parts of a table are joined get wider keys.

#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod array;
mod csv;
mod error;
mod format;
mod json_lines;
mod nested;
mod npy;
mod owned;
mod parquet_types;
mod record;
mod table;
mod table_file;
mod text_types;

pub use array::{NdArray, Scalar};
pub use error::{Error, ErrorKind};
pub use format::Format;
pub use owned::copied;
pub use table_file::{Codec, Statistics, TableOptions, Written, write_table};

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{Schema, SchemaRef};

/// How a file is written, where its format leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the first line of a CSV file names the columns (an array's columns have no names, so it gets no such line).
    pub header: bool,
    /// Whether the last line of a CSV or JSON lines file ends with a newline. (An empty last line of CSV, a null, always does.)
    pub final_newline: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { header: true, final_newline: true }
    }
}

/// Appends a table to `out` as the bytes of one file.
///
/// Takes all batches of `reader`. After an error `out` is as long as before.
///
/// # Errors
///
/// Unsupported: the format is of arrays, or cannot hold a column's type. Arrow: the reader or a writer failed.
pub fn encode_table(
    reader: &mut dyn RecordBatchReader,
    format: Format,
    options: &Options,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    whole_or_nothing(out, |out| match format {
        Format::Csv => csv::write_table(reader, options, out),
        Format::Parquet => table::write_parquet(reader, out),
        Format::Arrow => table::write_arrow(reader, out, |_| Ok(())),
        Format::JsonLines => json_lines::write(reader, options, out),
        Format::Npy => Err(Error::unsupported(
            "a .npy file holds an array, but this is a table: name it .csv, .parquet, .arrow or .jsonl, or save an \
            array",
        )),
    })
}

/// Appends a table in memory to `out` as the bytes of one file. After an error `out` is as long as before.
///
/// # Errors
///
/// As [`encode_table`], with the name of the column at fault. Unsupported also: rows without columns, in a format that
/// cannot hold them. Internal: a library panicked.
pub fn encode_rows(
    schema: &SchemaRef,
    rows: &[RecordBatch],
    format: Format,
    options: &Options,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    if schema.fields().is_empty() && count > 0 && matches!(format, Format::Csv | Format::Parquet) {
        let why = format!("a table of {count} rows has no columns, which a .{format} file cannot hold");
        return Err(Error::unsupported(why));
    }
    let start = out.len();
    let encode = |schema: &SchemaRef, rows: &[RecordBatch], out: &mut Vec<u8>| {
        let mut reader = RecordBatchIterator::new(rows.iter().cloned().map(Ok), schema.clone());
        let encoded = catch_unwind(AssertUnwindSafe(|| encode_table(&mut reader, format, options, out)));
        encoded.unwrap_or_else(|_| {
            out.truncate(start);
            Err(Error::defect())
        })
    };
    let Err(error) = encode(schema, rows, out) else { return Ok(()) };
    // Arrow's writers take all columns at once and do not say which one they cannot write.
    for (at, field) in schema.fields().iter().enumerate() {
        let alone: Vec<RecordBatch> = rows.iter().filter_map(|batch| batch.project(&[at]).ok()).collect();
        let schema = SchemaRef::new(Schema::new(vec![field.clone()]));
        if let Err(error) = encode(&schema, &alone, out) {
            return Err(error.of_column(field.name(), field.data_type()));
        }
        out.truncate(start);
    }
    Err(error)
}

/// Appends an array to `out` as the bytes of one file, its elements in C order whatever their order in memory.
///
/// `.npy` takes every dtype that [`NdArray`] takes. CSV takes numbers, booleans, bytes and text: an array of one
/// dimension is one value a line, of two a row a line, of none a single value; there is never a header line.
///
/// After an error `out` is as long as before.
///
/// # Errors
///
/// Unsupported: the format is of tables, or CSV cannot hold the dtype or the number of dimensions. Memory: the file
/// does not fit into memory.
pub fn encode_array(array: &NdArray<'_>, format: Format, options: &Options, out: &mut Vec<u8>) -> Result<(), Error> {
    whole_or_nothing(out, |out| match format {
        Format::Npy => npy::write(array, out),
        Format::Csv => csv::write_array(array, options, out),
        Format::Parquet | Format::Arrow | Format::JsonLines => Err(Error::unsupported(format!(
            "a .{format} file holds a table, but this is an array of dtype {:?}: make it a table, for example with \
             pyarrow.table or polars.DataFrame, or name it .npy or .csv",
            array.descr()
        ))),
    })
}

/// Runs `write`, and takes back what it appended if it fails.
fn whole_or_nothing(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<(), Error> {
    let start = out.len();
    let result = write(out);
    if result.is_err() {
        out.truncate(start);
    }
    result
}
