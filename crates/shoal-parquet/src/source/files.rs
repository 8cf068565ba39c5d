//! The files that are open: the listing and the lanes share them, so that a footer is read once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_engine::Kind;

use crate::read::fault::{Fault, Result};
use crate::read::file::Facts;
use crate::read::open_file::OpenFile;

/// Most files that are kept open without being in use. The listing may be further ahead, and then a footer is read twice.
const OPEN_MAX: usize = 16;
/// Most bytes of their metadata. The last file is kept whatever its size.
const BYTES_MAX: usize = 32 << 20;

/// The files that were used last; the newest is last.
#[derive(Default)]
pub struct Files {
    open: Mutex<Vec<Arc<OpenFile>>>,
    /// Held while a footer is read, so that two lanes do not both read it.
    opening: Mutex<()>,
}

impl Files {
    /// The file at a path, which must be the one that was listed (`facts`), or else the one that is there now.
    pub fn get(&self, path: &[u8], facts: Option<Facts>) -> Result<Arc<OpenFile>> {
        let facts = match facts {
            Some(facts) => Some(facts),
            None => Facts::of_path(Path::new(OsStr::from_bytes(path)))?,
        };
        if let Some(file) = self.known(path, facts) {
            return Ok(file);
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.known(path, facts) {
            return Ok(file);
        }
        let file = Arc::new(OpenFile::open(path)?);
        if facts.is_some_and(|facts| facts != file.parquet.file.facts) {
            return Err(changed());
        }
        let mut open = self.open();
        open.push(file.clone());
        let mut bytes: usize = open.iter().map(|file| file.parquet.weight()).sum();
        while open.len() > OPEN_MAX || (bytes > BYTES_MAX && open.len() > 1) {
            bytes -= open.remove(0).parquet.weight();
        }
        Ok(file)
    }

    fn known(&self, path: &[u8], facts: Option<Facts>) -> Option<Arc<OpenFile>> {
        let mut open = self.open();
        let is_it = |file: &Arc<OpenFile>| {
            let file = &file.parquet.file;
            *file.path == *path && facts.is_none_or(|facts| facts == file.facts)
        };
        let at = open.iter().position(is_it)?;
        let file = open.remove(at);
        open.push(file.clone());
        Some(file)
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<OpenFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a file that is not the one that was listed is not read.
pub fn changed() -> Fault {
    Fault::new(Kind::Changed, "the file is not the same as when it was listed")
}
