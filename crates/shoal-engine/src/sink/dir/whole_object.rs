//! Writes an object that is complete in memory. Not here: objects in pieces (`stream.rs`), counting (`open_partition.rs`).
//!
//! The hot path of the program for tiny files: one `openat2`, one `write` and one `close` for each. Nothing is looked up
//! before, and nothing is allocated.

use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::destination::Destination;
use super::directory::Directory;
use super::errors::stopped;
use super::existing::{Content, Existing, TURNS};
use super::temp_file::TempFile;
use crate::error::Result;
use crate::fs::error::{Doing, Trouble};
use crate::fs::file;
use crate::fs::sync::Barrier;
use crate::name::Name;
use crate::sink::{Mode, Put};

/// Writes a complete object. It is created under its own name if that is free, unless a kill could leave a part of it that
/// cannot be told from another program's file.
pub(super) fn write(
    destination: &Arc<Destination>,
    directory: &Arc<Directory>,
    name: &Name,
    bytes: &[u8],
    attributes: Attributes,
    mode: Mode,
) -> Result<Put> {
    let leaf = name.split().1;
    let durable = directory.barrier == Barrier::Each;
    let at = |trouble: Trouble| destination.error(trouble, directory, name, bytes.len() as u64);
    for _ in 0..TURNS {
        if !destination.sessions.lease().wait() {
            return Err(stopped());
        }
        if !directory.births && !directory.unpublished {
            let mut temp = write_temp_file(destination, directory, bytes, attributes).map_err(at)?;
            match temp.publish(directory, leaf) {
                Ok(()) => return Ok(Put::Written),
                Err(trouble) if trouble.errno == Errno::EXIST => {}
                Err(trouble) => return Err(at(trouble)),
            }
        } else {
            let _writing = destination.writing.as_ref().map(|writing| writing.begin(name));
            match directory.dir.create(leaf, attributes.access()) {
                Ok(file) => {
                    return match file::fill(file, bytes, attributes.modified, durable) {
                        Ok(()) => Ok(Put::Written),
                        Err(trouble) => {
                            let error = at(trouble); // before the removal, since it tells how much room is left
                            let _ = directory.dir.remove(leaf);
                            Err(error)
                        }
                    };
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(at(Doing::Create.failed()(errno))),
            }
        }
        let look = || destination.existing(directory, name, mode, Content::Bytes(bytes), attributes);
        let existing = match look()? {
            Existing::Replace => {
                let mut temp = write_temp_file(destination, directory, bytes, attributes).map_err(at)?;
                destination.replace_alone(look, || temp.replace(directory, leaf).map_err(at))?
            }
            Existing::Found => destination.find_alone(look, directory, name)?,
            existing => existing,
        };
        if let Existing::There(put) = existing {
            return Ok(put);
        } // else the file has just been removed
    }
    Err(destination.undecided(directory, name))
}

/// Writes an object to a temporary file.
fn write_temp_file(
    destination: &Arc<Destination>,
    directory: &Arc<Directory>,
    bytes: &[u8],
    attributes: Attributes,
) -> Result<TempFile, Trouble> {
    let mut temp = TempFile::create(destination, directory, attributes)?;
    temp.write(bytes)?;
    temp.seal(directory.barrier == Barrier::Each)?;
    Ok(temp)
}
