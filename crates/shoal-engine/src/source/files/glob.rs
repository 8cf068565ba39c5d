//! All matches of a glob at once, for sources that need them before they begin.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entries::Mark;
use super::options::{FilesFrom, FilesOptions, Links};
use super::prefetch::SLOW;
use super::tree::{Selection, Tree};
use super::walk::{Step, Walk};
use crate::error::Result;

/// A glob whose root is open.
pub(in crate::source) struct Glob(Arc<Tree>);

impl Glob {
    /// Opens the root.
    ///
    /// # Errors
    /// As of [`Tree::open`].
    pub fn new(text: &str) -> Result<Glob> {
        let options = FilesOptions { links: Some(Links::Skip) };
        let (tree, _) = Tree::open(FilesFrom::Glob(text.to_owned()), options)?;
        Ok(Glob(Arc::new(tree)))
    }

    /// The directory it begins in, absolute and free of links.
    pub fn root(&self) -> &Path {
        &self.0.path
    }

    /// The pattern below the root, as the user wrote it.
    pub fn text(&self) -> &str {
        match &*self.0.selection {
            Selection::Walk(Some(pattern)) => pattern.text(),
            _ => "",
        }
    }

    /// Whether it looks for matches in this directory, which must be below the root.
    pub fn enters(&self, directory: &Path) -> bool {
        directory != self.0.path && self.0.lists_below(directory)
    }

    /// Calls `each` with every path that matches, including links and directories that cannot be read.
    pub async fn each(&self, mut each: impl FnMut(PathBuf)) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let mut walk = Walk::new(self.0.clone(), SLOW);
        let mut steps = 0u32;
        loop {
            match walk.step()? {
                Step::Entry(Mark::File | Mark::NoObject(_) | Mark::Unreadable(_)) => {
                    each(self.0.path.join(std::ffi::OsStr::from_bytes(walk.path())));
                }
                Step::Entry(Mark::Empty | Mark::Link | Mark::LinkToFile) | Step::Left | Step::Nothing => {}
                Step::End => return Ok(()),
            }
            steps += 1;
            if steps.is_multiple_of(1024) {
                tokio::task::yield_now().await;
            }
        }
    }
}
