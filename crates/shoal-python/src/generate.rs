//! `Generation`: the run of `shoal.generate`, as the caller's thread sees it. The run is on threads of its own and only keeps
//! account; processes that the caller started make the objects and write them (`placer.rs`).
//!
//! Nothing here waits but `finish`: the caller waits for [`Generation::fileno`] together with the pipes of its processes.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use shoal_engine::options::Workers;
use shoal_engine::sink::Put;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::source::ids::{Answer, Caller, ids};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Error, Kind, Progress, Report, Step};

use crate::background::Background;
use crate::data;
use crate::errors::{OnError, config_error, run_error};
use crate::options::{EncodeOptions, of_run, take};
use crate::placer::{Done, Failed, Place, to_place};
use crate::registry::scheme;
use crate::report;

/// The run of `shoal.generate`.
#[pyclass(frozen, module = "shoal._shoal")]
pub struct Generation {
    run: Background,
    caller: Caller,
    /// Let go of at the end: it holds the lock of the destination, and a traceback may hold this for long.
    sink: Mutex<Option<Arc<DirSink>>>,
    /// Becomes readable when there is something to look at.
    bell: UnixStream,
    ended: Arc<AtomicBool>,
    on_error: OnError,
    /// What the report says of the workers.
    workers: (usize, String),
}

#[pymethods]
impl Generation {
    /// Starts the run; `shoal._generate` calls it.
    #[new]
    fn new(
        py: Python<'_>,
        destination: OsString,
        options: &Bound<'_, PyDict>,
        job: (String, String, u64),
        in_flight: usize,
        workers: (usize, String),
    ) -> PyResult<Generation> {
        let (identity, arguments, count) = job;
        let (mut engine, on_error) = of_run(options)?;
        let encode: EncodeOptions = take(options)?;
        engine.workers = Workers::Fixed(in_flight.max(1));
        let dir = DirOptions::of(&engine);
        if scheme(destination.as_bytes()).is_some() {
            let shown = destination.display();
            return Err(config_error(
                py,
                &format!("generate writes files: the destination must be a directory, not {shown}"),
                None,
            ));
        }
        let sink = Arc::new(DirSink::new(Path::new(&destination), dir).map_err(|error| run_error(py, &error))?);

        let (bell, ringing) = UnixStream::pair().map_err(PyOSError::new_err)?;
        bell.set_nonblocking(true).and_then(|()| ringing.set_nonblocking(true)).map_err(PyOSError::new_err)?;
        let ringing = Arc::new(ringing);
        let ring = move || {
            let _ = (&*ringing).write(&[0]); // full: it is ringing already
        };
        let (source, caller) = ids(identity, count, ring.clone());
        let ended = Arc::new(AtomicBool::new(false));
        let over = ended.clone();
        let transfer = Transfer::new(Arc::new(source), sink.clone(), engine)
            .bound_to([("arguments".to_owned(), arguments)])
            .bound_to(encode.bound());
        let run = Background::start(py, transfer, move || {
            over.store(true, Ordering::Release);
            ring();
        })?;
        let sink = Mutex::new(Some(sink));
        Ok(Generation { run, caller, sink, bell, ended, on_error, workers })
    }

    /// What to wait for.
    fn fileno(&self) -> i32 {
        self.bell.as_raw_fd()
    }

    /// Silences what was waited for; what there is to look at is looked at after this.
    fn heed(&self) {
        let mut rung = [0; 64];
        while matches!((&self.bell).read(&mut rung), Ok(read) if read == rung.len()) {}
    }

    /// Whether the run is over.
    #[getter]
    fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The first of the ids whose names are wanted, and the one behind the last.
    fn names_wanted(&self) -> Option<(u64, u64)> {
        self.caller.names_wanted().map(|range| (range.start, range.end))
    }

    /// The names that were wanted.
    fn offer(&self, py: Python<'_>, start: u64, names: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let named = |name: &Bound<'_, PyAny>| Ok(data::name(name)?.0.into());
        let names: Vec<Box<[u8]>> = names.iter().map(named).collect::<PyResult<_>>()?;
        self.caller.offer(start, names).map_err(|error| run_error(py, &error))
    }

    /// What a process needs to write for this run; `None` before the run has opened its destination.
    fn place(&self) -> Option<Place> {
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = sink.as_ref()?;
        sink.joining().map(|joined| to_place(sink.path(), joined))
    }

    /// The next objects to make: token, index of the id, name, and whether something of it may be there already.
    fn take<'py>(&self, py: Python<'py>, most: usize) -> Vec<(u64, u64, Bound<'py, PyBytes>, bool)> {
        let tasks = self.caller.take(most);
        tasks.iter().map(|task| (task.token, task.index, PyBytes::new(py, &task.name), task.again)).collect()
    }

    /// How many objects wait to be taken.
    fn waiting(&self) -> usize {
        self.caller.waiting()
    }

    /// Says what was written.
    fn done(&self, outcomes: Vec<Done>) {
        self.caller.answer(outcomes.into_iter().map(|(token, size, written)| {
            (token, Answer::Done { size, put: if written { Put::Written } else { Put::Duplicate } })
        }));
    }

    /// Says what was not, and why.
    fn failed(&self, outcomes: Vec<Failed>) {
        self.caller.answer(outcomes.into_iter().map(|(token, kind, reason, hint, errno)| {
            let known = Kind::ALL.iter().copied().find(|known| known.as_str() == kind);
            let error = Error::new(known.unwrap_or(Kind::Internal), reason).errno(errno);
            (token, Answer::Failed(hint.into_iter().fold(error, Error::hint)))
        }));
    }

    /// How far it is.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        report::progress(py, &Progress { workers: self.workers.0, ..self.run.progress() })
    }

    /// Tells it to stop, as Ctrl-C does.
    fn stop(&self) {
        self.run.stop();
    }

    /// Waits for its end. The report, and the exception that it ended with.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
        self.run.check_process("this run")?;
        let Some(Outcome { report, error }) = py.detach(|| self.run.outcome()) else {
            return Err(config_error(py, "two threads wait for this run", None));
        };
        drop(self.sink.lock().unwrap_or_else(PoisonError::into_inner).take());
        let told = with_workers(report.clone(), &self.workers);
        let report = report::report(py, &told)?;
        let Some(raised) = self.on_error.raised(py, &told, error.as_ref(), true) else { return Ok((report, None)) };
        let raised = raised.into_value(py).into_bound(py).into_any();
        raised.setattr("report", &report)?;
        Ok((report, Some(raised)))
    }
}

/// A report with the caller's processes, whose number stays, in place of the objects that the engine had in flight.
fn with_workers(mut report: Report, (workers, reason): &(usize, String)) -> Report {
    let seconds = report.elapsed.as_secs_f64();
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let (objects_per_second, bytes_per_second) = (rate(report.run.written), rate(report.run.bytes));
    let held = Step { workers: *workers, objects_per_second, bytes_per_second, ..Step::default() };
    report.concurrency = report.concurrency.first().map(|_| held).into_iter().collect(); // none if nothing was done
    (report.workers, report.workers_reason) = (*workers, reason.clone());
    report
}
