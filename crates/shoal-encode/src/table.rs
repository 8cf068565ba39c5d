//! Tables in the formats whose writers come with Arrow: Parquet, Arrow IPC files, JSON lines.

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::writer::FileWriter;
use arrow_json::writer::{LineDelimited, WriterBuilder};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::{Error, Options};

/// Appends a Parquet file, compressed with Snappy.
pub(crate) fn write_parquet(reader: &mut dyn RecordBatchReader, out: &mut Vec<u8>) -> Result<(), Error> {
    let failed = |cause| Error::arrow("writing the table as .parquet", &cause);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(out, reader.schema(), Some(properties)).map_err(failed)?;
    for batch in reader {
        writer.write(&batch.map_err(|cause| Error::reading(&cause))?).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(())
}

/// Appends an Arrow IPC file.
pub(crate) fn write_arrow(reader: &mut dyn RecordBatchReader, out: &mut Vec<u8>) -> Result<(), Error> {
    let failed = |cause| Error::arrow("writing the table as .arrow", &cause);
    let schema = reader.schema();
    let mut writer = FileWriter::try_new(out, &schema).map_err(failed)?;
    if has_dictionary(&schema) {
        let batch = with_one_dictionary(reader, &schema)?;
        writer.write(&batch).map_err(failed)?;
    } else {
        for batch in reader {
            writer.write(&batch.map_err(|cause| Error::reading(&cause))?).map_err(failed)?;
        }
    }
    writer.finish().map_err(failed)
}

/// Appends one JSON object a line, with `null` for nulls, so that every line has every key.
pub(crate) fn write_json_lines(
    reader: &mut dyn RecordBatchReader,
    options: &Options,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let failed = |cause: ArrowError| Error::arrow("writing the table as .jsonl", &cause);
    let start = out.len();
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut *out);
    for batch in reader {
        writer.write(&batch.map_err(|cause| Error::reading(&cause))?).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    if !options.final_newline && out[start..].ends_with(b"\n") {
        out.pop();
    }
    Ok(())
}

fn has_dictionary(schema: &Schema) -> bool {
    schema.flattened_fields().iter().any(|field| matches!(field.data_type(), DataType::Dictionary(..)))
}

/// Makes one batch of all, because the file format allows a column only one dictionary and every batch may bring its own.
fn with_one_dictionary(reader: &mut dyn RecordBatchReader, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|cause| Error::reading(&cause))?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([batch]) => Ok(batch),
        Err(batches) => concat_batches(schema, &batches)
            .map_err(|cause| Error::arrow("joining the dictionaries of the table's batches", &cause)),
    }
}
