//! `PartitionRegistry`: lets all lanes that write a partition share its directory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::destination::Destination;
use super::partition_directory::PartitionDirectory;

/// Entries below which ended partitions are not removed: few bytes, and seldom reached.
const PURGE_MIN: usize = 64;

/// The directories of partitions that a lane writes, or that are sealed and not published. Bounded by the objects of a
/// batch. It does not keep a directory alive.
#[derive(Debug, Default)]
pub(super) struct PartitionRegistry(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    directories: HashMap<u64, Weak<PartitionDirectory>>,
    /// The number of entries at which ended ones are removed next: twice as many as were left the last time.
    purge_at: usize,
}

impl PartitionRegistry {
    /// The directory of partition `seq`: the same one for every lane that has a share of the partition.
    pub(super) fn get(&self, destination: &Arc<Destination>, seq: u64) -> Arc<PartitionDirectory> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = entries.directories.get(&seq).and_then(Weak::upgrade) {
            return directory;
        }
        if entries.directories.len() >= entries.purge_at {
            entries.directories.retain(|_, directory| directory.strong_count() > 0);
            entries.purge_at = PURGE_MIN.max(2 * entries.directories.len());
        }
        let directory = Arc::new(PartitionDirectory::new(destination.clone(), seq));
        entries.directories.insert(seq, Arc::downgrade(&directory));
        directory
    }
}
