//! Waiting for workers without the interpreter: signals are looked for meanwhile, and cancel the work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::no_thread;

/// Signals are looked for at least every 100 ms.
pub const TICK: Duration = Duration::from_millis(50);

/// Does work on a thread of its own while the caller's thread looks for signals and calls `look`; after an exception of
/// either `stop` is called, which must end the work, and it is waited for.
pub fn run<T: Send>(
    py: Python<'_>,
    stop: impl Fn(),
    mut look: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (done, caller) = (AtomicBool::new(false), thread::current());
    thread::scope(|scope| {
        let body = || {
            let result = work();
            done.store(true, Ordering::Release);
            caller.unpark();
            result
        };
        let worker = thread::Builder::new().name("shoal-records".to_owned()).spawn_scoped(scope, body);
        let worker = worker.map_err(|refused| no_thread(py, &refused))?;
        let mut raised = None;
        // A panic of the work ends its thread without saying so.
        while !done.load(Ordering::Acquire) && !worker.is_finished() {
            py.detach(|| thread::park_timeout(TICK));
            if raised.is_none()
                && let Err(error) = py.check_signals().and_then(|()| look(py))
            {
                stop();
                raised = Some(error);
            }
        }
        let result = py.detach(|| worker.join());
        match (raised, result) {
            (Some(error), _) => Err(error),
            (None, Ok(result)) => Ok(result),
            (None, Err(_)) => Err(PyRuntimeError::new_err("the work on records panicked: this is a bug in shoal")),
        }
    })
}
