//! `DirSink`: a directory, one file for each object, under the object's own name (layout `names`) or in a directory for
//! each partition (layout `partition`).
//!
//! How files are published: an object that is complete in memory is created directly if its name is free. A crash may
//! leave a part of it, which the journal does not know and the next run replaces. Objects in pieces, and all that
//! replace a file, are written in `.shoal/tmp/` and renamed. In the layout `partition` all objects are created in a
//! directory in `.shoal/tmp/`, which is renamed as a whole before the sync.
//!
//! Here: the sink and `sync`. `session.rs`: what `start` finds out. `writer.rs`: a lane's writer. `stream.rs`: objects
//! in pieces. `existing.rs`: names that are taken. `clock.rs`: the destination's clock. `attributes.rs`: times and
//! permissions. `partition.rs`: the directory of a partition. `temp.rs`: temporary files. `sweep.rs`: removes them.
//! `parents.rs`: directories below the destination. Not here: the journal and its lock, which are also in `.shoal`.

mod attributes;
mod clock;
mod existing;
mod parents;
mod partition;
mod session;
mod stream;
mod sweep;
mod temp;
mod withdrawn;
mod writer;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use self::clock::Warp;
use self::partition::Part;
use self::session::{Session, WRITER};
use self::writer::DirWriter;
use super::{Sealed, Settled, Sink, Start, Started, Writer};
use crate::error::{Error, Kind, Result};
use crate::fs::private::PrivateDir;
use crate::name::Name;
use crate::options::{Durability, Layout, Overwrite, TransferOptions};
use crate::session::Interval;

/// Where journal and temporary files live in a destination.
pub(crate) const SHOAL_DIR: &str = ".shoal";

/// How a directory is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirOptions {
    /// How often files are made durable.
    pub durability: Durability,
    /// What happens to a file that shoal did not write.
    pub overwrite: Overwrite,
    /// Where objects are in the destination.
    pub layout: Layout,
}

impl DirOptions {
    /// Returns the options for this sink from those of a run.
    pub fn of(options: &TransferOptions) -> DirOptions {
        let TransferOptions { durability, overwrite, layout, .. } = *options;
        DirOptions { durability, overwrite, layout }
    }
}

/// What another process needs to write for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The earlier sessions of the run.
    pub sessions: Vec<Interval>,
    /// When this session began, in nanoseconds since 1970 on the destination's clock.
    pub began: i64,
    /// The mode of a file that is created there with all permission bits; other files have a subset.
    pub file_mode: u32,
    /// The destination stores creation times of files.
    pub births: bool,
    /// Different names may mean the same file there.
    pub folds: bool,
}

/// A directory as the destination.
pub struct DirSink {
    path: PathBuf,
    options: DirOptions,
    session: OnceLock<Arc<Session>>,
    warp: Option<Warp>,
}

/// The directories, as paths below the destination, whose entries a slot has changed; `""` is the destination. Paths,
/// not fds: a batch may touch 20,000 of them. Bounded by the objects of a batch.
type Touched = BTreeSet<Box<[u8]>>;

/// What a sealed slot keeps for the barrier.
enum Held {
    /// Directories to sync.
    Touched(Touched),
    /// A directory to publish.
    Directory(Arc<Part>),
}

impl DirSink {
    /// Returns a sink for this directory. It creates and opens nothing before [`Sink::start`].
    ///
    /// # Errors
    /// [`Kind::Config`] if the path is empty.
    pub fn new(path: &Path, options: DirOptions) -> Result<DirSink> {
        // Absolute now: the program around us may change its working directory.
        let path =
            std::path::absolute(path).map_err(|_| Error::new(Kind::Config, "the destination's path is empty"))?;
        Ok(DirSink { path, options, session: OnceLock::new(), warp: None })
    }

    /// Returns a sink that writes for the run of another process. That run's own sink is told of its objects as
    /// [`Payload::Elsewhere`](crate::Payload::Elsewhere). It is neither started nor synced. In mode *again* it replaces
    /// existing files that a session of the run wrote.
    ///
    /// # Errors
    /// [`Kind::Config`] for another layout than `names`; errors of opening the directory.
    pub fn join(path: &Path, options: DirOptions, joined: Joined) -> Result<DirSink> {
        if options.layout != Layout::Names {
            return Err(Error::new(
                Kind::Config,
                "several processes can write into one directory only with layout=\"names\"",
            ));
        }
        let sink = DirSink::new(path, options)?;
        let session = Session::join(&sink.path, options, joined)?;
        let _ = sink.session.set(Arc::new(session));
        Ok(sink)
    }

    /// Returns what another process needs to [`join`](DirSink::join); `None` before the run has started.
    pub fn joining(&self) -> Option<Joined> {
        self.session.get().and_then(|session| session.joining())
    }

    /// For tests: all times of the destination are seen through `warp`, as if its clock had jumped.
    #[doc(hidden)]
    #[must_use]
    pub fn with_clock(mut self, warp: Warp) -> DirSink {
        self.warp = Some(warp);
        self
    }

    /// The absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn session(&self) -> Result<&Arc<Session>> {
        let unstarted = || Error::new(Kind::Internal, "a directory was written to before start");
        self.session.get().ok_or_else(unstarted)
    }
}

impl Sink for DirSink {
    fn identity(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        match self.path.to_str() {
            Some(text) => text.to_owned(),
            None => self.path.as_os_str().as_bytes().escape_ascii().to_string(),
        }
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }

    fn has_begun(&self) -> bool {
        let writer = PrivateDir::open(&self.path).ok().flatten().map(|shoal| shoal.has_file(WRITER.as_ref()));
        matches!(writer, Some(Ok(true)))
    }

    fn start(&self, start: &Start) -> Result<Started> {
        let (session, started) = Session::start(&self.path, self.options, start, self.warp.clone())?;
        match self.session.set(Arc::new(session)) {
            Ok(()) => Ok(started),
            Err(_) => Err(Error::new(Kind::Internal, "a directory sink was started twice")),
        }
    }

    fn clock(&self) -> Result<Option<i64>> {
        self.session()?.now()
    }

    fn writer(&self, _lane: usize) -> Result<Box<dyn Writer>> {
        Ok(Box::new(DirWriter::new(self.session()?.clone())))
    }

    fn sync(&self, sealed: Vec<Sealed>, _last: bool) -> Result<Settled> {
        let mut durable = BTreeSet::new();
        let mut touched = Touched::new();
        let mut parts = BTreeMap::new();
        for part in sealed {
            durable.insert(part.seq);
            match part.held.and_then(|held| held.downcast::<Held>().ok()).map(|held| *held) {
                Some(Held::Touched(more)) => touched.extend(more),
                Some(Held::Directory(directory)) => drop(parts.insert(part.seq, directory)),
                None => {}
            }
        }
        if durable.is_empty() {
            return Ok(Settled::default());
        }
        let session = self.session()?;
        let replaced = partition::publish(session, &parts, &mut touched)?;
        let reach = session.sync(touched)?;
        partition::delete(session, &replaced);
        Ok(Settled { durable: durable.into_iter().collect(), reach })
    }

    fn withdraw(&self, seq: u64, name: &Name) {
        if let Some(session) = self.session.get() {
            session.withdraw(seq, name);
        }
    }

    fn finish(&self) -> Result<()> {
        if let Some(clock) = &self.session()?.clock {
            clock.remove();
        }
        Ok(())
    }
}
