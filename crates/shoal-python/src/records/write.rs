//! Chosen records to a table file: `RecordScan.write`.
//!
//! A thread without the interpreter reads, encodes (both with workers of their own) and writes; the caller's thread looks for
//! signals and calls the progress function. The file is put in place when it is whole (`shoal_engine::fs::publish`). Not
//! here: formats (the crate `shoal-encode`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arrow_schema::ArrowError;
use pyo3::prelude::*;
use shoal_encode::{Codec, ErrorKind, Format, TableOptions, Written, write_table};
use shoal_engine::fs::publish::{Failed, publish};
use shoal_records::{Error, Pool, Records, ScanOptions};

use super::wait;
use crate::errors::{config_error, records_error, run_error};

/// 100 ms: ten times a second is as fast as a person reads.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Where and how.
pub struct Target {
    pub path: PathBuf,
    pub format: Option<String>,
    pub compression: Option<String>,
    pub durable: bool,
    pub workers: Option<usize>,
}

impl Target {
    fn format(&self, py: Python<'_>) -> PyResult<Format> {
        let known = || {
            let endings: Vec<&str> = Format::ENDINGS.iter().map(|(ending, _)| *ending).collect();
            endings.join(", ")
        };
        match &self.format {
            Some(word) => {
                let found = Format::ENDINGS.iter().find(|(ending, _)| ending == word).map(|(_, format)| *format);
                let why = || config_error(py, &format!("unknown format {word:?}: use one of {}", known()), None);
                found.ok_or_else(why)
            }
            None => {
                let why = || {
                    let why = format!("{:?} does not end in a known suffix: {}", self.path, known());
                    config_error(py, &why, Some("pass the format"))
                };
                Format::of_name(self.path.as_os_str().as_encoded_bytes()).ok_or_else(why)
            }
        }
    }

    fn options(&self, py: Python<'_>) -> PyResult<TableOptions> {
        let compression = match self.compression.as_deref() {
            None => None,
            Some("none") => Some(Codec::None),
            Some("snappy") => Some(Codec::Snappy),
            Some("zstd") => Some(Codec::Zstd),
            Some(other) => {
                let why = format!("unknown compression {other:?}: use none, snappy or zstd");
                return Err(config_error(py, &why, None));
            }
        };
        Ok(TableOptions { compression, workers: self.workers, ..TableOptions::default() })
    }
}

/// What the writing thread tells.
#[derive(Default)]
struct Told {
    rows: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
}

/// Writes them; how many rows and bytes there were.
pub fn write(
    py: Python<'_>,
    records: &Records,
    scan: &ScanOptions,
    target: &Target,
    progress: Option<&Py<PyAny>>,
) -> PyResult<(u64, u64)> {
    let (format, options) = (target.format(py)?, target.options(py)?);
    let pool = Pool::new(target.workers);
    let mut reader = records.scan(scan, &pool).map_err(|error| records_error(py, &error))?;
    let told = Told::default();
    let mut watch = |written: Written| {
        told.rows.store(written.rows, Relaxed);
        told.bytes.store(written.bytes, Relaxed);
        !told.stop.load(Relaxed)
    };
    let mut called = Instant::now();
    let look = |py: Python<'_>| {
        let Some(function) = progress.filter(|_| called.elapsed() >= PROGRESS_EVERY) else { return Ok(()) };
        called = Instant::now();
        function.call1(py, (told.rows.load(Relaxed), told.bytes.load(Relaxed))).map(drop)
    };
    let stop = || {
        told.stop.store(true, Relaxed);
        pool.cancel();
    };
    let work =
        || publish(&target.path, target.durable, |out| write_table(&mut reader, format, &options, out, &mut watch));
    match wait::run(py, stop, look, work)? {
        Ok(written) => Ok((written.rows, written.bytes)),
        Err(Failed::File(error)) => Err(run_error(py, &error)),
        Err(Failed::Filling(error)) => Err(filling(py, &error)),
    }
}

/// The exception for what ended the encoder, which may be what ended its reader.
fn filling(py: Python<'_>, error: &shoal_encode::Error) -> PyErr {
    if let Some(ArrowError::ExternalError(inner)) = error.reader()
        && let Some(inner) = inner.downcast_ref::<Error>()
    {
        return records_error(py, inner);
    }
    let kind = match error.kind() {
        ErrorKind::Unsupported | ErrorKind::Invalid => shoal_engine::Kind::Config,
        ErrorKind::Cancelled => shoal_engine::Kind::Interrupted,
        ErrorKind::Write => shoal_engine::Kind::DestinationFailed,
        _ => shoal_engine::Kind::Internal,
    };
    let line = shoal_engine::display::escape(error.to_string().as_bytes()).to_string();
    run_error(py, &shoal_engine::Error::new(kind, line))
}
