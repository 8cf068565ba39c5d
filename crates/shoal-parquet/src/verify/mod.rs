//! Checks a dataset without a journal: the structure of every file, the checksums of row groups, every row, and that no name
//! is there twice.
//!
//! Here: the check and its result. `worker.rs` reads row groups, `names.rs` finds names that are there twice. Not here: how bytes become columns (`read/`).

mod names;
mod worker;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use shoal_engine::{Error, Kind, Result};

use self::worker::Shared;
use crate::read::dataset;
use crate::read::missing::{Lacking, MISSING};

/// How often the callback is called: a stop must be noticed within 100 ms.
const TICK: Duration = Duration::from_millis(50);

/// How a dataset is checked.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Threads.
    pub workers: usize,
    /// At the lowest I/O priority and a low priority.
    pub nice: bool,
    /// About how many bytes hashes of names may take in memory. Beyond that they are written to a temporary file.
    pub memory: usize,
    /// Where the temporary file is. It has no name, and takes 24 bytes for each object.
    pub temporary: PathBuf,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        VerifyOptions { workers, nice: false, memory: 256 << 20, temporary: std::env::temp_dir() }
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Files that are checked.
    pub files: u64,
    /// All files that there are.
    pub files_total: u64,
    /// Rows of these.
    pub objects: u64,
    /// Bytes of contents.
    pub bytes: u64,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPlace {
    /// The name of the file.
    pub file: String,
    /// The number of the row in the file, from 0.
    pub row: u64,
}

/// Two rows with one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The name, which need not be UTF-8.
    pub name: Vec<u8>,
    /// Where it is for the first time, in order of files and rows.
    pub first: RowPlace,
    /// Where it is again.
    pub second: RowPlace,
}

/// A file in which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// The name of the file.
    pub file: String,
    /// What was found first.
    pub reason: String,
    /// How many rows, row groups or files are wrong.
    pub faults: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files that were checked, also those with damage.
    pub files: u64,
    /// Rows that could be read.
    pub objects: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Files without checksums of their row groups. Other programs write none.
    pub without_checksums: u64,
    /// Rows with the name of an earlier row.
    pub duplicates: u64,
    /// The first of them, at most 20.
    pub examples: Vec<Duplicate>,
    /// In order of name.
    pub damaged: Vec<DamagedFile>,
    /// What need not be wrong.
    pub notes: Vec<String>,
}

impl Verified {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.damaged.is_empty() && self.duplicates == 0
    }
}

/// Checks all files `*.parquet` of a directory. Calls `progress` on this thread, at least ten times a
/// second; `Break` ends the check.
///
/// # Errors
/// [`Kind::Config`] if the directory cannot be read or has no such file, [`Kind::Interrupted`] after `Break`, and if the
/// temporary file cannot be written.
pub fn verify(
    directory: &Path,
    options: &VerifyOptions,
    progress: &mut dyn FnMut(&VerifyProgress) -> ControlFlow<()>,
) -> Result<Verified> {
    let directory = dataset::directory(directory)?;
    let shared = Shared::new(dataset::files(&directory)?, options);
    std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().name("shoal-verify".into()).spawn_scoped(scope, || shared.work());
        let workers: Vec<_> = (0..options.workers.max(1)).map(spawn).collect();
        if workers.iter().all(std::result::Result::is_err) {
            return Err(Error::new(Kind::Internal, "cannot start a thread"));
        }
        let is_over = || workers.iter().flatten().all(std::thread::ScopedJoinHandle::is_finished);
        loop {
            if progress(&shared.progress()).is_break() {
                shared.stop.store(true, Relaxed);
            }
            if is_over() {
                break; // only now: a small dataset may be checked before this thread has looked once
            }
            shared.ended.wait(workers.len(), TICK);
        }
        let panicked = workers.into_iter().flatten().any(|worker| worker.join().is_err());
        if panicked { Err(Error::new(Kind::Internal, "a thread of the check panicked")) } else { Ok(()) }
    })?;
    let _ = progress(&shared.progress()); // for the last numbers
    if shared.stop.load(Relaxed) {
        return Err(shared.error().unwrap_or_else(|| Error::new(Kind::Interrupted, "stopped")));
    }
    let mut verified = shared.result()?;
    let Lacking { files, unfinished, unknown } = Lacking::of(&directory, shared.found());
    let missing = files.into_iter();
    verified.damaged.extend(missing.map(|(file, faults)| DamagedFile { file, reason: MISSING.to_owned(), faults }));
    let file = directory.file_name().unwrap_or_default().to_string_lossy();
    let of_all = |reason| DamagedFile { file: file.clone().into_owned(), reason, faults: 1 };
    verified.damaged.extend(unfinished.into_iter().map(of_all));
    verified.damaged.sort_by(|one, other| one.file.cmp(&other.file));
    verified.notes.extend(unknown);
    Ok(verified)
}
