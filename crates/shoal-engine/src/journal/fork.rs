//! A fork while another thread is inside SQLite.
//!
//! SQLite has a few mutexes for the whole process (memory, random numbers, the list of open files). A fork copies one
//! that another thread holds as held, and in the child nothing releases it: the child's first journal would wait for
//! ever. So the thread that forks takes them all first, and both processes release them. No lock of our own is involved,
//! because a fork could copy that as held, too.
//!
//! Not covered: a database that both processes have open. SQLite does not allow that, and keeps a mutex for each.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::ffi;

type Handler = extern "C" fn();

// The libc crate does not declare it for Linux.
unsafe extern "C" {
    fn pthread_atfork(before: Handler, in_parent: Handler, in_child: Handler) -> c_int;
}

/// How often a fork tries to take the mutexes, and the pause in between: 2 s in all, after which it goes ahead without
/// them. SQLite holds each for microseconds and never during a sync, but it closes files under one, which can take as
/// long as a file server does. A signal handler that forks may have interrupted the thread that holds one.
const TRIES: u32 = 20_000;
const PAUSE: Duration = Duration::from_micros(100);

thread_local! {
    /// This thread has taken the mutexes for a fork. Its copy in the child has them, too.
    static TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// Makes forks of this process safe for the journals of the child. Called before a connection is opened.
///
/// The handlers come first, so that a fork in the middle finds nothing half-done. Threads that come here at once may
/// register them several times, which does no harm.
pub(super) fn prepare() {
    static PREPARED: AtomicBool = AtomicBool::new(false);
    if PREPARED.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the functions live as long as the process, and take no lock besides the mutexes. A refusal means that memory
    // is exhausted; then forks are as safe as they were.
    let _ = unsafe { pthread_atfork(take, release, release) };
    let initialising = mutex(ffi::SQLITE_MUTEX_STATIC_APP1);
    // SAFETY: a static mutex, which SQLite leaves to the application. While SQLite initialises itself it holds one more
    // that cannot be reached from here; this one keeps a fork from happening then.
    unsafe {
        ffi::sqlite3_mutex_enter(initialising);
        ffi::sqlite3_initialize(); // opening a connection does it again, and reports an error
        ffi::sqlite3_mutex_leave(initialising);
    }
    PREPARED.store(true, Ordering::Release);
}

/// One of the mutexes that are static memory.
fn mutex(number: c_int) -> *mut ffi::sqlite3_mutex {
    // SAFETY: for these numbers it returns an address and takes no lock. The functions on mutexes ignore null.
    unsafe { ffi::sqlite3_mutex_alloc(number) }
}

const ALL: std::ops::RangeInclusive<c_int> = ffi::SQLITE_MUTEX_STATIC_MAIN..=ffi::SQLITE_MUTEX_STATIC_VFS3;

/// Takes all mutexes or none, so that their order does not matter.
extern "C" fn take() {
    if TAKEN.get() {
        return; // registered twice
    }
    for _ in 0..TRIES {
        if try_all() {
            return TAKEN.set(true);
        }
        std::thread::sleep(PAUSE); // not a yield, which lets no thread of a lower real-time priority run
    }
}

fn try_all() -> bool {
    for number in ALL {
        // SAFETY: see `mutex`.
        if unsafe { ffi::sqlite3_mutex_try(mutex(number)) } != ffi::SQLITE_OK {
            leave(*ALL.start()..number);
            return false;
        }
    }
    true
}

extern "C" fn release() {
    if TAKEN.replace(false) {
        leave(*ALL.start()..*ALL.end() + 1);
    }
}

fn leave(numbers: std::ops::Range<c_int>) {
    for number in numbers {
        // SAFETY: this thread took it, or it is the copy in the child of the thread that did.
        unsafe { ffi::sqlite3_mutex_leave(mutex(number)) }
    }
}
