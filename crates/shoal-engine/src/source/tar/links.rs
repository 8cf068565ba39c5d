//! Hard links: each becomes a copy of the file that it leads to.
//!
//! Here: which entry that is, and the order in which a packed archive gives the copies. A hard link has no contents of its
//! own; it gets those of the last earlier entry that has the name it leads to, as GNU tar resolves it. Nothing is linked at
//! the destination. Not here: how an entry is read (`unpack.rs`), how much all of them may be (`archive/limits.rs`).
//!
//! In a packed archive the contents lie behind the reader once a link is met. So the copies come after all other entries, in
//! the order of their contents: one more pass, and another for each further copy of a file over [`HELD_MAX`].

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

/// A file of at most so many bytes is kept in memory while a packed archive gives its copies: the programs of git are 140
/// links to one file of 4 MB.
pub(super) const HELD_MAX: u64 = 8 << 20;
/// Of `Member::flags`: a hard link to a file to which the one before or behind it in `Plan::links` leads, too.
pub(super) const SHARED: u16 = 1;

/// No entry: there are fewer.
const NONE: u32 = u32::MAX;

/// The hard links of an archive, while it is read.
#[derive(Default)]
pub(super) struct Links(Vec<Wanted>);

/// A link that leads to a safe name.
struct Wanted {
    /// Of the name that it leads to. Names themselves, once more, could be as much memory as all of the plan.
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
    /// Notes that the last entry of a plan is a hard link.
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

    /// Gives each link the contents of what it leads to, once all entries are known.
    ///
    /// # Errors
    /// [`crate::Kind::Archive`] where a packed archive would be unpacked again for them too often.
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
                    // All that GNU tar's link has of it: also the time and the mode.
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

    /// Finds the last entry before each link that has the name it leads to.
    fn find(&mut self, plan: &Plan) {
        let all = &mut self.0;
        all.sort_unstable_by_key(|wanted| (wanted.hash, wanted.link));
        for (number, member) in plan.members.iter().enumerate() {
            let (number, hash) = (number as u32, hash(plan.name(member)));
            // The first link behind it; those behind that one get it below.
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

/// Puts the links of a plan in the order in which they take the fewest passes over a packed archive; how many bytes those
/// passes unpack.
fn order(plan: &mut Plan) -> u64 {
    let Plan { links, members, .. } = plan;
    let place = |number: u32| (members[number as usize].at, number);
    links.sort_unstable_by_key(|&number| place(number));
    // Of a large file one copy in each pass.
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
