//! The walk through a tree: depth first, in the file system's own order, nothing kept but the chain of directories.
//!
//! Nothing is sorted and nothing collected, so a directory of ten million files costs as much memory as one of ten. Of a
//! directory one block of entries is held (what one system call gives); the rest is read when that is used up. A chain
//! deeper than `OPEN_MAX` keeps only its lower end open: a directory above is opened again, at the position it had, when
//! the walk comes back to it, and has failed if it is then another one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::ahead::{Ahead, LEVEL_MAX, Opened, Order, pace};
use super::run::Mark;
use super::{OURS, Tree, What};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::Dir;
use crate::fs::read::unreadable;
use crate::fs::walk::{Block, Identity, Kind as Found};
use crate::report::Reason;

/// Directories of a chain that are open at once; a process may have few descriptors.
const OPEN_MAX: usize = 16;
/// Bytes of entries read at once: about 1,000 short names, as the C library does. Deep down less, so that a chain of
/// 2,000 directories, the deepest a path can name, holds 9 MiB at the most.
const BLOCK: usize = 32 << 10;
const BLOCK_DEEP: usize = 4 << 10;

/// One directory of the chain.
struct Level {
    /// `None`: too many are open below it.
    directory: Option<Arc<Dir>>,
    block: Block,
    /// Length of its path.
    path: usize,
    /// Known where links are followed, and of those that were closed.
    identity: Option<Identity>,
    /// Where it was read to, of one that was closed.
    position: u64,
    /// Directories in the block that are read ahead, by their places in it.
    orders: VecDeque<(usize, Arc<Order>)>,
    /// How far the block was searched for such.
    searched: usize,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An entry of the listing; [`Walk::directory`] and [`Walk::name`] say which.
    Entry(Mark),
    /// Nothing for the listing.
    Nothing,
    /// The end.
    End,
}

/// A walk under way.
pub(super) struct Walk {
    tree: Arc<Tree>,
    levels: Vec<Level>,
    begun: bool,
    /// The path of the entry the walk stands at, below the root.
    path: Vec<u8>,
    /// The length of its directory's path.
    directory: usize,
    ahead: Ahead,
}

impl Walk {
    /// A walk from the start; directories that take longer than `slow` are read ahead.
    pub fn new(tree: Arc<Tree>, slow: Duration) -> Walk {
        Walk { tree, levels: Vec::new(), begun: false, path: Vec::new(), directory: 0, ahead: Ahead::new(slow) }
    }

    /// The path of the directory of the last entry.
    pub fn directory(&self) -> &[u8] {
        &self.path[..self.directory]
    }

    /// The last entry's own name.
    pub fn name(&self) -> &[u8] {
        &self.path[self.directory + usize::from(self.directory > 0)..]
    }

    /// The path of the last entry.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Goes on by one entry. After an error of class `Retry` the same step can be tried again.
    ///
    /// # Errors
    /// [`Kind::OutOfFiles`]; [`Kind::Listing`] when the root itself cannot be read.
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
        if self.levels.len() == 1 && self.name().eq_ignore_ascii_case(OURS) {
            self.tree.seen.ours();
            self.advance();
            return Ok(Step::Nothing);
        }
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

    /// The entry at which the walk stands.
    fn entry(&mut self, found: Found) -> Result<Step> {
        let found = match found {
            Found::Unknown => self.look(false)?,
            found => Ok(found),
        };
        let odd = match found {
            Ok(Found::File) => return Ok(self.pass(Mark::File)),
            Ok(Found::Directory) => return self.enter(),
            Ok(Found::Link) if self.tree.follow => match self.look(true)? {
                Ok(Found::File) => return Ok(self.pass(Mark::File)),
                Ok(Found::Directory) => return self.enter(),
                Ok(Found::Pipe) => Reason::Pipe,
                Ok(Found::Socket) => Reason::Socket,
                Ok(Found::Device) => Reason::Device,
                Ok(Found::Link | Found::Unknown) | Err(_) => Reason::DanglingLink,
            },
            Ok(Found::Link) => Reason::Link,
            Ok(Found::Pipe) => Reason::Pipe,
            Ok(Found::Socket) => Reason::Socket,
            // Nothing can say what it is: reading it will.
            Ok(Found::Unknown) | Err(_) => return Ok(self.pass(Mark::File)),
            Ok(Found::Device) => Reason::Device,
        };
        Ok(self.skip(odd))
    }

    /// Leaves the entry behind; it is one of the listing unless a glob says otherwise.
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
            self.tree.seen.odd(odd);
        }
        step
    }

    fn wants(&self) -> bool {
        match &self.tree.what {
            What::Walk(Some(pattern)) => pattern.matches(&self.path),
            _ => true,
        }
    }

    /// What the entry is, or what its link leads to; the outer error: the directory around it cannot be opened again.
    fn look(&mut self, follow: bool) -> Result<Result<Found, Errno>> {
        let top = self.levels.len() - 1;
        Ok(match self.opened(top)? {
            Ok(directory) => directory.kind(self.name(), follow),
            Err(errno) => Err(errno),
        })
    }

    /// Goes into the directory at which the walk stands.
    fn enter(&mut self) -> Result<Step> {
        let (top, follow) = (self.levels.len() - 1, self.tree.follow);
        if let What::Walk(Some(pattern)) = &self.tree.what
            && !pattern.enters(top, self.name())
        {
            self.advance();
            return Ok(Step::Nothing);
        }
        let opened = self.opened(top)?.and_then(|around| {
            let opened = match self.ordered(top, &around) {
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
            // Nothing would bring it along.
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

    /// Opens the directory at which the walk stands, and reads its first entries.
    fn read_here(&mut self, around: &Dir) -> Opened {
        let began = Instant::now();
        let directory = if self.tree.follow { around.below(self.name(), true)? } else { around.open(self.name())? };
        let opened = directory.block(block_size(self.levels.len())).map(|block| (Some(directory), block));
        self.ahead.took(pace(began, &opened));
        opened
    }

    /// The same, read ahead; and orders those that come next.
    fn ordered(&mut self, top: usize, around: &Arc<Dir>) -> Option<Opened> {
        if self.tree.follow {
            return None; // a loop must be seen before it is entered
        }
        let (level, what) = (&mut self.levels[top], &self.tree.what);
        let here = level.block.place();
        level.searched = level.searched.max(level.block.at(here).map_or(here, |(.., next)| next));
        while level.orders.len() < LEVEL_MAX
            && self.ahead.has_room()
            && let Some((found, name, next)) = level.block.at(level.searched)
        {
            let enters = match what {
                What::Walk(Some(pattern)) => pattern.enters(top, name),
                _ => true,
            };
            if found == Found::Directory && enters && !(top == 0 && name.eq_ignore_ascii_case(OURS)) {
                let order = self.ahead.order(around, name, block_size(top + 1));
                level.orders.push_back((level.searched, order));
            }
            level.searched = next;
        }
        match level.orders.front() {
            Some((place, _)) if *place == here => {
                let (_, order) = level.orders.pop_front()?;
                self.ahead.take(&order)
            }
            _ => None,
        }
    }

    /// The directory whose path this is could not be read.
    fn failed(&mut self, errno: Errno) -> Step {
        self.tree.seen.unreadable(&self.path, errno);
        Step::Entry(Mark::Unreadable(errno))
    }

    fn push(&mut self, directory: Option<Dir>, block: Block, path: usize) {
        let identity = directory.as_ref().filter(|_| self.tree.follow).and_then(|directory| directory.identity().ok());
        let (directory, orders) = (directory.map(Arc::new), VecDeque::new());
        self.levels.push(Level { directory, block, path, identity, position: 0, orders, searched: 0 });
    }

    /// Closes the directory far above that this one is one too many for.
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

    /// The directory of a level, opened again if it was closed; the inner error: it is not there any more.
    fn opened(&mut self, at: usize) -> Result<Result<Arc<Dir>, Errno>> {
        let level = &mut self.levels[at];
        if let Some(directory) = &level.directory {
            return Ok(Ok(directory.clone()));
        }
        let again = self.tree.root.below(&self.path[..level.path], self.tree.follow).and_then(|directory| {
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

    /// Reads the next block of the directory at hand, or leaves it.
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
                self.levels.pop();
                Ok(Step::Nothing)
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

/// How much of a directory is read at once, by the number of directories above it.
fn block_size(depth: usize) -> usize {
    if depth < OPEN_MAX { BLOCK } else { BLOCK_DEEP }
}

#[cfg(test)]
mod tests {
    use super::super::{Files, FilesFrom, FilesOptions};
    use super::*;

    fn tree(path: &std::path::Path) -> Arc<Tree> {
        Files::new(FilesFrom::Path(path.to_owned()), FilesOptions::default()).unwrap().tree
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
                Step::Nothing => {}
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
        let (threads, pool) = walk.ahead.threads();
        assert!(threads > 0, "this tree has directories to read ahead");
        drop(walk);
        assert_eq!(pool.strong_count(), 0, "every thread has let go of it");
    }
}
