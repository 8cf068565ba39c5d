//! The walk through a tree: depth first, in the file system's own order, nothing kept but the chain of directories.
//!
//! Nothing is sorted and nothing collected, so a directory of ten million files costs as much memory as one of ten. Of a
//! directory one block of entries is held (what one system call gives); the rest is read when that is used up. A chain
//! deeper than `OPEN_MAX` keeps only its lower end open: a directory above is opened again, at the position it had, when
//! the walk comes back to it, and has failed if it is then another one.

use std::sync::Arc;

use rustix::io::Errno;

use super::run::Mark;
use super::seen::Odd;
use super::{OURS, Tree, What};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::Dir;
use crate::fs::read::unreadable;
use crate::fs::walk::{Block, Identity, Kind as Found};

/// Directories of a chain that are open at once; a process may have few descriptors.
const OPEN_MAX: usize = 32;
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
    /// Where to go on from, component by component, and how many of them were found.
    resume: Option<(Vec<Box<[u8]>>, usize)>,
}

impl Walk {
    /// A walk from the start, or behind the entry at path `after`.
    pub fn new(tree: Arc<Tree>, after: Option<&[u8]>) -> Walk {
        let components = |path: &[u8]| path.split(|&byte| byte == b'/').map(Into::into).collect();
        let resume = after.map(|path| (components(path), 0));
        Walk { tree, levels: Vec::new(), begun: false, path: Vec::new(), directory: 0, resume }
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
    /// [`Kind::OutOfFiles`]; [`Kind::Listing`] when the root itself cannot be read; [`Kind::CursorRefused`] when the place
    /// to go on from is gone.
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
            self.advance();
            return Ok(Step::Nothing);
        }
        if let Some((components, known)) = &mut self.resume {
            let here = &self.path[self.directory + usize::from(self.directory > 0)..];
            if *here != *components[*known] {
                self.advance();
                return Ok(Step::Nothing);
            }
            *known += 1;
            if *known == components.len() {
                self.resume = None;
                self.advance();
                return Ok(Step::Nothing);
            }
            let entered = self.enter();
            if let (Err(_), Some((_, known))) = (&entered, &mut self.resume) {
                *known -= 1;
            }
            return match entered? {
                Step::Nothing => Ok(Step::Nothing),
                _ => Err(refused()),
            };
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
        self.push(directory, block, 0);
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
                Ok(Found::Pipe) => Odd::Pipe,
                Ok(Found::Socket) => Odd::Socket,
                Ok(Found::Device) => Odd::Device,
                Ok(Found::Link | Found::Unknown) | Err(_) => Odd::Dangling,
            },
            Ok(Found::Link) => Odd::Link,
            Ok(Found::Pipe) => Odd::Pipe,
            Ok(Found::Socket) => Odd::Socket,
            // Nothing can say what it is: reading it will.
            Ok(Found::Unknown) | Err(_) => return Ok(self.pass(Mark::File)),
            Ok(Found::Device) => Odd::Device,
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

    fn skip(&mut self, odd: Odd) -> Step {
        let step = self.pass(Mark::NoObject);
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
        let around = self.opened(top)?;
        let size = if top < OPEN_MAX { BLOCK } else { BLOCK_DEEP };
        let opened = around.and_then(|around| {
            let directory = if follow { around.below(self.name(), true)? } else { around.open(self.name())? };
            let identity = if follow { Some(directory.identity()?) } else { None };
            if identity.is_some() && self.levels.iter().any(|level| level.identity == identity) {
                return Ok(None);
            }
            directory.block(size).map(|block| Some((directory, block)))
        });
        match opened {
            Ok(Some((directory, block))) => {
                self.advance();
                let path = self.path.len();
                self.push(directory, block, path);
                self.close_above();
                Ok(Step::Nothing)
            }
            Ok(None) => Ok(self.skip(Odd::Loop)),
            Err(errno @ (Errno::MFILE | Errno::NFILE)) => Err(unreadable(errno, None)),
            Err(errno) => {
                self.advance();
                Ok(self.failed(errno))
            }
        }
    }

    /// The directory whose path this is could not be read.
    fn failed(&mut self, errno: Errno) -> Step {
        self.tree.seen.unreadable(&self.path, errno);
        Step::Entry(Mark::Unreadable(errno))
    }

    fn push(&mut self, directory: Dir, block: Block, path: usize) {
        let identity = if self.tree.follow { directory.identity().ok() } else { None };
        // One that was read to its end is only needed for what is in it.
        self.levels.push(Level { directory: Some(Arc::new(directory)), block, path, identity, position: 0 });
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
                let size = if top < OPEN_MAX { BLOCK } else { BLOCK_DEEP };
                self.opened(top)?.and_then(|directory| directory.block(size).map(Some))
            }
        };
        match read {
            Ok(Some(block)) => {
                self.levels[top].block = block;
                Ok(Step::Nothing)
            }
            Ok(None) if self.resume.is_some() => Err(refused()),
            Ok(None) => {
                self.levels.pop();
                Ok(Step::Nothing)
            }
            Err(errno) if top == 0 => Err(self.root_failed(errno)),
            Err(_) if self.resume.is_some() => Err(refused()),
            Err(errno) => {
                self.levels.pop();
                self.directory = self.levels[top - 1].path;
                Ok(self.failed(errno))
            }
        }
    }
}

fn refused() -> Error {
    Error::new(Kind::CursorRefused, "what the journal's place in the listing was at is not there any more")
        .hint("list from the start and skip what is committed: --relist")
}
