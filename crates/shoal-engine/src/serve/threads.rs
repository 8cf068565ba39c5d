//! The threads of one service: the first accepts and hands connections round, each serves its own to their end.
//!
//! One listening socket and not one per thread (SO_REUSEPORT): a second service on the same port must be refused, not
//! silently given half of the connections; and connections are spread by count, not by a hash of their ports.
//! Not here: what is answered (`answer.rs`), one connection (`connection.rs`), how long each may take (`watch.rs`).

use super::options::Options;
use super::shared::{OpenConnection, Worker};
use super::watch::Connections;
use std::io;
use std::net::{Shutdown, TcpStream as StdStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long to wait after a failed accept (too many open files, mostly): until then others may have closed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// The longest time between two looks at the connections: the access log is written then too.
const SWEEP_AT_MOST: Duration = Duration::from_millis(500);

type Handed = (StdStream, OpenConnection);

/// Where a thread gets its connections.
pub(super) enum Inlet {
    Acceptor { listener: TcpListener, others: Vec<(Arc<Worker>, UnboundedSender<Handed>)> },
    Handed(UnboundedReceiver<Handed>),
}

/// One inlet for each worker; the first accepts.
pub(super) fn inlets(listener: TcpListener, workers: &[Arc<Worker>]) -> Vec<Inlet> {
    let mut others = Vec::new();
    let mut handed = Vec::new();
    for worker in workers.iter().skip(1) {
        let (sender, receiver) = unbounded_channel();
        others.push((Arc::clone(worker), sender));
        handed.push(Inlet::Handed(receiver));
    }
    let mut inlets = vec![Inlet::Acceptor { listener, others }];
    inlets.append(&mut handed);
    inlets
}

/// The life of one thread: serves until told to stop, then ends its connections within `grace` (read when stopping).
pub(super) fn run(runtime: Runtime, worker: Arc<Worker>, inlet: Inlet, grace: Arc<AtomicU64>) {
    runtime.block_on(async {
        let mut connections = Connections::new(Arc::clone(&worker));
        serve(&mut connections, inlet).await;
        connections.drain(Duration::from_millis(grace.load(Ordering::Acquire))).await;
    });
    // A walk stops at the next directory; a disk that hangs longer than this is left behind.
    runtime.shutdown_timeout(Duration::from_secs(5));
    if let Some(log) = &worker.shared.log {
        worker.log.close(log);
    }
}

async fn serve(connections: &mut Connections, mut inlet: Inlet) {
    let worker = Arc::clone(connections.worker());
    let mut sweeps = tokio::time::interval(sweep_every(&worker.shared.options));
    sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = worker.stop.notified() => break,
            _ = sweeps.tick() => connections.sweep(),
            taken = inlet.next(&worker) => if let Some((stream, open)) = taken {
                connections.add(stream, open);
            },
        }
    }
    if let Inlet::Acceptor { listener, .. } = inlet {
        close_listener(listener);
    }
}

impl Inlet {
    /// The next connection for this thread; `None` to ask again. Loses nothing when dropped while it waits.
    async fn next(&mut self, own: &Arc<Worker>) -> Option<(TcpStream, OpenConnection)> {
        let (listener, others) = match self {
            Self::Handed(receiver) => {
                let Some((stream, open)) = receiver.recv().await else {
                    // The accepting thread has stopped; this one will be told so too.
                    return std::future::pending().await;
                };
                return TcpStream::from_std(stream).ok().map(|stream| (stream, open));
            }
            Self::Acceptor { listener, others } => (listener, others),
        };
        let shared = &own.shared;
        if shared.open.load(Ordering::Relaxed) >= shared.open_at_most {
            shared.freed.notified().await;
            return None;
        }
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_client(&error) => return None,
            Err(_) => {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                return None;
            }
        };
        // An answer is sent in one piece; waiting to fill a packet only delays it.
        let _ = stream.set_nodelay(true);
        let load = |worker: &Worker| worker.open.load(Ordering::Relaxed);
        match others.iter().min_by_key(|(worker, _)| load(worker)) {
            Some((worker, sender)) if load(worker) < load(own) => {
                let open = OpenConnection::new(worker);
                // Fails only where that thread has stopped, and then all do.
                let _ = sender.send((stream.into_std().ok()?, open));
                None
            }
            _ => Some((stream, OpenConnection::new(own))),
        }
    }
}

/// Whether accepting failed for one client alone, so that the next may be tried at once.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// Closes the socket for every process that holds it: a process forked meanwhile has it open too, and would keep the
/// port busy.
fn close_listener(listener: TcpListener) {
    if let Ok(listener) = listener.into_std() {
        let _ = StdStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both);
    }
}

fn sweep_every(options: &Options) -> Duration {
    let shortest = options.idle_timeout.min(options.header_timeout).min(options.write_timeout);
    (shortest / 4).clamp(Duration::from_millis(10), SWEEP_AT_MOST)
}
