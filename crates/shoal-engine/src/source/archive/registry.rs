//! The formats of archives, in one list. A new format is a folder in `source/` and a row of [`FORMATS`]; it gets a
//! variant of [`FormatsIn`] if users can ask for it alone. Not here: what a format must do (`format.rs`).

use super::format::Format;
use crate::source::tar::Tar;
use crate::source::zip::Zip;

type NewFormat = fn() -> Box<dyn Format>;

/// All formats, in the order in which they are tried. Zip is last, because a zip may begin with any bytes.
const FORMATS: [(FormatsIn, NewFormat); 2] =
    [(FormatsIn::Tar, || Box::new(Tar::default())), (FormatsIn::Zip, || Box::new(Zip::default()))];

/// The reason of the failure if a file is in none of them.
pub(super) const NONE_OF_THEM: &str = "neither a zip nor a tar archive";

/// Which kinds of archives are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatsIn {
    /// Zip.
    Zip,
    /// Tar, compressed or not.
    Tar,
    /// Either, according to the first bytes of each.
    Any,
}

impl FormatsIn {
    /// The prefix before the colon, also used in identities.
    pub fn as_str(self) -> &'static str {
        match self {
            FormatsIn::Zip => "zip",
            FormatsIn::Tar => "tar",
            FormatsIn::Any => "unzip",
        }
    }

    /// The accepted formats, in the order in which they are tried.
    pub(super) fn formats(self) -> Vec<Box<dyn Format>> {
        FORMATS.iter().filter(|(one, _)| self == FormatsIn::Any || self == *one).map(|(_, new)| new()).collect()
    }
}
