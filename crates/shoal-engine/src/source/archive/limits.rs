//! The limits of one archive, and the errors beyond them.

use super::archive_file::ArchiveFile;
use super::options::ArchiveOptions;
use crate::error::{Error, Kind, Result};

/// Up to this many unpacked bytes, any ratio is allowed: ten thousand equal bytes are not an attack.
const RATIO_FROM: u64 = 64 << 20;

/// Checks the number of entries.
///
/// # Errors
/// [`Kind::Archive`] if there are too many.
pub(crate) fn entries(count: u64, options: &ArchiveOptions) -> Result<()> {
    match count <= options.max_entries {
        true => Ok(()),
        false => Err(beyond(format!("the archive has more than {} entries", options.max_entries), "max_entries")),
    }
}

/// Checks the number of unpacked bytes; for a stream also while it is unpacked.
///
/// # Errors
/// [`Kind::Archive`] if there are too many.
pub(crate) fn output(bytes: u64, file: &ArchiveFile, options: &ArchiveOptions) -> Result<()> {
    if let Some(most) = options.max_size.filter(|most| bytes > *most) {
        return Err(beyond(
            format!("the archive unpacks to {bytes} bytes or more, but only {most} are allowed"),
            "max_size",
        ));
    }
    if beyond_ratio(bytes, file, options) {
        let why = format!(
            "the archive has {} bytes and unpacks to {bytes} or more, over {} times as many",
            file.len(),
            options.max_ratio
        );
        return Err(beyond(why, "max_ratio"));
    }
    Ok(())
}

/// Checks how many bytes of a compressed archive are unpacked again, for copies of earlier files.
///
/// # Errors
/// [`Kind::Archive`] if there are too many.
pub(crate) fn again(bytes: u64, file: &ArchiveFile, options: &ArchiveOptions) -> Result<()> {
    if !beyond_ratio(bytes, file, options) {
        return Ok(());
    }
    let why = format!(
        "the archive has {} bytes, and its hard links would unpack {bytes} again, over {} times as many",
        file.len(),
        options.max_ratio
    );
    Err(beyond(why, "max_ratio"))
}

fn beyond_ratio(bytes: u64, file: &ArchiveFile, options: &ArchiveOptions) -> bool {
    bytes > RATIO_FROM && bytes > file.len().saturating_mul(options.max_ratio)
}

fn beyond(why: String, option: &str) -> Error {
    // The option is named in the reason, because the journal stores the reason.
    Error::new(Kind::Archive, format!("{why} (`{option}` raises the limit)"))
        .hint("if you trust it, raise the limit and list again with `resume=\"update\"`")
}
