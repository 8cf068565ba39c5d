//! The objects of a partition: how they are stored in it, and what each is. Not here: where they come from (`page.rs`).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shoal_engine::source::{Entries, Entry, Known, Skip};
use shoal_engine::{Cursor, Error, HostId, Key, Kind, Partition, Reason, Result};

use crate::store::Store;

/// An object as it was listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub key: Vec<u8>,
    pub size: Option<u64>,
    /// In whole seconds.
    pub modified: Option<SystemTime>,
    /// It is in a storage class that cannot be read; and whether there is a copy that can.
    pub is_archived: bool,
    pub is_restored: bool,
    /// The listing had its key in another form.
    pub is_decoded: bool,
}

/// Bytes before the key of an object: its length, flags, size and time.
const HEAD: usize = 2 + 1 + 8 + 8;
/// The size is known.
const SIZED: u8 = 1;
/// The time is known.
const TIMED: u8 = 16;
const ARCHIVED: u8 = 2;
const DECODED: u8 = 4;
/// It has the key of the one before.
const REPEATED: u8 = 8;

/// Appends an object to a payload.
pub(crate) fn push(payload: &mut Vec<u8>, object: &Listed, is_repeated: bool) {
    let seconds = object.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs());
    let flags = [
        (object.size.is_some(), SIZED),
        (seconds.is_some(), TIMED),
        (object.is_archived && !object.is_restored, ARCHIVED),
        (object.is_decoded, DECODED),
        (is_repeated, REPEATED),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
    let (size, seconds) = (object.size.unwrap_or_default(), seconds.unwrap_or_default());
    payload.extend_from_slice(&(object.key.len() as u16).to_le_bytes());
    payload.push(flags);
    payload.extend_from_slice(&size.to_le_bytes());
    payload.extend_from_slice(&seconds.to_le_bytes());
    payload.extend_from_slice(&object.key);
}

/// An object in a payload.
#[derive(Clone, Copy)]
struct Packed<'a> {
    flags: u8,
    size: u64,
    seconds: u64,
    key: &'a [u8],
}

/// The key in a locator, which is an object as a payload has it: one that is tried again is checked as before.
pub(crate) fn key_of(locator: &[u8]) -> &[u8] {
    at(locator, 0).map_or(b"", |(packed, _)| packed.key)
}

/// The object at this place in a payload, and the place behind it.
fn at(payload: &[u8], at: usize) -> Option<(Packed<'_>, usize)> {
    let head: &[u8; HEAD] = payload.get(at..)?.first_chunk()?;
    let number = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().unwrap_or_default());
    let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let end = at + HEAD + length;
    Some((Packed { flags: head[2], size: number(3), seconds: number(11), key: payload.get(at + HEAD..end)? }, end))
}

/// A partition with this payload; `seq` and `after` are the caller's to set.
pub(crate) fn partition(payload: &[u8]) -> Partition {
    let (mut keys, mut from) = (Vec::new(), 0);
    while let Some((object, next)) = at(payload, from) {
        keys.push(object.key);
        from = next;
    }
    let len = Some(keys.len() as u32);
    Partition { seq: 0, key: Key::of(keys), after: Cursor::default(), next: None, payload: payload.into(), len }
}

/// The objects of an open partition.
pub(crate) struct Objects {
    store: Arc<Store>,
    payload: Arc<[u8]>,
    places: Vec<u32>,
}

impl Objects {
    /// # Errors
    /// [`Kind::Internal`] for a payload that was not made here.
    pub fn new(store: &Arc<Store>, payload: &Arc<[u8]>) -> Result<Objects> {
        let (mut places, mut from) = (Vec::new(), 0);
        while let Some((_, next)) = at(payload, from) {
            places.push(from as u32);
            from = next;
        }
        if from != payload.len() {
            return Err(Error::new(Kind::Internal, "the keys of a partition are damaged"));
        }
        Ok(Objects { store: store.clone(), payload: payload.clone(), places })
    }

    fn packed(&self, index: u32) -> Packed<'_> {
        let packed = at(self.locator(index), 0).map(|(packed, _)| packed);
        packed.unwrap_or(Packed { flags: 0, size: 0, seconds: 0, key: b"" })
    }

    fn locator(&self, index: u32) -> &[u8] {
        let from = self.places.get(index as usize).map_or(0, |&place| place as usize);
        at(&self.payload, from).map_or(b"", |(_, end)| &self.payload[from..end])
    }
}

impl Entries for Objects {
    fn len(&self) -> u32 {
        self.places.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let Packed { flags, size, key, .. } = self.packed(index);
        let name = &key[self.store.named_from(key)..];
        let is_empty = flags & SIZED != 0 && size == 0;
        let skip = match name {
            // Of keys that were decoded, two may have been different.
            _ if flags & REPEATED != 0 && flags & DECODED == 0 => Some(Skip::Duplicate),
            _ if flags & ARCHIVED != 0 && self.store.skips_archived() => Some(Skip::NoObject(Reason::Archived)),
            // What stands for the prefix itself, which is where the copy goes.
            [] if is_empty => Some(Skip::Directory { make: false }),
            [.., b'/'] if is_empty => Some(Skip::Marker),
            _ => None,
        };
        Entry { name, locator: self.locator(index), host: HostId(0), skip, unlisted: None }
    }

    fn known(&self, index: u32) -> Known {
        let Packed { flags, size, seconds, .. } = self.packed(index);
        let modified = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).filter(|_| flags & TIMED != 0);
        Known { size: Some(size).filter(|_| flags & SIZED != 0), modified, failed: None }
    }

    /// Whether the listing had the key in another form, which may be the key.
    fn request(&self, index: u32) -> &[u8] {
        if self.packed(index).flags & DECODED != 0 { b"decoded" } else { b"" }
    }
}
