//! Hard links: each becomes a copy of its target.
//!
//! Here: which entry is the target, and in which order the copies of a compressed archive are unpacked. A hard link has
//! no contents. It gets those of the last earlier entry with the target's name, as in GNU tar. No link is created at
//! the destination. Not here: how an entry is read (`unpack.rs`), the limit of all copies (`archive/limits.rs`).
//!
//! In a compressed archive, the contents are before the reader when it finds a link. So the copies come after all other
//! entries, in the order of their contents. This takes one more pass, and another for each further copy of a file over
//! [`HELD_MAX`].

use xxhash_rust::xxh3::xxh3_128;

use super::headers::Target;
use crate::error::Result;
use crate::name::Name;
use crate::source::archive::archive_file::ArchiveFile;
use crate::source::archive::limits;
use crate::source::archive::member::{EntryKind, Fault, Member, NoFile};
use crate::source::archive::names::{Charset, RawName};
use crate::source::archive::options::ArchiveOptions;
use crate::source::archive::plan::Plan;

/// A file of at most this many bytes is held in memory while its copies are unpacked from a compressed archive. The
/// programs of git are 140 links to one file of 4 MB.
pub(super) const HELD_MAX: u64 = 8 << 20;
/// Flag of a member: the link before or after it in `Plan::links` has the same target.
pub(super) const SHARED: u16 = 1;

/// Not a number of an entry: there are fewer.
const NONE: u32 = u32::MAX;

/// The hard links of an archive, while it is read.
#[derive(Default)]
pub(super) struct Links(Vec<Wanted>);

/// A link with a safe target name.
struct Wanted {
    /// The hash of the target's name. The names themselves could need as much memory as the whole plan.
    hash: [u64; 2],
    link: u32,
    /// The last entry before it with that name.
    target: u32,
}

fn hash(name: &[u8]) -> [u64; 2] {
    let hash = xxh3_128(name);
    [(hash >> 64) as u64, hash as u64]
}

impl Links {
    /// Adds the last entry of a plan, which is a hard link.
    pub fn push(
        &mut self,
        target: &Target,
        plan: &mut Plan,
        file: &ArchiveFile,
        options: &ArchiveOptions,
    ) -> Result<()> {
        let charset = if target.utf8 { Charset::Utf8 } else { Charset::Tar };
        let name = plan.name_of(RawName { bytes: &target.name, charset }, file, options)?;
        let link = plan.members.len() as u32 - 1;
        match (plan.members.last_mut(), Name::parse(&name)) {
            (Some(member), Err(_)) => member.what = EntryKind::Fault(Fault::HardLink(NoFile::Outside)),
            (_, _) => self.0.push(Wanted { hash: hash(&name), link, target: NONE }),
        }
        Ok(())
    }

    /// Gives each link the contents of its target, when all entries are known.
    ///
    /// # Errors
    /// [`crate::Kind::Archive`] if the copies would unpack too many bytes of a compressed archive again.
    pub fn resolve(
        mut self,
        plan: &mut Plan,
        packed: bool,
        file: &ArchiveFile,
        options: &ArchiveOptions,
    ) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.find(plan);
        self.0.sort_unstable_by_key(|wanted| wanted.link);
        for wanted in self.0 {
            let found = plan.members.get(wanted.target as usize).cloned();
            let Some(member) = plan.members.get_mut(wanted.link as usize) else { continue };
            member.what = match found {
                _ if member.what != EntryKind::File => continue, // it has failed for another reason
                Some(found) if found.what == EntryKind::File => {
                    plan.size = plan.size.saturating_add(found.size);
                    plan.links.push(wanted.link);
                    // Everything that a link of GNU tar shares, including the time and the mode.
                    *member = Member { name: member.name.clone(), ..found };
                    continue;
                }
                Some(_) => EntryKind::Fault(Fault::HardLink(NoFile::Other)),
                None => EntryKind::Fault(Fault::HardLink(NoFile::Missing)),
            };
        }
        let again = order(plan);
        if packed { limits::again(again, file, options) } else { Ok(()) }
    }

    /// Finds the last entry before each link that has the target's name.
    fn find(&mut self, plan: &Plan) {
        let all = &mut self.0;
        all.sort_unstable_by_key(|wanted| (wanted.hash, wanted.link));
        for (number, member) in plan.members.iter().enumerate() {
            let (number, hash) = (number as u32, hash(plan.name(member)));
            // The first link after it. Later links with the same target get it below.
            let at = all.partition_point(|wanted| (wanted.hash, wanted.link) <= (hash, number));
            if let Some(wanted) = all.get_mut(at).filter(|wanted| wanted.hash == hash) {
                wanted.target = number;
            }
        }
        for at in 1..all.len() {
            let before = &all[at - 1];
            if before.hash == all[at].hash && all[at].target == NONE {
                all[at].target = before.target;
            }
        }
    }
}

/// Sorts the links of a plan so that they take the fewest passes over a compressed archive. Returns how many bytes
/// those passes unpack.
fn order(plan: &mut Plan) -> u64 {
    let Plan { links, members, .. } = plan;
    let place = |number: u32| (members[number as usize].at, number);
    links.sort_unstable_by_key(|&number| place(number));
    // One copy of a large file in each pass.
    let mut passes: Vec<(u32, u32)> = Vec::with_capacity(links.len());
    for &number in links.iter() {
        let same = |other: u32| members[other as usize].at == members[number as usize].at;
        let pass = match passes.last() {
            Some(&(pass, last)) if same(last) && members[number as usize].size > HELD_MAX => pass + 1,
            _ => 0,
        };
        passes.push((pass, number));
    }
    passes.sort_unstable_by_key(|&(pass, number)| (pass, place(number)));
    links.clear();
    links.extend(passes.iter().map(|(_, number)| number));
    drop(passes);
    let (mut again, mut stream) = (0u64, u64::MAX);
    for at in 0..links.len() {
        let (from, size) = (members[links[at] as usize].at, members[links[at] as usize].size);
        if at > 0 && members[links[at - 1] as usize].at == from {
            for number in [links[at - 1], links[at]] {
                members[number as usize].flags |= SHARED;
            }
            if size <= HELD_MAX {
                continue;
            }
        }
        if size > 0 {
            let end = from.saturating_add(size);
            again = again.saturating_add(if stream <= from { end - stream } else { end });
            stream = end;
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(members: &[(u64, u64)]) -> Plan {
        let member = |&(at, size): &(u64, u64)| Member { at, size, ..Member::default() };
        let links = (0..members.len() as u32).collect();
        let mut plan = Plan::default();
        (plan.members, plan.links) = (members.iter().map(member).collect(), links);
        plan
    }

    #[test]
    fn copies_come_in_the_order_of_their_contents_in_as_few_passes_as_can_be() {
        let large = HELD_MAX + 1;
        let mut links = plan(&[(900, 5), (100, 7), (900, 5), (2000, large), (2000, large), (100, 7), (50, 0)]);
        let again = order(&mut links);
        assert_eq!(links.links, [6, 1, 5, 0, 2, 3, 4]);
        assert_eq!(again, 2 * (2000 + large), "one pass, and another for the second copy of the large one");
        let shared: Vec<bool> = links.members.iter().map(|member| member.flags & SHARED != 0).collect();
        assert_eq!(shared, [true, true, true, true, true, true, false]);
    }
}
