//! The directories below the destination (or below one of its own), made and opened one component at a time, some of them kept open.
//!
//! What is kept is the fd, never the knowledge that a path is safe: a directory that was checked once and replaced by a
//! link afterwards is simply not looked up again. So a directory that another program moves elsewhere while a run is under
//! way takes later objects with it: a look at each name for each object would cost a system call each, and the documents
//! say that nothing else should change the destination meanwhile. Not here: files.

use std::sync::Arc;

use rustix::io::Errno;

use super::session::{Parent, Session, joined};
use crate::error::Result;
use crate::fs::dir::Access;
use crate::fs::error::Doing;
use crate::name::Name;
use crate::object::DirectoryModes;

/// Directories kept open by one writer: what a few open partitions touch at a time, and cheap in fds.
pub(super) const KEPT_BY_WRITER: usize = 64;
/// Directories kept open within one partition: a writer may have many of these open.
pub(super) const KEPT_BY_PARTITION: usize = 8;

/// Open directories below one.
pub(super) struct Parents {
    session: Arc<Session>,
    base: Arc<Parent>,
    kept_max: usize,
    /// The last used first.
    kept: Vec<Arc<Parent>>,
}

impl Parents {
    pub(super) fn new(session: Arc<Session>, base: Arc<Parent>, kept_max: usize) -> Parents {
        Parents { session, base, kept_max, kept: Vec::new() }
    }

    /// The directory that all of them lie in.
    pub(super) fn base(&self) -> &Arc<Parent> {
        &self.base
    }

    /// The directory `path` below the base, made where it is missing, with the bits that `modes` has for it; errors are
    /// those of `name`, which is to lie there.
    ///
    /// # Errors
    /// [`crate::Kind::NameConflict`] where a component is a file or a link; what making a directory may answer.
    pub(super) fn of(&mut self, path: Option<&[u8]>, name: &Name, modes: &dyn DirectoryModes) -> Result<Arc<Parent>> {
        let Some(path) = path else {
            return Ok(self.base.clone());
        };
        if let Some(parent) = self.recall(path) {
            return Ok(parent);
        }
        let ends = memchr::memchr_iter(b'/', path).chain([path.len()]);
        let mut parent = self.base.clone();
        for end in ends {
            let prefix = &path[..end];
            parent = match self.recall(prefix) {
                Some(next) => next,
                None => self.enter(&parent, prefix, name, modes)?,
            };
        }
        Ok(parent)
    }

    /// Closes what is kept; whether there was anything.
    pub(super) fn forget(&mut self) -> bool {
        let any = !self.kept.is_empty();
        self.kept.clear();
        any
    }

    fn recall(&mut self, path: &[u8]) -> Option<Arc<Parent>> {
        let at = self.kept.iter().position(|parent| parent.path[self.above()..] == *path)?;
        self.kept[..=at].rotate_right(1);
        Some(self.kept[0].clone())
    }

    /// How much of a kept directory's path leads to the base.
    fn above(&self) -> usize {
        match self.base.path.len() {
            0 => 0,
            length => length + 1,
        }
    }

    /// Opens the last component of `path`, which lies in `parent`. One that is there keeps the permissions it has.
    fn enter(&mut self, parent: &Parent, path: &[u8], name: &Name, modes: &dyn DirectoryModes) -> Result<Arc<Parent>> {
        let component = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let opened = match parent.dir.open(component) {
            Err(Errno::NOENT) => parent
                .dir
                .make(component, modes.mode_of(path).map_or(Access::Usual, Access::Bits))
                .map_err(Doing::MakeDirectory.failed())
                .and_then(|()| parent.dir.open(component).map_err(Doing::Open.failed())),
            other => other.map_err(Doing::Open.failed()).and_then(|dir| {
                // Two directories of the source would become one, and their files would take each other's names.
                let stored = || Ok(!parent.folds(&self.session)? || parent.dir.has_entry(component)?);
                match stored().map_err(Doing::Look.failed())? {
                    true => Ok(dir),
                    false => Err(Doing::Open.failed()(Errno::NOTDIR)),
                }
            }),
        };
        let path = joined(&self.base.path, path);
        let mut next = opened
            .and_then(|dir| self.session.parent(dir, &path))
            .map_err(|trouble| self.session.directory_error(trouble, parent, &path, name))?;
        next.ours = parent.ours;
        if self.kept.len() == self.kept_max {
            self.kept.pop();
        }
        self.kept.insert(0, Arc::new(next));
        Ok(self.kept[0].clone())
    }
}
