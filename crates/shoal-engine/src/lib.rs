//! The engine.

pub mod serve;
