//! `DirectoryCache`: opens and creates directories one path component at a time, and keeps some of them open.
//!
//! The cache holds open fds. It does not remember that a path was safe: a directory that is replaced by a link after it
//! was opened is not looked up again. So if another program moves a directory elsewhere during a run, later objects are
//! written there. Checking every component for each object would cost a system call each, and the documents say that
//! nothing else should change the destination meanwhile. Not here: files.

use std::sync::Arc;

use rustix::io::Errno;

use super::destination::Destination;
use super::directory::{Directory, open_below};
use crate::error::Result;
use crate::fs::dir::{Access, Dir};
use crate::fs::error::Operation;
use crate::name::Name;
use crate::object::{MODE_UNKNOWN, Modes};

/// Directories that a lane keeps open: as many as a few partitions use at a time, and few fds.
const LANE_MAX: usize = 64;

/// Directories below the destination that a lane keeps open.
pub(super) struct DirectoryCache {
    destination: Arc<Destination>,
    /// The most recently used first.
    open: Vec<Arc<Directory>>,
}

impl DirectoryCache {
    pub fn new(destination: Arc<Destination>) -> DirectoryCache {
        DirectoryCache { destination, open: Vec::new() }
    }

    /// Returns the directory `path` below the destination; `None` is the destination. Creates missing ones with the
    /// permission bits in `modes`. `name` is the object that needs the directory, for errors.
    ///
    /// # Errors
    /// [`crate::Kind::NameConflict`] if a component is a file or a link; the errors of creating a directory.
    pub fn get(&mut self, path: Option<&[u8]>, name: &Name, modes: &Modes) -> Result<Arc<Directory>> {
        let Some(path) = path else {
            return Ok(self.destination.root.clone());
        };
        if let Some(directory) = self.cached(path) {
            return Ok(directory);
        }
        let ends = memchr::memchr_iter(b'/', path).chain([path.len()]);
        let mut directory = self.destination.root.clone();
        for end in ends {
            let prefix = &path[..end];
            directory = match self.cached(prefix) {
                Some(next) => next,
                None => self.open_or_create(&directory, prefix, name, modes)?,
            };
        }
        Ok(directory)
    }

    /// The directory `path` below the destination, if it is there.
    pub fn find(&mut self, path: Option<&[u8]>) -> Option<Arc<Directory>> {
        let Some(path) = path else { return Some(self.destination.root.clone()) };
        self.cached(path).or_else(|| {
            let dir = open_below(&self.destination.root.dir, path).ok()?;
            Some(self.add(self.destination.directory(dir, path, None).ok()?))
        })
    }

    /// Closes all cached directories. Returns whether there were any.
    pub fn clear(&mut self) -> bool {
        let any = !self.open.is_empty();
        self.open.clear();
        any
    }

    fn cached(&mut self, path: &[u8]) -> Option<Arc<Directory>> {
        let at = self.open.iter().position(|directory| *directory.path == *path)?;
        self.open[..=at].rotate_right(1);
        Some(self.open[0].clone())
    }

    /// Opens a directory. One of this run that is closed to its owner is opened to it first.
    fn open_own(&self, above: &Directory, component: &[u8]) -> Result<Dir, Errno> {
        match above.dir.open(component) {
            Err(Errno::ACCESS) => {
                let look = above.dir.look(component)?;
                if !look.kind.is_dir() || !self.destination.may_open(&look) {
                    return Err(Errno::ACCESS);
                }
                above.dir.set_mode_of(component, look.mode | 0o700)?;
                above.dir.open(component)
            }
            opened => opened,
        }
    }

    /// Opens the last component of `path`, which is in `above`. An existing directory keeps its permissions, but for an
    /// update (`Destination::lacking`).
    fn open_or_create(&mut self, above: &Directory, path: &[u8], name: &Name, modes: &Modes) -> Result<Arc<Directory>> {
        let component = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let opened = match self.open_own(above, component) {
            Err(Errno::NOENT) => above
                .dir
                .make(component, modes(path).map_or(Access::Usual, Access::Bits))
                .map_err(Operation::Mkdir.failed())
                .and_then(|()| above.dir.open(component).map_err(Operation::Open.failed())),
            other => other.map_err(Operation::Open.failed()).and_then(|dir| {
                // Otherwise two directories of the source would become one, and their files could have the same names.
                let same_spelling = || Ok(!self.destination.folds(above)? || above.dir.has_entry(component)?);
                match same_spelling().map_err(Operation::Stat.failed())? {
                    true => Ok(dir),
                    false => Err(Operation::Open.failed()(Errno::NOTDIR)),
                }
            }),
        };
        let lacking = self.destination.lacking.as_ref();
        let bits = lacking.and_then(|_| modes(path)).filter(|&bits| bits != MODE_UNKNOWN);
        let directory = opened
            .and_then(|dir| self.destination.directory(dir, path, bits))
            .map_err(|failed| self.destination.directory_error(failed, above, path, name))?;
        Ok(self.add(directory))
    }

    fn add(&mut self, directory: Directory) -> Arc<Directory> {
        if self.open.len() == LANE_MAX {
            self.open.pop();
        }
        self.open.insert(0, Arc::new(directory));
        self.open[0].clone()
    }
}
