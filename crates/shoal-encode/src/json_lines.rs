//! JSON lines: one object a line, with `null` for nulls, so that every line has every key.
//!
//! JSON cannot express NaN and the infinities: they become `null`. Dates and times are text in ISO 8601; one outside the
//! range of that form is an error. So are two columns of one name, and a map with a duplicate key: readers keep only one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, MapArray, RecordBatch, RecordBatchReader};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::writer::{Encoder, EncoderFactory, EncoderOptions, LineDelimited, NullableEncoder, WriterBuilder};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema};

use crate::text_types::{check_offsets, plain, refuse_extensions};
use crate::{Error, Options};

/// Appends a table.
pub(crate) fn write(reader: &mut dyn RecordBatchReader, options: &Options, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    refuse_twins(&reader.schema())?;
    refuse_extensions(&reader.schema(), "jsonl")?;
    for batch in reader {
        push(&batch.map_err(Error::reading)?, out)?;
    }
    if !options.final_newline && out[start..].ends_with(b"\n") {
        out.pop();
    }
    Ok(())
}

/// Appends an object for each row.
pub(crate) fn push(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Error> {
    let failed = |cause: ArrowError| Error::arrow("writing the table as .jsonl", &cause);
    let times = Times::default();
    let builder = WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(Arc::new(times.clone()));
    let mut writer = builder.build::<_, LineDelimited>(out);
    let batch = plain(batch, true).map_err(failed)?;
    writer.write(&batch).and_then(|()| writer.finish()).map_err(failed)?;
    match times.first() {
        Some(error) => Err(failed(error)),
        None => Ok(()),
    }
}

/// Refuses columns, or fields within one, that have the same name.
pub(crate) fn refuse_twins(schema: &Schema) -> Result<(), Error> {
    let parts = schema.flattened_fields();
    let structs = parts.iter().filter_map(|field| match field.data_type() {
        DataType::Struct(fields) => Some(fields),
        _ => None,
    });
    for fields in structs.chain([schema.fields()]) {
        let mut names = HashSet::new();
        if let Some(twin) = fields.iter().find(|field| !names.insert(field.name())) {
            let why = format!("two columns are called {:?}, and an object of .jsonl has each key once", twin.name());
            return Err(Error::unsupported(why));
        }
    }
    Ok(())
}

fn refuse_twin_keys(map: &MapArray) -> Result<(), ArrowError> {
    let keys = cast(map.keys(), &DataType::LargeUtf8)?;
    let keys = keys.as_string::<i64>();
    for row in (0..map.len()).filter(|&row| map.is_valid(row)) {
        let ends = &map.value_offsets()[row..=row + 1];
        let mut seen = HashSet::new();
        if let Some(twin) = (ends[0]..ends[1]).map(|at| keys.value(at as usize)).find(|key| !seen.insert(*key)) {
            return Err(ArrowError::JsonError(format!("a map has the key {twin:?} twice, and an object only once")));
        }
    }
    Ok(())
}

/// Encodes dates and times, and keeps the first error: Arrow's own encoder writes its text as the value.
#[derive(Clone, Debug, Default)]
struct Times(Arc<Mutex<Option<ArrowError>>>);

impl Times {
    fn first(&self) -> Option<ArrowError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl EncoderFactory for Times {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        const DISPLAY: FormatOptions<'static> = FormatOptions::new().with_display_error(false);
        if let Some(map) = array.as_map_opt() {
            refuse_twin_keys(map)?;
        }
        if !array.data_type().is_temporal() {
            return Ok(None);
        }
        check_offsets(array)?;
        let formatter = ArrayFormatter::try_new(array, &DISPLAY)?;
        let encoder = TimeEncoder { formatter, text: String::new(), times: self.clone() };
        Ok(Some(NullableEncoder::new(Box::new(encoder), array.nulls().cloned())))
    }
}

struct TimeEncoder<'a> {
    formatter: ArrayFormatter<'a>,
    text: String,
    times: Times,
}

impl Encoder for TimeEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.text.clear();
        match push_time(&self.formatter, row, &mut self.text) {
            Ok(()) => {
                out.push(b'"');
                out.extend_from_slice(self.text.as_bytes()); // none of its characters needs an escape
                out.push(b'"');
            }
            Err(error) => drop(self.times.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error)),
        }
    }
}

/// Appends the text of a value that is neither a number nor text; an error if it has no text form.
pub(crate) fn push_time(formatter: &ArrayFormatter<'_>, row: usize, text: &mut String) -> Result<(), ArrowError> {
    let start = text.len();
    formatter.value(row).write(text)?;
    match &text[start..] {
        "<invalid>" => Err(ArrowError::CastError("a duration is too long for its text form".to_owned())),
        _ => Ok(()),
    }
}
