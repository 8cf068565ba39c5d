//! The journal of a run, in SQLite: what is committed, and what failed.
//!
//! | file | what is there |
//! |---|---|
//! | `options.rs`, `commit.rs`, `standing.rs` | what a caller passes and gets |
//! | `journal.rs` | [`Journal`] and its transactions |
//! | `open.rs`, `dry.rs` | opening it for a run, and for a dry run |
//! | `stage.rs` | commits, and the reset of a listing |
//! | `lease.rs` | the sessions |
//! | `failures.rs`, `skipped.rs` | deferred and failed objects, names of skipped ones |
//! | `status.rs` | reading a journal from outside |
//! | `parts.rs` | what the parts of a job share at their destination, and how far each is |
//! | `rows.rs`, `session.rs`, `columns.rs`, `stored_cursor.rs` | rows and their checksums |
//! | `store.rs`, `files.rs`, `schema.rs`, `rate.rs` | the connection, the paths, the SQL and its version, the rate history |
//! | `error.rs`, `fork.rs` | SQLite's errors, forks of the process |
//!
//! Not here: names of objects that were written or excluded (only counts of partitions), and the sync that
//! `engine/commit.rs` does before each commit.
//!
//! The files of a row are durable before the row is: `commit` follows the sync, and is durable when it returns. Counts
//! balance at every commit: listed = written + skipped + failed + deferred.

mod columns;
mod commit;
mod dry;
mod error;
mod failures;
mod files;
mod fork;
#[allow(clippy::module_inception)] // a file is named after the type in it
mod journal;
mod lease;
mod open;
mod options;
mod parts;
mod rate;
mod rows;
mod schema;
mod session;
mod skipped;
mod stage;
mod standing;
mod state;
mod status;
mod store;
mod stored_cursor;

pub use crate::report::Settled;
pub use commit::{Commit, Credited, Done, Due, Durable, Failed, Fold, Retried, Withdrawn};
pub use failures::{Failures, Fate};
pub use journal::Journal;
pub use options::{DESTINATION, LAYOUT, Location, Machine, OpenOptions, PART, RunKey};
pub use parts::{Difference, Membership, PartStatus, Parts, difference, parts, sums};
pub use rows::Sample;
pub use session::Ending;
pub use skipped::NAMES_MAX;
pub use standing::{Before, MARK_ALL, Standing};
pub use status::{RunStatus, Status, status};
