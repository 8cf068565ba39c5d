//! The reading of requests without a socket, for `testing::requests` and the fuzz target that runs it.

use super::asked::{Asked, asked};
use super::connection::protocol;
use super::dir::unsafe_name;
use super::hosts::HostRule;
use super::options::Options;
use crate::poison::ignore_poison;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use std::convert::Infallible;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// One request as the service understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub method: String,
    pub target: String,
    /// Every `Host` that it names.
    pub hosts: Vec<Vec<u8>>,
    pub verdict: Verdict,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Refused(u16),
    List(Option<String>),
    /// An object is looked for under this name.
    Object(Vec<u8>),
}

/// The requests in `wire`, which comes in pieces of `piece` bytes and then ends, as a service on 127.0.0.1 reads them.
pub(crate) fn read_requests(wire: &[u8], piece: usize) -> Vec<Seen> {
    let options = Options::default();
    let hosts = HostRule::of(([127, 0, 0, 1], 8080).into(), &[]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let one = look(&options, &hosts, &request);
        ignore_poison(seen.lock()).push(one);
        let has_body = !hyper::body::Body::is_end_stream(request.body());
        let mut response = Response::new(Empty::<Bytes>::new());
        if has_body {
            // As the service does: what follows is the body, and no request.
            response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        }
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut connection = pin!(protocol().serve_connection(Bytewise { left: wire, piece: piece.max(1) }, service));
    // hyper yields now and then; it never waits for anything else here.
    let mut polls = wire.len() + 100;
    while polls > 0 && connection.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        polls -= 1;
    }
    assert!(polls > 0, "reading came to no end");
    let seen = ignore_poison(seen.lock());
    seen.clone()
}

fn look(options: &Options, hosts: &HostRule, request: &Request<Incoming>) -> Seen {
    let verdict = match asked(options, hosts, request) {
        Err((status, _)) => Verdict::Refused(status.as_u16()),
        Ok(Asked::List(marker)) => Verdict::List(marker.map(std::borrow::Cow::into_owned)),
        Ok(Asked::Object(name)) if unsafe_name(&name).is_some() => Verdict::Refused(400),
        Ok(Asked::Object(name)) => Verdict::Object(name.into_owned()),
    };
    let named = request.headers().get_all(header::HOST).iter();
    Seen {
        method: request.method().to_string(),
        target: request.uri().to_string(),
        hosts: named.map(|host| host.as_bytes().to_vec()).collect(),
        verdict,
    }
}

/// A connection that gives the same number of bytes at each reading, and takes whatever is written.
struct Bytewise<'a> {
    left: &'a [u8],
    piece: usize,
}

impl Read for Bytewise<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let (now, left) = self.left.split_at(self.piece.min(self.left.len()).min(into.remaining()));
        into.put_slice(now);
        self.left = left;
        Poll::Ready(Ok(()))
    }
}

impl Write for Bytewise<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
