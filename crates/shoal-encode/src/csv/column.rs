//! The columns of one batch, each with its type looked up once.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, BooleanArray, LargeStringArray, RecordBatch, StringArray, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType};
use half::f16;

use super::cell::{self, Cell};
use super::push_text;
use crate::json_lines::push_time;
use crate::text_types::check_offsets;

/// How a value that has no writer of its own is formatted; an error is returned and not written into the file.
const DISPLAY: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

/// One column of a batch, ready to be written value by value.
pub(super) struct Column<'a> {
    values: Values<'a>,
    nulls: Option<NullBuffer>,
}

enum Values<'a> {
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float16(&'a [f16]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Boolean(&'a BooleanArray),
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    /// The place of each row's value in `values`.
    Dictionary {
        keys: Vec<usize>,
        values: Box<Column<'a>>,
    },
    Other(ArrayFormatter<'a>),
}

impl<'a> Column<'a> {
    pub(super) fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        use DataType as T;
        let values = match array.data_type() {
            T::Int8 => Values::Int8(slice::<Int8Type>(array)),
            T::Int16 => Values::Int16(slice::<Int16Type>(array)),
            T::Int32 => Values::Int32(slice::<Int32Type>(array)),
            T::Int64 => Values::Int64(slice::<Int64Type>(array)),
            T::UInt8 => Values::UInt8(slice::<UInt8Type>(array)),
            T::UInt16 => Values::UInt16(slice::<UInt16Type>(array)),
            T::UInt32 => Values::UInt32(slice::<UInt32Type>(array)),
            T::UInt64 => Values::UInt64(slice::<UInt64Type>(array)),
            T::Float16 => Values::Float16(slice::<Float16Type>(array)),
            T::Float32 => Values::Float32(slice::<Float32Type>(array)),
            T::Float64 => Values::Float64(slice::<Float64Type>(array)),
            T::Boolean => Values::Boolean(array.as_boolean()),
            T::Utf8 => Values::Utf8(array.as_string()),
            T::LargeUtf8 => Values::LargeUtf8(array.as_string()),
            T::Utf8View => Values::Utf8View(array.as_string_view()),
            T::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let empty = dictionary.values().is_empty(); // then every key is null
                let keys = if empty { Vec::new() } else { dictionary.normalized_keys() };
                Values::Dictionary { keys, values: Box::new(Column::new(dictionary.values().as_ref())?) }
            }
            _ => {
                check_offsets(array)?;
                Values::Other(ArrayFormatter::try_new(array, &DISPLAY)?)
            }
        };
        Ok(Self { values, nulls: array.logical_nulls().filter(|nulls| nulls.null_count() > 0) })
    }

    /// Appends the value of one row; nothing if it is null.
    #[inline]
    pub(super) fn push(&self, row: usize, scratch: &mut String, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(());
        }
        match &self.values {
            Values::Int8(values) => cell::push(values[row], out),
            Values::Int16(values) => cell::push(values[row], out),
            Values::Int32(values) => cell::push(values[row], out),
            Values::Int64(values) => cell::push(values[row], out),
            Values::UInt8(values) => cell::push(values[row], out),
            Values::UInt16(values) => cell::push(values[row], out),
            Values::UInt32(values) => cell::push(values[row], out),
            Values::UInt64(values) => cell::push(values[row], out),
            Values::Float16(values) => cell::push(values[row], out),
            Values::Float32(values) => cell::push(values[row], out),
            Values::Float64(values) => cell::push(values[row], out),
            Values::Boolean(values) => cell::push(values.value(row), out),
            Values::Utf8(values) => push_text(values.value(row).as_bytes(), out),
            Values::LargeUtf8(values) => push_text(values.value(row).as_bytes(), out),
            Values::Utf8View(values) => push_text(values.value(row).as_bytes(), out),
            Values::Dictionary { keys, values } => values.push(keys[row], scratch, out)?,
            Values::Other(formatter) => {
                scratch.clear();
                push_time(formatter, row, scratch)?;
                push_text(scratch.as_bytes(), out);
            }
        }
        Ok(())
    }
}

fn slice<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

/// Appends all rows of a batch whose columns are numbers of one type without nulls; false, and nothing, for any other.
pub(super) fn push_uniform(batch: &RecordBatch, out: &mut Vec<u8>) -> bool {
    use DataType as T;
    let Some(first) = batch.columns().first() else { return false };
    let same = |column: &dyn Array| column.data_type() == first.data_type() && column.null_count() == 0;
    if !batch.columns().iter().all(|column| same(column)) {
        return false;
    }
    match first.data_type() {
        T::Int8 => push_primitive::<Int8Type>(batch, out),
        T::Int16 => push_primitive::<Int16Type>(batch, out),
        T::Int32 => push_primitive::<Int32Type>(batch, out),
        T::Int64 => push_primitive::<Int64Type>(batch, out),
        T::UInt8 => push_primitive::<UInt8Type>(batch, out),
        T::UInt16 => push_primitive::<UInt16Type>(batch, out),
        T::UInt32 => push_primitive::<UInt32Type>(batch, out),
        T::UInt64 => push_primitive::<UInt64Type>(batch, out),
        T::Float32 => push_primitive::<Float32Type>(batch, out),
        T::Float64 => push_primitive::<Float64Type>(batch, out),
        _ => return false,
    }
    true
}

fn push_primitive<T: ArrowPrimitiveType<Native: Cell>>(batch: &RecordBatch, out: &mut Vec<u8>) {
    let rows = batch.num_rows();
    let columns: Vec<&[T::Native]> = batch.columns().iter().map(|column| &slice::<T>(column)[..rows]).collect();
    let get = |row: usize, column: usize| {
        // SAFETY: `push_rows` asks for places below `rows` and `columns.len()` only, and every slice was cut to `rows`.
        // Checked, a small number costs a fifth more.
        unsafe { *columns.get_unchecked(column).get_unchecked(row) }
    };
    cell::push_rows(rows, columns.len(), get, out);
}
