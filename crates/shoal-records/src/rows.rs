//! Arrow columns to the bytes of records: what [`append`](crate::append) takes, from a table.
//!
//! Here: [`Format::encode`], the way back of a scan. Not here: files.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_schema::ArrowError;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Field, Format, Kind};

impl Format {
    /// Appends a batch's rows to `to` as records; columns are found by their names, and padding is zeros.
    ///
    /// # Errors
    ///
    /// Invalid: a field has no column or two, a column has no field, is of another type than [`Field::data_type`] says, or
    /// holds nulls. `to` is as before.
    pub fn encode(&self, batch: &RecordBatch, to: &mut Vec<u8>) -> Result<()> {
        let schema = batch.schema();
        if let Some(extra) = schema.fields().iter().find(|column| self.index_of(column.name()).is_err()) {
            return Err(Error::invalid(format!("column {:?} is not a field: {}", extra.name(), self.names_text())));
        }
        let columns: Vec<(&Field, ArrayRef)> =
            self.fields().iter().map(|field| Ok((field, column(batch, field)?))).collect::<Result<_>>()?;
        let start = to.len();
        to.resize(start + batch.num_rows() * self.size(), 0);
        for (field, array) in columns {
            write(field, &array, &mut to[start..], self.size());
        }
        Ok(())
    }
}

/// The column of a field, in the field's plain type.
fn column(batch: &RecordBatch, field: &Field) -> Result<ArrayRef> {
    let name = &field.name;
    let schema = batch.schema();
    let mut found = (0..batch.num_columns()).filter(|at| schema.field(*at).name() == name);
    let at = found.next().ok_or_else(|| Error::invalid(format!("no column is called {name:?}")))?;
    if found.next().is_some() {
        return Err(Error::invalid(format!("two columns are called {name:?}: leave one out")));
    }
    let array = batch.column(at);
    let (is, wanted) = (array.data_type(), field.data_type());
    if *is != wanted {
        return Err(Error::invalid(format!("column {name:?} is of type {is}, but the field is {wanted}: cast it")));
    }
    if array.null_count() > 0 {
        let nulls = array.null_count();
        return Err(Error::invalid(format!(
            "column {name:?} has {nulls} nulls, which a record cannot hold: fill them"
        )));
    }
    if field.logical.is_none() {
        return Ok(array.clone());
    }
    let plain = Field { logical: None, ..field.clone() }.data_type();
    let data = array.to_data().into_builder().data_type(plain).build();
    data.map(make_array).map_err(|error: ArrowError| Error::new(ErrorKind::Internal, format!("{name:?}: {error}")))
}

/// Writes a column to its place in each record.
fn write(field: &Field, array: &ArrayRef, records: &mut [u8], size: usize) {
    let places = records.chunks_exact_mut(size).map(|record| &mut record[field.offset..][..field.kind.size()]);
    macro_rules! numbers {
        ($arrow:ty) => {{
            let values = array.as_primitive::<$arrow>().values();
            match field.big_endian {
                false => places.zip(values).for_each(|(place, value)| place.copy_from_slice(&value.to_le_bytes())),
                true => places.zip(values).for_each(|(place, value)| place.copy_from_slice(&value.to_be_bytes())),
            }
        }};
    }
    match field.kind {
        Kind::Bool => {
            let values = array.as_boolean().values();
            places.zip(values).for_each(|(place, value)| place[0] = u8::from(value));
        }
        Kind::Bytes(_) => {
            let values = array.as_fixed_size_binary();
            for (row, place) in places.enumerate() {
                place.copy_from_slice(values.value(row));
            }
        }
        Kind::U8 => numbers!(UInt8Type),
        Kind::U16 => numbers!(UInt16Type),
        Kind::U32 => numbers!(UInt32Type),
        Kind::U64 => numbers!(UInt64Type),
        Kind::I8 => numbers!(Int8Type),
        Kind::I16 => numbers!(Int16Type),
        Kind::I32 => numbers!(Int32Type),
        Kind::I64 => numbers!(Int64Type),
        Kind::F16 => numbers!(Float16Type),
        Kind::F32 => numbers!(Float32Type),
        Kind::F64 => numbers!(Float64Type),
    }
}
