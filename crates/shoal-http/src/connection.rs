//! One connection: sends requests, reads answers, keeps deadlines. Not here: the order of requests (`client_loop.rs`).

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tokio::io::ReadBuf;

use crate::body::{Framing, Step};
use crate::changing::Versions;
use crate::client::Client;
use crate::deadline::Deadlines;
use crate::encoding::Decoding;
use crate::head::{self, Head, Wants};
use crate::message::{self, Request};
use crate::proxy::local_ip;
use crate::reader::{self, Answer, HEAD_MAX, INTERIM_MAX, Reader};
use crate::request_id::{Echo, RequestIds};
use crate::stream::{Stream, Trailing};
use crate::unproven::Unproven;
use crate::{connect, tls};
use shoal_core::error::{Error, Kind, Result};
use shoal_core::findings::Findings;

/// First size of the read buffer, in bytes: several small objects with their heads.
const BUFFER: usize = 16 << 10;
/// Most bytes of an unneeded body that are read to keep the connection.
const DISCARD_MAX: u64 = 64 << 10;
/// Longest wait for them: a new connection takes less.
const DISCARD_WAIT: Duration = Duration::from_secs(1);
/// Most bytes that are read of the body of an error.
pub const ERROR_BODY_MAX: usize = 64 << 10;
/// How long to wait for bytes after a body, only if its length was wrong before: each answer would take so long.
const LINGER: Duration = Duration::from_millis(250);
/// How long to wait for a server to close a connection that has had its last request. Most do so at once.
const END_WAIT: Duration = Duration::from_secs(1);
/// Where the connection ended, for messages.
const IN_BODY: &str = "in the middle of the body";

/// A connection with its read buffer and its deadlines. `C` is the clock that counts how long its thread has been busy, and
/// `W` an object that was passed on.
pub struct Connection<C, W = ()> {
    stream: Stream,
    buffer: Vec<u8>,
    /// Unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    deadlines: Deadlines<C>,
    /// Requests, of which the first `sent` bytes were sent.
    request: Vec<u8>,
    sent: usize,
    /// What is left to send after them of a large body.
    body: Bytes,
    /// Something was not sent to its end.
    cut_short: bool,
    /// How long the head of the first answer took.
    first_answer_time: Option<Duration>,
    /// The ids of requests, if they carry any.
    ids: Option<RequestIds>,
    /// The number of the next request.
    requests: u64,
    /// Those of the header lines of requests.
    versions: Versions,
    /// The pieces of a small body of unknown length. Empty between answers; the allocation is kept.
    pieces: Vec<u8>,
    /// Bytes received since the last single request was sent.
    received: u64,
    /// The last read failed because the peer closed or reset the connection.
    closed: bool,
    /// The peer announced its end, and all that it sent was received.
    ended: bool,
    wants: Wants,
    /// The answer to an earlier request came: since some moment, each was taken for that to the next request.
    pub(crate) is_ahead: bool,
    /// The answers that what arrives next may prove wrong.
    pub(crate) unproven: Unproven<W>,
    /// `Some`: the connection is not to the service but to another host, to which a redirect led.
    pub(crate) other_host: Option<Arc<Client>>,
}

impl<C: Fn() -> Duration, W> Connection<C, W> {
    pub(crate) async fn open(client: &Client, wants: Wants, clock: C, findings: &Findings) -> Result<Connection<C, W>> {
        let stream = connect::connect(client, findings).await?;
        let wants = Wants { is_forwarded: client.forwards().is_some(), ..wants };
        let ids = if client.pipelining.sends_ids() { Some(RequestIds::new()?) } else { None };
        Ok(Connection {
            stream,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            deadlines: Deadlines::new(client.timeout, clock),
            request: Vec::with_capacity(512),
            sent: 0,
            body: Bytes::new(),
            cut_short: false,
            first_answer_time: None,
            ids,
            requests: 0,
            versions: Versions::default(),
            pieces: Vec::new(),
            received: 0,
            closed: false,
            ended: false,
            wants,
            is_ahead: false,
            unproven: Unproven::new(),
            other_host: None,
        })
    }

    /// Sends the request of this number, which was queued, and reads the head of its answer. If that comes before all was sent,
    /// the rest is not sent, and the connection cannot be reused.
    pub(crate) async fn send(&mut self, number: u64) -> Result<Head> {
        let began = (number == 0 && self.ids.is_some()).then(Instant::now);
        self.received = 0;
        match self.body.is_empty() {
            true => self.deadlines.start_head(),
            false => self.deadlines.start_sending(),
        }
        let (mut interim, mut seen) = (0, 0);
        loop {
            let unread = &self.buffer[self.start..self.end];
            // Parsed at the first bytes, which may show that this is not HTTP, and then only when the head may be
            // complete: otherwise a head that is received byte by byte would be parsed as often.
            let parse = !unread.is_empty() && (seen == 0 || head::may_end(unread, seen));
            seen = unread.len();
            let id = self.ids.as_mut().map_or(&[][..], |ids| ids.get(number));
            // The parser skips empty lines. After another answer these are bytes that it did not announce.
            if number > 0 && matches!(unread.first(), Some(b'\r' | b'\n')) && interim == 0 {
                return Err(Error::new(Kind::Protocol, "there is an empty line where an answer should begin"));
            }
            match if parse { head::parse(unread, &self.wants, id)? } else { None } {
                Some((head, _)) if head.echo == Echo::Another => {
                    self.is_ahead = true;
                    return Err(Error::new(Kind::Protocol, "the answer to another request"));
                }
                Some((mut head, length)) => {
                    self.start += length;
                    if head.status / 100 != 1 {
                        head.sent_with = self.versions.of(number);
                        if !self.unsent().is_empty() {
                            self.send_no_more();
                        }
                        head.close |= self.cut_short;
                        self.deadlines.head_done();
                        self.first_answer_time = began.map(|began| began.elapsed()).or(self.first_answer_time);
                        // A wrong id (replayed by a cache, say) does not matter if this is the only unanswered request.
                        // The answer counts as one without an id, so it does not allow pipelining.
                        return Ok(head);
                    }
                    (interim, seen) = (interim + 1, 0);
                    if interim > INTERIM_MAX {
                        return Err(Error::new(Kind::Protocol, "too many interim answers (1xx)"));
                    }
                }
                None if unread.len() >= HEAD_MAX => {
                    return Err(Error::new(Kind::Protocol, format!("a head of more than {HEAD_MAX} bytes")));
                }
                None => self.fill("in the middle of the head").await?,
            }
        }
    }

    /// Adds a request to those that the next read sends. Returns its number.
    pub(crate) fn queue(&mut self, client: &Client, request: &Request<'_>) -> Result<u64> {
        let number = self.requests;
        let id = self.ids.as_mut().map_or(&[][..], |ids| ids.get(number));
        if self.sent == self.request.len() {
            self.request.clear();
            self.sent = 0;
        }
        let signer = client.signer.as_deref();
        let forwards = client.forwards().map(|proxy| (client.address.origin(), proxy.authorization()));
        let (queue, versions) = (&mut self.request, &mut self.versions);
        client.fields.with(&client.address, |fields, version| {
            let with_cookies = client.cookies.add(&client.address, fields);
            let fields = with_cookies.as_deref().unwrap_or(fields);
            message::write(fields, forwards.as_ref(), signer, id, request, queue)?;
            versions.sent(number, version);
            Ok(())
        })?;
        if let Some(body) = request.body_apart() {
            self.body = body.clone();
        }
        self.requests += 1;
        Ok(number)
    }

    /// Whether it leads into a private network, or to this machine. Through a proxy, only a URL with an address tells.
    pub(crate) fn is_private(&self, client: &Client) -> bool {
        let peer = if client.proxy.is_some() { local_ip(&client.address.host) } else { self.stream.peer() };
        peer.is_some_and(connect::is_private)
    }

    /// How long the head of the first answer took, if requests carry ids.
    pub(crate) fn first_answer_time(&self) -> Option<Duration> {
        self.first_answer_time
    }

    /// Looks for the answer to request `number` after `from` unread bytes. `more`: requests after it are unanswered.
    pub(crate) fn next_answer(&mut self, reader: &mut Reader, from: usize, number: u64, more: bool) -> Result<Answer> {
        let id = self.ids.as_mut().map_or(&[][..], |ids| ids.get(number));
        let mut answer = reader.next(&self.buffer[self.start + from..self.end], id, more)?;
        if let Answer::Whole { head, .. } | Answer::Begun { head, .. } = &mut answer {
            head.sent_with = self.versions.of(number);
        }
        Ok(answer)
    }

    /// A range of the unread bytes, as in the result of `next_answer` with `from` 0.
    pub(crate) fn unread(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.buffer[self.start..self.end][range]
    }

    /// Number of bytes received and not read.
    pub(crate) fn unread_len(&self) -> usize {
        self.end - self.start
    }

    /// Marks unread bytes as read.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Whether the unread bytes, if any, may begin an answer. If not, they may be the rest of the answer before.
    pub(crate) fn may_begin_answer(&self) -> bool {
        reader::may_begin(&self.buffer[self.start..self.end])
    }

    /// Whether all bytes received were read.
    pub(crate) fn is_read(&self) -> bool {
        self.start == self.end
    }

    /// The clock that counts how long the thread has been busy.
    pub(crate) fn clock(&self) -> &C {
        &self.deadlines.clock
    }

    /// The next answer gets the whole timeout from now.
    pub(crate) fn restart_deadline(&mut self) {
        self.deadlines.start_head();
    }

    /// Reads the whole body, if it is small. One of known length stays in the buffer, without a copy.
    pub(crate) async fn read_whole_body(&mut self, framing: &mut Framing, whole_max: usize) -> Result<WholeBody> {
        if let Framing::Length(length) = *framing {
            if length > whole_max as u64 {
                return Ok(WholeBody::Larger);
            }
            let length = length as usize;
            while self.end - self.start < length {
                self.fill_for(length, IN_BODY).await?;
            }
            let body = self.start..self.start + length;
            self.start += length;
            return Ok(WholeBody::Whole(body));
        }
        while let Some(piece) = self.piece(framing).await? {
            self.pieces.extend_from_slice(&self.buffer[piece]);
            if self.pieces.len() > whole_max {
                return Ok(WholeBody::Larger);
            }
        }
        Ok(WholeBody::Pieces)
    }

    /// The body that `read_whole_body` has read, or what has been read of a larger one.
    pub(crate) fn whole_body(&self, body: &WholeBody) -> &[u8] {
        match body {
            WholeBody::Whole(range) => &self.buffer[range.clone()],
            WholeBody::Pieces | WholeBody::Larger => &self.pieces,
        }
    }

    /// Forgets the pieces that `read_whole_body` has collected.
    pub(crate) fn clear_pieces(&mut self) {
        self.pieces.clear();
    }

    /// A range of the buffer, as `piece` returns it.
    pub(crate) fn bytes(&self, piece: std::ops::Range<usize>) -> &[u8] {
        &self.buffer[piece]
    }

    /// Grows the buffer to at least so many bytes.
    pub(crate) fn grow_buffer(&mut self, bytes: usize) {
        self.buffer.resize(self.buffer.len().max(bytes), 0);
    }

    /// Reads the next piece of a body, a range of the buffer; `None` at the end.
    pub(crate) async fn piece(&mut self, framing: &mut Framing) -> Result<Option<std::ops::Range<usize>>> {
        loop {
            match framing.step(&self.buffer[self.start..self.end])? {
                Step::End { skip } => {
                    self.start += skip;
                    return Ok(None);
                }
                Step::Piece { skip, take } => {
                    let from = self.start + skip;
                    self.start = from + take;
                    if take > 0 {
                        return Ok(Some(from..from + take));
                    }
                }
                Step::More => match self.fill(IN_BODY).await {
                    // A reset, or an end without a TLS close_notify, may not be the end of the body.
                    Err(_) if matches!(framing, Framing::Close) && self.ended => return Ok(None),
                    other => other?,
                },
            }
        }
    }

    /// Reads a body of at most `most` bytes, whole and decoded; `None` if it is larger.
    pub async fn body(&mut self, head: &mut Head, most: usize) -> Result<Option<Vec<u8>>> {
        let mut body = Vec::new();
        if head.length().is_some_and(|length| length > most as u64) {
            return Ok(None);
        }
        while let Some(piece) = self.piece(&mut head.framing).await? {
            if body.len() + piece.len() > most {
                return Ok(None);
            }
            body.extend_from_slice(&self.buffer[piece]);
        }
        if let Some(error) = self.trailing_bytes(head, false) {
            return Err(error);
        }
        let Some(mut decoding) = Decoding::of(head)? else { return Ok(Some(body)) };
        let (mut decoded, mut fits) = (Vec::new(), true);
        decoding.decode(&body, &mut |piece: &[u8]| {
            fits &= decoded.len() + piece.len() <= most;
            if fits {
                decoded.extend_from_slice(piece);
            }
            Ok(())
        })?;
        decoding.end()?;
        Ok(fits.then_some(decoded))
    }

    /// What an answer says that is an error: its body as it was sent, at most [`ERROR_BODY_MAX`] bytes of it, and what has come
    /// of one that breaks.
    pub async fn error_body(&mut self, head: &mut Head) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() <= ERROR_BODY_MAX
            && let Ok(Some(piece)) = self.piece(&mut head.framing).await
        {
            body.extend_from_slice(&self.buffer[piece]);
        }
        body.truncate(ERROR_BODY_MAX);
        body
    }

    /// Reads an unneeded body, if it is small. Returns whether the connection can be reused.
    pub(crate) async fn discard(&mut self, framing: &mut Framing) -> bool {
        let too_long = matches!(framing, Framing::Length(length) if *length > DISCARD_MAX);
        if too_long || matches!(framing, Framing::Close) {
            return false;
        }
        let discarding = async {
            let mut seen = 0;
            while seen <= DISCARD_MAX {
                match self.piece(framing).await {
                    Ok(Some(piece)) => seen += piece.len() as u64,
                    Ok(None) => return true,
                    Err(_) => break,
                }
            }
            false
        };
        tokio::time::timeout(DISCARD_WAIT, discarding).await.unwrap_or(false)
    }

    /// The error if there are bytes after the end of the answer, which were not announced: its object may be truncated.
    /// `more`: other requests are unanswered, so another answer may follow.
    pub(crate) fn trailing_bytes(&self, head: &Head, more: bool) -> Option<Error> {
        if more && self.may_begin_answer() {
            return None;
        }
        let bytes = self.end - self.start;
        (bytes > 0 && !matches!(head.framing, Framing::Close))
            .then(|| Error::new(Kind::ShortBody, format!("{bytes} bytes more than announced")))
    }

    /// What follows the last answer.
    pub(crate) fn trailing(&mut self) -> Trailing {
        match &self.buffer[self.start..self.end] {
            [] => self.stream.trailing(),
            unread => Trailing::of(unread),
        }
    }

    /// What follows the last answer, after some time for it to arrive.
    pub(crate) async fn linger(&mut self) -> Trailing {
        let _ = tokio::time::timeout(LINGER, self.readable()).await;
        self.trailing()
    }

    /// What follows the last answer, once the server has answered everything: it closes the connection then, or is waited
    /// for a while.
    pub(crate) async fn last_trailing(&mut self) -> Trailing {
        let ending = async {
            self.stream.end_requests().await;
            loop {
                self.readable().await;
                match self.trailing() {
                    Trailing::Nothing => {} // of TLS itself
                    trailing => return trailing,
                }
            }
        };
        tokio::time::timeout(END_WAIT, ending).await.unwrap_or(Trailing::Nothing)
    }

    /// Resolves once there is something to read: bytes, or the end.
    pub(crate) async fn readable(&self) {
        if self.is_read() {
            self.stream.readable().await;
        }
    }

    /// Reads what has arrived, even if the event loop has not been notified yet.
    pub(crate) fn receive(&mut self) {
        if self.is_read() {
            (self.start, self.end) = (0, self.stream.receive(&mut self.buffer));
        }
    }

    /// Whether the connection broke before the first byte of the answer.
    pub(crate) fn nothing_received(&self) -> bool {
        self.closed && self.received == 0
    }

    /// Reads at least one more byte. `place`: where in an answer, for messages.
    pub(crate) async fn fill(&mut self, place: &str) -> Result<()> {
        self.fill_for(self.end - self.start + 1, place).await
    }

    /// Reads once, after making room for `needed` unread bytes in all.
    pub(crate) async fn fill_for(&mut self, needed: usize, place: &str) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        // Moved well before the end is reached: otherwise reads would become small.
        if self.start + needed > self.buffer.len() || self.start > self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if needed > self.buffer.len() {
                // Bounded: callers need at most HEAD_MAX and `RequestHandler::WHOLE_MAX` bytes.
                self.buffer.resize(needed.next_power_of_two(), 0);
            }
        }
        self.deadlines.before_read();
        let result = poll_fn(|context| self.poll_io(context)).await;
        match result {
            IoOutcome::Received => Ok(()),
            IoOutcome::Closed => {
                let why = format!("the connection was closed after {} bytes, {place}", self.received);
                Err(Error::new(broken_at(place), why))
            }
            IoOutcome::Broken(error) => Err(disconnected(&error, place)),
            IoOutcome::TooLate(why) => Err(Error::new(Kind::Timeout, why)),
        }
    }

    fn unsent(&self) -> &[u8] {
        if self.sent < self.request.len() { &self.request[self.sent..] } else { &self.body }
    }

    /// So many bytes of `unsent` were sent.
    fn is_sent(&mut self, bytes: usize) {
        match self.sent < self.request.len() {
            true => self.sent += bytes,
            false => {
                self.body.advance(bytes);
                self.deadlines.sent(bytes, self.body.is_empty());
                if self.body.is_empty() {
                    self.body = Bytes::new(); // lets go of the memory
                }
            }
        }
    }

    fn send_no_more(&mut self) {
        (self.sent, self.body, self.cut_short) = (self.request.len(), Bytes::new(), true);
    }

    /// Sends what is queued and reads once, even if sending fails: a peer that has closed may have answered before.
    fn poll_io(&mut self, context: &mut Context<'_>) -> Poll<IoOutcome> {
        let mut unsent = None;
        loop {
            // Not `unsent`, which would borrow the stream, too.
            let rest = if self.sent < self.request.len() { &self.request[self.sent..] } else { &self.body };
            if rest.is_empty() {
                break;
            }
            match self.stream.poll_write(context, rest) {
                Poll::Ready(Ok(0)) => unsent = Some(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(bytes)) => self.is_sent(bytes),
                Poll::Ready(Err(error)) => unsent = Some(error),
                Poll::Pending => break,
            }
            if unsent.is_some() {
                self.send_no_more();
            }
        }
        if let Poll::Ready(Err(error)) = self.stream.poll_flush(context) {
            unsent = Some(error);
        }
        let mut free = ReadBuf::new(&mut self.buffer[self.end..]);
        match self.stream.poll_read(context, &mut free) {
            Poll::Ready(Ok(())) if free.filled().is_empty() => {
                (self.closed, self.ended) = (true, true);
                Poll::Ready(unsent.map_or(IoOutcome::Closed, IoOutcome::Broken))
            }
            Poll::Ready(Ok(())) => {
                let bytes = free.filled().len();
                self.end += bytes;
                self.received += bytes as u64;
                self.deadlines.received(bytes);
                Poll::Ready(IoOutcome::Received)
            }
            Poll::Ready(Err(error)) => {
                self.closed = true;
                Poll::Ready(IoOutcome::Broken(error))
            }
            Poll::Pending => match unsent {
                Some(error) => {
                    self.closed = true;
                    Poll::Ready(IoOutcome::Broken(error))
                }
                None => self.deadlines.poll(context).map(IoOutcome::TooLate),
            },
        }
    }
}

/// The result of sending and reading once.
enum IoOutcome {
    Received,
    /// The peer closed.
    Closed,
    Broken(io::Error),
    TooLate(String),
}

/// Where a small body is.
pub(crate) enum WholeBody {
    /// In the buffer.
    Whole(std::ops::Range<usize>),
    /// In `pieces`.
    Pieces,
    /// It is larger than `whole_max`; what was read of it may be in `pieces`.
    Larger,
}

fn disconnected(error: &io::Error, place: &str) -> Error {
    if let Some(refused) = tls::refused_later(error) {
        return refused;
    }
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the connection was cut (no TLS close_notify)".to_owned(),
        io::ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
        io::ErrorKind::BrokenPipe => "the connection was closed".to_owned(),
        _ => format!("the connection failed ({error})"),
    };
    Error::new(broken_at(place), format!("{what} {place}")).errno(error.raw_os_error())
}

/// In the middle of a body, the server has answered: the error says more about the object than about the server.
fn broken_at(place: &str) -> Kind {
    if place == IN_BODY { Kind::ShortBody } else { Kind::Disconnected }
}
