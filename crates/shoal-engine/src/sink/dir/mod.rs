//! `DirSink`: a directory, one file for each object, under the object's own name.
//!
//! How files are published: an object that is complete in memory is created directly if its name is free. A crash may
//! leave a part of it, which the journal does not know and the next run replaces. Objects in pieces, and all that
//! replace a file, are written in `.shoal/tmp/` and renamed.
//!
//! Here: the sink. The other files, each of which uses only files of the lines above it:
//! - `options.rs`, `joined.rs`, `lost.rs` (what could not be kept), `clock.rs`, `writing.rs` (names that are being
//!   written), `directory.rs`, `temp_name.rs`, `open.rs` (opens and locks the directories), `removals.rs` (files that
//!   are to be removed)
//! - `barrier.rs`, `cleanup.rs`, `probe.rs` (what a file system can do), `description.rs` (for the report)
//! - `destination.rs`: what a session knows of the destination
//! - `attributes.rs`: all that a file gets besides its bytes. `directory_attributes.rs`: the same of directories
//! - `target.rs`: an object's file, and error texts. `withdrawn.rs`: removes files of objects that failed after all
//! - `directory_cache.rs`: directories below the destination. `temp_file.rs`: temporary files
//! - `existing.rs`: names that are taken. `links.rs`: symbolic links, and further names of a file
//! - `open_partition.rs`: a lane's share of a partition. `whole_object.rs`, then `stream.rs`: write an object
//! - `writer.rs`: a lane's writer
//!
//! Not here: the journal and its lock, which are also in `.shoal`.

mod attributes;
mod barrier;
mod cleanup;
mod clock;
mod description;
mod destination;
mod directory;
mod directory_attributes;
mod directory_cache;
mod existing;
mod joined;
mod links;
mod lost;
mod open;
mod open_partition;
mod options;
mod probe;
mod removals;
mod stream;
mod target;
mod temp_file;
mod temp_name;
mod whole_object;
mod withdrawn;
mod writer;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

use self::barrier::Touched;
use self::clock::Warp;
use self::destination::Destination;
pub use self::joined::Joined;
use self::open::{Opened, WRITER};
pub use self::options::DirOptions;
use self::writer::DirWriter;
use super::{
    Flush, Flushed, Sealed, Sink, SinkProperties, SinkState, Start, Started, StateRow, Wake, WithdrawnObject, Writer,
};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::Dir;
use crate::fs::private::PrivateDir;
use crate::name::SHOAL_DIR;
use crate::object::ObjectMeta;

/// A directory as the destination.
pub struct DirSink {
    path: PathBuf,
    options: DirOptions,
    /// Set when the sink is started.
    destination: OnceLock<Arc<Destination>>,
    warp: Option<Warp>,
}

impl DirSink {
    /// Returns a sink for this directory. It creates and opens nothing before [`Sink::start`].
    ///
    /// # Errors
    /// [`Kind::Config`] if the path is empty.
    pub fn new(path: &Path, options: DirOptions) -> Result<DirSink> {
        // Absolute from now on, since the program may change its working directory.
        let path =
            std::path::absolute(path).map_err(|_| Error::new(Kind::Config, "the destination's path is empty"))?;
        Ok(DirSink { path, options, destination: OnceLock::new(), warp: None })
    }

    /// Returns a sink that writes for the run of another process. That run's own sink is told of its objects as
    /// [`Payload::Elsewhere`](crate::Payload::Elsewhere). It is neither started nor synced. In mode *redo* it replaces
    /// existing files that a session of the run wrote.
    ///
    /// # Errors
    /// [`Kind::Config`] if the path is empty; errors of opening the directory.
    pub fn join(path: &Path, options: DirOptions, joined: Joined) -> Result<DirSink> {
        let options = DirOptions { part: joined.part, ..options };
        let sink = DirSink::new(path, options)?;
        let destination = Destination::join(Opened::join(&sink.path, options.part)?, options, joined)?;
        let _ = sink.destination.set(Arc::new(destination));
        Ok(sink)
    }

    /// Returns what another process needs to [`join`](DirSink::join); `None` before the run has started.
    pub fn joining(&self) -> Option<Joined> {
        self.destination.get().and_then(|destination| destination.joining())
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

    fn destination(&self) -> Result<&Arc<Destination>> {
        let unstarted = || Error::new(Kind::Internal, "a directory was written to before start");
        self.destination.get().ok_or_else(unstarted)
    }
}

impl Sink for DirSink {
    fn identity(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        match self.path.to_str() {
            // What could be taken for the bytes of another path is shown as bytes, too.
            Some(text) if !text.contains("\\x") => text.to_owned(),
            _ => self.path.as_os_str().as_bytes().escape_ascii().to_string(),
        }
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }

    fn properties(&self) -> SinkProperties {
        SinkProperties { parts: true, takes: self.options.takes(), ..SinkProperties::default() }
    }

    fn has_begun(&self) -> bool {
        let writer = PrivateDir::open(&self.path).ok().flatten().map(|shoal| shoal.has_file(WRITER.as_ref()));
        matches!(writer, Some(Ok(true)))
    }

    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        let opened = Opened::create(&self.path, self.options.part)?;
        // First: it may free the room that the session's own files need.
        let removed = cleanup::remove_leftovers(&opened)?;
        let (destination, mut started) = Destination::start(opened, self.options, start, self.warp.clone())?;
        started.notes.splice(0..0, removed);
        destination.finish_withdrawals(state)?;
        match self.destination.set(Arc::new(destination)) {
            Ok(()) => Ok(started),
            Err(_) => Err(Error::new(Kind::Internal, "a directory sink was started twice")),
        }
    }

    fn look_again(&self, _state: &dyn SinkState) -> Result<Option<String>> {
        let only = |name: &[u8]| if name == SHOAL_DIR.as_bytes() { Ok(()) } else { Err(Errno::EXIST) };
        let holds_nothing = Dir::root(&self.path).and_then(|directory| directory.names(only)).is_ok();
        let note = "the written files are no longer at the destination: `resume=\"restart\"` writes them again";
        Ok(holds_nothing.then(|| note.to_owned()))
    }

    fn clock(&self) -> Result<Option<i64>> {
        self.destination()?.now()
    }

    fn writer(&self, _lane: usize, _wake: Wake) -> Result<Box<dyn Writer>> {
        Ok(Box::new(DirWriter::new(self.destination()?.clone())))
    }

    fn flush(&self, sealed: Vec<Sealed>, _reason: Flush) -> Result<Flushed> {
        let destination = self.destination()?;
        let flushed = Flushed { state: destination.removals.settled(), ..Flushed::all(&sealed) };
        if flushed.durable.is_empty() {
            return Ok(flushed);
        }
        let tokens = sealed.into_iter().filter_map(|part| part.sync_token?.downcast::<Touched>().ok());
        let touched = tokens.flat_map(|touched| *touched).collect();
        Ok(Flushed { reach: destination.sync(&touched)?, ..flushed })
    }

    fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        self.destination.get().map_or_else(Vec::new, |destination| destination.withdrawing(objects))
    }

    /// Forgets the files that were removed after the last flush.
    fn mend(&self, _state: &dyn SinkState, _stop: &mut dyn FnMut() -> bool) -> Result<Vec<StateRow>> {
        Ok(self.destination()?.removals.settled())
    }

    fn withdraw(&self, object: &WithdrawnObject) {
        if let Some(destination) = self.destination.get() {
            destination.withdraw(object);
        }
    }

    fn directory(&self, path: &[u8], meta: &ObjectMeta, make: bool) -> Result<()> {
        directory_attributes::set(self.destination()?, path, meta, make)
    }

    fn sync_directories(&self) -> Result<()> {
        self.destination()?.sync_directories()
    }

    fn finish(&self) -> Result<Option<String>> {
        let destination = self.destination()?;
        if let Some(clock) = &destination.clock {
            clock.remove();
        }
        Ok(destination.note())
    }
}
