//! The entries of an archive, whatever its format: all names in one buffer and 64 bytes for each entry, built once.
//!
//! A format pushes its entries in the order of the archive and calls [`Plan::checked`], which does what needs all
//! entries: it finds conflicts between names (`conflicts.rs`), empty directories, and archives beyond a limit
//! (`limits.rs`).

use super::archive_file::ArchiveFile;
use super::conflicts::find_conflicts;
use super::limits;
use super::member::{EntryKind, Fault, Member};
use super::names::{self, RawName};
use super::options::ArchiveOptions;
use crate::error::{Error, Kind, Result};
use crate::name::Name;

/// The entries of an archive.
#[derive(Default)]
pub(crate) struct Plan {
    /// The names, one after the other. Bytes between them belong to the format.
    pub text: Vec<u8>,
    /// The entries in the order of the archive. The number of a member is its index here.
    pub members: Vec<Member>,
    /// The numbers of the directories that have permission bits, in the order of [`find_conflicts`].
    pub(super) directories: Vec<u32>,
    /// The reasons of [`Fault::Damaged`].
    pub reasons: Vec<String>,
    /// Only readable from front to back, so all of it is one partition.
    pub sequential: bool,
    /// The unpacked bytes of a small compressed archive, so that it is not unpacked twice.
    pub unpacked: Vec<u8>,
    /// Unpacked bytes of all entries, as declared.
    pub size: u64,
    /// The numbers of the hard links that became copies of their targets. Their bytes are before those of earlier
    /// entries, so a sequential archive unpacks them after all others, in this order.
    pub links: Vec<u32>,
    /// Bytes that are not padding follow the end of the archive.
    pub trailing_data: bool,
    /// The table of the encoding; looked up with the first name.
    table: Option<Option<&'static encoding_rs::Encoding>>,
}

impl Plan {
    /// Adds an entry. Sets `member.name`, and makes a file whose name ends in a slash a directory. Returns whether the
    /// name (without the slash) is unchanged by decoding.
    ///
    /// # Errors
    /// [`Kind::Archive`] beyond `max_entries`, so that memory is bounded, or with more than 4 GiB of names.
    pub fn push(
        &mut self,
        raw: RawName<'_>,
        mut member: Member,
        file: &ArchiveFile,
        options: &ArchiveOptions,
    ) -> Result<bool> {
        limits::entries(self.members.len() as u64 + 1, options)?;
        let table = self.table(options)?;
        // Decoding makes a name at most three times as long (code page 437). Offsets must fit in 32 bits.
        if self.text.len() + 3 * raw.bytes.len() + file.prefix.len() > u32::MAX as usize {
            return Err(Error::new(Kind::Archive, "the archive has more than 4 GiB of names"));
        }
        let start = self.text.len();
        self.text.extend_from_slice(&file.prefix);
        let converted = names::convert(raw, table, options, &mut self.text);
        let mut end = self.text.len();
        if end > start + file.prefix.len() && self.text[end - 1] == b'/' {
            end -= 1;
            if member.what == EntryKind::File {
                member.what = EntryKind::Directory { empty: true };
            }
        }
        member.name = start as u32..end as u32;
        if matches!(member.what, EntryKind::File | EntryKind::Directory { .. }) {
            let components = || memchr::memchr_iter(b'/', &self.text[start..end]).count() as u64 + 1;
            if converted.refused {
                member.what = EntryKind::Fault(Fault::Backslash);
            } else if (end - start) as u64 > 2 * u64::from(options.max_depth)
                && components() > u64::from(options.max_depth)
            {
                member.what = EntryKind::Fault(Fault::TooDeep);
            }
        }
        if member.what == EntryKind::File {
            self.size = self.size.saturating_add(member.size);
        }
        self.members.push(member);
        Ok(!converted.changed)
    }

    /// Returns the name that an entry with this raw name has in a plan.
    ///
    /// # Errors
    /// As of [`Plan::push`].
    pub fn name_of(&mut self, raw: RawName<'_>, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Vec<u8>> {
        let mut name = file.prefix.to_vec();
        names::convert(raw, self.table(options)?, options, &mut name);
        Ok(name)
    }

    fn table(&mut self, options: &ArchiveOptions) -> Result<Option<&'static encoding_rs::Encoding>> {
        Ok(match self.table {
            Some(table) => table,
            None => *self.table.insert(names::table(&options.encoding)?),
        })
    }

    /// Adds a failed entry, named like the archive, for the part that could not be read.
    pub fn push_damaged(&mut self, why: String, file: &ArchiveFile) {
        let start = self.text.len();
        self.text.extend_from_slice(&file.name);
        let name = start as u32..self.text.len() as u32;
        self.members.push(Member { name, ..Member::default() });
        self.damage(why);
    }

    /// Makes the last entry a failure with this reason.
    pub fn damage(&mut self, why: String) {
        // Beyond 65,536 reasons, the last one is used again: all are about one archive.
        let number = u16::try_from(self.reasons.len()).unwrap_or(u16::MAX);
        if self.reasons.len() <= usize::from(u16::MAX) {
            self.reasons.push(why);
        }
        if let Some(member) = self.members.last_mut() {
            member.what = EntryKind::Fault(Fault::Damaged(number));
        }
    }

    /// Finishes the plan when all entries are in it.
    ///
    /// # Errors
    /// [`Kind::Archive`] beyond `max_size` or `max_ratio`.
    pub fn checked(mut self, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan> {
        limits::output(self.size, file, options)?;
        self.text.shrink_to_fit();
        self.members.shrink_to_fit();
        self.directories = find_conflicts(&mut self.text, &mut self.members);
        let mut links = std::mem::take(&mut self.links);
        links.retain(|&link| {
            let member = &self.members[link as usize];
            member.what == EntryKind::File && Name::parse(self.name(member)).is_ok()
        });
        self.links = links;
        Ok(self)
    }

    /// Returns the name of a member.
    pub fn name(&self, member: &Member) -> &[u8] {
        &self.text[member.name.start as usize..member.name.end as usize]
    }

    /// Its size in memory, without `unpacked`.
    pub fn weight(&self) -> usize {
        let numbers = self.directories.len() + self.links.len();
        self.text.len() + self.members.len() * size_of::<Member>() + numbers * size_of::<u32>()
    }
}
