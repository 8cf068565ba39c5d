//! Durability: which file systems are trusted, `syncfs`, and `fsync` of directories.
//!
//! Not here: when a sync is due (`engine/commit.rs`), through which fd (`sink/dir/`), free space (`space.rs`).

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::error::{FsError, Operation};

/// What makes files durable on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barrier {
    /// Nothing: it is in memory.
    Nothing,
    /// One `syncfs`.
    Syncfs,
    /// Each file and its directory.
    Each,
}

/// From linux/magic.h: file systems whose `syncfs` is known to write everything back and to report failures.
const TRUSTED: [(u32, &str); 4] =
    [(0xef53, "ext4"), (0x5846_5342, "xfs"), (0x9123_683e, "btrfs"), (0xf2f5_2010, "f2fs")];
pub(super) const TMPFS: u32 = 0x0102_1994;
/// Others that have a name in messages. overlayfs was measured to return 0 although the data below it was lost.
const OTHERS: [(u32, &str); 9] = [
    (0x794c_7630, "overlayfs"),
    (0x6573_5546, "FUSE"),
    (0x6969, "NFS"),
    (0x0102_1997, "9p"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x2fc1_2fc1, "ZFS"),
    (0x4d44, "FAT"),
    (0x7366_746e, "NTFS"),
];

/// The kind of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// What makes a whole batch durable.
    pub batch: Barrier,
    /// Its name, if known.
    pub name: &'static str,
}

/// The file system of an open file.
pub(crate) fn file_system(file: impl AsFd) -> Result<FileSystem, FsError> {
    let found = rustix::fs::fstatfs(file).map_err(Operation::Stat.failed())?;
    // The field's width differs between architectures; every magic number fits in 32 bits.
    Ok(by_magic(found.f_type as u32))
}

fn by_magic(magic: u32) -> FileSystem {
    let named =
        |table: &[(u32, &'static str)]| table.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name);
    match named(&TRUSTED) {
        Some(name) => FileSystem { batch: Barrier::Syncfs, name },
        None if magic == TMPFS => FileSystem { batch: Barrier::Nothing, name: "tmpfs" },
        None => FileSystem { batch: Barrier::Each, name: named(&OTHERS).unwrap_or("this file system") },
    }
}

/// Makes everything on the file system durable. `kept` must have been opened before the first write: a later fd does not
/// get the error of an earlier write (measured: 0 although the files were gone). Never retried: the second call succeeds
/// although the bytes are lost.
pub(crate) fn syncfs(kept: impl AsFd) -> Result<(), FsError> {
    rustix::fs::syncfs(kept).map_err(Operation::Fsync.failed())
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: impl AsFd) -> Result<(), FsError> {
    match rustix::fs::fsync(directory) {
        // Some file systems cannot sync a directory. There is no better call.
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        result => result.map_err(Operation::Fsync.failed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tested_file_systems_are_trusted() {
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010] {
            assert_eq!(by_magic(magic).batch, Barrier::Syncfs);
        }
        assert_eq!(by_magic(TMPFS).batch, Barrier::Nothing);
        for magic in [0x794c_7630, 0x6573_5546, 0x6969, 0x0102_1997, 0, 0xdead_beef] {
            assert_eq!(by_magic(magic).batch, Barrier::Each);
        }
    }
}
