//! The only place that touches files. It knows system calls and their errors, and no run.
//!
//! Writing: `dir.rs`, `file.rs`, `sync.rs`, `publish.rs`. Reading: `walk.rs`, `read.rs`, `root.rs`. Both: `attributes.rs`,
//! `extents.rs`. Shoal's own files: `private.rs`, `lock.rs`. What the machine has: `random.rs`, `space.rs`, `storage.rs`, `limits.rs`, `schedstat.rs`,
//! `neighbour.rs`.

pub(crate) mod attributes;
pub(crate) mod dir;
pub(crate) mod error;
pub(crate) mod extents;
pub(crate) mod file;
pub(crate) mod limits;
pub mod lock;
pub mod neighbour;
pub mod private;
pub mod publish;
pub(crate) mod random;
pub(crate) mod read;
pub(crate) mod root;
pub(crate) mod schedstat;
pub(crate) mod space;
pub(crate) mod storage;
pub(crate) mod sync;
pub(crate) mod walk;

pub use self::read::is_there;
