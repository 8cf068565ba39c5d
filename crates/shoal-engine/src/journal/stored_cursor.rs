//! A cursor of a listing as the journal stores it: a version byte, then what the source has made.

use super::error::JournalError;
use super::schema::OTHER_VERSION;
use crate::error::{Error, Kind};
use crate::partition::Cursor;

/// The version of all cursors that are written. It is raised when a source changes the contents of its cursors.
const VERSION: u8 = 1;

/// A version byte, and the cursor.
#[derive(Clone, Debug)]
pub(super) struct StoredCursor(Vec<u8>);

impl StoredCursor {
    pub(super) fn new(cursor: &Cursor) -> StoredCursor {
        StoredCursor([&[VERSION], &cursor.0[..]].concat())
    }

    /// As it was read. `None`: nothing that was stored.
    pub(super) fn of_stored(bytes: &[u8]) -> Option<StoredCursor> {
        (!bytes.is_empty()).then(|| StoredCursor(bytes.to_vec()))
    }

    pub(super) fn stored(&self) -> &[u8] {
        &self.0
    }

    /// The cursor; [`StoredCursor::check`] has passed.
    pub(super) fn cursor(&self) -> Cursor {
        Cursor(self.0[1..].into())
    }

    /// Rejects a version that this program does not know.
    pub(super) fn check(&self) -> Result<(), JournalError> {
        match self.0[0] {
            VERSION => Ok(()),
            version => {
                let why =
                    format!("its cursor has version {version}, but this version of shoal knows version {VERSION}");
                Err(Error::new(Kind::JournalMismatch, why).hint(OTHER_VERSION).into())
            }
        }
    }
}
