//! `Transfer`: the one public entry; wires source, sink, options and journal into a run.

use crate::error::Error;
use crate::report::Report;

/// How a run ended: the report always, and the error that stopped it, if one did.
#[derive(Debug)]
pub struct Outcome {
    /// What was done.
    pub report: Report,
    /// Why it could not go on, or `Kind::Interrupted`.
    pub error: Option<Error>,
}
