//! `Object`: a name and its bytes, as `shoal.read` hands them over.

use std::os::raw::c_int;
use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};
use shoal_engine::sink::deliver::{Buffer, Chunk};

use crate::report::name_text;

/// What an object may keep in memory besides twice its own size.
const PINNED_BESIDE: usize = 4 << 10;
/// Copied rather than shared up to this size: the copy costs less than a buffer that comes back late.
const SMALL: usize = 16 << 10;

/// An object of a source: its name, and its bytes through the buffer protocol.
#[pyclass(frozen, module = "shoal")]
pub struct Object {
    bytes: Bytes,
    offset: u64,
}

/// Small objects are copied out of the buffer they share with others, so that keeping one keeps nothing else.
enum Bytes {
    /// The name, then the data.
    Own { both: Box<[u8]>, name: usize },
    /// The data begins at `from`.
    Shared { name: Box<[u8]>, data: Arc<Buffer>, from: usize },
}

impl Object {
    /// Object `index` of a chunk.
    pub fn of(chunk: &Chunk, index: usize) -> Object {
        let (name, range) = (chunk.name(index), chunk.range(index));
        let alone = chunk.len() == 1 && chunk.data().capacity() <= 2 * range.len() + PINNED_BESIDE;
        let bytes = if alone && range.len() > SMALL {
            Bytes::Shared { name: name.into(), data: chunk.data().clone(), from: range.start }
        } else {
            let mut both = Vec::with_capacity(name.len() + range.len());
            both.extend_from_slice(name);
            both.extend_from_slice(&chunk.data()[range]);
            Bytes::Own { both: both.into_boxed_slice(), name: name.len() }
        };
        Object { bytes, offset: chunk.offset() }
    }

    fn raw_name(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Own { both, name } => &both[..*name],
            Bytes::Shared { name, .. } => name,
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Own { both, name } => &both[*name..],
            Bytes::Shared { data, from, .. } => &data[*from..],
        }
    }
}

#[pymethods]
impl Object {
    /// Its name; what is not text are surrogate escapes.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        name_text(py, self.raw_name())
    }

    /// Its bytes as a memoryview; nothing is copied.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    /// Its length in bytes.
    #[getter]
    fn size(&self) -> usize {
        self.bytes().len()
    }

    /// Where it begins in the whole, when that comes in pieces of `chunk_size`; else 0.
    #[getter]
    fn offset(&self) -> u64 {
        self.offset
    }

    fn __len__(&self) -> usize {
        self.bytes().len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.bytes())
    }

    /// A copy of its bytes.
    #[pyo3(name = "bytes")]
    fn copied<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.bytes())
    }

    /// Its bytes as text.
    #[pyo3(signature = (encoding="utf-8", errors="strict"))]
    fn text<'py>(&self, py: Python<'py>, encoding: &str, errors: &str) -> PyResult<Bound<'py, PyAny>> {
        self.copied(py).call_method1("decode", (encoding, errors))
    }

    /// Its bytes as JSON.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.copied(py),))
    }

    fn __repr__(&self) -> String {
        let name = shoal_engine::display::escape(self.raw_name());
        format!("Object(name=\"{name}\", size={})", self.bytes().len())
    }

    /// Lends the bytes, to be read only.
    ///
    /// # Safety
    /// Python calls it, with a `view` that it owns.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("an object's bytes are read-only"));
        }
        let bytes = slf.get().bytes();
        let (start, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: `view` comes from Python. The bytes never change and live as long as the object, of which the view holds
        // a reference; the view is read-only.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
