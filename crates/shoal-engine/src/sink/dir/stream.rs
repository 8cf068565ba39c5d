//! Writes an object that comes in pieces: to a temporary file until its last piece is written, or under its own name in a
//! directory that is not published yet. Not here: objects that are complete in memory (`whole_object.rs`).

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::destination::Destination;
use super::directory::Directory;
use super::errors::stopped;
use super::existing::{Content, Existing, TURNS};
use super::open_partition::{OpenPartition, check_length};
use super::temp_file::TempFile;
use crate::error::Result;
use crate::fs::error::{Doing, Trouble};
use crate::fs::file;
use crate::fs::sync::Barrier;
use crate::name::Name;
use crate::object::ObjectMeta;
use crate::sink::{ObjectWriter, Put};

/// Begins an object.
pub(super) fn begin(
    destination: &Arc<Destination>,
    partition: &Rc<RefCell<OpenPartition>>,
    directory: Arc<Directory>,
    name: &Name,
    meta: &ObjectMeta,
) -> Result<Box<dyn ObjectWriter>> {
    if !destination.sessions.lease().wait() {
        return Err(stopped());
    }
    if directory.unpublished {
        match directory.dir.create(name.split().1, Attributes::of(meta, destination.keep_times).access()) {
            Ok(file) => return Ok(Box::new(Direct::new(destination, partition.clone(), directory, name, meta, file))),
            Err(Errno::EXIST) => {} // compared when its last piece is written
            Err(errno) => {
                let need = meta.size.unwrap_or(0);
                return Err(destination.error(Doing::Create.failed()(errno), &directory, name, need));
            }
        }
    }
    Ok(Box::new(Stream::new(destination, partition.clone(), directory, name, meta)?))
}

struct Stream {
    destination: Arc<Destination>,
    partition: Rc<RefCell<OpenPartition>>,
    directory: Arc<Directory>,
    name: Name,
    meta: ObjectMeta,
    temp: TempFile,
    bytes: u64,
}

impl Stream {
    fn new(
        destination: &Arc<Destination>,
        partition: Rc<RefCell<OpenPartition>>,
        directory: Arc<Directory>,
        name: &Name,
        meta: &ObjectMeta,
    ) -> Result<Stream> {
        // Refuses an object before it is fetched, if possible. The result may differ when it is published.
        let (mode, attributes) = (partition.borrow().mode, Attributes::of(meta, destination.keep_times));
        destination.existing(&directory, name, mode, Content::Unfetched(meta.size), attributes)?;
        let temp = TempFile::create(destination, &directory, attributes)
            .map_err(|trouble| destination.error(trouble, &directory, name, meta.size.unwrap_or(0)))?;
        Ok(Stream {
            destination: destination.clone(),
            partition,
            directory,
            name: name.clone(),
            meta: meta.clone(),
            temp,
            bytes: 0,
        })
    }

    fn put_in_place(&mut self) -> Result<Put> {
        let (directory, leaf) = (&self.directory, self.name.split().1);
        let at = |trouble: Trouble| self.destination.error(trouble, directory, &self.name, 0);
        let mode = self.partition.borrow().mode;
        let attributes = Attributes::of(&self.meta, self.destination.keep_times);
        for _ in 0..TURNS {
            if !self.destination.sessions.lease().wait() {
                return Err(stopped());
            }
            match self.temp.publish(directory, leaf) {
                Ok(()) => return Ok(Put::Written),
                Err(trouble) if trouble.errno == Errno::EXIST => {}
                Err(trouble) => return Err(at(trouble)),
            }
            let look = |temp: &TempFile| {
                self.destination.existing(directory, &self.name, mode, Content::TempFile(temp), attributes)
            };
            let existing = match look(&self.temp)? {
                Existing::Replace => {
                    let temp = RefCell::new(&mut self.temp);
                    let replace = || temp.borrow_mut().replace(directory, leaf).map_err(at);
                    self.destination.replace_alone(|| look(&temp.borrow()), replace)?
                }
                Existing::Found => self.destination.find_alone(|| look(&self.temp), directory, &self.name)?,
                existing => existing,
            };
            if let Existing::There(put) = existing {
                return Ok(put);
            }
        }
        Err(self.destination.undecided(directory, &self.name))
    }
}

impl ObjectWriter for Stream {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.temp.write(piece).map_err(|trouble| {
            let rest = self.meta.size.map_or(0, |size| size.saturating_sub(self.bytes));
            self.destination.error(trouble, &self.directory, &self.name, rest.max(piece.len() as u64))
        })?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Put> {
        check_length(&self.name, &self.meta, self.bytes)?;
        self.temp
            .seal(self.directory.barrier == Barrier::Each)
            .map_err(|trouble| self.destination.error(trouble, &self.directory, &self.name, 0))?;
        let put = self.put_in_place()?;
        if put != Put::Duplicate {
            self.partition.borrow_mut().wrote(&self.directory, self.bytes);
        }
        Ok(put)
    }
}

/// A file with its final name in an unpublished directory. It is removed if it is dropped before it is complete.
struct Direct {
    destination: Arc<Destination>,
    partition: Rc<RefCell<OpenPartition>>,
    directory: Arc<Directory>,
    name: Name,
    meta: ObjectMeta,
    file: Option<OwnedFd>,
    bytes: u64,
    whole: bool,
}

impl Direct {
    fn new(
        destination: &Arc<Destination>,
        partition: Rc<RefCell<OpenPartition>>,
        directory: Arc<Directory>,
        name: &Name,
        meta: &ObjectMeta,
        file: OwnedFd,
    ) -> Direct {
        let (destination, name, meta) = (destination.clone(), name.clone(), meta.clone());
        Direct { destination, partition, directory, name, meta, file: Some(file), bytes: 0, whole: false }
    }
}

impl ObjectWriter for Direct {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let file = self.file.as_ref().ok_or_else(|| Doing::Write.failed()(Errno::BADF));
        file.and_then(|file| file::write_all(file.as_fd(), piece)).map_err(|trouble| {
            let rest = self.meta.size.map_or(0, |size| size.saturating_sub(self.bytes));
            self.destination.error(trouble, &self.directory, &self.name, rest.max(piece.len() as u64))
        })?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Put> {
        check_length(&self.name, &self.meta, self.bytes)?;
        let file = self.file.take().ok_or_else(|| Doing::Write.failed()(Errno::BADF));
        let modified = Attributes::of(&self.meta, self.destination.keep_times).modified;
        file.and_then(|file| file::fill(file, &[], modified, self.directory.barrier == Barrier::Each))
            .map_err(|trouble| self.destination.error(trouble, &self.directory, &self.name, 0))?;
        self.whole = true;
        self.partition.borrow_mut().wrote(&self.directory, self.bytes);
        Ok(Put::Written)
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if !self.whole {
            let _ = self.directory.dir.remove(self.name.split().1);
        }
    }
}
