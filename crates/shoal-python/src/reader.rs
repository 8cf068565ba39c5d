//! `Reader`: the iterator of `shoal.read`. The run is in the background; the caller's thread takes its objects.
//!
//! Waiting is done without the interpreter, 50 ms at a time, with a look for signals in between. Several threads may take
//! from one reader: no lock is held across a call into Python. Objects come once: a second pass is refused.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyAny, PyCapsule, PyDict};
use shoal_engine::options::Durability;
use shoal_engine::sink::Sink;
use shoal_engine::sink::deliver::{Chunk, Deliver, DeliverSink, Delivery, Next};
use shoal_engine::sink::digest::{Checksum, DigestSink};
use shoal_engine::source::Source;
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Report, TransferOptions};

use crate::background::{Background, Teller, tell};
use crate::batches::Batches;
use crate::credentials::Headers;
use crate::errors::{OnError, config_error};
use crate::object::Object;
use crate::options::{Order, ReadOptions, of_run, size, take};
use crate::transfer::exiting;
use crate::{report, source};

/// Signals are looked for at least every 100 ms.
const TICK: Duration = Duration::from_millis(50);
/// Objects and bytes that go from a lane to an iterator at once: little enough to stay in a core's cache.
const CHUNK_ROWS: usize = 256;
const CHUNK_BYTES: usize = 256 << 10;
/// The same of a batch: enough rows that a table made of batches is quick to use.
const BATCH_ROWS: usize = 65_536;
const BATCH_BYTES: usize = 4 << 20;

/// Objects of a source, as an iterator.
#[pyclass(frozen, module = "shoal")]
pub struct Reader {
    /// Until it is begun.
    recipe: Mutex<Option<Recipe>>,
    flow: OnceLock<Arc<Flow>>,
    current: Mutex<Current>,
    teller: Mutex<Teller>,
    /// Called at the end, once.
    ended: Mutex<Option<Py<PyAny>>>,
    /// Its objects come as batches.
    batched: AtomicBool,
    /// It is an Arrow stream itself.
    streams: AtomicBool,
}

struct Recipe {
    source: Arc<dyn Source>,
    headers: Option<Headers>,
    options: TransferOptions,
    deliver: Deliver,
    /// Hand over checksums in place of the bytes.
    checksum: Option<Checksum>,
    on_error: OnError,
}

#[derive(Default)]
struct Current {
    chunk: Option<(Chunk, usize)>,
    /// Taken by other threads at the same time.
    later: VecDeque<Chunk>,
    /// The end has been told: an error once, from then on nothing.
    over: bool,
    /// The threads that were told. One that shares the work may come late and find nothing; one of these begins a second pass.
    told: HashSet<ThreadId>,
    closed: bool,
    /// Closed before the end: what was not taken is gone, so the run is not complete whatever it came to.
    early: bool,
}

/// The run and the consumer's end of it.
pub struct Flow {
    /// `None` only in `drop`.
    delivery: Option<Delivery>,
    run: Option<Background>,
    headers: Option<Headers>,
    on_error: OnError,
    /// All has been taken.
    ended: AtomicBool,
    /// An Arrow stream was told so.
    streamed: AtomicBool,
    /// Taken when a signal handler or the progress function raised: nothing was handed out then, so these come first.
    put_back: Mutex<VecDeque<Chunk>>,
}

/// What [`Flow::wait`] waited for.
pub enum Waited {
    Chunk(Chunk),
    End,
}

impl Flow {
    fn begin(py: Python<'_>, recipe: Recipe) -> PyResult<Flow> {
        let (sink, delivery) = DeliverSink::new(recipe.deliver);
        let front: Arc<dyn Sink> = match recipe.checksum {
            Some(checksum) => Arc::new(DigestSink::new(Arc::new(sink.clone()), checksum)),
            None => Arc::new(sink.clone()),
        };
        let transfer = Transfer::new(recipe.source, front, recipe.options);
        let run = Background::start(py, transfer, move || sink.end())?;
        Ok(Flow {
            delivery: Some(delivery),
            run: Some(run),
            headers: recipe.headers,
            on_error: recipe.on_error,
            ended: AtomicBool::new(false),
            streamed: AtomicBool::new(false),
            put_back: Mutex::default(),
        })
    }

    fn put_back(&self) -> MutexGuard<'_, VecDeque<Chunk>> {
        self.put_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, wait: Duration) -> Next {
        if let Some(chunk) = self.put_back().pop_front() {
            return Next::Chunk(chunk);
        }
        let next = self.delivery.as_ref().map_or(Next::End, |delivery| delivery.next(wait));
        if matches!(next, Next::End) {
            self.ended.store(true, Relaxed);
        }
        next
    }

    /// An Arrow stream has come to the end; what is not whole about it, as one line.
    pub fn end_stream(&self) -> Option<String> {
        self.streamed.store(true, Relaxed);
        let Outcome { report, error } = self.run.as_ref()?.outcome()?;
        self.on_error.line(report, error.as_ref())
    }

    fn run(&self) -> PyResult<&Background> {
        let gone = || pyo3::exceptions::PyRuntimeError::new_err("this reader is gone");
        self.run.as_ref().ok_or_else(gone)
    }

    /// Waits for the next chunk, without the interpreter and without looking for signals.
    pub fn wait(&self) -> Waited {
        loop {
            match self.next(Duration::from_secs(1)) {
                Next::Chunk(chunk) => return Waited::Chunk(chunk),
                Next::End => return Waited::End,
                Next::Nothing => {}
            }
        }
    }

    /// Calls the function for headers, if the run waits for some. What it raises ends the run.
    fn serve(&self, py: Python<'_>) -> PyResult<()> {
        let run = self.run()?;
        self.headers.as_ref().map_or(Ok(()), |headers| headers.serve_or_stop(py, run))
    }

    fn stop(&self) {
        if let Some(run) = &self.run {
            run.stop();
        }
        if let Some(delivery) = &self.delivery {
            delivery.close();
        }
        let dropped = std::mem::take(&mut *self.put_back());
        drop(dropped); // outside the lock
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if self.run.as_ref().is_some_and(|run| !run.is_here()) {
            // In a forked child: the run's threads are in the parent, and may have held any lock when it forked.
            std::mem::forget((self.delivery.take(), self.run.take()));
        }
    }
}

impl Reader {
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recipe(&self) -> MutexGuard<'_, Option<Recipe>> {
        self.recipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run, begun if need be.
    pub fn flow(&self, py: Python<'_>) -> PyResult<Arc<Flow>> {
        if let Some(flow) = self.flow.get() {
            return Ok(flow.clone());
        }
        let recipe = self.recipe().take();
        match recipe {
            Some(recipe) => {
                let flow = Arc::new(Flow::begin(py, recipe)?);
                Ok(self.flow.get_or_init(|| flow).clone())
            }
            None => self.flow.get().cloned().ok_or_else(|| closed(py)),
        }
    }

    /// The next chunk, or `None` when all have been taken; the end is still to be told then.
    pub fn next_chunk(&self, py: Python<'_>) -> PyResult<Option<Chunk>> {
        if self.current().over {
            // Another thread came to the end while this one put a chunk back.
            return Ok(self.flow.get().and_then(|flow| flow.put_back().pop_front()));
        }
        let flow = self.flow(py)?;
        flow.run()?.check_process("this reader")?;
        loop {
            let next = match flow.next(Duration::ZERO) {
                Next::Nothing => py.detach(|| flow.next(TICK)),
                next => next,
            };
            if let Err(raised) = self.look(py, &flow) {
                if let Next::Chunk(chunk) = next {
                    flow.put_back().push_front(chunk);
                }
                return Err(raised);
            }
            match next {
                Next::Chunk(chunk) => return Ok(Some(chunk)),
                Next::Nothing => {}
                Next::End => return Ok(None),
            }
        }
    }

    /// Tells the end; the error that ended the run is raised once.
    pub fn end(&self, py: Python<'_>) -> PyResult<()> {
        // Before `over` is set: where a signal handler stops in it, the next call still tells the run's error.
        self.tell_end(py)?;
        let was_over = {
            let mut current = self.current();
            current.told.insert(std::thread::current().id());
            std::mem::replace(&mut current.over, true)
        };
        match self.flow.get() {
            Some(flow) if !was_over => self.conclude(py, flow),
            _ => Ok(()),
        }
    }

    /// Refuses a pass over what has been consumed.
    pub fn begin_pass(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_closed() {
            return Err(closed(py));
        }
        let streamed = self.flow.get().is_some_and(|flow| flow.streamed.load(Relaxed));
        let told = self.current().told.contains(&std::thread::current().id());
        match streamed || told {
            true => Err(config_error(py, "already consumed: objects come once", Some("call shoal.read again"))),
            false => Ok(()),
        }
    }

    pub fn is_closed(&self) -> bool {
        self.current().closed
    }

    /// Refuses a stream, which is taken from without the interpreter, where a function of Python gives the headers.
    pub fn check_streams(&self, py: Python<'_>) -> PyResult<()> {
        let begun = self.flow.get().is_some_and(|flow| flow.headers.is_some());
        if begun || self.recipe().as_ref().is_some_and(|recipe| recipe.headers.is_some()) {
            let why = "objects cannot be passed on as an Arrow stream if a function or program gives headers or keys";
            return Err(config_error(py, why, Some("iterate over batches()")));
        }
        Ok(())
    }

    fn check_not_batched(&self, py: Python<'_>) -> PyResult<()> {
        match self.batched.load(Relaxed) {
            true => {
                Err(config_error(py, "this reader was turned into batches: iterate over what batches() returned", None))
            }
            false => Ok(()),
        }
    }

    /// Signals, which loops of the interpreter's own such as `list(reader)` do not look for, and the progress function.
    fn look(&self, py: Python<'_>, flow: &Flow) -> PyResult<()> {
        py.check_signals()?;
        flow.serve(py)?;
        let due = self.teller.lock().unwrap_or_else(PoisonError::into_inner).due(py);
        match due {
            Some(function) => tell(py, &function, &flow.run()?.progress()),
            None => Ok(()),
        }
    }

    /// Calls the function for the end with the report, or with None if the run was not started.
    fn tell_end(&self, py: Python<'_>) -> PyResult<()> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        ended.map_or(Ok(()), |ended| ended.call1(py, (self.told(py)?,)).map(drop))
    }

    /// The report, which is not complete where the reader was closed before its end.
    fn told<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(flow) = self.flow.get() else { return Ok(None) };
        let run = flow.run()?;
        run.check_process("this reader")?;
        let early = self.current().early;
        let Some(outcome) = py.detach(|| run.outcome()) else { return Ok(None) };
        let complete = outcome.report.complete && !early;
        report::report(py, &Report { complete, ..outcome.report.clone() }).map(Some)
    }

    fn conclude(&self, py: Python<'_>, flow: &Flow) -> PyResult<()> {
        if let Some(raised) = flow.headers.as_ref().and_then(Headers::take_raised) {
            return Err(raised);
        }
        let run = flow.run()?;
        let Some(Outcome { report, error }) = py.detach(|| run.outcome()) else { return Ok(()) };
        let Some(raised) = flow.on_error.raised(py, report, error.as_ref(), false) else { return Ok(()) };
        if let Some(exiting) = exiting(run.told_to_stop()) {
            return Err(exiting);
        }
        raised.value(py).setattr("report", report::report(py, report)?)?;
        Err(raised)
    }
}

fn closed(py: Python<'_>) -> PyErr {
    config_error(py, "this reader is closed", Some("call shoal.read again"))
}

#[pymethods]
impl Reader {
    /// Described by `shoal.read`, which calls it.
    #[new]
    fn new(
        py: Python<'_>,
        source: source::Given<'_>,
        options: &Bound<'_, PyDict>,
        progress: Option<Py<PyAny>>,
        ended: Py<PyAny>,
    ) -> PyResult<Reader> {
        let (mut engine, on_error) = of_run(options)?;
        engine.durability = Durability::None; // nothing is stored
        let read: ReadOptions = take(options)?;
        let (source, headers) = source::open(py, source, &mut engine, read.order == Order::Source)?;
        let deliver = Deliver {
            memory: engine.memory,
            rows: CHUNK_ROWS,
            bytes: CHUNK_BYTES,
            apart: true,
            utf8_names: false,
            any_name: source.properties().has_keys && read.checksum.is_none(), // a manifest is of a copy
            ordered: read.order == Order::Source,
            piece: read.chunk_size,
        };
        let recipe = Recipe { source, headers, options: engine, deliver, checksum: read.checksum, on_error };
        Ok(Reader {
            recipe: Mutex::new(Some(recipe)),
            flow: OnceLock::new(),
            current: Mutex::default(),
            teller: Mutex::new(Teller::new(progress)),
            ended: Mutex::new(Some(ended)),
            batched: AtomicBool::new(false),
            streams: AtomicBool::new(false),
        })
    }

    fn __iter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        slf.get().check_not_batched(py)?;
        slf.get().begin_pass(py)?;
        Ok(slf)
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Object>> {
        // Also while there are objects: a slow consumer has many at hand, and the lanes wait meanwhile.
        if let Some(flow) = self.flow.get().filter(|flow| flow.headers.is_some()) {
            flow.run()?.check_process("this reader")?;
            flow.serve(py)?;
        }
        loop {
            {
                let mut current = self.current();
                if let Some((chunk, at)) = &mut current.chunk {
                    let object = Object::of(chunk, *at);
                    *at += 1;
                    if *at == chunk.len() {
                        current.chunk = current.later.pop_front().map(|chunk| (chunk, 0));
                    }
                    return Ok(Some(object));
                }
            }
            self.check_not_batched(py)?;
            let Some(chunk) = self.next_chunk(py)? else { return self.end(py).map(|()| None) };
            let mut current = self.current();
            match current.chunk {
                None => current.chunk = Some((chunk, 0)),
                Some(_) => current.later.push_back(chunk),
            }
        }
    }

    /// The objects as Arrow record batches: of exactly `batch_size` objects until the last, or of at most `chunk_size` bytes.
    #[pyo3(signature = (batch_size=None, *, chunk_size=None), text_signature = "(self, batch_size=None, *, \
    chunk_size=None)")]
    fn batches(
        slf: Py<Self>,
        py: Python<'_>,
        batch_size: Option<Bound<'_, PyAny>>,
        chunk_size: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Batches> {
        let batch_size = match batch_size {
            Some(given) => match given.extract::<usize>() {
                Ok(size @ 1..) => Some(size),
                _ => {
                    let why = format!("batch_size must be a whole number of 1 or more, got {}", given.repr()?);
                    return Err(config_error(py, &why, None));
                }
            },
            None => None,
        };
        if batch_size.is_some() && chunk_size.is_some() {
            return Err(config_error(py, "batch_size and chunk_size cannot be used together", None));
        }
        let bytes = match chunk_size {
            Some(given) => usize::try_from(size(py, &given, "chunk_size")?).unwrap_or(usize::MAX),
            None => BATCH_BYTES,
        };
        let rows = batch_size.unwrap_or(BATCH_ROWS).min(BATCH_ROWS);
        let reader = slf.get();
        let mut recipe = reader.recipe();
        match recipe.as_mut().filter(|_| !reader.batched.load(Relaxed)) {
            Some(recipe) => {
                recipe.deliver = Deliver { rows, bytes, apart: false, utf8_names: true, ..recipe.deliver.clone() };
            }
            None => {
                drop(recipe);
                let why = "this reader is being read already: its objects come once";
                return Err(config_error(py, why, Some("call batches() before anything else, or shoal.read again")));
            }
        }
        reader.batched.store(true, Relaxed);
        drop(recipe);
        Ok(Batches::new(slf, batch_size))
    }

    /// The stream of `batches()`, so that a table can be made of the reader itself: Polars would iterate over it twice.
    /// DuckDB asks for a stream only to see the columns, so it can be asked for until one is read.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        slf: Py<Self>,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = match slf.get().streams.load(Relaxed) {
            false => Reader::batches(slf.clone_ref(py), py, None, None)?,
            true => Batches::new(slf.clone_ref(py), None),
        };
        slf.get().streams.store(true, Relaxed);
        batches.__arrow_c_stream__(py, requested_schema)
    }

    /// Stops the run, if it is still going, and waits until its threads have ended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        drop(self.recipe().take());
        let flow = self.flow.get();
        // Without waiting: in a forked child the lock may be held for ever.
        let nothing_back = |flow: &Flow| flow.put_back.try_lock().is_ok_and(|back| back.is_empty());
        let ended = flow.is_some_and(|flow| flow.ended.load(Relaxed) && nothing_back(flow));
        let dropped = {
            let mut current = self.current();
            let left = current.chunk.is_some() || !current.later.is_empty();
            let early = current.early || left || !(current.over || ended);
            std::mem::replace(&mut *current, Current { over: true, closed: true, early, ..Current::default() })
        };
        drop(dropped); // what was taken and not given out, outside the lock
        if let Some(flow) = flow {
            let run = flow.run()?;
            run.check_process("this reader")?;
            flow.stop();
            py.detach(|| run.outcome());
        }
        self.tell_end(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    /// The report, once the last object has been taken or the reader was closed; before that None.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let over = |flow: &&Arc<Flow>| self.current().over || flow.ended.load(Relaxed);
        match self.flow.get().filter(over) {
            Some(_) => self.told(py),
            None => Ok(None),
        }
    }
}
