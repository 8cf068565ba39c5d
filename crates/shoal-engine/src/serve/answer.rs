//! From one request to its answer.
//!
//! Every answer carries the request's `Shoal-Request-Id` again, refusals too; by it a client that pipelines knows that
//! an answer is the one to its question. (A request that is no HTTP at all is refused by hyper, without it.)
//! Not here: which requests are let in, and what they ask for (`asked.rs`), the listing itself (`list.rs`), files (`dir.rs`), conditions and ranges (`conditions.rs`).

use super::asked::{Asked, asked};
use super::body::{AnswerBody, Record, Stream, StreamFrom};
use super::conditions::{Verdict, judge};
use super::dir::{OpenFile, Refusal, WHOLE_MAX};
use super::hosts::is_browser;
use super::list;
use super::shared::{Held, Worker};
use super::wire::Wire;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

static REQUEST_ID: HeaderName = HeaderName::from_static("shoal-request-id");
static SAME_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

type Answered = Response<AnswerBody>;

pub(super) enum Answer {
    Ready(Answered),
    Later(Pin<Box<dyn Future<Output = Answered> + Send>>),
}

/// An answer before it is counted: a streamed one counts itself.
struct Reply {
    status: StatusCode,
    body: ReplyBody,
    headers: HeaderMap,
}

enum ReplyBody {
    Whole(AnswerBody),
    Stream { from: StreamFrom, first: u64, end: u64 },
}

pub(super) fn answer(worker: &Arc<Worker>, wire: &Arc<Wire>, request: Request<Incoming>) -> Answer {
    let shared = &worker.shared;
    let reply = match asked(&shared.options, &shared.hosts, &request) {
        Ok(Asked::List(marker)) => match list::ready_page(shared, marker.as_deref()) {
            Ok(Some(page)) => Ok(listed(page)),
            Ok(None) => {
                let marker = marker.map(Cow::into_owned);
                return Answer::Later(Box::pin(walk(Arc::clone(worker), Arc::clone(wire), request, marker)));
            }
            Err(refusal) => Err(refusal),
        },
        Ok(Asked::Object(name)) => object(worker, &request, &name),
        Err(refusal) => Err(refusal),
    };
    Answer::Ready(finish(worker, &request, reply))
}

/// A page for which the directory must be read: on another thread.
async fn walk(worker: Arc<Worker>, wire: Arc<Wire>, request: Request<Incoming>, marker: Option<String>) -> Answered {
    let page = list::walked_page(Arc::clone(&worker.shared), wire, marker).await;
    finish(&worker, &request, page.map(listed))
}

fn listed(page: Bytes) -> Reply {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Reply { status: StatusCode::OK, body: ReplyBody::Whole(AnswerBody::whole(page)), headers }
}

/// Where the bytes of an object come from.
enum Found {
    File(OpenFile),
    Synthetic(u64),
}

fn object(worker: &Worker, request: &Request<Incoming>, name: &[u8]) -> Result<Reply, Refusal> {
    let missing = (StatusCode::NOT_FOUND, "there is no object of this name");
    let (found, size, tag) = match &worker.shared.held {
        Held::Directory(directory) => {
            let file = directory.object(name)?;
            let (size, tag) = (file.size(), file.tag());
            (Found::File(file), size, tag)
        }
        Held::Synthetic(objects) => {
            let index = objects.index(name).ok_or(missing)?;
            (Found::Synthetic(index), objects.size, objects.tag(index))
        }
    };
    let is_get = *request.method() == Method::GET;
    let verdict = judge(request.headers(), is_get, &tag, size);
    let mut headers = HeaderMap::with_capacity(8);
    let tag = HeaderValue::from_maybe_shared(Bytes::from(tag)).map_err(|_| missing)?;
    headers.insert(header::ETAG, tag);
    if size > WHOLE_MAX {
        // Ranges of small objects are answered too, but nobody needs to be told so: it would be a tenth of their answer.
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    let (status, first, end) = match verdict {
        Verdict::Whole => (StatusCode::OK, 0, size),
        Verdict::Part { first, end } => {
            let range = format!("bytes {first}-{}/{size}", end - 1);
            insert_text(&mut headers, header::CONTENT_RANGE, range);
            (StatusCode::PARTIAL_CONTENT, first, end)
        }
        Verdict::NotModified => return Ok(Reply::empty(StatusCode::NOT_MODIFIED, headers)),
        Verdict::Failed => return Ok(Reply::empty(StatusCode::PRECONDITION_FAILED, headers)),
        Verdict::OutOfRange => {
            insert_text(&mut headers, header::CONTENT_RANGE, format!("bytes */{size}"));
            return Ok(Reply::empty(StatusCode::RANGE_NOT_SATISFIABLE, headers));
        }
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if !is_get {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(end - first));
        return Ok(Reply::empty(status, headers));
    }
    let body = content(worker, found, first, end)?;
    Ok(Reply { status, body, headers })
}

fn content(worker: &Worker, found: Found, first: u64, end: u64) -> Result<ReplyBody, Refusal> {
    let length = end - first;
    if length > WHOLE_MAX {
        let from = match found {
            Found::File(file) => StreamFrom::File(file),
            Found::Synthetic(index) => StreamFrom::Synthetic(index),
        };
        return Ok(ReplyBody::Stream { from, first, end });
    }
    let bytes = match found {
        Found::File(file) => file.read_exactly(first, length as usize)?,
        Found::Synthetic(index) => match worker.synthetic() {
            Some(objects) => objects.bytes(index, first, length as usize),
            None => Vec::new(),
        },
    };
    Ok(ReplyBody::Whole(AnswerBody::whole(bytes)))
}

impl Reply {
    fn empty(status: StatusCode, headers: HeaderMap) -> Self {
        Self { status, body: ReplyBody::Whole(AnswerBody::empty()), headers }
    }

    fn refused((status, text): Refusal) -> Self {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        let body = ReplyBody::Whole(AnswerBody::whole(format!("{text}\n")));
        Self { status, body, headers }
    }
}

/// Makes the response, with the request's id, and counts it or arranges for it to count itself.
fn finish(worker: &Arc<Worker>, request: &Request<Incoming>, reply: Result<Reply, Refusal>) -> Answered {
    let Reply { status, body, mut headers } = reply.unwrap_or_else(Reply::refused);
    if let Some(id) = request.headers().get(&REQUEST_ID) {
        headers.insert(REQUEST_ID.clone(), id.clone());
    }
    if !request.body().is_end_stream() {
        // What follows is the body that nobody reads, and must not be taken for a request.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if is_browser(request.headers()) {
        // A browser that does not say which page it asks for (an old one, or any over http beyond loopback) must not run
        // an object as that page's script, nor show it there. Only browsers get these: 76 bytes are a fifth of the answer
        // for a small object, and programs do not heed them.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(SAME_ORIGIN.clone(), HeaderValue::from_static("same-origin"));
    }
    let method = request.method();
    let uri = request.uri();
    let target = uri.path_and_query().map_or(uri.path(), |target| target.as_str());
    let body = match body {
        ReplyBody::Whole(body) => {
            let sent = if *method == Method::HEAD { 0 } else { body.size_hint().lower() };
            worker.record(method.as_str(), target, status.as_u16(), sent);
            body
        }
        ReplyBody::Stream { from, first, end } => {
            let record = Record {
                worker: Arc::clone(worker),
                method: method.as_str().to_owned(),
                target: target.to_owned(),
                status: status.as_u16(),
                sent: 0,
            };
            AnswerBody::Streamed(Box::new(Stream { from, next: first, end, record }))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: String) {
    // Digits and a few signs are always a header's value.
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
        headers.insert(name, value);
    }
}
