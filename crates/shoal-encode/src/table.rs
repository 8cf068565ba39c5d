//! Tables in the formats that Arrow itself writes: Parquet and Arrow IPC files.
//!
//! Not here: what Parquet cannot hold as it is (`parquet_types.rs`).

use std::io::Write;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::parquet_types::{batch_of, schema_of};
use crate::{Codec, Error, Statistics, TableOptions};

/// Appends a Parquet file, compressed with Snappy.
pub(crate) fn write_parquet(reader: &mut dyn RecordBatchReader, out: &mut Vec<u8>) -> Result<(), Error> {
    let failed = |cause| Error::arrow("writing the table as .parquet", &cause);
    let schema = schema_of(&reader.schema())?;
    let properties = properties(&TableOptions::default());
    let mut writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(failed)?;
    for batch in reader {
        writer.write(&batch_of(&batch.map_err(Error::reading)?, &schema)?).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(())
}

/// How a Parquet file is laid out.
pub(crate) fn properties(options: &TableOptions) -> WriterProperties {
    let compression = match options.compression {
        Some(Codec::None) => Compression::UNCOMPRESSED,
        Some(Codec::Zstd) => Compression::ZSTD(ZstdLevel::default()),
        None | Some(Codec::Snappy) => Compression::SNAPPY,
    };
    let statistics = match options.statistics {
        Statistics::None => EnabledStatistics::None,
        Statistics::Column => EnabledStatistics::Chunk,
        Statistics::Page => EnabledStatistics::Page,
    };
    WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_enabled(options.dictionary)
        .set_statistics_enabled(statistics)
        .build()
}

/// Writes an Arrow IPC file; `each` hears how many rows have been added.
pub(crate) fn write_arrow(
    reader: &mut dyn RecordBatchReader,
    out: impl Write,
    mut each: impl FnMut(usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |cause| Error::arrow("writing the table as .arrow", &cause);
    let schema = reader.schema();
    let mut writer = FileWriter::try_new(out, &schema).map_err(failed)?;
    if has_dictionary(&schema) {
        let batch = with_one_dictionary(reader, &schema)?;
        writer.write(&batch).map_err(failed)?;
        each(batch.num_rows())?;
    } else {
        for batch in reader {
            let batch = batch.map_err(Error::reading)?;
            writer.write(&batch).map_err(failed)?;
            each(batch.num_rows())?;
        }
    }
    writer.finish().map_err(failed)
}

fn has_dictionary(schema: &Schema) -> bool {
    schema.flattened_fields().iter().any(|field| matches!(field.data_type(), DataType::Dictionary(..)))
}

/// Makes one batch of all, because the file format allows a column only one dictionary and every batch may bring its own.
fn with_one_dictionary(reader: &mut dyn RecordBatchReader, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(Error::reading)?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([batch]) => Ok(batch),
        Err(batches) => concat_batches(schema, &batches)
            .map_err(|cause| Error::arrow("joining the dictionaries of the table's batches", &cause)),
    }
}
