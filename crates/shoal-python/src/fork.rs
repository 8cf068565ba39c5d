//! The process guard: which process an object was made in.
//!
//! A fork copies memory, not threads. What a run or a service owns is gone in the child, so that waiting for it would
//! never end; what is new works, because nothing here is global.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Remembers the process that made it.
#[derive(Clone, Copy)]
pub struct Owner(u32);

impl Owner {
    /// This process.
    pub fn here() -> Owner {
        Owner(std::process::id())
    }

    /// Whether this is still that process.
    pub fn is_here(self) -> bool {
        self.0 == std::process::id()
    }

    /// Refuses in a forked child; `what` is "this run", "this service".
    pub fn check(self, what: &str) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "{what} belongs to process {} and has no threads in this forked child: start a new one here, or use the \
             \"spawn\" or \"forkserver\" start method",
            self.0
        )))
    }
}
