//! CSV: the lines of a table, quoting, the newline at the end. What each type looks like is written in the crate's
//! documentation.
//!
//! Numbers are in cell.rs and python_form.rs, a batch's columns in column.rs, arrays in array.rs.

mod array;
mod cell;
mod column;
mod python_form;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::Schema;

use self::column::{Column, push_uniform};
use crate::text_types::{plain, refuse_extensions};
use crate::{Error, Options};

pub(crate) use self::array::write_array;

/// Appends a table as CSV.
pub(crate) fn write_table(
    reader: &mut dyn RecordBatchReader,
    options: &Options,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let start = out.len();
    begin(&reader.schema(), options, out)?;
    let mut scratch = String::new();
    for batch in reader {
        push_batch(&batch.map_err(Error::reading)?, &mut scratch, out)?;
    }
    end_file(start, options, out);
    Ok(())
}

/// Appends the header line. An error if a cell cannot hold the type of a column.
pub(crate) fn begin(schema: &Schema, options: &Options, out: &mut Vec<u8>) -> Result<(), Error> {
    refuse_nested(schema)?;
    refuse_extensions(schema, "csv")?;
    if options.header && !schema.fields().is_empty() {
        push_header(schema, out);
    }
    Ok(())
}

fn refuse_nested(schema: &Schema) -> Result<(), Error> {
    match schema.fields().iter().find(|field| field.data_type().is_nested()) {
        None => Ok(()),
        Some(field) => Err(Error::unsupported(format!(
            "column {:?} has the type {}, which a cell of .csv cannot hold: name the file .parquet, .arrow or .jsonl, or \
             make one column of each of its parts",
            field.name(),
            field.data_type()
        ))),
    }
}

fn push_header(schema: &Schema, out: &mut Vec<u8>) {
    for field in schema.fields() {
        push_text(field.name().as_bytes(), out);
        out.push(b',');
    }
    end_line(out);
}

/// Appends a line for each row.
pub(crate) fn push_batch(batch: &RecordBatch, scratch: &mut String, out: &mut Vec<u8>) -> Result<(), Error> {
    if batch.num_columns() == 0 || push_uniform(batch, out) {
        return Ok(());
    }
    let batch = &plain(batch, false).map_err(|cause| Error::arrow("decoding runs of the table", &cause))?;
    let failed = |column: usize, cause: &dyn std::fmt::Display| {
        let schema = batch.schema();
        let field = schema.field(column);
        Error::arrow(format_args!("writing column {:?} of type {} as text", field.name(), field.data_type()), cause)
    };
    let columns = (0..batch.num_columns())
        .map(|column| Column::new(batch.column(column)).map_err(|cause| failed(column, &cause)))
        .collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        for (place, column) in columns.iter().enumerate() {
            column.push(row, scratch, out).map_err(|cause| failed(place, &cause))?;
            out.push(b',');
        }
        end_line(out);
    }
    Ok(())
}

/// Makes the comma after a line's last cell its newline.
fn end_line(out: &mut [u8]) {
    if let Some(last) = out.last_mut() {
        *last = b'\n';
    }
}

/// Takes the last newline back if none is wanted. That of an empty line, which is a null, stays: without it the row is gone.
fn end_file(start: usize, options: &Options, out: &mut Vec<u8>) {
    let lines = &out[start..];
    if !options.final_newline && !lines.is_empty() && lines != b"\n" && !lines.ends_with(b"\n\n") {
        out.pop();
    }
}

/// Appends a text, in quotes if it needs them; also if it is empty, because a null is nothing.
fn push_text(text: &[u8], out: &mut Vec<u8>) {
    // `|` and no early end: the compiler turns this into vector compares, and most texts need no quotes.
    let special = text.iter().fold(text.is_empty(), |found, byte| found | matches!(byte, b',' | b'"' | b'\n' | b'\r'));
    if !special {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.extend_from_slice(part);
        if part.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}
