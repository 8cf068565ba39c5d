//! What becomes of one answer: it is checked and passed to the handler. Not here: large bodies (`stream_body.rs`).

use std::time::Duration;

use crate::check_objects::{CheckObject, hash};
use crate::client::Client;
use crate::connection::{Connection, WholeBody};
use crate::head::Head;
use crate::idle_connections::IdleConnection;
use crate::request_handler::{Plan, RequestHandler};
use crate::stream::Trailing;
use crate::stream_body::stream_body;
use crate::unproven::Passed;
use shoal_core::error::{Error, Kind};

/// A job whose request must be sent alone, before any other.
pub(crate) struct SingleRequest<J> {
    pub job: J,
    /// It is a sample: the hash of its body when it was pipelined. That body was not passed on.
    pub pipelined: Option<u128>,
}

impl<J> SingleRequest<J> {
    pub fn new(job: J) -> SingleRequest<J> {
        SingleRequest { job, pipelined: None }
    }
}

/// What else is done with a body that was received whole.
pub(crate) enum BodyCheck<'a> {
    Nothing,
    /// Collect it for the pipeline check; once there are enough objects, they are stored here.
    Collect(&'a mut Option<Vec<CheckObject>>),
    /// Compare it with this hash.
    Sample(u128),
}

impl BodyCheck<'_> {
    /// Before the object is passed on: the error if it must not be.
    fn run<E: RequestHandler>(self, client: &Client, handler: &E, job: &E::Job, body: Option<&[u8]>) -> Option<Error> {
        let samples = &client.pipelining.samples;
        match (self, body) {
            (BodyCheck::Collect(to_check), Some(body)) => {
                *to_check = client.pipelining.collect_object(body, |out| handler.target(job, out));
                None
            }
            (BodyCheck::Sample(pipelined), Some(body)) if pipelined == hash(body) => {
                samples.matched();
                None
            }
            (BodyCheck::Sample(_), _) => {
                client.pipelining.stop();
                handler.note("pipelining was turned off: an answer was different when it was requested alone");
                Some(samples.mismatch())
            }
            _ => None,
        }
    }

    /// The object was not received.
    fn skipped(self, client: &Client) {
        if let BodyCheck::Sample(_) = self {
            client.pipelining.samples.missed();
        }
    }
}

/// Reads the body of an answer and passes it to the handler. Returns the connection, if it can be reused. `more`: other requests are unanswered on it, so another answer may follow the body.
pub(crate) async fn respond<E: RequestHandler, C: Fn() -> Duration + Clone>(
    client: &Client,
    mut open: Box<Connection<C, E::Written>>,
    handler: &E,
    job: E::Job,
    mut head: Head,
    more: bool,
    check: BodyCheck<'_>,
) -> Option<IdleConnection<C, E::Written>> {
    let plan = handler.head(&job, &head);
    head.is_as_sent |= matches!(plan, Plan::Keep) && handler.is_as_sent(&job, &head);
    let (reusable, passed) = match plan {
        Plan::Unchanged => {
            let rest = open.may_go_on(more, handler);
            check.skipped(client);
            handler.unchanged(job);
            (rest, None)
        }
        Plan::Refuse(_) | Plan::Again => {
            let reusable = open.discard(&mut head.framing).await && open.may_go_on(more, handler);
            check.skipped(client);
            match plan {
                Plan::Refuse(error) => handler.failed(job, error),
                _ => handler.requeued(job),
            }
            (reusable, None)
        }
        Plan::Explain => {
            let body = open.error_body(&mut head).await;
            let reusable = head.is_read() && open.may_go_on(more, handler);
            check.skipped(client);
            let error = handler.explain(&job, &head, &body);
            handler.failed(job, error);
            (reusable, None)
        }
        Plan::Keep if head.to_decode().is_some() => {
            check.skipped(client);
            return stream_body(client, open, handler, job, &mut head, more).await;
        }
        Plan::Keep => match open.read_whole_body(&mut head.framing, E::WHOLE_MAX).await {
            Ok(found) => match (found, open.trailing_bytes(&head, more)) {
                (WholeBody::Larger, _) => {
                    if let Some(error) = check.run(client, handler, &job, None) {
                        handler.failed(job, error);
                        return None;
                    }
                    return stream_body(client, open, handler, job, &mut head, more).await;
                }
                (_, Some(error)) => {
                    let trailing = open.trailing();
                    open.report_ahead(trailing, handler);
                    check.skipped(client);
                    handler.failed(job, error);
                    (false, None)
                }
                (whole, None) => {
                    let trailing = if handler.is_doubted(&job) { open.linger().await } else { Trailing::Nothing };
                    let body = open.whole_body(&whole);
                    let wrong = match trailing.is_surplus() {
                        true => Some(Error::new(Kind::ShortBody, "the answer is longer than announced")),
                        false => check.run(client, handler, &job, Some(body)),
                    };
                    let passed = match wrong {
                        None => Passed::of(handler.whole(job, &head, body), body),
                        Some(error) => {
                            handler.failed(job, error);
                            None
                        }
                    };
                    open.clear_pieces();
                    open.report_ahead(trailing, handler);
                    (trailing == Trailing::Nothing, passed)
                }
            },
            Err(error) => {
                check.skipped(client);
                handler.failed(job, error);
                (false, None)
            }
        },
    };
    open.unproven.push(passed, head.echo);
    reusable.then_some(IdleConnection { open, closes: head.close })
}

impl<C: Fn() -> Duration, W> Connection<C, W> {
    /// Whether the connection can be used after an answer without an object. For `more`, see `respond`.
    fn may_go_on<E: RequestHandler<Written = W>>(&mut self, more: bool, handler: &E) -> bool {
        let goes_on = self.is_read() || more && self.may_begin_answer();
        if !goes_on {
            let trailing = self.trailing();
            self.report_ahead(trailing, handler);
        }
        goes_on
    }

    /// The last answer is not an object, or fails for what follows it. If that is another answer, those before it are doubted.
    pub(crate) fn report_ahead<E: RequestHandler<Written = W>>(&mut self, trailing: Trailing, handler: &E) {
        if matches!(trailing, Trailing::Ahead | Trailing::Error) && self.unproven.is_by_order() {
            self.unproven.doubt(trailing).for_each(|(passed, doubt)| handler.doubted(passed, doubt));
        }
    }
}
