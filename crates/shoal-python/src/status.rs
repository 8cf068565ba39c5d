//! `status` and `each_failure`: what a journal says, read from outside while a run may be going on.

use std::path::PathBuf;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shoal_engine::Failure;
use shoal_engine::error::Error;
use shoal_engine::journal::{self, Fate, RunStatus, Sample, Status};

use crate::errors::run_error;
use crate::report::{counts, failures, moment, value};

/// Failures handed to Python at once, so that a journal of millions needs no memory for them.
const BATCH: usize = 256;

/// What the journal of a destination says, with the first `shown` failures of each run.
#[pyfunction]
#[pyo3(signature = (path, shown))]
pub fn status(py: Python<'_>, path: PathBuf, shown: usize) -> PyResult<Bound<'_, PyAny>> {
    let read = || -> Result<(Status, Vec<Vec<Failure>>), Error> {
        let status = journal::status(&path)?;
        let failed = status
            .runs
            .iter()
            .map(|run| status.failures(run, Fate::Failed, shown).collect())
            .collect::<Result<_, _>>()?;
        Ok((status, failed))
    };
    let (status, failed) = py.detach(read).map_err(|error| run_error(py, &error))?;
    let runs: Vec<_> =
        status.runs.iter().zip(&failed).map(|(run, failed)| run_value(py, run, failed)).collect::<PyResult<_>>()?;
    let fields = PyDict::new(py);
    fields.set_item("path", path.as_os_str())?;
    fields.set_item("runs", PyTuple::new(py, runs)?)?;
    fields.set_item("owner", None::<()>)?;
    if let Some(owner) = &status.owner {
        let of = PyDict::new(py);
        of.set_item("pid", owner.pid)?;
        of.set_item("host", &owner.host)?;
        of.set_item("since", moment(py, owner.since as f64)?)?;
        fields.set_item("owner", value(py, "Owner", of)?)?;
    }
    value(py, "Status", fields)
}

/// Calls a function with the failures of a run, a list of some hundred at a time. Signals are looked at in between.
#[pyfunction]
pub fn each_failure(py: Python<'_>, path: PathBuf, run: usize, function: Bound<'_, PyAny>) -> PyResult<()> {
    let raised = |error: Error| run_error(py, &error);
    let status = journal::status(&path).map_err(raised)?;
    let of = status.runs.get(run).ok_or_else(|| PyIndexError::new_err("the journal has no such run"))?;
    let mut all = status.failures(of, Fate::Failed, usize::MAX);
    loop {
        let batch: Vec<Failure> = all.by_ref().take(BATCH).collect::<Result<_, _>>().map_err(raised)?;
        if batch.is_empty() {
            return Ok(());
        }
        py.check_signals()?;
        function.call1((failures(py, &batch)?,))?;
    }
}

fn run_value<'py>(py: Python<'py>, run: &RunStatus, failed: &[Failure]) -> PyResult<Bound<'py, PyAny>> {
    let at = |seconds: u64| moment(py, seconds as f64);
    let options = PyDict::new(py);
    for (name, value) in &run.options {
        options.set_item(name, value)?;
    }
    let samples: Vec<_> = run.samples.iter().map(|sample| sample_value(py, sample)).collect::<PyResult<_>>()?;
    let fields = PyDict::new(py);
    fields.set_item("source", &run.source)?;
    fields.set_item("options", options)?;
    fields.set_item("started", at(run.started)?)?;
    fields.set_item("sessions", run.sessions)?;
    fields.set_item("completed", run.completed_at.map(at).transpose()?)?;
    fields.set_item("total", counts(py, &run.totals)?)?;
    fields.set_item("deferred", run.deferred)?;
    fields.set_item("until_reboot", run.until_reboot)?;
    fields.set_item("failures", failures(py, failed)?)?;
    fields.set_item("samples", PyTuple::new(py, samples)?)?;
    value(py, "RunStatus", fields)
}

fn sample_value<'py>(py: Python<'py>, sample: &Sample) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("at", moment(py, sample.at_ms as f64 / 1000.0)?)?;
    fields.set_item("objects", sample.objects)?;
    fields.set_item("bytes", sample.bytes)?;
    value(py, "Sample", fields)
}
