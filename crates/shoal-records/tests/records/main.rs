//! The crate as its users see it: formats, conditions, scans, aggregates, appends, and files that change meanwhile.

mod aggregate;
mod append;
mod expression;
mod file;
mod format;
mod scan;
mod written;
