//! Locks that stay usable after a thread has panicked: a panic ends a run with an error, and the other threads must still
//! reach what they share in order to stop.

use std::sync::{LockResult, PoisonError};

/// Returns what `lock`, `into_inner`, `wait` or `wait_timeout` has returned, poisoned or not.
pub fn ignore_poison<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}
