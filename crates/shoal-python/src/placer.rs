//! `Placer`: in a process that works for `shoal.generate`, encodes and writes what its function returns.
//!
//! ```text
//! put(token, name, data) ──▶ queue, bounded by bytes ──▶ a thread: encode, create, write ──▶ outcomes ──▶ collect()
//! ```
//!
//! The thread never touches Python: data comes back to be dropped in `put` and `collect`. A second thread holds the
//! **leash**, a pipe whose other end the caller's process has: when that is closed or its process is dead, this process
//! ends, after the file that is being written. Not here: what data may be (`data.rs`), the run (`generate.rs`).

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};
use shoal_engine::fs::neighbour::lower_priority;
use shoal_engine::session::Interval;
use shoal_engine::sink::dir::{DirOptions, DirSink, Joined};
use shoal_engine::sink::{Mode, PartitionWriter, Put, Sink, Writer};
use shoal_engine::source::items::Item;
use shoal_engine::{Cursor, Error, Key, Kind, Name, ObjectMeta, Partition, Payload, Result};

use crate::data::{self, Data};
use crate::errors::{no_thread, run_error};
use crate::fork::Owner;
use crate::options::{EncodeOptions, of_run, take};

/// How often signals are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What is larger is written beside its place in pieces of this size, and appears whole.
const DIRECT_MAX: usize = 8 << 20;
/// Memory in which one object was encoded that is kept for the next.
const SCRATCH_KEPT: usize = 4 << 20;
/// Objects after which a partition is closed and another opened: each remembers the directories it has written in.
const PARTITION_OBJECTS: u32 = 1000;
/// How long the leash waits for the file that is being written.
const LAST_FILE: Duration = Duration::from_millis(500);
/// The exit code of a process after its leash was closed: it is not read.
const LET_GO: i32 = 1;

/// An earlier session as Python carries it: low, seen, high, barrier, same boot, sound, volatile, superseded, same root,
/// whole.
type Session = (i64, i64, i64, Option<i64>, bool, bool, bool, bool, bool, bool, bool);

/// What a process needs to write for a run, as Python carries it: the path, the earlier sessions, when this one began, the
/// mode of a file, whether births are known, whether names fold, the part of a job.
pub type Place = (PathBuf, Vec<Session>, i64, u32, bool, bool, Option<(u32, u32)>);

/// What joins a process to a run.
pub fn to_place(path: &Path, joined: Joined) -> Place {
    let Joined { sessions, began, file_mode, births, folds, part } = joined;
    let carried = |session: Interval| {
        let Interval { low, seen, high, barrier, same_boot, sound, failed, volatile, superseded, same_root, whole } =
            session;
        (low, seen, high, barrier, same_boot, sound, failed, volatile, superseded, same_root, whole)
    };
    let sessions = sessions.into_iter().map(carried).collect();
    (path.to_owned(), sessions, began, file_mode, births, folds, part.map(|part| (part.index(), part.count())))
}

fn from_place(place: Place) -> PyResult<(PathBuf, Joined)> {
    let (path, sessions, began, file_mode, births, folds, part) = place;
    let session =
        |(low, seen, high, barrier, same_boot, sound, failed, volatile, superseded, same_root, whole): Session| {
            Interval { low, seen, high, barrier, same_boot, sound, failed, volatile, superseded, same_root, whole }
        };
    let sessions = sessions.into_iter().map(session).collect();
    let part = part.map(crate::options::part).transpose()?;
    Ok((path, Joined { sessions, began, file_mode, births, folds, part }))
}

/// An object that is written: its token, its bytes, and false where another had its name.
pub type Done = (u64, u64, bool);
/// One that is not: its token, the kind and text of the error, a hint, and the operating system's number.
pub type Failed = (u64, String, String, Option<String>, Option<i32>);

struct Work {
    token: u64,
    name: Vec<u8>,
    mode: Mode,
    data: Data,
    /// What it counts for in memory.
    held: u64,
}

struct Outcome {
    token: u64,
    result: Result<(u64, Put)>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    /// Bytes of what is queued or being written.
    held: u64,
    /// Objects queued or being written.
    open: usize,
    outcomes: Vec<Outcome>,
    /// To be dropped by a thread that is attached.
    returned: Vec<Data>,
    closing: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The writing thread waits here.
    work: Condvar,
    /// `put` and `collect` wait here.
    written: Condvar,
    /// Held while a file is being written.
    writing: Mutex<()>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes objects for a run that another process has started.
#[pyclass(frozen, module = "shoal._shoal")]
pub struct Placer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    memory: u64,
    encode: shoal_encode::Options,
    owner: Owner,
}

#[pymethods]
impl Placer {
    /// Joins the run at this place (`Generation.place()`). `nice`: lowers the priority of the calling thread, which is one of
    /// `shoal.generate`, and so of those that it starts from now on. `leash`: a file descriptor.
    #[new]
    #[allow(clippy::too_many_arguments)] // called in one place, with a tuple of them
    fn new(
        py: Python<'_>,
        place: Place,
        options: &Bound<'_, PyDict>,
        memory: u64,
        leash: Option<i32>,
    ) -> PyResult<Placer> {
        let (run, _) = of_run(options)?;
        let encode: EncodeOptions = take(options)?;
        if run.nice {
            let _ = lower_priority(); // what the kernel refuses, the threads of the run tell
        }
        let options = DirOptions { part: None, ..DirOptions::of(&run) };
        let (path, joined) = from_place(place)?;
        let sink = DirSink::join(&path, options, joined).map_err(|error| run_error(py, &error))?;
        let shared = Arc::new(Shared::default());
        if let Some(leash) = leash {
            let held = shared.clone();
            start(py, "shoal-leash", move || hold(leash, &held))?;
        }
        let writing = shared.clone();
        let thread = start(py, "shoal-place", move || write_all(&sink, &writing))?;
        Ok(Placer {
            shared,
            thread: Mutex::new(Some(thread)),
            memory,
            encode: encode.to_encoder(),
            owner: Owner::here(),
        })
    }

    /// Hands data over to be written; waits while too much of it waits already. `again`: 1 if an earlier session may have
    /// made it, 2 if a process of this one has died over it.
    fn put(&self, py: Python<'_>, token: u64, name: &[u8], data: &Bound<'_, PyAny>, again: u8) -> PyResult<()> {
        let mode = [Mode::First, Mode::Redo, Mode::Reissued][usize::from(again.min(2))];
        self.owner.check("this process of shoal.generate")?;
        let data = data::data(data, name, self.encode)?;
        let held = data.held();
        loop {
            let mut state = self.shared.state();
            if state.held + held <= self.memory || state.open == 0 {
                state.held += held;
                state.open += 1;
                state.queue.push_back(Work { token, name: name.to_vec(), mode, data, held });
                let returned = std::mem::take(&mut state.returned);
                drop(state);
                self.shared.work.notify_one();
                drop(returned);
                return Ok(());
            }
            drop(state);
            let full = |state: &mut State| state.open > 0 && state.held + held > self.memory;
            py.detach(|| drop(self.shared.written.wait_timeout_while(self.shared.state(), LOOK_EVERY, full)));
            py.check_signals()?;
        }
    }

    /// What was written since the last call, and what was not; `wait`: of all that was handed over.
    fn collect(&self, py: Python<'_>, wait: bool) -> PyResult<(Vec<Done>, Vec<Failed>)> {
        self.owner.check("this process of shoal.generate")?;
        while wait && self.shared.state().open > 0 {
            let busy = |state: &mut State| state.open > 0;
            py.detach(|| drop(self.shared.written.wait_timeout_while(self.shared.state(), LOOK_EVERY, busy)));
            py.check_signals()?;
        }
        let mut state = self.shared.state();
        let (outcomes, returned) = (std::mem::take(&mut state.outcomes), std::mem::take(&mut state.returned));
        drop(state);
        drop(returned);
        let (mut done, mut failed) = (Vec::with_capacity(outcomes.len()), Vec::new());
        for Outcome { token, result } in outcomes {
            match result {
                Ok((size, put)) => done.push((token, size, put != Put::Duplicate)),
                Err(error) => failed.push((
                    token,
                    error.kind().as_str().to_owned(),
                    error.why().to_owned(),
                    error.advice().map(str::to_owned),
                    error.os_error(),
                )),
            }
        }
        Ok((done, failed))
    }

    /// Ends, after all that was handed over is written.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.owner.check("this process of shoal.generate")?;
        self.shared.state().closing = true;
        self.shared.work.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| thread.map(JoinHandle::join));
        let returned = std::mem::take(&mut self.shared.state().returned);
        drop(returned);
        Ok(())
    }
}

impl Drop for Placer {
    fn drop(&mut self) {
        if self.owner.is_here() {
            self.shared.state().closing = true;
            self.shared.work.notify_one();
        } else {
            // In a forked child: the threads are in the parent, and may have held any lock when it forked.
            std::mem::forget(self.shared.clone());
            if let Ok(mut thread) = self.thread.try_lock() {
                std::mem::forget(thread.take());
            }
        }
    }
}

fn start<T: Send + 'static>(
    py: Python<'_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> PyResult<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|refused| no_thread(py, &refused))
}

/// Waits for the other end of the leash to be let go, then ends the process.
fn hold(leash: i32, shared: &Shared) {
    let mut poll = libc::pollfd { fd: leash, events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one valid `pollfd`, which lives on this stack.
        let found = unsafe { libc::poll(&raw mut poll, 1, -1) };
        if found > 0 {
            break;
        }
    }
    let until = Instant::now() + LAST_FILE;
    let _last = loop {
        match shared.writing.try_lock() {
            Err(std::sync::TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            held => break held.ok(),
        }
    };
    // SAFETY: `_exit` takes any number and runs nothing of ours or of Python's, which may be busy in the function.
    unsafe { libc::_exit(LET_GO) }
}

/// The writing thread.
fn write_all(sink: &DirSink, shared: &Shared) {
    let mut hand = sink.writer(0, Arc::new(|| {})).map(Hand::new);
    let mut scratch = Vec::new();
    loop {
        let waiting = |state: &mut State| state.queue.is_empty() && !state.closing;
        let mut state = shared.work.wait_while(shared.state(), waiting).unwrap_or_else(PoisonError::into_inner);
        let Some(work) = state.queue.pop_front() else { return };
        drop(state);
        let result = {
            let _writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut hand {
                Ok(hand) => hand.place(&work, &mut scratch),
                Err(error) => Err(Error::new(error.kind(), error.why())),
            }
        };
        match scratch.capacity() <= SCRATCH_KEPT {
            true => scratch.clear(),
            false => scratch = Vec::new(),
        }
        let mut state = shared.state();
        state.held -= work.held;
        state.open -= 1;
        state.outcomes.push(Outcome { token: work.token, result });
        state.returned.push(work.data);
        drop(state);
        shared.written.notify_all();
    }
}

/// The writer of the process, with an open partition for each mode.
struct Hand {
    lane: Box<dyn Writer>,
    open: [Option<(Box<dyn PartitionWriter>, u32)>; 3],
}

impl Hand {
    fn new(lane: Box<dyn Writer>) -> Hand {
        Hand { lane, open: [const { None }; 3] }
    }

    fn place(&mut self, work: &Work, scratch: &mut Vec<u8>) -> Result<(u64, Put)> {
        let name = Name::parse(&work.name)?.into();
        let writer = self.writer(work.mode)?;
        let bytes = work.data.data(scratch)?;
        let size = bytes.len() as u64;
        let meta = ObjectMeta { size: Some(size), ..ObjectMeta::default() };
        if bytes.len() <= DIRECT_MAX {
            return Ok((size, writer.put(0, &name, &meta, &mut Payload::Borrowed(bytes))?));
        }
        let no_room = || Error::new(Kind::Internal, "a directory has no room for an object");
        let mut body = writer.begin(0, &name, &meta)?.ok_or_else(no_room)?;
        for piece in bytes.chunks(DIRECT_MAX) {
            body.write(piece)?;
        }
        Ok((size, body.finish()?))
    }

    fn writer(&mut self, mode: Mode) -> Result<&mut dyn PartitionWriter> {
        let open = &mut self.open[mode as usize];
        if let Some((full, _)) = open.take_if(|(_, objects)| *objects == PARTITION_OBJECTS) {
            full.seal()?;
        }
        let (writer, objects) = match open {
            Some(open) => open,
            None => {
                let partition = Partition {
                    seq: mode as u64,
                    key: Key::default(),
                    after: Cursor::default(),
                    next: None,
                    payload: [].into(),
                    len: None,
                };
                open.insert((self.lane.open(&partition, mode, Box::new(|_| None))?, 0))
            }
        };
        *objects += 1;
        Ok(&mut **writer)
    }
}
