//! How long to wait before another try. Not here: how long an object may be tried (`mod.rs`).

use std::time::Duration;

const BASE: Duration = Duration::from_millis(100);
const THROTTLE_BASE: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(20);

/// Full jitter (AWS architecture blog, 2015): anything between nothing and the doubled base.
pub(super) fn backoff(tries: u32, throttle: bool) -> Duration {
    let base = if throttle { THROTTLE_BASE } else { BASE };
    let most = base.saturating_mul(1 << (tries.saturating_sub(1)).min(16)).min(CAP);
    most.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_is_jittered_and_capped() {
        for tries in 1..40 {
            assert!(backoff(tries, false) <= CAP.min(BASE * (1 << (tries - 1).min(16))));
        }
    }
}
