//! The job `s3-get`: signed GETs of the objects of `s3-store`, with computed keys, on one thread a core.
//!
//! Each thread has its part of the connections and serves them in turn: it reads the answers of one, sends the next
//! requests there, and proceeds to the next connection. While one is read, the others' answers arrive, so a read seldom
//! waits, and there is no poll.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::answers::Connection;
use crate::outcome::Outcome;
use crate::s3_objects::{dates, key, now};
use crate::sigv4::{Keys, Signer};

/// What to get, and how.
#[derive(Clone, Debug)]
pub struct S3Get {
    /// The store.
    pub address: SocketAddr,
    /// Its bucket.
    pub bucket: String,
    /// The first so many objects.
    pub objects: u64,
    /// Connections in all.
    pub connections: usize,
    /// Requests unanswered on one connection.
    pub depth: usize,
    /// Threads.
    pub threads: usize,
    /// What signs the requests.
    pub keys: Keys,
}

/// Processor time of this process, user and system.
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Gets every object once, as fast as a loop can; returns the processor time, too. Connecting is not in the times.
///
/// # Errors
/// Any error ends it; nothing is retried. So does a body that begins wrongly, or is not as long as its thread's first.
pub fn s3_get(job: &S3Get) -> io::Result<(Outcome, Duration)> {
    let threads = job.threads.clamp(1, job.connections.max(1));
    let mut parts: Vec<Vec<Connection>> = (0..threads).map(|_| Vec::new()).collect();
    for number in 0..job.connections.max(1) {
        parts[number % threads].push(Connection::open(job.address)?);
    }
    let (next, began, spent) = (AtomicU64::new(0), Instant::now(), cpu());
    let bytes: io::Result<u64> = std::thread::scope(|scope| {
        let worker = |part| scope.spawn(|| fetch(job, part, &next));
        let workers: Vec<_> = parts.into_iter().map(worker).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| io::Error::other("a thread panicked"))?).sum()
    });
    let outcome = Outcome { objects: job.objects, bytes: bytes?, seconds: began.elapsed().as_secs_f64() };
    Ok((outcome, cpu() - spent))
}

fn fetch(job: &S3Get, part: Vec<Connection>, next: &AtomicU64) -> io::Result<u64> {
    let mut signer = Signer::new(&job.keys, job.address.to_string());
    let prefix = format!("/{}/", job.bucket);
    let (mut path, mut second, mut bytes, mut length) = (prefix.clone(), 0, 0, None);
    // Each with the numbers of the objects asked for.
    let mut open: Vec<_> = part.into_iter().map(|connection| (connection, 0_u64..0)).collect();
    while !open.is_empty() {
        for (connection, asked) in &mut open {
            for number in asked.clone() {
                let body = connection.answer()?;
                let start = body.len().min(8);
                if body.len() != *length.get_or_insert(body.len()) || body[..start] != number.to_le_bytes()[..start] {
                    return Err(io::Error::other(format!("object {number}: {} bytes, or wrong ones", body.len())));
                }
                bytes += body.len() as u64;
            }
            let from = next.fetch_add(job.depth as u64, Relaxed).min(job.objects);
            *asked = from..job.objects.min(from + job.depth as u64);
            if second != now() {
                second = now();
                signer.at(dates(second).0);
            }
            for number in asked.clone() {
                path.truncate(prefix.len());
                path.extend(key(number).map(char::from));
                signer.ask(&path, connection.requests());
            }
            connection.send()?;
        }
        open.retain(|(_, asked)| !asked.is_empty());
    }
    Ok(bytes)
}
