//! `OpenPartition`: a lane's share of a partition that is being written. Here is all that belongs to this share and not
//! to its lane: counts and touched directories. Not here: writing objects (`whole_object.rs`, `stream.rs`).

use std::any::Any;

use super::barrier::Touched;
use super::directory::Directory;
use crate::error::{Error, Kind, Result};
use crate::name::Name;
use crate::object::{Modes, ObjectMeta};
use crate::sink::{Mode, Sealed};

/// A lane's share of a partition that is being written.
pub(super) struct OpenPartition {
    seq: u64,
    pub mode: Mode,
    objects: u64,
    bytes: u64,
    touched: Touched,
    /// Permission bits of the source's directories.
    pub modes: Modes,
}

impl OpenPartition {
    pub fn new(seq: u64, mode: Mode, modes: Modes) -> OpenPartition {
        OpenPartition { seq, mode, objects: 0, bytes: 0, touched: Touched::new(), modes }
    }

    /// Counts an object that was written.
    pub fn wrote(&mut self, directory: &Directory, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
        self.touch(directory);
    }

    /// Records that an entry was created in a directory, or the directory itself.
    pub fn touch(&mut self, directory: &Directory) {
        if directory.syncs_each_file() && !self.touched.contains(&directory.path) {
            self.touched.insert(directory.path.clone());
        }
    }

    /// Ends the share. The barrier gets the touched directories.
    pub fn seal(&mut self) -> Sealed {
        let touched = std::mem::take(&mut self.touched);
        let sync_token = (!touched.is_empty()).then(|| Box::new(touched) as Box<dyn Any + Send>);
        Sealed { seq: self.seq, objects: self.objects, bytes: self.bytes, sync_token }
    }
}

/// Checks, before an object gets its name, that it has as many bytes as announced.
pub(super) fn check_length(name: &Name, meta: &ObjectMeta, bytes: u64) -> Result<()> {
    match meta.size {
        Some(size) if size != bytes => {
            let why = format!("{bytes} bytes arrived, expected {size}");
            Err(Error::new(Kind::ShortBody, why).on(&name.to_string()))
        }
        _ => Ok(()),
    }
}
