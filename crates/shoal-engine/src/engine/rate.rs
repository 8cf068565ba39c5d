//! The cap on bytes a second (`limit_rate`), over all lanes. How fast requests may be repeated is `retry/`.

use crate::poison::ignore_poison;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Unused allowance that may be spent later, in seconds: short stalls are made up for, long ones are not.
const BURST: f64 = 0.25;

/// A bucket that may go into debt: sizes are known only when the bytes are there.
pub(crate) struct Rate {
    per_second: Option<f64>,
    state: Mutex<(f64, Instant)>,
}

impl Rate {
    pub fn new(per_second: Option<u64>) -> Rate {
        Rate { per_second: per_second.map(|rate| rate.max(1) as f64), state: Mutex::new((0.0, Instant::now())) }
    }

    /// Takes `bytes` from the allowance and says how long to wait until it is out of debt.
    pub fn spend(&self, bytes: u64) -> Duration {
        let Some(rate) = self.per_second else { return Duration::ZERO };
        let mut state = ignore_poison(self.state.lock());
        let now = Instant::now();
        let gained = now.duration_since(state.1).as_secs_f64() * rate;
        state.0 = (state.0 + gained).min(rate * BURST) - bytes as f64;
        state.1 = now;
        if state.0 >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-state.0 / rate) }
    }

    /// Whether there is a cap at all.
    pub fn is_limited(&self) -> bool {
        self.per_second.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debt_is_paid_in_proportion() {
        let rate = Rate::new(Some(1000));
        let wait = rate.spend(500);
        assert!(wait > Duration::from_millis(400) && wait <= Duration::from_millis(500), "{wait:?}");
        assert_eq!(Rate::new(None).spend(u64::MAX), Duration::ZERO);
    }
}
