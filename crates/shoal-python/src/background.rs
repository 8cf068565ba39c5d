//! A run on its own thread, while the caller iterates over its results.
//!
//! The thread never touches Python, and ends with the run. Dropping the handle stops the run without waiting for it. A
//! forked child, which does not have this thread, leaks the handle.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Error, Kind, Progress, Report};

use crate::at_exit::Live;
use crate::errors::no_thread;
use crate::report;

/// 100 ms: ten times a second is as fast as a person reads, and costs nothing.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// A run in the background.
pub struct Background {
    thread: Mutex<Option<JoinHandle<Outcome>>>,
    outcome: OnceLock<Outcome>,
    live: Live,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    progress: Mutex<Progress>,
}

impl Background {
    /// Starts it; `ended` is called on the run's thread when it is over, however it ended.
    pub fn start(py: Python<'_>, transfer: Transfer, ended: impl FnOnce() + Send + 'static) -> PyResult<Background> {
        let live = Live::enter(py)?;
        let shared = Arc::new(Shared::default());
        let (watch, at_exit) = (shared.clone(), live.clone());
        let body = move || {
            let run = || {
                transfer.run(&mut |progress| {
                    *watch.progress.lock().unwrap_or_else(PoisonError::into_inner) = *progress;
                    match watch.stop.load(Relaxed) || at_exit.told_to_stop() {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                })
            };
            let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Outcome {
                report: Report::default(),
                error: Some(Error::new(Kind::Internal, "the run panicked").hint("this is a bug in shoal")),
            });
            ended();
            at_exit.ended();
            outcome
        };
        match std::thread::Builder::new().name("shoal-run".to_owned()).spawn(body) {
            Ok(thread) => Ok(Background { thread: Mutex::new(Some(thread)), outcome: OnceLock::new(), live, shared }),
            Err(error) => {
                live.leave(py);
                Err(no_thread(py, &error))
            }
        }
    }

    /// Refuses in a forked child.
    pub fn check_process(&self, what: &str) -> PyResult<()> {
        self.live.owner().check(what)
    }

    /// Whether the run's threads are in this process.
    pub fn is_here(&self) -> bool {
        self.live.owner().is_here()
    }

    /// Tells it to stop, as Ctrl-C does.
    pub fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
    }

    /// Whether the interpreter is about to exit.
    pub fn told_to_stop(&self) -> bool {
        self.live.told_to_stop()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        *self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its end; the caller is detached from the interpreter. `None` only where another thread waits too.
    pub fn outcome(&self) -> Option<&Outcome> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Ok(outcome)) = thread.map(JoinHandle::join) {
            let _ = self.outcome.set(outcome); // its body catches panics
        }
        self.outcome.get()
    }

    /// Waits for its end, as `outcome` does, and takes what it came to.
    pub fn take_outcome(&mut self) -> Option<Outcome> {
        self.outcome();
        self.outcome.take()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Calls a progress function now and then.
pub struct Teller {
    function: Option<Py<PyAny>>,
    called: Option<Instant>,
}

impl Teller {
    /// Does nothing if there is no function.
    pub fn new(function: Option<Py<PyAny>>) -> Teller {
        Teller { function, called: None }
    }

    /// Whether the function is due.
    pub fn is_due(&self) -> bool {
        self.function.is_some() && self.called.is_none_or(|at| at.elapsed() >= PROGRESS_EVERY)
    }

    /// The function to call now, if there is one; the caller holds no lock when calling it.
    pub fn due(&mut self, py: Python<'_>) -> Option<Py<PyAny>> {
        if !self.is_due() {
            return None;
        }
        self.called = Some(Instant::now());
        self.function.as_ref().map(|function| function.clone_ref(py))
    }
}

/// Calls a progress function.
pub fn tell(py: Python<'_>, function: &Py<PyAny>, progress: &Progress) -> PyResult<()> {
    function.call1(py, (report::progress(py, progress)?,)).map(drop)
}
