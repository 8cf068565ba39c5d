//! The job `read`: open, read into one buffer, close, on as many threads as asked for. The contents go nowhere.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

use crate::buffer::Buffer;
use crate::outcome::Outcome;

/// Files a thread takes at once.
const RUN: usize = 100;

/// Bytes of a thread's buffer, so that most files come in one read; in pieces of 256 KiB, 1 MB took 1.4 times as long.
const BUFFER: usize = 1 << 20;

/// What to read, and how.
#[derive(Clone, Debug)]
pub struct Read {
    /// Every file below it is read; links are not followed.
    pub directory: PathBuf,
    /// Threads, each with one buffer.
    pub threads: usize,
}

/// A file: the number of its folder, and its name there.
type File = (usize, CString);

/// Reads every file below a directory, as fast as a loop can. The walk is not in the time.
///
/// # Errors
/// Any error ends it; nothing is retried.
pub fn read(job: &Read) -> io::Result<Outcome> {
    let (folders, files) = walk(job)?;
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    let bytes = std::thread::scope(|scope| {
        let worker = || scope.spawn(|| read_runs(&folders, &files, &next));
        let workers: Vec<_> = (0..job.threads.max(1)).map(|_| worker()).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| io::Error::other("a thread panicked"))?).sum()
    });
    let bytes: io::Result<u64> = bytes;
    Ok(Outcome { objects: files.len() as u64, bytes: bytes?, seconds: began.elapsed().as_secs_f64() })
}

/// Opens every folder and names every file, folder by folder, in the order in which the file system has them.
fn walk(job: &Read) -> io::Result<(Vec<OwnedFd>, Vec<File>)> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut folders = vec![openat(CWD, &job.directory, flags, Mode::empty())?];
    let (mut files, mut at) = (Vec::new(), 0);
    while at < folders.len() {
        for entry in Dir::read_from(&folders[at])? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = match entry.file_type() {
                // Some file systems do not say it in the listing.
                FileType::Unknown => {
                    FileType::from_raw_mode(statat(&folders[at], name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
                }
                known => known,
            };
            match kind {
                FileType::Directory if !matches!(name.to_bytes(), b"." | b"..") => {
                    folders.push(openat(&folders[at], name, flags | OFlags::NOFOLLOW, Mode::empty())?);
                }
                FileType::RegularFile => files.push((at, name.to_owned())),
                _ => {}
            }
        }
        at += 1;
    }
    Ok((folders, files))
}

fn read_runs(folders: &[OwnedFd], files: &[File], next: &AtomicUsize) -> io::Result<u64> {
    let (mut buffer, mut bytes) = (Buffer::new(BUFFER), 0);
    let buffer = buffer.bytes();
    loop {
        let from = next.fetch_add(RUN, Relaxed);
        let Some(run) = files.get(from..files.len().min(from + RUN)) else { return Ok(bytes) };
        for (folder, name) in run {
            let file = openat(&folders[*folder], name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            loop {
                let came = rustix::io::read(&file, &mut *buffer)?;
                bytes += came as u64;
                if came < BUFFER {
                    break; // of a regular file, a short read was the last
                }
            }
        }
    }
}
