//! One connection: sending a request, reading the head of its answer and its body, within deadlines. Not here: the order of
//! requests (`drive.rs`).

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::ReadBuf;

use super::body::{Framing, Step};
use super::client::Client;
use super::encoding::Decoding;
use super::head::{self, Head};
use super::reader::{self, Answer, HEAD_MAX, INTERIM_MAX, Reader};
use super::request_id::RequestIds;
use super::stream::{Behind, Stream};
use super::watch::Watch;
use super::{connect, tls};
use crate::error::{Error, Kind, Result};

/// First size of a read buffer, in bytes: the head and body of a small object, many times over.
const BUFFER: usize = 16 << 10;
/// Most bytes of a body nobody wants that are read to keep the connection.
const DISCARD_MAX: u64 = 64 << 10;
/// Longest wait for them: a new connection is had sooner.
const DISCARD_WAIT: Duration = Duration::from_secs(1);
/// How long it is waited for bytes behind a body, where its length was wrong before. Only then: each answer would take so
/// long.
const LINGER: Duration = Duration::from_millis(250);
/// Where a connection broke.
const IN_BODY: &str = "in the middle of the body";

/// A connection with its read buffer and its deadlines. `C` tells how long its thread has been busy otherwise.
pub(crate) struct Connection<C> {
    stream: Stream,
    buffer: Vec<u8>,
    /// Unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    watch: Watch<C>,
    /// Requests, of which the first `sent` bytes are sent.
    request: Vec<u8>,
    sent: usize,
    /// How long the head of the first answer took.
    took: Option<Duration>,
    /// Ids of requests, where they carry any; the next one's number.
    ids: Option<RequestIds>,
    asked: u64,
    /// Where the pieces of a small body come together; empty between answers, kept for its memory.
    pieces: Vec<u8>,
    /// Bytes received since the last request went out.
    received: u64,
    /// The last reading failed because the peer closed or reset the connection.
    closed: bool,
    /// The peer said that it has no more to send, and nothing is missing of what it sent.
    ended: bool,
    wants_type: bool,
    /// It is not to the service itself but to another host, to which a redirect led.
    pub(super) elsewhere: Option<Arc<Client>>,
}

impl<C: Fn() -> Duration> Connection<C> {
    pub async fn open(client: &Client, clock: C) -> Result<Connection<C>> {
        let stream = connect::connect(client).await?;
        let ids = if client.pipelining.sends_ids() { Some(RequestIds::new()?) } else { None };
        Ok(Connection {
            stream,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            watch: Watch::new(client.timeout, clock),
            request: Vec::with_capacity(512),
            sent: 0,
            took: None,
            ids,
            asked: 0,
            pieces: Vec::new(),
            received: 0,
            closed: false,
            ended: false,
            wants_type: client.wants_type,
            elsewhere: None,
        })
    }

    /// Sends a request, with further header lines, and reads the head of its answer.
    pub async fn ask(&mut self, client: &Client, extra: &[u8], target: impl FnOnce(&mut Vec<u8>)) -> Result<Head> {
        let number = self.queue(client, extra, target);
        let asked = (number == 0 && self.ids.is_some()).then(Instant::now);
        self.received = 0;
        self.watch.head();
        let (mut interim, mut seen) = (0, 0);
        loop {
            let unread = &self.buffer[self.start..self.end];
            // Parsed at the first bytes, which show what is not HTTP, and then only when it may be complete: a head that
            // comes byte by byte must not be parsed as often.
            let parse = !unread.is_empty() && (seen == 0 || head::may_end(unread, seen));
            seen = unread.len();
            let id = self.ids.as_mut().map_or(&[][..], |ids| ids.get(number));
            // The parser passes over empty lines, which behind another answer are bytes that it did not announce.
            if number > 0 && matches!(unread.first(), Some(b'\r' | b'\n')) && interim == 0 {
                return Err(Error::new(Kind::Protocol, "there is an empty line where an answer should begin"));
            }
            match if parse { head::parse(unread, self.wants_type, id)? } else { None } {
                Some((head, length)) => {
                    self.start += length;
                    if head.status / 100 != 1 {
                        self.watch.head_done();
                        self.took = asked.map(|asked| asked.elapsed()).or(self.took);
                        // A wrong id (a cache that replays one, say) proves nothing against an answer to the only request
                        // there is: it is taken like an answer without, and nothing is sent ahead on its strength.
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

    /// Adds a request, with further header lines, to those that the next reading sends; its number on this connection.
    pub fn queue(&mut self, client: &Client, extra: &[u8], target: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let number = self.asked;
        self.asked += 1;
        let id = self.ids.as_mut().map_or(&[][..], |ids| ids.get(number));
        if self.sent == self.request.len() {
            self.request.clear();
            self.sent = 0;
        }
        client.request(&mut self.request, id, extra, target);
        number
    }

    /// How long the head of the first answer took, where requests carry ids.
    pub fn took(&self) -> Option<Duration> {
        self.took
    }

    /// Looks for the answer to request `number` in what has been received, behind the first `from` unread bytes. `more`:
    /// others are unanswered behind it.
    pub fn next_answer(&mut self, reader: &mut Reader, from: usize, number: u64, more: bool) -> Result<Answer> {
        let id = self.ids.as_mut().map_or(&[][..], |ids| ids.get(number));
        reader.next(&self.buffer[self.start + from..self.end], id, more)
    }

    /// Unread bytes, as `next_answer` named them from the first one.
    pub fn unread(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.buffer[self.start..self.end][range]
    }

    /// How many bytes have come that were not read.
    pub fn unread_len(&self) -> usize {
        self.end - self.start
    }

    /// So many unread bytes are done with.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Whether what is unread can be the beginning of an answer, or nothing.
    pub fn rest_may_begin(&self) -> bool {
        reader::may_begin(&self.buffer[self.start..self.end])
    }

    /// Whether nothing has come that was not read.
    pub fn is_read(&self) -> bool {
        self.start == self.end
    }

    /// What tells how long its thread has been busy otherwise.
    pub fn clock(&self) -> C
    where
        C: Clone,
    {
        self.watch.clock()
    }

    /// The answer that is awaited now has its whole time before it.
    pub fn restart_watch(&mut self) {
        self.watch.head();
    }

    /// The whole body, if it is small. Of known length: left in the buffer, without a copy.
    pub async fn gather(&mut self, framing: &mut Framing, whole_max: usize) -> Result<Gathered> {
        if let Framing::Length(length) = *framing {
            if length > whole_max as u64 {
                return Ok(Gathered::Larger);
            }
            let length = length as usize;
            while self.end - self.start < length {
                self.fill_for(length, IN_BODY).await?;
            }
            let body = self.start..self.start + length;
            self.start += length;
            return Ok(Gathered::Whole(body));
        }
        while let Some(piece) = self.piece(framing).await? {
            self.pieces.extend_from_slice(&self.buffer[piece]);
            if self.pieces.len() > whole_max {
                return Ok(Gathered::Larger);
            }
        }
        Ok(Gathered::Pieces)
    }

    /// What `gather` found: the whole body, or what has come of a larger one.
    pub fn gathered(&self, gathered: &Gathered) -> &[u8] {
        match gathered {
            Gathered::Whole(body) => &self.buffer[body.clone()],
            Gathered::Pieces | Gathered::Larger => &self.pieces,
        }
    }

    /// What `gather` put together is done with.
    pub fn forget_pieces(&mut self) {
        self.pieces.clear();
    }

    /// Bytes of the buffer, as `piece` named them.
    pub fn bytes(&self, piece: std::ops::Range<usize>) -> &[u8] {
        &self.buffer[piece]
    }

    /// Makes the buffer at least so large.
    pub fn widen(&mut self, bytes: usize) {
        self.buffer.resize(self.buffer.len().max(bytes), 0);
    }

    /// The next piece of a body, as a range of the buffer; `None` at the end.
    pub async fn piece(&mut self, framing: &mut Framing) -> Result<Option<std::ops::Range<usize>>> {
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
                    // A reset, or an end that TLS was not told of, is no end of a body.
                    Err(_) if matches!(framing, Framing::Close) && self.ended => return Ok(None),
                    other => other?,
                },
            }
        }
    }

    /// A body of at most `most` bytes, whole and decoded, or `None`; for pages of a listing.
    pub async fn body(&mut self, mut head: Head, most: usize) -> Result<Option<Vec<u8>>> {
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
        if let Some(error) = self.surplus(&head, false) {
            return Err(error);
        }
        let Some(mut decoding) = Decoding::of(&head)? else { return Ok(Some(body)) };
        let (mut decoded, mut fits) = (Vec::new(), true);
        decoding.take(&body, &mut |piece: &[u8]| {
            fits &= decoded.len() + piece.len() <= most;
            if fits {
                decoded.extend_from_slice(piece);
            }
            Ok(())
        })?;
        decoding.end()?;
        Ok(fits.then_some(decoded))
    }

    /// Reads a small body nobody wants; whether the connection can be used again.
    pub async fn discard(&mut self, framing: &mut Framing) -> bool {
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

    /// Bytes behind the end of the answer, which nobody asked for: the length was a lie, and the object is suspect.
    pub fn surplus(&self, head: &Head, more: bool) -> Option<Error> {
        if more && self.rest_may_begin() {
            return None;
        }
        let bytes = self.end - self.start;
        (bytes > 0 && !matches!(head.framing, Framing::Close))
            .then(|| Error::new(Kind::ShortBody, format!("{bytes} bytes more than announced")))
    }

    /// What stands behind the last answer.
    pub(super) fn behind(&mut self) -> Behind {
        match &self.buffer[self.start..self.end] {
            [] => self.stream.behind(),
            unread => Behind::of(unread),
        }
    }

    /// What stands behind the last answer, once there was time for it to come.
    pub(super) async fn linger(&mut self) -> Behind {
        let _ = tokio::time::timeout(LINGER, self.readable()).await;
        self.behind()
    }

    /// Resolves when something has come that was not read: bytes, or the end.
    pub async fn readable(&self) {
        if self.is_read() {
            self.stream.readable().await;
        }
    }

    /// Takes in what has come, also where the event loop has not been told of it yet.
    pub fn receive(&mut self) {
        if self.is_read() {
            (self.start, self.end) = (0, self.stream.receive(&mut self.buffer));
        }
    }

    /// What has come instead of an answer is none: the rest of the answer before it, where there was one. The first bytes of
    /// an answer that broke off blame nothing.
    pub fn is_no_answer(&self) -> bool {
        !self.rest_may_begin()
    }

    /// The connection broke before a byte of the answer came.
    pub fn is_untouched(&self) -> bool {
        self.closed && self.received == 0
    }

    pub async fn fill(&mut self, place: &str) -> Result<()> {
        self.fill_for(self.end - self.start + 1, place).await
    }

    /// Reads once, having made room for `needed` unread bytes in all.
    pub async fn fill_for(&mut self, needed: usize, place: &str) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        // Well before the end: what is left of it would make for small reads.
        if self.start + needed > self.buffer.len() || self.start > self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if needed > self.buffer.len() {
                // Bounded by HEAD_MAX and `Exchange::WHOLE_MAX`: nobody asks for more.
                self.buffer.resize(needed.next_power_of_two(), 0);
            }
        }
        self.watch.waits();
        let result = poll_fn(|context| self.poll_turn(context)).await;
        match result {
            Turn::Received => Ok(()),
            Turn::Closed => {
                let why = format!("the connection was closed after {} bytes, {place}", self.received);
                Err(Error::new(broken_at(place), why))
            }
            Turn::Broken(error) => Err(disconnected(&error, place)),
            Turn::TooLate(why) => Err(Error::new(Kind::Timeout, why)),
        }
    }

    /// Sends what is queued and reads once. A peer that has closed may have answered before: what can be read is read even
    /// when sending fails.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        let mut unsent = None;
        while self.sent < self.request.len() {
            match self.stream.poll_write(context, &self.request[self.sent..]) {
                Poll::Ready(Ok(0)) => unsent = Some(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(bytes)) => self.sent += bytes,
                Poll::Ready(Err(error)) => unsent = Some(error),
                Poll::Pending => break,
            }
            if unsent.is_some() {
                self.sent = self.request.len(); // no more of them
            }
        }
        if let Poll::Ready(Err(error)) = self.stream.poll_flush(context) {
            unsent = Some(error);
        }
        let mut free = ReadBuf::new(&mut self.buffer[self.end..]);
        match self.stream.poll_read(context, &mut free) {
            Poll::Ready(Ok(())) if free.filled().is_empty() => {
                (self.closed, self.ended) = (true, true);
                Poll::Ready(unsent.map_or(Turn::Closed, Turn::Broken))
            }
            Poll::Ready(Ok(())) => {
                let bytes = free.filled().len();
                self.end += bytes;
                self.received += bytes as u64;
                self.watch.received(bytes);
                Poll::Ready(Turn::Received)
            }
            Poll::Ready(Err(error)) => {
                self.closed = true;
                Poll::Ready(Turn::Broken(error))
            }
            Poll::Pending => match unsent {
                Some(error) => {
                    self.closed = true;
                    Poll::Ready(Turn::Broken(error))
                }
                None => self.watch.poll(context).map(Turn::TooLate),
            },
        }
    }
}

/// What came of sending and reading once.
enum Turn {
    Received,
    /// The peer closed.
    Closed,
    Broken(io::Error),
    TooLate(String),
}

pub(crate) enum Gathered {
    /// In the buffer.
    Whole(std::ops::Range<usize>),
    /// In `pieces`.
    Pieces,
    /// Larger than `WHOLE_MAX`; what has come is in `pieces`.
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

/// In the middle of a body the server has answered, if badly: that says more about the object than about the server.
fn broken_at(place: &str) -> Kind {
    if place == IN_BODY { Kind::ShortBody } else { Kind::Disconnected }
}
