//! What a connection asks of its owner, and hands in to it. Not here: who asks in which order (`drive.rs`).

use std::time::Duration;

use super::head::Head;
use crate::error::{Error, Result};

/// What a connection asks of its owner, and hands in to it. Every job is answered exactly once: by `whole`, `finished`,
/// `failed` or `given_back`.
pub(crate) trait Exchange {
    type Job;
    /// An object that arrives in pieces.
    type Body;
    /// An object that was handed in and taken.
    type Written;
    /// Larger objects arrive in pieces, in bytes.
    const WHOLE_MAX: usize;

    /// The next job.
    fn next(&self) -> Next<Self::Job>;
    /// Resolves when `next` may answer otherwise.
    fn wake(&self) -> impl Future<Output = ()>;
    /// Appends the request target (path and query, encoded).
    fn target(&self, job: &Self::Job, out: &mut Vec<u8>);
    /// Appends further header lines of its request, which are no secrets.
    fn condition(&self, job: &Self::Job, out: &mut Vec<u8>);
    /// What to do with the body.
    fn head(&self, job: &Self::Job, head: &Head) -> Plan;
    /// The complete object, at most `WHOLE_MAX` bytes.
    fn whole(&self, job: Self::Job, head: &Head, body: &[u8]) -> Option<Self::Written>;
    /// A larger one begins.
    fn begin(&self, job: &Self::Job, head: &Head) -> impl Future<Output = Result<Self::Body>>;
    /// A piece of it.
    fn piece(&self, body: &mut Self::Body, piece: &[u8]) -> Result<()>;
    /// All pieces are in, or an error came between.
    fn finished(&self, job: Self::Job, body: Self::Body, result: Result<()>) -> Option<Self::Written>;
    /// Bytes came behind the answer that brought this object, after it was handed in: it may be cut short.
    fn overlong(&self, written: Self::Written);
    /// The object was not changed since the time that `condition` named.
    fn unchanged(&self, job: Self::Job);
    /// No object.
    fn failed(&self, job: Self::Job, error: Error);
    /// Not answered, through no fault of its own: no try is charged.
    fn given_back(&self, job: Self::Job);
    /// Whether the job's request must be alone on its connection: it has failed before.
    fn is_alone(&self, job: &Self::Job) -> bool;
    /// Whether the length of its body was wrong when it was asked for before.
    fn is_doubted(&self, job: &Self::Job) -> bool;
    /// How many requests may be unanswered on one connection.
    fn depth(&self) -> usize;
    /// Bytes were received that became no object.
    fn wasted(&self, bytes: u64);
    /// Something the user should know.
    fn note(&self, text: &str);
    /// How long the lane has been busy writing.
    fn stalled(&self) -> Duration;
}

/// What `Exchange::next` answers.
pub(crate) enum Next<J> {
    Job(J),
    Wait,
    Stop,
}

/// What becomes of a body.
pub(crate) enum Plan {
    Keep,
    /// There is none: the object is as it was.
    Unchanged,
    /// It is not the object.
    Refuse(Error),
}
