//! What happens to live runs when the interpreter exits: they are told to stop, and waited for, but not for long.
//!
//! A run on a daemon thread outlives the main thread. Were it still going when the interpreter is taken down, its next call
//! of a progress function would hang. So the first run of a process registers an `atexit` function. Nothing is made at import.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::fork::Owner;

/// 1.5 s: an exit takes under 2 s in all, and a run needs less unless a barrier waits for the disk.
const PATIENCE: Duration = Duration::from_millis(1500);
/// 5 ms: an exit is not noticeably later for it.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The live runs. Locked only while attached to the interpreter and never across a call into it, so that no fork that
/// Python makes finds it locked by a thread that the child does not have.
static LIVE: Mutex<Vec<Arc<Flags>>> = Mutex::new(Vec::new());
/// The process whose `atexit` has our function; a child of `multiprocessing` begins with an empty list.
static REGISTERED_IN: AtomicU32 = AtomicU32::new(0);

struct Flags {
    owner: Owner,
    stop: AtomicBool,
    ended: AtomicBool,
}

/// One live run, from its start until it has left. Clones are handles on the same.
#[derive(Clone)]
pub struct Live(Arc<Flags>);

impl Live {
    /// Enters the registry; the proof of being attached is the key to it.
    pub fn enter(py: Python<'_>) -> PyResult<Live> {
        let process = std::process::id();
        if REGISTERED_IN.swap(process, Ordering::Relaxed) != process {
            py.import("atexit")?.call_method1("register", (wrap_pyfunction!(stop_live_runs, py)?,))?;
        }
        let flags =
            Arc::new(Flags { owner: Owner::here(), stop: AtomicBool::new(false), ended: AtomicBool::new(false) });
        live(py).push(Arc::clone(&flags));
        Ok(Live(flags))
    }

    /// The process the run belongs to.
    pub fn owner(&self) -> Owner {
        self.0.owner
    }

    /// Whether the interpreter is about to exit.
    pub fn told_to_stop(&self) -> bool {
        self.0.stop.load(Ordering::Acquire)
    }

    /// All threads of the run are joined. Said before the caller's thread attaches again, which at exit it may never do.
    pub fn ended(&self) {
        self.0.ended.store(true, Ordering::Release);
    }

    /// Leaves the registry.
    pub fn leave(self, py: Python<'_>) {
        live(py).retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}

/// The registry, without what is over and what a parent process left in it.
fn live(_py: Python<'_>) -> MutexGuard<'static, Vec<Arc<Flags>>> {
    let mut runs = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    // Drop also runs that have ended without being waited for.
    runs.retain(|run| run.owner.is_here() && !run.ended.load(Ordering::Acquire));
    runs
}

/// Tells all runs to stop and waits until they have, 1.5 s at most.
#[pyfunction]
fn stop_live_runs(py: Python<'_>) {
    let runs: Vec<_> = live(py).clone();
    for run in &runs {
        run.stop.store(true, Ordering::Release);
    }
    let going = |run: &Arc<Flags>| !run.ended.load(Ordering::Acquire);
    // A subinterpreter may end when the process does. Then a thread that detaches never attaches again.
    if !runs.iter().any(going) {
        return;
    }
    py.detach(|| {
        let until = Instant::now() + PATIENCE;
        while runs.iter().any(going) && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
    });
}
