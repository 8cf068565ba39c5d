//! Zip archives.
//!
//! Here: the format. `end.rs` finds the directory, `directory.rs` makes a plan of it, `extents.rs` refuses entries that share
//! bytes, `local.rs` holds an entry's own header against the directory, `unpack.rs` hands entries over: from `window.rs`,
//! through `inflate.rs` where they are small; `time.rs` is the time of day of DOS. Not here: streams of other methods
//! (`archive/decode.rs`), limits, names and collisions (`archive/`).
//!
//! The directory at the end is the truth. Whatever contradicts it is refused, with the archive as a whole where the
//! structure is in doubt and with the entry where it is the entry: two readers must not see two archives.

mod directory;
mod end;
mod extents;
mod fields;
mod inflate;
mod local;
mod time;
mod unpack;
mod window;

use std::sync::Arc;
use std::time::SystemTime;

use super::archive::plan::{Member, Plan};
use super::archive::{ArchiveFile, ArchiveOptions, Format, Unpacker};
use crate::error::{Error, Kind, Result};

/// The format.
#[derive(Default)]
pub(crate) struct Zip {
    shared: Arc<unpack::Shared>,
}

impl Format for Zip {
    fn begins(&self, head: &[u8]) -> bool {
        head.starts_with(local::SIGNATURE) || head.starts_with(end::SIGNATURE)
    }

    fn plan(&self, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan> {
        let end = end::find(file)?;
        let mut plan = directory::read(file, &end, options)?;
        extents::bound(&mut plan, end.at, options.allow_overlap)?;
        plan.checked(file, options)
    }

    fn unpacker(&self) -> Box<dyn Unpacker> {
        Box::new(unpack::Unpack::new(self.shared.clone()))
    }

    fn modified(&self, member: &Member) -> Option<SystemTime> {
        Member { modified: time::Clock::default().settle(member), ..member.clone() }.last_modified()
    }
}

/// Flags of a `Member`: the archive's own, and two of ours where it has none.
mod flag {
    pub const ENCRYPTED: u16 = 1;
    /// Sizes and checksum stand behind the entry.
    pub const DESCRIPTOR: u16 = 1 << 3;
    pub const STRONGLY_ENCRYPTED: u16 = 1 << 6;
    pub const UTF8: u16 = 1 << 11;
    pub const MASKED: u16 = 1 << 13;
    /// The name was converted: its bytes stand in the plan's text behind it, with their length in two bytes.
    pub const RAW_NAME: u16 = 1 << 14;
    /// The time is one of a clock on a wall: seconds since 1970 as if there were no time zones.
    pub const LOCAL_TIME: u16 = 1 << 15;
}

/// The archive as a whole cannot be read.
fn damaged(why: impl Into<String>) -> Error {
    Error::new(Kind::Archive, why)
}
