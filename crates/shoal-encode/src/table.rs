//! Tables in the formats that Arrow itself writes: Parquet and Arrow IPC files.
//!
//! Not here: what Parquet cannot hold as it is (`parquet_types.rs`).

use std::io::Write;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_cast::cast;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, Schema};
use arrow_select::concat::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::parquet_types::{batch_of, schema_of};
use crate::{Codec, Error, Statistics, TableOptions};

/// Appends a Parquet file, compressed with Snappy.
pub(crate) fn write_parquet(reader: &mut dyn RecordBatchReader, out: &mut Vec<u8>) -> Result<(), Error> {
    let failed = |cause| Error::arrow("writing the table as .parquet", &cause);
    let mut joined = joined(reader)?;
    let reader: &mut dyn RecordBatchReader = joined.as_mut().map_or(reader, |joined| joined);
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
    let mut joined = joined(reader)?;
    let reader: &mut dyn RecordBatchReader = joined.as_mut().map_or(reader, |joined| joined);
    let mut writer = FileWriter::try_new(out, &reader.schema()).map_err(failed)?;
    for batch in reader {
        let batch = batch.map_err(Error::reading)?;
        writer.write(&batch).map_err(failed)?;
        each(batch.num_rows())?;
    }
    writer.finish().map_err(failed)
}

fn has_dictionary(schema: &Schema) -> bool {
    schema.flattened_fields().iter().any(|field| matches!(field.data_type(), DataType::Dictionary(..)))
}

type Joined = RecordBatchIterator<Option<Result<RecordBatch, ArrowError>>>;

/// Joins all batches into one if columns have dictionaries; `None` if no column has one. Every batch may have its own
/// dictionary, while an Arrow file has one per column, and PyArrow reads Parquet only if the keys are wide enough for all.
fn joined(reader: &mut dyn RecordBatchReader) -> Result<Option<Joined>, Error> {
    let schema = reader.schema();
    if !has_dictionary(&schema) {
        return Ok(None);
    }
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(Error::reading)?;
    let batch = match <[RecordBatch; 1]>::try_from(batches) {
        Ok([batch]) => batch,
        Err(batches) => concat_batches(&schema, &batches)
            .or_else(|_| with_wide_keys(&schema, &batches))
            .map_err(|cause| Error::arrow("joining the dictionaries of the table's batches", &cause))?,
    };
    let schema = batch.schema();
    Ok(Some(RecordBatchIterator::new(Some(Ok(batch)), schema)))
}

/// The same with keys that take any number of values.
fn with_wide_keys(schema: &Schema, batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    let widen = |field: &FieldRef| match field.data_type() {
        DataType::Dictionary(_, values) => {
            let wide = DataType::Dictionary(Box::new(DataType::Int64), values.clone());
            Arc::new(field.as_ref().clone().with_data_type(wide))
        }
        _ => Arc::clone(field),
    };
    let fields: Fields = schema.fields().iter().map(widen).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let wide = |batch: &RecordBatch| {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
        RecordBatch::try_new(Arc::clone(&schema), columns)
    };
    concat_batches(&schema, &batches.iter().map(wide).collect::<Result<Vec<_>, _>>()?)
}
