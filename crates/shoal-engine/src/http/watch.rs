//! Deadlines of one connection. One timer, re-armed only when it fires: a timer per request would cost as much as the
//! request's own bookkeeping.
//!
//! Time that the lane spends writing is taken off: a slow disk is not the server's fault.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// Least throughput of a body, in bytes a second over a window: below it a connection is stuck, not slow.
const LEAST: u64 = 100;

enum Phase {
    /// All of it must be there in time.
    Head,
    /// The head is there, and nobody has waited for the body yet: most small bodies come with their heads, and looking
    /// at the clock costs time.
    HeadDone,
    /// A byte now and then is not enough.
    Body { window: Duration, window_bytes: u64 },
}

/// What the connection waits for, and since when. All times are "lane times": since `origin`, less the time that the
/// thread has been busy otherwise since then, which is what `clock` grows by.
pub(crate) struct Watch<C> {
    timeout: Duration,
    clock: C,
    origin: Instant,
    stalled_at_origin: Duration,
    phase: Phase,
    since: Duration,
    last_byte: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl<C: Fn() -> Duration> Watch<C> {
    pub fn new(timeout: Duration, clock: C) -> Watch<C> {
        let zero = Duration::ZERO;
        Watch {
            timeout,
            stalled_at_origin: clock(),
            clock,
            origin: Instant::now(),
            phase: Phase::Head,
            since: zero,
            last_byte: zero,
            sleep: Box::pin(tokio::time::sleep(timeout)),
        }
    }

    /// What tells how long the thread has been busy.
    pub fn clock(&self) -> C
    where
        C: Clone,
    {
        self.clock.clone()
    }

    fn now(&self) -> Duration {
        self.origin.elapsed().saturating_sub((self.clock)().saturating_sub(self.stalled_at_origin))
    }

    /// A request goes out; its head is awaited.
    pub fn head(&mut self) {
        self.phase = Phase::Head;
        self.since = self.now();
        self.last_byte = self.since;
    }

    /// The head is there.
    pub fn head_done(&mut self) {
        self.phase = Phase::HeadDone;
    }

    /// The connection is about to be read; if this is the first time for a body, its deadlines begin.
    pub fn waits(&mut self) {
        if matches!(self.phase, Phase::HeadDone) {
            let now = self.now();
            self.phase = Phase::Body { window: now, window_bytes: 0 };
            self.last_byte = now;
        }
    }

    /// Bytes have come.
    pub fn received(&mut self, bytes: usize) {
        if let Phase::Body { window_bytes, .. } = &mut self.phase {
            *window_bytes += bytes as u64;
            self.last_byte = self.now();
        }
    }

    /// Ready when too much time has passed, with the reason.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<String> {
        loop {
            if self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = self.now();
            let left = match self.left(now) {
                Ok(left) => left,
                Err(why) => return Poll::Ready(why),
            };
            self.sleep.as_mut().reset(tokio::time::Instant::now() + left.max(Duration::from_millis(1)));
        }
    }

    fn left(&mut self, now: Duration) -> Result<Duration, String> {
        let seconds = self.timeout.as_secs_f64();
        match &mut self.phase {
            Phase::Head | Phase::HeadDone => {
                match (self.since + self.timeout).checked_sub(now).filter(|left| !left.is_zero()) {
                    Some(left) => Ok(left),
                    None => Err(format!("no complete answer for {seconds} s")),
                }
            }
            Phase::Body { window, window_bytes } => {
                if now >= self.last_byte + self.timeout {
                    return Err(format!("no data for {seconds} s in the middle of the body"));
                }
                if now >= *window + self.timeout {
                    if (*window_bytes as f64) < LEAST as f64 * seconds {
                        return Err(format!("only {window_bytes} bytes in {seconds} s"));
                    }
                    (*window, *window_bytes) = (now, 0);
                }
                Ok((*window + self.timeout).min(self.last_byte + self.timeout).saturating_sub(now))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::poll_fn;

    const TIMEOUT: Duration = Duration::from_millis(100);

    /// How long a watch waits for a head on a lane that has been busy for `before`, and is for `meanwhile`.
    fn waited(before: Duration, meanwhile: Duration) -> Duration {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let busy = Cell::new(before);
            let mut watch = Watch::new(TIMEOUT, || busy.get());
            watch.head();
            let began = Instant::now();
            std::thread::sleep(meanwhile);
            busy.set(before + meanwhile);
            let why = poll_fn(|context| watch.poll(context)).await;
            assert!(why.contains("0.1 s"), "{why}");
            began.elapsed()
        })
    }

    #[test]
    fn the_time_a_lane_is_busy_counts_only_while_something_is_awaited() {
        let (none, busy) = (Duration::ZERO, Duration::from_millis(250));
        assert!(waited(none, none) >= TIMEOUT);
        assert!(waited(none, busy) >= busy + TIMEOUT - Duration::from_millis(5), "the server is not to blame");
        assert!(waited(Duration::from_secs(3600), none) < Duration::from_secs(60), "what was before does not count");
    }
}
