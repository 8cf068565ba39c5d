//! Cleanup of the directory for temporary files: leftovers of interrupted runs, and directories that are not needed any more. Not here: the
//! names of such files and directories (`temp_name.rs`).

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::open::Opened;
use super::temp_name::{is_directory_name, is_file_name, random_directory_name};
use crate::error::Result;
use crate::fs::dir::Dir;
use crate::fs::error::Operation;

/// How often a directory is read if it is still not empty: some file systems skip entries while others are removed.
const READS: u32 = 4;

/// Removes what interrupted runs left in `tmp` under names of our patterns: temporary files, and directories of
/// partitions that were not published. Returns a note. The lock on the destination keeps other runs out.
pub(super) fn remove_leftovers(opened: &Opened) -> Result<Option<String>> {
    let tmp = &opened.tmp;
    let (mut files, mut directories) = (0u64, Vec::new());
    tmp.names(|name| {
        let look_if = |matches: fn(&[u8]) -> bool| matches(name).then(|| tmp.look(name).ok()).flatten();
        if look_if(is_file_name).is_some_and(|look| look.kind.is_file()) {
            tmp.remove(name)?;
            files += 1;
        } else if look_if(is_directory_name).is_some_and(|look| look.kind.is_dir()) {
            directories.push(name.to_owned());
        }
        Ok(())
    })
    .map_err(|errno| Operation::Stat.failed()(errno).at_start(&opened.tmp_path(), tmp.as_fd()))?;
    // A directory that cannot be removed (another user's, for example) does no harm.
    let partitions = directories.iter().filter(|name| remove_directory(tmp, name).is_ok()).count();
    Ok(match (files, partitions) {
        (0, 0) => None,
        (files, 0) => Some(format!("removed {files} temporary files of an interrupted run")),
        (files, partitions) => {
            Some(format!("removed {files} temporary files and {partitions} partitions of an interrupted run"))
        }
    })
}

/// Removes a directory in `tmp` with its contents. Directories inside are first moved up to `tmp`, so neither the stack
/// nor the number of open fds grows with their depth. Links are not followed.
pub(super) fn remove_directory(tmp: &Dir, name: &[u8]) -> rustix::io::Result<()> {
    let mut waiting = vec![name.to_owned()];
    while let Some(next) = waiting.pop() {
        for read in 1.. {
            let directory = tmp.open(&next)?;
            directory.names(|entry| match directory.remove(entry) {
                Err(Errno::ISDIR | Errno::PERM) => {
                    let aside = random_directory_name();
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
