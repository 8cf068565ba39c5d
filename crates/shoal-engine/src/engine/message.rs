//! What the other threads of a run tell the committer.

use std::sync::mpsc::SyncSender;

use super::in_flight_partition::Complete;
use crate::journal::Withdrawn;

/// What lanes and the listing tell the committer.
pub(crate) enum Message {
    Complete(Box<Complete>),
    /// An object that was written with this partition is a failure after all.
    Withdrawn {
        partition: u64,
        withdrawn: Box<Withdrawn>,
    },
    /// No lane says anything any more.
    LanesEnded,
    /// Move the high-water mark here.
    Mark(u64),
    /// The listing is to start over: nothing of the earlier runs counts any more.
    Reset(SyncSender<()>),
}
