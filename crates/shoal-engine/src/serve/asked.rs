//! From a request to what it asks for: whether it is let in, and the page or the object that its target names.
//!
//! Nothing here touches a file or a snapshot, so that a fuzz target can run all of it (`fuzzing.rs`).
//! Not here: the answers (`answer.rs`), and whether the name is one of an object (`dir.rs`).

use super::dir::Refusal;
use super::hosts::{HostRule, is_cross_site};
use super::options::Options;
use hyper::body::Body;
use hyper::{Method, Request, StatusCode, Uri, Version, header};
use std::borrow::Cow;

const FOREIGN: Refusal = (
    StatusCode::FORBIDDEN,
    "this service does not answer for this host name: use its address, or allow the name with `allow_host=NAME`",
);
const CROSS_SITE: Refusal =
    (StatusCode::FORBIDDEN, "a browser sent this request for a page of another site, which must not read these files");

/// What is asked for, once the request has been let in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    List(Option<Cow<'a, str>>),
    Object(Cow<'a, [u8]>),
}

/// What a request asks for.
pub(super) fn asked<'a, B: Body>(
    options: &Options,
    hosts: &HostRule,
    request: &'a Request<B>,
) -> Result<Asked<'a>, Refusal> {
    admit(hosts, request)?;
    let path = request.uri().path();
    if let Some(name) = path.strip_prefix(options.get_path.as_str()) {
        return Ok(Asked::Object(decode(name)?));
    }
    if path == options.list_path {
        return Ok(Asked::List(marker(request.uri(), &options.marker_param)?));
    }
    Err((StatusCode::NOT_FOUND, "there is nothing at this path"))
}

/// Whether the request may be looked at at all.
fn admit<B: Body>(hosts: &HostRule, request: &Request<B>) -> Result<(), Refusal> {
    let mut given = request.headers().get_all(header::HOST).iter();
    match (given.next(), given.next()) {
        (Some(host), None) if hosts.allows(host.as_bytes()) => {}
        (Some(_), None) => return Err(FOREIGN),
        (None, _) if request.version() == Version::HTTP_10 => {}
        _ => return Err((StatusCode::BAD_REQUEST, "a request must have exactly one Host header")),
    }
    if let Some(authority) = request.uri().authority()
        && !hosts.allows(authority.as_str().as_bytes())
    {
        return Err(FOREIGN);
    }
    if is_cross_site(request.headers()) {
        return Err(CROSS_SITE);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported"));
    }
    if !request.body().is_end_stream() {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "a request must not have a body"));
    }
    Ok(())
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

/// Percent-decodes, once; the result is validated where it is opened.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_once_and_bad_escapes_refused() {
        assert_eq!(*decode("a%2Fb%252f+").unwrap(), *b"a/b%2f+");
        assert_eq!(*decode("%e6%97%a5").unwrap(), *"日".as_bytes());
        for bad in ["%", "%2", "a%zz", "%+1"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }
}
