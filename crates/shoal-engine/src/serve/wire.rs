//! One connection's socket, with the answers that wait to be sent.
//!
//! Why answers wait: a client may send many requests at once, and one `send` for all their answers costs a tenth of one
//! each. hyper's own `pipeline_flush` does that too, but puts no bound on what it gathers (a large object asked for in
//! front of another request would be read into memory whole) and holds answers back while half a request is there.
//! Here hyper writes each answer at once, into a bounded buffer that is sent when hyper wants to read on, that is, when
//! it has answered every request it was given.
//! Not here: time-outs as a policy (`threads.rs` decides), HTTP (`connection.rs`).

use crate::poison::ignore_poison;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that wait at most; what does not fit is sent first. Also the least that is sent without being copied here.
const WAIT_AT_MOST: usize = 64 * 1024;
/// Bytes read at once: room for a hundred pipelined requests.
const READ_AT_ONCE: usize = 16 * 1024;
/// Times that answers are held back while hyper yields to others: it does so after 16 requests, and goes on at once.
const YIELDS: u8 = 4;

/// What the socket and the one who watches it share.
#[derive(Debug)]
pub(super) struct Wire {
    inner: Mutex<Inner>,
    /// Milliseconds of the service's clock: when something was last sent or a request answered.
    progress: AtomicU64,
    /// Bytes sent so far.
    taken: AtomicU64,
    /// When the first bytes of a request came that is not complete yet; 0 for none.
    partial: AtomicU64,
    /// Whether an answer is being made (a listing that walks).
    answering: AtomicBool,
    draining: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    stream: TcpStream,
    waiting: Vec<u8>,
    sent: usize,
    blocked: bool,
    yields: u8,
    waker: Option<Waker>,
}

/// Where a connection stands, for the one who watches the time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its answer is being made.
    Busy,
    /// The client takes none of its answer since then.
    Stalled(u64),
    /// Half a request is here since then.
    Partial(u64),
    /// No request since then.
    Idle(u64),
}

impl Wire {
    pub(super) fn new(stream: TcpStream, now: u64) -> Arc<Self> {
        let inner = Inner { stream, waiting: Vec::new(), sent: 0, blocked: false, yields: 0, waker: None };
        Arc::new(Self {
            inner: Mutex::new(inner),
            progress: AtomicU64::new(now),
            taken: AtomicU64::new(0),
            partial: AtomicU64::new(0),
            answering: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        })
    }

    /// A request is complete.
    pub(super) fn requested(&self, now: u64) {
        self.progress.store(now, Ordering::Relaxed);
        self.partial.store(0, Ordering::Relaxed);
    }

    pub(super) fn set_answering(&self, answering: bool) {
        self.answering.store(answering, Ordering::Relaxed);
    }

    pub(super) fn standing(&self) -> Standing {
        let progress = self.progress.load(Ordering::Relaxed);
        let partial = self.partial.load(Ordering::Relaxed);
        if self.lock().blocked {
            Standing::Stalled(progress)
        } else if self.answering.load(Ordering::Relaxed) {
            Standing::Busy
        } else if partial != 0 {
            Standing::Partial(partial)
        } else {
            Standing::Idle(progress)
        }
    }

    /// Bytes that the client has taken of its answers, as far as the system tells.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn sent(&self, bytes: usize, now: u64) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        self.progress.store(now, Ordering::Relaxed);
    }

    /// Whether the client has closed its side, or reset the connection, and nothing more of it waits to be read. One that
    /// closed its sending half only and still waits cannot be told from one that is gone.
    pub(super) fn is_left(&self) -> bool {
        let inner = self.lock();
        let Some(waker) = &inner.waker else {
            return false;
        };
        let mut space = [0; 1];
        // The task's own waker: another one would take the place of the one that it is to be woken by.
        let peeked = inner.stream.poll_peek(&mut Context::from_waker(waker), &mut ReadBuf::new(&mut space));
        matches!(peeked, Poll::Ready(Ok(0) | Err(_)))
    }

    /// Asks the connection to end after the request in progress.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        let waker = self.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Before hyper is polled: remembers whom to wake for `drain`.
    pub(super) fn before_poll(&self, cx: &mut Context<'_>) {
        let mut inner = self.lock();
        if inner.waker.is_none() {
            inner.waker = Some(cx.waker().clone());
        }
    }

    /// After hyper has come to wait: sends what still waits, for hyper believes it sent. `now` as everywhere.
    pub(super) fn after_poll(&self, cx: &mut Context<'_>, now: u64) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.waiting.is_empty() {
            inner.yields = 0;
            return Ok(());
        }
        if !inner.blocked && inner.yields < YIELDS {
            // Most often hyper only let others run. Polled again it fills the buffer further or reads, which sends.
            inner.yields += 1;
            cx.waker().wake_by_ref();
            return Ok(());
        }
        inner.yields = 0;
        match self.send_waiting(&mut inner, cx, now) {
            Poll::Ready(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads and forgets, so that closing does not reset the connection under an answer that is still on its way.
    pub(super) fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [const { MaybeUninit::uninit() }; READ_AT_ONCE];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.lock().stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        ignore_poison(self.inner.lock())
    }

    fn send_waiting(&self, inner: &mut Inner, cx: &mut Context<'_>, now: u64) -> Poll<io::Result<()>> {
        let Inner { stream, waiting, sent, blocked, .. } = inner;
        while *sent < waiting.len() {
            match Pin::new(&mut *stream).poll_write(cx, &waiting[*sent..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    *sent += written;
                    self.sent(written, now);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    *blocked = true;
                    return Poll::Pending;
                }
            }
        }
        waiting.clear();
        *sent = 0;
        *blocked = false;
        Poll::Ready(Ok(()))
    }
}

/// The end of the wire that hyper holds; `now` gives the service's clock.
pub(super) struct WireEnd<N> {
    pub(super) wire: Arc<Wire>,
    pub(super) now: N,
}

impl<N: Fn() -> u64 + Unpin> Read for WireEnd<N> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.wire.lock();
        if !inner.waiting.is_empty()
            && let Poll::Ready(Err(error)) = self.wire.send_waiting(&mut inner, cx, (self.now)())
        {
            return Poll::Ready(Err(error));
        }
        let room = into.remaining().min(READ_AT_ONCE);
        let mut space = [const { MaybeUninit::uninit() }; READ_AT_ONCE];
        let mut buffer = ReadBuf::uninit(&mut space[..room]);
        ready!(Pin::new(&mut inner.stream).poll_read(cx, &mut buffer))?;
        if !buffer.filled().is_empty() && self.wire.partial.load(Ordering::Relaxed) == 0 {
            self.wire.partial.store((self.now)().max(1), Ordering::Relaxed);
        }
        into.put_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

impl<N: Fn() -> u64 + Unpin> Write for WireEnd<N> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut inner = self.wire.lock();
        if inner.waiting.len() + bytes.len() > WAIT_AT_MOST {
            let now = (self.now)();
            ready!(self.wire.send_waiting(&mut inner, cx, now))?;
            if bytes.len() >= WAIT_AT_MOST {
                let sent = Pin::new(&mut inner.stream).poll_write(cx, bytes);
                inner.blocked = sent.is_pending();
                if let Poll::Ready(Ok(bytes)) = sent {
                    self.wire.sent(bytes, now);
                }
                return sent;
            }
        }
        inner.waiting.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Sends nothing: see the top of this file. `poll_read`, `poll_shutdown` and `Wire::after_poll` do.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.wire.lock();
        ready!(self.wire.send_waiting(&mut inner, cx, (self.now)()))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        {
            let mut inner = self.wire.lock();
            if inner.waiting.len() + length <= WAIT_AT_MOST {
                parts.iter().for_each(|part| inner.waiting.extend_from_slice(part));
                return Poll::Ready(Ok(length));
            }
        }
        match parts.iter().find(|part| !part.is_empty()) {
            Some(part) => self.poll_write(cx, part),
            None => Poll::Ready(Ok(0)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
