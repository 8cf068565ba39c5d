//! What a file gets besides its bytes. Of what a source says, nothing else is believed: no owner, no other permission.

use std::time::SystemTime;

use super::DirOptions;
use crate::fs::dir::Access;
use crate::object::ObjectMeta;

/// What a file of an object gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    executable: bool,
    /// `None`: as it comes.
    pub modified: Option<SystemTime>,
}

impl Attributes {
    pub(super) fn of(meta: &ObjectMeta, options: DirOptions) -> Attributes {
        Attributes { executable: meta.executable, modified: meta.last_modified.filter(|_| options.keep_times) }
    }

    /// With which it is created under its own name.
    pub(super) fn access(self) -> Access {
        match self.executable {
            true => Access::Executable,
            false => Access::Usual,
        }
    }

    /// Its mode where it was made for its owner alone; `most`: what a file that may be run has here.
    pub(super) fn mode(self, most: u32) -> u32 {
        match self.executable {
            true => most,
            false => most & 0o666,
        }
    }
}
