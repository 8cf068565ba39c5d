//! `PartitionRegistry`: lets all lanes that write a partition share its directory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::destination::Destination;
use super::partition_directory::PartitionDirectory;
use crate::poison::ignore_poison;

/// The directories of partitions that a lane writes, or that are sealed and not published. Bounded by the objects of a
/// batch. It does not keep a directory alive.
#[derive(Debug, Default)]
pub(super) struct PartitionRegistry(Mutex<HashMap<u64, Weak<PartitionDirectory>>>);

impl PartitionRegistry {
    /// The directory of partition `seq`: the same one for every lane that has a share of the partition.
    pub fn get(&self, destination: &Arc<Destination>, seq: u64) -> Arc<PartitionDirectory> {
        let mut directories = ignore_poison(self.0.lock());
        if let Some(directory) = directories.get(&seq).and_then(Weak::upgrade) {
            return directory;
        }
        // Removes ended partitions whenever the map is full. The room for as many again keeps that rare.
        if directories.len() == directories.capacity() {
            directories.retain(|_, directory| directory.strong_count() > 0);
            let left = directories.len();
            directories.reserve(left + 1);
        }
        let directory = Arc::new(PartitionDirectory::new(destination.clone(), seq));
        directories.insert(seq, Arc::downgrade(&directory));
        directory
    }
}
