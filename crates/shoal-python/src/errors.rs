//! The one match from the engine's kinds of error to the exception classes, which Python defines (`shoal/_errors.py`).

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_engine::{Class, Error, Failure, Kind};

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
fn run_class(kind: Kind) -> &'static str {
    match kind {
        Kind::DestinationFull => "DestinationFullError",
        Kind::Credentials => "CredentialsError",
        Kind::Journal | Kind::JournalMismatch => "JournalError",
        Kind::JournalLocked => "JournalLockedError",
        Kind::Config => "ConfigError",
        Kind::Interrupted => "KeyboardInterrupt",
        // Also a kind that fails only objects: here it ended the run.
        _ => "RunError",
    }
}

/// The exception for what ended a run.
pub fn run_error(py: Python<'_>, error: &Error) -> PyErr {
    let build = || {
        let class = run_class(error.kind());
        if class == "KeyboardInterrupt" {
            return Ok(pyo3::exceptions::PyKeyboardInterrupt::new_err(error.line()));
        }
        let values = PyDict::new(py);
        values.set_item("kind", error.kind().as_str())?;
        values.set_item("name", error.subject())?;
        values.set_item("hint", error.advice())?;
        if class == "DestinationFullError" && error.os_error().is_some() {
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
        ErrorKind::Torn => (
            "IntegrityError",
            "torn",
            Some("tail=\"drop\" (--tail drop) leaves out what is behind the last whole record"),
        ),
        ErrorKind::Changed => ("IntegrityError", "changed", Some("open it again")),
        ErrorKind::Io => match error.errno() {
            Some(libc::ENOENT | libc::ENOTDIR) => ("NotFoundError", "vanished", None),
            Some(libc::EACCES | libc::EPERM) => ("PermissionDeniedError", "denied", None),
            Some(libc::ENOSPC | libc::EDQUOT) => ("DestinationFullError", "destination-full", None),
            _ => ("RunError", "io", None),
        },
        ErrorKind::Locked => ("RunError", "locked", Some("end the program that holds it, and try again")),
        ErrorKind::Groups => ("RunError", "too-many-groups", Some("leave records out with where=, or group in parts")),
        ErrorKind::Cancelled => return pyo3::exceptions::PyKeyboardInterrupt::new_err(error.to_string()),
        ErrorKind::Internal => ("RunError", "internal", Some("this is a defect of shoal, please report it")),
        _ => ("ConfigError", "config", None),
    };
    let build = || {
        let values = PyDict::new(py);
        values.set_item("kind", kind)?;
        if let Some(path) = error.path() {
            values.set_item("name", name_text(py, path.as_os_str().as_encoded_bytes())?)?;
        }
        values.set_item("hint", hint)?;
        if class == "DestinationFullError" {
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
        let line = Error::new(Kind::Internal, &failure.reason).on(&shoal_engine::display::escape(&failure.name)).line();
        make(py, known.map_or("ObjectError", |&kind| object_class(kind)), &line, &values)
    };
    build().unwrap_or_else(|broken| broken)
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
            Class::Run => ("run", run_class(kind)),
        };
        (kind.as_str(), says)
    };
    Kind::ALL.iter().map(entry).collect()
}
