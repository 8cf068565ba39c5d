//! Making one TCP connection with more than one attempt, and counting the connections that were not made in time. Not here:
//! names, addresses and TLS (`connect.rs`).
//!
//! A service that is asked for more connections than fit into its accept queue (5 in Python's `http.server`) loses the
//! SYNs of the others: the kernel drops them, and sends each again only after 1 s, 3 s, 7 s. Nothing shows the client
//! that a SYN was dropped, and a new socket sends one at once. So a second attempt is made beside the first.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

/// Most attempts to make one connection. Each costs a descriptor while it is under way.
const ATTEMPTS: u32 = 4;
/// Least wait for an attempt before the next one: longer than the way to most services and back, a quarter of what the
/// kernel waits.
const WAIT_MIN: Duration = Duration::from_millis(250);
/// How often the shortest time of a connection is waited for: a distant service is not asked twice at once.
const WAIT_TIMES: u64 = 4;

/// How connections to one service are made, and how that went so far.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// Shortest time in which a connection was made, in nanoseconds.
    shortest: AtomicU64,
    late: AtomicU64,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts { shortest: AtomicU64::new(u64::MAX), late: AtomicU64::new(0) }
    }
}

impl Attempts {
    /// Connections whose first attempt took too long. One counts from the moment at which the second attempt is due, so
    /// before it is known whether it will be made.
    pub fn late(&self) -> u64 {
        self.late.load(Relaxed)
    }

    /// A connection: the first that is made. The caller limits the time.
    ///
    /// # Errors
    /// The last attempt's, once none is under way. So a refused first attempt is an error at once, and an attempt for
    /// which there is no descriptor does no harm to those before it.
    pub(super) async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let mut wait = self.wait();
        let mut under_way = vec![Box::pin(self.attempt(address))];
        for number in 1..ATTEMPTS {
            tokio::select! {
                biased; // a connection that is made by now is not late, however late this lane looks
                ended = poll_fn(|context| first(&mut under_way, context)) => return ended,
                () = tokio::time::sleep(wait) => {}
            }
            if number == 1 {
                self.late.fetch_add(1, Relaxed);
            }
            under_way.push(Box::pin(self.attempt(address)));
            wait *= 2;
        }
        poll_fn(|context| first(&mut under_way, context)).await
    }

    async fn attempt(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let began = Instant::now();
        let stream = TcpStream::connect(address).await?;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shortest.fetch_min(took, Relaxed);
        Ok(stream)
    }

    /// How long the first attempt is waited for.
    fn wait(&self) -> Duration {
        match self.shortest.load(Relaxed) {
            u64::MAX => WAIT_MIN,
            shortest => WAIT_MIN.max(Duration::from_nanos(shortest.saturating_mul(WAIT_TIMES))),
        }
    }
}

/// The first attempt that succeeds, or the error of the last one that was under way. The newest is asked first: if all
/// fail at once, that of the first is returned, which says more of the service than one without a descriptor.
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
