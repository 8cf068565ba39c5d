//! Headers and keys from Python: a function or a program that gives them, and the passwords of a netrc file.
//!
//! The threads of a run never touch Python. They ask (`Changing`), and the caller's thread calls the function where it waits
//! for the run. Not here: programs and files (`shoal/_credentials.py`), when headers are asked for (`shoal-http`).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_engine::source::{Changing, HttpOptions, Netrc, Pairs, Secret, check_headers};

use shoal_s3::{Addressing, S3Options};

use crate::background::Background;
use crate::errors::{config_error, run_error};
use crate::report;

/// Gives headers to a run.
pub struct Headers {
    /// What the function is for, in messages.
    what: &'static str,
    changing: Arc<Changing>,
    function: Py<PyAny>,
    /// Sent as well.
    fixed: Pairs,
    /// A thread is in the function.
    called: AtomicBool,
    /// What it raised, for the end of a loop.
    raised: Mutex<Option<PyErr>>,
}

const HEADERS: &str = "headers";

/// The module of Python that knows where headers come from.
fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("shoal._credentials")
}

/// Takes from the options of a source what gives headers, if there is something, and reads the passwords of a netrc file.
pub fn prepare(given: &Bound<'_, PyDict>, network: &mut HttpOptions) -> PyResult<Option<Headers>> {
    let py = given.py();
    network.logins = match &network.netrc {
        Netrc::Unused => Vec::new(),
        netrc => {
            let path = if let Netrc::File(path) = netrc { Some(path.as_os_str()) } else { None };
            let logins: Pairs = module(py)?.getattr("logins")?.call1((path,))?.extract()?;
            logins.into_iter().map(|(host, login)| (host, Secret::new(login))).collect()
        }
    };
    let function = given.get_item(HEADERS)?.filter(|headers| headers.is_callable());
    let function = match (function, &network.header_command) {
        (Some(_), Some(_)) => {
            return Err(config_error(
                py,
                "`header_command` and a function for `headers` cannot be used together",
                None,
            ));
        }
        (None, Some(command)) => Some(module(py)?.getattr("Command")?.call1((command,))?),
        (function, None) => function,
    };
    Ok(function.map(|function| {
        let headers = Headers::new(HEADERS, function, std::mem::take(&mut network.headers));
        network.changing = Some(headers.changing.clone());
        headers
    }))
}

/// Completes the options of an object store from the user's configuration. Returns what gives its keys.
pub fn of_store(given: &Bound<'_, PyDict>, options: &mut S3Options) -> PyResult<Option<Headers>> {
    let py = given.py();
    let found = py.import("shoal._s3")?.getattr("configure")?.call1((given,))?;
    let (settings, function): (Bound<'_, PyDict>, Bound<'_, PyAny>) = found.extract()?;
    let text = |name: &str| -> PyResult<Option<String>> {
        settings.get_item(name)?.filter(|value| !value.is_none()).map(|value| value.extract()).transpose()
    };
    if options.endpoint.is_none() {
        options.endpoint = text("endpoint")?;
    }
    options.usual_region = text("usual_region")?;
    if options.addressing == Addressing::Auto {
        options.addressing = text("addressing")?.and_then(|word| Addressing::named(&word)).unwrap_or_default();
    }
    let connection = &mut options.connection;
    if connection.ca_file.is_none() {
        connection.ca_file = text("ca_file")?.map(Into::into);
    }
    if function.is_none() {
        return Ok(None);
    }
    let is_fixed = function.is_instance(&py.import("shoal._s3")?.getattr("Fixed")?)?;
    let headers = Headers::new("credentials", function, Pairs::new());
    options.credentials = Some(headers.changing.clone());
    if is_fixed {
        headers.give(py)?;
        return Ok(None);
    }
    Ok(Some(headers))
}

impl Drop for Headers {
    fn drop(&mut self) {
        self.changing.close();
    }
}

impl Headers {
    fn new(what: &'static str, function: Bound<'_, PyAny>, fixed: Pairs) -> Headers {
        let (called, raised) = (AtomicBool::new(false), Mutex::default());
        Headers { what, changing: Arc::default(), function: function.unbind(), fixed, called, raised }
    }

    /// Calls the function if the run waits for headers. Only for the caller's thread.
    pub fn serve(&self, py: Python<'_>) -> PyResult<()> {
        if !self.changing.is_wanted() || self.called.swap(true, Relaxed) {
            return Ok(());
        }
        let given = self.give(py);
        self.called.store(false, Relaxed);
        given
    }

    fn give(&self, py: Python<'_>) -> PyResult<()> {
        let (headers, life) = self.call(py)?;
        self.changing.give(headers, life);
        Ok(())
    }

    /// The same, for a run in the background: what the function raises ends it.
    pub fn serve_or_stop(&self, py: Python<'_>, run: &Background) -> PyResult<()> {
        let Err(raised) = self.serve(py) else { return Ok(()) };
        run.stop();
        if let Some(outcome) = py.detach(|| run.outcome()) {
            // An exception of the user's own may refuse new attributes; it is passed on all the same.
            let _ = raised.value(py).setattr("report", report::report(py, &outcome.report)?);
        }
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised.clone_ref(py));
        Err(raised)
    }

    /// What the function has raised, once.
    pub fn take_raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn call(&self, py: Python<'_>) -> PyResult<(Pairs, Option<Duration>)> {
        let given = module(py)?.getattr("ask")?.call1((&self.function, self.what))?;
        let (more, life): (Pairs, Option<f64>) = given.extract()?;
        let headers = [self.fixed.clone(), more].concat();
        check_headers(&headers).map_err(|error| run_error(py, &error))?;
        Ok((headers, life.and_then(|life| Duration::try_from_secs_f64(life).ok())))
    }
}
