//! Cleanup of the directory for temporary files: leftovers of interrupted runs. Not here: the names of such files
//! (`temp_name.rs`).

use std::os::fd::AsFd;

use super::open::Opened;
use super::temp_name::is_file_name;
use crate::error::Result;
use crate::fs::error::Operation;

/// Removes the temporary files that interrupted runs left in `tmp`. Returns a note. The lock on the destination keeps
/// other runs out.
pub(super) fn remove_leftovers(opened: &Opened) -> Result<Option<String>> {
    let tmp = &opened.tmp;
    let mut files = 0u64;
    tmp.names(|name| {
        if is_file_name(name) && tmp.look(name).is_ok_and(|look| look.kind.is_file() || look.kind.is_symlink()) {
            tmp.remove(name)?;
            files += 1;
        }
        Ok(())
    })
    .map_err(|errno| Operation::Stat.failed()(errno).at_start(&opened.tmp_path(), tmp.as_fd()))?;
    Ok((files > 0).then(|| format!("removed {files} temporary files of an interrupted run")))
}
