//! The rows of sink state in the journal, and how they are stored.
//!
//! - `f` and a number: a published file, or one that is about to be published
//! - `o` and a temporary name: an open file, complete with the given length
//! - `s`, a run, a temporary name and a number: where the rows of partitions are that were committed together
//! - `w`, a session, the hash of a name and a length: how many such rows of withdrawn objects files of this session have

use std::collections::BTreeMap;

use shoal_engine::sink::{ReadRow, SinkState, StateRow};
use shoal_engine::{Error, Kind, Result};

/// How the temporary name of a file ends that replaces a published one.
const REPLACES: &str = ".again";

/// A temporary name: 16 digits for the session, and 16 for the file.
pub(super) fn temporary(session: &str, replaces: bool) -> String {
    let end = if replaces { REPLACES } else { "" };
    format!("part-{session}{:016x}{end}", fastrand::u64(..))
}

/// The session that has begun the file with this temporary name.
pub(super) fn session_of(temporary: &str) -> Option<&str> {
    temporary.strip_prefix("part-")?.get(..16)
}

pub(super) fn replaces(temporary: &str) -> bool {
    temporary.ends_with(REPLACES)
}

/// Rows of withdrawn objects: the session that has written them, the hash of their name and their length.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Withdrawn {
    pub session: String,
    pub name: u128,
    pub length: u64,
}

/// A file that is complete with this length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complete {
    /// Its name in `.shoal/tmp`.
    pub temporary: String,
    pub length: u64,
}

/// Where rows of a partition are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub seq: u64,
    pub group: u32,
    pub first: u32,
    pub rows: u32,
}

/// A row, as read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row {
    Published(u64, Complete),
    Open(Complete),
    Places { run: u64, temporary: String, number: u64, key: Box<[u8]>, places: Vec<Placed> },
    Withdrawn(Withdrawn, u64),
}

pub(super) fn published(number: u64, file: &Complete) -> StateRow {
    (published_key(number), Some(complete(file)))
}

fn published_key(number: u64) -> Box<[u8]> {
    format!("f{number:016x}").into_bytes().into()
}

pub(super) fn open(file: &Complete) -> StateRow {
    (format!("o{}", file.temporary).into_bytes().into(), Some(complete(file)))
}

pub(super) fn not_open(temporary: &str) -> StateRow {
    (format!("o{temporary}").into_bytes().into(), None)
}

/// The temporary name in the key of an open file.
pub(super) fn open_name(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key).ok()?.strip_prefix('o')
}

/// With none left, the row is removed.
pub(super) fn withdrawn(rows: &Withdrawn, count: u64) -> StateRow {
    let Withdrawn { session, name, length } = rows;
    let value = (count > 0).then(|| count.to_le_bytes().into());
    (format!("w{session}/{name:032x}/{length:016x}").into_bytes().into(), value)
}

pub(super) fn places(run: u64, temporary: &str, number: u64, places: &[Placed]) -> StateRow {
    let mut value = Vec::with_capacity(places.len() * 20);
    for place in places {
        value.extend_from_slice(&place.seq.to_le_bytes());
        for part in [place.group, place.first, place.rows] {
            value.extend_from_slice(&part.to_le_bytes());
        }
    }
    let key = format!("s{run:016x}/{temporary}/{number:016x}");
    (key.into_bytes().into(), Some(value.into()))
}

fn complete(file: &Complete) -> Box<[u8]> {
    [&file.length.to_le_bytes()[..], file.temporary.as_bytes()].concat().into()
}

/// Reads a row.
///
/// # Errors
/// [`Kind::Journal`] if the row is not this sink's.
pub(super) fn read(key: &[u8], value: &[u8]) -> Result<Row> {
    read_row(key, value).ok_or_else(|| {
        Error::new(Kind::Journal, "the journal has state of another sink for this destination")
            .hint("use a new directory for parquet:")
    })
}

/// Whether the row is of objects that were withdrawn, and are still in their files.
pub(crate) fn is_withdrawn(key: &[u8], value: &[u8]) -> bool {
    matches!(read_row(key, value), Some(Row::Withdrawn(..)))
}

/// The number of a published file, if the row is of one.
pub(crate) fn published_number(key: &[u8], value: &[u8]) -> Option<u64> {
    match read_row(key, value)? {
        Row::Published(number, _) => Some(number),
        _ => None,
    }
}

fn read_row(key: &[u8], value: &[u8]) -> Option<Row> {
    let text = std::str::from_utf8(key).ok()?;
    let file = || {
        let (length, temporary) = value.split_first_chunk()?;
        Some(Complete { length: u64::from_le_bytes(*length), temporary: String::from_utf8(temporary.to_vec()).ok()? })
    };
    match text.split_at_checked(1)? {
        ("f", number) => Some(Row::Published(u64::from_str_radix(number, 16).ok()?, file()?)),
        ("o", _) => Some(Row::Open(file()?)),
        ("s", rest) => {
            let mut parts = rest.split('/');
            let run = u64::from_str_radix(parts.next()?, 16).ok()?;
            let temporary = parts.next()?.to_owned();
            let at = u64::from_str_radix(parts.next()?, 16).ok()?;
            let (all, rest) = value.as_chunks::<20>();
            let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
            let places = all.iter().map(|place| {
                Some(Placed {
                    seq: u64::from_le_bytes(place[..8].try_into().ok()?),
                    group: number(&place[8..12])?,
                    first: number(&place[12..16])?,
                    rows: number(&place[16..])?,
                })
            });
            let places = places.collect::<Option<_>>().filter(|_| rest.is_empty())?;
            Some(Row::Places { run, temporary, number: at, key: key.into(), places })
        }
        ("w", rest) => {
            let mut parts = rest.split('/');
            let session = parts.next()?.to_owned();
            let name = u128::from_str_radix(parts.next()?, 16).ok()?;
            let length = u64::from_str_radix(parts.next()?, 16).ok()?;
            let count = u64::from_le_bytes(value.try_into().ok()?);
            Some(Row::Withdrawn(Withdrawn { session, name, length }, count))
        }
        _ => None,
    }
}

/// State with changes that are not committed yet.
pub(super) struct Changed<'a> {
    pub before: &'a dyn SinkState,
    pub changes: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
}

impl SinkState for Changed<'_> {
    fn each(&self, read: &mut ReadRow<'_>) -> Result<()> {
        self.before.each(&mut |key, value| if self.changes.contains_key(key) { Ok(()) } else { read(key, value) })?;
        for (key, value) in &self.changes {
            value.as_ref().map_or(Ok(()), |value| read(key, value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written_and_others_are_refused() {
        let file = Complete { temporary: "part-1".into(), length: 7 };
        let placed =
            [Placed { seq: 5, group: 1, first: 2, rows: 3 }, Placed { seq: u64::MAX, group: 0, first: 0, rows: 1 }];
        let back = |row: StateRow| read(&row.0, &row.1.unwrap()).unwrap();
        assert_eq!(back(published(10, &file)), Row::Published(10, file.clone()));
        assert_eq!(back(open(&file)), Row::Open(file));
        let row = places(3, "part-1", 4, &placed);
        let key = row.0.clone();
        let expected = Row::Places { run: 3, temporary: "part-1".into(), number: 4, key, places: placed.to_vec() };
        assert_eq!(back(row), expected);
        let rows = Withdrawn { session: "s".into(), name: u128::MAX - 1, length: 9 };
        assert_eq!(back(withdrawn(&rows, 2)), Row::Withdrawn(rows.clone(), 2));
        assert_eq!(withdrawn(&rows, 0).1, None);
        assert_eq!(read(b"pack-0", b"x").unwrap_err().kind(), Kind::Journal);
        assert_eq!(read(b"", b"").unwrap_err().kind(), Kind::Journal);
    }
}
