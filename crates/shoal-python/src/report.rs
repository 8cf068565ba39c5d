//! The engine's results as the values that Python defines (`shoal/_report.py`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use shoal_engine::{Counts, Failure, Progress, Report, Step};

/// A value of a class of `shoal._report`.
pub fn value<'py>(
    py: Python<'py>,
    class: &str,
    fields: impl IntoPyObject<'py, Target = PyDict, Output = Bound<'py, PyDict>, Error: Into<PyErr>>,
) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields.into_pyobject(py).map_err(Into::into)?;
    py.import("shoal._report")?.getattr(class)?.call((), Some(&fields))
}

/// A raw name as Python holds the names of files: bytes that are not text become surrogate escapes.
pub fn name_text<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyString>> {
    Ok(OsStr::from_bytes(name).into_pyobject(py)?)
}

/// A moment as an aware `datetime` in UTC.
pub fn moment(py: Python<'_>, unix_seconds: f64) -> PyResult<Bound<'_, PyAny>> {
    let datetime = py.import("datetime")?;
    let utc = datetime.getattr("timezone")?.getattr("utc")?;
    datetime.getattr("datetime")?.call_method1("fromtimestamp", (unix_seconds, utc))
}

#[derive(IntoPyObject)]
struct CountFields {
    listed: u64,
    written: u64,
    skipped: u64,
    failed: u64,
    unfinished: u64,
    bytes: u64,
}

pub fn counts<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Bound<'py, PyAny>> {
    value(py, "Counts", count_fields(counts))
}

fn count_fields(counts: &Counts) -> CountFields {
    let &Counts { listed, written, skipped, failed, unfinished, bytes } = counts;
    CountFields { listed, written, skipped, failed, unfinished, bytes }
}

#[derive(IntoPyObject)]
struct FailureFields<'py, 'a> {
    name: Bound<'py, PyString>,
    archive: Option<Bound<'py, PyString>>,
    kind: &'a str,
    reason: &'a str,
    tries: u32,
}

pub fn failures<'py>(py: Python<'py>, failures: &[Failure]) -> PyResult<Bound<'py, PyTuple>> {
    let made: Vec<_> = failures
        .iter()
        .map(|failure| {
            let fields = FailureFields {
                name: name_text(py, &failure.name)?,
                archive: failure.archive.as_deref().map(|path| name_text(py, path)).transpose()?,
                kind: &failure.kind,
                reason: &failure.reason,
                tries: failure.tries,
            };
            value(py, "Failure", fields)
        })
        .collect::<PyResult<_>>()?;
    PyTuple::new(py, made)
}

#[derive(IntoPyObject)]
struct StepFields {
    seconds: f64,
    workers: usize,
    objects_per_second: f64,
    bytes_per_second: f64,
}

fn steps<'py>(py: Python<'py>, steps: &[Step]) -> PyResult<Bound<'py, PyTuple>> {
    let made: Vec<_> = steps
        .iter()
        .map(|&Step { at, workers, objects_per_second, bytes_per_second }| {
            let fields = StepFields { seconds: at.as_secs_f64(), workers, objects_per_second, bytes_per_second };
            value(py, "Step", fields)
        })
        .collect::<PyResult<_>>()?;
    PyTuple::new(py, made)
}

#[derive(IntoPyObject)]
struct ReportFields<'py, 'a> {
    failed: u64,
    run: Bound<'py, PyAny>,
    total: Bound<'py, PyAny>,
    seconds: f64,
    retries: u64,
    unverified: u64,
    wasted: u64,
    duplicates: u64,
    unchanged: u64,
    edited: u64,
    dry_run: bool,
    complete: bool,
    completed_before: Option<Bound<'py, PyAny>>,
    not_listed: Option<&'a str>,
    resumed_from: u64,
    workers: usize,
    workers_reason: &'a str,
    concurrency: Bound<'py, PyTuple>,
    durability: &'a str,
    publish: &'a str,
    paused: f64,
    failures: Bound<'py, PyTuple>,
    notes: Bound<'py, PyTuple>,
}

/// The report of a run.
pub fn report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyAny>> {
    let fields = count_fields(&report.run).into_pyobject(py)?;
    let others = ReportFields {
        // Those that stand, over all runs: a script that looks at this one must not overlook them after a resume.
        failed: report.total.failed,
        run: counts(py, &report.run)?,
        total: counts(py, &report.total)?,
        seconds: report.elapsed.as_secs_f64(),
        retries: report.retries,
        unverified: report.unverified,
        wasted: report.wasted,
        duplicates: report.duplicates,
        unchanged: report.unchanged,
        edited: report.edited,
        dry_run: report.dry_run,
        complete: report.complete,
        completed_before: report.completed_before.map(|seconds| moment(py, seconds as f64)).transpose()?,
        not_listed: report.not_listed.as_deref(),
        resumed_from: report.resumed_from,
        workers: report.workers,
        workers_reason: &report.workers_reason,
        concurrency: steps(py, &report.concurrency)?,
        durability: &report.durability,
        publish: &report.publish,
        paused: report.paused.as_secs_f64(),
        failures: failures(py, &report.failures)?,
        notes: PyTuple::new(py, &report.notes)?,
    };
    fields.update(others.into_pyobject(py)?.as_mapping())?;
    if report.dry_run {
        fields.set_item("bytes", py.None())?;
    }
    value(py, "Report", fields)
}

#[derive(IntoPyObject)]
struct ProgressFields<'py> {
    run: Bound<'py, PyAny>,
    before: Bound<'py, PyAny>,
    listing_done: bool,
    in_flight: usize,
    workers: usize,
    retries: u64,
    deferred: u64,
    retry_in: Option<f64>,
    committed: u64,
    paused: bool,
    seconds: f64,
}

/// The state of a run.
pub fn progress<'py>(py: Python<'py>, progress: &Progress) -> PyResult<Bound<'py, PyAny>> {
    let fields = ProgressFields {
        run: counts(py, &progress.run)?,
        before: counts(py, &progress.before)?,
        listing_done: progress.listing_done,
        in_flight: progress.in_flight,
        workers: progress.workers,
        retries: progress.retries,
        deferred: progress.deferred,
        retry_in: progress.retry_in.map(|wait| wait.as_secs_f64()),
        committed: progress.committed,
        paused: progress.paused,
        seconds: progress.elapsed.as_secs_f64(),
    };
    value(py, "Progress", fields)
}
