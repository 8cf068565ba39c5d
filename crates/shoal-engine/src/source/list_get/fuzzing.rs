//! The pure part of reading a page, for `testing::pages` and the fuzz target that runs it.

use super::ListGetOptions;
use super::cut::{self, Cut, LocalName, Names};
use super::page::parse;
use crate::error::Result;
use crate::partition::Cursor;
use crate::source::Entries;

/// Most names of a partition.
pub(crate) const PARTITION_MAX: usize = cut::PARTITION_MAX;

pub(crate) use super::index::linked;

/// What a page says.
pub(crate) struct Read {
    /// The names of each partition, and whether each stood earlier in the page.
    pub partitions: Vec<Vec<(Vec<u8>, bool)>>,
    /// Partitions that were announced.
    pub counted: u64,
    pub next: Option<String>,
}

/// Reads a page, cuts it, and opens what was cut.
///
/// # Errors
/// What is wrong with the page.
pub(crate) fn read_page(json: &[u8], options: &ListGetOptions) -> Result<Read> {
    let page = parse(json, options)?;
    let counted = Cut::count(&page.names);
    let mut partitions = Vec::new();
    for partition in Cut::new(page.names, 0, Cursor::default(), None) {
        let names = Names::new(&partition.payload, &LocalName::default())?;
        let name = |index| {
            let entry = names.get(index);
            (entry.name.to_vec(), entry.skip.is_some())
        };
        partitions.push((0..names.len()).map(name).collect());
    }
    Ok(Read { partitions, counted, next: page.next })
}
