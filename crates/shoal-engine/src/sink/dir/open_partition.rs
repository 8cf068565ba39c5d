//! `OpenPartition`: a lane's share of a partition that is being written. Here is all that belongs to this share and not
//! to its lane: counts, touched directories, and where its objects are. Not here: writing them (`whole_object.rs`,
//! `stream.rs`).

use std::any::Any;
use std::sync::Arc;

use super::barrier::Touched;
use super::destination::Destination;
use super::directory::Directory;
use super::directory_cache::DirectoryCache;
use super::layout::{RetriedModes, retried_path};
use super::partition_directory::PartitionDirectory;
use super::partition_registry::PartitionRegistry;
use crate::error::{Error, Kind, Result};
use crate::name::Name;
use crate::object::{Modes, ObjectMeta};
use crate::options::Layout;
use crate::part::Part;
use crate::partition::RETRIED_FROM;
use crate::sink::{Mode, Sealed};

/// A lane's share of a partition that is being written.
pub(super) struct OpenPartition {
    seq: u64,
    pub mode: Mode,
    objects: u64,
    bytes: u64,
    touched: Touched,
    location: Location,
    /// Permission bits of the source's directories.
    modes: Modes,
}

/// Where the objects of a partition are.
enum Location {
    /// Under their own names.
    Names,
    /// Under `retried/`.
    Retried { part: Option<Part> },
    /// In the partition's directory, which is opened for its first object.
    Directory { partition: Arc<PartitionDirectory>, inside: Option<DirectoryCache> },
}

/// What a sealed share keeps for the barrier.
pub(super) enum Held {
    /// Directories to sync.
    Touched(Touched),
    /// A directory to publish.
    Directory(Arc<PartitionDirectory>),
}

impl OpenPartition {
    pub fn new(
        destination: &Arc<Destination>,
        registry: &PartitionRegistry,
        seq: u64,
        mode: Mode,
        modes: Modes,
    ) -> OpenPartition {
        let location = match destination.options.layout {
            Layout::Names => Location::Names,
            Layout::Partition if seq >= RETRIED_FROM => Location::Retried { part: destination.options.part },
            Layout::Partition => Location::Directory { partition: registry.get(destination, seq), inside: None },
        };
        OpenPartition { seq, mode, objects: 0, bytes: 0, touched: Touched::new(), location, modes }
    }

    /// Whether objects have their own names below the destination, so that files of earlier sessions can be found.
    pub fn is_by_name(&self) -> bool {
        matches!(self.location, Location::Names)
    }

    /// Returns the directory `path` of this partition and creates it if necessary. `lane` has the lane's directories.
    /// `name` is the object that needs it, for errors.
    pub fn directory(&mut self, lane: &mut DirectoryCache, path: Option<&[u8]>, name: &Name) -> Result<Arc<Directory>> {
        let modes = &*self.modes;
        match &mut self.location {
            Location::Names => lane.get(path, name, modes),
            Location::Retried { part } => {
                lane.get(Some(&retried_path(*part, path, name)), name, &RetriedModes(*part, modes))
            }
            Location::Directory { inside: Some(inside), .. } => inside.get(path, name, modes),
            Location::Directory { partition, inside } => {
                let base = partition.enter(lane, name)?;
                inside.insert(lane.of_partition(base)).get(path, name, modes)
            }
        }
    }

    /// Closes the cached directories inside the partition's directory. Returns whether there were any.
    pub fn close_directories(&mut self) -> bool {
        match &mut self.location {
            Location::Directory { inside: Some(inside), .. } => inside.clear(),
            _ => false,
        }
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

    /// Ends the share. Syncs the names in a partition's directory, which must be durable before it is published.
    pub fn seal(&mut self, destination: &Destination) -> Result<Sealed> {
        let touched = std::mem::take(&mut self.touched);
        let held = match std::mem::replace(&mut self.location, Location::Names) {
            Location::Directory { partition, inside } => {
                if let Some(inside) = inside.filter(|_| !touched.is_empty()) {
                    destination.sync_names(inside.base(), &touched)?;
                }
                Some(Held::Directory(partition))
            }
            Location::Names | Location::Retried { .. } => (!touched.is_empty()).then_some(Held::Touched(touched)),
        };
        let sync_token = held.map(|held| Box::new(held) as Box<dyn Any + Send>);
        Ok(Sealed { seq: self.seq, objects: self.objects, bytes: self.bytes, sync_token })
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
