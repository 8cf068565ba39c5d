//! `TransferOptions`: every knob of the engine, its default and one sentence; the list that the command line,
//! the Python stub and the documents are checked against. A source's own knobs live beside the source.

use std::path::PathBuf;
use std::time::Duration;

use crate::part::Part;

/// How many objects are worked on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Workers {
    /// Found while running, from measured throughput.
    #[default]
    Auto,
    /// Exactly this many.
    Fixed(usize),
}

/// When a partition counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// In the page cache; done again after a reboot.
    None,
    /// One barrier (`syncfs`) for a whole batch, then the journal.
    #[default]
    Batch,
    /// Each file and its directory synced, then the journal.
    File,
}

impl Durability {
    /// The word a user types.
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Batch => "batch",
            Durability::File => "file",
        }
    }
}

/// What happens to a file that shoal did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// It stays; the object is a failure `exists`.
    #[default]
    Never,
    /// It is replaced, by rename.
    Always,
}

impl Overwrite {
    /// The word a user types.
    pub fn as_str(self) -> &'static str {
        match self {
            Overwrite::Never => "never",
            Overwrite::Always => "always",
        }
    }
}

/// What is done about what earlier sessions of the same run have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Resume {
    /// An unfinished run goes on; of a finished one the failures are tried again, if there are any.
    #[default]
    Auto,
    /// The recorded failures are tried again, and nothing else.
    Failed,
    /// The listing starts over in place of going on from the journal's place; what is committed is skipped.
    Relist,
    /// Everything is listed anew and compared with the destination; what is new or differs is copied.
    Update,
    /// Everything is listed and fetched anew: nothing that is there is believed.
    Restart,
}

impl Resume {
    /// The word a user types.
    pub fn as_str(self) -> &'static str {
        match self {
            Resume::Auto => "auto",
            Resume::Failed => "failed",
            Resume::Relist => "relist",
            Resume::Update => "update",
            Resume::Restart => "restart",
        }
    }

    /// The pass that it begins: what is committed is forgotten, and everything is listed anew.
    pub fn pass(self) -> Option<Pass> {
        match self {
            Resume::Auto | Resume::Failed | Resume::Relist => None,
            Resume::Update => Some(Pass::Update),
            Resume::Restart => Some(Pass::Restart),
        }
    }
}

/// What the listing of a run was begun as: it goes on as that until it is finished, however it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pass {
    /// The first one.
    #[default]
    First,
    /// Begun anew with [`Resume::Update`].
    Update,
    /// Begun anew with [`Resume::Restart`].
    Restart,
}

impl Pass {
    /// Its stable name, in journals.
    pub fn as_str(self) -> &'static str {
        match self {
            Pass::First => "first",
            Pass::Update => "update",
            Pass::Restart => "restart",
        }
    }

    /// The pass of this name.
    pub fn named(name: &str) -> Option<Pass> {
        [Pass::First, Pass::Update, Pass::Restart].into_iter().find(|pass| pass.as_str() == name)
    }
}

/// How a run goes about its work.
#[derive(Clone, Debug)]
pub struct TransferOptions {
    /// Objects worked on at once.
    pub workers: Workers,
    /// Processors and disks are left to others: half the cores, the lowest priorities, no growing while others wait.
    pub nice: bool,
    /// Bytes that may be held in memory at once.
    pub memory: u64,
    /// When a partition counts as done.
    pub durability: Durability,
    /// What happens to files that shoal did not write.
    pub overwrite: Overwrite,
    /// Files get the time at which their source says they were last changed; by default those of files and archives.
    pub keep_times: Option<bool>,
    /// Where the journal lives; by default inside the destination.
    pub journal: Option<PathBuf>,
    /// How often one object is tried again after its first try.
    pub max_retries: u32,
    /// Longest time one object is tried again, and longest time a host may stay away, before giving up.
    pub retry_timeout: Duration,
    /// The run stops when more objects than this have failed.
    pub max_failures: Option<u64>,
    /// Objects gone between listing and fetching are skipped instead of failed.
    pub ignore_vanished: bool,
    /// Only names matching one of these globs.
    pub include: Vec<String>,
    /// No name matching one of these globs; looked at after `include`.
    pub exclude: Vec<String>,
    /// Most bytes a second, over all workers.
    pub limit_rate: Option<u64>,
    /// What is done about what earlier sessions have done.
    pub resume: Resume,
    /// Parts of a job may have listed other names than this one.
    pub allow_different_listings: bool,
    /// Nothing is copied, made or written: what would be is counted.
    pub dry_run: bool,
    /// Only this part of the source, with a journal of its own in the same destination.
    pub part: Option<Part>,
}

impl Default for TransferOptions {
    fn default() -> Self {
        TransferOptions {
            workers: Workers::Auto,
            nice: false,
            memory: 256 << 20, // 256 MiB: a small container's worth, far above what tiny objects need
            durability: Durability::Batch,
            overwrite: Overwrite::Never,
            keep_times: None,
            journal: None,
            max_retries: 10,                         // as object_store's RetryConfig
            retry_timeout: Duration::from_secs(180), // likewise
            max_failures: None,
            ignore_vanished: false,
            include: Vec::new(),
            exclude: Vec::new(),
            limit_rate: None,
            resume: Resume::Auto,
            allow_different_listings: false,
            dry_run: false,
            part: None,
        }
    }
}
