//! The two ways in which bytes go to and from a service: in the clear, and through TLS. Not here: making either
//! (`connect.rs`, `tls.rs`), what the bytes mean.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

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

    /// Nothing can be read, not even the end. What only TLS itself has to say, such as a ticket for the next handshake, is
    /// nothing.
    pub fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        match self {
            Stream::Plain(stream) => {
                matches!(stream.try_read(&mut byte), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
            }
            Stream::Tls(stream) => {
                let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut ReadBuf::new(&mut byte)));
                // Outside tokio's budget for a task, which when used up would say "nothing" whatever there is.
                let read = pin!(tokio::task::coop::unconstrained(read));
                read.poll(&mut Context::from_waker(Waker::noop())).is_pending()
            }
        }
    }
}
