//! `TransferOptions`: every option of a run, its default and its description. The options of a source or a destination are
//! beside it.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Result;
use crate::option::group::{DESTINATION, ERRORS, SOURCE, SPEED};
use crate::option::{COUNT_MAX, Opt, Setting, Type, Value, whole};
use crate::part::Part;

/// How many objects are in progress at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Workers {
    /// Found while running, from measured throughput.
    #[default]
    Auto,
    /// Exactly this many.
    Fixed(usize),
}

impl Setting for Workers {
    const TAKES: Type = Type::WordOrCount("Workers", &["auto"]);

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Workers> {
        match given.text() {
            Some("auto") => Ok(Workers::Auto),
            _ => whole(given, option, named).map(|count| Workers::Fixed(count as usize)),
        }
    }

    fn given(&self) -> Value {
        match self {
            Workers::Auto => Value::Text("auto".to_owned()),
            Workers::Fixed(count) => Value::Whole(*count as i128),
        }
    }
}

crate::words! {
    /// When an object is committed.
    pub enum Durability {
        /// As soon as it is in the page cache; done again after a reboot.
        None = "none",
        /// After one barrier (`syncfs`) for a whole batch.
        #[default]
        Batch = "batch",
        /// After a sync of its file and directory.
        File = "file",
    }
}

crate::words! {
    /// What happens to a file that shoal did not write.
    pub enum Overwrite {
        /// It stays; the object is a failure `exists`.
        #[default]
        Never = "never",
        /// It is replaced, by rename.
        Always = "always",
    }
}

crate::words! {
    /// What is done about what earlier sessions of the same run have done.
    pub enum Resume {
        /// An unfinished run continues. A finished copy of a local tree is updated ([`SourceProperties::syncs`](crate::source::SourceProperties)); of another finished
        /// run the failures are retried, if there are any.
        #[default]
        Auto = "auto",
        /// The same, but no finished run is listed again.
        Once = "once",
        /// The recorded failures are retried, and nothing else.
        Failed = "failed",
        /// The listing starts over instead of continuing at the journal's place; what is committed is skipped.
        Relist = "relist",
        /// Everything is listed anew and compared with the destination; what is new or differs is copied.
        Update = "update",
        /// Everything is listed and fetched anew: nothing that is there is believed.
        Restart = "restart",
    }
}

impl Resume {
    /// The pass that it begins: what is committed is forgotten, and everything is listed anew.
    pub fn pass(self) -> Option<Pass> {
        match self {
            Resume::Auto | Resume::Once | Resume::Failed | Resume::Relist => None,
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

crate::options! {
    /// How a run goes about its work.
    pub struct TransferOptions {
        /// Only names that match one of these patterns, as in `.gitignore`: `"*.json"` in any directory, `"/a/*.json"` in
        /// one, `"logs/"` everything below. `docs/patterns.md` has all rules.
        include: Vec<String> = Vec::new(), "Only names that match: '*.json', '/top/*', 'dir/'; repeatable.",
            metavar: Some("GLOB"), group: SOURCE;
        /// Skip names that match one of these patterns, or are below a directory that does; applied after `include`.
        exclude: Vec<String> = Vec::new(), "Skip names and directories that match; repeatable.",
            metavar: Some("GLOB"), group: SOURCE;
        /// What to do with an existing file that shoal did not write: `"never"` keeps it and records a failure,
        /// `"always"` replaces it.
        overwrite: Overwrite = Overwrite::Never, "Replace files that shoal did not write.", group: DESTINATION;
        /// Set the modification time that the source has for a file, if it has one. By default for files, archives and buckets,
        /// not for a service. If the times of a service were kept, an update fetches only what has changed since.
        keep_times: Option<bool> = None, "Keep modification times; default for files, archives, buckets.", group: DESTINATION;
        /// Copy files of this machine exactly: permissions with set-id and sticky, owner and group by number (owners as root),
        /// ACLs, extended attributes and hard links. What the destination cannot hold is counted in a note.
        exact: bool = false, "Keep owners, all permissions, ACLs, attributes, hard links.", group: DESTINATION;
        /// Make names of one file of this machine names of one file at the destination, too. By default each becomes a
        /// file. `exact` includes it.
        hard_links: bool = false, "Keep hard links.", short: Some("-H"), group: DESTINATION;
        /// Fail a file if the destination cannot hold its owner, permissions, ACL, attributes or hard link.
        strict_attributes: bool = false, "Fail files with attributes that cannot be kept.", group: DESTINATION;
        /// When an object is committed: `"batch"` after one sync for many objects, `"file"` after a sync of each file,
        /// `"none"` as soon as it is in the page cache.
        durability: Durability = Durability::Batch, "Sync to disk: never, per batch, or per file.", group: DESTINATION;
        /// Path of the journal, if it is not to be inside the destination. `"null:"` has a journal only with this.
        journal: Option<PathBuf> = None, "Keep the journal here, not in DST/.shoal.", group: DESTINATION;
        /// How to use the journal of earlier calls. `"auto"` continues where the last call stopped. A finished copy of a
        /// local directory or glob into a directory is updated. Of other finished runs, it retries the failures; without
        /// any, it returns at once and does not list the source, as `"once"` always does. `"failed"` retries only the
        /// failures. `"relist"` lists from the start and skips what is committed. `"update"` lists everything and copies
        /// what is new or differs. `"restart"` reads everything again, compares all bytes and copies what differs. The
        /// last two accept other filters.
        resume: Resume = Resume::Auto, "How to use the journal of earlier calls.", group: ERRORS;
        /// Copy nothing and create nothing, not even the destination. The report has what would be copied.
        dry_run: bool = false, "Print what would be done, and do nothing.", short: Some("-n"), group: DESTINATION;
        /// `(index, count)`: do only this part of the job, such as `(3, 16)`, so that several processes or machines
        /// share it. Parts count from 0. Each has a journal of its own in the destination; `docs/clusters.md` has the
        /// rules.
        part: Option<Part> = None, "Only this part of N, counted from 0, such as 3/16.", metavar: Some("I/N"),
            group: SOURCE;
        /// Whether a part may be complete although other parts have listed different names, for a source that changes
        /// meanwhile. One that has listed nothing beside others that have is always an error.
        allow_different_listings: bool = false, "Accept parts that have listed other names.", group: ERRORS;
        /// Accept that nothing matches: a glob without a file, patterns that leave out all objects, a tree of links. By
        /// default it is an error, until the job has copied something once.
        allow_empty: bool = false, "Accept that nothing matches.", group: ERRORS;
        /// Count objects that were listed but are gone as skipped, not as failed.
        ignore_vanished: bool = false, "Skip objects that were listed but are gone.", group: ERRORS;
        /// Stop the run when more objects than this have failed. By default it stops only if 100 objects from a network or
        /// of a program have failed in the same way and nothing has succeeded, in a list of many hosts on ten of them.
        max_failures: Option<u64> = None, "Stop when more objects than this have failed.", metavar: Some("N"),
            range: Some((0.0, COUNT_MAX)), group: ERRORS;
        /// Do not stop if the first 100 objects fail in the same way. It is the default with `on_error="record"`.
        keep_going: Option<bool> = None, "Continue if the first 100 objects fail alike.", group: ERRORS;
        /// Number of objects in progress at once; `"auto"` finds it by measuring throughput.
        workers: Workers = Workers::Auto, "Objects in progress.", metavar: Some("N|auto"), short: Some("-j"),
            range: Some((1.0, WORKERS_MAX)), environment: true, group: SPEED;
        /// Leave the machine to others: use at most half of the cores, at the lowest I/O priority and a low priority.
        /// Only threads of this call change.
        nice: bool = false, "Half the cores, low priorities: leave the rest to others.", group: SPEED;
        /// Maximum bytes held in memory at once: a number, or text such as `"256MiB"`.
        memory: u64 = 256 << 20, "Memory limit for data.", // a small container's worth, far above what tiny objects need
            takes: Type::Size, metavar: Some("SIZE"), environment: true, group: SPEED;
        /// Maximum bytes per second: a number, or text such as `"10MB"`.
        limit_rate: Option<u64> = None, "Bytes per second, at most, such as 10MB.", takes: Type::Size,
            metavar: Some("SIZE"), group: SPEED;
    }
    and {
        /// How often to retry one object. Users set it for a source or destination on a network.
        max_retries: u32 = MAX_RETRIES;
        /// For how long to retry one object, and for how long a host may be unavailable.
        retry_timeout: Duration = RETRY_TIMEOUT;
    }
}

/// How often one object is retried, and for how long: as in object_store's RetryConfig.
pub const MAX_RETRIES: u32 = 10;
/// See [`MAX_RETRIES`].
pub const RETRY_TIMEOUT: Duration = Duration::from_secs(180);

/// Each worker needs memory even while idle.
const WORKERS_MAX: f64 = 65_536.0;
