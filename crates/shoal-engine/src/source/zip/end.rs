//! The end of an archive: where its directory is, and how many entries it has.
//!
//! The end record is searched from the end of the file. Exactly one may fit, or two readers could find two archives.
//! What it says must match its position: the directory must end where the end records begin. Bytes before the archive
//! (a self-extracting program) shift all its offsets by the same number, which is determined here. If they are another
//! archive, that one is not read, and counts as a failure.

use super::fields::{damaged, u16_at, u32_at, u64_at};
use super::local;
use crate::error::{Error, Result};
use crate::source::archive::archive_file::ArchiveFile;

pub(super) const SIGNATURE: &[u8] = b"PK\x05\x06";
const LOCATOR: &[u8] = b"PK\x06\x07";
const RECORD64: &[u8] = b"PK\x06\x06";
/// Lengths of an end record, of the zip64 locator before it, and of the zip64 record.
const END: usize = 22;
const LOCATOR_LENGTH: u64 = 20;
const RECORD64_LENGTH: u64 = 56;
/// Longest comment after the end record, in bytes.
const COMMENT_MAX: u64 = 65_535;
/// Shortest entry of the directory, in bytes.
const ENTRY_MIN: u64 = 46;

/// What the end records say about the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Offset of the directory in the file.
    pub at: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Number of its entries.
    pub count: u64,
    /// Whether that number has only 16 bits, so that upper bits may be lost.
    pub wraps: bool,
    /// Number of bytes before the archive: all its offsets count from there.
    pub shift: u64,
}

/// The fields of one end record.
#[derive(Clone, Copy)]
struct EndRecord {
    disks: [u32; 2],
    counts: [u64; 2],
    length: u64,
    offset: u64,
}

/// Finds the end records and checks them.
pub(super) fn find(file: &ArchiveFile) -> Result<End> {
    let held = file.len().min(COMMENT_MAX + END as u64);
    let mut tail = vec![0; held as usize];
    let from = file.len() - held;
    file.read_exact_at(&mut tail, from)?;
    let at = position(&tail)?;
    let record = &tail[at..];
    let at = from + at as u64;
    let said = EndRecord {
        disks: [u16_at(record, 4).into(), u16_at(record, 6).into()],
        counts: [u16_at(record, 8).into(), u16_at(record, 10).into()],
        length: u32_at(record, 12).into(),
        offset: u32_at(record, 16).into(),
    };
    match wide(file, at)? {
        Some((wide, record, pointed)) => {
            agree(&said, &wide)?;
            let mut end = located(&wide, record, false)?;
            if record.checked_sub(pointed) != Some(end.shift) {
                return Err(damaged("the zip64 record is not where the archive says it is"));
            }
            end.count = wide.counts[1];
            Ok(end)
        }
        None if said.length == u64::from(u32::MAX) || said.offset == u64::from(u32::MAX) => {
            Err(damaged("the archive refers to a zip64 record, but has none"))
        }
        None => located(&said, at, true),
    }
}

/// Returns the position of the end record in the last bytes of the file.
fn position(tail: &[u8]) -> Result<usize> {
    let mut fits = None;
    let mut any = None;
    for at in memchr::memmem::rfind_iter(tail, SIGNATURE).filter(|at| tail.len() - at >= END) {
        any.get_or_insert(at);
        if at + END + usize::from(u16_at(tail, at + 20)) == tail.len() && fits.replace(at).is_some() {
            return Err(damaged(
                "the archive has two ends, one in the comment of the other: programs differ on which one they read",
            ));
        }
    }
    match (fits, any) {
        (Some(at), _) => Ok(at),
        (None, Some(at)) => Err(match tail.len() - at - END {
            // The comment is longer or shorter than what follows.
            held if usize::from(u16_at(tail, at + 20)) > held => damaged("the archive ends within its comment"),
            held => {
                damaged(format!("{} bytes follow the end of the archive", held - usize::from(u16_at(tail, at + 20))))
            }
        }),
        (None, None) => Err(no_end()),
    }
}

/// Whether another archive is before this one in the file. Anything else there may be a program that unpacks it.
pub(super) fn follows_another(file: &ArchiveFile, end: &End) -> Result<bool> {
    let mut head = [0; local::SIGNATURE.len()];
    Ok(end.shift > 0 && file.read_at(&mut head, 0)? == head.len() && head == local::SIGNATURE)
}

fn no_end() -> Error {
    damaged("not a zip archive, or truncated: it has no end record")
}

/// Returns the zip64 record before an end record, its offset, and its offset according to the archive.
fn wide(file: &ArchiveFile, end: u64) -> Result<Option<(EndRecord, u64, u64)>> {
    let Some(locator_at) = end.checked_sub(LOCATOR_LENGTH) else { return Ok(None) };
    let mut locator = [0; LOCATOR_LENGTH as usize];
    file.read_exact_at(&mut locator, locator_at)?;
    if !locator.starts_with(LOCATOR) {
        return Ok(None);
    }
    let pointed = u64_at(&locator, 8);
    if u32_at(&locator, 4) != 0 || u32_at(&locator, 16) > 1 {
        return Err(several_disks());
    }
    // At its declared offset, or directly before the locator if a program was put before the archive later.
    for at in [Some(pointed), locator_at.checked_sub(RECORD64_LENGTH)].into_iter().flatten() {
        let mut record = [0; RECORD64_LENGTH as usize];
        if at > locator_at || file.read_at(&mut record, at)? < record.len() || !record.starts_with(RECORD64) {
            continue;
        }
        if at.checked_add(12).and_then(|at| at.checked_add(u64_at(&record, 4))) != Some(locator_at) {
            continue;
        }
        let said = EndRecord {
            disks: [u32_at(&record, 16), u32_at(&record, 20)],
            counts: [u64_at(&record, 24), u64_at(&record, 32)],
            length: u64_at(&record, 40),
            offset: u64_at(&record, 48),
        };
        return Ok(Some((said, at, pointed)));
    }
    Err(damaged("the zip64 record is not where the archive says it is"))
}

/// Checks that both records agree, as far as the narrow one has a value.
fn agree(narrow: &EndRecord, wide: &EndRecord) -> Result<()> {
    let agrees = |narrow: u64, wide: u64, elsewhere: u64| narrow == wide || narrow == elsewhere;
    let (short, long) = (u64::from(u16::MAX), u64::from(u32::MAX));
    let counts = narrow.counts.iter().zip(wide.counts).all(|(narrow, wide)| agrees(*narrow, wide, short));
    let disks = narrow.disks.iter().zip(wide.disks).all(|(narrow, wide)| agrees((*narrow).into(), wide.into(), short));
    match counts && disks && agrees(narrow.length, wide.length, long) && agrees(narrow.offset, wide.offset, long) {
        true => Ok(()),
        false => Err(damaged("the archive's two end records are inconsistent")),
    }
}

fn several_disks() -> Error {
    damaged("the archive is one part of several: join them first")
}

/// Locates the directory that ends at `end`, and checks it.
fn located(said: &EndRecord, end: u64, narrow: bool) -> Result<End> {
    // 65,535 disks mean "see zip64". Without that record, it is an ordinary number.
    if said.disks != [0, 0] || said.counts[0] != said.counts[1] {
        return Err(several_disks());
    }
    let (count, length) = (said.counts[1], said.length);
    let at = end
        .checked_sub(length)
        .ok_or_else(|| damaged(format!("its directory claims {length} bytes, more than there are before its end")))?;
    if count > length / ENTRY_MIN {
        return Err(damaged(format!("its directory claims {count} entries in {length} bytes")));
    }
    let shift = at.checked_sub(said.offset).ok_or_else(|| {
        damaged(format!(
            "its directory claims to begin at byte {}, but must begin at byte {at} or earlier",
            said.offset
        ))
    })?;
    Ok(End { at, length, count, wraps: narrow, shift })
}
