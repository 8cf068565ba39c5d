//! Moves very many objects from a [`source`] to a [`sink`], fast, resumable and in flat memory.
//!
//! An object is a name and its bytes. A source lists its objects in *partitions* of usually up to 100. Threads with an
//! event loop each, the *lanes*, fetch the objects of a partition and write them. What was written is synced, many
//! partitions at once, and only then recorded in a [`journal`]. A later run with the same source and sink continues
//! after what the journal has. The engine measures its throughput to find the number of objects in progress.
//!
//! ```
//! use shoal_engine::source::files::{Files, FilesFrom, FilesOptions};
//! use shoal_engine::sink::dir::{DirOptions, DirSink};
//! use shoal_engine::{TransferOptions, transfer::Transfer};
//! use std::{ops::ControlFlow, sync::Arc};
//!
//! # let place = tempfile::tempdir()?;
//! # let (photos, backup) = (place.path().join("photos"), place.path().join("backup"));
//! # std::fs::create_dir(&photos)?;
//! std::fs::write(photos.join("1.jpg"), "a picture")?;
//! for written in [1, 0] {
//!     let source = Files::new(FilesFrom::Path(photos.clone()), FilesOptions::default())?;
//!     let sink = DirSink::new(&backup, DirOptions::default())?;
//!     let transfer = Transfer::new(Arc::new(source), Arc::new(sink), TransferOptions::default());
//!     let outcome = transfer.run(&mut |_progress| ControlFlow::Continue(()));
//!     assert!(outcome.error.is_none() && outcome.report.complete);
//!     assert_eq!(outcome.report.run.written, written); // the second run has nothing left to do
//! }
//! assert_eq!(std::fs::read(backup.join("1.jpg"))?, b"a picture");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//!
//! | look for | in |
//! |---|---|
//! | the entry, which joins source, sink, options and journal | [`transfer`] |
//! | every option of a run and its default | [`mod@options`] |
//! | the outcome, and the counts that must balance | [`report`] |
//! | what a source must do: files, archives, services, items of a program | [`source`] |
//! | what a sink must do: directories, a loop of the caller, nothing | [`sink`] |
//! | the run itself: lanes, commits, the number of workers | [`engine`] |
//! | retries, and which hosts are paused or stay away | `hosts` |
//! | what is recorded, and how a run resumes | [`journal`], [`session`] |
//! | names, errors, options: the words that all crates share | `shoal-core` |
//! | the HTTP client | `shoal-http` |
//! | the service `shoal serve` | [`serve`] |
//! | every use of the file system | [`fs`] |
//!
//! Source and sink do not know each other, and the engine knows no format: Parquet files are a crate of their own, with a
//! source and a sink. The engine never prints, and never panics on bad input. `ARCHITECTURE.md` has the rules and their
//! reasons, `docs/extending.md` explains how to write a source or a sink.

#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

pub mod engine;
pub mod fs;
mod hosts;
pub mod journal;
pub mod listed;
pub mod options;
mod part;
mod partition;
pub mod report;
pub mod serve;
pub mod session;
pub mod sink;
mod sink_state;
pub mod source;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transfer;

pub use options::TransferOptions;
pub use part::{Part, Seen};
pub use partition::{Cursor, Key, Partition, RETRIED_FROM};
pub use report::{Counts, Failure, Progress, Reason, Report, Skipped, Skips, Step};

// The vocabulary of a crate of its own, under the names that it has always had here.
pub use shoal_core::name::{PARTS_DIR, SHOAL_DIR};
pub use shoal_core::object::{Fingerprint, MODE_UNKNOWN, Modes, ObjectMeta, Payload, Storage};
pub use shoal_core::{Class, Error, Findings, HostId, Kind, Name, ObjectKey, Result};
pub use shoal_core::{display, error, option, options, words};
pub(crate) use shoal_core::{findings, key, name, object, poison};
