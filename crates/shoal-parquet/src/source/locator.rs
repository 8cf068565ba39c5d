//! Locators: where a row is, as text that a journal keeps.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

/// The path that stands for a dataset which is incomplete.
pub fn dataset_path(directory: &Path) -> Box<[u8]> {
    [directory.as_os_str().as_bytes(), b"/"].concat().into()
}

/// The dataset, if the path stands for one.
pub fn dataset_of(path: &[u8]) -> Option<&Path> {
    path.strip_suffix(b"/").map(|directory| Path::new(OsStr::from_bytes(directory)))
}

/// A locator, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locator<'a> {
    pub path: &'a [u8],
    pub group: Option<u32>,
    pub row: Option<u32>,
    /// The checksum of its name, which may have been unreadable.
    pub sum: Option<u32>,
}

impl<'a> Locator<'a> {
    pub fn parse(locator: &'a [u8]) -> Locator<'a> {
        let mut parts = locator.split(|&byte| byte == 0);
        let path = parts.next().unwrap_or_default();
        let mut number = |radix| {
            let text = std::str::from_utf8(parts.next()?).ok()?;
            u32::from_str_radix(text, radix).ok()
        };
        let group = number(10);
        let row = group.and_then(|_| number(10));
        let sum = row.and_then(|_| number(16));
        Locator { path, group, row, sum }
    }
}

/// The checksum of a name in a locator.
pub fn checksum(name: &[u8]) -> u32 {
    xxh3_64(name) as u32
}
