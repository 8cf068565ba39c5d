//! The list/get service: `GET /list` gives names page by page, `GET /get/{name}` the bytes of one object.
//!
//! Here: what is served, the options, starting and stopping. Below: `threads` and `connection` (which thread serves
//! which connection), `watch` (how long each may take), `wire` (batches of answers), `asked` and `hosts` (one request),
//! `answer`, `list` and `walks` (pages), `snapshot` (the names on them), `dir` and `synthetic` (what is served).
//! Not here: the command line and its messages, and the client of such a service (`source/list_get`).
//!
//! A service owns its threads and its socket; nothing is global, and two services do not know of each other.
//!
//! ```
//! use shoal_engine::serve::{Content, Options, Server};
//!
//! let server = Server::start(Content::parse_synthetic("1000000:100")?, Options::default())?;
//! println!("{}", server.url());
//! let stats = server.stop(std::time::Duration::from_secs(5));
//! assert_eq!(stats.requests, 0);
//! # Ok::<(), shoal_engine::serve::ServeError>(())
//! ```

mod access_log;
mod answer;
mod asked;
mod body;
mod conditions;
mod connection;
mod dir;
mod error;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
mod hosts;
mod list;
mod marker;
mod page;
mod snapshot;
mod synthetic;
mod threads;
mod walks;
mod watch;
mod wire;

pub use error::ServeError;

use access_log::AccessLog;
use dir::Directory;
use hosts::HostRule;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use synthetic::Synthetic;
use threads::{Held, Shared, Worker};
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

/// What is served.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Every regular file below a directory; links are not followed, a `.shoal` at its top is left out.
    Directory(PathBuf),
    /// Objects that exist by rule: names `object-000000000` …, each holding its name and a line feed, repeated and cut
    /// to `size` bytes.
    Synthetic {
        /// How many objects.
        count: u64,
        /// Bytes of each.
        size: u64,
    },
}

impl Content {
    /// Reads `COUNT:SIZE`, as in `1000000:100`.
    ///
    /// # Errors
    /// [`ServeError::Option`] where it is not two whole numbers.
    pub fn parse_synthetic(text: &str) -> Result<Self, ServeError> {
        let number = |part: &str| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse::<u64>().ok() } else { None }
        };
        text.split_once(':')
            .and_then(|(count, size)| Some(Self::Synthetic { count: number(count)?, size: number(size)? }))
            .ok_or_else(|| {
                ServeError::Option(format!(
                    "synthetic objects are given as COUNT:SIZE, and {text:?} is not that: write two whole numbers, as \
                    in 1000000:100"
                ))
            })
    }
}

/// How it is served. Start from the default and change what is needed.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on; 127.0.0.1 reaches no further than this machine.
    pub bind: IpAddr,
    /// The port, 0 for any free one.
    pub port: u16,
    /// Names on one page; a page of 1 MiB has as many as fit.
    pub page_size: usize,
    /// Names under which the service may be asked, in addition to its addresses and this machine's own names.
    pub allow_hosts: Vec<String>,
    /// One line per request is appended here.
    pub access_log: Option<PathBuf>,
    /// Threads that serve; one for every two processors, up to 8, where not given.
    pub threads: Option<usize>,
    /// The path of the listing.
    pub list_path: String,
    /// What stands before the name in the path of an object; begins and ends with `/`.
    pub get_path: String,
    /// The query parameter with the marker of the next page.
    pub marker_param: String,
    /// The field of a page that holds the names.
    pub names_field: String,
    /// The field of a page that holds the marker of the next one.
    pub next_field: String,
    /// Connections open at once; also bounded by the limit of open files. Further ones wait to be accepted.
    pub max_connections: usize,
    /// A connection without a request is closed after this.
    pub idle_timeout: Duration,
    /// A request must be complete this long after its first byte.
    pub header_timeout: Duration,
    /// A client must take some of its answer at least this often.
    pub write_timeout: Duration,
    /// Where large snapshots go; the system's directory for temporary files where not given.
    pub temp_dir: Option<PathBuf>,
    /// Snapshots of the directory kept for listings under way; the least recently used goes first.
    pub snapshots_kept: usize,
    /// Names of one snapshot that are kept in memory; a larger one goes to a temporary file.
    #[doc(hidden)]
    pub names_in_memory: usize,
    /// Bytes of temporary files for all snapshots together, where twice the newest is not more.
    #[doc(hidden)]
    pub snapshot_file_bytes: u64,
    /// Bytes of its answer that a client must take within the write timeout while no further connection can be taken: one
    /// that takes less would hold its place for ever.
    #[doc(hidden)]
    pub taken_when_full: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            page_size: 1000,
            allow_hosts: Vec::new(),
            access_log: None,
            threads: None,
            list_path: "/list".to_owned(),
            get_path: "/get/".to_owned(),
            marker_param: "next-marker".to_owned(),
            names_field: "FileNames".to_owned(),
            next_field: "NextMarker".to_owned(),
            // Bulk clients use some hundreds; each costs two descriptors while it reads a file.
            max_connections: 4096,
            // As common servers have it: a client that pauses for a minute need not connect anew.
            idle_timeout: Duration::from_secs(75),
            header_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(60),
            temp_dir: None,
            snapshots_kept: 16,
            names_in_memory: 1_000_000,
            snapshot_file_bytes: 1 << 30,
            taken_when_full: 64 * 1024,
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), ServeError> {
        let wrong = |text: String| Err(ServeError::Option(text));
        if self.page_size == 0 {
            return wrong("a page needs at least one name: set page_size to 1 or more".to_owned());
        }
        if self.threads == Some(0) {
            return wrong("threads must be 1 or more".to_owned());
        }
        if self.max_connections == 0 {
            return wrong("max_connections must be 1 or more".to_owned());
        }
        if let Some(name) = self.allow_hosts.iter().find(|name| !hosts::is_host_name(name)) {
            return wrong(format!(
                "{name:?} is not the name of a host: give it without a scheme, a port or a path, as in \
                \"files.example\""
            ));
        }
        if !self.list_path.starts_with('/') {
            let path = &self.list_path;
            return wrong(format!("the list path {path:?} must begin with \"/\", as in \"/list\""));
        }
        if !self.get_path.starts_with('/') || !self.get_path.ends_with('/') {
            let path = &self.get_path;
            return wrong(format!("the get path {path:?} must begin and end with \"/\", as in \"/get/\""));
        }
        if self.list_path.starts_with(&self.get_path) {
            let (list, get) = (&self.list_path, &self.get_path);
            return wrong(format!(
                "the list path {list:?} is below the get path {get:?} and could not be told from an object: choose \
                another one"
            ));
        }
        Ok(())
    }
}

/// What a service has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests answered, refusals included.
    pub requests: u64,
    /// Bytes of bodies in those answers.
    pub bytes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: usize,
    /// Connections cut: too slow, or not done when the service stopped.
    pub cut_connections: u64,
    /// Files that the latest snapshot leaves out because their name is not UTF-8 or longer than 4,095 bytes.
    pub unlistable_names: u64,
    /// Entries that it leaves out because they are no files: links, devices, pipes, sockets.
    pub not_files: u64,
    /// Directories that it leaves out because they may not be read.
    pub unreadable_directories: u64,
    /// Directories that it leaves out because they were gone when they were to be read, each of several times.
    pub vanished_directories: u64,
    /// Snapshots taken so far.
    pub walks: u64,
    /// Lines of the access log that could not be written.
    pub lost_log_lines: u64,
}

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
                SocketAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
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
        Content::Synthetic { count, size } => Ok(Held::Synthetic(Synthetic::new(count, size))),
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
    // A port whose last connections still fade away is free; one that is listened on is not.
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
