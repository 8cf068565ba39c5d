//! Which directory the root of a source, or of a service, is: as long as it is the same directory, these 32 bytes are the
//! same, also after a reboot. Not here: what follows if it is another one (`sink/collision.rs`, `serve/list.rs`).
//!
//! They hold its inode, its birth time, and its file system. The device number is no part of them: after a reboot a disk
//! may have another one, and another disk the same. `statfs` has an id of the file system (`f_fsid`), which ext4, btrfs,
//! ZFS and others make of their UUID. XFS and others pass the device number there, which shows, because it has 32 bits.
//! Then the inode and the birth time count alone: XFS stores the latter, to the nanosecond. A file system in a network
//! has no id (NFS, FUSE, 9p), but a name, as in `server:/export`.

#![allow(clippy::disallowed_methods)]

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, StatxFlags, fstatfs, fstatvfs, statx};
use xxhash_rust::xxh3::xxh3_64;

use super::dir::nanoseconds;
use super::random::random;
use super::storage::REMOTE;

/// Ends what is random, where others have the number of the kind of file system.
const UNKNOWN: u8 = 0xff;

/// What identifies this directory. If the platform says too little for that, the result is another one each time.
pub(crate) fn lasting_identity(directory: impl AsFd) -> [u8; 32] {
    known_identity(directory.as_fd()).unwrap_or_else(|| {
        let mut unknown: [u8; 32] = random();
        unknown[24..].fill(UNKNOWN);
        unknown
    })
}

/// Whether these are surely two directories.
pub(crate) fn are_different(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one != other && [one, other].iter().all(|root| root[24..] != [UNKNOWN; 8])
}

fn known_identity(directory: BorrowedFd<'_>) -> Option<[u8; 32]> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME | StatxFlags::MNT_ID;
    let found = statx(directory, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
    let has = |field: StatxFlags| found.stx_mask & field.bits() != 0;
    // The root of an ext4 that came with its files has the time 0.
    let born = Some(nanoseconds(found.stx_btime)).filter(|born| has(StatxFlags::BTIME) && *born != 0);
    let magic = fstatfs(directory).ok()?.f_type as u32; // as in `storage`
    let system = match fstatvfs(directory).ok()?.f_fsid {
        id if id > u32::MAX.into() => Some(id),
        _ if REMOTE.contains(&magic) && has(StatxFlags::MNT_ID) => {
            mounted(&std::fs::read("/proc/thread-self/mountinfo").ok()?, found.stx_mnt_id).map(xxh3_64)
        }
        _ => None,
    };
    (born.is_some() || system.is_some()).then_some(())?;
    let parts = [found.stx_ino, born.unwrap_or(0) as u64, system.unwrap_or(0), magic.into()];
    parts.map(u64::to_le_bytes).concat().try_into().ok()
}

/// The name of the file system that is mounted by this number. `None` if it does not say on which server it is.
fn mounted(mounts: &[u8], id: u64) -> Option<&[u8]> {
    let id = format!("{id} ");
    let line = mounts.split(|&byte| byte == b'\n').find(|line| line.starts_with(id.as_bytes()))?;
    let kind = &line[memchr::memmem::find(line, b" - ")? + 3..];
    let name = kind.split(|&byte| byte == b' ').nth(1)?;
    // One without a server, such as `squashfuse`, may be of any file system of its kind.
    (name.contains(&b':') || name.starts_with(b"//")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::dir::Dir;
    use super::*;

    #[test]
    fn a_directory_stays_the_same_and_one_that_takes_its_place_is_another() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("root");
        let identity = || lasting_identity(Dir::root(&path).unwrap());
        std::fs::create_dir(&path).unwrap();
        let first = identity();
        std::fs::write(path.join("file"), "").unwrap();
        assert_eq!(identity(), first);
        std::fs::rename(&path, base.path().join("away")).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_ne!(identity(), first);
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(base.path().join("away"), &path).unwrap();
        assert_eq!(identity(), first);
    }

    #[test]
    fn what_says_too_little_of_itself_is_another_each_time() {
        let proc = Dir::root(std::path::Path::new("/proc")).unwrap(); // no birth times, and no id
        let [one, other] = [lasting_identity(&proc), lasting_identity(&proc)];
        assert!(one != other && !are_different(&one, &other));
    }

    #[test]
    fn a_file_system_in_a_network_has_a_name_and_one_on_a_device_has_none() {
        let mounts = b"22 1 254:0 / / rw - ext4 /dev/root rw\n\
            36 22 0:40 / /nas rw shared:1 master:2 - nfs4 nas:/vol1 rw,addr=10.0.0.1\n\
            37 22 0:41 / /usb rw - fuseblk /dev/sdb1 rw\n\
            38 22 0:42 / /mnt rw - fuse.squashfuse squashfuse ro\n";
        assert_eq!(mounted(mounts, 36), Some(&b"nas:/vol1"[..]));
        assert_eq!([22, 37, 38, 3, 6].map(|id| mounted(mounts, id)), [None; 5]);
    }
}
