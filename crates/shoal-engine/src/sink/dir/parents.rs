//! The directories below the destination, made and opened one component at a time, some of them kept open.
//!
//! What is kept is the fd, never the knowledge that a path is safe: a directory that was checked once and replaced by a
//! link afterwards is simply not looked up again. Not here: files.

use std::sync::Arc;

use rustix::io::Errno;

use super::session::{Parent, Session};
use crate::error::Result;
use crate::fs::dir::Access;
use crate::fs::error::Doing;
use crate::name::Name;

/// Directories kept open by one writer: what a few open partitions touch at a time, and cheap in fds.
const KEPT_MAX: usize = 64;

/// A writer's open directories.
pub(super) struct Parents {
    session: Arc<Session>,
    /// The last used first.
    kept: Vec<Arc<Parent>>,
}

impl Parents {
    pub(super) fn new(session: Arc<Session>) -> Parents {
        Parents { session, kept: Vec::new() }
    }

    /// The directory in which `name` lies, made where it is missing.
    ///
    /// # Errors
    /// [`crate::Kind::NameConflict`] where a component is a file or a link; what making a directory may answer.
    pub(super) fn of(&mut self, name: &Name) -> Result<Arc<Parent>> {
        let Some(path) = name.split().0 else {
            return Ok(self.session.root.clone());
        };
        if let Some(parent) = self.recall(path) {
            return Ok(parent);
        }
        let ends = memchr::memchr_iter(b'/', path).chain([path.len()]);
        let mut parent = self.session.root.clone();
        for end in ends {
            let prefix = &path[..end];
            parent = match self.recall(prefix) {
                Some(next) => next,
                None => self.enter(&parent, prefix, name)?,
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
        let at = self.kept.iter().position(|parent| *parent.path == *path)?;
        self.kept[..=at].rotate_right(1);
        Some(self.kept[0].clone())
    }

    /// Opens the last component of `path`, which lies in `parent`.
    fn enter(&mut self, parent: &Parent, path: &[u8], name: &Name) -> Result<Arc<Parent>> {
        let component = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let opened = match parent.dir.open(component) {
            Err(Errno::NOENT) => parent
                .dir
                .make(component, Access::Usual)
                .map_err(Doing::MakeDirectory.failed())
                .and_then(|()| parent.dir.open(component).map_err(Doing::Open.failed())),
            other => other.map_err(Doing::Open.failed()),
        };
        let next = opened
            .and_then(|dir| self.session.parent(dir, path))
            .map_err(|trouble| self.session.directory_error(trouble, parent, path, name))?;
        if self.kept.len() == KEPT_MAX {
            self.kept.pop();
        }
        self.kept.insert(0, Arc::new(next));
        Ok(self.kept[0].clone())
    }
}
