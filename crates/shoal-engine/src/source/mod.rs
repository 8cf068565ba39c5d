//! The trait `Source` and its contract: what the engine may ask of a source. Not here: objects of a partition
//! (`entries.rs`), what a source may ask of the engine (`lane.rs`), any concrete source (one file or folder each).
//!
//! The contract, checked by `testing::source_contract` for every source:
//! - A **listing** starts at its cursor and yields partitions with `seq` dense and ascending. The order is the same
//!   each time, as long as the listed content is the same. A listing has its own connections and runs on its own
//!   thread. After an error of class `Retry` the engine may call `next` again, which continues at the same place.
//! - A **fetcher** belongs to one lane and never leaves its thread. `run` takes jobs from the lane until told to stop
//!   and answers **each job exactly once**: `whole`, `finished`, `failed` or `requeued`. `run` returns only on
//!   `Take::Stop` or with an error of class `Run`. The engine cancels a run by dropping this future, which must not
//!   block.
//! - A fetcher passes objects whole only up to [`WHOLE_MAX`] bytes. Larger objects go through `begin`, piece by piece.
//! - A source passes names on unchanged. The lane validates them; an unsafe name never becomes a job.

pub mod archive;
mod connections;
mod entries;
pub mod file_cursor;
pub mod files;
pub mod http_objects;
mod http_options;
pub mod ids;
mod in_pieces;
pub mod items;
mod lane;
pub mod list_get;
mod locators;
pub mod memory;
mod pages;
pub mod part;
mod suffix;
pub(crate) mod tar;
mod turn;
pub mod urls;
pub(crate) mod zip;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::{HostId, Result};
use crate::findings::Findings;
use crate::object::{ObjectMeta, Storage, Takes};
use crate::part::{Part, Seen};
use crate::partition::{Cursor, Partition};
use crate::session::Twice;

/// Text of an identity in front of its options: where it could be taken for one of them, its spaces are escaped. Any other
/// stays as journals have it.
pub(crate) fn before_options(text: String, options: &[&str]) -> String {
    match options.iter().any(|option| text.contains(option)) {
        true => text.replace(' ', "\\ "),
        false => text,
    }
}

/// A future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A future that stays on its lane.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

pub use self::connections::Connections;
pub use self::entries::{Entries, Entry, Known, Skip, Unlisted};
pub use self::http_options::{ConnectionOptions, Decode, HttpOptions, Netrc};
pub use self::in_pieces::in_pieces;
pub use self::lane::{Body, Hangs, Job, JobId, Lane, Limits, Take, Written};
pub(crate) use self::lane::{BodyClock, Counted, Later, Was};
pub use self::pages::Pages;
pub use self::turn::Turn;
pub use crate::object::WHOLE_MAX;
pub use shoal_http::{Changing, Pairs, Pipeline, Secret, check_headers, without_password};

/// How a resumed run can trust the part of a listing before its cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The service's own marker says where to continue; `Resume::Relist` checks it.
    Trusted,
    /// The engine lists names from the start and compares them with the chain in the journal.
    Names,
    /// The listing itself compares, and fails with [`crate::Kind::CursorRefused`] if that part has changed.
    Proven,
}

/// What a source is like. The same for the whole run; the default is that of a service in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceProperties {
    /// A fetch waits for a network (many in flight per lane), or else blocks its thread (one per lane).
    pub is_network: bool,
    /// Its objects are passed only once in a session, as items of an iterator. A later session cannot fetch one that has
    /// failed, unless it is `in_turn`.
    pub once: bool,
    /// A later session passes its objects again, and those that failed are selected in the order of their locators
    /// ([`Source::begin_retries`]).
    pub in_turn: bool,
    /// How to treat an object whose name is that of a file which the same run has written.
    pub twice: Twice,
    /// Copies of its objects usually keep their times.
    pub has_times: bool,
    /// They are files of this machine, with owners and all that belongs to a file.
    pub has_attributes: bool,
    /// Its names are keys of a store and no paths, so that a program that reads them gets any.
    pub has_keys: bool,
    /// How a resumed listing checks that the part before its cursor is still what was committed.
    pub behind: Behind,
    /// The largest useful number of lanes, if the source knows it. With one, objects are taken in the order of the
    /// listing.
    pub lanes_max: Option<usize>,
    /// Its objects are on many hosts. One that stays away then fails its objects, and does not end the run.
    pub many_hosts: bool,
    /// Its objects can be listed and compared again (`resume="update"`). Otherwise, messages advise a restart instead.
    pub updates: bool,
    /// A finished copy is updated by the same call (`Resume::Auto`): it is a tree of local files, which
    /// costs little to list, and which users expect to be copied as it is now.
    pub syncs: bool,
    /// What to do about two objects with one name, if there is something.
    pub same_name: Option<&'static str>,
}

impl SourceProperties {
    /// A message, without advice that is not for this source.
    pub(crate) fn advised(&self, message: &str) -> String {
        if self.updates { message.to_owned() } else { message.replace("`resume=\"update\"`", "`resume=\"restart\"`") }
    }
}

impl Default for SourceProperties {
    fn default() -> SourceProperties {
        SourceProperties {
            is_network: true,
            once: false,
            in_turn: false,
            twice: Twice::SameObject,
            has_times: false,
            has_attributes: false,
            has_keys: false,
            behind: Behind::Trusted,
            lanes_max: None,
            many_hosts: false,
            updates: true,
            syncs: false,
            same_name: None,
        }
    }
}

/// Where objects come from: a description. What a run learns and where it is, the run keeps.
pub trait Source: Send + Sync {
    /// Identifies the source when a run resumes; without secrets. It is shown to the user and stored in the journal.
    fn identity(&self) -> String;
    /// What it is like.
    fn properties(&self) -> SourceProperties {
        SourceProperties::default()
    }
    /// Starts a listing at its beginning or at the cursor of an earlier partition.
    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>>;
    /// Starts a listing at its beginning, for [`Behind::Names`]. What an earlier listing had before this cursor is compared,
    /// so that it must come in the same order, although what had failed may be there now.
    fn list_again(&self, cursor: Cursor) -> Result<Box<dyn Listing>> {
        let _ = cursor;
        self.list(None)
    }
    /// Whether something else may be at this place now, although the source is [`Behind::Trusted`]. Then it is listed from the
    /// start and compared.
    fn may_shift(&self, cursor: &Cursor) -> bool {
        let _ = cursor;
        false
    }
    /// Returns a partition of exactly these objects, to retry failures. The caller sets `seq`, `key` and `after`.
    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition>;
    /// Objects that failed in earlier sessions will be selected, in the order of their locators. `lists`: the source is
    /// listed as well, from its cursor. Only if it is `in_turn`, and before anything else.
    fn begin_retries(&self, lists: bool) {
        let _ = lists;
    }
    /// All of them were selected.
    fn end_retries(&self) {}
    /// The host of all objects of this partition, if it is one host, of many. Lanes take the partitions of other hosts
    /// first while this one is paused or has no room.
    fn host_of(&self, partition: &Partition) -> Option<HostId> {
        let _ = partition;
        None
    }
    /// Whether one lane must fetch the objects of this partition, in their order: some build on those before them.
    fn is_in_turn(&self, partition: &Partition) -> bool {
        let _ = partition;
        false
    }
    /// This source as it passes its objects to a destination that takes more of them than bytes, or not even links. `None`: it
    /// has nothing more.
    fn passed_to(&self, takes: Takes) -> Option<Arc<dyn Source>> {
        let _ = takes;
        None
    }
    /// Options that change what it passes, by name. A run continues only with the same.
    fn bound(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Calls `each` with the path of every directory that it lists and with what belongs to that; with those below a directory
    /// before it. The last path is empty: the root.
    ///
    /// # Errors
    /// That of `each`, or that a directory cannot be read.
    fn directories(&self, each: &mut dyn FnMut(&[u8], &ObjectMeta) -> Result<()>) -> Result<()> {
        let _ = each;
        Ok(())
    }
    /// The host of the object at this locator, if there are many: objects of one host are retried together.
    fn host_at(&self, locator: &[u8]) -> Option<HostId> {
        let _ = locator;
        None
    }
    /// What is requested for the object at this locator, such as its URL, if the journal does not have it. Empty: the source
    /// has nothing to request for it. `None`: the object is not there any more.
    ///
    /// # Errors
    /// If the source cannot be read.
    fn request_of(&self, locator: &[u8]) -> Result<Option<String>> {
        let _ = locator;
        Ok(None)
    }
    /// Creates the fetcher of one lane.
    fn fetcher(&self, lane: usize) -> Result<Box<dyn Fetcher>>;
    /// Notes for the report that are known before the run starts.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
    /// Notes for the report on what all fetchers together have met, known when the last of them has ended.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
    /// Values that identify the source, but must not be stored or shown (those of query parameters).
    fn secrets(&self) -> Vec<u8> {
        Vec::new()
    }
    /// What the platform says of the medium that its files are on. A hint for the number of workers to start with; asked
    /// seldom, as it costs some system calls.
    fn storage(&self) -> Storage {
        Storage::Other
    }
    /// Whether it would list a new file in this directory. Then nothing can be copied there, because the run would read
    /// its own output. The path is absolute and free of links.
    fn lists_below(&self, directory: &Path) -> bool {
        let _ = directory;
        false
    }
    /// What identifies the directory that all its objects are below, if there is one: the same as long as it is that
    /// directory, also after a reboot. Asked once in a session.
    fn root(&self) -> Option<[u8; 32]> {
        None
    }
    /// Permission bits of the source's root directory, if it is a directory. A destination that the run creates gets
    /// them.
    fn root_mode(&self) -> Option<u32> {
        None
    }
    /// One part of this source, if it divides itself. By default it is divided by the hash of each name. However it is
    /// divided, each name must be in one part only, because parts write at the same time and know nothing of each other.
    fn divided(&self, part: Part) -> Option<Arc<dyn Source>> {
        let _ = part;
        None
    }
}

/// A listing in progress.
pub trait Listing: Send {
    /// Returns the next partition, or `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>>;
    /// From now on, it reports to `findings` what it finds out about the source.
    fn report_to(&mut self, findings: &Arc<Findings>) {
        let _ = findings;
    }
    /// Says how it has ended. Asked once, also if the run has stopped it or it has failed.
    fn end(&mut self) -> ListingEnd {
        ListingEnd::default()
    }
}

/// How a listing has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingEnd {
    /// It was complete. If not, its objects are committed, but the run is not complete and continues there next time.
    pub is_whole: bool,
    /// Notes for the report: what it has left out.
    pub remarks: Vec<String>,
    /// All that a source has found which divides itself: what `Entries::seen` is for others.
    pub seen: Option<Seen>,
    /// The pattern that selects its objects, if no file matched it.
    pub unmatched: Option<Unmatched>,
}

/// A pattern that no file matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// As a user would write it, safe to print.
    pub pattern: String,
    /// There was nothing at all where it looks: what was there before may not be mounted.
    pub is_bare: bool,
}

impl Default for ListingEnd {
    fn default() -> ListingEnd {
        ListingEnd { is_whole: true, remarks: Vec::new(), seen: None, unmatched: None }
    }
}

/// Fetches objects for one lane.
pub trait Fetcher {
    /// From now on, it reports to `findings` what it finds out about the source.
    fn report_to(&mut self, findings: &Arc<Findings>) {
        let _ = findings;
    }
    /// Opens a partition: how many objects it has, and their names.
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>>;
    /// Takes jobs and answers them until told to stop.
    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>>;
}
