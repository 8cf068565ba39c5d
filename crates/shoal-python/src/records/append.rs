//! `append_records`: bytes of whole records to the end of a file.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shoal_records::{AppendOptions, ErrorKind, append};

use super::format::RecordFormat;
use super::wait::TICK;
use crate::errors::records_error;

/// Longest wait for others that append: they need milliseconds, so that one who holds the lock for longer has lost it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Appends whole records. The place of the first new one, how many there are, and the bytes of half a record that were cut
/// off before.
#[pyfunction]
pub fn append_records(
    py: Python<'_>,
    path: PathBuf,
    records: &Bound<'_, PyBytes>,
    format: &Bound<'_, RecordFormat>,
    offset: u64,
    durable: bool,
) -> PyResult<(u64, u64, u64)> {
    let (rows, format) = (records.as_bytes(), format.get().format());
    let begun = Instant::now();
    loop {
        let options = AppendOptions { offset, durable, wait: TICK };
        match py.detach(|| append(&path, rows, format, options)) {
            Ok(done) => return Ok((done.first, done.records, done.cut)),
            // Nothing was written yet: between two looks for the lock there is time for one for signals.
            Err(error) if error.kind() == ErrorKind::Locked && begun.elapsed() < PATIENCE => py.check_signals()?,
            Err(error) => return Err(records_error(py, &error)),
        }
    }
}
