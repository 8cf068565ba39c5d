//! What is sent: method, target, fields, signature, body. Not here: what comes back (`head.rs`, `body.rs`).

use std::fmt;

use bytes::Bytes;

use crate::request_id;
use shoal_core::error::Result;

/// Larger bodies are sent from where they are, in bytes; smaller ones are copied behind their head, which saves a system call.
const COPIED_MAX: usize = 16 << 10;

/// What is done with the target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It is fetched.
    Get,
    /// The body is put there.
    Put,
    /// The body is passed to it.
    Post,
    /// It is removed.
    Delete,
}

impl Method {
    /// As it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

/// One request, besides what its client sends with each.
#[derive(Clone)]
pub struct Request<'a> {
    method: Method,
    target: &'a [u8],
    fields: &'a [u8],
    body: Bytes,
    is_signed: bool,
    is_once: bool,
}

impl<'a> Request<'a> {
    /// A request without own fields and body. `target`: path and query, as they are sent.
    pub fn new(method: Method, target: &'a [u8]) -> Request<'a> {
        Request { method, target, fields: b"", body: Bytes::new(), is_signed: true, is_once: method == Method::Post }
    }

    /// With these header lines, each with its line break. They are not secret. They go along where a redirect leads, unless
    /// they are a [`CONDITION`](crate::CONDITION).
    #[must_use]
    pub fn fields(mut self, fields: &'a [u8]) -> Request<'a> {
        self.fields = fields;
        self
    }

    /// With this body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Request<'a> {
        self.body = body.into();
        self
    }

    /// Sent at most once, as every POST is. Others are sent again, on a new connection, where the one that was kept breaks
    /// before anything of an answer has come: then nothing tells whether it was done.
    #[must_use]
    pub fn once(mut self) -> Request<'a> {
        self.is_once = true;
        self
    }

    pub(crate) fn is_once(&self) -> bool {
        self.is_once
    }

    /// It follows a redirect: a signature is not for there.
    pub(crate) fn after_redirect(mut self) -> Request<'a> {
        self.is_signed = false;
        self
    }

    /// The body, if it is so large that it is sent from where it is.
    pub(crate) fn body_apart(&self) -> Option<&Bytes> {
        Some(&self.body).filter(|body| body.len() > COPIED_MAX)
    }

    pub(crate) fn method(&self) -> Method {
        self.method
    }

    pub(crate) fn own_fields(&self) -> &'a [u8] {
        self.fields
    }

    pub(crate) fn target(&self) -> &'a [u8] {
        self.target
    }
}

/// Target and fields may have what a pre-signed URL has: secrets.
impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({}, {} bytes)", self.method.as_str(), self.body.len())
    }
}

/// A request that is about to be sent, as its signer sees it.
pub struct Unsigned<'a> {
    /// What is done.
    pub method: Method,
    /// Path and query, exactly as they are sent.
    pub target: &'a [u8],
    /// All header lines so far, each with its line break; `Host` is the first.
    pub fields: &'a [u8],
    /// The value of `Shoal-Request-Id`, which is among them; empty without.
    pub id: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// Signs requests. It is called when a request is put on the wire, and again if it is sent again, so a signature is never
/// older than that. What it adds follows no redirect, not even to the same host.
pub trait Sign: Send + Sync {
    /// Appends header lines, each with its line break.
    ///
    /// # Errors
    /// Why the request cannot be signed: it is not sent, and this is its error.
    fn sign(&self, request: &Unsigned<'_>, out: &mut Vec<u8>) -> Result<()>;
}

impl fmt::Debug for dyn Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sign(***)")
    }
}

/// Appends a request with the fields of its client and its id, if any, and its body if that is small. After an error, `out`
/// is as it was. `forwards`: the origin of the service and the header line of a proxy that gets whole URLs.
pub(crate) fn write(
    client_fields: &str,
    forwards: Option<&(String, String)>,
    signer: Option<&dyn Sign>,
    id: &[u8],
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let begin = out.len();
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    if let Some((origin, _)) = forwards {
        out.extend_from_slice(origin.as_bytes());
    }
    out.extend_from_slice(request.target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let fields = out.len();
    out.extend_from_slice(client_fields.as_bytes());
    if !id.is_empty() {
        out.extend_from_slice(request_id::FIELD.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(id);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(request.fields);
    if !request.body.is_empty() || matches!(request.method, Method::Put | Method::Post) {
        out.extend_from_slice(format!("Content-Length: {}\r\n", request.body.len()).as_bytes());
    }
    if let Some(signer) = signer.filter(|_| request.is_signed) {
        let (method, body) = (request.method, &request.body[..]);
        let unsigned = Unsigned { method, target: request.target, fields: &out[fields..], id, body };
        let mut signature = Vec::new();
        if let Err(error) = signer.sign(&unsigned, &mut signature) {
            out.truncate(begin);
            return Err(error);
        }
        out.extend_from_slice(&signature);
    }
    if let Some((_, for_proxy)) = forwards {
        out.extend_from_slice(for_proxy.as_bytes()); // not signed: the service does not get it
    }
    out.extend_from_slice(b"\r\n");
    if request.body_apart().is_none() {
        out.extend_from_slice(&request.body);
    }
    Ok(())
}
