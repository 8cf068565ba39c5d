//! What a file system can do, found out by trying it with files of our own.

use rustix::io::Errno;

use super::temp_name::{SPELLINGS, random_file_name};
use crate::fs::dir::{Access, Dir};

/// Whether a name in another spelling finds the same file.
pub(super) fn folds_names(dir: &Dir) -> rustix::io::Result<bool> {
    for [one, other] in SPELLINGS {
        let random = random_file_name();
        let named = |text: &str| [text.as_bytes(), &random].concat();
        match dir.create(&named(one), Access::Owner) {
            Ok(file) => drop(file),
            Err(Errno::INVAL | Errno::ILSEQ) => continue, // rejects this character, so no name can have it
            Err(errno) => return Err(errno),
        }
        let found = dir.look(&named(other)).is_ok();
        dir.remove(&named(one))?;
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a temporary file can be renamed to a free name in one atomic step.
pub(super) fn publishes_atomically(tmp: &Dir) -> rustix::io::Result<bool> {
    let (from, to) = (random_file_name(), random_file_name());
    drop(tmp.create(&from, Access::Owner)?);
    let atomic = tmp.rename_new(&from, tmp, &to)?;
    tmp.remove(&to)?;
    Ok(atomic)
}
