//! `DirOptions`: the options of a run that decide how a directory is written.

use crate::options::{Durability, Overwrite, TransferOptions};
use crate::part::Part;

/// How a directory is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirOptions {
    /// How often files are made durable.
    pub durability: Durability,
    /// What happens to a file that shoal did not write.
    pub overwrite: Overwrite,
    /// The part of a job that writes here, at the same time as others. Each part has a clock and a directory for temporary
    /// files of its own. The caller keeps runs without parts out.
    pub part: Option<Part>,
}

impl DirOptions {
    /// Returns the options for this sink from those of a run.
    pub fn of(options: &TransferOptions) -> DirOptions {
        let TransferOptions { durability, overwrite, part, .. } = *options;
        DirOptions { durability, overwrite, part }
    }
}
