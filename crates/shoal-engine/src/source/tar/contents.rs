//! Makes a plan from the headers of a tar archive.
//!
//! An archive that is truncated (even if only the end marker is missing), or damaged from some byte on, keeps the
//! entries before that. One failed entry stands for the rest. A compressed archive whose stream is damaged, not just
//! truncated, is refused as a whole, because the damage that its checksum finds may be anywhere. So is an archive
//! beyond a limit, which is found while it is read: a compressed archive of a few kilobytes could take days.

use super::headers::{Entry, EntryType, Health, Reader, Stream};
use super::links::Links;
use super::stream::{Packed, Plain};
use crate::error::{Error, Kind, Result};
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::decode::Method;
use crate::source::archive::limits;
use crate::source::archive::member::{EntryKind, Fault, Member, NO_TIME};
use crate::source::archive::names::{Charset, RawName};
use crate::source::archive::options::ArchiveOptions;
use crate::source::archive::plan::Plan;

/// Unpacked bytes after which the limits are checked again.
const STEP: u64 = 1 << 20;
/// Bytes after the end of the archive that are checked at once.
const BEHIND: usize = 64 << 10;
/// Most bytes after the end of an archive that do not count for the limits of a compressed one, and that are checked in
/// a plain one. Packers fill a record of 10 KiB, or of what the user asked for.
const RECORD_MAX: u64 = 4 << 20;

/// Plans an archive that is read by position.
pub(super) fn of_plain(file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan> {
    let mut reader = Reader::new(Plain::new(file));
    Contents::new(file, options).read(&mut reader)
}

/// Plans an archive that must be unpacked for it.
pub(super) fn of_packed(method: Method, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan> {
    let packed = Packed::new(method, file).map_err(|error| of_all(method, error))?;
    let mut reader = Reader::new(packed);
    let mut contents = Contents::new(file, options);
    contents.packed = Some(method);
    let mut plan = contents.read(&mut reader)?;
    plan.sequential = true;
    plan.unpacked = reader.into_stream().into_kept().unwrap_or_default();
    plan.unpacked.shrink_to_fit();
    Ok(plan)
}

/// Makes an error of the first bytes an error of the archive.
fn of_all(method: Method, error: Error) -> Error {
    match error.kind() {
        Kind::Integrity => {
            Error::new(Kind::Archive, format!("not a tar archive compressed with {}: {}", method.as_str(), error.why()))
        }
        _ => error,
    }
}

/// Makes an error whose cause may be in any of the bytes so far an error of the archive.
fn of_any(error: &Error) -> Error {
    Error::new(Kind::Archive, format!("{}: any entry may be wrong, so none is unpacked", error.why()))
}

struct Contents<'a> {
    file: &'a ArchiveFile,
    options: &'a ArchiveOptions,
    packed: Option<Method>,
    plan: Plan,
    /// Bytes of contents so far, including those of skipped entries.
    size: u64,
    /// A header was not valid, although the stream had no fault.
    broken: bool,
    links: Links,
}

impl<'a> Contents<'a> {
    fn new(file: &'a ArchiveFile, options: &'a ArchiveOptions) -> Contents<'a> {
        let (plan, links) = Default::default();
        Contents { file, options, packed: None, plan, size: 0, broken: false, links }
    }

    fn read<S: Stream>(mut self, reader: &mut Reader<S>) -> Result<Plan> {
        self.entries(reader)?;
        if (self.packed.is_some() || !self.broken) && reader.health() == Health::Sound {
            self.rest(reader)?;
        }
        self.links.resolve(&mut self.plan, self.packed.is_some(), self.file, self.options)?;
        Ok(self.plan)
    }

    /// Reads entries up to the end of the archive, or to where it is truncated or damaged.
    fn entries<S: Stream>(&mut self, reader: &mut Reader<S>) -> Result<()> {
        loop {
            let entry = match reader.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                Err(error) if error.kind() != Kind::Integrity => return Err(error),
                Err(error) if reader.is_at_start() && self.plan.members.is_empty() => return Err(self.none(&error)),
                Err(error) => return self.stop(reader.health(), &error),
            };
            let cut = self.pass(reader, &entry)?;
            let whole = cut.is_none();
            self.push(entry, cut)?;
            if !whole {
                return Ok(());
            }
        }
    }

    /// Handles an error where an entry should begin.
    fn stop(&mut self, health: Health, error: &Error) -> Result<()> {
        let why = error.why().to_owned();
        match (health, self.plan.members.last()) {
            (Health::Damaged, _) => return Err(of_any(error)),
            // Damage may look like an early end. The next header would show whether earlier bytes are damaged too, but
            // there is none.
            (Health::BrokenOff, Some(Member { what: EntryKind::File, .. })) => self.plan.damage(why),
            (health, _) => {
                self.broken = health == Health::Sound;
                self.plan.push_damaged(why, self.file);
            }
        }
        Ok(())
    }

    /// Checks the bytes after the end: any except zeros are noted. A compressed archive is unpacked to its last byte,
    /// so that its checksum is verified.
    fn rest<S: Stream>(&mut self, reader: &mut Reader<S>) -> Result<()> {
        let (mut passed, mut block) = (0, vec![0; BEHIND]);
        loop {
            let there = match reader.behind(&mut block) {
                Ok(there) => there,
                Err(error) if error.kind() != Kind::Integrity => return Err(error),
                Err(error) if self.broken || reader.health() != Health::BrokenOff => return Err(of_any(&error)),
                Err(error) => {
                    self.plan.push_damaged(error.why().to_owned(), self.file);
                    return Ok(());
                }
            };
            passed += there as u64;
            self.plan.trailing_data |= !self.broken && block[..there].iter().any(|&byte| byte != 0);
            if self.packed.is_some() {
                let counted = self.size + reader.extensions() + u64::saturating_sub(passed, RECORD_MAX);
                limits::output(counted, self.file, self.options)?;
            } else if self.plan.trailing_data || passed > RECORD_MAX {
                self.plan.trailing_data = true;
                return Ok(());
            }
            if there < block.len() {
                return Ok(());
            }
        }
    }

    /// Skips the contents of an entry. Returns the reason if they are not complete.
    fn pass<S: Stream>(&mut self, reader: &mut Reader<S>, entry: &Entry) -> Result<Option<String>> {
        let mut passed = 0;
        while passed < entry.size {
            let step = match self.packed {
                Some(_) => STEP.min(entry.size - passed),
                None => entry.size,
            };
            let there = match reader.skip(step) {
                Ok(there) => there,
                Err(error) if error.kind() != Kind::Integrity => return Err(error),
                Err(error) if reader.health() == Health::Damaged => return Err(of_any(&error)),
                Err(error) => return Ok(Some(error.why().to_owned())),
            };
            passed += there;
            self.size += there;
            if there < step {
                let why = format!("the archive ends after {passed} of the entry's {} bytes", entry.size);
                return Ok(Some(why));
            }
            limits::output(self.size + reader.extensions(), self.file, self.options)?;
        }
        limits::output(self.size + reader.extensions(), self.file, self.options)?;
        Ok(None)
    }

    fn push(&mut self, entry: Entry, cut: Option<String>) -> Result<()> {
        if entry.what == EntryType::Directory && entry.name.is_empty() {
            return Ok(()); // the packed directory itself
        }
        let (what, reason) = match (entry.what, cut) {
            (_, Some(why)) => (EntryKind::Special, Some(why)),
            (EntryType::File | EntryType::HardLink, None) if entry.name.ends_with(b"/") => {
                (EntryKind::Special, Some(format!("its name is that of a directory, but it has {} bytes", entry.size)))
            }
            (EntryType::File | EntryType::HardLink, None) => (EntryKind::File, None),
            (EntryType::Directory, None) => (EntryKind::Directory { empty: true }, None),
            (EntryType::SymbolicLink, None) => (EntryKind::Link, None),
            (EntryType::Device | EntryType::Fifo, None) => (EntryKind::Special, None),
            (EntryType::Sparse, None) => (EntryKind::Fault(Fault::Sparse), None),
            (EntryType::Continued, None) => {
                (EntryKind::Special, Some("it begins in another volume of the archive".into()))
            }
            (EntryType::Unknown(flag), None) => {
                (EntryKind::Special, Some(format!("its type is '{}', which is unknown", flag.escape_ascii())))
            }
        };
        let member = Member {
            size: entry.size,
            packed: entry.size,
            at: entry.at,
            bound: entry.at + entry.size,
            modified: entry.modified.unwrap_or(NO_TIME),
            what,
            mode: entry.mode,
            ..Member::default()
        };
        let charset = if entry.utf8 { Charset::Utf8 } else { Charset::Tar };
        self.plan.push(RawName { bytes: &entry.name, charset }, member, self.file, self.options)?;
        if let Some(reason) = reason {
            self.plan.damage(reason);
        }
        let is_file = self.plan.members.last().is_some_and(|member| member.what == EntryKind::File);
        if let Some(target) = entry.link.filter(|_| is_file) {
            self.links.push(&target, &mut self.plan, self.file, self.options)?;
        }
        Ok(())
    }

    /// The error for a file that is not a tar archive.
    fn none(&self, error: &Error) -> Error {
        match self.packed {
            None => Error::new(Kind::Archive, error.why()),
            Some(method) => of_all(method, Error::new(Kind::Integrity, error.why())),
        }
    }
}
