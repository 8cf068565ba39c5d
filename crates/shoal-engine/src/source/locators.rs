//! Lists of locators as payloads of partitions: the length of each in four bytes, then its bytes. Payloads are stored
//! in journals, so this form must not change.
//!
//! Not here: what a locator says (each source has its own), the payload of `list_get`, whose lengths carry a mark.

use super::{Entries, Entry};
use crate::error::HostId;
use crate::partition::{Cursor, Key, Partition};

/// Appends locators to a payload.
pub(super) fn append<L: AsRef<[u8]>>(mut payload: Vec<u8>, locators: impl IntoIterator<Item = L>) -> Vec<u8> {
    for locator in locators {
        payload.extend_from_slice(&(locator.as_ref().len() as u32).to_le_bytes());
        payload.extend_from_slice(locator.as_ref());
    }
    payload
}

/// A partition of the objects with these locators. Its payload is `prefix` and the locators. The caller sets `seq` and
/// `after`.
pub(super) fn partition<L: AsRef<[u8]>>(prefix: &[u8], locators: &[L]) -> Partition {
    Partition {
        seq: 0,
        key: Key::of(locators.iter().map(AsRef::as_ref)),
        after: Cursor::default(),
        next: None,
        payload: append(prefix.to_vec(), locators).into(),
        len: Some(locators.len() as u32),
    }
}

/// Reads all locators of a payload; a damaged one ends the list.
pub(super) fn parse(payload: &[u8]) -> Vec<Box<[u8]>> {
    let mut unread = Unread(payload);
    std::iter::from_fn(|| unread.locator().map(Box::from)).collect()
}

/// The object at a locator that ends with its name.
pub(super) fn entry(locator: &[u8], name: usize) -> Entry<'_> {
    let name = locator.get(name..).unwrap_or_default();
    Entry { name, locator, host: HostId(0), skip: None, unlisted: None }
}

/// Objects by their locators, each with its name behind so many bytes.
pub(super) struct Located {
    pub locators: Vec<Box<[u8]>>,
    pub name: usize,
}

impl Entries for Located {
    fn len(&self) -> u32 {
        self.locators.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        entry(&self.locators[index as usize], self.name)
    }
}

/// The part of a payload that has not been read.
pub(super) struct Unread<'a>(pub &'a [u8]);

impl<'a> Unread<'a> {
    /// The next bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next number, which has `N` bytes, at most four.
    pub fn number<const N: usize>(&mut self) -> Option<u32> {
        let mut bytes = [0; 4];
        bytes[..N].copy_from_slice(self.take(N)?);
        Some(u32::from_le_bytes(bytes))
    }

    /// The next locator, or other bytes after their length.
    pub fn locator(&mut self) -> Option<&'a [u8]> {
        let length = self.number::<4>()? as usize;
        self.take(length)
    }
}
