//! `copy`: arguments to the engine, the wait without the interpreter, the result or the exception back.
//!
//! The caller's thread is the only one that touches Python. It waits detached; the engine calls back on it about every
//! 50 ms, and only then does it attach, to look for signals, and to call the progress function and the one for headers.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Error, Kind, Progress};

use crate::at_exit::Live;
use crate::credentials::Headers;
use crate::errors::{OnError, run_error};
use crate::options::of_run;
use crate::{report, sink, source};

/// 100 ms: ten times a second is as fast as a person reads, and costs nothing.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Copies every object of the source into the sink. `shoal.copy` says all of it.
#[pyfunction]
pub fn copy<'py>(
    py: Python<'py>,
    source: source::Given<'py>,
    destination: sink::Given<'py>,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (mut engine, on_error) = of_run(options)?;
    let ((source, headers), open) = (source::open(py, source, &mut engine, false)?, sink::opener(py, destination)?);
    let mut watch = Watch::new(py, progress)?.with(headers);
    let outcome = py.detach(|| {
        let run = || -> Result<Outcome, Error> {
            let sink = open(&engine)?;
            Ok(Transfer::new(source, sink, engine).run(&mut |progress| watch.look(progress)))
        };
        let outcome = run();
        watch.ended();
        outcome
    });
    let raised = watch.leave(py);
    match outcome {
        Ok(outcome) => conclude(py, outcome, raised, on_error, true),
        Err(error) => Err(run_error(py, &error)),
    }
}

/// What is raised when the run was told to stop because the interpreter exits: the thread that asked for it ends with the
/// interpreter, and this is the exception that ends one without a word.
pub fn exiting(told_to_stop: bool) -> Option<PyErr> {
    told_to_stop.then(|| PySystemExit::new_err("the interpreter exits"))
}

/// What the caller's thread does while a run is going.
pub struct Watch {
    live: Live,
    progress: Option<Py<PyAny>>,
    headers: Option<Headers>,
    called: Option<Instant>,
    /// What a signal handler, the progress function or the one for headers raised; it stops the run and is passed on.
    raised: Option<PyErr>,
}

impl Watch {
    pub fn new(py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Watch> {
        Ok(Watch { live: Live::enter(py)?, progress, headers: None, called: None, raised: None })
    }

    /// Gives headers to the run, too.
    pub fn with(self, headers: Option<Headers>) -> Watch {
        Watch { headers, ..self }
    }

    /// The threads of the run have ended.
    pub fn ended(&self) {
        self.live.ended();
    }

    /// Ends watching. Returns what is to be raised.
    pub fn leave(self, py: Python<'_>) -> Option<PyErr> {
        let Watch { live, raised, .. } = self;
        let raised = raised.or_else(|| exiting(live.told_to_stop()));
        live.leave(py);
        raised
    }

    /// Looks for signals, and calls the progress function if it is time.
    pub fn look(&mut self, progress: &Progress) -> ControlFlow<()> {
        if self.raised.is_some() || self.live.told_to_stop() {
            return ControlFlow::Break(());
        }
        let looked = Python::try_attach(|py| {
            let result = self.look_attached(py, progress);
            if !self.live.owner().is_here() {
                leave_forked_child(py, self.live.owner());
            }
            result
        });
        match looked {
            Some(Ok(())) => ControlFlow::Continue(()),
            Some(Err(raised)) => {
                self.raised = Some(raised);
                ControlFlow::Break(())
            }
            // The interpreter is being taken down.
            None => ControlFlow::Break(()),
        }
    }

    fn look_attached(&mut self, py: Python<'_>, progress: &Progress) -> PyResult<()> {
        py.check_signals()?;
        self.headers.as_ref().map_or(Ok(()), |headers| headers.serve(py))?;
        let Some(function) = &self.progress else {
            return Ok(());
        };
        if self.called.is_some_and(|at| at.elapsed() < PROGRESS_EVERY) {
            return Ok(());
        }
        function.call1(py, (report::progress(py, progress)?,))?;
        self.called = Some(Instant::now());
        Ok(())
    }
}

/// Ends a child that was forked inside a progress function or signal handler and came back from it.
///
/// Below us on the stack is a run whose threads are in the parent; returning into it would wait for them for ever. So the
/// child says what it would have raised, and is gone.
fn leave_forked_child(py: Python<'_>, owner: crate::fork::Owner) -> ! {
    if let Err(error) = owner.check("this run") {
        error.print(py);
    }
    // SAFETY: `_exit` takes any number and runs nothing of ours: no destructor, which would wait for threads.
    unsafe { libc::_exit(1) }
}

/// The report, or what is raised instead, with the report attached. `keeps`: a journal knows what failed.
pub fn conclude(
    py: Python<'_>,
    outcome: Outcome,
    raised: Option<PyErr>,
    on_error: OnError,
    keeps: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let report = report::report(py, &outcome.report)?;
    let error = match (raised, outcome.error) {
        (Some(raised), error) => {
            // Stopping itself went wrong: the interruption stays what the caller sees.
            if let Some(error) = error.filter(|error| error.kind() != Kind::Interrupted) {
                raised.set_cause(py, Some(run_error(py, &error)));
            }
            raised
        }
        (None, error) => match on_error.raised(py, &outcome.report, error.as_ref(), keeps) {
            Some(raised) => raised,
            None => return Ok(report),
        },
    };
    // An exception of the user's own may refuse new attributes; it is passed on all the same.
    let _ = error.value(py).setattr("report", report);
    Err(error)
}
