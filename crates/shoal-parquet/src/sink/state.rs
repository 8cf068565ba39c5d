//! The rows of sink state in the journal, and how they are stored.
//!
//! - `f` and a number: a published file, or one that is about to be published
//! - `o` and a temporary name: an open file, complete with the given length
//! - `s`, a run, a temporary name and a number: where the rows of partitions are that were committed together

use shoal_engine::sink::StateRow;
use shoal_engine::{Error, Kind, Result};

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
    Places { run: u64, temporary: String, key: Box<[u8]>, places: Vec<Placed> },
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
            Some(Row::Places { run, temporary, key: key.into(), places })
        }
        _ => None,
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
        let expected = Row::Places { run: 3, temporary: "part-1".into(), key, places: placed.to_vec() };
        assert_eq!(back(row), expected);
        assert_eq!(read(b"pack-0", b"x").unwrap_err().kind(), Kind::Journal);
        assert_eq!(read(b"", b"").unwrap_err().kind(), Kind::Journal);
    }
}
