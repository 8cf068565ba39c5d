//! Writes an object that is complete in memory. Not here: objects in pieces (`stream.rs`), counting
//! (`open_partition.rs`).
//!
//! The hot path of the program for tiny files: one `openat2`, one `write` and one `close` for each. Nothing is looked
//! up before, and nothing is allocated.

use rustix::io::Errno;

use super::attributes::Attributes;
use super::existing::{Content, Existing, TURNS};
use super::target::Target;
use super::temp_file::TempFile;
use crate::error::Result;
use crate::fs::error::{FsError, Operation};
use crate::sink::{Mode, Put};

/// Writes a complete object. It is created under its own name if that is free, unless a kill could leave a part of it
/// that cannot be told from another program's file.
pub(super) fn write(target: Target<'_>, bytes: &[u8], attributes: &Attributes, mode: Mode) -> Result<Put> {
    let Target { destination, directory, name } = target;
    let (leaf, durable) = (target.leaf(), directory.syncs_each_file());
    let at = |failed: FsError| target.error(failed, bytes.len() as u64);
    for _ in 0..TURNS {
        target.destination.wait_for_lease()?;
        if !directory.births {
            let mut temp = write_temp_file(target, bytes, attributes).map_err(at)?;
            match temp.publish(target) {
                Ok(()) => return Ok(Put::Written),
                Err(failed) if failed.errno == Errno::EXIST => {}
                Err(failed) => return Err(at(failed)),
            }
        } else {
            let _writing = destination.writing.as_ref().map(|writing| writing.begin(name));
            match directory.dir.create(leaf, attributes.access()) {
                Ok(file) => {
                    return match attributes.fill(file, bytes, destination, durable) {
                        Ok(()) => Ok(Put::Written),
                        Err(failed) => {
                            let error = at(failed); // before the removal, since it tells how much room is left
                            let _ = directory.dir.remove(leaf);
                            Err(error)
                        }
                    };
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(at(Operation::Create.failed()(errno))),
            }
        }
        let look = || target.existing(mode, Content::Bytes(bytes), attributes);
        let existing = match look()? {
            Existing::Replace => {
                let mut temp = write_temp_file(target, bytes, attributes).map_err(at)?;
                target.replace_alone(look, || temp.replace(target).map_err(at))?
            }
            Existing::Found => target.find_alone(look)?,
            Existing::Rewrite(found) => match target.rewrite(&found, bytes, attributes)? {
                Some(put) => Existing::There(put),
                None => {
                    let mut temp = write_temp_file(target, bytes, attributes).map_err(at)?;
                    temp.replace(target).map_err(at)?;
                    Existing::There(Put::Written)
                }
            },
            existing => existing,
        };
        if let Existing::There(put) = existing {
            return Ok(put);
        } // else the file has just been removed
    }
    Err(target.undecided())
}

/// Writes an object to a temporary file.
fn write_temp_file(target: Target<'_>, bytes: &[u8], attributes: &Attributes) -> Result<TempFile, FsError> {
    let mut temp = TempFile::create(target, attributes.clone())?;
    temp.write(bytes)?;
    temp.seal(target.directory.syncs_each_file())?;
    Ok(temp)
}
