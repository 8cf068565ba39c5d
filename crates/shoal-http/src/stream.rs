//! The byte stream to a service, plain or through TLS. Not here: making it (`connect.rs`, `tls.rs`).

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::reader::BEGIN;

/// A byte stream to a service. Not a trait object: plain streams are most, and must cost no more than bare ones.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads once. Through TLS, an end without close_notify is an error, [`io::ErrorKind::UnexpectedEof`]: an
    /// attacker can cut a connection.
    #[inline]
    pub fn poll_read(&mut self, context: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, free),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, free),
        }
    }

    /// Accepts bytes to be sent; `poll_flush` sends them.
    #[inline]
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Sends what TLS still buffers.
    #[inline]
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    /// The address at the other end, if it is still known.
    pub fn peer(&self) -> Option<IpAddr> {
        let stream = match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        stream.peer_addr().ok().map(|address| address.ip())
    }

    /// Resolves when there may be something to read.
    pub async fn readable(&self) {
        let stream = match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        let _ = stream.readable().await; // the next read reports an error
    }

    /// Says that nothing more is sent: a server that has answered everything then closes the connection.
    pub async fn end_requests(&mut self) {
        let _ = match self {
            Stream::Plain(stream) => stream.shutdown().await,
            Stream::Tls(stream) => stream.shutdown().await,
        }; // the next read reports an error
    }

    /// Reads without the event loop, which may not be notified yet. Returns how many bytes; through TLS, always 0.
    pub fn receive(&mut self, buffer: &mut [u8]) -> usize {
        match self {
            Stream::Plain(stream) => rustix::io::read(&*stream, buffer).unwrap_or(0), // the socket is non-blocking
            Stream::Tls(_) => 0,
        }
    }

    /// What can be read now. Messages of TLS itself, such as tickets for the next handshake, do not count.
    pub fn trailing(&mut self) -> Trailing {
        let mut bytes = [0; BEGIN.len() + 8];
        let mut free = ReadBuf::new(&mut bytes);
        let read = match self {
            Stream::Plain(stream) => match stream.try_read(free.initialize_unfilled()) {
                Ok(count) => {
                    free.advance(count);
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Trailing::Nothing,
                Err(error) => Err(error),
            },
            Stream::Tls(stream) => {
                let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut free));
                // Without tokio's cooperative budget: once that is used up, the read would always be pending.
                let read = pin!(tokio::task::coop::unconstrained(read));
                match read.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => return Trailing::Nothing,
                    Poll::Ready(read) => read,
                }
            }
        };
        match read {
            Ok(()) if !free.filled().is_empty() => Trailing::of(free.filled()),
            _ => Trailing::End,
        }
    }
}

/// What follows a complete answer when no requests are unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailing {
    Nothing,
    /// The end of the connection.
    End,
    /// An error answer to no request: many servers send 408 before they close.
    Refusal,
    /// Another error answer, or the first bytes of some answer: `Ahead`, where only the order tells which answer is for
    /// which request.
    Error,
    /// Another answer to no request: since some moment, each answer was taken for that to the next request.
    Ahead,
    /// Other bytes: the answer may have been longer than announced.
    Bytes,
}

impl Trailing {
    /// What these bytes are; there is at least one.
    pub fn of(bytes: &[u8]) -> Trailing {
        // Byte 9 is the status's first digit, if received. Fewer bytes than BEGIN may as well be the end of a body.
        match bytes.get(9) {
            _ if !bytes.starts_with(BEGIN) => Trailing::Bytes,
            _ if bytes.get(9..12) == Some(b"408") => Trailing::Refusal,
            None | Some(b'4' | b'5') => Trailing::Error,
            Some(b'2' | b'3') => Trailing::Ahead,
            Some(_) => Trailing::Bytes,
        }
    }

    /// Whether the answer before these bytes may be wrong.
    pub fn is_surplus(self) -> bool {
        matches!(self, Trailing::Bytes | Trailing::Ahead)
    }
}
