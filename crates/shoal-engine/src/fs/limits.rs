//! Limits of this process: open files. Not here: which share of them a run uses (`transfer.rs`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Kind, Result};

/// Descriptors that stay free for the journal, directories, and the program around us.
const SPARE: u64 = 24;

/// Raises the soft limit of open files to the hard one, and returns how many descriptors may still be opened.
///
/// # Errors
/// [`Kind::Config`] if the limit is too low for one object at a time.
pub(crate) fn open_files_left() -> Result<usize> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Some sandboxes do not permit this. Then the soft limit counts.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    let Some(most) = getrlimit(Resource::Nofile).current else { return Ok(usize::MAX) };
    #[allow(clippy::disallowed_methods)] // a listing of our own descriptors: no directory of the user's
    let open = std::fs::read_dir("/proc/self/fd").map_or(16, |entries| entries.count()) as u64;
    match most.saturating_sub(open + SPARE) {
        0 => {
            let why = format!("the limit of {most} open files is too low ({open} are open)");
            Err(Error::new(Kind::Config, why).hint("raise it: ulimit -n 1024"))
        }
        left => Ok(usize::try_from(left).unwrap_or(usize::MAX)),
    }
}
