//! `Entries`: the objects of an open partition, and what is known of each before it is fetched. Not here: fetching them
//! (`lane.rs`).

use std::borrow::Cow;
use std::time::SystemTime;

use crate::error::{Error, HostId};
use crate::part::Seen;
use crate::report::Reason;

/// The objects of an open partition.
pub trait Entries {
    /// Number of entries.
    fn len(&self) -> u32;
    /// Whether there are no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns entry `index`, which is below `len`.
    fn get(&self, index: u32) -> Entry<'_>;
    /// What holds entry `index` (an archive, a line of a list), if its name does not tell. For the reason of a failure.
    fn within(&self, index: u32) -> Option<Cow<'_, [u8]>> {
        let _ = index;
        None
    }
    /// What else the fetcher needs of entry `index`, if that must not be stored in a journal.
    fn request(&self, index: u32) -> &[u8] {
        let _ = index;
        &[]
    }
    /// Whether a lane must read all entries before the one it wants. Then another lane does not take over what one has
    /// begun.
    fn is_stream(&self) -> bool {
        false
    }
    /// What else the listing knows of entry `index`, for callers that only list. May read the source.
    fn known(&self, index: u32) -> Known {
        let _ = index;
        Known::default()
    }
    /// The names that were listed with these before they were divided into parts. Not of objects to retry.
    fn seen(&self) -> Seen {
        Seen::default()
    }
    /// Permission bits of a directory in the names of these entries, if the source has them. If they can no longer be
    /// read, 0o700: the copy must not be more open than the source.
    fn directory_mode(&self, directory: &[u8]) -> Option<u32> {
        let _ = directory;
        None
    }
}

/// What a listing knows of an object before it is fetched.
#[derive(Debug, Default)]
pub struct Known {
    /// Its size.
    pub size: Option<u64>,
    /// When it was last changed.
    pub modified: Option<SystemTime>,
    /// Why the objects that the entry represents could not be listed.
    pub failed: Option<Error>,
}

/// One listed object.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The name, unchanged from the source.
    pub name: &'a [u8],
    /// What `Source::select` needs to find it again.
    pub locator: &'a [u8],
    /// Where it is fetched from.
    pub host: HostId,
    /// Why it is not fetched, if it is skipped.
    pub skip: Option<Skip>,
    /// Set if it represents objects that could not be listed. It fails if any of them may pass the filter.
    pub unlisted: Option<Unlisted>,
}

/// What is known of the names of objects that could not be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// They are below the name of the entry.
    Below,
    /// They can have any name.
    Anywhere,
    /// It is this one object, and what it would be called is not known.
    Itself,
}

/// Why a listed object is not fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// An earlier object of the same page has its name.
    Duplicate,
    /// It is not an object, but for example a link, a device or a pipe, as the reason says.
    NoObject(Reason),
    /// It is an object without bytes, with a name that ends in a slash: a sink of files makes a directory of it, and
    /// others get the object.
    Marker,
    /// It is a directory. With `make` the sink creates it (`Writer::directory`), since no object below it does.
    Directory {
        /// It is empty.
        make: bool,
    },
}

impl Skip {
    /// The reason that the journal counts.
    pub fn reason(self) -> Reason {
        match self {
            Skip::Duplicate => Reason::Duplicate,
            Skip::NoObject(reason) => reason,
            Skip::Marker | Skip::Directory { .. } => Reason::Directory,
        }
    }
}
