//! The end of an archive: where its directory is, and how many entries that has.
//!
//! The end record is found from behind; exactly one may fit the end of the file, or two readers could find two archives.
//! Everything it says is held against where it stands: the directory must end where the end begins. What lies in front of
//! the archive (a program that unpacks it) shifts all its offsets by one number, found here.

use super::fields::damaged;
use super::fields::{u16_at, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::source::archive::archive_file::ArchiveFile;

pub(super) const SIGNATURE: &[u8] = b"PK\x05\x06";
const LOCATOR: &[u8] = b"PK\x06\x07";
const RECORD64: &[u8] = b"PK\x06\x06";
/// Length of an end record, of the pointer in front of it and of the record that points to.
const END: usize = 22;
const LOCATOR_LENGTH: u64 = 20;
const RECORD64_LENGTH: u64 = 56;
/// A comment behind the end record has at most this many bytes.
const COMMENT_MAX: u64 = 65_535;
/// An entry of the directory has at least this many bytes.
const ENTRY_MIN: u64 = 46;

/// What the end says of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Where the directory begins in the file.
    pub at: u64,
    /// Its length.
    pub length: u64,
    /// How many entries it has.
    pub count: u64,
    /// Whether that number may have lost its upper bits.
    pub wraps: bool,
    /// What lies in front of the archive: every offset in it counts from there.
    pub shift: u64,
}

/// What one of the records says.
#[derive(Clone, Copy)]
struct Said {
    disks: [u32; 2],
    counts: [u64; 2],
    length: u64,
    offset: u64,
}

/// Finds the end.
pub(super) fn find(file: &ArchiveFile) -> Result<End> {
    let held = file.len().min(COMMENT_MAX + END as u64);
    let mut tail = vec![0; held as usize];
    let from = file.len() - held;
    file.read_exact_at(&mut tail, from)?;
    let at = position(&tail)?;
    let record = &tail[at..];
    let at = from + at as u64;
    let said = Said {
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

/// Where the end record stands in the last bytes of the file.
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
            // As many as follow it, or fewer.
            held if usize::from(u16_at(tail, at + 20)) > held => damaged("the archive ends within its comment"),
            held => {
                damaged(format!("{} bytes follow the end of the archive", held - usize::from(u16_at(tail, at + 20))))
            }
        }),
        (None, None) => Err(no_end()),
    }
}

fn no_end() -> Error {
    damaged("not a zip archive, or truncated: it has no end record")
}

/// The zip64 record in front of an end record, where it stands, and where the archive says that it stands.
fn wide(file: &ArchiveFile, end: u64) -> Result<Option<(Said, u64, u64)>> {
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
    // Where it is said to be, or right in front of the pointer: behind a program that was put in front later.
    for at in [Some(pointed), locator_at.checked_sub(RECORD64_LENGTH)].into_iter().flatten() {
        let mut record = [0; RECORD64_LENGTH as usize];
        if at > locator_at || file.read_at(&mut record, at)? < record.len() || !record.starts_with(RECORD64) {
            continue;
        }
        if at.checked_add(12).and_then(|at| at.checked_add(u64_at(&record, 4))) != Some(locator_at) {
            continue;
        }
        let said = Said {
            disks: [u32_at(&record, 16), u32_at(&record, 20)],
            counts: [u64_at(&record, 24), u64_at(&record, 32)],
            length: u64_at(&record, 40),
            offset: u64_at(&record, 48),
        };
        return Ok(Some((said, at, pointed)));
    }
    Err(damaged("the zip64 record is not where the archive says it is"))
}

/// Whether both records say the same, as far as the narrow one says anything.
fn agree(narrow: &Said, wide: &Said) -> Result<()> {
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

/// The directory that ends at `end`.
fn located(said: &Said, end: u64, narrow: bool) -> Result<End> {
    // 65,535 disks mean "see zip64"; without that record it is one number like another.
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
