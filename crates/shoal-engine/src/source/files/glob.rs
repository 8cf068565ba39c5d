//! A glob gone through at once, for sources that need all that matches before they begin.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ahead::SLOW;
use super::run::Mark;
use super::walk::{Step, Walk};
use super::{Files, FilesFrom, FilesOptions, Tree, What};
use crate::error::Result;

/// A glob, its root held open.
pub(in crate::source) struct Glob(Arc<Tree>);

impl Glob {
    /// As [`Files::new`].
    pub fn new(text: &str) -> Result<Glob> {
        Ok(Glob(Files::new(FilesFrom::Glob(text.to_owned()), FilesOptions::default())?.tree))
    }

    /// The directory it begins in, free of links.
    pub fn root(&self) -> &Path {
        &self.0.path
    }

    /// Below the root, as the user wrote it.
    pub fn text(&self) -> &str {
        match &self.0.what {
            What::Walk(Some(pattern)) => pattern.text(),
            _ => "",
        }
    }

    /// Whether it looks for anything in this directory, itself below the root and not the root.
    pub fn enters(&self, directory: &Path) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let What::Walk(Some(pattern)) = &self.0.what else { return false };
        let Ok(below) = directory.strip_prefix(&self.0.path) else { return false };
        let mut components = below.components().enumerate().peekable();
        components.peek().is_some()
            && components.all(|(depth, name)| pattern.enters(depth, name.as_os_str().as_bytes()))
    }

    /// Calls `each` with every path that matches, links and directories that cannot be read among them.
    pub async fn each(&self, mut each: impl FnMut(PathBuf)) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let mut walk = Walk::new(self.0.clone(), SLOW);
        let mut steps = 0u32;
        loop {
            match walk.step()? {
                Step::Entry(Mark::File | Mark::NoObject(_) | Mark::Unreadable(_)) => {
                    each(self.0.path.join(std::ffi::OsStr::from_bytes(walk.path())));
                }
                Step::Entry(Mark::Empty) | Step::Nothing => {}
                Step::End => return Ok(()),
            }
            steps += 1;
            if steps.is_multiple_of(1024) {
                tokio::task::yield_now().await;
            }
        }
    }
}
