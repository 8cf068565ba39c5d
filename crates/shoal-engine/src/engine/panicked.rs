//! The error that a panic of a thread becomes.

use std::any::Any;

use crate::error::{Error, Kind};

/// A panic is a defect of shoal; it ends the run like any other error.
pub(super) fn panicked(part: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    Error::new(Kind::Internal, format!("{part} panicked: {}", crate::display::escape(text.as_bytes())))
        .hint("this is a bug in shoal, please report it; committed work is kept, and the same command resumes")
}
