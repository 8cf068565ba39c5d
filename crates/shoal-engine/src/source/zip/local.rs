//! Checks the header before each entry. It must agree with the directory on name, method, sizes, checksum and
//! encryption.
//!
//! A reader that reads an archive from the front sees these headers and not the directory. If they differ, the two
//! kinds of reader see different contents.

use super::fields::flag;
use super::fields::{ELSEWHERE, Fields, TWO_ZIP64, Wide, id, u16_at, u32_at};
use crate::error::{Error, Kind, Result};
use crate::source::archive::format::Archive;
use crate::source::archive::member::Member;

pub(super) const SIGNATURE: &[u8] = b"PK\x03\x04";
/// Length of a header without name and extra fields.
pub(super) const LENGTH: usize = 30;

/// Returns the name of an entry that is a file, as it is in the directory.
pub(super) fn raw_name<'a>(archive: &'a Archive, member: &Member) -> &'a [u8] {
    let plan = &archive.plan;
    match member.flags & flag::RAW_NAME != 0 {
        false => &plan.name(member)[archive.file.prefix.len()..],
        true => {
            let behind = &plan.text[member.name.end as usize..];
            &behind[2..][..usize::from(u16_at(behind, 0))]
        }
    }
}

/// Compares the header at the start of `bytes` with the directory. `bytes` may be too short for that.
pub(super) fn check(bytes: &[u8], archive: &Archive, member: &Member) -> Result<Checked> {
    let Some((header, rest)) = bytes.split_at_checked(LENGTH) else { return Ok(Checked::More(LENGTH)) };
    if !header.starts_with(SIGNATURE) {
        return Err(differs("there is no entry where the directory says it is"));
    }
    let lengths = [u16_at(header, 26), u16_at(header, 28)].map(usize::from);
    let length = LENGTH + lengths[0] + lengths[1];
    let Some(rest) = rest.get(..length - LENGTH) else { return Ok(Checked::More(length)) };
    let (name, extra) = rest.split_at(lengths[0]);
    if name != raw_name(archive, member) {
        return Err(differs("entry and directory differ on its name"));
    }
    let flags = u16_at(header, 6);
    if (flags ^ member.flags) & flag::ENCRYPTED != 0 {
        return Err(differs("entry and directory differ on whether it is encrypted"));
    }
    if (flags ^ member.flags) & flag::UTF8 != 0 && !name.is_ascii() {
        return Err(differs("entry and directory differ on the encoding of its name"));
    }
    if u16_at(header, 8) != member.method {
        return Err(differs("entry and directory differ on its compression"));
    }
    numbers(header, extra, flags, member)?;
    if member.at + length as u64 + member.packed > member.bound {
        return Err(differs("the entry reaches into the next one"));
    }
    Ok(Checked::Length(length))
}

/// The result of a check.
pub(super) enum Checked {
    /// The header is correct and has this length.
    Length(usize),
    /// The check needs this many bytes.
    More(usize),
}

/// Checks checksum and sizes. If they follow the entry, those in the header are zero or correct.
fn numbers(header: &[u8], extra: &[u8], flags: u16, member: &Member) -> Result<()> {
    let (crc, packed, size) = (u32_at(header, 14), u32_at(header, 18), u32_at(header, 22));
    let mut field = None;
    if packed == ELSEWHERE || size == ELSEWHERE {
        let mut fields = Fields(extra).flatten().filter(|(id, _)| *id == id::ZIP64);
        field = fields.next().map(|(_, field)| field);
        if fields.next().is_some() {
            return Err(differs(TWO_ZIP64));
        }
    }
    let mut wide = Wide(field);
    let (wide_size, wide_packed) = (wide.widen(size), wide.widen(packed));
    let right = |found: Option<u64>, wanted: u64, lies_behind: bool| match found {
        Some(found) => found == wanted || (lies_behind && found == 0),
        None => lies_behind,
    };
    let behind = flags & flag::DESCRIPTOR != 0;
    if !(crc == member.crc || (behind && crc == 0)) {
        return Err(differs("entry and directory differ on its checksum"));
    }
    match right(wide_size, member.size, behind) && right(wide_packed, member.packed, behind) {
        true => Ok(()),
        false => Err(differs("entry and directory differ on its size")),
    }
}

fn differs(why: &str) -> Error {
    Error::new(Kind::Archive, format!("the archive is inconsistent: {why}"))
}

/// The error for a header that does not end before the file does.
pub(super) fn beyond() -> Error {
    differs("the entry reaches into the next one")
}
