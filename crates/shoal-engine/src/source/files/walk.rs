//! The walk through a tree: depth first, in the order of the file system, keeping only the chain of open directories.
//!
//! Nothing is sorted or collected, so a directory of ten million files needs as much memory as one of ten. Of each
//! directory it holds one block of entries (the result of one system call) and reads the next when that is used up. Of
//! a chain deeper than `OPEN_MAX`, only the lower end is open: a directory further up is opened again, at its old
//! position, when the walk returns to it. If it is then a different directory, it has failed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::entries::Mark;
use super::prefetch::{LEVEL_MAX, OpenedDirectory, Prefetch, PrefetchTask, pace};
use super::skip_stats::SkipStats;
use super::tree::{Following, Selection, Tree};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Dir, FileId};
use crate::fs::read::unreadable;
use crate::fs::walk::{Block, Kind as Found};
use crate::name::SHOAL_DIR;
use crate::report::Reason;

/// Most directories of the chain that are open at once: a process may have few descriptors.
const OPEN_MAX: usize = 16;
/// Bytes of entries read at once: about 1,000 short names, as the C library does. Less in deep directories, so that a
/// chain of 2,000 directories, the deepest that a path can name, holds at most 9 MiB.
const BLOCK: usize = 32 << 10;
const BLOCK_DEEP: usize = 4 << 10;

/// One directory of the chain.
struct Level {
    /// `None` if it was closed because too many are open below it.
    directory: Option<Arc<Dir>>,
    block: Block,
    /// Length of its path.
    path: usize,
    /// Set if links are followed or the directory was closed.
    identity: Option<FileId>,
    /// Where to continue reading a directory that was closed.
    position: u64,
    /// Directories of the block that are read ahead, with their positions in it.
    tasks: VecDeque<(usize, Arc<PrefetchTask>)>,
    /// How far the block was searched for directories to read ahead.
    searched: usize,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An entry of the listing. [`Walk::directory`] and [`Walk::name`] return which.
    Entry(Mark),
    /// All below the directory [`Walk::path`] has been passed.
    Left,
    /// No entry; step again.
    Nothing,
    /// The walk has ended.
    End,
}

/// A walk in progress.
pub(super) struct Walk {
    tree: Arc<Tree>,
    levels: Vec<Level>,
    begun: bool,
    /// The path of the current entry, below the root.
    path: Vec<u8>,
    /// The length of the path of its directory.
    directory: usize,
    prefetch: Prefetch,
    keeps_hard_links: bool,
    several_names: Option<FileId>,
    /// What it has left out.
    pub skip_stats: SkipStats,
}

impl Walk {
    /// Starts a walk. Directories are read ahead if they take longer than `slow`.
    pub fn new(tree: Arc<Tree>, slow: Duration) -> Walk {
        Walk {
            keeps_hard_links: tree.keeps_hard_links(),
            several_names: None,
            tree,
            levels: Vec::new(),
            begun: false,
            path: Vec::new(),
            directory: 0,
            prefetch: Prefetch::new(slow),
            skip_stats: SkipStats::default(),
        }
    }

    /// Returns the path of the directory of the last entry.
    pub fn directory(&self) -> &[u8] {
        &self.path[..self.directory]
    }

    /// Returns the name of the last entry in its directory.
    pub fn name(&self) -> &[u8] {
        &self.path[self.directory + usize::from(self.directory > 0)..]
    }

    /// Returns the path of the last entry.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Which file the last entry is, if that has several names and hard links are kept.
    pub fn several_names(&self) -> Option<FileId> {
        self.several_names
    }

    /// Advances by one entry. After an error of class `Retry`, the same step can be retried.
    ///
    /// # Errors
    /// [`Kind::OutOfFiles`]; [`Kind::Listing`] if the root itself cannot be read.
    pub fn step(&mut self) -> Result<Step> {
        if !self.begun {
            self.begin()?;
        }
        let Some(level) = self.levels.last_mut() else { return Ok(Step::End) };
        let Some((found, name)) = level.block.peek() else { return self.read_on() };
        self.directory = level.path;
        self.path.truncate(level.path);
        if level.path > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        self.entry(found)
    }

    fn begin(&mut self) -> Result<()> {
        let lost = |errno| match errno {
            Errno::MFILE | Errno::NFILE => unreadable(errno, None),
            errno => self.root_failed(errno),
        };
        let directory = self.tree.root.below(b"", true).map_err(lost)?;
        let block = directory.block(BLOCK).map_err(lost)?;
        self.begun = true;
        self.push(Some(directory), block, 0);
        Ok(())
    }

    fn root_failed(&self, errno: Errno) -> Error {
        use std::os::unix::ffi::OsStrExt;
        let shown = crate::display::escape(self.tree.path.as_os_str().as_bytes());
        unreadable(errno, None).into_kind(Kind::Listing).on(&shown)
    }

    fn advance(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.block.advance();
        }
    }

    /// Handles the current entry.
    fn entry(&mut self, found: Found) -> Result<Step> {
        let found = match found {
            Found::Unknown => self.look(false)?,
            found => Ok(found),
        };
        let odd = match found {
            Ok(Found::File) => {
                if self.keeps_hard_links {
                    let top = self.levels.len() - 1;
                    let directory = self.opened(top)?;
                    // If it cannot be looked at, fetching it tells.
                    self.several_names = directory.ok().and_then(|directory| directory.several_names(self.name()));
                }
                return Ok(self.pass(Mark::File));
            }
            Ok(Found::Directory) => return self.enter(),
            Ok(Found::Link) if self.tree.following() == Following::Copy => return Ok(self.pass(Mark::Link)),
            Ok(Found::Link) if self.tree.following() != Following::Nothing => match self.look(true)? {
                // One that leads to nothing fails when it is fetched.
                Ok(Found::File | Found::Link | Found::Unknown)
                | Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP) => {
                    let step = self.pass(Mark::LinkToFile);
                    self.skip_stats.followed += u64::from(step != Step::Nothing);
                    return Ok(step);
                }
                Ok(Found::Directory) if self.tree.follows() => {
                    self.skip_stats.followed += 1;
                    return self.enter();
                }
                Ok(Found::Directory) => Reason::Link,
                Ok(Found::Pipe) => Reason::Pipe,
                Ok(Found::Socket) => Reason::Socket,
                Ok(Found::Device) => Reason::Device,
                // A file or a directory may be there. The kernel has not said that nothing is.
                Err(errno) => {
                    self.advance();
                    let matches = self.tree.enters(self.levels.len() - 1, self.name()) || self.wants();
                    return Ok(if matches { self.failed(errno) } else { Step::Nothing });
                }
            },
            Ok(Found::Link) => Reason::Link,
            Ok(Found::Pipe) => Reason::Pipe,
            Ok(Found::Socket) => Reason::Socket,
            // Its kind is unknown. Reading it will tell.
            Ok(Found::Unknown) | Err(_) => return Ok(self.pass(Mark::File)),
            Ok(Found::Device) => Reason::Device,
        };
        Ok(self.skip(odd))
    }

    /// Passes the entry; it belongs to the listing unless it does not match the glob.
    fn pass(&mut self, mark: Mark) -> Step {
        self.advance();
        match self.wants() {
            true => Step::Entry(mark),
            false => Step::Nothing,
        }
    }

    fn skip(&mut self, odd: Reason) -> Step {
        let step = self.pass(Mark::NoObject(odd));
        if step != Step::Nothing {
            self.skip_stats.odd(odd);
        }
        step
    }

    fn wants(&self) -> bool {
        match &*self.tree.selection {
            Selection::Walk(Some(pattern)) => pattern.matches(&self.path),
            _ => true,
        }
    }

    /// Returns the kind of the entry, or of the target of its link. The outer error: its directory cannot be opened
    /// again.
    fn look(&mut self, follow: bool) -> Result<Result<Found, Errno>> {
        let top = self.levels.len() - 1;
        Ok(match self.opened(top)? {
            Ok(directory) => directory.kind(self.name(), follow),
            Err(_) => Err(Errno::STALE), // whatever became of the directory, its entry is not known to be gone
        })
    }

    /// Enters the current entry, which is a directory.
    fn enter(&mut self) -> Result<Step> {
        let (top, follow) = (self.levels.len() - 1, self.tree.follows());
        let is_ours = is_ours(top, self.name());
        if is_ours || !self.tree.enters(top, self.name()) {
            if is_ours {
                self.skip_stats.ours();
            }
            self.advance();
            return Ok(Step::Nothing);
        }
        let opened = self.opened(top)?.and_then(|around| {
            let opened = match self.prefetched(top, &around) {
                Some(Err(Errno::MFILE | Errno::NFILE)) | None => self.read_here(&around),
                Some(opened) => opened,
            };
            let (directory, block) = opened?;
            let identity = match &directory {
                Some(directory) if follow => Some(directory.identity()?),
                _ => None,
            };
            let is_loop = identity.is_some() && self.levels.iter().any(|level| level.identity == identity);
            Ok((!is_loop).then_some((directory, block)))
        });
        match opened {
            // No entry below it would create it.
            Ok(Some((_, block))) if block.is_last() && block.len() == 0 => Ok(self.pass(Mark::Empty)),
            Ok(Some((directory, block))) => {
                self.advance();
                let path = self.path.len();
                self.push(directory, block, path);
                self.close_above();
                Ok(Step::Nothing)
            }
            Ok(None) => Ok(self.skip(Reason::LoopingLink)),
            Err(errno @ (Errno::MFILE | Errno::NFILE)) => Err(unreadable(errno, None)),
            Err(errno) => {
                self.advance();
                Ok(self.failed(errno))
            }
        }
    }

    /// Opens the current directory entry and reads its first entries.
    fn read_here(&mut self, around: &Dir) -> OpenedDirectory {
        let began = Instant::now();
        let directory =
            if self.tree.follows() { around.below(self.name(), true)? } else { around.open(self.name())? };
        let opened = directory.block(block_size(self.levels.len())).map(|block| (Some(directory), block));
        self.prefetch.took(pace(began, &opened));
        opened
    }

    /// The same if it was read ahead. Also enqueues the directories that come next.
    fn prefetched(&mut self, top: usize, around: &Arc<Dir>) -> Option<OpenedDirectory> {
        if self.tree.follows() {
            return None; // a loop must be detected before it is entered
        }
        let level = &mut self.levels[top];
        let here = level.block.place();
        level.searched = level.searched.max(level.block.at(here).map_or(here, |(.., next)| next));
        while level.tasks.len() < LEVEL_MAX
            && self.prefetch.has_room()
            && let Some((found, name, next)) = level.block.at(level.searched)
        {
            if found == Found::Directory && self.tree.enters(top, name) && !is_ours(top, name) {
                let task = self.prefetch.enqueue(around, name, block_size(top + 1), self.keeps_hard_links);
                level.tasks.push_back((level.searched, task));
            }
            level.searched = next;
        }
        match level.tasks.front() {
            Some((place, _)) if *place == here => {
                let (_, task) = level.tasks.pop_front()?;
                self.prefetch.take(&task)
            }
            _ => None,
        }
    }

    /// Returns the failed entry of what is at `path`: a directory, or a link that may lead to one.
    fn failed(&mut self, errno: Errno) -> Step {
        self.skip_stats.unreadable(&self.path, errno);
        Step::Entry(Mark::Unreadable(errno))
    }

    fn push(&mut self, directory: Option<Dir>, block: Block, path: usize) {
        let identity =
            directory.as_ref().filter(|_| self.tree.follows()).and_then(|directory| directory.identity().ok());
        let (directory, tasks) = (directory.map(Arc::new), VecDeque::new());
        self.levels.push(Level { directory, block, path, identity, position: 0, tasks, searched: 0 });
    }

    /// Closes the directory `OPEN_MAX` levels up, if it is open.
    fn close_above(&mut self) {
        let Some(above) = self.levels.len().checked_sub(OPEN_MAX + 1) else { return };
        let level = &mut self.levels[above];
        let Some(directory) = &level.directory else { return };
        let known = directory.identity().and_then(|identity| Ok((identity, directory.position()?)));
        if let Ok((identity, position)) = known {
            (level.identity, level.position) = (Some(identity), position);
            level.directory = None;
        }
    }

    /// Returns the directory of a level, opened again if it was closed. The inner error: it is no longer there.
    fn opened(&mut self, at: usize) -> Result<Result<Arc<Dir>, Errno>> {
        let level = &mut self.levels[at];
        if let Some(directory) = &level.directory {
            return Ok(Ok(directory.clone()));
        }
        let again = self.tree.root.below(&self.path[..level.path], self.tree.follows()).and_then(|directory| {
            if Some(directory.identity()?) != level.identity {
                return Err(Errno::STALE);
            }
            directory.go_to(level.position)?;
            Ok(Arc::new(directory))
        });
        match again {
            Ok(directory) => {
                level.directory = Some(directory.clone());
                Ok(Ok(directory))
            }
            Err(errno @ (Errno::MFILE | Errno::NFILE)) => Err(unreadable(errno, None)),
            Err(errno) => Ok(Err(errno)),
        }
    }

    /// Reads the next block of the current directory, or leaves it at its end.
    fn read_on(&mut self) -> Result<Step> {
        let top = self.levels.len() - 1;
        let read = match self.levels[top].block.is_last() {
            true => Ok(None),
            false => {
                self.path.truncate(self.levels[top].path);
                self.opened(top)?.and_then(|directory| directory.block(block_size(top)).map(Some))
            }
        };
        match read {
            Ok(Some(block)) => {
                (self.levels[top].block, self.levels[top].searched) = (block, 0);
                Ok(Step::Nothing)
            }
            Ok(None) => {
                self.path.truncate(self.levels[top].path);
                self.levels.pop();
                Ok(Step::Left)
            }
            Err(errno) if top == 0 => Err(self.root_failed(errno)),
            Err(errno) => {
                self.levels.pop();
                self.directory = self.levels[top - 1].path;
                Ok(self.failed(errno))
            }
        }
    }
}

/// Whether a directory is the one in which shoal keeps a journal. Another spelling is of a file system that tells them
/// apart, so it is not ours.
fn is_ours(depth: usize, name: &[u8]) -> bool {
    depth == 0 && name == SHOAL_DIR.as_bytes()
}

/// How many bytes of entries are read at once, by the depth of the directory.
fn block_size(depth: usize) -> usize {
    if depth < OPEN_MAX { BLOCK } else { BLOCK_DEEP }
}

#[cfg(test)]
mod tests {
    use super::super::options::{FilesFrom, FilesOptions};
    use super::*;

    fn tree(path: &std::path::Path) -> Arc<Tree> {
        Arc::new(Tree::open(FilesFrom::Path(path.to_owned()), FilesOptions::default()).unwrap().0)
    }

    fn walk(tree: &Arc<Tree>, slow: Duration) -> Vec<Vec<u8>> {
        let mut walk = Walk::new(tree.clone(), slow);
        let mut found = Vec::new();
        loop {
            match walk.step().unwrap() {
                Step::Entry(mark) => {
                    assert_eq!(mark, Mark::File);
                    found.push(walk.path().to_vec());
                }
                Step::Left | Step::Nothing => {}
                Step::End => return found,
            }
        }
    }

    /// Three levels of directories, and a chain of 40.
    fn grown() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |path: String| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"").unwrap();
        };
        for n in 0..400 {
            put(format!("{}/{}/{n}", n % 20, n % 7));
            put(format!("{}/{n}.x", n % 20));
        }
        for depth in 0..40 {
            put(format!("{}file", "d/".repeat(depth)));
            put(format!("{}late", "d/".repeat(depth)));
        }
        root
    }

    #[test]
    fn what_is_read_ahead_comes_in_the_same_order() {
        let root = grown();
        let tree = tree(root.path());
        let alone = walk(&tree, Duration::MAX);
        assert_eq!(alone.len(), 880);
        for _ in 0..5 {
            assert_eq!(walk(&tree, Duration::ZERO), alone);
        }
    }

    #[test]
    fn threads_that_read_ahead_end_with_the_walk() {
        let root = grown();
        let mut walk = Walk::new(tree(root.path()), Duration::ZERO);
        for _ in 0..300 {
            walk.step().unwrap();
        }
        let (threads, pool) = walk.prefetch.threads();
        assert!(threads > 0, "this tree has directories to read ahead");
        drop(walk);
        assert_eq!(pool.strong_count(), 0, "every thread has let go of it");
    }
}
