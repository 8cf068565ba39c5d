//! Connections to a service whose accept queue is full: Linux drops the SYN of a further one and says nothing. The queue
//! here has room for one connection, and the test decides when that is accepted.

mod scripted;
mod support;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use scripted::{page, plain, serve};
use shoal_engine::Findings;
use shoal_engine::source::Source;
use shoal_engine::source::list_get::{ListGet, ListGetOptions};
use shoal_engine::source::part::OfPart;
use shoal_engine::source::{ConnectionOptions, HttpOptions};
use support::{as_child, child, told};

/// Time in which a SYN reaches its service and is dropped, or refused: within one machine that takes microseconds.
const ARRIVED: Duration = Duration::from_millis(50);

/// States of a socket in /proc/net/tcp.
const SYN_SENT: &str = "02";
const LISTEN: &str = "0A";

/// A service with a full queue, and the connection in it.
struct Full {
    listener: TcpListener,
    queued: TcpStream,
}

impl Full {
    fn new() -> Full {
        // Bound by its number, a socket keeps its port while it does not listen.
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let listener = (0..10).find_map(|_| TcpListener::bind(free().ok()?).ok()).unwrap();
        listen(&listener);
        listener.set_nonblocking(true).unwrap();
        let queued = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let full = Full { listener, queued };
        wait_until(|| full.sockets(1, LISTEN, ":00000001") == 1);
        full
    }

    fn source(&self) -> Watched {
        source(&format!("http://{}", self.listener.local_addr().unwrap()))
    }

    /// How many sockets are in this state, have its port in this column and end in this in the column of their queues.
    fn sockets(&self, column: usize, state: &str, queues: &str) -> usize {
        let port = format!(":{:04X}", self.listener.local_addr().unwrap().port());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row[column].ends_with(&port) && row[3] == state && row[4].ends_with(queues)).count()
    }

    /// How many attempts to connect are unanswered.
    fn unanswered(&self) -> usize {
        self.sockets(2, SYN_SENT, "")
    }

    /// A listing whose first SYN was dropped.
    fn keep_waiting(&self, source: &Watched) -> JoinHandle<Listed> {
        let listing = list(source);
        wait_until(|| self.unanswered() > 0);
        sleep(ARRIVED);
        listing
    }

    /// Accepts connections and answers them until the listing has ended; how long that took in all.
    fn accept(&self, listing: JoinHandle<Listed>) -> Listed {
        let _ = self.queued.shutdown(std::net::Shutdown::Both); // it has nothing to ask
        while !listing.is_finished() {
            let Ok((mut stream, _)) = self.listener.accept() else {
                sleep(Duration::from_millis(5));
                continue;
            };
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            if lines.by_ref().map_while(Result::ok).any(|line| line.is_empty()) {
                plain(&mut stream, page(&["a"]));
            }
        }
        listing.join().unwrap()
    }
}

/// Makes the socket listen with the shortest queue there is.
fn listen(listener: &TcpListener) {
    // SAFETY: the descriptor is open. A socket that listens already gets another length of its queue.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
}

/// A source, and what is reported of it.
struct Watched {
    source: Arc<dyn Source>,
    findings: Arc<Findings>,
}

impl Watched {
    fn late_connections(&self) -> u64 {
        self.findings.late_connections()
    }
}

fn source(url: &str) -> Watched {
    let connect_timeout = Duration::from_secs(60);
    let connection = ConnectionOptions { connect_timeout, ..ConnectionOptions::default() };
    let http = HttpOptions { connection, ..HttpOptions::default() };
    let source = ListGet::new(url, ListGetOptions { http, ..ListGetOptions::default() }).unwrap();
    Watched { source: Arc::new(source), findings: Arc::default() }
}

/// How long a listing took.
type Listed = shoal_engine::Result<Duration>;

/// Lists the only page, over a connection of its own.
fn list(watched: &Watched) -> JoinHandle<Listed> {
    let (source, findings) = (watched.source.clone(), watched.findings.clone());
    std::thread::spawn(move || {
        let began = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut listing = source.list(None)?;
        listing.report_to(&findings);
        runtime.block_on(listing.next())?.unwrap();
        Ok(began.elapsed())
    })
}

fn wait_until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "waited in vain");
        sleep(Duration::from_millis(2));
    }
}

/// A busy machine may hold up any of these threads for longer than the kernel waits, but not five times.
fn once_in_five(mut round: impl FnMut() -> bool) -> bool {
    (0..5).any(|_| round())
}

#[test]
fn a_connection_whose_syn_was_dropped_is_made_before_the_kernel_sends_that_again() {
    let mut took = Vec::new();
    assert!(
        once_in_five(|| {
            let full = Full::new();
            let source = full.source();
            took.push(full.accept(full.keep_waiting(&source)).unwrap());
            // The kernel sends a SYN again after a second. That one was dropped is seen by the connection being late.
            source.late_connections() == 1 && took.last() < Some(&Duration::from_millis(900))
        }),
        "{took:?}"
    );
}

#[test]
fn a_late_connection_is_counted_once_and_before_it_is_made() {
    let full = Full::new();
    let mut source = full.source();
    source.source = Arc::new(OfPart::new(source.source, shoal_engine::Part::new(0, 1).unwrap()));
    let listing = full.keep_waiting(&source);
    wait_until(|| source.late_connections() == 1);
    assert_eq!(source.findings.slow_connections(), 1, "before it was late");
    assert!(full.unanswered() > 0 && !listing.is_finished());
    wait_until(|| full.unanswered() == 4); // the most there are
    full.accept(listing).unwrap();
    assert_eq!((source.late_connections(), source.findings.slow_connections()), (1, 0));
}

#[test]
fn a_connection_that_is_made_in_time_is_not_late() {
    let url = serve(|_, stream| plain(stream, page(&["a"])));
    assert!(once_in_five(|| {
        let source = source(&url);
        list(&source).join().unwrap().unwrap();
        source.late_connections() == 0
    }));
}

#[test]
fn a_refused_attempt_is_an_error_only_if_no_other_is_under_way() {
    let mut ends = Vec::new();
    assert!(
        once_in_five(|| {
            let full = Full::new();
            let source = full.source();
            let listing = full.keep_waiting(&source);
            // SAFETY: the descriptor is open. Linux stops listening, and refuses connections to the port.
            assert_eq!(unsafe { libc::shutdown(full.listener.as_raw_fd(), libc::SHUT_RD) }, 0);
            wait_until(|| source.late_connections() == 1);
            sleep(ARRIVED);
            let only_the_first = full.unanswered() == 1;
            listen(&full.listener);
            ends.push(full.accept(listing).map(|_| only_the_first));
            matches!(ends.last(), Some(Ok(true)))
        }),
        "{ends:?}"
    );
}

#[test]
fn a_service_that_refuses_is_an_error_at_once() {
    let full = Full::new();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::shutdown(full.listener.as_raw_fd(), libc::SHUT_RD) }, 0);
    assert!(once_in_five(|| {
        let source = full.source();
        let error = list(&source).join().unwrap().unwrap_err().to_string();
        assert!(error.contains("connection refused"), "{error}");
        source.late_connections() == 0
    }));
}

#[test]
fn without_a_descriptor_for_a_second_attempt_the_first_is_waited_for() {
    const TEST: &str = "without_a_descriptor_for_a_second_attempt_the_first_is_waited_for";
    if as_child().is_none() {
        assert_eq!(told(&child(TEST, Path::new("."), &[])), ["Some(24) ok"]);
        return;
    }
    let full = Full::new();
    let source = full.source();
    let listing = full.keep_waiting(&source);
    let before = limit_descriptors(|before| libc::rlimit {
        rlim_cur: std::fs::File::open("/dev/null").unwrap().as_raw_fd() as libc::rlim_t, // the next one to be opened
        ..before
    });
    wait_until(|| source.late_connections() == 1);
    sleep(ARRIVED);
    let refused = std::fs::File::open("/dev/null").err().and_then(|error| error.raw_os_error());
    limit_descriptors(|_| before);
    println!("TOLD {refused:?} {}", support::outcome(&full.accept(listing)));
}

/// Sets the limit of open files of this process, which runs one test; the one before.
fn limit_descriptors(limit: impl FnOnce(libc::rlimit) -> libc::rlimit) -> libc::rlimit {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one structure, which outlives the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) }, 0);
    // SAFETY: reads one structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit(before)) }, 0);
    before
}
