//! Makes one TCP connection, with several attempts if necessary. Not here: addresses and TLS (`connect.rs`).
//!
//! If a service gets more connections than fit into its accept queue (5 in Python's `http.server`), the kernel drops
//! the SYNs of the others, and sends each again only after 1 s, 3 s, 7 s. The client cannot see that a SYN was dropped.
//! A new socket sends one at once, so a second attempt is started beside the first.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

/// Least wait before the next attempt: longer than the round trip to most services, a quarter of the kernel's wait.
const WAIT_MIN: Duration = Duration::from_millis(250);
/// The wait is so many times the shortest time of a connection: a distant service does not get two attempts at once.
const WAIT_TIMES: u64 = 4;
/// The same after which a connection is slow: no further attempt is due, but the SYN may have been dropped.
const SLOW_MIN: Duration = Duration::from_millis(50);
const SLOW_TIMES: u64 = 2;

/// How connections to one service are attempted, and what was learnt from that.
#[derive(Debug)]
pub struct Attempts {
    /// Shortest time in which a connection was made, in nanoseconds.
    shortest: AtomicU64,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts { shortest: AtomicU64::new(u64::MAX) }
    }
}

impl Attempts {
    /// Makes a connection with the first attempt that succeeds. The caller limits the time. Calls `slow` when that takes
    /// long, and keeps what it returns until the end. Calls `late` once a second attempt is due, whether or not a connection
    /// is made in the end.
    ///
    /// # Errors
    /// The error of the last attempt, once all have failed. So a refused first attempt is an error at once, and an
    /// attempt without a file descriptor does not end those before it.
    pub(crate) async fn connect<S>(
        &self,
        address: SocketAddr,
        slow: impl Fn() -> S,
        late: impl Fn(),
    ) -> io::Result<TcpStream> {
        let (slow_after, wait) = (self.wait(SLOW_MIN, SLOW_TIMES), self.wait(WAIT_MIN, WAIT_TIMES));
        let mut under_way = vec![Box::pin(self.attempt(address))];
        let mut is_slow = None;
        // At most four attempts: each costs a file descriptor while it lasts.
        for (number, wait) in [slow_after, wait.saturating_sub(slow_after), wait * 2, wait * 4].into_iter().enumerate()
        {
            tokio::select! {
                biased; // a connection that is ready now is not late, even if this lane was busy
                ended = poll_fn(|context| first(&mut under_way, context)) => return ended,
                () = tokio::time::sleep(wait) => {}
            }
            match number {
                0 => {
                    is_slow = Some(slow());
                    continue;
                }
                1 => late(),
                _ => {}
            }
            under_way.push(Box::pin(self.attempt(address)));
        }
        let _slow = is_slow;
        poll_fn(|context| first(&mut under_way, context)).await
    }

    /// Whether a connection was made.
    pub fn have_connected(&self) -> bool {
        self.shortest.load(Relaxed) != u64::MAX
    }

    async fn attempt(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let began = Instant::now();
        let stream = TcpStream::connect(address).await?;
        self.connected(began.elapsed());
        Ok(stream)
    }

    /// A connection was made, after so long.
    pub fn connected(&self, took: Duration) {
        self.shortest.fetch_min(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// How long to wait for the first attempt: so many times the shortest time, and at least so long.
    fn wait(&self, least: Duration, times: u64) -> Duration {
        match self.shortest.load(Relaxed) {
            u64::MAX => least,
            shortest => least.max(Duration::from_nanos(shortest.saturating_mul(times))),
        }
    }
}

/// The first attempt that succeeds, or the error of the last one. The newest is polled first: if all fail at once, the
/// error of the first attempt is returned, which says more about the service than a missing file descriptor.
fn first<T, F: Future<Output = io::Result<T>>>(
    under_way: &mut Vec<Pin<Box<F>>>,
    context: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    for at in (0..under_way.len()).rev() {
        match under_way[at].as_mut().poll(context) {
            Poll::Ready(Err(error)) => {
                drop(under_way.remove(at));
                if under_way.is_empty() {
                    return Poll::Ready(Err(error));
                }
            }
            Poll::Ready(Ok(made)) => return Poll::Ready(Ok(made)),
            Poll::Pending => {}
        }
    }
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distant_service_is_waited_for_longer() {
        let attempts = Attempts::default();
        let waits = || [attempts.wait(SLOW_MIN, SLOW_TIMES), attempts.wait(WAIT_MIN, WAIT_TIMES)];
        assert_eq!(waits(), [SLOW_MIN, WAIT_MIN], "nothing is known");
        for (shortest, slow, wait) in [(300, 600, 1200), (90, 180, 360), (1, 50, 250)] {
            attempts.shortest.store(shortest * 1_000_000, Relaxed);
            assert_eq!(waits(), [slow, wait].map(Duration::from_millis));
        }
    }
}
