//! What a file gets besides its bytes: the permission bits of its source less the umask, and its time. Nothing else is
//! believed: no owner, no set-id bit.

use std::time::SystemTime;

use crate::fs::dir::Access;
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

    /// Its mode where it was made for its owner alone; `most`: what a file made with all bits has here.
    pub(super) fn mode(self, most: u32) -> u32 {
        self.bits.unwrap_or(0o666) & most
    }
}
