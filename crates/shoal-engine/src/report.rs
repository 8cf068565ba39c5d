//! `Report`: the outcome of a run, and the check that its counts balance. Not here: formatting.

use std::time::Duration;

/// Counts of objects. They balance: listed = written + skipped + failed + unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Named by the listing.
    pub listed: u64,
    /// Written to the sink and committed.
    pub written: u64,
    /// Left out on purpose: duplicates, excluded names, vanished ones where asked for.
    pub skipped: u64,
    /// Failed for good; in the journal with their reasons.
    pub failed: u64,
    /// Listed, but neither of the above: what a resumed run does. 0 when the exit code is 0 or 1.
    pub unfinished: u64,
    /// Bytes of the written objects.
    pub bytes: u64,
}

impl Counts {
    /// Whether the counts add up.
    pub fn balanced(&self) -> bool {
        self.listed == self.written + self.skipped + self.failed + self.unfinished
    }
}

/// Why a listed object was not written, or not by this session. Their names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `include` or `exclude` leaves it out.
    Filtered,
    /// Its name was met before.
    Duplicate,
    /// A symbolic link that is not followed.
    Link,
    /// A symbolic link to a directory in which it lies.
    LoopingLink,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// A device or pipe of an archive, which are not told apart.
    Special,
    /// It is gone, and that was to be ignored.
    Vanished,
    /// A directory: made, or brought along by what lies in it.
    Directory,
    /// Written, but by an earlier session: not counted as skipped.
    Kept,
    /// An update found it as it was.
    Unchanged,
    /// An update found it as it was, but its copy was changed by others: that stays.
    Edited,
    /// It is in an archive of its store, and such objects were to be left out.
    Archived,
}

impl Reason {
    /// All, in the order of their numbers.
    pub const ALL: [Reason; 14] = [
        Reason::Filtered,
        Reason::Duplicate,
        Reason::Link,
        Reason::LoopingLink,
        Reason::Pipe,
        Reason::Socket,
        Reason::Device,
        Reason::Special,
        Reason::Vanished,
        Reason::Directory,
        Reason::Kept,
        Reason::Unchanged,
        Reason::Edited,
        Reason::Archived,
    ];

    /// Its stable name, in journals and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Filtered => "filtered",
            Reason::Duplicate => "duplicate",
            Reason::Link => "link",
            Reason::LoopingLink => "looping-link",
            Reason::Pipe => "pipe",
            Reason::Socket => "socket",
            Reason::Device => "device",
            Reason::Special => "special",
            Reason::Vanished => "vanished",
            Reason::Directory => "directory",
            Reason::Kept => "kept",
            Reason::Unchanged => "unchanged",
            Reason::Edited => "edited",
            Reason::Archived => "archived",
        }
    }

    /// The reason of this name.
    pub fn named(name: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.as_str() == name)
    }

    /// Whether the journal has the names of such objects, since leaving them out was not asked for; others are counted.
    pub fn is_listed(self) -> bool {
        !matches!(self, Reason::Filtered | Reason::Directory | Reason::Kept | Reason::Unchanged)
    }
}

/// How an object that did not fail is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is written.
    Written {
        /// Its size.
        bytes: u64,
        /// An earlier session has done it.
        kept: bool,
    },
    /// It is not to be written.
    Skipped(Reason),
}

/// Skipped objects, counted by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skips([u64; Reason::ALL.len()]);

impl Skips {
    /// One more.
    pub fn add(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// One fewer, of at least one.
    pub(crate) fn remove(&mut self, reason: Reason) {
        self.0[reason as usize] -= 1;
    }

    /// As many more as `other` has.
    pub fn join(&mut self, other: &Skips) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// How many of a reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// How many are skipped: all but [`Reason::Kept`].
    pub fn total(&self) -> u64 {
        self.0.iter().sum::<u64>() - self.of(Reason::Kept)
    }

    /// How many no sink was asked to take, whatever their names: excluded, or no objects at all.
    pub fn not_admitted(&self) -> u64 {
        use Reason::{Device, Directory, Filtered, Link, LoopingLink, Pipe, Socket, Special};
        let left_out = [Filtered, Link, LoopingLink, Pipe, Socket, Device, Special, Directory];
        left_out.into_iter().map(|reason| self.of(reason)).sum()
    }

    /// How many [`Reason::is_listed`] holds for.
    pub fn listed(&self) -> u64 {
        self.iter().filter(|(reason, _)| reason.is_listed()).map(|(_, count)| count).sum()
    }

    /// The reasons that are met, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.into_iter().map(|reason| (reason, self.of(reason))).filter(|(_, count)| *count > 0)
    }
}

impl FromIterator<(Reason, u64)> for Skips {
    fn from_iter<T: IntoIterator<Item = (Reason, u64)>>(counts: T) -> Skips {
        let mut skips = Skips::default();
        for (reason, count) in counts {
            skips.0[reason as usize] += count;
        }
        skips
    }
}

/// One object that was left out without being asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The name as the source gave it (not necessarily a safe one).
    pub name: Box<[u8]>,
    /// Why.
    pub reason: Reason,
}

/// One object that failed, or waits to be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name as the source gave it (not necessarily a safe one).
    pub name: Box<[u8]>,
    /// The path of the archive that it is an entry of, or that failed as a whole.
    pub archive: Option<Box<[u8]>>,
    /// Stable name of the error's kind.
    pub kind: String,
    /// Why, as text.
    pub reason: String,
    /// How often it was tried.
    pub tries: u32,
}

/// What the identity of a source of archives, or of files of rows, begins with. Its locators are the path of the archive,
/// NUL, and what is the format's own: so that the journal, which stores both, can name the archive of a failure.
pub(crate) const ARCHIVES: [&str; 4] = ["zip:", "tar:", "unzip:", "parquet:"];

/// Whether the source of this identity is archives.
pub(crate) fn is_of_archives(identity: &str) -> bool {
    ARCHIVES.iter().any(|scheme| identity.starts_with(scheme))
}

/// The path of the archive that a locator of archives begins with.
pub(crate) fn archive_of(locator: &[u8]) -> &[u8] {
    &locator[..memchr::memchr(0, locator).unwrap_or(locator.len())]
}

/// A part of a run in which one number of workers held. The next step begins where this one ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// From when it held, since the start of the run.
    pub at: Duration,
    /// The number of workers.
    pub workers: usize,
    /// Objects finished a second while it held; 0 if nothing was measured.
    pub objects_per_second: f64,
    /// Their bytes a second; 0 if nothing was measured.
    pub bytes_per_second: f64,
}

/// What a run did, and why it stopped.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// This run (since the process started).
    pub run: Counts,
    /// All runs that the journal joins into one.
    pub total: Counts,
    /// Wall time of this run.
    pub elapsed: Duration,
    /// Requests made again after a failure.
    pub retries: u64,
    /// Objects whose length the source could not tell.
    pub unverified: u64,
    /// Bytes received that became no object: broken bodies, answers asked for again, comparisons.
    pub wasted: u64,
    /// Of `run.skipped`: names met before.
    pub duplicates: u64,
    /// Of `run.skipped`: what an update found as it was. Where the journal said that all was done: over all runs.
    pub unchanged: u64,
    /// Of the skipped, over all sessions of a pass: copies that others have changed.
    pub edited: u64,
    /// Nothing was copied: the counts say what would be. Bytes are not known.
    pub dry_run: bool,
    /// Listing finished and everything in it committed.
    pub complete: bool,
    /// The journal said so already; nothing was done. Unix seconds of that moment.
    pub completed_before: Option<u64>,
    /// With `completed_before`, unless it was asked for: that the source was not listed again, and what to do for that.
    pub not_listed: Option<String>,
    /// Objects committed by earlier runs that this one continued.
    pub resumed_from: u64,
    /// The workers that were chosen, and what stopped their growth.
    pub workers: usize,
    /// Why the workers are not more.
    pub workers_reason: String,
    /// The path that led to them, in order of time: each number that held for a while, the last of which is `workers`. At
    /// most [`Report::STEPS_MAX`]; none if nothing was left to do.
    pub concurrency: Vec<Step>,
    /// How durable the result is, in words: the barrier that really ran.
    pub durability: String,
    /// How files were published, in words.
    pub publish: String,
    /// Pauses of a host, seconds in all.
    pub paused: Duration,
    /// The first failures; the rest is in the journal.
    pub failures: Vec<Failure>,
    /// Remarks a user should see (a discarded journal row, a file system without syncfs).
    pub notes: Vec<String>,
    /// What to do about objects that failed because another one has their name; empty: there is nothing to do, or none.
    pub advice: String,
}

impl Report {
    /// Steps of `concurrency` at the most: a host that asks to slow down again and again changes the number for hours.
    pub const STEPS_MAX: usize = 200;
}

/// Counters while a run goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// This run so far; `written` counts objects handed to the sink, committed or not.
    pub run: Counts,
    /// What earlier runs had committed.
    pub before: Counts,
    /// The listing has ended, so that `listed` is the total.
    pub listing_done: bool,
    /// Objects being fetched right now.
    pub in_flight: usize,
    /// The workers allowed right now.
    pub workers: usize,
    /// Requests made again after a failure.
    pub retries: u64,
    /// Objects waiting for a later try.
    pub deferred: u64,
    /// How long until the first of them is tried again, if one waits and it is known.
    pub retry_in: Option<Duration>,
    /// Objects committed in this run.
    pub committed: u64,
    /// A host is paused.
    pub paused: bool,
    /// Since the start.
    pub elapsed: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_number_and_its_name() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!((reason as usize, Reason::named(reason.as_str())), (at, Some(reason)));
        }
        let skips: Skips = [(Reason::Filtered, 3), (Reason::Kept, 5), (Reason::Pipe, 1)].into_iter().collect();
        assert_eq!((skips.total(), skips.listed(), skips.of(Reason::Kept)), (4, 1, 5));
    }
}
