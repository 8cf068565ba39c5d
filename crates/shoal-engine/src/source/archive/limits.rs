//! How much of one archive is too much, and what to say then.

use super::archive_file::ArchiveFile;
use super::options::ArchiveOptions;
use crate::error::{Error, Kind, Result};

/// Below this many bytes unpacked, no ratio is too high: ten thousand equal bytes are no attack.
const RATIO_FROM: u64 = 64 << 20;

/// Whether an archive may hold this many entries.
///
/// # Errors
/// [`Kind::Archive`] where not.
pub(crate) fn entries(count: u64, options: &ArchiveOptions) -> Result<()> {
    match count <= options.max_entries {
        true => Ok(()),
        false => Err(beyond(format!("the archive has more than {} entries", options.max_entries), "max_entries")),
    }
}

/// Whether an archive may unpack to this many bytes; for a stream also on the way.
///
/// # Errors
/// [`Kind::Archive`] where not.
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

/// Whether so many bytes of a packed archive may be unpacked once more, for copies of files that lie before them.
///
/// # Errors
/// [`Kind::Archive`] where not.
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
    // In the reason, since that is what the journal keeps.
    Error::new(Kind::Archive, format!("{why} (`{option}` raises the limit)"))
        .hint("if you trust it, raise the limit and list again: `resume=\"update\"`")
}
