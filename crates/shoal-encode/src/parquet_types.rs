//! What a column becomes in Parquet, which knows neither seconds nor dates in milliseconds: without this, the file would hold
//! whole numbers that nothing tells from others. A value that does not fit is an error, and so is a type that nothing stands for.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use crate::Error;
use crate::nested::{replaced, replaced_type};

/// The columns of the file.
pub(crate) fn schema_of(schema: &Schema) -> Result<SchemaRef, Error> {
    let fields: Vec<FieldRef> = schema.fields().iter().map(top_field).collect::<Result<_, _>>()?;
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

fn top_field(field: &FieldRef) -> Result<FieldRef, Error> {
    let refused = |why: &str| {
        Error::unsupported(format!("column {:?} has the type {}, and .parquet {why}", field.name(), field.data_type()))
    };
    let parts = Schema::new(vec![Arc::clone(field)]);
    let parts = parts.flattened_fields();
    let has = |is_one: fn(&DataType) -> bool| parts.iter().any(|part| is_one(part.data_type()));
    if has(|kind| matches!(kind, DataType::Union(..))) {
        return Err(refused("cannot hold unions: name the file .arrow, or make one column of each of its parts"));
    }
    if has(|kind| matches!(kind, DataType::Interval(_))) {
        return Err(refused("cannot hold intervals: name the file .arrow, or make it durations or text"));
    }
    if has(|kind| matches!(kind, DataType::FixedSizeBinary(0))) {
        return Err(refused("cannot hold values of 0 bytes: leave the column out"));
    }
    let runs =
        |part: &&Field| matches!(part.data_type(), DataType::RunEndEncoded(_, values) if changes(values.data_type()));
    if parts.iter().any(runs) {
        return Err(refused("cannot hold run-end encoded values of this type: decode them, or name the file .arrow"));
    }
    Ok(replaced(field, &other))
}

fn changes(kind: &DataType) -> bool {
    replaced_type(kind, &other) != *kind
}

/// What stands for a type that Parquet does not have.
fn other(kind: &DataType) -> Option<DataType> {
    use DataType as T;
    match kind {
        T::Timestamp(TimeUnit::Second, zone) => Some(T::Timestamp(TimeUnit::Millisecond, zone.clone())),
        T::Time32(TimeUnit::Second) => Some(T::Time32(TimeUnit::Millisecond)),
        T::Date64 => Some(T::Date32),
        _ => None,
    }
}

/// The values of a column as the file holds them.
pub(crate) fn column_of(values: &ArrayRef, field: &Field) -> Result<ArrayRef, Error> {
    let (from, to) = (values.data_type(), field.data_type());
    if from == to {
        return Ok(Arc::clone(values));
    }
    let exactly = CastOptions { safe: false, ..CastOptions::default() };
    let failed = |cause: &dyn std::fmt::Display| {
        Error::arrow(format_args!("writing column {:?} as {to} of .parquet", field.name()), cause)
    };
    let cast =
        |values: &ArrayRef, to: &DataType| cast_with_options(values, to, &exactly).map_err(|cause| failed(&cause));
    let changed = cast(values, to)?;
    // Arrow leaves out the hours of a date in silence.
    match *cast(&changed, from)? == **values {
        true => Ok(changed),
        false => Err(failed(&"a date has a time of day: make it a timestamp")),
    }
}

/// The rows of a batch as the file holds them.
pub(crate) fn batch_of(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    if batch.schema_ref().fields() == schema.fields() {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(schema.fields()).map(|(values, field)| column_of(values, field));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|cause| Error::arrow("writing the table as .parquet", &cause))
}
