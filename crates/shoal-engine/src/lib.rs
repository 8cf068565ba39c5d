//! The engine of shoal: moves very many objects from a source to a sink.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

pub mod display;
pub mod engine;
pub mod error;
mod findings;
pub mod fs;
pub mod http;
pub mod journal;
mod key;
pub mod listed;
mod name;
mod object;
pub mod options;
mod part;
mod partition;
mod poison;
pub mod report;
pub mod serve;
pub mod session;
pub mod sink;
mod sink_state;
pub mod source;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transfer;

pub use error::{Class, Error, HostId, Kind, Result};
pub use findings::Findings;
pub use key::ObjectKey;
pub use name::{Name, PARTS_DIR, SHOAL_DIR};
pub use object::{DirectoryModes, Modes, ObjectMeta, Payload, Storage};
pub use options::TransferOptions;
pub use part::Part;
pub use partition::{Cursor, Key, Partition, RETRIED_FROM};
pub use report::{Counts, Failure, Progress, Reason, Report, Skipped, Skips, Step};
