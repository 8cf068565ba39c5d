//! What a listing skipped, counted for the notes in the report.

use crate::display::{count, escape};
use crate::fs::read::unreadable;
use crate::report::Reason;

/// Most directories named in one note; the others are only counted. All of them are failures in the journal.
const NAMED_MAX: usize = 5;

/// Why an entry is not an object, with one and several of them in words.
const ODD: [(Reason, &str, &str); 5] = [
    (Reason::Link, "symbolic link", "symbolic links"),
    (Reason::LoopingLink, "symbolic link in a loop", "symbolic links in a loop"),
    (Reason::Pipe, "pipe", "pipes"),
    (Reason::Socket, "socket", "sockets"),
    (Reason::Device, "device", "devices"),
];

/// Counts of one listing.
#[derive(Default)]
pub(super) struct SkipStats {
    odd: [u64; ODD.len()],
    /// Links that are followed, or lead to nothing.
    pub followed: u64,
    unreadable: u64,
    named: Vec<String>,
    /// Whether the source has a `.shoal` directory, left by a run that wrote to it.
    ours: bool,
}

impl SkipStats {
    pub fn odd(&mut self, odd: Reason) {
        if let Some(at) = ODD.iter().position(|(other, ..)| *other == odd) {
            self.odd[at] += 1;
        }
    }

    /// Records that there is a `.shoal` directory.
    pub fn ours(&mut self) {
        self.ours = true;
    }

    /// Records that the directory or link at `path` could not be read.
    pub fn unreadable(&mut self, path: &[u8], errno: rustix::io::Errno) {
        self.unreadable += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("\"{}\" ({})", escape(path), unreadable(errno, None).why()));
        }
    }

    pub fn remarks(&self, follow: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        let counts = ODD.iter().zip(self.odd).filter(|(_, count)| *count > 0);
        let counted: Vec<String> =
            counts.map(|((_, one, more), count)| format!("{count} {}", if count == 1 { one } else { more })).collect();
        if let Some((last, others)) = counted.split_last() {
            let list = if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) };
            let was = if counted.len() == 1 && last.starts_with("1 ") { "was" } else { "were" };
            let links = self.odd[0] > 0 && !follow;
            let hint = if links { "; `links=\"follow\"` follows links" } else { "" };
            remarks.push(format!("{list} {was} skipped{hint}"));
        }
        if self.ours {
            remarks.push("\".shoal\" was skipped: it is the journal of a run that wrote to this directory".into());
        }
        match self.followed {
            0 => {}
            1 => remarks.push("1 symbolic link was followed".into()),
            followed => remarks.push(format!("{} symbolic links were followed", count(followed))),
        }
        let (unreadable, named) = (self.unreadable, &self.named);
        if unreadable > 0 {
            let more = unreadable - named.len() as u64;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let what = match (unreadable, follow) {
                (1, false) => "1 directory",
                (1, true) => "1 directory or link",
                (_, false) => &format!("{unreadable} directories"),
                (_, true) => &format!("{unreadable} directories or links"),
            };
            remarks.push(format!("{what} could not be read: {}{more}", named.join(", ")));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_count_by_kind() {
        let mut stats = SkipStats::default();
        assert!(stats.remarks(false).is_empty());
        for odd in [Reason::Link, Reason::Pipe, Reason::Link, Reason::Link] {
            stats.odd(odd);
        }
        let text = "3 symbolic links and 1 pipe were skipped; `links=\"follow\"` follows links";
        assert_eq!(stats.remarks(false), [text]);
        stats = SkipStats::default();
        stats.ours();
        let ours = "\".shoal\" was skipped: it is the journal of a run that wrote to this directory";
        assert_eq!(stats.remarks(false), [ours]);
        stats = SkipStats::default();
        stats.odd(Reason::Device);
        stats.unreadable(b"a/b", rustix::io::Errno::ACCESS);
        let unreadable = "1 directory could not be read: \"a/b\" (cannot read it: permission denied)";
        assert_eq!(stats.remarks(false), ["1 device was skipped", unreadable]);
        assert_eq!(ODD[0].0, Reason::Link, "its count decides on the hint");
    }
}
