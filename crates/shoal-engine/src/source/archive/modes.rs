//! The permissions of directories, from their own entries in an archive.

use super::conflicts::SLASH;
use super::member::Member;
use super::plan::Plan;

impl Plan {
    /// Returns the permission bits of the directory `name`, if entries have some. With several entries, what all of
    /// them permit.
    pub fn directory_mode(&self, name: &[u8]) -> Option<u32> {
        let member = |number: &u32| &self.members[*number as usize];
        let first = self.directories.partition_point(|number| sorting(self.name(member(number))).lt(sorting(name)));
        let same = self.directories[first..].iter().map(member).take_while(|member| self.name(member) == name);
        same.filter_map(Member::mode).reduce(|one, other| one & other)
    }
}

/// The bytes of a name as they are compared when names are sorted.
fn sorting(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().map(|&byte| if byte == b'/' { SLASH } else { byte })
}

#[cfg(test)]
mod tests {
    use super::super::conflicts::find_conflicts;
    use super::super::member::EntryKind;
    use super::*;

    #[test]
    fn a_directory_has_the_permissions_of_its_entry_whatever_sorts_between() {
        let mut plan = Plan::default();
        let mut push = |name: &str, mode, what| {
            let start = plan.text.len() as u32;
            plan.text.extend_from_slice(name.as_bytes());
            plan.members.push(Member { name: start..plan.text.len() as u32, mode, what, ..Member::default() });
        };
        let directory = EntryKind::Directory { empty: true };
        for (name, mode) in [("a b", 0o711), ("a/b", 0o750), ("a", 0o700), ("a.b", 0o555), ("twice", 0o770)] {
            push(name, mode, directory);
        }
        push("none", 0, directory);
        push("a/b/file", 0o600, EntryKind::File);
        push("twice", 0o705, directory);
        push("../up", 0o700, directory);
        plan.directories = find_conflicts(&mut plan.text, &mut plan.members);
        let modes = ["a", "a b", "a.b", "a/b", "twice", "none", "a/b/file", "../up", "b", "", "a/"];
        let found = modes.map(|name| plan.directory_mode(name.as_bytes()));
        let (some, none) = ([0o700, 0o711, 0o555, 0o750, 0o700].map(Some), [None; 6]);
        assert_eq!(found.as_slice(), [&some[..], &none].concat());
    }
}
