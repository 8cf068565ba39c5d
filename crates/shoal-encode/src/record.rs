//! Rows as the elements of a NumPy array with fields: every column a field, one behind the other without gaps.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::Error;

/// What an element is made of.
pub(crate) struct Record {
    descr: String,
    /// Bytes of each field.
    sizes: Vec<usize>,
}

impl Record {
    /// Fits an element to columns of fixed width.
    pub(crate) fn new(schema: &Schema) -> Result<Self, Error> {
        let (mut descr, mut sizes) = (String::from("["), Vec::new());
        for (at, field) in schema.fields().iter().enumerate() {
            if schema.fields()[..at].iter().any(|other| other.name() == field.name()) {
                let name = field.name();
                return Err(Error::unsupported(format!("two columns are called {name:?}, which .npy does not allow")));
            }
            let (kind, size) = kind(field)?;
            let order = match size {
                _ if kind.starts_with(['b', 'S', 'V']) => '|',
                1 => '|',
                _ if cfg!(target_endian = "big") => '>',
                _ => '<',
            };
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(descr, "{comma}({}, '{order}{kind}')", python_text(field.name()));
            sizes.push(size);
        }
        if sizes.is_empty() {
            return Err(Error::unsupported("a table without columns, which .npy cannot hold: name the file .arrow"));
        }
        descr.push(']');
        Ok(Self { descr, sizes })
    }

    /// The dtype as NumPy's `descr` shows it.
    pub(crate) fn descr(&self) -> &str {
        &self.descr
    }

    /// Appends an element for each row.
    pub(crate) fn push(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Error> {
        let size: usize = self.sizes.iter().sum();
        let start = out.len();
        out.resize(start + size * batch.num_rows(), 0);
        let mut offset = 0;
        for (at, field_size) in self.sizes.iter().enumerate() {
            let column = batch.column(at);
            if column.logical_null_count() > 0 {
                return Err(Error::unsupported(format!(
                    "column {:?} has nulls, which .npy cannot hold: fill them, or name the file .parquet or .arrow",
                    batch.schema().field(at).name()
                )));
            }
            put(column, *field_size, &mut out[start..], size, offset);
            offset += field_size;
        }
        Ok(())
    }
}

/// NumPy's kind and size of a column's values.
fn kind(field: &Field) -> Result<(String, usize), Error> {
    use DataType as T;
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    let (kind, size) = match field.data_type() {
        T::Boolean => ("b1".into(), 1),
        T::Int8 => ("i1".into(), 1),
        T::Int16 => ("i2".into(), 2),
        T::Int32 => ("i4".into(), 4),
        T::Int64 => ("i8".into(), 8),
        T::UInt8 => ("u1".into(), 1),
        T::UInt16 => ("u2".into(), 2),
        T::UInt32 => ("u4".into(), 4),
        T::UInt64 => ("u8".into(), 8),
        T::Float16 => ("f2".into(), 2),
        T::Float32 => ("f4".into(), 4),
        T::Float64 => ("f8".into(), 8),
        T::Timestamp(of, _) => (format!("M8[{}]", unit(of)), 8),
        T::Date64 => ("M8[ms]".into(), 8),
        T::Duration(of) => (format!("m8[{}]", unit(of)), 8),
        T::FixedSizeBinary(size) => (format!("S{size}"), usize::try_from(*size).unwrap_or_default()),
        other => {
            return Err(Error::unsupported(format!(
                "column {:?} has the type {other}, but .npy holds only numbers, booleans, timestamps, durations and \
                bytes of one \
                 length: cast it, or name the file .parquet or .arrow",
                field.name()
            )));
        }
    };
    Ok((kind, size))
}

/// Writes a column's values, of so many bytes each, into elements of `size` bytes from `offset` on.
fn put(column: &dyn Array, field: usize, elements: &mut [u8], size: usize, offset: usize) {
    if let Some(values) = column.as_boolean_opt() {
        for (element, value) in elements.chunks_exact_mut(size).zip(values.values()) {
            element[offset] = value.into();
        }
        return;
    }
    if field == 0 {
        return;
    }
    // A type of fixed width has its values in its first buffer.
    let data = column.to_data();
    let values = &data.buffers()[0].as_slice()[data.offset() * field..];
    match field {
        1 => copy::<1>(values, elements, size, offset),
        2 => copy::<2>(values, elements, size, offset),
        4 => copy::<4>(values, elements, size, offset),
        8 => copy::<8>(values, elements, size, offset),
        16 => copy::<16>(values, elements, size, offset),
        _ => {
            for (element, value) in elements.chunks_exact_mut(size).zip(values.chunks_exact(field)) {
                element[offset..][..field].copy_from_slice(value);
            }
        }
    }
}

/// The same for values of a size that the compiler knows.
fn copy<const N: usize>(values: &[u8], elements: &mut [u8], size: usize, offset: usize) {
    let (values, _) = values.as_chunks::<N>();
    for (element, value) in elements.chunks_exact_mut(size).zip(values) {
        element[offset..][..N].copy_from_slice(value);
    }
}

/// A text as Python's source has it.
fn python_text(text: &str) -> String {
    let mut quoted = String::from("'");
    for letter in text.chars() {
        match letter {
            '\\' | '\'' => quoted.extend(['\\', letter]),
            // No longer a line of its own, and no character that a reader's parser would stop at.
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('\'');
    quoted
}
