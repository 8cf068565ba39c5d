//! Signatures of AWS, version 4, in the header `Authorization`: made for the loop `s3-get`, checked by `s3-store`.
//!
//! Both keep the signing key, which changes once a day. Not checked: how old a request is, whether its body has the
//! hash that is signed (a GET has no body), and headers that occur twice.

use ring::{digest, hmac};

/// SHA-256 of no bytes: the body of every GET.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";
const REGION: &str = "us-east-1";

/// An access key and its secret.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The name, which is sent.
    pub access: String,
    /// What is never sent.
    pub secret: String,
}

/// The signing key of one scope: `20130524/us-east-1/s3/aws4_request`.
struct Signing {
    scope: String,
    key: hmac::Key,
}

impl Signing {
    fn new(secret: &str, scope: &str) -> Self {
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let first = key(format!("AWS4{secret}").as_bytes());
        let key = scope.split('/').fold(first, |last, part| key(hmac::sign(&last, part.as_bytes()).as_ref()));
        Self { scope: scope.to_owned(), key }
    }

    /// The signature of a canonical request, as it is sent; `scratch` is memory to use again.
    fn sign(&self, time: &str, request: &[u8], scratch: &mut Vec<u8>) -> [u8; 64] {
        scratch.clear();
        for part in ["AWS4-HMAC-SHA256\n", time, "\n", &self.scope, "\n"] {
            scratch.extend_from_slice(part.as_bytes());
        }
        scratch.extend_from_slice(&hex(digest::digest(&digest::SHA256, request).as_ref()));
        hex(hmac::sign(&self.key, scratch).as_ref())
    }
}

fn hex(bytes: &[u8]) -> [u8; 64] {
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    text
}

/// Writes signed GETs.
pub(crate) struct Signer {
    keys: Keys,
    host: String,
    time: String,
    signing: Signing,
    request: Vec<u8>,
    scratch: Vec<u8>,
}

impl Signer {
    pub fn new(keys: &Keys, host: String) -> Self {
        let (keys, signing) = (keys.clone(), Signing::new("", ""));
        Self { keys, host, time: String::new(), signing, request: Vec::new(), scratch: Vec::new() }
    }

    /// Sets the time of the requests to come, `20130524T000000Z`.
    pub fn at(&mut self, time: String) {
        if self.time.get(..8) != Some(&time[..8]) {
            self.signing = Signing::new(&self.keys.secret, &format!("{}/{REGION}/s3/aws4_request", &time[..8]));
        }
        self.time = time;
    }

    /// Adds a request for a path that needs no escapes.
    pub fn ask(&mut self, path: &str, out: &mut Vec<u8>) {
        let (host, time) = (&*self.host, &*self.time);
        self.request.clear();
        let date = ["\nx-amz-content-sha256:", EMPTY, "\nx-amz-date:", time, "\n\n", SIGNED, "\n", EMPTY];
        for part in ["GET\n", path, "\n\nhost:", host].into_iter().chain(date) {
            self.request.extend_from_slice(part.as_bytes());
        }
        let signature = self.signing.sign(time, &self.request, &mut self.scratch);
        let head = ["GET ", path, " HTTP/1.1\r\nHost: ", host, "\r\nx-amz-content-sha256: ", EMPTY, "\r\nx-amz-date: "];
        let credential = [time, "\r\nAuthorization: AWS4-HMAC-SHA256 Credential=", &self.keys.access, "/"];
        let signed = [&self.signing.scope, ", SignedHeaders=", SIGNED, ", Signature="];
        for part in head.into_iter().chain(credential).chain(signed) {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(&signature);
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// Checks requests that one key may have signed.
pub struct Checker {
    keys: Keys,
    signing: Signing,
    request: Vec<u8>,
    scratch: Vec<u8>,
}

impl Checker {
    /// A checker of requests signed with this key.
    pub fn new(keys: &Keys) -> Self {
        Self { keys: keys.clone(), signing: Signing::new("", ""), request: Vec::new(), scratch: Vec::new() }
    }

    /// Checks the head of a request, as it was sent.
    ///
    /// # Errors
    /// The code of the answer, `SignatureDoesNotMatch` or another one.
    pub fn check(&mut self, head: &str) -> Result<(), &'static str> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
        let header = |name: &str| {
            headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value.trim())
        };
        let given = header("authorization").strip_prefix("AWS4-HMAC-SHA256").ok_or("AccessDenied")?;
        let part = |name: &str| {
            let mut parts = given.split(',').map(str::trim);
            parts.find_map(|part| part.strip_prefix(name)).ok_or("AuthorizationHeaderMalformed")
        };
        let (access, scope) = part("Credential=")?.split_once('/').ok_or("AuthorizationHeaderMalformed")?;
        let (signed, signature, time) = (part("SignedHeaders=")?, part("Signature=")?, header("x-amz-date"));
        if access != self.keys.access {
            return Err("InvalidAccessKeyId");
        }
        let is_signed = |name: &str| signed.split(';').any(|other| other == name);
        if !SIGNED.split(';').all(is_signed) || !scope.starts_with(time.get(..8).unwrap_or("none")) {
            return Err("AuthorizationHeaderMalformed");
        }
        if self.signing.scope != scope {
            self.signing = Signing::new(&self.keys.secret, scope);
        }
        self.request.clear();
        let mut add = |parts: &[&str]| parts.iter().for_each(|part| self.request.extend_from_slice(part.as_bytes()));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query =
            query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut query: Vec<_> = query.map(|(name, value)| (escaped(name, ""), escaped(value, ""))).collect();
        query.sort();
        add(&[method, "\n", &escaped(path, "/"), "\n"]);
        for (number, (name, value)) in query.iter().enumerate() {
            add(&[if number > 0 { "&" } else { "" }, name, "=", value]);
        }
        add(&["\n"]);
        for name in signed.split(';') {
            add(&[name, ":"]);
            header(name).split_ascii_whitespace().enumerate().for_each(|(at, word)| add(&[&" "[..at.min(1)], word]));
            add(&["\n"]);
        }
        add(&["\n", signed, "\n", header("x-amz-content-sha256")]);
        let expected = self.signing.sign(time, &self.request, &mut self.scratch);
        if expected == signature.as_bytes() { Ok(()) } else { Err("SignatureDoesNotMatch") }
    }
}

/// A text with the escapes that the canonical form has, whichever it came with.
pub(crate) fn escaped(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in unescaped(text) {
        let is_kept = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.as_bytes().contains(&byte);
        if is_kept { out.push(char::from(byte)) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    out
}

/// The bytes of a text with escapes; what only looks like an escape stays.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let code = code.filter(|code| !code.starts_with('+')).and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    out
}
