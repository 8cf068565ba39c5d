//! Source: archives. A glob or a list of zip and tar archives in one run; every entry is an object.
//!
//! Here: the source. In this folder:
//!
//! - what users set: `options.rs`, and which formats there are: `registry.rs`
//! - which archives: `find.rs` finds them, `subdirectories.rs` gives each its own directory, `signature.rs` names files
//!   that are not archives
//! - what is in one: `archive_file.rs` reads the file, `format.rs` is the interface of the formats, `plan.rs` the list
//!   of entries, `member.rs` one entry, `fault.rs` why an entry has failed, `conflicts.rs` compares names, `names.rs`
//!   decodes them, `modes.rs` has the permissions of directories, `limits.rs` the limits, `cache.rs` the plans of a run
//! - listing: `listing.rs` splits archives into partitions, `skip_stats.rs` counts what is left out
//! - unpacking: `entries.rs` has the entries of a partition, `fetch.rs` fetches them, `decode.rs` decompresses streams,
//!   `decoder_memory.rs` makes decoders that need much memory take turns
//!
//! Not here: how a zip or a tar is read (`source/zip/`, `source/tar/`), which name is safe (`Name`). An entry never
//! becomes a link, device or pipe.

pub(crate) mod archive_file;
mod cache;
mod conflicts;
pub(crate) mod decode;
pub(crate) mod decoder_memory;
mod entries;
mod fault;
mod fetch;
mod find;
pub(crate) mod format;
pub(crate) mod limits;
mod listing;
pub(crate) mod member;
mod modes;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod plan;
mod registry;
mod signature;
mod skip_stats;
mod subdirectories;

use std::path::Path;
use std::sync::Arc;

use self::cache::ArchiveCache;
pub use self::find::ArchivesFrom;
pub use self::options::{ArchiveOptions, Backslashes, Encoding};
pub use self::registry::FormatsIn;
use super::{Behind, Fetcher, Listing, Source, SourceProperties};
use crate::error::Result;
use crate::option::Options;
use crate::part::Part;
use crate::partition::{Cursor, Partition};
use crate::session::Twice;

/// Archives as a source.
pub struct Archives {
    cache: Arc<ArchiveCache>,
    identity: String,
    /// Only the archives of this part.
    part: Option<Part>,
}

impl Archives {
    /// Checks that the paths exist; it reads nothing yet.
    ///
    /// # Errors
    /// [`Kind::Config`](crate::Kind::Config) if a path does not exist, a glob is not valid, or the encoding is unknown.
    pub fn new(from: ArchivesFrom, formats: FormatsIn, options: ArchiveOptions) -> Result<Archives> {
        names::table(&options.encoding)?;
        let find = find::Find::new(from)?;
        // With the options that change what is written, but not the limits: what they refuse is a failure, which is retried.
        let identity = format!("{}:{}{}", formats.as_str(), find.identity(), options.identity());
        let cache = Arc::new(ArchiveCache::new(find, formats.formats(), options));
        Ok(Archives { cache, identity, part: None })
    }
}

impl Source for Archives {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn properties(&self) -> SourceProperties {
        SourceProperties {
            is_network: false,
            twice: Twice::Repeated,
            has_times: true,
            behind: Behind::Proven,
            ..SourceProperties::default()
        }
    }

    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        Ok(Box::new(listing::ArchiveListing::new(self.cache.clone(), self.part, after)?))
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(entries::of_locators(locators))
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(fetch::ArchiveFetcher::new(self.cache.clone())))
    }

    fn lists_below(&self, directory: &Path) -> bool {
        self.cache.find.lists_below(directory)
    }

    /// With subdirectories, a part has whole archives, and does not read the others.
    fn divided(&self, part: Part) -> Option<Arc<dyn Source>> {
        let (cache, identity) = (self.cache.clone(), self.identity.clone());
        self.cache
            .options
            .into_subdirectories
            .then(|| Arc::new(Archives { cache, identity, part: Some(part) }) as Arc<dyn Source>)
    }
}
