//! What belongs to files of the source and could not be kept at the destination: counted, and said once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;

use crate::display::count;
use crate::fs::error::{FsError, Operation};

/// What could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Owner,
    Mode,
    Acl,
    Attribute,
    HardLink,
    Directory,
}

/// In words, and what was being done.
const WORDS: [(What, &str, Operation); 6] = [
    (What::Owner, "owners", Operation::Chown),
    (What::Mode, "permissions", Operation::Chmod),
    (What::Acl, "ACLs", Operation::Xattr),
    (What::Attribute, "extended attributes", Operation::Xattr),
    (What::HardLink, "hard links", Operation::Link),
    (What::Directory, "times of directories", Operation::Utimens),
];

/// Counts of one session.
#[derive(Debug, Default)]
pub(super) struct Lost {
    counts: [AtomicU64; 6],
    /// Each is a failure of its file instead.
    is_strict: bool,
}

impl Lost {
    pub fn new(is_strict: bool) -> Lost {
        Lost { is_strict, ..Lost::default() }
    }

    /// Counts what was not kept.
    ///
    /// # Errors
    /// If none may be lost.
    pub fn unless(&self, is_kept: bool, what: What) -> Result<(), FsError> {
        if !is_kept {
            self.if_strict(what)?;
            self.counts[what as usize].fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// The same of what is counted elsewhere.
    ///
    /// # Errors
    /// If none may be lost.
    pub fn if_strict(&self, what: What) -> Result<(), FsError> {
        if self.is_strict { Err(WORDS[what as usize].2.failed()(Errno::NOTSUP)) } else { Ok(()) }
    }

    /// What is to be said at the end.
    pub fn note(&self) -> Option<String> {
        let counted = WORDS.iter().map(|(what, words, _)| (self.counts[*what as usize].load(Relaxed), words));
        let parts: Vec<String> = counted
            .filter(|(number, _)| *number > 0)
            .map(|(number, words)| format!("{} {words}", count(number)))
            .collect();
        (!parts.is_empty()).then(|| {
            let list = parts.join(", ");
            format!("the destination or this user could not keep {list}: `strict_attributes=True` makes these failures")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_counted_or_fails() {
        let lost = Lost::default();
        assert_eq!(lost.note(), None);
        for (is_kept, what) in [(true, What::Mode), (false, What::Owner), (false, What::HardLink), (false, What::Owner)]
        {
            lost.unless(is_kept, what).unwrap();
        }
        assert!(lost.note().unwrap().contains("keep 2 owners, 1 hard links:"));
        let strict = Lost::new(true);
        assert!(strict.unless(false, What::Acl).is_err() && strict.unless(true, What::Acl).is_ok());
        assert!(WORDS.iter().enumerate().all(|(at, (what, ..))| at == *what as usize));
    }
}
