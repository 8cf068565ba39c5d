//! The interface between the client and a source. Not here: the order of requests (`client_loop.rs`).

use std::sync::Arc;
use std::time::Duration;

use crate::head::{Head, Wants};
use crate::unproven::{Doubt, Passed};
use shoal_core::error::{Error, Kind, Result};
use shoal_core::findings::Findings;

/// Provides jobs to a connection and receives their answers. Every job is answered exactly once: by `whole`,
/// `finished`, `unchanged`, `failed` or `requeued`.
pub trait RequestHandler {
    /// One request to be made.
    type Job;
    /// An object that is received in pieces.
    type Body;
    /// An object that was passed on and accepted.
    type Written;
    /// Larger objects are received in pieces, in bytes.
    const WHOLE_MAX: usize;

    /// The next job.
    fn next(&self) -> Next<Self::Job>;
    /// Resolves when `next` may return something else.
    fn wake(&self) -> impl Future<Output = ()>;
    /// Appends the target of the job's request (path and query, encoded).
    fn target(&self, job: &Self::Job, out: &mut Vec<u8>);
    /// Appends further header lines of the request, which are not secret: the condition of a conditional request.
    fn condition(&self, job: &Self::Job, out: &mut Vec<u8>);
    /// The service has answered the request that is sent alone, with a redirect that may be followed.
    fn redirected(&self) {}
    /// Decides what to do with the body.
    fn head(&self, job: &Self::Job, head: &Head) -> Plan;
    /// Whether the body is the object with the encoding that it has. Asked after [`Plan::Keep`].
    fn is_as_sent(&self, _job: &Self::Job, _head: &Head) -> bool {
        false
    }
    /// The error that an answer means, by its body: at most [`ERROR_BODY_MAX`](crate::ERROR_BODY_MAX) bytes, and fewer if it
    /// ended early. Asked after [`Plan::Explain`].
    fn explain(&self, _job: &Self::Job, head: &Head, _body: &[u8]) -> Error {
        Error::new(Kind::BadAnswer, format!("the answer has status {}", head.status))
    }
    /// Receives a complete object, of at most `WHOLE_MAX` bytes.
    fn whole(&self, job: Self::Job, head: &Head, body: &[u8]) -> Option<Self::Written>;
    /// A larger object begins.
    fn begin(&self, job: &Self::Job, head: &Head) -> impl Future<Output = Result<Self::Body>>;
    /// The next piece of it.
    fn piece(&self, body: &mut Self::Body, piece: &[u8]) -> Result<()>;
    /// The last piece was received, or an error ended it.
    fn finished(&self, job: Self::Job, body: Self::Body, result: Result<()>) -> Option<Self::Written>;
    /// What followed on its connection shows that an object that was already passed on may be wrong.
    fn doubted(&self, passed: Passed<Self::Written>, doubt: Doubt);
    /// The object has not changed since the time in `condition`.
    fn unchanged(&self, job: Self::Job);
    /// The object could not be fetched.
    fn failed(&self, job: Self::Job, error: Error);
    /// The request was not answered for a reason that is not its own: requeue the job without counting an attempt.
    fn requeued(&self, job: Self::Job);
    /// Whether the request must not be pipelined: it has failed before.
    fn is_alone(&self, job: &Self::Job) -> bool;
    /// Whether an earlier answer for this job had a wrong length.
    fn is_doubted(&self, job: &Self::Job) -> bool;
    /// How many requests may be unanswered on one connection.
    fn depth(&self) -> usize;
    /// These bytes were received in vain.
    fn wasted(&self, bytes: u64);
    /// A note for the user.
    fn note(&self, text: &str);
    /// Which further fields of answers are needed.
    fn wants(&self) -> Wants;
    /// Where to report what is found out about the service.
    fn findings(&self) -> &Arc<Findings>;
    /// How long the lane has been busy with other things than waiting, such as writing. Only grows.
    fn stalled(&self) -> Duration;
}

/// The result of `RequestHandler::next`.
pub enum Next<J> {
    /// This one.
    Job(J),
    /// None now; `wake` tells when to ask again.
    Wait,
    /// None any more.
    Stop,
}

/// What to do with a body.
pub enum Plan {
    /// It is the object.
    Keep,
    /// There is no body: the object has not changed.
    Unchanged,
    /// The answer is not the object.
    Refuse(Error),
    /// The same, and only its body says why.
    Explain,
    /// The answer says nothing of the object: requeue the job, as [`RequestHandler::requeued`] does.
    Again,
}
