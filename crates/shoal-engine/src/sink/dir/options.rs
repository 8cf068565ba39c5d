//! `DirOptions`: the options of a run that decide how a directory is written.

use crate::object::{AttributeScope, Takes};
use crate::options::{Durability, Overwrite, TransferOptions};
use crate::part::Part;

/// How a directory is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirOptions {
    /// How often files are made durable.
    pub durability: Durability,
    /// What happens to a file that shoal did not write.
    pub overwrite: Overwrite,
    /// Owners, all permissions and all attributes are kept.
    pub exact: bool,
    /// Names of one file stay names of one file.
    pub hard_links: bool,
    /// A file of which an attribute cannot be set is a failure.
    pub strict_attributes: bool,
    /// The part of a job that writes here, at the same time as others. Each part has a clock and a directory for temporary
    /// files of its own. The caller keeps runs without parts out.
    pub part: Option<Part>,
}

impl DirOptions {
    /// What of a file is kept.
    pub fn takes(self) -> Takes {
        let attributes = if self.exact { AttributeScope::All } else { AttributeScope::User };
        Takes { links: true, hard_links: self.hard_links || self.exact, attributes }
    }

    /// Returns the options for this sink from those of a run.
    pub fn of(options: &TransferOptions) -> DirOptions {
        let TransferOptions { durability, overwrite, exact, hard_links, strict_attributes, part, .. } = *options;
        DirOptions { durability, overwrite, exact, hard_links, strict_attributes, part }
    }
}
