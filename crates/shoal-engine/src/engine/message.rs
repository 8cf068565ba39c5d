//! What the other threads of a run tell the committer.

use std::sync::mpsc::SyncSender;

use super::in_flight_partition::Complete;
use crate::journal::Withdrawn;
use crate::object::Fingerprint;

/// An object that was counted and is a failure now.
pub(crate) struct Gone {
    /// The partition it was written with.
    pub partition: u64,
    pub withdrawn: Withdrawn,
    /// What was written; `None` if it had the bytes of another object.
    pub wrote: Option<Fingerprint>,
}

/// What lanes and the listing tell the committer.
pub(crate) enum Message {
    Complete(Box<Complete>),
    /// An object that was written is a failure after all, and so are those that had its bytes.
    Withdrawn(Vec<Gone>),
    /// No lane says anything any more.
    LanesEnded,
    /// Move the high-water mark here.
    Mark(u64),
    /// The listing is to start over: nothing of the earlier runs counts any more.
    Reset(SyncSender<()>),
}
