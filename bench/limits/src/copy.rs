//! The job `copy`: pipelined GET, then open, write and close, on one thread a core.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::answers::Connection;
use crate::outcome::Outcome;

/// Objects a thread takes at once.
const RUN: usize = 100;

/// What to copy, and how.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The service.
    pub address: SocketAddr,
    /// An empty directory; `None`: bodies are dropped.
    pub directory: Option<PathBuf>,
    /// Requests unanswered on one connection.
    pub depth: usize,
    /// Threads, each with one connection.
    pub threads: usize,
    /// Only the first so many objects.
    pub limit: Option<usize>,
}

/// Copies every object of a list/get service, as fast as a loop can.
///
/// # Errors
/// Any error ends it; nothing is retried.
pub fn copy(job: &Copy) -> io::Result<Outcome> {
    let mut names = listing(job.address)?;
    names.truncate(job.limit.unwrap_or(usize::MAX));
    let root = match &job.directory {
        Some(path) => Some(open_directory(path)?),
        None => None,
    };
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    let bytes = std::thread::scope(|scope| {
        let worker = || scope.spawn(|| fetch(job, &names, root.as_ref(), &next));
        let workers: Vec<_> = (0..job.threads).map(|_| worker()).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| io::Error::other("a thread panicked"))?).sum()
    });
    let bytes: io::Result<u64> = bytes;
    Ok(Outcome { objects: names.len() as u64, bytes: bytes?, seconds: began.elapsed().as_secs_f64() })
}

fn listing(address: SocketAddr) -> io::Result<Vec<String>> {
    let (mut connection, mut names, mut marker) = (Connection::open(address)?, Vec::new(), String::new());
    loop {
        connection.ask(&["/list", if marker.is_empty() { "" } else { "?next-marker=" }, &marker]);
        connection.send()?;
        let page: serde_json::Value = serde_json::from_slice(connection.answer()?)?;
        let listed = page["FileNames"].as_array().ok_or_else(|| io::Error::other("no names"))?;
        names.extend(listed.iter().filter_map(|name| name.as_str().map(str::to_owned)));
        match page["NextMarker"].as_str() {
            Some(next) if !next.is_empty() => next.clone_into(&mut marker),
            _ => return Ok(names),
        }
    }
}

fn fetch(job: &Copy, names: &[String], root: Option<&OwnedFd>, next: &AtomicUsize) -> io::Result<u64> {
    let mut connection = Connection::open(job.address)?;
    let mut run = names[..0].iter();
    let mut unanswered: VecDeque<&str> = VecDeque::new();
    let mut bytes = 0;
    loop {
        // Half the depth at a time, so that requests leave in bunches; on to the next run before this one is answered.
        if unanswered.len() <= job.depth / 2 {
            while unanswered.len() < job.depth {
                let Some(name) = run.next() else {
                    let from = next.fetch_add(RUN, Relaxed);
                    let Some(more) = names.get(from..names.len().min(from + RUN)) else { break };
                    run = more.iter();
                    continue;
                };
                connection.ask(&["/get/", name]);
                unanswered.push_back(name);
            }
            connection.send()?;
        }
        let Some(name) = unanswered.pop_front() else { return Ok(bytes) };
        let body = connection.answer()?;
        bytes += body.len() as u64;
        if let Some(directory) = root {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = openat(directory, name, flags, Mode::from_raw_mode(0o666))?;
            rustix::io::write(&file, body)?;
        }
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}
