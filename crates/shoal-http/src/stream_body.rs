//! Streams a body that is large or encoded to the handler in pieces, and resumes it if the connection breaks. Not here:
//! decoding (`encoding.rs`), when resuming is safe (`resume.rs`).

use std::time::Duration;

use crate::client::Client;
use crate::connection::{Connection, WholeBody};
use crate::encoding::Decoding;
use crate::head::Head;
use crate::idle_connections::{IdleConnection, IdleConnections};
use crate::message::{Method, Request};
use crate::request::send_current;
use crate::request_handler::{Plan, RequestHandler};
use crate::resume::{Resume, ResumedAnswer};
use crate::stream::Trailing;
use crate::unproven::Passed;
use shoal_core::error::{Error, Kind, Result};
use shoal_core::object::Fingerprinter;

/// Streams a body to the handler, beginning with the pieces already read. For `more` and the result, see `respond`.
pub(crate) async fn stream_body<E: RequestHandler, C: Fn() -> Duration + Clone>(
    client: &Client,
    mut open: Box<Connection<C, E::Written>>,
    handler: &E,
    job: E::Job,
    head: &mut Head,
    more: bool,
) -> Option<IdleConnection<C, E::Written>> {
    let begun = match decoding(head) {
        Ok(decoding) => handler.begin(&job, head).await.map(|body| (decoding, body)),
        Err(error) => Err(error),
    };
    let mut streamed = match begun {
        Ok((decoding, body)) => StreamedBody {
            client,
            handler,
            body: Some(body),
            job: &job,
            received: 0,
            length: head.length(),
            decoding,
            trailing: Trailing::Nothing,
            fingerprint: Fingerprinter::new(),
        },
        Err(error) => {
            handler.failed(job, error);
            return None;
        }
    };
    let resume = Resume::of(head);
    let begun = match open.whole_body(&WholeBody::Pieces) {
        [] => Ok(()),
        pieces => streamed.push(pieces),
    };
    open.clear_pieces();
    let result = match begun {
        Ok(()) => streamed.copy(&mut open, head, more).await,
        Err(error) => Err(error),
    };
    if result.is_err() {
        open.report_ahead(streamed.trailing, handler);
    }
    let (result, reusable) = match (result, resume) {
        (Ok(()), _) => (Ok(()), (streamed.trailing == Trailing::Nothing).then_some(open)),
        (Err(error), Some(resume)) => {
            let clock = open.clock().clone();
            drop(open);
            (streamed.resume(resume, error, clock).await, None)
        }
        (Err(error), None) => (Err(error), None),
    };
    let fingerprint = streamed.fingerprint.end();
    let error = match (streamed.body, result) {
        (Some(body), result) => {
            let written = handler.finished(job, body, result);
            let mut open = reusable?;
            open.unproven.push(written.map(|written| Passed { written, fingerprint }), head.echo);
            return Some(IdleConnection { open, closes: head.close });
        }
        (None, Err(error)) => error,
        (None, Ok(())) => Error::new(Kind::Internal, "a large object came to nothing"),
    };
    handler.failed(job, error);
    None
}

/// The decoder for a body. The error says what to do.
fn decoding(head: &Head) -> Result<Option<Decoding>> {
    Decoding::of(head).map_err(|error| error.suffix("; `decode=\"never\"` keeps such bodies as they are sent"))
}

/// An object that is being received.
struct StreamedBody<'a, E: RequestHandler> {
    client: &'a Client,
    handler: &'a E,
    job: &'a E::Job,
    /// `None`: it had to be restarted, and that failed.
    body: Option<E::Body>,
    /// Bytes received and passed on.
    received: u64,
    /// Total length, if the service announced it.
    length: Option<u64>,
    /// If the body is encoded; `received` and `length` count encoded bytes.
    decoding: Option<Decoding>,
    /// What follows the body: if anything, the connection cannot be reused.
    trailing: Trailing,
    /// Of what was passed on.
    fingerprint: Fingerprinter,
}

impl<E: RequestHandler> StreamedBody<'_, E> {
    fn push(&mut self, piece: &[u8]) -> Result<()> {
        let received = self.received + piece.len() as u64;
        if self.length.is_some_and(|length| received > length) {
            return Err(Error::new(Kind::Protocol, "the answer is longer than announced"));
        }
        let Some(body) = &mut self.body else { return Ok(()) };
        let mut pass_on = |piece: &[u8]| {
            self.fingerprint.add(piece);
            self.handler.piece(body, piece)
        };
        match &mut self.decoding {
            None => pass_on(piece)?,
            Some(decoding) => decoding.decode(piece, &mut pass_on)?,
        }
        self.received = received;
        Ok(())
    }

    /// Reads until the end of the answer, and passes on every piece.
    async fn copy<C: Fn() -> Duration, W>(
        &mut self,
        open: &mut Connection<C, W>,
        head: &mut Head,
        more: bool,
    ) -> Result<()> {
        // The memory budget counts this many bytes for every object in flight.
        open.grow_buffer(E::WHOLE_MAX);
        while let Some(piece) = open.piece(&mut head.framing).await? {
            self.push(open.bytes(piece))?;
        }
        if let Some(error) = open.trailing_bytes(head, more) {
            self.trailing = open.trailing();
            return Err(error);
        }
        // One system call for each large object: trailing bytes are often here by now. If `more`, the next one shows.
        let trailing = match more {
            true => Trailing::Nothing,
            false if self.handler.is_doubted(self.job) => open.linger().await,
            false => open.trailing(),
        };
        self.trailing = trailing;
        if trailing.is_surplus() {
            return Err(Error::new(Kind::ShortBody, "the answer is longer than announced"));
        }
        if let Some(length) = self.length
            && length != self.received
        {
            return Err(Error::new(Kind::ShortBody, format!("{} of {length} bytes came", self.received)));
        }
        if let Some(decoding) = &self.decoding {
            decoding.end()?;
            self.client.remarks.decoded(decoding.name());
        }
        Ok(())
    }

    /// Requests the rest, each time on a connection of its own, until it is complete or `Resume` gives up.
    async fn resume<C: Fn() -> Duration + Clone>(&mut self, resume: Resume, error: Error, clock: C) -> Result<()> {
        let (mut resume, mut error) = (resume, error);
        while let Some(pause) = resume.pause(&error) {
            tokio::time::sleep(pause).await;
            let fields = resume.fields(self.received);
            let mut target = Vec::new();
            self.handler.target(self.job, &mut target);
            let mut connections = IdleConnections::<C, ()>::new(self.handler.findings().clone(), self.handler.wants());
            let request = Request::new(Method::Get, &target).fields(&fields);
            let (mut open, mut head) = match send_current(self.client, &mut connections, clock.clone(), &request).await
            {
                Ok(answered) => answered,
                Err(e) => {
                    error = e;
                    continue;
                }
            };
            let mut renewed = None;
            match resume.judge(self.received, &head)? {
                ResumedAnswer::Rest => {}
                ResumedAnswer::Whole => {
                    self.restart(&mut open, &mut head).await?;
                    renewed = Some(Resume::of(&head));
                }
                ResumedAnswer::Changed => {
                    self.handler.wasted(self.received);
                    self.received = 0;
                    error = Error::new(Kind::ShortBody, "the object was replaced while it was fetched");
                    continue;
                }
            }
            match self.copy(&mut open, &mut head, false).await {
                Ok(()) => return Ok(()),
                Err(e) => error = e,
            }
            if let Some(fresh) = renewed {
                match fresh {
                    Some(fresh) => resume = fresh.after(&resume),
                    None => break,
                }
            }
        }
        Err(error)
    }

    /// Starts over, if the answer is the whole object; otherwise the error that the answer means.
    async fn restart<C: Fn() -> Duration, W>(&mut self, open: &mut Connection<C, W>, head: &mut Head) -> Result<()> {
        match self.handler.head(self.job, head) {
            Plan::Keep => {}
            Plan::Refuse(error) => return Err(error),
            Plan::Explain => {
                let body = open.error_body(head).await;
                return Err(self.handler.explain(self.job, head, &body));
            }
            Plan::Again => return Err(Error::new(Kind::Disconnected, "the headers of its request have expired")),
            Plan::Unchanged => {
                let why = "the answer is 304, but the request was not conditional";
                return Err(Error::new(Kind::BadAnswer, why));
            }
        }
        head.is_as_sent |= self.handler.is_as_sent(self.job, head);
        self.handler.wasted(self.received);
        // Dropped before the next one begins: a sink has one open object of a name at a time.
        (self.body, self.fingerprint) = (None, Fingerprinter::new());
        self.received = 0;
        self.length = head.length();
        self.decoding = decoding(head)?;
        self.body = Some(self.handler.begin(self.job, head).await?);
        Ok(())
    }
}
