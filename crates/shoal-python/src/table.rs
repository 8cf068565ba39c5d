//! Tables: anything that exports an Arrow array or stream, such as a data frame, taken in without a copy.
//!
//! What Python says of it is asked on the thread that iterates; the rows are fetched on a lane, without the interpreter.
//! (A producer that needs it takes it itself; the iterating thread holds it only while it does not wait for lanes.)
//! Not here: how rows become bytes (the crate `shoal-encode`).

use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// What a table that does not say its size counts as in memory: the rows of a small data frame.
const UNKNOWN_SIZE: u64 = 1 << 20;

/// A table on its way to a lane.
pub struct Table {
    schema: SchemaRef,
    held: u64,
    source: Mutex<Option<RecordBatchStreamReader>>,
    /// Fetched once; a second try of the same object finds them here.
    rows: OnceLock<Result<Vec<RecordBatch>, String>>,
}

impl Table {
    /// Takes a table in; `None`: the object is none. The inner error: it is none that can be a table.
    pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Result<Table, String>>> {
        let imported = if let Ok(export) = object.getattr("__arrow_c_stream__") {
            export.call0().and_then(|capsule| stream(&capsule))
        } else if let Ok(export) = object.getattr("__arrow_c_array__") {
            export.call0().and_then(|capsules| array(&capsules))
        } else {
            return Ok(None);
        };
        match imported {
            Ok(Ok(mut table)) => {
                table.held = size(object);
                Ok(Some(Ok(table)))
            }
            Ok(Err(error)) => Ok(Some(Err(line(&error)))),
            // What the producer cannot export is that object's failure; KeyboardInterrupt and the like are not.
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyException>(object.py()) => {
                Ok(Some(Err(format!("it cannot be exported as Arrow: {}", error.value(object.py())))))
            }
            Err(error) => Err(error),
        }
    }

    /// What columns it has.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Bytes it keeps in memory, as far as it says.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Its rows.
    pub fn rows(&self) -> Result<&[RecordBatch], &str> {
        let fetch = || {
            let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
            source.into_iter().flatten().collect::<Result<Vec<_>, _>>().map_err(|error| line(&error))
        };
        match self.rows.get_or_init(fetch) {
            Ok(rows) => Ok(rows),
            Err(why) => Err(why),
        }
    }
}

fn line(error: &ArrowError) -> String {
    shoal_engine::display::escape(error.to_string().as_bytes()).to_string()
}

fn stream(capsule: &Bound<'_, PyAny>) -> PyResult<Result<Table, ArrowError>> {
    let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: a capsule of this name holds this struct; it is moved out, which leaves an empty one that needs no release.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr().cast()) };
    Ok(RecordBatchStreamReader::try_new(stream).map(|reader| Table {
        schema: reader.schema(),
        held: 0,
        source: Mutex::new(Some(reader)),
        rows: OnceLock::new(),
    }))
}

fn array(capsules: &Bound<'_, PyAny>) -> PyResult<Result<Table, ArrowError>> {
    let (schema, array) = {
        let pair = capsules.cast::<PyTuple>()?;
        (pair.get_item(0)?, pair.get_item(1)?)
    };
    let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
    let array = array.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array"))?;
    // SAFETY: capsules of these names hold these structs; they are moved out, which leaves empty ones.
    let (schema, array) =
        unsafe { (FFI_ArrowSchema::from_raw(schema.as_ptr().cast()), FFI_ArrowArray::from_raw(array.as_ptr().cast())) };
    let batch = || {
        // SAFETY: the producer promises that the array is of this schema.
        let data = unsafe { from_ffi(array, &schema) }?;
        match data.data_type() {
            DataType::Struct(_) if data.null_count() == 0 => Ok(RecordBatch::from(StructArray::from(data))),
            DataType::Struct(_) => Err(ArrowError::SchemaError("a row of a table cannot be null".to_owned())),
            other => Err(ArrowError::SchemaError(format!("an array of {other} is no table"))),
        }
    };
    Ok(batch().map(|batch| Table {
        schema: batch.schema(),
        held: 0,
        source: Mutex::new(None),
        rows: OnceLock::from(Ok(vec![batch])),
    }))
}

/// What the object says of its size: PyArrow has `nbytes`, Polars `estimated_size()`.
fn size(object: &Bound<'_, PyAny>) -> u64 {
    let said = object.getattr("nbytes").and_then(|bytes| bytes.extract::<u64>());
    let said = said.or_else(|_| object.call_method0("estimated_size").and_then(|bytes| bytes.extract::<u64>()));
    said.unwrap_or(UNKNOWN_SIZE)
}
