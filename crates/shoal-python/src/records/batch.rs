//! Batches of records, and tables that are held in memory: for Arrow through the PyCapsule interface, for NumPy as columns
//! whose bytes are not copied, and as plain tuples.

use std::os::raw::c_int;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch as Rows, RecordBatchIterator, make_array};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};

use crate::batches::{broken, capsule_of, capsules_of};

/// Rows that become Python's objects at once; more would take memory for nothing.
const ROWS: usize = 4096;

/// Records as an Arrow record batch.
#[pyclass(frozen, module = "shoal")]
pub struct RecordBatch(Rows);

impl RecordBatch {
    /// Of these rows.
    pub fn new(rows: Rows) -> Self {
        Self(rows)
    }
}

#[pymethods]
impl RecordBatch {
    /// How many records.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The columns' names, in order.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.schema().fields().iter().map(|field| field.name().as_str()))
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        let schema = self.0.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        format!("RecordBatch(num_rows={}, names={names:?})", self.0.num_rows())
    }

    /// One NumPy array for each column, in order, to be read only.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let numpy = py.import("numpy")?;
        let arrays: PyResult<Vec<_>> = self.0.columns().iter().map(|column| array(&numpy, column)).collect();
        PyTuple::new(py, arrays?)
    }

    /// Records as tuples: so many, from the one with this place on.
    #[pyo3(signature = (start=0, count=None))]
    fn rows<'py>(&self, py: Python<'py>, start: usize, count: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        let start = start.min(self.0.num_rows());
        let count = count.unwrap_or(usize::MAX).min(self.0.num_rows() - start);
        let rows = PyList::empty(py);
        for first in (start..start + count).step_by(ROWS) {
            let length = ROWS.min(start + count - first);
            let columns: PyResult<Vec<Vec<Bound<'py, PyAny>>>> =
                self.0.columns().iter().map(|column| objects(py, &column.slice(first, length))).collect();
            let mut columns: Vec<_> = columns?.into_iter().map(Vec::into_iter).collect();
            for _ in 0..length {
                rows.append(PyTuple::new(py, columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())?)?;
            }
        }
        Ok(rows)
    }

    /// The type of its rows, as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule_of(py, &self.0.schema())
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

/// Batches held in memory.
#[pyclass(frozen, module = "shoal._shoal")]
pub struct RecordTable {
    schema: SchemaRef,
    batches: Vec<Rows>,
}

impl RecordTable {
    /// Of these batches.
    pub fn new(schema: SchemaRef, batches: Vec<Rows>) -> Self {
        Self { schema, batches }
    }

    /// The groups of a batch, which begins with their keys: of the aggregates behind it those at these places, under these
    /// names.
    pub fn of_groups<'a>(
        groups: &Rows,
        places: &[usize],
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let schema = groups.schema();
        let mut fields = vec![schema.field(0).clone()];
        let mut columns = vec![groups.column(0).clone()];
        for (place, name) in places.iter().zip(names) {
            if fields.iter().any(|field: &Field| field.name() == name) {
                return Err(format!("two columns are called {name:?}"));
            }
            let column = groups.column(place + 1);
            fields.push(Field::new(name, column.data_type().clone(), false));
            columns.push(column.clone());
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = Rows::try_new(schema.clone(), columns).map_err(|error| error.to_string())?;
        Ok(Self { schema, batches: vec![batch] })
    }
}

#[pymethods]
impl RecordTable {
    fn __len__(&self) -> usize {
        self.batches.iter().map(Rows::num_rows).sum()
    }

    /// The columns' names, in order.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.schema.fields().iter().map(|field| field.name().as_str()))
    }

    /// The batches.
    #[getter]
    fn batches(&self) -> Vec<RecordBatch> {
        self.batches.iter().cloned().map(RecordBatch).collect()
    }

    /// The type of its rows, as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule_of(py, &self.schema)
    }

    /// All batches, as a capsule; nothing is copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches: Vec<Result<Rows, ArrowError>> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }
}

/// Lends the bytes of a column to NumPy.
#[pyclass(frozen, module = "shoal._shoal")]
struct ColumnBytes(Buffer);

#[pymethods]
impl ColumnBytes {
    /// Lends the bytes, to be read only.
    ///
    /// # Safety
    /// Python calls it, with a `view` that it owns.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("a column of records is read-only"));
        }
        let bytes = slf.get().0.as_slice();
        let (start, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: `view` comes from Python. The bytes never change and live as long as the object, of which the view holds
        // a reference; the view is read-only.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// A column in the type that it is stored as: dates and times are integers.
fn plain(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let stored = match column.data_type() {
        DataType::Date32 | DataType::Time32(_) => DataType::Int32,
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => DataType::Int64,
        _ => return Ok(column.clone()),
    };
    Ok(make_array(column.to_data().into_builder().data_type(stored).build()?))
}

fn unknown(column: &ArrayRef) -> PyErr {
    broken(ArrowError::NotYetImplemented(format!("a column of {} as Python's values", column.data_type())))
}

/// A column as a NumPy array. The bytes are not copied, except those of truth values, which Arrow packs.
fn array<'py>(numpy: &Bound<'py, PyModule>, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let py = numpy.py();
    let column = plain(column).map_err(broken)?;
    macro_rules! numbers {
        ($arrow:ty, $dtype:literal) => {
            (column.as_primitive::<$arrow>().values().inner().clone(), $dtype.to_owned())
        };
    }
    let (bytes, dtype) = match column.data_type() {
        DataType::Boolean => {
            let values: Vec<u8> = column.as_boolean().values().iter().map(u8::from).collect();
            (Buffer::from_vec(values), "?".to_owned())
        }
        DataType::UInt8 => numbers!(UInt8Type, "u1"),
        DataType::UInt16 => numbers!(UInt16Type, "u2"),
        DataType::UInt32 => numbers!(UInt32Type, "u4"),
        DataType::UInt64 => numbers!(UInt64Type, "u8"),
        DataType::Int8 => numbers!(Int8Type, "i1"),
        DataType::Int16 => numbers!(Int16Type, "i2"),
        DataType::Int32 => numbers!(Int32Type, "i4"),
        DataType::Int64 => numbers!(Int64Type, "i8"),
        DataType::Float16 => numbers!(Float16Type, "f2"),
        DataType::Float32 => numbers!(Float32Type, "f4"),
        DataType::Float64 => numbers!(Float64Type, "f8"),
        DataType::FixedSizeBinary(length) => (column.as_fixed_size_binary().values().clone(), format!("S{length}")),
        // Sums that 64 bits do not hold: exact, as Python's own integers.
        DataType::Decimal128(..) => {
            return numpy.call_method1("array", (objects(py, &column)?, "O"));
        }
        _ => return Err(unknown(&column)),
    };
    if bytes.is_empty() {
        return numpy.call_method1("empty", (0, dtype));
    }
    let bytes = Bound::new(py, ColumnBytes(bytes))?;
    numpy.call_method1("frombuffer", (bytes, dtype))
}

/// A column as Python's objects.
fn objects<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let column = plain(column).map_err(broken)?;
    macro_rules! numbers {
        ($arrow:ty) => {
            column.as_primitive::<$arrow>().values().iter().map(|value| value.into_bound_py_any(py)).collect()
        };
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().values().iter().map(|value| value.into_bound_py_any(py)).collect(),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::Decimal128(..) => numbers!(Decimal128Type),
        DataType::Float16 => {
            let values = column.as_primitive::<Float16Type>().values();
            values.iter().map(|value| value.to_f64().into_bound_py_any(py)).collect()
        }
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::FixedSizeBinary(_) => {
            let values = column.as_fixed_size_binary();
            Ok(values.iter().flatten().map(|value| PyBytes::new(py, value).into_any()).collect())
        }
        _ => Err(unknown(&column)),
    }
}
