//! How the report describes a destination: its durability, how files are published, and notes.

use std::os::fd::AsFd;

use super::options::DirOptions;
use crate::fs::dir::Dir;
use crate::fs::space::free;
use crate::fs::sync::{Barrier, FileSystem};
use crate::options::Durability;

/// With fewer free inodes, the report has a note: one batch of objects needs 20,000.
const FEW_INODES: u64 = 20_000;
/// The same for free bytes: one batch is at most 64 MiB.
const FEW_BYTES: u64 = 64 << 20;

pub(super) fn durability(asked: Durability, barrier: Barrier, system: FileSystem) -> String {
    match (asked, barrier) {
        (Durability::None, _) => "none: in the page cache only, copied again after a reboot".into(),
        (_, Barrier::Nothing) => format!("batch: nothing to sync on {}", system.name),
        (_, Barrier::Syncfs) => "batch: one syncfs for up to 20,000 objects".into(),
        (_, Barrier::Each) => "file: each file and its directory synced".into(),
    }
}

pub(super) fn publishing(births: bool) -> &'static str {
    match births {
        false => "by temporary file and rename",
        true => "new names directly; objects in pieces and replacements by temporary file and rename",
    }
}

/// What a user should know before the first write.
pub(super) fn notes(dir: &Dir, options: DirOptions, system: FileSystem) -> Vec<String> {
    let mut notes = Vec::new();
    if options.durability == Durability::Batch && system.batch == Barrier::Each {
        notes.push(format!(
            "durability is \"file\" here, not \"batch\": syncfs is not known to be reliable on {}; each file is \
            synced, which is slower",
            system.name
        ));
    }
    if let Ok(room) = free(dir.as_fd()) {
        if let Some(inodes) = room.inodes.filter(|&inodes| inodes < FEW_INODES) {
            notes.push(format!("the destination has room for only {inodes} more files (free inodes)"));
        }
        if room.bytes < FEW_BYTES {
            notes.push(format!("the destination has only {} bytes free", room.bytes));
        }
    }
    notes
}
