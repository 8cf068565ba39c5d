//! What a column becomes before it is written as text: plain values in place of dictionaries and runs. Arrow's own
//! writers get the nulls of the first and the floats of the second wrong. A time that its text cannot say is an error.

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime_with_timezone;
use arrow_array::timezone::Tz;
use arrow_array::types::TimestampSecondType;
use arrow_array::{Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Schema, TimeUnit};

use crate::Error;
use crate::nested::replaced;

/// The last offset with seconds, Liberia's, ended on 7 January 1972.
const WHOLE_MINUTES: i64 = 2 * 366 * 86_400;

/// The same rows without runs, and without dictionaries in JSON.
pub(crate) fn plain(batch: &RecordBatch, json: bool) -> Result<RecordBatch, ArrowError> {
    let values = |kind: &DataType| match kind {
        DataType::RunEndEncoded(_, values) => Some(values.data_type().clone()),
        DataType::Dictionary(_, values) if json => Some(values.as_ref().clone()),
        _ => None,
    };
    let fields: Vec<_> = batch.schema().fields().iter().map(|field| replaced(field, &values)).collect();
    if *fields == **batch.schema().fields() {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(&fields).map(|(column, field)| cast(column, field.data_type()));
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// Extension types that text can say: JSON, and the digits of a UUID.
const EXTENSIONS: [&str; 2] = ["arrow.json", "arrow.uuid"];

/// Refuses other extension types: a text would have their storage only, such as the number of a month for the month.
pub(crate) fn refuse_extensions(schema: &Schema, ending: &str) -> Result<(), Error> {
    for field in schema.flattened_fields() {
        if let Some(kind) = field.extension_type_name().filter(|kind| !EXTENSIONS.contains(kind)) {
            return Err(Error::unsupported(format!(
                "column {:?} has the extension type {kind}, but .{ending} would hold only its storage, without that \
                meaning: cast \
                 it to text or to its storage, or name the file .parquet or .arrow",
                field.name()
            )));
        }
    }
    Ok(())
}

/// Refuses times at which the offset of their zone had seconds: the text of an offset has hours and minutes only.
pub(crate) fn check_offsets(times: &dyn Array) -> Result<(), ArrowError> {
    let DataType::Timestamp(_, Some(zone)) = times.data_type() else { return Ok(()) };
    let seconds = cast(times, &DataType::Timestamp(TimeUnit::Second, Some(Arc::clone(zone))))?;
    let zone = Tz::from_str(zone)?;
    let with_seconds = |second: i64| {
        as_datetime_with_timezone::<TimestampSecondType>(second, zone)
            .is_some_and(|time| time.naive_local().signed_duration_since(time.naive_utc()).num_seconds() % 60 != 0)
    };
    let mut early = seconds.as_primitive::<TimestampSecondType>().iter().flatten().filter(|&at| at < WHOLE_MINUTES);
    match early.any(with_seconds) {
        true => Err(ArrowError::CastError(
            "the offset of its zone had seconds then, which the text form cannot hold: convert it to UTC".to_owned(),
        )),
        false => Ok(()),
    }
}
