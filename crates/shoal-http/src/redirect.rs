//! Where a redirect leads, and whether it is followed. Pure: requests are sent in `request.rs`.
//!
//! Redirects come from a server and are not trusted. A request follows at most five, only to http and https, and never
//! from https to http. They must stay within the origin (scheme, host and port), unless the user has allowed the other
//! host, or the objects come from many hosts (`Client::leaves`). Then `connect.rs` refuses private addresses. Headers and passwords for the service are not sent to another host, nor anywhere it redirects to. Names of
//! objects never come from redirects.

use crate::message::Method;
use crate::url::{Address, split_port};
use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};

/// Most redirects that one request follows.
pub(crate) const REDIRECTS_MAX: usize = 5;

/// The value of `Location`. It may contain secrets, and is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Location(pub(crate) Vec<u8>);

impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Location(***)")
    }
}

/// Another host that the user allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    host: String,
    /// `None`: the port of the scheme.
    port: Option<u16>,
}

impl AllowedHost {
    /// Parses what a user typed: `host` or `host:port`, an IPv6 address with a port in brackets.
    ///
    /// # Errors
    /// [`Kind::Config`] if it is not a host.
    pub fn parse(text: &str) -> Result<AllowedHost> {
        if text.parse::<std::net::Ipv6Addr>().is_ok() {
            return Ok(AllowedHost { host: text.to_owned(), port: None });
        }
        let (host, port) = split_port(text).ok_or_else(|| {
            Error::new(Kind::Config, "not a valid host")
                .on(&escape(text.as_bytes()))
                .hint("use HOST or HOST:PORT, without a scheme or path")
        })?;
        Ok(AllowedHost { host, port })
    }

    /// Whether it is the host of this address.
    pub fn allows(&self, address: &Address) -> bool {
        let port = self.port.unwrap_or(address.default_port());
        self.host.eq_ignore_ascii_case(&address.host) && port == address.port
    }
}

/// Why a redirect is not followed.
#[derive(Debug, PartialEq, Eq)]
pub struct RedirectRefused {
    /// Where it leads, and why that is not allowed.
    pub why: String,
    /// What a user can do.
    pub hint: Option<String>,
}

impl RedirectRefused {
    fn new(why: impl Into<String>) -> RedirectRefused {
        RedirectRefused { why: why.into(), hint: None }
    }

    pub(crate) fn of(method: Method) -> RedirectRefused {
        RedirectRefused::new(format!("which is not followed for {}", method.as_str()))
    }

    pub(crate) fn too_many() -> RedirectRefused {
        RedirectRefused::new(format!("the last of {} in a row", REDIRECTS_MAX + 1))
    }
}

/// The target of a redirect, or of another reference.
#[derive(Debug, PartialEq, Eq)]
pub struct RedirectTarget {
    /// Without a base path.
    pub address: Address,
    /// Path and query.
    pub target: Vec<u8>,
}

/// Where `location` leads from `target` at `from`, if that is allowed. `service` is the address that the user typed;
/// `leaves`: any other host is allowed too.
pub(crate) fn follow(
    service: &Address,
    allowed: &[AllowedHost],
    leaves: bool,
    from: &Address,
    target: &[u8],
    location: Option<&Location>,
) -> Result<RedirectTarget, RedirectRefused> {
    let location = location.ok_or_else(|| RedirectRefused::new("without a Location"))?;
    let place = resolve(from, target, &location.0)?;
    let to = &place.address;
    if from.is_same_origin(to) {
        return Ok(place);
    }
    let shown = escape(to.origin().as_bytes());
    if from.secure && !to.secure {
        let hint = "without TLS, others on the network can read and change the data; no option allows that";
        return Err(RedirectRefused { why: format!("from https to \"{shown}\""), hint: Some(hint.to_owned()) });
    }
    if !leaves && !service.is_same_origin(to) && !allowed.iter().any(|allowed| allowed.allows(to)) {
        let host = escape(to.authority().as_bytes());
        let hint =
            format!("`allow_host=\"{host}\"` follows it, without the headers and the password given for this service");
        return Err(RedirectRefused { why: format!("to another host, \"{shown}\""), hint: Some(hint) });
    }
    Ok(place)
}

/// Resolves a reference (RFC 3986, 5.2) relative to the target that was requested.
///
/// # Errors
/// If it leads to no address of HTTP, or has a user or password.
pub fn resolve(from: &Address, target: &[u8], location: &[u8]) -> Result<RedirectTarget, RedirectRefused> {
    if location.iter().any(u8::is_ascii_control) {
        return Err(RedirectRefused::new("to an address with control characters"));
    }
    let location = location.split(|&byte| byte == b'#').next().unwrap_or_default();
    let (scheme, rest) = match scheme(location) {
        Some(scheme) => (Some(scheme), &location[scheme.len() + 1..]),
        None => (None, location),
    };
    let secure = match scheme {
        None => from.secure,
        Some(scheme) if scheme.eq_ignore_ascii_case(b"https") => true,
        Some(scheme) if scheme.eq_ignore_ascii_case(b"http") => false,
        Some(scheme) => {
            return Err(RedirectRefused::new(format!("to an address with the scheme \"{}:\"", escape(scheme))));
        }
    };
    let (address, path) = match (scheme, rest.strip_prefix(b"//")) {
        (_, Some(rest)) => {
            let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
            (authority(secure, &rest[..end])?, &rest[end..])
        }
        (Some(_), None) => return Err(RedirectRefused::new("to an address without a host")),
        (None, None) => (Address { base: String::new(), authorization: None, ..from.clone() }, rest),
    };
    let stays = scheme.is_none() && !rest.starts_with(b"//");
    let base = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let (path, query) = match path.iter().position(|&byte| byte == b'?') {
        Some(at) => path.split_at(at),
        None => (path, &[][..]),
    };
    let path = match path {
        [] if stays => base.to_vec(),
        [] => b"/".to_vec(),
        [b'/', ..] => without_dots(path),
        _ => {
            let folder = base.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            without_dots(&[&base[..folder], path].concat())
        }
    };
    let mut target = Vec::with_capacity(path.len() + query.len());
    for &byte in path.iter().chain(query) {
        match byte {
            b'!' | b'#'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => target.push(byte),
            _ => target.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    Ok(RedirectTarget { address, target })
}

/// The scheme at the start of a reference, if it has one.
fn scheme(location: &[u8]) -> Option<&[u8]> {
    let end = location.iter().position(|byte| b":/?".contains(byte)).filter(|&at| location[at] == b':')?;
    location[..end].first()?.is_ascii_alphabetic().then_some(&location[..end])
}

fn authority(secure: bool, authority: &[u8]) -> Result<Address, RedirectRefused> {
    if authority.contains(&b'@') {
        return Err(RedirectRefused::new("to an address with a user or password"));
    }
    let text = std::str::from_utf8(authority).ok();
    let (host, port) = text.and_then(split_port).ok_or_else(|| RedirectRefused::new("to an invalid host"))?;
    Ok(Address::new(secure, host.to_ascii_lowercase(), port))
}

/// Removes the segments `.` and `..` from an absolute path (RFC 3986, 5.2.4).
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = path.split(|&byte| byte == b'/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        match *segment {
            b"." | b".." => {
                if *segment == b".." {
                    kept.pop();
                }
                if is_last {
                    kept.push(b"");
                }
            }
            other => kept.push(other),
        }
    }
    let mut whole = Vec::with_capacity(path.len());
    for segment in kept {
        whole.push(b'/');
        whole.extend_from_slice(segment);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(service: &str, from: &str, allowed: &[&str], location: &str) -> Result<String, String> {
        let address = |text: &str| Address::parse(text).unwrap();
        let allowed: Vec<_> = allowed.iter().map(|text| AllowedHost::parse(text).unwrap()).collect();
        let location = Location(location.as_bytes().to_vec());
        let place = follow(&address(service), &allowed, false, &address(from), b"/a/b?c=d", Some(&location));
        place
            .map(|place| format!("{}{}", place.address.shown(), String::from_utf8(place.target).unwrap()))
            .map_err(|refusal| refusal.why)
    }

    #[test]
    fn references_are_resolved_as_the_rfc_says() {
        for (location, wanted) in [
            ("/x?y=1#z", "http://h/x?y=1"),
            ("x", "http://h/a/x"),
            ("./x/../y", "http://h/a/y"),
            ("..", "http://h/"),
            ("../../../x", "http://h/x"),
            ("?e", "http://h/a/b?e"),
            ("", "http://h/a/b"),
            ("//h/x", "http://h/x"),
            ("http://H:80", "http://h/"),
            ("http://h?x", "http://h/?x"),
            ("/a b\u{e9}\\\"<>", "http://h/a%20b%C3%A9%5C%22%3C%3E"),
            ("/100%25", "http://h/100%25"),
            ("/x:y", "http://h/x:y"),
        ] {
            assert_eq!(go("http://h", "http://h", &[], location).as_deref(), Ok(wanted), "{location}");
        }
    }

    #[test]
    fn another_origin_is_followed_only_if_the_user_named_it() {
        let go = |allowed: &[&str], location: &str| go("http://h", "http://h", allowed, location);
        for other in ["http://o/x", "//o/x", "http://h:81/x", "https://h/x", "http://hh/x", "http://h.o/x"] {
            assert!(go(&[], other).unwrap_err().contains("another host"), "{other}");
        }
        assert!(go(&["o"], "http://o/x").is_ok() && go(&["O"], "https://o/x").is_ok());
        assert!(go(&["o"], "http://o:81/x").is_err() && go(&["o:81"], "http://o:81/x").is_ok());
        assert!(go(&["o"], "http://x.o/x").is_err() && go(&["o:80"], "https://o/x").is_err());
        assert!(go(&["::1"], "http://[::1]/x").is_ok() && go(&["[::1]:8"], "http://[::1]:8/x").is_ok());
    }

    #[test]
    fn of_many_hosts_any_other_is_followed_but_never_to_http_from_https() {
        let go = |from: &str, location: &str| {
            let from = Address::parse(from).unwrap();
            follow(&from, &[], true, &from, b"/a", Some(&Location(location.as_bytes().to_vec()))).is_ok()
        };
        assert!(go("http://h", "http://o/x") && go("http://h", "https://o/x"));
        assert!(!go("https://h", "http://o/x") && !go("http://h", "file:///x"));
    }

    #[test]
    fn https_never_leads_to_http_and_the_service_itself_is_always_allowed() {
        assert!(go("https://h", "https://h", &["h", "h:80"], "http://h/x").unwrap_err().contains("from https"));
        assert!(go("http://h", "https://o", &["h", "o"], "http://h/x").unwrap_err().contains("from https"));
        assert!(go("http://h", "http://o", &[], "http://h/x").is_ok());
    }

    #[test]
    fn invalid_targets_and_hosts_are_refused() {
        for location in [
            "file:///etc/passwd",
            "ftp://h/x",
            "http:x",
            "http:/x",
            "http://",
            "http://u:p@h/x",
            "//u@h/x",
            "http://h:99999/",
            "http://h:+80/",
            "http://h\\@o/x",
            "http://h h/",
            "/x\r\ny",
        ] {
            assert!(go("http://h", "http://h", &["h"], location).is_err(), "{location:?}");
        }
        for text in ["", "http://h", "h/x", "h:", "h:0", "*", "u@h"] {
            assert!(AllowedHost::parse(text).is_err(), "{text}");
        }
    }
}
