//! `verify_dataset`: the check of Parquet files of objects, as `copy` runs: the caller's thread waits without the
//! interpreter, and looks for signals.

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use shoal_engine::{Counts, Progress};
use shoal_parquet::verify::{RowPlace, Verified, VerifyOptions, VerifyProgress, verify};

use crate::errors::run_error;
use crate::report::name_text;
use crate::transfer::Watch;

/// Checks all Parquet files of a directory. Without `workers`, as many threads as there are cores.
#[pyfunction]
pub fn verify_dataset<'py>(
    py: Python<'py>,
    directory: OsString,
    workers: Option<usize>,
    nice: bool,
    memory: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut options = VerifyOptions { nice, memory, ..VerifyOptions::default() };
    options.workers = workers.unwrap_or(if nice { options.workers.div_ceil(2) } else { options.workers });
    let (began, threads) = (Instant::now(), options.workers);
    let mut watch = Watch::new(py, progress)?;
    let verified = py.detach(|| {
        let verified =
            verify(Path::new(&directory), &options, &mut |now| watch.look(&as_of_a_run(now, threads, began)));
        watch.ended();
        verified
    });
    let raised = watch.leave(py);
    match (raised, verified) {
        (Some(raised), _) => Err(raised),
        (None, Err(error)) => Err(run_error(py, &error)),
        (None, Ok(verified)) => fields(py, &verified, began),
    }
}

/// The progress of a run that has come as far.
fn as_of_a_run(now: &VerifyProgress, threads: usize, began: Instant) -> Progress {
    let run = Counts { listed: now.objects, written: now.objects, bytes: now.bytes, ..Counts::default() };
    Progress { run, in_flight: threads, workers: threads, elapsed: began.elapsed(), ..Progress::default() }
}

fn fields<'py>(py: Python<'py>, verified: &Verified, began: Instant) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("ok", verified.is_good())?;
    fields.set_item("files", verified.files)?;
    fields.set_item("objects", verified.objects)?;
    fields.set_item("bytes", verified.bytes)?;
    fields.set_item("without_checksums", verified.without_checksums)?;
    fields.set_item("duplicates", verified.duplicates)?;
    let place = |place: &RowPlace| -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("file", &place.file)?;
        fields.set_item("row", place.row)?;
        Ok(fields)
    };
    let examples = PyList::empty(py);
    for one in &verified.examples {
        let fields = PyDict::new(py);
        fields.set_item("name", name_text(py, &one.name)?)?;
        fields.set_item("first", place(&one.first)?)?;
        fields.set_item("second", place(&one.second)?)?;
        examples.append(fields)?;
    }
    fields.set_item("examples", examples)?;
    let damaged = PyList::empty(py);
    for one in &verified.damaged {
        let fields = PyDict::new(py);
        fields.set_item("file", &one.file)?;
        fields.set_item("reason", &one.reason)?;
        fields.set_item("faults", one.faults)?;
        damaged.append(fields)?;
    }
    fields.set_item("damaged", damaged)?;
    fields.set_item("notes", &verified.notes)?;
    fields.set_item("seconds", began.elapsed().as_secs_f64())?;
    Ok(fields)
}
