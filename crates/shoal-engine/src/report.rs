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

/// One object that failed, or waits to be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name as the source gave it (not necessarily a safe one).
    pub name: Box<[u8]>,
    /// Stable name of the error's kind.
    pub kind: String,
    /// Why, as text.
    pub reason: String,
    /// How often it was tried.
    pub tries: u32,
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
    /// Listing finished and everything in it committed.
    pub complete: bool,
    /// The journal said so already; nothing was done. Unix seconds of that moment.
    pub completed_before: Option<u64>,
    /// Objects committed by earlier runs that this one continued.
    pub resumed_from: u64,
    /// The workers that were chosen, and what stopped their growth.
    pub workers: usize,
    /// Why the workers are not more.
    pub workers_reason: String,
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
    /// Objects committed in this run.
    pub committed: u64,
    /// A host is paused.
    pub paused: bool,
    /// Since the start.
    pub elapsed: Duration,
}
