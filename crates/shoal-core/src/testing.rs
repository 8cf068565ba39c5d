//! For tests, here and in other crates.

pub mod names;
