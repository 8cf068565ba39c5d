//! Records to Arrow columns.
//!
//! Here: one builder for each field that is wanted, filled strip by strip. Not here: which records and in what order
//! (`scan.rs`).

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, RecordBatch, RecordBatchOptions, make_array,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, SchemaRef};

use crate::column::{Big, Little, Rows, Stored, Strided, Truth};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Field, Format, Kind};

/// Most values, and most bytes of a field of bytes, that a column has room for from the start. Batches of a
/// whole file are possible, but a wrong number must not reserve more memory than there is.
const ROOM_MAX: usize = 4 << 20;
const ROOM_BYTES_MAX: usize = 64 << 20;

/// The columns of one batch while they grow.
pub(crate) struct Builders {
    columns: Vec<Box<dyn Builder>>,
    /// Bytes of a record.
    size: usize,
    rows: usize,
    schema: SchemaRef,
}

impl Builders {
    /// One column for each of these fields, with room for so many rows.
    pub(crate) fn new(format: &Format, columns: &[usize], schema: SchemaRef, room: usize) -> Self {
        let columns = columns.iter().map(|at| builder(&format.fields()[*at], room)).collect();
        Self { columns, size: format.size(), rows: 0, schema }
    }

    /// Appends these rows of a strip.
    pub(crate) fn append(&mut self, strip: &[u8], rows: Rows<'_>) {
        for column in &mut self.columns {
            column.append(strip, self.size, rows);
        }
        self.rows += rows.len();
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn finish(self) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let columns: std::result::Result<Vec<ArrayRef>, ArrowError> =
            self.columns.into_iter().map(|column| column.finish()).collect();
        columns
            .and_then(|columns| RecordBatch::try_new_with_options(self.schema, columns, &options))
            .map_err(|error| Error::new(ErrorKind::Internal, format!("making a batch failed: {error}")))
    }
}

/// A column while it grows.
trait Builder {
    fn append(&mut self, strip: &[u8], size: usize, rows: Rows<'_>);
    fn finish(self: Box<Self>) -> std::result::Result<ArrayRef, ArrowError>;
}

/// Numbers of a stored type, which are an Arrow type's.
struct Numbers<S, A: ArrowPrimitiveType> {
    field: Field,
    values: Vec<A::Native>,
    stored: std::marker::PhantomData<S>,
}

impl<S: Stored<Value = A::Native>, A: ArrowPrimitiveType> Builder for Numbers<S, A> {
    fn append(&mut self, strip: &[u8], size: usize, rows: Rows<'_>) {
        Strided::<S>::new(strip, size, &self.field).append(rows, &mut self.values, |value| value);
    }

    fn finish(self: Box<Self>) -> std::result::Result<ArrayRef, ArrowError> {
        let array = PrimitiveArray::<A>::new(self.values.into(), None);
        match &self.field.logical {
            None => Ok(Arc::new(array)),
            // Dates and times are integers of the same width under another name.
            Some(logical) => Ok(make_array(array.into_data().into_builder().data_type(logical.clone()).build()?)),
        }
    }
}

struct Truths {
    field: Field,
    values: Vec<bool>,
}

impl Builder for Truths {
    fn append(&mut self, strip: &[u8], size: usize, rows: Rows<'_>) {
        Strided::<Truth>::new(strip, size, &self.field).append(rows, &mut self.values, |value| value != 0);
    }

    fn finish(self: Box<Self>) -> std::result::Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(self.values), None)))
    }
}

struct Bytes {
    field: Field,
    values: Vec<u8>,
}

impl Builder for Bytes {
    fn append(&mut self, strip: &[u8], size: usize, rows: Rows<'_>) {
        let (from, length) = (self.field.offset, self.field.kind.size());
        self.values.reserve(rows.len() * length);
        match rows {
            Rows::All(_) => {
                for record in strip.chunks_exact(size) {
                    self.values.extend_from_slice(&record[from..][..length]);
                }
            }
            Rows::Chosen(places) => {
                for at in places {
                    self.values.extend_from_slice(&strip[*at as usize * size + from..][..length]);
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> std::result::Result<ArrayRef, ArrowError> {
        // RECORD_MAX is far below 2^31.
        let length = self.field.kind.size() as i32;
        Ok(Arc::new(FixedSizeBinaryArray::try_new(length, self.values.into(), None)?))
    }
}

fn builder(field: &Field, room: usize) -> Box<dyn Builder> {
    let room = room.min(ROOM_MAX);
    macro_rules! numbers {
        ($type:ty, $arrow:ty) => {{
            let (field, values, stored) = (field.clone(), Vec::with_capacity(room), std::marker::PhantomData);
            match field.big_endian {
                false => Box::new(Numbers::<Little<$type>, $arrow> { field, values, stored }),
                true => Box::new(Numbers::<Big<$type>, $arrow> { field, values, stored: std::marker::PhantomData }),
            }
        }};
    }
    match field.kind {
        Kind::Bool => Box::new(Truths { field: field.clone(), values: Vec::with_capacity(room) }),
        Kind::U8 => numbers!(u8, UInt8Type),
        Kind::U16 => numbers!(u16, UInt16Type),
        Kind::U32 => numbers!(u32, UInt32Type),
        Kind::U64 => numbers!(u64, UInt64Type),
        Kind::I8 => numbers!(i8, Int8Type),
        Kind::I16 => numbers!(i16, Int16Type),
        Kind::I32 => numbers!(i32, Int32Type),
        Kind::I64 => numbers!(i64, Int64Type),
        Kind::F16 => numbers!(half::f16, Float16Type),
        Kind::F32 => numbers!(f32, Float32Type),
        Kind::F64 => numbers!(f64, Float64Type),
        Kind::Bytes(length) => {
            Box::new(Bytes { field: field.clone(), values: Vec::with_capacity((room * length).min(ROOM_BYTES_MAX)) })
        }
    }
}
