//! The only place that touches files.

pub(crate) mod dir;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod limits;
pub mod lock;
pub mod neighbour;
pub mod private;
pub mod publish;
pub(crate) mod read;
pub(crate) mod schedstat;
pub(crate) mod storage;
pub(crate) mod sync;
pub(crate) mod walk;
