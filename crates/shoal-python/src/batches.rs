//! Batches of objects as Arrow sees them: columns `name`, `size` and `data`, through the PyCapsule interface.
//!
//! The bytes are exported where they lie; their memory goes back to the pool when the last consumer has let go of it.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, Int64Array, LargeBinaryArray, RecordBatch, RecordBatchReader, StringArray, StructArray,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use shoal_engine::sink::deliver::Chunk;

use crate::reader::{Flow, Reader, Waited};

/// Name, size in bytes, bytes.
fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("size", DataType::Int64, false),
        Field::new("data", DataType::LargeBinary, false),
    ]))
}

fn record_batch(chunk: Chunk) -> Result<RecordBatch, ArrowError> {
    let (names, name_ends, data, data_ends) = chunk.into_columns();
    let sizes: Int64Array = data_ends.windows(2).map(|ends| ends[1] - ends[0]).collect();
    let start = NonNull::new(data.as_ptr().cast_mut()).unwrap_or(NonNull::dangling());
    let length = data.len();
    // SAFETY: the pointer and length are those of the chunk's buffer, which never changes, and which the allocation, its
    // owner from now on, keeps alive.
    let bytes = unsafe { Buffer::from_custom_allocation(start, length, data) };
    let names = StringArray::try_new(OffsetBuffer::new(name_ends.into()), Buffer::from_vec(names), None)?;
    let data = LargeBinaryArray::try_new(OffsetBuffer::new(data_ends.into()), bytes, None)?;
    let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(sizes), Arc::new(data)];
    RecordBatch::try_new(schema(), columns)
}

pub fn broken(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(format!("an Arrow batch could not be made: {error}"))
}

/// A batch of objects; give it to `pyarrow.record_batch`, `polars.DataFrame`, …
#[pyclass(frozen, module = "shoal")]
pub struct Batch(RecordBatch);

#[pymethods]
impl Batch {
    /// How many objects.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// Their bytes, without names.
    #[getter]
    fn nbytes(&self) -> i64 {
        let data = self.0.column(2).as_any().downcast_ref::<LargeBinaryArray>();
        let ends = data.map_or(&[][..], |data| data.value_offsets());
        ends.last().zip(ends.first()).map_or(0, |(last, first)| last - first)
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("Batch(num_rows={}, nbytes={})", self.num_rows(), self.nbytes())
    }

    /// The type of its rows, as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py)
    }

    /// The rows, as a pair of capsules. What a consumer asks for is not converted to: it does that itself.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        capsules_of(py, &self.0)
    }
}

fn schema_capsule(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    capsule_of(py, &schema())
}

/// A schema, as a capsule.
pub fn capsule_of<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(broken)?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// Rows, as a pair of capsules: their type, and they themselves.
pub fn capsules_of<'py>(
    py: Python<'py>,
    rows: &RecordBatch,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let rows = StructArray::from(rows.clone());
    let (array, schema): (FFI_ArrowArray, FFI_ArrowSchema) = to_ffi(&rows.to_data()).map_err(broken)?;
    let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
    Ok((schema, PyCapsule::new_with_value(py, array, c"arrow_array")?))
}

/// Makes batches of one size out of those of any.
struct Gather {
    size: usize,
    parts: Mutex<Parts>,
}

/// Batches that are smaller than the size together, and their rows.
#[derive(Default)]
struct Parts {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl Gather {
    /// Takes a batch of at most the size; gives one of the size, once there are so many rows.
    fn add(&self, batch: RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.size - parts.rows;
        if batch.num_rows() < wanted {
            parts.rows += batch.num_rows();
            parts.batches.push(batch);
            return Ok(None);
        }
        let rest = batch.slice(wanted, batch.num_rows() - wanted);
        let rows = rest.num_rows();
        let batches = Some(rest).filter(|_| rows > 0).into_iter().collect();
        let mut whole = std::mem::replace(&mut *parts, Parts { batches, rows }).batches;
        whole.push(batch.slice(0, wanted));
        join(whole).map(Some)
    }

    /// What is left at the end.
    fn rest(&self) -> Result<Option<RecordBatch>, ArrowError> {
        let parts = std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        Some(parts.batches).filter(|parts| !parts.is_empty()).map(join).transpose()
    }
}

/// One batch of several; a single one is not copied.
fn join(parts: Vec<RecordBatch>) -> Result<RecordBatch, ArrowError> {
    match <[RecordBatch; 1]>::try_from(parts) {
        Ok([one]) => Ok(one),
        Err(parts) => concat_batches(&schema(), &parts),
    }
}

/// The batches of a reader: an iterator, and an Arrow stream.
#[pyclass(frozen, module = "shoal")]
pub struct Batches {
    reader: Py<Reader>,
    /// `None`: batches of any size, as they come.
    gather: Option<Arc<Gather>>,
}

impl Batches {
    pub fn new(reader: Py<Reader>, size: Option<usize>) -> Batches {
        Batches { reader, gather: size.map(|size| Arc::new(Gather { size, parts: Mutex::default() })) }
    }
}

/// The batch that a chunk completes.
fn add(gather: Option<&Gather>, chunk: Chunk) -> Result<Option<RecordBatch>, ArrowError> {
    let batch = record_batch(chunk)?;
    match gather {
        Some(gather) => gather.add(batch),
        None => Ok(Some(batch)),
    }
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        slf.get().reader.get().begin_pass(py)?;
        Ok(slf)
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let (reader, gather) = (self.reader.get(), self.gather.as_deref());
        loop {
            let Some(chunk) = reader.next_chunk(py)? else {
                let gather = gather.filter(|_| !reader.is_closed());
                return match gather.map_or(Ok(None), Gather::rest).map_err(broken)? {
                    Some(rest) => Ok(Some(Batch(rest))),
                    None => reader.end(py).map(|()| None),
                };
            };
            // Joining copies the bytes.
            if let Some(batch) = py.detach(|| add(gather, chunk)).map_err(broken)? {
                return Ok(Some(Batch(batch)));
            }
        }
    }

    /// The type of the rows, as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py)
    }

    /// All batches that are still to come, as a capsule; taking from it needs no interpreter.
    #[pyo3(signature = (requested_schema=None))]
    pub fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = self.reader.get();
        reader.begin_pass(py)?;
        reader.check_streams(py)?;
        let stream = Stream { flow: reader.flow(py)?, gather: self.gather.clone() };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(stream)), c"arrow_array_stream")
    }
}

/// Takes batches on any thread of the consumer. It cannot check for signals there: the thread that holds the interpreter
/// may be waiting for it.
struct Stream {
    flow: Arc<Flow>,
    gather: Option<Arc<Gather>>,
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let gather = self.gather.as_deref();
        loop {
            let batch = match self.flow.wait() {
                Waited::Chunk(chunk) => add(gather, chunk),
                Waited::End => match gather.map_or(Ok(None), Gather::rest) {
                    Ok(None) => return self.flow.end_stream().map(|line| Err(ArrowError::ExternalError(line.into()))),
                    rest => rest,
                },
            };
            if let Some(batch) = batch.transpose() {
                return Some(batch);
            }
        }
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        schema()
    }
}
