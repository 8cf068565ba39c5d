//! The two ways in which bytes go to and from a service: in the clear, and through TLS. Not here: making either
//! (`connect.rs`, `tls.rs`), what the bytes mean.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::reader::BEGIN;

/// A stream of bytes to a service. No trait object: the clear one is most of all there is, and must cost what it costs bare.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads once. Through TLS, an end that the peer did not announce is an error, [`io::ErrorKind::UnexpectedEof`]: it
    /// may be anybody's who can cut a connection.
    #[inline]
    pub fn poll_read(&mut self, context: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, free),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, free),
        }
    }

    /// Takes bytes to be sent; `poll_flush` sees that they are.
    #[inline]
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Sends what TLS still holds of the bytes it took.
    #[inline]
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    /// Resolves when there may be something to read.
    pub async fn readable(&self) {
        let stream = match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        let _ = stream.readable().await; // an error is something to see
    }

    /// Reads past the event loop, which may not have been told yet; nothing through TLS. How many bytes.
    pub fn receive(&mut self, buffer: &mut [u8]) -> usize {
        match self {
            Stream::Plain(stream) => {
                rustix::io::read(&*stream, buffer).unwrap_or(0) // it never waits
            }
            Stream::Tls(_) => 0,
        }
    }

    /// What can be read now. What only TLS itself has to say, such as a ticket for the next handshake, is nothing.
    pub fn behind(&mut self) -> Behind {
        let mut bytes = [0; BEGIN.len() + 8];
        let mut free = ReadBuf::new(&mut bytes);
        let read = match self {
            Stream::Plain(stream) => match stream.try_read(free.initialize_unfilled()) {
                Ok(count) => {
                    free.advance(count);
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Behind::Nothing,
                Err(error) => Err(error),
            },
            Stream::Tls(stream) => {
                let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut free));
                // Outside tokio's budget for a task, which when used up would say "nothing" whatever there is.
                let read = pin!(tokio::task::coop::unconstrained(read));
                match read.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => return Behind::Nothing,
                    Poll::Ready(read) => read,
                }
            }
        };
        match read {
            Ok(()) if !free.filled().is_empty() => Behind::of(free.filled()),
            _ => Behind::End,
        }
    }
}

/// What stands behind a complete answer with nothing unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Nothing,
    /// The end of the connection.
    End,
    /// An answer that is a refusal, to nothing: many a server says 408 before it closes.
    Answer,
    /// Other bytes: the answer may have been longer than it said.
    Bytes,
}

impl Behind {
    /// What these bytes are, of which there is one at least.
    pub fn of(bytes: &[u8]) -> Behind {
        // Shorter than that, they may be the end of a body as well.
        let is_refusal = bytes.get(9).is_none_or(|digit| matches!(digit, b'4' | b'5'));
        if bytes.starts_with(BEGIN) && is_refusal { Behind::Answer } else { Behind::Bytes }
    }
}
