//! The only place that touches files.

pub(crate) mod limits;
pub mod lock;
pub mod private;
