//! `status` and `each_failure`: read a journal, also while a run is in progress.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shoal_engine::error::Error;
use shoal_engine::fs::lock::Owner;
use shoal_engine::journal::{self, Difference, Fate, PartStatus, RunStatus, Sample, Status};
use shoal_engine::{Failure, Reason, Skipped, TransferOptions};

use crate::errors::run_error;
use crate::report::{counts, failures, moment, name_text, value};
use crate::source;

/// Failures handed to Python at once, so that a journal of millions needs no memory for them.
const BATCH: usize = 256;

/// What of a run is read by name.
struct Named {
    failures: Vec<Failure>,
    skipped: Vec<Skipped>,
}

/// The journals of a destination: one, or that of each part of a job that has begun.
struct Journals {
    all: Vec<Status>,
    /// Each part: its number, the process that works on it, and the index of its journal.
    parts: Vec<(u32, Option<Owner>, Option<usize>)>,
    difference: Option<Difference>,
}

impl Journals {
    fn read(path: &Path) -> Result<Journals, Error> {
        let Some(job) = journal::parts(path)? else {
            return Ok(Journals { all: vec![journal::status(path)?], parts: Vec::new(), difference: None });
        };
        let difference = job.difference();
        let (mut all, mut parts) = (Vec::new(), Vec::new());
        for PartStatus { index, owner, journal } in job.parts {
            let at = journal.is_some().then_some(all.len());
            all.extend(journal);
            parts.push((index, owner, at));
        }
        Ok(Journals { all, parts, difference })
    }

    fn runs(&self) -> impl Iterator<Item = (&Status, &RunStatus)> {
        self.all.iter().flat_map(|status| status.runs.iter().map(move |run| (status, run)))
    }
}

/// What the journals of a destination say, with the first `shown` failures of each run and the first `skipped` names of
/// what was left out.
#[pyfunction]
#[pyo3(signature = (path, shown, skipped, allow_different_listings))]
pub fn status(
    py: Python<'_>,
    path: PathBuf,
    shown: usize,
    skipped: usize,
    allow_different_listings: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let read = || -> Result<(Journals, Vec<Named>), Error> {
        let journals = Journals::read(&path)?;
        let named = |(status, run): (&Status, &RunStatus)| {
            let failures = status.failures(run, Fate::Failed, shown).collect::<Result<_, _>>()?;
            Ok(Named { failures, skipped: status.skipped(run, skipped)? })
        };
        let named = journals.runs().map(named).collect::<Result<_, Error>>()?;
        Ok((journals, named))
    };
    let (journals, named) = py.detach(read).map_err(|error| run_error(py, &error))?;
    let runs: Vec<_> =
        journals.runs().zip(&named).map(|((_, run), named)| run_value(py, run, named)).collect::<PyResult<_>>()?;
    let owner = match &journals.parts[..] {
        [] => journals.all.first().and_then(|status| status.owner.as_ref()),
        parts => parts.iter().find_map(|(_, owner, _)| owner.as_ref()),
    };
    let part = |(index, owner, at): &(u32, Option<Owner>, Option<usize>)| {
        let completed = at.is_some_and(|at| journals.all[at].runs[0].completed_at.is_some());
        let fields = PyDict::new(py);
        fields.set_item("index", index)?;
        fields.set_item(
            "state",
            match (owner, at) {
                (Some(_), _) => "running",
                (None, None) => "missing",
                (None, Some(_)) if completed => "complete",
                (None, Some(_)) => "unfinished",
            },
        )?;
        fields.set_item("owner", owner_value(py, owner.as_ref())?)?;
        // The journal of a part has one run.
        fields.set_item("run", at.map(|at| &runs[at]))?;
        value(py, "PartStatus", fields)
    };
    let parts = journals.parts.iter().map(part).collect::<PyResult<Vec<_>>>()?;
    let fields = PyDict::new(py);
    fields.set_item("path", path.as_os_str())?;
    fields.set_item("owner", owner_value(py, owner)?)?;
    fields.set_item("parts", PyTuple::new(py, parts)?)?;
    let difference = journals.difference.filter(|difference| difference.is_empty || !allow_different_listings);
    let difference = difference.map(|difference| run_error(py, &difference.to_error()));
    fields.set_item("difference", difference.map(|error| error.into_value(py)))?;
    fields.set_item("runs", PyTuple::new(py, runs)?)?;
    value(py, "Status", fields)
}

fn owner_value<'py>(py: Python<'py>, owner: Option<&Owner>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(owner) = owner else { return Ok(None) };
    let of = PyDict::new(py);
    of.set_item("pid", owner.pid)?;
    of.set_item("host", &owner.host)?;
    of.set_item("since", moment(py, owner.since as f64)?)?;
    value(py, "Owner", of).map(Some)
}

/// Calls a function with the failures of a run, or with those that wait for a retry, a list of some hundred at a time.
/// Signals are looked at in between. With a source, it is also called with what is requested for each, or None.
#[pyfunction]
#[pyo3(signature = (path, run, deferred, function, source=None))]
pub fn each_failure(
    py: Python<'_>,
    path: PathBuf,
    run: usize,
    deferred: bool,
    function: Bound<'_, PyAny>,
    source: Option<source::Given<'_>>,
) -> PyResult<()> {
    let source = source.map(|given| source::open(py, given, &mut TransferOptions::default(), false)).transpose()?;
    let source = source.map(|(source, _)| source); // nothing is requested
    let raised = |error: Error| run_error(py, &error);
    let journals = Journals::read(&path).map_err(raised)?;
    let found = journals.runs().nth(run);
    let (status, of) = found.ok_or_else(|| PyIndexError::new_err("the journal has no such run"))?;
    let fate = if deferred { Fate::Deferred } else { Fate::Failed };
    let mut all = status.failures(of, fate, usize::MAX);
    loop {
        let (mut batch, mut requests): (Vec<Failure>, Vec<Option<String>>) = (Vec::new(), Vec::new());
        while batch.len() < BATCH
            && let Some(failure) = all.next()
        {
            batch.push(failure.map_err(raised)?);
            if let Some(source) = &source {
                requests.push(source.request_of(all.locator()).map_err(raised)?);
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        py.check_signals()?;
        let batch = failures(py, &batch)?;
        match source {
            None => function.call1((batch,))?,
            Some(_) => function.call1((batch, requests))?,
        };
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
