//! Writes an object that comes in pieces: to a temporary file until its last piece is written. Not here: objects that
//! are complete in memory (`whole_object.rs`).

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
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
use crate::error::{Error, Result};
use crate::fs::error::FsError;
use crate::name::Name;
use crate::object::ObjectMeta;
use crate::sink::{Mode, ObjectWriter, Put};

/// Begins an object.
pub(super) fn begin(
    target: Target<'_>,
    partition: &Rc<RefCell<OpenPartition>>,
    meta: &ObjectMeta,
) -> Result<Box<dyn ObjectWriter>> {
    target.destination.wait_for_lease()?;
    let attributes = Attributes::of(meta, target.destination.keep_times);
    // Rejects an object before it is fetched, if possible. The result may differ when it is published.
    target.existing(partition.borrow().mode, Content::Unfetched(meta.size), &attributes)?;
    let failed = |failed: FsError| target.error(failed, meta.size.unwrap_or(0));
    Ok(Box::new(Stream {
        file: TempFile::create(target, attributes.clone()).map_err(failed)?,
        destination: target.destination.clone(),
        directory: target.directory.clone(),
        name: target.name.clone(),
        partition: partition.clone(),
        meta: meta.clone(),
        attributes,
        bytes: 0,
    }))
}

struct Stream {
    destination: Arc<Destination>,
    directory: Arc<Directory>,
    name: Name,
    partition: Rc<RefCell<OpenPartition>>,
    meta: ObjectMeta,
    attributes: Attributes,
    file: TempFile,
    bytes: u64,
}

/// Gives a sealed temporary file its final name.
fn publish(target: Target<'_>, temp: &mut TempFile, mode: Mode, attributes: &Attributes) -> Result<Put> {
    let at = |failed: FsError| target.error(failed, 0);
    for _ in 0..TURNS {
        target.destination.wait_for_lease()?;
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

impl Stream {
    fn error(&self, failed: FsError, need: usize) -> Error {
        let target = Target { destination: &self.destination, directory: &self.directory, name: &self.name };
        let rest = self.meta.size.map_or(0, |size| size.saturating_sub(self.bytes));
        target.error(failed, rest.max(need as u64))
    }
}

impl ObjectWriter for Stream {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.file.write(piece).map_err(|failed| self.error(failed, piece.len()))?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    fn hole(&mut self, length: u64) -> Result<bool> {
        self.file.hole(length).map_err(|failed| self.error(failed, 0))?;
        self.bytes += length;
        Ok(true)
    }

    fn copy(&mut self, file: BorrowedFd<'_>, at: u64, length: usize) -> Result<Option<usize>> {
        let copied = self.file.copy(file, at, length).map_err(|failed| self.error(failed, length))?;
        self.bytes += copied.unwrap_or(0) as u64;
        Ok(copied)
    }

    fn finish(mut self: Box<Self>) -> Result<Put> {
        check_length(&self.name, &self.meta, self.bytes)?;
        let Stream { destination, directory, name, partition, attributes, file, bytes, .. } = &mut *self;
        let target = Target { destination, directory, name };
        file.seal(directory.syncs_each_file()).map_err(|failed| target.error(failed, 0))?;
        let mode = partition.borrow().mode;
        let put = publish(target, file, mode, attributes)?;
        if put != Put::Duplicate {
            partition.borrow_mut().wrote(directory, *bytes);
        }
        Ok(put)
    }
}
