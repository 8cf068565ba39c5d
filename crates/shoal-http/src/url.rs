//! Addresses of services: parsing what a user typed, encoding names for requests, hiding secrets.

use std::fmt;
use std::net::IpAddr;

use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};

/// Text that must never be shown: `Debug` prints stars, and there is no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Text that is not shown.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// A parsed `http://host:port/base` or `https://…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whether it is https.
    pub secure: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// The port, also if it is the scheme's.
    pub port: u16,
    /// Path before every request, without a trailing slash.
    pub base: String,
    /// `Basic …`, from `user:password@` in the URL.
    pub authorization: Option<Secret>,
}

impl Address {
    /// One without a base path and a password.
    pub fn new(secure: bool, host: String, port: Option<u16>) -> Address {
        let port = port.unwrap_or(default_port(secure));
        Address { secure, host, port, base: String::new(), authorization: None }
    }

    /// Whether both have the same scheme, host and port, so that secrets for one may be sent to the other.
    pub fn is_same_origin(&self, other: &Address) -> bool {
        (self.secure, self.port) == (other.secure, other.port) && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Whether an address that this service has written is its own. Behind a server that adds TLS, services often do not know
    /// of it: the same host with the other scheme on its usual port is meant to be this one.
    pub fn is_same_server(&self, written: &Address) -> bool {
        let is_usual = |address: &Address| address.port == address.default_port();
        let is_behind_tls = self.secure != written.secure
            && is_usual(written)
            && (self.secure || is_usual(self))
            && self.host.eq_ignore_ascii_case(&written.host);
        is_behind_tls || self.is_same_origin(written)
    }

    /// The port if the address names none.
    pub fn default_port(&self) -> u16 {
        default_port(self.secure)
    }

    /// Parses what a user typed.
    ///
    /// # Errors
    /// [`Kind::Config`] with the reason. The text never contains the user or password.
    pub fn parse(text: &str) -> Result<Address> {
        let Some((scheme, rest)) = text.split_once("://") else { return Err(refused(text, "it has no scheme")) };
        let secure = scheme.eq_ignore_ascii_case("https");
        if !secure && !scheme.eq_ignore_ascii_case("http") {
            return Err(refused(text, "its scheme is neither http nor https"));
        }
        if rest.contains(['?', '#']) || rest.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(refused(text, "it has a query, a fragment or white space"));
        }
        let (authority, base) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, host_port) = match authority.rsplit_once('@') {
            Some((user, host_port)) => (Some(user), host_port),
            None => (None, authority),
        };
        let (host, port) = split_port(host_port).ok_or_else(|| refused(text, "its host or port is not valid"))?;
        let authorization = match user {
            Some(user) => {
                let plain = decode(user)
                    .ok_or_else(|| refused(text, "its user or password is not percent-encoded correctly"))?;
                Some(Secret::new(format!("Basic {}", base64(&plain))))
            }
            None => None,
        };
        let base = base.trim_end_matches('/').to_owned();
        Ok(Address { base, authorization, ..Address::new(secure, host, port) })
    }

    /// `host:port`, as in a `Host` field and in messages.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    /// `http://host:port/base`, without secrets.
    pub fn shown(&self) -> String {
        escape(format!("{}{}", self.origin(), self.base).as_bytes())
    }

    /// `http://host:port`.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.authority())
    }
}

fn refused(text: &str, why: &str) -> Error {
    let text = without_password(text);
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    Error::new(Kind::Config, format!("not a valid service URL: {why}"))
        .on(&escape(shown.as_bytes()))
        .hint("use http://host:port or https://host:port/base")
}

/// An address for messages, without everything before its last '@', which may be a password.
pub fn without_password(text: &str) -> String {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| &text[..scheme.len() + 3]);
    match text.rfind('@') {
        Some(at) => format!("{scheme}{}", &text[at + 1..]),
        None => text.to_owned(),
    }
}

fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// A host, without brackets, and its port if there is one.
pub(crate) fn split_port(text: &str) -> Option<(String, Option<u16>)> {
    split_host(text).map(|(host, port)| (host.to_owned(), port))
}

/// The same, where they lie in the text.
pub fn split_host(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
    } else {
        text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
    };
    let legal = host.parse::<IpAddr>().is_ok()
        || !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    legal.then_some(())?;
    let port = match port {
        None => None,
        // Digits only: `parse` would accept a sign.
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(port.parse().ok().filter(|&port| port != 0)?)
        }
        Some(_) => return None,
    };
    Some((host, port))
}

/// Decodes percent-encoding, once; `None` if it is not correct.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let pair = [bytes.next()?, bytes.next()?];
            if !pair.iter().all(u8::is_ascii_hexdigit) {
                return None; // `from_str_radix` would take a sign
            }
            plain.push(u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?);
        } else {
            plain.push(byte);
        }
    }
    Some(plain)
}

/// These bytes in base64, with padding.
pub fn base64(plain: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in plain.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= group.len() { char::from(ALPHABET[value as usize]) } else { '=' });
        }
    }
    text
}

/// Appends a name in percent-encoding. Unreserved characters (RFC 3986) are kept, and `/` unless `encode_slash`.
pub fn encode_name(out: &mut Vec<u8>, name: &[u8], encode_slash: bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in name {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            b'/' if !encode_slash => out.push(byte),
            _ => out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let address = Address::parse("http://u:p%40ss@files.local:8080/base/").unwrap();
        assert_eq!((&*address.host, address.port, &*address.base), ("files.local", 8080, "/base"));
        assert_eq!(address.authorization.unwrap().reveal(), "Basic dTpwQHNz");
        assert_eq!(Address::parse("http://[::1]:81").unwrap().authority(), "[::1]:81");
        assert_eq!(Address::parse("http://h").unwrap().authority(), "h");
        assert_eq!(Address::parse("HTTPS://h/x").unwrap().shown(), "https://h/x");
        assert_eq!(Address::parse("https://h:80").unwrap().shown(), "https://h:80");
        assert_eq!(Address::parse("https://[::1]").unwrap().port, 443);
    }

    #[test]
    fn what_is_no_address_is_refused_without_the_password() {
        let bad =
            ["ftp://h", "http://", "http://h:x", "http://h:0", "http://a b", "http://h/?q", "h:80", "http://[::g]"];
        for text in bad {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        let error = Address::parse("http://user:hunter2@h:x/p").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("h:x"), "{error}");
    }

    #[test]
    fn names_are_encoded() {
        let encoded = |slash| {
            let mut out = Vec::new();
            encode_name(&mut out, "a/b c%2e?é".as_bytes(), slash);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(encoded(false), "a/b%20c%252e%3F%C3%A9");
        assert_eq!(encoded(true), "a%2Fb%20c%252e%3F%C3%A9");
    }
}
