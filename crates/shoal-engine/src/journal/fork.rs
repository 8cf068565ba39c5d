//! A fork while another thread is inside SQLite.
//!
//! SQLite has a few mutexes for the whole process (memory, random numbers, the list of open files). A fork copies one
//! that another thread holds as held, and in the child nothing releases it: the child's first journal would wait for
//! ever. So the thread that forks takes them all first, and both processes release them. SQLite holds each of them for
//! microseconds only, never during a sync.

use std::ffi::c_int;
use std::sync::{Once, OnceLock};

use rusqlite::ffi;

type Handler = extern "C" fn();

// The libc crate does not declare it for Linux.
unsafe extern "C" {
    fn pthread_atfork(before: Handler, in_parent: Handler, in_child: Handler) -> c_int;
}

/// A mutex of SQLite, which is static memory.
struct Mutex(*mut ffi::sqlite3_mutex);

// SAFETY: a mutex is made to be used from many threads.
unsafe impl Send for Mutex {}
// SAFETY: as above.
unsafe impl Sync for Mutex {}

static MUTEXES: OnceLock<Vec<Mutex>> = OnceLock::new();

/// Makes forks of this process safe for the journals of the child. Called before the first connection is opened.
pub(super) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mutexes = (ffi::SQLITE_MUTEX_STATIC_MAIN..=ffi::SQLITE_MUTEX_STATIC_VFS3)
            // SAFETY: the numbers are those of static mutexes, which are never freed; SQLite initialises itself first.
            .map(|number| unsafe { ffi::sqlite3_mutex_alloc(number) })
            .filter(|mutex| !mutex.is_null())
            .map(Mutex)
            .collect();
        let _ = MUTEXES.set(mutexes);
        // SAFETY: the three functions live as long as the process, and take no lock besides the mutexes. A refusal means
        // that memory is exhausted; then forks are as safe as they were.
        let _ = unsafe { pthread_atfork(take_all, release_all, release_all) };
    });
}

fn mutexes() -> &'static [Mutex] {
    MUTEXES.get().map_or(&[], Vec::as_slice)
}

/// Takes all mutexes or none, so that no order between them matters.
extern "C" fn take_all() {
    while !try_all() {
        std::thread::yield_now();
    }
}

fn try_all() -> bool {
    for (taken, mutex) in mutexes().iter().enumerate() {
        // SAFETY: a static mutex of SQLite.
        let answer: c_int = unsafe { ffi::sqlite3_mutex_try(mutex.0) };
        if answer != ffi::SQLITE_OK {
            release(&mutexes()[..taken]);
            return false;
        }
    }
    true
}

extern "C" fn release_all() {
    release(mutexes());
}

fn release(mutexes: &[Mutex]) {
    for mutex in mutexes {
        // SAFETY: this thread took it, or it is the copy of a thread that did.
        unsafe { ffi::sqlite3_mutex_leave(mutex.0) }
    }
}
