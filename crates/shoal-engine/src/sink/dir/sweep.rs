//! What is removed from `.shoal/tmp`: what dead runs left there, and directories that are not needed any more.
//!
//! Not here: the names of such files and directories (`temp.rs`).

use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::Errno;

use super::temp;
use crate::error::Result;
use crate::fs::dir::Dir;
use crate::fs::error::Doing;

/// How often a directory is read anew because it was not empty: some file systems skip entries while others go.
const READS: u32 = 4;

/// Removes what dead runs left in the directory of temporary files, under names of our patterns: regular files, and the
/// directories of partitions that were not published. The lock on the destination keeps living runs out.
pub(super) fn sweep(tmp: &Dir, path: &Path) -> Result<Option<String>> {
    let (mut files, mut directories) = (0u64, Vec::new());
    tmp.names(|name| {
        let is = |ours: fn(&[u8]) -> bool| ours(name).then(|| tmp.look(name).ok()).flatten();
        if is(temp::is_ours).is_some_and(|look| look.kind.is_file()) {
            tmp.remove(name)?;
            files += 1;
        } else if is(temp::is_our_directory).is_some_and(|look| look.kind.is_dir()) {
            directories.push(name.to_owned());
        }
        Ok(())
    })
    .map_err(|errno| Doing::Look.failed()(errno).at_start(path, tmp.as_fd()))?;
    // One that cannot be removed (replaced by a directory of another user) is in no one's way.
    let partitions = directories.iter().filter(|name| remove_whole(tmp, name).is_ok()).count();
    Ok(match (files, partitions) {
        (0, 0) => None,
        (files, 0) => Some(format!("removed {files} temporary files of an interrupted run")),
        (files, partitions) => {
            Some(format!("removed {files} temporary files and {partitions} partitions of an interrupted run"))
        }
    })
}

/// Removes a directory in `tmp` with all that is in it. Directories inside are first moved up to `tmp`, so that neither
/// the stack nor the open descriptors grow with their depth. No link is followed.
pub(super) fn remove_whole(tmp: &Dir, name: &[u8]) -> rustix::io::Result<()> {
    let mut waiting = vec![name.to_owned()];
    while let Some(next) = waiting.pop() {
        for read in 1.. {
            let directory = tmp.open(&next)?;
            directory.names(|entry| match directory.remove(entry) {
                Err(Errno::ISDIR | Errno::PERM) => {
                    let aside = temp::random_directory_name();
                    directory.rename_over(entry, tmp, &aside)?;
                    waiting.push(aside.to_vec());
                    Ok(())
                }
                other => other,
            })?;
            match tmp.remove_directory(&next) {
                Err(Errno::NOTEMPTY | Errno::EXIST) if read < READS => {}
                other => {
                    other?;
                    break;
                }
            }
        }
    }
    Ok(())
}
