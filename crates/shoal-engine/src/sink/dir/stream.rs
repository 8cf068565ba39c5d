//! Writes an object that comes in pieces: to a temporary file until its last piece is written, or under its own name in
//! a directory that is not published yet. Not here: objects that are complete in memory (`whole_object.rs`).

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::destination::Destination;
use super::directory::Directory;
use super::existing::{Content, Existing, TURNS};
use super::open_partition::{OpenPartition, check_length};
use super::target::Target;
use super::temp_file::TempFile;
use crate::error::Result;
use crate::fs::error::{FsError, Operation};
use crate::fs::file;
use crate::name::Name;
use crate::object::ObjectMeta;
use crate::sink::{Mode, ObjectWriter, Put};

/// Begins an object.
pub(super) fn begin(
    target: Target<'_>,
    partition: &Rc<RefCell<OpenPartition>>,
    meta: &ObjectMeta,
) -> Result<Box<dyn ObjectWriter>> {
    target.wait_for_lease()?;
    let attributes = Attributes::of(meta, target.destination.keep_times);
    Ok(Box::new(Stream {
        file: create(target, partition.borrow().mode, meta.size, attributes)?,
        destination: target.destination.clone(),
        directory: target.directory.clone(),
        name: target.name.clone(),
        partition: partition.clone(),
        meta: meta.clone(),
        attributes,
        bytes: 0,
        whole: false,
    }))
}

fn create(target: Target<'_>, mode: Mode, size: Option<u64>, attributes: Attributes) -> Result<File> {
    let failed = |failed: FsError| target.error(failed, size.unwrap_or(0));
    if target.directory.unpublished {
        match target.directory.dir.create(target.leaf(), attributes.access()) {
            Ok(file) => return Ok(File::Final(Some(file))),
            Err(Errno::EXIST) => {} // compared when its last piece is written
            Err(errno) => return Err(failed(Operation::Create.failed()(errno))),
        }
    }
    // Rejects an object before it is fetched, if possible. The result may differ when it is published.
    target.existing(mode, Content::Unfetched(size), attributes)?;
    TempFile::create(target, attributes).map(File::Temporary).map_err(failed)
}

struct Stream {
    destination: Arc<Destination>,
    directory: Arc<Directory>,
    name: Name,
    partition: Rc<RefCell<OpenPartition>>,
    meta: ObjectMeta,
    attributes: Attributes,
    file: File,
    bytes: u64,
    whole: bool,
}

enum File {
    Temporary(TempFile),
    /// It has its final name, in an unpublished directory. Open until the object is complete.
    Final(Option<OwnedFd>),
}

/// Gives a sealed temporary file its final name.
fn publish(target: Target<'_>, temp: &mut TempFile, mode: Mode, attributes: Attributes) -> Result<Put> {
    let at = |failed: FsError| target.error(failed, 0);
    for _ in 0..TURNS {
        target.wait_for_lease()?;
        match temp.publish(target) {
            Ok(()) => return Ok(Put::Written),
            Err(failed) if failed.errno == Errno::EXIST => {}
            Err(failed) => return Err(at(failed)),
        }
        let look = |temp: &TempFile| target.existing(mode, Content::Temporary(temp), attributes);
        let existing = match look(temp)? {
            Existing::Replace => {
                let temp = RefCell::new(&mut *temp);
                target.replace_alone(|| look(&temp.borrow()), || temp.borrow_mut().replace(target).map_err(at))?
            }
            Existing::Found => target.find_alone(|| look(temp))?,
            existing => existing,
        };
        if let Existing::There(put) = existing {
            return Ok(put);
        }
    }
    Err(target.undecided())
}

impl ObjectWriter for Stream {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let written = match &mut self.file {
            File::Temporary(temp) => temp.write(piece),
            File::Final(Some(file)) => file::write_all(file.as_fd(), piece),
            File::Final(None) => Err(Operation::Write.failed()(Errno::BADF)),
        };
        written.map_err(|failed| {
            let target = Target { destination: &self.destination, directory: &self.directory, name: &self.name };
            let rest = self.meta.size.map_or(0, |size| size.saturating_sub(self.bytes));
            target.error(failed, rest.max(piece.len() as u64))
        })?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Put> {
        check_length(&self.name, &self.meta, self.bytes)?;
        let Stream { destination, directory, name, partition, attributes, file, bytes, whole, .. } = &mut *self;
        let target = Target { destination, directory, name };
        let at = |failed: FsError| target.error(failed, 0);
        let durable = directory.syncs_each_file();
        let put = match file {
            File::Temporary(temp) => {
                temp.seal(durable).map_err(at)?;
                let mode = partition.borrow().mode;
                publish(target, temp, mode, *attributes)?
            }
            File::Final(file) => {
                let file = file.take().ok_or_else(|| Operation::Write.failed()(Errno::BADF));
                file.and_then(|file| file::fill(file, &[], attributes.modified, durable)).map_err(at)?;
                Put::Written
            }
        };
        *whole = true;
        if put != Put::Duplicate {
            partition.borrow_mut().wrote(directory, *bytes);
        }
        Ok(put)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.whole && matches!(self.file, File::Final(_)) {
            let _ = self.directory.dir.remove(self.name.split().1);
        }
    }
}
