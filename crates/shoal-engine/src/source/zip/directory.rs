//! Reads the directory of an archive, entry by entry. Memory is bounded by the plan and one block, whatever the
//! directory claims.

use super::end::End;
use super::fields::{Fields, TWO_ZIP64, Wide, id, u16_at, u32_at};
use super::fields::{damaged, flag};
use super::{local, time};
use crate::error::Result;
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::decode::Method;
use crate::source::archive::limits;
use crate::source::archive::member::{EntryKind, Fault, Member};
use crate::source::archive::names::{Charset, RawName};
use crate::source::archive::options::ArchiveOptions;
use crate::source::archive::plan::Plan;

const ENTRY: &[u8] = b"PK\x01\x02";
const ENTRY_LENGTH: usize = 46;
/// Begins a signature of the directory, which may follow its last entry.
const SIGNED: &[u8] = b"PK\x05\x05";
/// Bytes read at once: more than the longest entry, which has 196,651.
const BLOCK: usize = 256 << 10;
/// Systems (the upper half of "version made by") with the file attributes of Unix.
const UNIX: u8 = 3;
const MACOS: u8 = 19;
/// Parts of Unix attributes: the kind of file, and the permission bits.
const KIND: u32 = 0o170_000;
const LINK: u32 = 0o120_000;
const SPECIAL: [u32; 4] = [0o010_000, 0o020_000, 0o060_000, 0o140_000];
const PERMISSIONS: u32 = 0o777;
/// The known version of the Unicode path field.
const UNICODE_PATH_VERSION: u8 = 1;

/// The bytes of the directory, read in blocks.
struct Blocks<'f> {
    file: &'f ArchiveFile,
    bytes: Vec<u8>,
    /// How many of `bytes` have been used.
    taken: usize,
    /// The part of the directory that is not in `bytes` yet.
    at: u64,
    left: u64,
}

impl Blocks<'_> {
    /// Returns at least the next `length` bytes, or all that are left.
    fn peek(&mut self, length: usize) -> Result<&[u8]> {
        if self.bytes.len() - self.taken < length && self.left > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            let held = self.bytes.len();
            let more = self.left.min((BLOCK - held.min(BLOCK)) as u64) as usize;
            self.bytes.resize(held + more, 0);
            self.file.read_exact_at(&mut self.bytes[held..], self.at)?;
            self.at += more as u64;
            self.left -= more as u64;
        }
        Ok(&self.bytes[self.taken..])
    }
}

/// Reads the whole directory.
pub(super) fn read(file: &ArchiveFile, end: &End, options: &ArchiveOptions) -> Result<Plan> {
    limits::entries(end.count, options)?; // before memory is allocated for them
    let mut plan = Plan::default();
    // `end` has checked that the file is large enough for this many entries.
    let count = end.count as usize;
    plan.members.try_reserve(count).map_err(|_| damaged(format!("not enough memory for {count} entries")))?;
    let mut blocks = Blocks { file, bytes: Vec::new(), taken: 0, at: end.at, left: end.length };
    loop {
        let bytes = blocks.peek(ENTRY_LENGTH)?;
        if bytes.is_empty() {
            break;
        }
        if bytes.starts_with(SIGNED) && bytes.len() == 6 + usize::from(u16_at(bytes, 4)) {
            break; // nothing follows it, since a block holds more than that
        }
        if bytes.len() < ENTRY_LENGTH || !bytes.starts_with(ENTRY) {
            return Err(damaged(format!("its directory is damaged at entry {}", plan.members.len() + 1)));
        }
        let lengths = [u16_at(bytes, 28), u16_at(bytes, 30), u16_at(bytes, 32)].map(usize::from);
        let length = ENTRY_LENGTH + lengths.iter().sum::<usize>();
        let bytes = blocks.peek(length)?;
        let Some(bytes) = bytes.get(..length) else {
            return Err(damaged(format!("its directory ends within entry {}", plan.members.len() + 1)));
        };
        entry(bytes, lengths[0], lengths[1], file, end, options, &mut plan)?;
        blocks.taken += length;
    }
    let count = plan.members.len() as u64;
    if count != end.count && !(end.wraps && count & 0xffff == end.count) {
        return Err(damaged(format!("its end record counts {} entries, but its directory has {count}", end.count)));
    }
    Ok(plan)
}

/// The contents of extra fields.
#[derive(Default)]
struct Extra<'a> {
    wide: Option<&'a [u8]>,
    modified: Option<i64>,
    name: Option<&'a [u8]>,
    /// Why the entry cannot be trusted.
    wrong: Option<&'static str>,
}

impl<'a> Extra<'a> {
    fn read(bytes: &'a [u8], raw_name: &[u8]) -> Extra<'a> {
        let mut extra = Extra::default();
        let mut ntfs = None;
        for field in Fields(bytes) {
            match field {
                Ok((id::ZIP64, _)) if extra.wide.is_some() => extra.wrong = Some(TWO_ZIP64),
                Ok((id::ZIP64, field)) => extra.wide = Some(field),
                Ok((id::UNIX_TIME, [flags, seconds @ ..])) if flags & 1 != 0 && seconds.len() >= 4 => {
                    extra.modified = Some(i64::from(u32_at(seconds, 0) as i32));
                }
                Ok((id::NTFS, field)) => ntfs = time::of_ntfs(field),
                Ok((id::UNICODE_PATH, [UNICODE_PATH_VERSION, rest @ ..])) => {
                    // With the checksum of another name, it is left over from a tool that renamed the entry.
                    if let Some((sum, name)) = rest.split_at_checked(4)
                        && u32_at(sum, 0) == crc32fast::hash(raw_name)
                        && std::str::from_utf8(name).is_ok()
                    {
                        extra.name = Some(name);
                    }
                }
                Ok(_) => {}
                Err(_) => extra.wrong = Some("one of its extra fields reaches beyond their end"),
            }
        }
        extra.modified = extra.modified.or(ntfs);
        extra
    }
}

fn entry(
    bytes: &[u8],
    name_length: usize,
    extra_length: usize,
    file: &ArchiveFile,
    end: &End,
    options: &ArchiveOptions,
    plan: &mut Plan,
) -> Result<()> {
    let raw_name = &bytes[ENTRY_LENGTH..ENTRY_LENGTH + name_length];
    let extra = Extra::read(&bytes[ENTRY_LENGTH + name_length..][..extra_length], raw_name);
    let number = plan.members.len() + 1;
    let mut wide = Wide(extra.wide);
    let lost = || damaged(format!("entry {number} refers to a zip64 field, but has none"));
    let size = wide.widen(u32_at(bytes, 24)).ok_or_else(lost)?;
    let packed = wide.widen(u32_at(bytes, 20)).ok_or_else(lost)?;
    let offset = wide.widen(u32_at(bytes, 42)).ok_or_else(lost)?;
    if wide.disk(u16_at(bytes, 34)).ok_or_else(lost)? != 0 {
        return Err(damaged("the archive is one part of several: join them first"));
    }
    let beyond = || damaged(format!("entry {number} has an offset beyond the directory of the archive"));
    let at = offset.checked_add(end.shift).ok_or_else(beyond)?;
    let least = (local::LENGTH + name_length) as u64;
    let bound = at.checked_add(least).and_then(|at| at.checked_add(packed)).filter(|bound| *bound <= end.at);
    let bound = bound.ok_or_else(beyond)?;

    let mut flags = u16_at(bytes, 8) & !(flag::RAW_NAME | flag::LOCAL_TIME);
    let modified = extra.modified.unwrap_or_else(|| {
        flags |= flag::LOCAL_TIME;
        time::of_dos(u16_at(bytes, 12), u16_at(bytes, 14))
    });
    let system = bytes[5];
    let attributes = if matches!(system, UNIX | MACOS) { u32_at(bytes, 38) >> 16 } else { 0 };
    let what = match attributes & KIND {
        LINK => EntryKind::Link,
        kind if SPECIAL.contains(&kind) => EntryKind::Special,
        _ => EntryKind::File,
    };
    let (name, charset) = match extra.name {
        Some(name) => (name, Charset::Utf8),
        None if flags & flag::UTF8 != 0 => (raw_name, Charset::Utf8),
        None => (raw_name, Charset::Zip { unix: matches!(system, UNIX | MACOS) }),
    };
    let method = u16_at(bytes, 10);
    let crc = u32_at(bytes, 16);
    let mode = (attributes & PERMISSIONS) as u16;
    let member = Member { size, packed, at, bound, modified, crc, method, flags, what, mode, ..Member::default() };
    let same = plan.push(RawName { bytes: name, charset }, member, file, options)?;
    if !same || extra.name.is_some() {
        plan.text.extend_from_slice(&(name_length as u16).to_le_bytes());
        plan.text.extend_from_slice(raw_name);
        if let Some(member) = plan.members.last_mut() {
            member.flags |= flag::RAW_NAME;
        }
    }
    judge(plan, extra.wrong);
    Ok(())
}

/// Makes the last entry a failure if it has bytes that cannot be unpacked.
fn judge(plan: &mut Plan, wrong: Option<&str>) {
    let Some(member) = plan.members.last_mut() else { return };
    match member.what {
        EntryKind::File => {}
        EntryKind::Directory { .. } if member.size > 0 => {
            let why = format!("its name is that of a directory, but it has {} bytes", member.size);
            return plan.damage(why);
        }
        _ => return,
    }
    if member.flags & (flag::ENCRYPTED | flag::STRONGLY_ENCRYPTED | flag::MASKED) != 0 {
        member.what = EntryKind::Fault(Fault::Encrypted);
    } else if Method::of_zip(member.method).is_none() {
        member.what = EntryKind::Fault(Fault::Method);
    } else if let Some(why) = wrong {
        plan.damage(why.to_owned());
    } else if member.method == 0 && member.size != member.packed {
        let why = format!(
            "stored without compression, but its {} bytes are declared to come from {}",
            member.size, member.packed
        );
        plan.damage(why);
    }
}
