//! Formats and Arrow schemas, one made of the other.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, Schema, SchemaRef};

use super::{Field, Format, Kind};
use crate::error::{Error, Result};

impl Format {
    /// The format of records that hold these columns one after the other, little-endian, without padding. Truth values
    /// take a byte.
    ///
    /// # Errors
    ///
    /// Format: a type without a fixed width, or what [`Format::new`] refuses.
    pub fn from_schema(schema: &Schema) -> Result<Self> {
        let mut end = 0_usize;
        let mut fields = Vec::with_capacity(schema.fields().len());
        for column in schema.fields() {
            let (kind, logical) = kind_of(column.data_type()).ok_or_else(|| {
                Error::format(format!(
                    "column {:?} is of type {}: booleans, integers, floats, fixed-size binary, dates, times and durations \
                     have a fixed width here",
                    column.name(),
                    column.data_type()
                ))
            })?;
            fields.push(Field { logical, ..Field::new(column.name(), kind, end) });
            end = end.saturating_add(kind.size());
        }
        Self::new(fields, end)
    }

    /// The schema of what is read: one column per field, none of them null.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let all: Vec<usize> = (0..self.fields.len()).collect();
        self.schema_of(&all)
    }

    /// The schema of some of the fields, by their places.
    pub(crate) fn schema_of(&self, columns: &[usize]) -> SchemaRef {
        let columns = columns.iter().map(|at| {
            let field = &self.fields[*at];
            ArrowField::new(&field.name, field.data_type(), false)
        });
        Arc::new(Schema::new(columns.collect::<Vec<_>>()))
    }
}

impl Field {
    /// Its type in Arrow.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        if let Some(logical) = &self.logical {
            return logical.clone();
        }
        match self.kind {
            Kind::Bool => DataType::Boolean,
            Kind::U8 => DataType::UInt8,
            Kind::U16 => DataType::UInt16,
            Kind::U32 => DataType::UInt32,
            Kind::U64 => DataType::UInt64,
            Kind::I8 => DataType::Int8,
            Kind::I16 => DataType::Int16,
            Kind::I32 => DataType::Int32,
            Kind::I64 => DataType::Int64,
            Kind::F16 => DataType::Float16,
            Kind::F32 => DataType::Float32,
            Kind::F64 => DataType::Float64,
            // RECORD_MAX is far below 2^31.
            Kind::Bytes(length) => DataType::FixedSizeBinary(length as i32),
        }
    }
}

/// Returns the kind of a type in a record, and the type itself if the kind does not imply it.
fn kind_of(data_type: &DataType) -> Option<(Kind, Option<DataType>)> {
    let plain = |kind| Some((kind, None));
    let logical = |kind| Some((kind, Some(data_type.clone())));
    match data_type {
        DataType::Boolean => plain(Kind::Bool),
        DataType::UInt8 => plain(Kind::U8),
        DataType::UInt16 => plain(Kind::U16),
        DataType::UInt32 => plain(Kind::U32),
        DataType::UInt64 => plain(Kind::U64),
        DataType::Int8 => plain(Kind::I8),
        DataType::Int16 => plain(Kind::I16),
        DataType::Int32 => plain(Kind::I32),
        DataType::Int64 => plain(Kind::I64),
        DataType::Float16 => plain(Kind::F16),
        DataType::Float32 => plain(Kind::F32),
        DataType::Float64 => plain(Kind::F64),
        DataType::FixedSizeBinary(length) => plain(Kind::Bytes(usize::try_from(*length).ok()?)),
        DataType::Date32 | DataType::Time32(_) => logical(Kind::I32),
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => logical(Kind::I64),
        _ => None,
    }
}
