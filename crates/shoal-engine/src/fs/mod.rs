//! The only place that touches files.

pub mod lock;
pub mod private;
