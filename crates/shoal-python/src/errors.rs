//! The one match from the engine's kinds of error to the exception classes, which Python defines (`shoal/_errors.py`).

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_engine::{Class, Error, Failure, Kind, Report};

use crate::report::name_text;

/// The exception for an error of this kind that ended one object.
fn object_class(kind: Kind) -> &'static str {
    match kind {
        Kind::Vanished => "NotFoundError",
        Kind::Forbidden | Kind::Denied => "PermissionDeniedError",
        Kind::UnsafeName => "UnsafeNameError",
        Kind::Integrity | Kind::OutOfOrder | Kind::ShortBody => "IntegrityError",
        _ => "ObjectError",
    }
}

/// The exception for an error of this kind that ended a run.
fn run_class(kind: Kind, errno: Option<i32>) -> &'static str {
    match kind {
        Kind::DestinationFull => "DestinationFullError",
        Kind::Credentials => "CredentialsError",
        Kind::Journal | Kind::JournalMismatch => "JournalError",
        Kind::JournalLocked => "JournalLockedError",
        // Where something that was named is not there or not permitted, an exception that Python has a type for.
        Kind::Config => match errno {
            Some(libc::ENOENT | libc::ENOTDIR) => "NotFoundError",
            Some(libc::EACCES | libc::EPERM) => "PermissionDeniedError",
            _ => "ConfigError",
        },
        Kind::NothingMatched => "NothingMatchedError",
        Kind::Interrupted => "KeyboardInterrupt",
        // Also a kind that fails only objects: here it ended the run.
        _ => "RunError",
    }
}

/// The exceptions that have the operating system's error number.
const OF_THE_SYSTEM: [&str; 3] = ["NotFoundError", "PermissionDeniedError", "DestinationFullError"];

/// The exception for what ended a run.
pub fn run_error(py: Python<'_>, error: &Error) -> PyErr {
    let build = || {
        let class = run_class(error.kind(), error.os_error());
        if class == "KeyboardInterrupt" {
            return Ok(pyo3::exceptions::PyKeyboardInterrupt::new_err(error.line()));
        }
        let values = PyDict::new(py);
        values.set_item("kind", error.kind().as_str())?;
        values.set_item("name", error.subject())?;
        values.set_item("hint", error.advice())?;
        if OF_THE_SYSTEM.contains(&class) && error.os_error().is_some() {
            values.set_item("errno", error.os_error())?;
        }
        make(py, class, &error.line(), &values)
    };
    build().unwrap_or_else(|broken| broken)
}

/// The exception for an argument that is wrong, or a call at the wrong time.
pub fn config_error(py: Python<'_>, why: &str, hint: Option<&str>) -> PyErr {
    let error = Error::new(Kind::Config, why);
    run_error(py, &hint.into_iter().fold(error, Error::hint))
}

/// The exception where the system refuses a thread.
pub fn no_thread(py: Python<'_>, refused: &std::io::Error) -> PyErr {
    let hint = "raise the limit of processes (ulimit -u, or the container's pids limit)";
    let error = Error::new(Kind::Internal, format!("a thread could not be started: {refused}")).hint(hint);
    run_error(py, &error.errno(refused.raw_os_error()))
}

/// The exception for what went wrong with records.
pub fn records_error(py: Python<'_>, error: &shoal_records::Error) -> PyErr {
    use shoal_records::ErrorKind;
    let (class, kind, hint) = match error.kind() {
        ErrorKind::Torn => {
            ("IntegrityError", "torn", Some("`tail=\"drop\"` ignores the bytes after the last whole record"))
        }
        ErrorKind::Unfinished => (
            "IntegrityError",
            "unfinished",
            Some(
                "look at its end; then shoal.Records.recover(path, keep=True) keeps all bytes, and keep=False truncates \
        it to its length before that append",
            ),
        ),
        ErrorKind::Changed => ("IntegrityError", "changed", Some("open it again")),
        ErrorKind::Io => match error.errno() {
            Some(libc::ENOENT | libc::ENOTDIR) => ("NotFoundError", "vanished", None),
            Some(libc::EACCES | libc::EPERM) => ("PermissionDeniedError", "denied", None),
            Some(libc::ENOSPC | libc::EDQUOT) => ("DestinationFullError", "destination-full", None),
            _ => ("RunError", "io", None),
        },
        ErrorKind::Locked => ("RunError", "locked", Some("end the program that holds it, and retry")),
        ErrorKind::Groups => (
            "RunError",
            "too-many-groups",
            Some(
                "select fewer records with where=, or group in \
        parts",
            ),
        ),
        ErrorKind::Cancelled => return pyo3::exceptions::PyKeyboardInterrupt::new_err(error.to_string()),
        ErrorKind::Internal => ("RunError", "internal", Some("this is a bug in shoal, please report it")),
        _ => ("ConfigError", "config", None),
    };
    let build = || {
        let values = PyDict::new(py);
        values.set_item("kind", kind)?;
        if let Some(path) = error.path() {
            values.set_item("name", name_text(py, path.as_os_str().as_encoded_bytes())?)?;
        }
        values.set_item("hint", hint)?;
        if OF_THE_SYSTEM.contains(&class) {
            values.set_item("errno", error.errno())?;
        }
        make(py, class, &error.to_string(), &values)
    };
    build().unwrap_or_else(|broken| broken)
}

/// The exception for a failed object.
pub fn object_error(py: Python<'_>, failure: &Failure) -> PyErr {
    let build = || {
        let known = Kind::ALL.iter().find(|kind| kind.as_str() == failure.kind);
        let values = PyDict::new(py);
        values.set_item("kind", &failure.kind)?;
        values.set_item("name", name_text(py, &failure.name)?)?;
        values.set_item("attempts", failure.tries)?;
        make(py, known.map_or("ObjectError", |&kind| object_class(kind)), &failure_line(failure), &values)
    };
    build().unwrap_or_else(|broken| broken)
}

fn failure_line(failure: &Failure) -> String {
    Error::new(Kind::Internal, &failure.reason).on(&shoal_engine::display::escape(&failure.name)).line()
}

shoal_engine::words! {
    /// What failed objects mean for the caller of a run: its option `on_error`.
    pub enum OnError {
        /// All the rest is done; then the run raises.
        #[default]
        Raise = "raise",
        /// The report says so.
        Record = "record",
        /// The first ends the run, which raises its exception.
        Stop = "stop",
    }
}

/// The end of a run that has failed objects, or that could not continue.
enum Ended<'a> {
    Cannot(&'a Error),
    First(&'a Failure),
    Incomplete,
}

impl OnError {
    fn ended<'a>(self, report: &'a Report, error: Option<&'a Error>) -> Option<Ended<'a>> {
        let first = report.failures.first().map(Ended::First);
        match (error, self) {
            (Some(error), OnError::Stop) if error.kind() == Kind::TooManyFailures => {
                first.or(Some(Ended::Cannot(error)))
            }
            (Some(error), _) => Some(Ended::Cannot(error)),
            // Those that an earlier run recorded, and that still stand, count too.
            (None, OnError::Raise | OnError::Stop) if report.total.failed == 0 => None,
            (None, OnError::Stop) => first.or(Some(Ended::Incomplete)),
            (None, OnError::Raise) => Some(Ended::Incomplete),
            (None, OnError::Record) => None,
        }
    }

    /// What a run that has ended raises, if anything, but for its report. `keeps`: a journal knows what failed.
    pub fn raised(self, py: Python<'_>, report: &Report, error: Option<&Error>, keeps: bool) -> Option<PyErr> {
        Some(match self.ended(report, error)? {
            Ended::Cannot(error) => run_error(py, error),
            Ended::First(failure) => object_error(py, failure),
            Ended::Incomplete => objects_failed(py, report, keeps),
        })
    }

    /// The same as one line, for a consumer that takes no exception.
    pub fn line(self, report: &Report, error: Option<&Error>) -> Option<String> {
        Some(match self.ended(report, error)? {
            Ended::Cannot(error) => error.line(),
            Ended::First(failure) => failure_line(failure),
            Ended::Incomplete => objects_failed_line(report),
        })
    }
}

fn objects_failed_line(report: &Report) -> String {
    let (failed, listed) = (grouped(report.total.failed), grouped(report.total.listed));
    let line = format!("{failed} of {listed} objects failed");
    match report.failures.first() {
        // The first line of a traceback says what it is.
        Some(first) => format!("{line}, first {}", failure_line(first).lines().next().unwrap_or_default()),
        None => line,
    }
}

/// A number as people read it: 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.chars().enumerate().fold(String::new(), |text, (at, digit)| match comma(at) {
        true => format!("{text},{digit}"),
        false => format!("{text}{digit}"),
    })
}

/// The exception for a run that did all that it could.
fn objects_failed(py: Python<'_>, report: &Report, keeps: bool) -> PyErr {
    let build = || {
        let values = PyDict::new(py);
        values.set_item("kind", "objects-failed")?;
        let again = if keeps { "the same call retries them; " } else { "" };
        let advice = if report.advice.is_empty() { String::new() } else { format!("{}; ", report.advice) };
        values.set_item(
            "hint",
            format!("{advice}{again}with `on_error=\"record\"` the call returns the report instead"),
        )?;
        let raised = make(py, "ObjectsFailedError", &objects_failed_line(report), &values)?;
        raised.set_cause(py, report.failures.first().map(|first| object_error(py, first)));
        Ok(raised)
    };
    build().unwrap_or_else(|broken: PyErr| broken)
}

/// An exception of this class; the text without the hint, which the class adds.
pub fn make(py: Python<'_>, class: &str, line: &str, values: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let class = py.import("shoal._errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((line,), Some(values))?))
}

/// Every kind of error: what follows from it ("retry", "object" or "run"), and the exception that stands for it.
#[pyfunction]
pub fn kinds() -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let entry = |&kind: &Kind| {
        let says = match kind.class() {
            Class::Retry => ("retry", object_class(kind)),
            Class::Object => ("object", object_class(kind)),
            Class::Run => ("run", run_class(kind, None)),
        };
        (kind.as_str(), says)
    };
    Kind::ALL.iter().map(entry).collect()
}
