//! A running service: starting and stopping it.
//!
//! Not here: what its threads do (`threads.rs`), what they share (`shared.rs`).

use super::access_log::AccessLog;
use super::dir::Directory;
use super::error::ServeError;
use super::hosts::HostRule;
use super::options::{Content, Options};
use super::shared::{Held, Shared, Worker};
use super::stats::Stats;
use super::synthetic::Synthetic;
use super::threads;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;

/// Connections that may wait to be accepted; the system has its own limit beside it.
const BACKLOG: u32 = 1024;
/// Threads that are started at most unless asked for: beyond that the clients are the limit.
const THREADS_AT_MOST: usize = 8;
/// How long a service that is dropped lets requests in progress run.
const DROP_GRACE: Duration = Duration::from_secs(1);
/// Descriptors kept free for all else than connections and the files they read.
const SPARE_DESCRIPTORS: u64 = 64;

/// A running service. Stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    workers: Vec<Arc<Worker>>,
    threads: Vec<JoinHandle<()>>,
    grace: Arc<AtomicU64>,
    shared: Arc<Shared>,
    /// The process that started the threads: one forked from it has the values, but not the threads.
    process: u32,
}

impl Server {
    /// Opens what is to be served, binds the address and starts the threads; requests are answered when it returns.
    ///
    /// # Errors
    /// [`ServeError`], with nothing left behind.
    pub fn start(content: Content, options: Options) -> Result<Self, ServeError> {
        options.check()?;
        let held = open_content(content)?;
        let count = options.threads.unwrap_or_else(default_threads);
        let runtimes = (0..count).map(|_| runtime()).collect::<Result<Vec<_>, _>>().map_err(ServeError::Thread)?;
        let address = SocketAddr::new(options.bind, options.port);
        let (listener, address) = listen(&runtimes[0], address).map_err(|cause| ServeError::Bind { address, cause })?;
        let log = match &options.access_log {
            Some(path) => Some(
                AccessLog::open(path)
                    .map_err(|errno| ServeError::AccessLog { path: path.clone(), cause: errno.into() })?,
            ),
            None => None,
        };
        let open_at_most = options.max_connections.min(descriptor_limit());
        let hosts = HostRule::of(address, &options.allow_hosts);
        let shared = Arc::new(Shared::new(options, held, hosts, log, open_at_most));
        let workers: Vec<_> = (0..count).map(|_| Arc::new(Worker::new(Arc::clone(&shared)))).collect();
        let mut server = Self {
            address,
            threads: Vec::with_capacity(count),
            grace: Arc::new(AtomicU64::new(0)),
            shared,
            process: std::process::id(),
            workers: workers.clone(),
        };
        let inlets = threads::inlets(listener, &workers);
        for (index, ((runtime, worker), inlet)) in runtimes.into_iter().zip(workers).zip(inlets).enumerate() {
            let grace = Arc::clone(&server.grace);
            let thread = std::thread::Builder::new()
                .name(format!("shoal-serve-{index}"))
                .spawn(move || threads::run(runtime, worker, inlet, grace))
                // The server made so far is dropped here, and stops the threads that run.
                .map_err(ServeError::Thread)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Where it listens, with the port it got.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a client is given it, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        format!("http://{address}")
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats(&self.workers)
    }

    /// Stops: takes no further connection, lets requests in progress finish for as long as `grace`, cuts the rest, writes
    /// the access log out and joins every thread.
    pub fn stop(mut self, grace: Duration) -> Stats {
        self.end(grace);
        self.stats()
    }

    fn end(&mut self, grace: Duration) {
        let threads = std::mem::take(&mut self.threads);
        if std::process::id() != self.process {
            // In a forked process the threads do not exist, and joining them would wait for ever.
            std::mem::forget(threads);
            return;
        }
        let millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        // A day is longer than any grace, and safe to add to a time.
        self.grace.store(millis.min(24 * 60 * 60 * 1000), Ordering::Release);
        self.shared.stopping.store(true, Ordering::Relaxed);
        for worker in &self.workers {
            worker.stop();
        }
        for thread in threads {
            // A thread that panicked has ended, which is all that is asked here.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(DROP_GRACE);
    }
}

fn open_content(content: Content) -> Result<Held, ServeError> {
    match content {
        Content::Directory(path) => match Directory::open(&path) {
            Ok(directory) => Ok(Held::Directory(directory)),
            Err(cause) => Err(ServeError::Directory { path, cause }),
        },
        Content::Synthetic { count, size } => Ok(Held::Synthetic(Synthetic::new(count, size, false))),
        Content::SyntheticRandom { count, size } => Ok(Held::Synthetic(Synthetic::new(count, size, true))),
    }
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name("shoal-serve-walk")
        // For walks, of which one runs at a time.
        .max_blocking_threads(1)
        .build()
}

fn listen(runtime: &Runtime, address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let _context = runtime.enter();
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port with nothing but closing connections is free; one with a listener is not.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Half of the processors. The other half is for the clients, which are mostly on the same machine: on two processors, 64
/// connections and one client thread, two threads here took 100,000 requests a second and one took 138,000.
fn default_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (processors / 2).clamp(1, THREADS_AT_MOST)
}

/// Connections for which the limit of open files leaves room, with one file each.
fn descriptor_limit() -> usize {
    let open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(open.saturating_sub(SPARE_DESCRIPTORS) / 2).unwrap_or(usize::MAX).max(1)
}
