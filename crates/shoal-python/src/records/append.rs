//! `append_records`: bytes of whole records to the end of a file. `recover_records`: what an interrupted append has left.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shoal_records::{AppendOptions, ErrorKind, Result, append, recover};

use super::format::RecordFormat;
use super::wait::TICK;
use crate::errors::records_error;

/// Longest wait for the lock: an append needs milliseconds, so a program that holds it for longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The hint if a file ends within a record; that of a reader differs.
const CUT_HINT: &str = "check the end of the file first; tail=\"cut\" truncates the file after the last whole record";

/// Appends whole records. How many there are, the place of the first new one, and the bytes that were cut off before.
#[pyfunction]
pub fn append_records(
    py: Python<'_>,
    path: PathBuf,
    records: &Bound<'_, PyBytes>,
    format: &Bound<'_, RecordFormat>,
    offset: u64,
    durable: bool,
    cut: bool,
) -> PyResult<(u64, u64, u64)> {
    let (rows, format) = (records.as_bytes(), format.get().format());
    let options = AppendOptions { offset, durable, wait: TICK, cut };
    let done = locked(py, || append(&path, rows, format, options))?;
    Ok((done.records, done.first, done.cut))
}

/// Keeps or cuts off what an append that was interrupted has left. How many bytes were cut off.
#[pyfunction]
pub fn recover_records(py: Python<'_>, path: PathBuf, keep: bool) -> PyResult<u64> {
    locked(py, || recover(&path, keep, TICK))
}

/// Does what needs the file's lock.
fn locked<T: Send>(py: Python<'_>, work: impl Fn() -> Result<T> + Sync) -> PyResult<T> {
    let begun = Instant::now();
    loop {
        match py.detach(&work) {
            Ok(done) => return Ok(done),
            // Nothing was written yet: between two looks for the lock there is time for one for signals.
            Err(error) if error.kind() == ErrorKind::Locked && begun.elapsed() < PATIENCE => py.check_signals()?,
            Err(error) => {
                let told = records_error(py, &error);
                if error.kind() == ErrorKind::Torn {
                    told.value(py).setattr("hint", CUT_HINT)?;
                }
                return Err(told);
            }
        }
    }
}
