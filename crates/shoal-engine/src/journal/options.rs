//! What a journal is opened with: where it is, which run it is for, and how earlier work counts.

use std::path::PathBuf;

use super::rows::Progress;
use crate::options::{Pass, Resume};
use crate::part::Part;

/// Where a journal is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In memory, for a sink that cannot be resumed. It is lost when the process ends.
    Memory,
    /// In `.shoal/` of this destination, which is created if missing: `journal.db`, `lock`, `ballast`.
    Directory(PathBuf),
    /// In `.shoal/parts/3/` of this destination, for part 3 of a job.
    Part(PathBuf, Part),
    /// This file (`journal=PATH`), with `PATH.lock` and `PATH.ballast` beside it.
    File(PathBuf),
}

/// How a journal is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// How to treat the work of earlier sessions. With `Relist`, `Standing::cursor` and `completed_at` are `None`.
    /// Failures that are retried become deferred objects, due at once.
    pub resume: Resume,
    /// `Resume::Auto` is an update where the run is finished, or an interrupted update.
    pub syncs: bool,
    /// `Source::root`: what earlier sessions copied from another root is not believed by its size and time.
    pub root: Option<[u8; 32]>,
    /// For tests: facts about this machine.
    #[doc(hidden)]
    pub machine: Machine,
}

impl OpenOptions {
    /// The pass that begins with this session, if one does.
    pub(super) fn pass(&self, progress: &Progress) -> Option<Pass> {
        let is_listed_again = progress.completed.is_some() || progress.pass == Pass::Update;
        match self.resume {
            Resume::Auto if self.syncs && is_listed_again => Some(Pass::Update),
            resume => resume.pass(),
        }
    }
}

/// Facts about the machine, which tests can set.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Instead of the kernel's boot id.
    pub boot_id: Option<String>,
    /// The file system does not support shared memory.
    pub shares_no_memory: bool,
}

/// The option of [`RunKey::options`] with the destination of a run, if its journal is elsewhere.
pub const DESTINATION: &str = "destination";
/// The option of [`RunKey::options`] that says how files are named. Once, `partition` was an alternative to `names`.
pub const LAYOUT: &str = "layout";
/// The option of [`RunKey::options`] with the part of a job, if the run is one.
pub const PART: &str = "part";

/// The options of [`RunKey::options`] that say what of files is copied besides their bytes.
pub const OF_FILES: [&str; 3] = ["links", "exact", "hard_links"];

/// Identifies a run: the same source and the same options continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKey {
    /// `Source::identity`.
    pub source: String,
    /// Options that change the result, by name, in a fixed order.
    pub options: Vec<(String, String)>,
    /// Values of the source that must not be stored (those of query parameters). The journal stores a hash of them.
    pub secrets: Vec<u8>,
}

impl RunKey {
    /// The destination, if the journal is elsewhere; else empty.
    pub(super) fn destination(&self) -> String {
        self.options.iter().find(|(name, _)| name == DESTINATION).map(|(_, place)| place.clone()).unwrap_or_default()
    }
}
