//! One connection, from its first request to its end: hyper over a `Wire`.
//!
//! Not here: what is answered (`answer.rs`), who watches the time (`threads.rs`).

use super::answer::{self, Answer};
use super::body::AnswerBody;
use super::shared::{OpenConnection, Worker};
use super::wire::{Wire, WireEnd};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Bytes of a request's head at most, 431 beyond: the longest name (4 KiB, each byte as `%XX`) and room for headers.
const HEAD_AT_MOST: usize = 64 * 1024;
/// How long an ended connection may still send before it is closed, and how many bytes.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES: usize = 1024 * 1024;

pub(super) async fn serve(worker: Arc<Worker>, wire: Arc<Wire>, open: OpenConnection) {
    let clock = Arc::clone(&worker);
    let end = WireEnd { wire: Arc::clone(&wire), now: move || clock.now() };
    let service = Answers { worker: Arc::clone(&worker), wire: Arc::clone(&wire) };
    let mut connection = pin!(protocol().serve_connection(end, service));
    let mut draining = false;
    let clean = poll_fn(|cx| {
        wire.before_poll(cx);
        if wire.is_draining() && !draining {
            draining = true;
            connection.as_mut().graceful_shutdown();
        }
        match connection.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(result.is_ok()),
            Poll::Pending => match wire.after_poll(cx, worker.now()) {
                Ok(()) => Poll::Pending,
                Err(_) => Poll::Ready(false),
            },
        }
    })
    .await;
    if clean && !wire.is_draining() {
        linger(&wire).await;
    }
    drop(open);
}

/// How requests are read.
pub(super) fn protocol() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // A client that sends its requests and closes its half still gets its answers.
    builder.half_close(true).max_buf_size(HEAD_AT_MOST);
    builder
}

/// Waits for the client's end, so that closing does not reset the connection while it still reads the last answer.
async fn linger(wire: &Wire) {
    let discard = async {
        let mut discarded = 0;
        while discarded < LINGER_BYTES {
            match poll_fn(|cx| wire.poll_discard(cx)).await {
                Ok(0) | Err(_) => break,
                Ok(bytes) => discarded += bytes,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, discard).await;
}

struct Answers {
    worker: Arc<Worker>,
    wire: Arc<Wire>,
}

impl Service<Request<Incoming>> for Answers {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        self.wire.requested(self.worker.now());
        match answer::answer(&self.worker, &self.wire, request) {
            Answer::Ready(response) => Answering::Ready(Some(response)),
            Answer::Later(future) => {
                self.wire.set_answering(true);
                Answering::Later(future, Busy { worker: Arc::clone(&self.worker), wire: Arc::clone(&self.wire) })
            }
        }
    }
}

/// Marks the connection as busy until the answer is there, or no longer wanted.
struct Busy {
    worker: Arc<Worker>,
    wire: Arc<Wire>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.wire.set_answering(false);
        self.wire.requested(self.worker.now());
    }
}

/// An answer on its way; most are there at once and cost no allocation.
enum Answering {
    Ready(Option<Response<AnswerBody>>),
    Later(
        Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>,
        #[expect(dead_code, reason = "acts when dropped")] Busy,
    ),
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                // Polled again after it was ready, which the contract of futures forbids.
                None => Poll::Pending,
            },
            Self::Later(future, _) => future.as_mut().poll(cx).map(Ok),
        }
    }
}
