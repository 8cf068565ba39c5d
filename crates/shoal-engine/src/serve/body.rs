//! The bytes of an answer: none, all at once, or piece by piece.
//!
//! Not here: headers (`answer.rs`). A piece is read when the connection has room for it, so that one transfer holds one
//! piece, however large the object. A file that shrinks or changes while it is sent ends the connection before its last
//! piece: the client sees a broken transfer, never wrong bytes of the right length.

use super::dir::OpenFile;
use super::shared::Worker;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One piece of a larger one: large enough that system calls cost little beside copying, small enough for a cache.
const PIECE: u64 = 256 * 1024;

#[derive(Debug)]
pub(super) enum AnswerBody {
    Whole(Option<Bytes>),
    Streamed(Box<Stream>),
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) from: StreamFrom,
    pub(super) next: u64,
    pub(super) end: u64,
    pub(super) record: Record,
}

#[derive(Debug)]
pub(super) enum StreamFrom {
    File(OpenFile),
    Synthetic(u64),
}

/// Counts and logs one streamed answer when it ends, however it ends.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) worker: Arc<Worker>,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) status: u16,
    pub(super) sent: u64,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.worker.record(&self.method, &self.target, self.status, self.sent);
    }
}

impl AnswerBody {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty()))
    }

    pub(super) fn empty() -> Self {
        Self::Whole(None)
    }
}

impl Stream {
    fn piece(&mut self) -> io::Result<Bytes> {
        let length = PIECE.min(self.end - self.next);
        let bytes = match &self.from {
            StreamFrom::File(file) => {
                let bytes = file.read(self.next, length as usize)?;
                if bytes.is_empty() || (self.next + bytes.len() as u64 == self.end && file.changed()?) {
                    return Err(io::Error::other("the file changed while it was sent"));
                }
                bytes
            }
            StreamFrom::Synthetic(index) => {
                let synthetic = self.record.worker.synthetic();
                let objects = synthetic.ok_or_else(|| io::Error::other("no synthetic objects"))?;
                objects.bytes(*index, self.next, length as usize)
            }
        };
        self.next += bytes.len() as u64;
        self.record.sent += bytes.len() as u64;
        Ok(Bytes::from(bytes))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match self.get_mut() {
            Self::Whole(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Self::Streamed(stream) if stream.next < stream.end => Some(stream.piece().map(Frame::data)),
            Self::Streamed(_) => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Streamed(stream) => stream.next == stream.end,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Whole(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            Self::Streamed(stream) => stream.end - stream.next,
        })
    }
}
