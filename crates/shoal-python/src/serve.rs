//! `Server`: the engine's list/get service as a context manager. Its threads never touch Python.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_engine::serve::{Content, Options, ServeError, Server as Service, Stats};

use crate::errors::make;
use crate::fork::Owner;
use crate::report::value;

/// A running list/get service; `shoal.serve` starts one.
///
/// As a context manager it stops at the end of the block. It runs in threads of this process: in a forked child every
/// use of it raises RuntimeError.
#[pyclass(module = "shoal", frozen)]
pub struct Server {
    owner: Owner,
    url: String,
    port: u16,
    /// Locked only while attached to the interpreter, never across a call into it or a wait.
    state: Mutex<State>,
}

struct State {
    service: Option<Service>,
    /// The last count of a service that has stopped.
    last: Stats,
}

#[pymethods]
impl Server {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "those of `shoal.serve`, which names them")]
    fn new(
        py: Python<'_>,
        directory: Option<PathBuf>,
        synthetic: Option<String>,
        host: &str,
        port: u16,
        page_size: usize,
        access_log: Option<PathBuf>,
        allow_hosts: Vec<String>,
    ) -> PyResult<Server> {
        let start = || {
            let content = match (directory, synthetic) {
                (_, Some(text)) => Content::parse_synthetic(&text)?,
                (directory, None) => Content::Directory(directory.unwrap_or_default()),
            };
            let bind = host
                .parse()
                .map_err(|_| ServeError::Option(format!("host must be a numeric address, got {host:?}")))?;
            let options = Options { bind, port, page_size, access_log, allow_hosts, ..Options::default() };
            Service::start(content, options)
        };
        let service = py.detach(start).map_err(|error| raised(py, &error))?;
        Ok(Server {
            owner: Owner::here(),
            url: service.url(),
            port: service.address().port(),
            state: Mutex::new(State { service: Some(service), last: Stats::default() }),
        })
    }

    /// Where a client finds it, such as `http://127.0.0.1:8080`.
    #[getter]
    fn url(&self) -> PyResult<&str> {
        self.owner.check("this service")?;
        Ok(&self.url)
    }

    /// The port it listens on.
    #[getter]
    fn port(&self) -> PyResult<u16> {
        self.owner.check("this service")?;
        Ok(self.port)
    }

    /// What it has done so far, also after it has stopped.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.owner.check("this service")?;
        let state = self.lock();
        let stats = state.service.as_ref().map_or(state.last, Service::stats);
        drop(state);
        stats_value(py, &stats)
    }

    /// Stops it: no new connections, requests in progress finish within `grace` seconds, then all threads are joined.
    #[pyo3(signature = (grace=5.0))]
    fn stop(&self, py: Python<'_>, grace: f64) -> PyResult<()> {
        self.owner.check("this service")?;
        let grace = Duration::try_from_secs_f64(grace)
            .map_err(|_| pyo3::exceptions::PyValueError::new_err("grace must be a time in seconds"))?;
        let mut state = self.lock();
        let Some(service) = state.service.take() else {
            return Ok(());
        };
        state.last = service.stats();
        drop(state);
        let last = py.detach(|| service.stop(grace));
        self.lock().last = last;
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(&self, py: Python<'_>, _kind: Py<PyAny>, _error: Py<PyAny>, _trace: Py<PyAny>) -> PyResult<()> {
        self.stop(py, 5.0)
    }

    fn __repr__(&self) -> String {
        let stopped = self.lock().service.is_none();
        let url = &self.url;
        format!("<shoal.Server {url}{}>", if stopped { " (stopped)" } else { "" })
    }
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(IntoPyObject)]
struct StatsFields {
    requests: u64,
    bytes: u64,
    connections: u64,
    open_connections: usize,
    cut_connections: u64,
    unlistable_names: u64,
    not_files: u64,
    unreadable_directories: u64,
    vanished_directories: u64,
    walks: u64,
    lost_log_lines: u64,
}

fn stats_value<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyAny>> {
    let fields = StatsFields {
        requests: stats.requests,
        bytes: stats.bytes,
        connections: stats.connections,
        open_connections: stats.open_connections,
        cut_connections: stats.cut_connections,
        unlistable_names: stats.unlistable_names,
        not_files: stats.not_files,
        unreadable_directories: stats.unreadable_directories,
        vanished_directories: stats.vanished_directories,
        walks: stats.walks,
        lost_log_lines: stats.lost_log_lines,
    };
    value(py, "ServerStats", fields)
}

/// The exception for a service that could not start.
fn raised(py: Python<'_>, error: &ServeError) -> PyErr {
    let build = || {
        let (class, kind) = match error {
            ServeError::Option(_) => ("ConfigError", "config"),
            ServeError::Directory { cause, .. } => match cause.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ("NotFoundError", "serve"),
                io::ErrorKind::PermissionDenied => ("PermissionDeniedError", "serve"),
                _ => ("RunError", "serve"),
            },
            _ => ("RunError", "serve"),
        };
        let values = PyDict::new(py);
        values.set_item("kind", kind)?;
        make(py, class, &error.to_string(), &values)
    };
    build().unwrap_or_else(|broken| broken)
}
