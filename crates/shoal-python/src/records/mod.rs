//! Flat files of fixed-size records, as `shoal.Records` sees them.
//!
//! Here: the files ([`RecordFiles`]) and what is asked of them. What a record is made of is in `format.rs`, the loops in
//! `iterate.rs`, batches and columns in `scan.rs` and `batch.rs`, writing in `append.rs`. Not here: what an argument may be
//! and what it is when it is not given (the package's `_records.py`), and everything about records (the crate
//! `shoal-records`).

mod append;
mod batch;
mod decode;
mod format;
mod iterate;
mod scan;
mod wait;
mod write;

use std::path::PathBuf;

use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use shoal_records::{Aggregate, Error, Expression, Function, OpenOptions, Pool, Query, Records, Tail, Value};

use crate::errors::{config_error, records_error};
use crate::report::name_text;

pub use append::{append_records, recover_records};
pub use batch::{RecordBatch, RecordTable};
pub use format::RecordFormat;
pub use scan::{RecordBatches, RecordScan};

use iterate::Give;

/// Up to so many bytes a thread to look for signals from costs more than the work itself.
const SMALL: u64 = 4 << 20;

/// Records of one format, in one file or in many; or a range of such.
#[pyclass(frozen, module = "shoal._shoal")]
pub struct RecordFiles {
    records: Records,
}

/// What an aggregate is: its function, its field, and how it is called in the result.
type Asked = (String, Option<String>, String);

#[pymethods]
impl RecordFiles {
    /// Opens files; `shoal.Records` calls it.
    #[new]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        format: Bound<'_, RecordFormat>,
        offset: u64,
        drop_tail: bool,
    ) -> PyResult<Self> {
        let tail = if drop_tail { Tail::Drop } else { Tail::Error };
        let format = format.get().format().clone();
        let opened = py.detach(|| Records::open(&paths, format, OpenOptions { offset, tail }));
        Ok(Self { records: opened.map_err(|error| records_error(py, &error))? })
    }

    /// How many records each file has.
    #[getter]
    fn counts(&self) -> Vec<u64> {
        self.records.counts().collect()
    }

    fn __len__(&self) -> usize {
        self.records.len() as usize
    }

    /// The first of these records and the one behind the last, counted in all files.
    #[getter]
    fn range(&self) -> (u64, u64) {
        let range = self.records.range();
        (range.start, range.end)
    }

    /// The files, in order.
    #[getter]
    fn paths<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyString>>> {
        self.records.paths().map(|path| name_text(py, path.as_os_str().as_encoded_bytes())).collect()
    }

    /// The record with this place.
    fn get<'py>(&self, py: Python<'py>, at: u64) -> PyResult<Bound<'py, PyTuple>> {
        let mut record = vec![0; self.records.format().size()];
        let read = py.detach(|| self.records.read_at(at, &mut record));
        read.map_err(|error| records_error(py, &error))?;
        decode::Decoder::new(self.records.format()).tuple(py, &record)
    }

    /// Some of these records.
    fn slice(&self, start: u64, stop: u64) -> Self {
        Self { records: self.records.slice(start..stop) }
    }

    /// The table of the first so many records of each file; each must have them.
    fn first_of_each(&self, counts: Vec<u64>) -> Self {
        Self { records: self.records.first_of_each(&counts) }
    }

    /// The same with what was appended meanwhile.
    fn refresh(&self, py: Python<'_>) -> PyResult<Self> {
        let found = py.detach(|| self.records.refresh());
        Ok(Self { records: found.map_err(|error| records_error(py, &error))? })
    }

    /// An iterator over tuples.
    fn tuples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        iterate::iterate(py, &self.records, Give::Tuples)
    }

    /// An iterator over bytes.
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        iterate::iterate(py, &self.records, Give::Bytes)
    }

    /// Reads all records into memory that is exactly as long, with all workers.
    fn read_into(&self, py: Python<'_>, memory: &Bound<'_, PyAny>, workers: Option<usize>) -> PyResult<()> {
        let buffer = PyUntypedBuffer::get(memory)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer to read into is not contiguous, or is read-only"));
        }
        // An address, which unlike a pointer may go to another thread.
        let (start, length) = (buffer.buf_ptr() as usize, buffer.len_bytes());
        let pool = Pool::new(workers);
        self.work(py, &pool, || {
            let memory: &mut [u8] = match length {
                0 => &mut [],
                // SAFETY: the buffer is held until this call ends, so the memory stays where it is; it is writable and in one
                // piece. The package has just created it and does not share it.
                _ => unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length) },
            };
            self.records.read_into(memory, &pool)
        })
    }

    /// A plan for batches of some records; nothing is read yet.
    fn scan(
        &self,
        py: Python<'_>,
        condition: Option<&str>,
        columns: Option<Vec<String>>,
        limit: Option<u64>,
        batch: Option<u64>,
        workers: Option<usize>,
    ) -> PyResult<RecordScan> {
        let condition = expression(py, condition)?;
        let options = shoal_records::ScanOptions { condition, columns, limit, batch };
        RecordScan::new(py, self.records.clone(), options, workers)
    }

    /// Aggregates of all records, or of those for which a condition holds, in order.
    fn aggregate<'py>(
        &self,
        py: Python<'py>,
        aggregates: Vec<Asked>,
        condition: Option<&str>,
        workers: Option<usize>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (query, places) = self.query(py, &aggregates, condition)?;
        let pool = Pool::new(workers);
        let values = self.work(py, &pool, || self.records.aggregate(&query, &pool))?;
        let object = |at: usize| match values[at] {
            Value::None => Ok(py.None().into_bound(py)),
            Value::Integer(value) => value.into_bound_py_any(py),
            Value::Float(value) => value.into_bound_py_any(py),
        };
        places.into_iter().map(object).collect()
    }

    /// Aggregates for each value of an integer field: a table of the keys in order and a column for each aggregate.
    fn aggregate_by(
        &self,
        py: Python<'_>,
        by: &str,
        aggregates: Vec<Asked>,
        condition: Option<&str>,
        workers: Option<usize>,
    ) -> PyResult<RecordTable> {
        let (query, places) = self.query(py, &aggregates, condition)?;
        let pool = Pool::new(workers);
        let batch = self.work(py, &pool, || self.records.aggregate_by(by, &query, &pool)?.to_batch())?;
        let names = aggregates.iter().map(|(_, _, name)| name.as_str());
        RecordTable::of_groups(&batch, &places, names).map_err(|why| config_error(py, &why, None))
    }

    fn __repr__(&self) -> String {
        format!("RecordFiles({} records of {} bytes)", self.records.len(), self.records.format().size())
    }
}

impl RecordFiles {
    /// Does work without the interpreter; what takes long looks for signals meanwhile.
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        pool: &Pool,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let bytes = self.records.len().saturating_mul(self.records.format().size() as u64);
        let done = if bytes <= SMALL { py.detach(work) } else { wait::run(py, || pool.cancel(), |_| Ok(()), work)? };
        done.map_err(|error| records_error(py, &error))
    }

    /// What to compute, each aggregate once; and for each one asked for, its place among them.
    fn query(&self, py: Python<'_>, asked: &[Asked], condition: Option<&str>) -> PyResult<(Query, Vec<usize>)> {
        let mut aggregates: Vec<Aggregate> = Vec::new();
        let mut places = Vec::with_capacity(asked.len());
        for (function, field, _) in asked {
            let aggregate = aggregate(py, function, field.as_deref())?;
            let at = aggregates.iter().position(|other| *other == aggregate).unwrap_or_else(|| {
                aggregates.push(aggregate);
                aggregates.len() - 1
            });
            places.push(at);
        }
        let condition = expression(py, condition)?;
        Ok((Query { aggregates, condition, ..Query::default() }, places))
    }
}

fn aggregate(py: Python<'_>, function: &str, field: Option<&str>) -> PyResult<Aggregate> {
    let function = match (function, field) {
        ("count", _) => return Ok(Aggregate::count()),
        ("sum", _) => Function::Sum,
        ("min", _) => Function::Min,
        ("max", _) => Function::Max,
        ("mean", _) => Function::Mean,
        (other, _) => {
            let why = format!("unknown aggregate {other:?}: use count, sum, min, max or mean");
            return Err(config_error(py, &why, None));
        }
    };
    let nothing = || config_error(py, "the aggregate needs a field, as in sum(len)", None);
    field.map(|field| Aggregate::of(function, field)).ok_or_else(nothing)
}

fn expression(py: Python<'_>, text: Option<&str>) -> PyResult<Option<Expression>> {
    text.map(Expression::parse).transpose().map_err(|error| records_error(py, &error))
}
