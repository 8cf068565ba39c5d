//! The interface of a format: [`Format`] recognizes and plans archives, [`Unpacker`] unpacks their entries on one lane.
//!
//! Not here: the list of formats (`registry.rs`), what a plan holds (`plan.rs`), zip and tar (`source/zip/`,
//! `source/tar/`).

use std::sync::Arc;
use std::time::SystemTime;

use super::archive_file::ArchiveFile;
use super::member::Member;
use super::options::ArchiveOptions;
use super::plan::Plan;
use crate::error::Result;
use crate::source::{Job, Lane, LocalFuture};

/// A kind of archive.
pub(crate) trait Format: Send + Sync {
    /// Whether an archive that begins with these bytes (512, or the whole file if it is shorter) is of this kind.
    fn begins(&self, head: &[u8]) -> bool;
    /// Reads the list of entries, and unpacks nothing that the list does not need: pushes every entry, then calls
    /// [`Plan::checked`]. An error of class `Object` concerns the whole archive, which then becomes one failed entry.
    fn plan(&self, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan>;
    /// Creates the unpacker of one lane.
    fn unpacker(&self) -> Box<dyn Unpacker>;
    /// Whether an archive may be one stream, in which an entry is found only by reading everything before it.
    fn is_stream(&self) -> bool {
        false
    }
    /// When an entry was last changed.
    fn modified(&self, member: &Member) -> Option<SystemTime> {
        member.last_modified()
    }
}

/// Unpacks entries on one lane.
pub(crate) trait Unpacker {
    /// Unpacks one member, which is an [`EntryKind::File`](super::member::EntryKind), and answers the job exactly once:
    /// up to `WHOLE_MAX` bytes through `lane.whole`, larger ones through `lane.begin` and `lane.finished`.
    fn fetch<'a>(
        &'a mut self,
        lane: &'a dyn Lane,
        job: Job,
        archive: &'a Arc<Archive>,
        member: u32,
    ) -> LocalFuture<'a, ()>;
}

/// An open archive and its plan.
pub(crate) struct Archive {
    pub file: ArchiveFile,
    pub plan: Arc<Plan>,
    /// Index of its format among the accepted ones.
    pub(super) format: usize,
}

impl Archive {
    /// An archive of the only accepted format.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_one(file: ArchiveFile, plan: Plan) -> Archive {
        Archive { file, plan: Arc::new(plan), format: 0 }
    }
}
