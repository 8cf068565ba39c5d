//! What a file gets besides its bytes: the permission bits of its source less the umask, and its time. Nothing else is
//! believed: no owner, no set-id bit.

use std::time::SystemTime;

use crate::fs::dir::{Access, Look};
use crate::fs::file;
use crate::fs::read::step;
use crate::object::ObjectMeta;

/// What a file of an object gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    /// Permission bits; `None`: as any program makes it.
    bits: Option<u32>,
    /// `None`: as it comes.
    pub modified: Option<SystemTime>,
}

impl Attributes {
    pub(super) fn of(meta: &ObjectMeta, keep_times: bool) -> Attributes {
        Attributes { bits: meta.mode, modified: meta.last_modified.filter(|_| keep_times) }
    }

    /// With which it is created under its own name: the kernel takes the umask off.
    pub(super) fn access(self) -> Access {
        self.bits.map_or(Access::Usual, Access::Bits)
    }

    /// Whether a file has others, where the source keeps permissions as a file system does: of a service the bytes alone tell
    /// what has changed. `most`: what a file made with all bits has here.
    pub(super) fn differ(self, look: &Look, most: u32) -> bool {
        let near = step(look.written.into()); // a file system without nanoseconds keeps them as it can
        let is_other =
            |time: SystemTime| file::stamp(time).is_some_and(|time| i128::from(time.abs_diff(look.written)) > near);
        self.bits.is_some_and(|bits| bits & most != look.mode & 0o777 || self.modified.is_some_and(is_other))
    }

    /// Its mode where it was made for its owner alone; `most`: what a file made with all bits has here.
    pub(super) fn mode(self, most: u32) -> u32 {
        self.bits.unwrap_or(0o666) & most
    }
}
