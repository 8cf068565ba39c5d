//! A clock for what happens a million times in a second.

use std::time::Duration;

/// The time at the last tick of the kernel (1 to 10 ms): precise enough for deadlines of seconds, and on average right.
pub(super) fn coarse_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
