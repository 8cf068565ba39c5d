//! `status` and `each_failure`: read a journal, also while a run is in progress.

use std::path::PathBuf;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shoal_engine::error::Error;
use shoal_engine::journal::{self, Fate, RunStatus, Sample, Status};
use shoal_engine::{Failure, Reason, Skipped};

use crate::errors::run_error;
use crate::report::{counts, failures, moment, name_text, value};

/// Failures handed to Python at once, so that a journal of millions needs no memory for them.
const BATCH: usize = 256;

/// What of a run is read by name.
struct Named {
    failures: Vec<Failure>,
    skipped: Vec<Skipped>,
}

/// What the journal of a destination says, with the first `shown` failures of each run and the first `skipped` names of
/// what was left out.
#[pyfunction]
#[pyo3(signature = (path, shown, skipped))]
pub fn status(py: Python<'_>, path: PathBuf, shown: usize, skipped: usize) -> PyResult<Bound<'_, PyAny>> {
    let read = || -> Result<(Status, Vec<Named>), Error> {
        let status = journal::status(&path)?;
        let named = status
            .runs
            .iter()
            .map(|run| {
                let failures = status.failures(run, Fate::Failed, shown).collect::<Result<_, _>>()?;
                Ok(Named { failures, skipped: status.skipped(run, skipped)? })
            })
            .collect::<Result<_, Error>>()?;
        Ok((status, named))
    };
    let (status, named) = py.detach(read).map_err(|error| run_error(py, &error))?;
    let runs: Vec<_> =
        status.runs.iter().zip(&named).map(|(run, named)| run_value(py, run, named)).collect::<PyResult<_>>()?;
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

fn run_value<'py>(py: Python<'py>, run: &RunStatus, named: &Named) -> PyResult<Bound<'py, PyAny>> {
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
    let by_reason = PyDict::new(py);
    for (reason, count) in run.skips.iter().filter(|(reason, _)| *reason != Reason::Kept) {
        by_reason.set_item(reason.as_str(), count)?;
    }
    fields.set_item("skipped_by", by_reason)?;
    fields.set_item("kept", run.skips.of(Reason::Kept))?;
    let skipped: Vec<_> = named.skipped.iter().map(|one| skipped_value(py, one)).collect::<PyResult<_>>()?;
    fields.set_item("skipped", PyTuple::new(py, skipped)?)?;
    fields.set_item("skipped_more", run.skips.listed().saturating_sub(named.skipped.len() as u64))?;
    fields.set_item("deferred", run.deferred)?;
    fields.set_item("until_reboot", run.until_reboot)?;
    fields.set_item("failures", failures(py, &named.failures)?)?;
    fields.set_item("samples", PyTuple::new(py, samples)?)?;
    value(py, "RunStatus", fields)
}

fn skipped_value<'py>(py: Python<'py>, skipped: &Skipped) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("name", name_text(py, &skipped.name)?)?;
    fields.set_item("reason", skipped.reason.as_str())?;
    value(py, "Skipped", fields)
}

fn sample_value<'py>(py: Python<'py>, sample: &Sample) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("at", moment(py, sample.at_ms as f64 / 1000.0)?)?;
    fields.set_item("objects", sample.objects)?;
    fields.set_item("bytes", sample.bytes)?;
    value(py, "Sample", fields)
}
