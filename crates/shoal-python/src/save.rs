//! `save`: the caller's thread iterates and hands items over; the run is on threads of its own.
//!
//! The caller's thread is the only one that touches Python. Whenever it waits, for room or for the end, it is detached and
//! comes back every 50 ms to look for signals and to call the progress function. Items are made and dropped here.
//! Not here: what an item may be (`data.rs`), batches and bounds (the engine's source of items).

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyIterator};
use shoal_engine::TransferOptions;
use shoal_engine::source::items::{Pusher, Room, items};
use shoal_engine::transfer::{Outcome, Transfer};

use crate::background::{Background, Teller, tell};
use crate::data::{self, Data};
use crate::errors::run_error;
use crate::options::{EncodeOptions, of_run, take};
use crate::registry::OpenSink;
use crate::sink;
use crate::transfer::{conclude, exiting};

/// How often signals are looked for: within 100 ms is promised.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long what was handed over is still saved after Ctrl-C: the whole takes under 2 s.
const INTERRUPTED_PATIENCE: Duration = Duration::from_millis(1500);

/// Saves every item into the sink. `shoal.save` says all of it.
#[pyfunction]
pub fn save<'py>(
    py: Python<'py>,
    items: &Bound<'py, PyAny>,
    destination: sink::Given<'py>,
    options: &Bound<'py, PyDict>,
    source_id: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (engine, on_error) = of_run(options)?;
    let (encode, open) = (take(options)?, sink::opener(py, destination)?);
    let iterator = items.try_iter()?;
    let mut saving = Saving::start(py, open, engine, source_id, &encode, progress)?;
    let end = saving.push_all(py, &iterator);
    if let End::Forked(error) = end {
        // The run and its threads are the parent's: nothing of it is waited for, locked or freed here.
        std::mem::forget(saving);
        return Err(error);
    }
    let (outcome, raised) = saving.finish(py, end)?;
    if let Some(raised) = &raised {
        let note = format!("shoal: {} objects were saved before this", outcome.report.run.written);
        // An exception of the user's own may have no notes; it is passed on all the same.
        let _ = raised.value(py).call_method1("add_note", (note,));
    }
    conclude(py, outcome, raised, on_error, source_id.is_some())
}

/// Why no further item is requested.
enum End {
    /// There are no more items.
    All,
    /// The run is over.
    RunOver,
    /// Iterating raised this, or an item is invalid, or a signal arrived.
    Raised(PyErr),
    /// This is a child, forked while iterating.
    Forked(PyErr),
}

/// A run and the items on their way to it.
struct Saving {
    run: Background,
    pusher: Pusher<Data>,
    encode: shoal_encode::Options,
    teller: Teller,
    looked: Instant,
}

impl Saving {
    fn start(
        py: Python<'_>,
        open: OpenSink,
        engine: TransferOptions,
        source_id: Option<&str>,
        encode: &EncodeOptions,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Saving> {
        let (source, pusher) = items::<Data>(source_id, engine.memory);
        let sink = py.detach(|| open(&engine)).map_err(|error| run_error(py, &error))?;
        // Its end is known by the source, which ends with it.
        let transfer = Transfer::new(Arc::new(source), sink, engine).bound_to(encode.bound());
        let run = Background::start(py, transfer, || {})?;
        let encode = encode.to_encoder();
        Ok(Saving { run, pusher, encode, teller: Teller::new(progress), looked: Instant::now() })
    }

    fn push_all(&mut self, py: Python<'_>, iterator: &Bound<'_, PyIterator>) -> End {
        let mut iterator = iterator.clone();
        loop {
            match self.pusher.room() {
                Room::Ended => return End::RunOver,
                Room::Free => {
                    let next = iterator.next();
                    match self.take(py, next) {
                        Ok(()) => {}
                        Err(end) => return end,
                    }
                }
                Room::Full => {
                    py.detach(|| self.pusher.wait(LOOK_EVERY));
                    drop(self.pusher.returned());
                }
            }
            if let Err(raised) = self.look(py) {
                return self.raised(raised);
            }
        }
    }

    /// Hands over what the iterator gave.
    fn take(&mut self, py: Python<'_>, next: Option<PyResult<Bound<'_, PyAny>>>) -> Result<(), End> {
        if let Err(error) = self.run.check_process("this run") {
            // What the child raised itself, such as SystemExit, ends it as it wanted.
            return Err(End::Forked(next.and_then(Result::err).unwrap_or(error)));
        }
        let item = next.ok_or(End::All)?.map_err(End::Raised)?;
        let closed = self.push(&item).map_err(|error| self.at_position(py, error))?;
        if closed {
            drop(self.pusher.returned());
        }
        Ok(())
    }

    fn push(&mut self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (name, data) = data::pair(item)?;
        let (name, refused) = data::name(&name)?;
        if !self.pusher.needs(&name) {
            return Ok(false);
        }
        let data = match refused {
            Some(refused) => refused,
            None => data::data(&data, &name, self.encode)?,
        };
        Ok(self.pusher.push(&name, data))
    }

    /// A TypeError of `data.rs` says what is wrong; here it is said of which item. Other exceptions come from the user's own
    /// objects. Looking at an item runs their code, which may have forked.
    fn at_position(&self, py: Python<'_>, error: PyErr) -> End {
        if !self.run.is_here() {
            return End::Forked(error);
        }
        if !error.is_instance_of::<PyTypeError>(py) {
            return End::Raised(error);
        }
        let position = self.pusher.pushed();
        End::Raised(PyTypeError::new_err(format!(
            "item {position} (counted from 0) is not an object: {}",
            error.value(py)
        )))
    }

    fn raised(&self, raised: PyErr) -> End {
        match self.run.is_here() {
            true => End::Raised(raised),
            false => End::Forked(raised),
        }
    }

    /// Looks for signals and calls the progress function, when it is time.
    fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        py.check_signals()?;
        if let Some(function) = self.teller.due(py)
            && let Err(raised) = tell(py, &function, &self.run.progress())
        {
            self.run.stop();
            return Err(raised);
        }
        self.run.check_process("this run")
    }

    /// Waits for the end of the run; what it came to, and what is to be raised instead. An error: this is a forked child.
    fn finish(mut self, py: Python<'_>, end: End) -> PyResult<(Outcome, Option<PyErr>)> {
        let whole = matches!(end, End::All);
        let mut raised = match end {
            End::Raised(raised) | End::Forked(raised) => Some(raised),
            End::All | End::RunOver => None,
        };
        let interrupted = |raised: &PyErr| !raised.is_instance_of::<PyException>(py);
        let mut until =
            raised.as_ref().filter(|raised| interrupted(raised)).map(|_| Instant::now() + INTERRUPTED_PATIENCE);
        self.pusher.finish(whole);
        while !self.pusher.has_ended() {
            py.detach(|| self.pusher.wait_for_end(LOOK_EVERY));
            drop(self.pusher.returned());
            if until.is_some_and(|until| Instant::now() >= until) {
                self.run.stop();
            }
            if let Err(new) = self.look(py) {
                if !self.run.is_here() {
                    std::mem::forget(self);
                    return Err(new);
                }
                // Asked a second time, or nothing is left to wait for but the run itself: it stops now.
                self.run.stop();
                until = None;
                new.set_cause(py, raised.take());
                raised = Some(new);
            }
        }
        let Saving { mut run, pusher, .. } = self;
        let outcome = py.detach(|| run.take_outcome());
        drop(pusher); // what no lane came to, on this thread and attached
        let raised = raised.or_else(|| exiting(run.told_to_stop()));
        let outcome = outcome.ok_or_else(|| PyRuntimeError::new_err("another thread waited for this run"))?;
        Ok((outcome, raised))
    }
}
