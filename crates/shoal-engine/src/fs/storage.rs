//! What stores a path: memory, a rotating disk, another machine.
//!
//! Not here: what makes its files durable (`sync.rs`), how many objects in flight suit it (`engine/concurrency/`).

use std::path::Path;

use super::sync::TMPFS;
use crate::object::Storage;

/// From linux/magic.h.
const RAMFS: u32 = 0x8584_58f6;
/// From linux/magic.h and the file systems' own sources: NFS, SMB 1, CIFS, SMB 2, 9p, FUSE, AFS, Ceph, Lustre, GPFS, GFS2,
/// OCFS2.
pub(super) const REMOTE: [u32; 12] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x6573_5546,
    0x5346_414f,
    0x00c3_6400,
    0x0bd0_0bd0,
    0x4750_4653,
    0x0116_1970,
    0x7461_636f,
];
/// Where the kernel describes each block device, by its numbers.
const DEVICES: &str = "/sys/dev/block";

/// What stores a path, with links followed. `Other` if that is unknown. It takes as long as `statfs`: a file system on
/// another machine may not answer, so it gets no further call.
pub(crate) fn storage(path: &Path) -> Storage {
    let Ok(found) = rustix::fs::statfs(path) else { return Storage::Other };
    // The field's width differs between architectures; every magic number fits in 32 bits.
    match found.f_type as u32 {
        TMPFS | RAMFS => Storage::Memory,
        magic if REMOTE.contains(&magic) => Storage::Remote,
        _ => match rustix::fs::stat(path) {
            Ok(stat) if is_rotational(Path::new(DEVICES), stat.st_dev) => Storage::Rotational,
            _ => Storage::Other,
        },
    }
}

/// Whether a device is a rotating disk. The devices of btrfs, ZFS and overlayfs are not disks, and have no such file.
#[allow(clippy::disallowed_methods)] // the kernel's own files: no name of the user's
fn is_rotational(devices: &Path, device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = devices.join(format!("{major}:{minor}"));
    // A partition has no queue of its own. Its disk is the parent of the directory that the link leads to.
    let text =
        ["queue/rotational", "../queue/rotational"].iter().find_map(|file| std::fs::read(device.join(file)).ok());
    text.is_some_and(|text| text.trim_ascii() == b"1")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn a_tmpfs_is_memory() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        if !mounts.lines().any(|mount| mount.starts_with("tmpfs /dev/shm tmpfs ")) {
            return eprintln!("skipped: /dev/shm is no tmpfs");
        }
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        assert_eq!(storage(dir.path()), Storage::Memory);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(storage(&dir.path().join("file")), Storage::Memory, "a file lies where its directory does");
    }

    #[test]
    fn what_cannot_be_told_is_other() {
        for path in ["/proc/self/status", "/dev/no such file", ""] {
            assert_eq!(storage(Path::new(path)), Storage::Other, "{path:?}");
        }
    }

    #[test]
    fn a_partition_turns_if_its_disk_does() {
        let sys = tempfile::tempdir().unwrap();
        let (devices, links) = (sys.path().join("devices"), sys.path().join("dev/block"));
        std::fs::create_dir_all(&links).unwrap();
        for (disk, text, major) in [("sda", "1\n", 8), ("nvme0n1", "0\n", 259), ("odd", "maybe", 1)] {
            std::fs::create_dir_all(devices.join(disk).join("queue")).unwrap();
            std::fs::create_dir(devices.join(disk).join("part1")).unwrap();
            std::fs::write(devices.join(disk).join("queue/rotational"), text).unwrap();
            symlink(format!("../../devices/{disk}"), links.join(format!("{major}:0"))).unwrap();
            symlink(format!("../../devices/{disk}/part1"), links.join(format!("{major}:1"))).unwrap();
        }
        for minor in [0, 1] {
            assert!(is_rotational(&links, makedev(8, minor)), "{minor}");
            assert!(!is_rotational(&links, makedev(259, minor)), "{minor}");
            assert!(!is_rotational(&links, makedev(1, minor)), "{minor}");
        }
        assert!(!is_rotational(&links, makedev(0, 38)), "a number that no device has");
        assert!(!is_rotational(&sys.path().join("no sys"), makedev(8, 0)));
    }
}
