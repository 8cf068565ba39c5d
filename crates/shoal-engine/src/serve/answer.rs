//! From one request to its answer: who may ask, for what, and what comes back.
//!
//! Every answer carries the request's `Shoal-Request-Id` again, refusals too; by it a client that pipelines knows that
//! an answer is the one to its question. (A request that is no HTTP at all is refused by hyper, without it.)
//! Not here: the listing itself (`list.rs`), files (`dir.rs`), conditions and ranges (`conditions.rs`).

use super::body::{AnswerBody, Record, Stream, StreamFrom, WHOLE_MAX};
use super::conditions::{Verdict, judge};
use super::dir::{OpenFile, Refusal};
use super::list;
use super::threads::{Held, Worker};
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use std::borrow::Cow;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

static REQUEST_ID: HeaderName = HeaderName::from_static("shoal-request-id");

type Answered = Response<AnswerBody>;

pub(super) enum Answer {
    Ready(Answered),
    Later(Pin<Box<dyn Future<Output = Answered> + Send>>),
}

/// Which `Host` a request may name. A page in a browser on this machine can be made to ask a loopback address under a
/// name of its own choice (DNS rebinding); the `Host` it sends gives it away.
#[derive(Debug)]
pub(super) enum HostRule {
    Any,
    /// Names of this machine alone; the address itself is first in the order of likelihood.
    Loopback(Vec<u8>),
}

impl HostRule {
    pub(super) fn of(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::Loopback(address.to_string().into_bytes()) } else { Self::Any }
    }

    fn allows(&self, host: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback(own) => host == own || is_loopback_name(host),
        }
    }
}

/// `localhost`, 127.0.0.0/8 or `[::1]`, with any port: it may have been forwarded.
fn is_loopback_name(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if let Some(inner) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().is_ok_and(|address| IpAddr::V6(address).is_loopback());
    }
    name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// What is asked for, once the request has been let in.
enum Asked<'a> {
    List(Option<Cow<'a, str>>),
    Object(Cow<'a, [u8]>),
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

pub(super) fn answer(worker: &Arc<Worker>, request: Request<Incoming>) -> Answer {
    let asked = admit(worker, &request).and_then(|()| route(worker, &request));
    let reply = match asked {
        Ok(Asked::List(marker)) => match list::ready_page(&worker.shared, marker.as_deref()) {
            Ok(Some(page)) => Ok(listed(page)),
            Ok(None) => {
                let marker = marker.map(Cow::into_owned);
                return Answer::Later(Box::pin(walk(Arc::clone(worker), request, marker)));
            }
            Err(refusal) => Err(refusal),
        },
        Ok(Asked::Object(name)) => object(worker, &request, &name),
        Err(refusal) => Err(refusal),
    };
    Answer::Ready(finish(worker, &request, reply))
}

/// The first page of a directory: its names are gathered on another thread.
async fn walk(worker: Arc<Worker>, request: Request<Incoming>, marker: Option<String>) -> Answered {
    let page = list::walked_page(Arc::clone(&worker.shared), marker).await;
    finish(&worker, &request, page.map(listed))
}

/// Whether the request may be looked at at all.
fn admit(worker: &Worker, request: &Request<Incoming>) -> Result<(), Refusal> {
    let hosts = &worker.shared.hosts;
    let mut given = request.headers().get_all(header::HOST).iter();
    let foreign = (
        StatusCode::FORBIDDEN,
        "the host of this request is not this machine; ask 127.0.0.1 or localhost, or bind to another address",
    );
    match (given.next(), given.next()) {
        (Some(host), None) if hosts.allows(host.as_bytes()) => {}
        (Some(_), None) => return Err(foreign),
        (None, _) if request.version() == Version::HTTP_10 => {}
        _ => return Err((StatusCode::BAD_REQUEST, "a request names its host, once")),
    }
    if let Some(authority) = request.uri().authority()
        && !hosts.allows(authority.as_str().as_bytes())
    {
        return Err(foreign);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered"));
    }
    if !request.body().is_end_stream() {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "a request carries no body here"));
    }
    Ok(())
}

fn route<'a>(worker: &Worker, request: &'a Request<Incoming>) -> Result<Asked<'a>, Refusal> {
    let options = &worker.shared.options;
    let path = request.uri().path();
    if let Some(name) = path.strip_prefix(options.get_path.as_str()) {
        return Ok(Asked::Object(decode(name)?));
    }
    if path == options.list_path {
        return Ok(Asked::List(marker(request.uri(), &options.marker_param)?));
    }
    Err((StatusCode::NOT_FOUND, "there is nothing at this path"))
}

/// The marker parameter of the query; an empty one is none.
fn marker<'a>(uri: &'a Uri, param: &str) -> Result<Option<Cow<'a, str>>, Refusal> {
    let pairs = uri.query().unwrap_or("").split('&');
    let found = pairs.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == param);
    let Some((_, value)) = found.filter(|(_, value)| !value.is_empty()) else {
        return Ok(None);
    };
    let refused = (StatusCode::BAD_REQUEST, "the marker is not UTF-8");
    Ok(Some(match decode(value)? {
        Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| refused)?),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| refused)?),
    }))
}

/// Percent-decodes, once; what results is checked by whoever opens it.
fn decode(text: &str) -> Result<Cow<'_, [u8]>, Refusal> {
    let bytes = text.as_bytes();
    if memchr::memchr(b'%', bytes).is_none() {
        return Ok(Cow::Borrowed(bytes));
    }
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
                return Err((StatusCode::BAD_REQUEST, "a percent sign needs two hexadecimal digits"));
            };
            out.push((high * 16 + low) as u8);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    Ok(Cow::Owned(out))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_allowed_on_loopback() {
        let rule = HostRule::of("127.0.0.1:8080".parse().unwrap());
        for host in ["127.0.0.1:8080", "127.0.0.1", "localhost", "LocalHost:9", "127.9.9.9:1", "[::1]:8080", "[::1]"] {
            assert!(rule.allows(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "128.0.0.1",
            "[::2]",
            "::1",
            "127.0.0.1:8x",
            "127.0.0.1.example.com",
            "user@localhost",
        ] {
            assert!(!rule.allows(host.as_bytes()), "{host}");
        }
        let anywhere = HostRule::of("0.0.0.0:8080".parse().unwrap());
        assert!(anywhere.allows(b"example.com"));
    }

    #[test]
    fn names_are_decoded_once_and_bad_escapes_refused() {
        assert_eq!(*decode("a%2Fb%252f+").unwrap(), *b"a/b%2f+");
        assert_eq!(*decode("%e6%97%a5").unwrap(), *"日".as_bytes());
        for bad in ["%", "%2", "a%zz", "%+1"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }
}
