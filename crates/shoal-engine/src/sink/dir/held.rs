//! `Held`: what a sealed partition keeps for the barrier.

use std::sync::Arc;

use super::barrier::Touched;
use super::partition_directory::PartitionDirectory;

/// What a sealed partition, or a lane's share of one, keeps for the barrier.
pub(super) enum Held {
    /// Directories to sync.
    Touched(Touched),
    /// A directory to publish.
    Directory(Arc<PartitionDirectory>),
}
