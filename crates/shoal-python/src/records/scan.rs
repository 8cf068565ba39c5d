//! Scans: a plan (`RecordScan`) that can be run any number of times, its batches as an iterator (`RecordBatches`), as an
//! Arrow stream, or all at once (`RecordTable`).
//!
//! Workers are threads without the interpreter. Taking a batch waits without it too, 50 ms at a time, and checks for
//! signals in between. A consumer of the stream may be on any thread, where signals are not checked.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch as Rows, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use shoal_records::{Error, Pool, Records, Scan, ScanOptions};

use super::batch::{RecordBatch, RecordTable};
use super::wait::TICK;
use super::write::{self, Target};
use crate::batches::capsule_of;
use crate::errors::records_error;
use crate::fork::Owner;

/// What is to be read, and how.
#[pyclass(frozen, module = "shoal._shoal")]
pub struct RecordScan {
    records: Records,
    options: ScanOptions,
    workers: Option<usize>,
    schema: SchemaRef,
}

impl RecordScan {
    /// A plan; what is wrong with it is told now, and nothing is read yet.
    pub fn new(py: Python<'_>, records: Records, options: ScanOptions, workers: Option<usize>) -> PyResult<Self> {
        // A scan of no records starts no threads and reads nothing.
        let tried = records.slice(0..0).scan(&options, &Pool::new(Some(1)));
        let schema = tried.map_err(|error| records_error(py, &error))?.schema();
        Ok(Self { records, options, workers, schema })
    }

    fn begin(&self, py: Python<'_>) -> PyResult<Running> {
        let scan = self.records.scan(&self.options, &Pool::new(self.workers));
        scan.map(Running::new).map_err(|error| records_error(py, &error))
    }
}

#[pymethods]
impl RecordScan {
    /// Returns a new iterator over the batches.
    fn __iter__(&self, py: Python<'_>) -> PyResult<RecordBatches> {
        Ok(RecordBatches { owner: Owner::here(), running: Mutex::new(self.begin(py)?) })
    }

    /// All batches, held in memory.
    fn collect(&self, py: Python<'_>) -> PyResult<RecordTable> {
        let mut running = self.begin(py)?;
        let mut batches = Vec::new();
        while let Some(batch) = running.next(py)? {
            batches.push(batch);
        }
        Ok(RecordTable::new(self.schema.clone(), batches))
    }

    /// Writes all of it to a table file; how many records and bytes there were. `progress` is called with both meanwhile.
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: Option<String>,
        compression: Option<String>,
        durable: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64)> {
        let target = Target { path, format, compression, durable, workers: self.workers };
        write::write(py, &self.records, &self.options, &target, progress.as_ref())
    }

    /// The columns' names.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The type of the rows, as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule_of(py, &self.schema)
    }

    /// Returns all batches as a new stream capsule; reading it does not need the interpreter.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let stream = Stream { running: self.begin(py)?, schema: self.schema.clone() };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(stream)), c"arrow_array_stream")
    }
}

/// A scan under way, with threads of its own: in a forked child it cannot continue, and is leaked instead of joined.
struct Running {
    scan: Option<Scan>,
    owner: Owner,
}

impl Running {
    fn new(scan: Scan) -> Self {
        Self { scan: Some(scan), owner: Owner::here() }
    }

    /// The next batch, or none at the end.
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Rows>> {
        loop {
            self.owner.check("this scan")?;
            // Also if batches arrive without waiting: a consumer in C does not check for signals.
            py.check_signals()?;
            let Some(scan) = &mut self.scan else { return Ok(None) };
            match py.detach(|| scan.next_within(TICK)) {
                None => return Ok(None),
                Some(Err(error)) => return Err(records_error(py, &error)),
                Some(Ok(Some(batch))) => return Ok(Some(batch)),
                Some(Ok(None)) => {}
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            std::mem::forget(self.scan.take());
        }
    }
}

/// The batches of a scan, as an iterator. Several threads may take from it.
#[pyclass(frozen, module = "shoal._shoal")]
pub struct RecordBatches {
    owner: Owner,
    running: Mutex<Running>,
}

#[pymethods]
impl RecordBatches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        // Before the lock: one that another thread held while this process forked is held for ever.
        self.owner.check("this scan")?;
        loop {
            // Loops of the interpreter's own, such as `list(batches)`, do not look by themselves.
            py.check_signals()?;
            // The lock is held only while the interpreter is not, so that a thread that has the one never waits for the other.
            let taken = py.detach(|| {
                let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                running.scan.as_mut().and_then(|scan| scan.next_within(TICK))
            });
            match taken {
                None => return Ok(None),
                Some(Err(error)) => return Err(records_error(py, &error)),
                Some(Ok(Some(batch))) => return Ok(Some(RecordBatch::new(batch))),
                Some(Ok(None)) => {}
            }
        }
    }
}

/// The batches of a scan as an Arrow stream.
struct Stream {
    running: Running,
    schema: SchemaRef,
}

impl Iterator for Stream {
    type Item = Result<Rows, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.running.owner.is_here() {
            let why = "this scan belongs to another process, and has no threads in this forked child";
            return Some(Err(ArrowError::InvalidArgumentError(why.to_owned())));
        }
        let batch = self.running.scan.as_mut()?.next()?;
        // A consumer shows the text of the error, which begins with the kind unless it is unwrapped.
        Some(batch.map_err(|error| match error {
            ArrowError::ExternalError(inner) if inner.is::<Error>() => {
                ArrowError::IoError(inner.to_string(), std::io::Error::other(inner.to_string()))
            }
            other => other,
        }))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
