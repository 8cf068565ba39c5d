//! One connection: sending a request, reading the head of its answer and its body, within deadlines. Not here: the order of
//! requests (`drive.rs`).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::body::{Framing, Step};
use super::head::{self, Head};
use super::watch::Watch;
use super::{Client, connect};
use crate::error::{Error, Kind, Result};

/// First size of a read buffer, in bytes: the head and body of a small object, many times over.
const BUFFER: usize = 16 << 10;
/// Longest head, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Most bytes of a body nobody wants that are read to keep the connection.
const DISCARD_MAX: u64 = 64 << 10;
/// Longest wait for them: a new connection is had sooner.
const DISCARD_WAIT: Duration = Duration::from_secs(1);
/// Where a connection broke.
const IN_BODY: &str = "in the middle of the body";
/// Most 1xx answers before the real one.
const INTERIM_MAX: u32 = 8;

/// A connection with its read buffer and its deadlines. `C` tells how long its thread has been busy otherwise.
pub(crate) struct Connection<C> {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    watch: Watch<C>,
    request: Vec<u8>,
    /// Where the pieces of a small body come together; empty between answers, kept for its memory.
    pieces: Vec<u8>,
    /// Bytes received since the last request went out.
    received: u64,
    /// The last reading failed because the peer closed or reset the connection.
    closed: bool,
    wants_type: bool,
}

impl<C: Fn() -> Duration> Connection<C> {
    pub async fn open(client: &Client, clock: C) -> Result<Connection<C>> {
        let stream = connect::connect(client).await?;
        Ok(Connection {
            stream,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            watch: Watch::new(client.timeout, clock),
            request: Vec::with_capacity(512),
            pieces: Vec::new(),
            received: 0,
            closed: false,
            wants_type: client.wants_type,
        })
    }

    pub async fn ask(&mut self, client: &Client, target: impl FnOnce(&mut Vec<u8>)) -> Result<Head> {
        self.request.clear();
        client.request(&mut self.request, target);
        self.received = 0;
        self.watch.head();
        self.send().await?;
        let (mut interim, mut seen) = (0, 0);
        loop {
            let unread = &self.buffer[self.start..self.end];
            // Parsed at the first bytes, which show what is not HTTP, and then only when it may be complete: a head that
            // comes byte by byte must not be parsed as often.
            let parse = seen == 0 || head::may_end(unread, seen);
            seen = unread.len();
            match if parse { head::parse(unread, self.wants_type)? } else { None } {
                Some((head, length)) => {
                    self.start += length;
                    if head.status / 100 != 1 {
                        self.watch.head_done();
                        return Ok(head);
                    }
                    (interim, seen) = (interim + 1, 0);
                    if interim > INTERIM_MAX {
                        return Err(Error::new(Kind::Protocol, "one interim answer after the other"));
                    }
                }
                None if unread.len() >= HEAD_MAX => {
                    return Err(Error::new(Kind::Protocol, format!("a head of more than {HEAD_MAX} bytes")));
                }
                None => self.fill("in the middle of the head").await?,
            }
        }
    }

    async fn send(&mut self) -> Result<()> {
        // A request is far smaller than a socket buffer: this waits only for a peer that reads nothing.
        let Connection { stream, request, watch, .. } = self;
        let mut write = std::pin::pin!(stream.write_all(request));
        let result = poll_fn(|context| match write.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Ok(result)),
            Poll::Pending => watch.poll(context).map(Err),
        })
        .await;
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                self.closed = true;
                Err(disconnected(&error, "while the request was sent"))
            }
            Err(why) => Err(Error::new(Kind::Timeout, why)),
        }
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
                    Err(error) if matches!(framing, Framing::Close) && self.closed && !error_is_reset(&error) => {
                        return Ok(None);
                    }
                    other => other?,
                },
            }
        }
    }

    /// A body of at most `most` bytes, whole, or `None`; for pages of a listing.
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
        match self.surplus(&head) {
            None => Ok(Some(body)),
            Some(error) => Err(error),
        }
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
                    Ok(None) => return self.start == self.end,
                    Err(_) => break,
                }
            }
            false
        };
        tokio::time::timeout(DISCARD_WAIT, discarding).await.unwrap_or(false)
    }

    /// Bytes behind the end of the answer, which nobody asked for: the length was a lie, and the object is suspect.
    pub fn surplus(&self, head: &Head) -> Option<Error> {
        let bytes = self.end - self.start;
        (bytes > 0 && !matches!(head.framing, Framing::Close))
            .then(|| Error::new(Kind::ShortBody, format!("{bytes} bytes more came than were announced")))
    }

    /// Nothing has come since the last answer, not even the end.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        self.start == self.end
            && matches!(self.stream.try_read(&mut byte), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }

    /// The connection broke before a byte of the answer came.
    pub fn is_untouched(&self) -> bool {
        self.closed && self.received == 0
    }

    async fn fill(&mut self, place: &str) -> Result<()> {
        self.fill_for(self.end - self.start + 1, place).await
    }

    /// Reads once, having made room for `needed` unread bytes in all.
    async fn fill_for(&mut self, needed: usize, place: &str) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start + needed > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if needed > self.buffer.len() {
                // Bounded by HEAD_MAX and `Exchange::WHOLE_MAX`: nobody asks for more.
                self.buffer.resize(needed.next_power_of_two(), 0);
            }
        }
        self.watch.waits();
        let Connection { stream, buffer, end, watch, .. } = self;
        let result = poll_fn(|context| {
            let mut free = ReadBuf::new(&mut buffer[*end..]);
            match Pin::new(&mut *stream).poll_read(context, &mut free) {
                Poll::Ready(result) => Poll::Ready(Ok(result.map(|()| free.filled().len()))),
                Poll::Pending => watch.poll(context).map(Err),
            }
        })
        .await;
        match result {
            Ok(Ok(0)) => {
                self.closed = true;
                let why = format!("the connection was closed after {} bytes, {place}", self.received);
                Err(Error::new(broken_at(place), why))
            }
            Ok(Ok(bytes)) => {
                self.end += bytes;
                self.received += bytes as u64;
                self.watch.received(bytes);
                Ok(())
            }
            Ok(Err(error)) => {
                self.closed = true;
                Err(disconnected(&error, place))
            }
            Err(why) => Err(Error::new(Kind::Timeout, why)),
        }
    }
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
    let what = match error.kind() {
        io::ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
        io::ErrorKind::BrokenPipe => "the connection was closed".to_owned(),
        _ => format!("the connection broke ({error})"),
    };
    Error::new(broken_at(place), format!("{what} {place}")).errno(error.raw_os_error())
}

/// In the middle of a body the server has answered, if badly: that says more about the object than about the server.
fn broken_at(place: &str) -> Kind {
    if place == IN_BODY { Kind::ShortBody } else { Kind::Disconnected }
}

/// A reset is no end of a body, even of one that ends with the connection.
fn error_is_reset(error: &Error) -> bool {
    error.os_error().is_some() || error.kind() != Kind::ShortBody
}
