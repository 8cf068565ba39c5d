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

/// Most attempts for one connection. Each costs a file descriptor while it lasts.
const ATTEMPTS: u32 = 4;
/// Least wait before the next attempt: longer than the round trip to most services, a quarter of the kernel's wait.
const WAIT_MIN: Duration = Duration::from_millis(250);
/// The wait is so many times the shortest time of a connection: a distant service does not get two attempts at once.
const WAIT_TIMES: u64 = 4;

/// How connections to one service are attempted, and what was learnt from that.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// Shortest time in which a connection was made, in nanoseconds.
    shortest: AtomicU64,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts { shortest: AtomicU64::new(u64::MAX) }
    }
}

impl Attempts {
    /// Makes a connection with the first attempt that succeeds. The caller limits the time. Calls `late` once a second
    /// attempt is due, whether or not a connection is made in the end.
    ///
    /// # Errors
    /// The error of the last attempt, once all have failed. So a refused first attempt is an error at once, and an
    /// attempt without a file descriptor does not end those before it.
    pub(super) async fn connect(&self, address: SocketAddr, late: impl Fn()) -> io::Result<TcpStream> {
        let mut wait = self.wait();
        let mut under_way = vec![Box::pin(self.attempt(address))];
        for number in 1..ATTEMPTS {
            tokio::select! {
                biased; // a connection that is ready now is not late, even if this lane was busy
                ended = poll_fn(|context| first(&mut under_way, context)) => return ended,
                () = tokio::time::sleep(wait) => {}
            }
            if number == 1 {
                late();
            }
            under_way.push(Box::pin(self.attempt(address)));
            wait *= 2;
        }
        poll_fn(|context| first(&mut under_way, context)).await
    }

    /// Whether a connection was made.
    pub(crate) fn have_connected(&self) -> bool {
        self.shortest.load(Relaxed) != u64::MAX
    }

    async fn attempt(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let began = Instant::now();
        let stream = TcpStream::connect(address).await?;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shortest.fetch_min(took, Relaxed);
        Ok(stream)
    }

    /// How long to wait for the first attempt.
    fn wait(&self) -> Duration {
        match self.shortest.load(Relaxed) {
            u64::MAX => WAIT_MIN,
            shortest => WAIT_MIN.max(Duration::from_nanos(shortest.saturating_mul(WAIT_TIMES))),
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
        assert_eq!(attempts.wait(), WAIT_MIN, "nothing is known");
        for (shortest, wait) in [(300, 1200), (90, 360), (1, 250)] {
            attempts.shortest.store(shortest * 1_000_000, Relaxed);
            assert_eq!(attempts.wait(), Duration::from_millis(wait));
        }
    }
}
