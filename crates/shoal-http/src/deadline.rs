//! The deadlines of one connection. There is one timer, reset only when it fires: a timer for each request would cost
//! as much as the rest of the request's bookkeeping.
//!
//! Time during which the lane writes is not counted: a slow disk is not the server's fault.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// Least rate of a body, in bytes per second over a window. Below it, a connection is stuck rather than slow.
const MIN_RATE: u64 = 100;

/// What the connection waits for.
enum Phase {
    /// The head, which must be complete in time.
    Head,
    /// The head is complete. Most small bodies arrive with it, so the clock, which costs time, is not read yet.
    HeadDone,
    /// The body of the answer, or, if `sending`, of the request. It must also have the least rate.
    Body { sending: bool, window: Duration, window_bytes: u64 },
}

/// The deadlines of a connection. All times are lane times: since `origin`, less the time that the thread has been busy
/// with other things since then. `clock` counts that time.
pub(crate) struct Deadlines<C> {
    timeout: Duration,
    pub clock: C,
    origin: Instant,
    stalled_at_origin: Duration,
    phase: Phase,
    since: Duration,
    last_byte: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl<C: Fn() -> Duration> Deadlines<C> {
    pub fn new(timeout: Duration, clock: C) -> Deadlines<C> {
        let zero = Duration::ZERO;
        Deadlines {
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

    fn now(&self) -> Duration {
        self.origin.elapsed().saturating_sub((self.clock)().saturating_sub(self.stalled_at_origin))
    }

    /// A request is sent: its head is awaited.
    pub fn start_head(&mut self) {
        self.phase = Phase::Head;
        self.since = self.now();
        self.last_byte = self.since;
    }

    /// A request with a large body is sent: its head is awaited once all of that is sent.
    pub fn start_sending(&mut self) {
        self.last_byte = self.now();
        self.phase = Phase::Body { sending: true, window: self.last_byte, window_bytes: 0 };
    }

    /// So many bytes of such a body were sent. `all`: it is complete.
    pub fn sent(&mut self, bytes: usize, all: bool) {
        match &mut self.phase {
            Phase::Body { sending: true, .. } if all => self.start_head(),
            Phase::Body { sending: true, window_bytes, .. } => {
                *window_bytes += bytes as u64;
                self.last_byte = self.now();
            }
            _ => {}
        }
    }

    /// The head is complete.
    pub fn head_done(&mut self) {
        self.phase = Phase::HeadDone;
    }

    /// The connection is about to be read. If this is the first read for a body, its deadlines begin.
    pub fn before_read(&mut self) {
        if matches!(self.phase, Phase::HeadDone) {
            let now = self.now();
            self.phase = Phase::Body { sending: false, window: now, window_bytes: 0 };
            self.last_byte = now;
        }
    }

    /// Bytes were received.
    pub fn received(&mut self, bytes: usize) {
        if let Phase::Body { sending: false, window_bytes, .. } = &mut self.phase {
            *window_bytes += bytes as u64;
            self.last_byte = self.now();
        }
    }

    /// Ready once a deadline has passed, with the reason.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<String> {
        loop {
            if self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = self.now();
            let left = match self.remaining(now) {
                Ok(left) => left,
                Err(why) => return Poll::Ready(why),
            };
            self.sleep.as_mut().reset(tokio::time::Instant::now() + left.max(Duration::from_millis(1)));
        }
    }

    fn remaining(&mut self, now: Duration) -> Result<Duration, String> {
        let seconds = self.timeout.as_secs_f64();
        match &mut self.phase {
            Phase::Head | Phase::HeadDone => {
                match (self.since + self.timeout).checked_sub(now).filter(|left| !left.is_zero()) {
                    Some(left) => Ok(left),
                    None => Err(format!("no complete answer for {seconds} s")),
                }
            }
            Phase::Body { sending, window, window_bytes } => {
                if now >= self.last_byte + self.timeout {
                    return Err(match sending {
                        true => format!("nothing could be sent for {seconds} s in the middle of the request"),
                        false => format!("no data for {seconds} s in the middle of the body"),
                    });
                }
                if now >= *window + self.timeout {
                    if (*window_bytes as f64) < MIN_RATE as f64 * seconds {
                        let done = if *sending { " could be sent" } else { "" };
                        return Err(format!("only {window_bytes} bytes{done} in {seconds} s"));
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

    /// How long a head is waited for on a lane that was busy for `before`, and is busy for `meanwhile`.
    fn waited(before: Duration, meanwhile: Duration) -> Duration {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let busy = Cell::new(before);
            let mut deadlines = Deadlines::new(TIMEOUT, || busy.get());
            deadlines.start_head();
            let began = Instant::now();
            std::thread::sleep(meanwhile);
            busy.set(before + meanwhile);
            let why = poll_fn(|context| deadlines.poll(context)).await;
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
