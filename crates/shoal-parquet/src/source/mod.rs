//! Source: a directory of Parquet files in which each row is one object, written by shoal or by another program.
//!
//! Here: the source. In this folder: `listing.rs` splits row groups into partitions, `entries.rs` has the rows of a
//! partition, `locator.rs` says where a row is, `fetch.rs` passes rows on, `unknown.rs` says why one without a name cannot
//! be read, `files.rs` keeps the last files open. Not here: how bytes become columns, and how lanes share what is decoded
//! (`read/`).
//!
//! - A partition is a run of at most 100 rows of one row group, so listing reads only footers and the index of pages.
//! - The objects of a page that is damaged fail, each by its name. So do those of a row group with a wrong checksum.
//! - A file that is not a dataset's is one failure. So is a row group of which not even the names can be read, and so is
//!   all that an incomplete dataset lacks.

mod entries;
mod fetch;
mod files;
mod listing;
mod locator;
mod unknown;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_engine::session::Twice;
use shoal_engine::source::{Behind, Fetcher, Listing, Source, SourceProperties};
use shoal_engine::{Cursor, Partition, Result};

use self::files::Files;
use crate::read::dataset;
use crate::read::missing::Lacking;

/// A directory of Parquet files as a source.
pub struct ParquetSource {
    directory: PathBuf,
    files: Arc<Files>,
}

impl ParquetSource {
    /// Checks that the directory exists; it reads nothing yet.
    ///
    /// # Errors
    /// [`Kind::Config`](shoal_engine::Kind::Config) if it is not a directory that can be opened.
    pub fn new(directory: &Path) -> Result<ParquetSource> {
        Ok(ParquetSource { directory: dataset::directory(directory)?, files: Arc::default() })
    }
}

impl Source for ParquetSource {
    fn identity(&self) -> String {
        // All bytes: shortened for display, two long paths could be equal.
        format!("parquet:{}", self.directory.as_os_str().as_bytes().escape_ascii())
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
        Ok(Box::new(listing::RowListing::new(self.directory.clone(), self.files.clone(), after)?))
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(entries::of_locators(locators))
    }

    fn notes(&self) -> Vec<String> {
        let found = dataset::files(&self.directory).unwrap_or_default(); // the listing says why
        Lacking::of(&self.directory, &found).unknown.into_iter().collect()
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(fetch::RowFetcher::new(self.files.clone())))
    }

    fn lists_below(&self, directory: &Path) -> bool {
        directory == self.directory
    }
}
