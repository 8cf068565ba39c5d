//! `RecordFormat`: what a record is made of, from what Python has for it, and rows as records.

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_schema::Schema;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyCapsule};
use shoal_records::Format;

use super::decode;
use crate::batches::capsule_of;
use crate::errors::{config_error, records_error};
use crate::table::Table;

/// What one record is made of.
#[pyclass(frozen, module = "shoal._shoal")]
pub struct RecordFormat(Format);

impl RecordFormat {
    /// The same for the engine.
    pub fn format(&self) -> &Format {
        &self.0
    }
}

#[pymethods]
impl RecordFormat {
    /// From a string of `struct`.
    #[staticmethod]
    fn from_struct(py: Python<'_>, text: &str, names: Option<Vec<String>>) -> PyResult<Self> {
        Format::from_struct(text, names.as_deref()).map(Self).map_err(|error| records_error(py, &error))
    }

    /// From the fields of a NumPy dtype: name, type and offset of each; and its item size.
    #[staticmethod]
    fn from_numpy(py: Python<'_>, fields: Vec<(String, String, usize)>, size: usize) -> PyResult<Self> {
        Format::from_numpy(&fields, size).map(Self).map_err(|error| records_error(py, &error))
    }

    /// From what has an Arrow schema.
    #[staticmethod]
    fn from_arrow(py: Python<'_>, schema: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = schema.call_method0("__arrow_c_schema__")?;
        let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
        // SAFETY: a capsule of this name holds this struct, which is only read while the capsule lives.
        let schema = unsafe { &*pointer.as_ptr().cast::<FFI_ArrowSchema>() };
        let schema = Schema::try_from(schema).map_err(|error| config_error(py, &format!("format: {error}"), None))?;
        Format::from_schema(&schema).map(Self).map_err(|error| records_error(py, &error))
    }

    /// The fields' names, in order.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.fields().iter().map(|field| field.name.as_str()).collect()
    }

    /// Bytes of a record.
    #[getter]
    fn record_size(&self) -> usize {
        self.0.size()
    }

    /// The fields as NumPy has them: name, type and offset of each.
    #[getter]
    fn numpy(&self) -> Vec<(&str, String, usize)> {
        self.0.fields().iter().map(|field| (field.name.as_str(), field.numpy(), field.offset)).collect()
    }

    /// The schema of the columns, as a capsule.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule_of(py, &self.0.schema())
    }

    /// Rows of values as the bytes of records.
    fn encode_rows<'py>(&self, py: Python<'py>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let mut records = Vec::new();
        for (at, row) in rows.try_iter()?.enumerate() {
            decode::encode(&self.0, &row?, &mut records).map_err(|error| at_row(py, at, error))?;
        }
        Ok(PyBytes::new(py, &records))
    }

    /// An Arrow table as the bytes of records.
    fn encode_arrow<'py>(&self, py: Python<'py>, table: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let wrong = |why: &str| config_error(py, &format!("rows: {why}"), None);
        let table = Table::import(table)?.ok_or_else(|| wrong("not an Arrow table"))?.map_err(|why| wrong(&why))?;
        let records = py.detach(|| {
            let mut records = Vec::new();
            for batch in table.rows() {
                self.0.encode(batch, &mut records).map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(records)
        });
        Ok(PyBytes::new(py, &records.map_err(|why| wrong(&why))?))
    }

    fn __repr__(&self) -> String {
        format!("RecordFormat({} fields, {} bytes)", self.0.fields().len(), self.0.size())
    }
}

/// What a row cannot hold is a wrong argument; what iterating raises is not ours.
fn at_row(py: Python<'_>, at: usize, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyOverflowError>(py) {
        let why = format!("row {at} (counted from 0): {}", error.value(py));
        let raised = config_error(py, &why, None);
        raised.set_cause(py, Some(error));
        return raised;
    }
    error
}
