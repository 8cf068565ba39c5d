//! `Listing`: what a source lists, some hundred objects at a time. A thread lists ahead and never touches Python.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use shoal_engine::listed::{Listed, each_listed};
use shoal_engine::{Error, Failure};

use crate::credentials::Headers;
use crate::errors::{object_error, run_error};
use crate::fork::Owner;
use crate::options::of_run;
use crate::report::{failures, moment, name_text, value};
use crate::source;

/// Objects handed to Python at once.
const BATCH: usize = 256;
/// Batches listed ahead.
const AHEAD: usize = 4;
/// How often a wait looks for signals.
const TICK: Duration = Duration::from_millis(50);

type Batch = Vec<Result<Listed, Failure>>;

/// Iterates over lists of `shoal.ListedObject`, and of `shoal.Failure` for what cannot be listed.
#[pyclass(module = "shoal", frozen)]
pub struct Listing {
    owner: Owner,
    batches: Mutex<Option<Receiver<Result<Batch, Error>>>>,
    headers: Option<Headers>,
    /// With `raises`: the first of what could not be listed, and how many there are.
    failed: Option<Mutex<(Option<Failure>, u64)>>,
}

#[pymethods]
impl Listing {
    #[new]
    fn new(py: Python<'_>, source: source::Given<'_>, options: &Bound<'_, PyDict>, raises: bool) -> PyResult<Listing> {
        let (mut engine, _) = of_run(options)?;
        let (source, headers) = source::open(py, source, &mut engine, true)?;
        let (sender, batches) = sync_channel(AHEAD);
        let list = move || {
            let mut batch = Batch::new();
            let result = each_listed(&*source, &engine, &mut |listed| {
                batch.push(listed);
                if batch.len() < BATCH {
                    return ControlFlow::Continue(());
                }
                match sender.send(Ok(std::mem::take(&mut batch))) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()), // dropped
                }
            });
            let _ = sender.send(Ok(batch));
            if let Err(error) = result {
                let _ = sender.send(Err(error));
            }
        };
        std::thread::Builder::new().name("shoal-list".into()).spawn(list)?;
        let failed = raises.then(Mutex::default);
        Ok(Listing { owner: Owner::here(), batches: Mutex::new(Some(batches)), headers, failed })
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.owner.check("this listing")?;
        loop {
            let received = py.detach(|| {
                let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
                batches.as_ref().map(|batches| batches.recv_timeout(TICK))
            });
            match received {
                Some(Ok(Ok(batch))) => return self.batch_list(py, batch).map(Some),
                Some(Err(RecvTimeoutError::Timeout)) => {
                    py.check_signals()?;
                    self.headers
                        .as_ref()
                        .map_or(Ok(()), |headers| headers.serve(py))
                        .inspect_err(|_| self.close(py))?;
                }
                Some(Ok(Err(error))) => {
                    self.close(py);
                    return Err(run_error(py, &error));
                }
                Some(Err(RecvTimeoutError::Disconnected)) | None => return self.raise_failures(py).map(|()| None),
            }
        }
    }

    /// Ends the listing.
    fn close(&self, py: Python<'_>) {
        py.detach(|| *self.batches.lock().unwrap_or_else(PoisonError::into_inner) = None);
    }
}

impl Listing {
    fn batch_list<'py>(&self, py: Python<'py>, batch: Batch) -> PyResult<Bound<'py, PyList>> {
        let made = PyList::empty(py);
        for listed in batch {
            match (listed, &self.failed) {
                (Ok(listed), _) => made.append(object(py, &listed)?)?,
                (Err(failure), None) => made.append(failures(py, &[failure])?.get_item(0)?)?,
                (Err(failure), Some(failed)) => {
                    let (first, count) = &mut *failed.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(failure);
                    *count += 1;
                }
            }
        }
        Ok(made)
    }

    fn raise_failures(&self, py: Python<'_>) -> PyResult<()> {
        let Some(failed) = &self.failed else { return Ok(()) };
        let (first, count) = std::mem::take(&mut *failed.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(first) = first else { return Ok(()) };
        let error = object_error(py, &first);
        if count > 1 {
            let more = shoal_engine::display::count(count - 1);
            error.value(py).call_method1("add_note", (format!("{more} more could not be listed"),))?;
        }
        Err(error)
    }
}

fn object<'py>(py: Python<'py>, listed: &Listed) -> PyResult<Bound<'py, PyAny>> {
    let modified = listed.modified.map(|time| match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    });
    let fields = PyDict::new(py);
    fields.set_item("name", name_text(py, &listed.name)?)?;
    fields.set_item("archive", listed.archive.as_deref().map(|path| name_text(py, path)).transpose()?)?;
    fields.set_item("size", listed.size)?;
    // A time beyond Python's calendar becomes None.
    fields.set_item("last_modified", modified.and_then(|seconds| moment(py, seconds).ok()))?;
    value(py, "ListedObject", fields)
}
