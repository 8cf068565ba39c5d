//! `Joined`: what a process must know to write for a run that another process has started.

use crate::part::Part;
use crate::session::Interval;

/// What another process needs to write for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The earlier sessions of the run.
    pub sessions: Vec<Interval>,
    /// When this session began, in nanoseconds since 1970 on the destination's clock.
    pub began: i64,
    /// The mode of a file that is created there with all permission bits; other files have a subset.
    pub file_mode: u32,
    /// The destination stores creation times of files.
    pub births: bool,
    /// Different names may mean the same file there.
    pub folds: bool,
    /// The part of a job that the run is.
    pub part: Option<Part>,
}
