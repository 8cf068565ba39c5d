//! A URL of a list, taken apart: which host, which request, which name. Pure.
//!
//! A URL is a line that others may have written, so what is wrong with it is a reason for a failure, without secrets.

use ring::digest::{SHA256, digest};
use shoal_http::{Address, decode, split_host};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::HostId;

/// A URL, with what stands for its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    /// All of it but the fragment.
    pub text: &'a str,
    secure: bool,
    /// `user:password`.
    user: Option<&'a str>,
    /// Host and port, as in the URL.
    authority: &'a str,
    /// Path and query.
    target: &'a str,
}

/// Takes URLs apart. Of one that begins like one before, only the rest is looked at.
#[derive(Debug)]
pub(super) struct Parser {
    /// Beginnings, by their hash. A later one takes the place of an earlier one.
    known: [Known; KNOWN],
    /// Which of them was the last one.
    last: usize,
}

/// Lists often alternate between some hosts.
const KNOWN: usize = 64;

/// How a URL began.
#[derive(Debug)]
struct Known {
    /// The URL, to where its target begins.
    begin: String,
    secure: bool,
    /// Where user and authority begin in it.
    user: Option<usize>,
    authority: usize,
    host: HostId,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser { known: [const { Known::none() }; KNOWN], last: 0 }
    }
}

impl Parser {
    /// Takes a URL apart, as `Url::parse` does; also returns its host.
    ///
    /// # Errors
    /// Those of `Url::parse`.
    pub fn parse<'a>(&mut self, text: &'a str) -> Result<(Url<'a>, HostId), String> {
        let whole = text;
        let text = without_fragment(text);
        let last = &self.known[self.last].begin;
        let is_last = !last.is_empty() && target_at(text.as_bytes(), last).is_some();
        let (begin, target) = text.split_at(if is_last { last.len() } else { target_begin(text) });
        if !is_last {
            self.last = xxh3_64(begin.as_bytes()) as usize % KNOWN;
        }
        let known = &mut self.known[self.last];
        let is_known = is_last || known.begin == begin && !begin.is_empty();
        if is_known && !has_control(&whole[begin.len()..]) {
            let (user, authority) =
                (known.user.map(|from| &begin[from..known.authority - 1]), &begin[known.authority..]);
            return Ok((Url { text, secure: known.secure, user, authority, target }, known.host));
        }
        let url = Url::parse(whole)?;
        let scheme = if url.secure { "https://" } else { "http://" }.len();
        known.begin.clear();
        known.begin.push_str(begin);
        known.secure = url.secure;
        known.user = url.user.map(|_| scheme);
        known.authority = scheme + url.user.map_or(0, |user| user.len() + 1);
        known.host = url.host_id();
        Ok((url, known.host))
    }
}

impl Known {
    const fn none() -> Known {
        Known { begin: String::new(), secure: false, user: None, authority: 0, host: HostId(0) }
    }
}

/// Where the target of a URL without a fragment begins, if it is one that can be fetched.
fn target_begin(text: &str) -> usize {
    let bytes = text.as_bytes();
    let authority = memchr::memchr(b':', bytes).filter(|&at| bytes[at..].starts_with(b"://")).map_or(0, |at| at + 3);
    memchr::memchr2(b'/', b'?', &bytes[authority..]).map_or(bytes.len(), |at| authority + at)
}

impl<'a> Url<'a> {
    /// Takes a URL apart; the error says why it is none that can be fetched, without showing it.
    pub fn parse(text: &'a str) -> Result<Url<'a>, String> {
        if has_control(text) {
            return Err("the URL has control characters".to_owned());
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(match text.split_once(':') {
                Some((scheme, _)) if is_scheme(scheme) => refused(scheme),
                _ => "not a URL: it does not begin with http:// or https://".to_owned(),
            });
        };
        let secure = scheme.eq_ignore_ascii_case("https");
        if !secure && !scheme.eq_ignore_ascii_case("http") {
            return Err(if is_scheme(scheme) { refused(scheme) } else { "not a URL".to_owned() });
        }
        let (text, rest) = (without_fragment(text), without_fragment(rest));
        let (authority, target) = rest.split_at(memchr::memchr2(b'/', b'?', rest.as_bytes()).unwrap_or(rest.len()));
        if authority.contains('\\') {
            // Browsers read it as a slash, others do not: then the host is another one.
            return Err("its host or port is not valid".to_owned());
        }
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        if user.is_some_and(|user| decode(user).is_none()) {
            return Err("its user or password is not percent-encoded correctly".to_owned());
        }
        if split_host(authority).is_none() {
            return Err(match authority.is_ascii() {
                true => "its host or port is not valid".to_owned(),
                false => "its host is not ASCII: write it in punycode (xn--…)".to_owned(),
            });
        }
        Ok(Url { text, secure, user, authority, target })
    }

    /// The host with its scheme and port. The hash is a cryptographic one: nothing that a list can name may be taken for
    /// another host of it.
    pub fn host_id(&self) -> HostId {
        let (host, port) = self.host_and_port();
        let mut named = host.to_ascii_lowercase().into_bytes();
        named.extend_from_slice(&port.to_le_bytes());
        named.push(self.secure.into());
        let id = digest(&SHA256, &named).as_ref().first_chunk().map_or(1, |first| u64::from_le_bytes(*first));
        HostId(id.max(1)) // 0 stands for none
    }

    fn host_and_port(&self) -> (&'a str, u16) {
        let (host, port) = split_host(self.authority).unwrap_or((self.authority, None)); // it has been: `parse` looks
        (host, port.unwrap_or(if self.secure { 443 } else { 80 }))
    }

    /// Whether requests for it go to this address, apart from its user.
    pub fn is_at(&self, address: &Address) -> bool {
        let (host, port) = self.host_and_port();
        (self.secure, port) == (address.secure, address.port) && host.eq_ignore_ascii_case(&address.host)
    }

    /// The address of the service, as a user would type it.
    pub fn service(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let user = self.user.map_or_else(String::new, |user| format!("{user}@"));
        format!("{scheme}://{user}{}", self.authority)
    }

    /// `user:password`.
    pub fn user(&self) -> Option<&'a str> {
        self.user
    }

    /// Appends path and query as they are requested.
    pub fn push_target(&self, out: &mut Vec<u8>) {
        push_target(self.target.as_bytes(), out);
    }

    /// The host, and its port if the URL names one.
    pub fn host(&self) -> String {
        match split_host(self.authority) {
            Some((host, Some(port))) => format!("{}:{port}", host.to_ascii_lowercase()),
            Some((host, None)) => host.to_ascii_lowercase(),
            None => String::new(), // `parse` looks
        }
    }

    /// Appends the path, decoded once, without the first slash; `None` if it is not percent-encoded correctly.
    pub fn push_path(&self, out: &mut Vec<u8>) -> Option<()> {
        let path = &self.target[..memchr::memchr(b'?', self.target.as_bytes()).unwrap_or(self.target.len())];
        let path = path.strip_prefix('/').unwrap_or(path);
        match path.contains('%') {
            true => out.extend_from_slice(&decode(path)?),
            false => out.extend_from_slice(path.as_bytes()),
        }
        Some(())
    }

    /// All of it but user, password and fragment, to be hashed.
    pub fn without_user(&self) -> Vec<u8> {
        let mut text = format!("{}://{}", if self.secure { "https" } else { "http" }, self.host()).into_bytes();
        self.push_target(&mut text);
        text
    }
}

/// Appends a target as it is requested: path and query, without the fragment.
pub(super) fn push_target(target: &[u8], out: &mut Vec<u8>) {
    if target.first() != Some(&b'/') {
        out.push(b'/');
    }
    let mut rest = target;
    while let Some(at) = rest.iter().position(|&byte| !PLAIN[byte as usize]) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(format!("%{:02X}", rest[at]).as_bytes());
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Bytes of a target that are sent as they are.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = matches!(byte as u8, b'!' | b'$'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~');
        byte += 1;
    }
    plain
};

fn without_fragment(text: &str) -> &str {
    &text[..memchr::memchr(b'#', text.as_bytes()).unwrap_or(text.len())]
}

fn has_control(text: &str) -> bool {
    text.bytes().fold(false, |found, byte| found | (byte < b' ') | (byte == 0x7f))
}

/// What is behind `service` in a URL without a fragment; `None` if it is of another service.
pub(super) fn target_at<'a>(url: &'a [u8], service: &str) -> Option<&'a [u8]> {
    let rest = url.strip_prefix(service.as_bytes())?;
    matches!(rest.first(), None | Some(b'/' | b'?')).then_some(rest)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.len() <= 20
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn refused(scheme: &str) -> String {
    format!("its scheme is \"{scheme}\": only http and https are fetched")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> String {
        let mut out = Vec::new();
        Url::parse(text).unwrap().push_target(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn path(url: &str) -> Option<String> {
        let mut path = Vec::new();
        Url::parse(url).unwrap().push_path(&mut path)?;
        Some(String::from_utf8(path).unwrap())
    }

    #[test]
    fn a_url_is_taken_apart() {
        let url = Url::parse("HTTP://u:p%40@Files.Local:8080/a%20b/c?q=1#part").unwrap();
        assert_eq!((url.host(), path(url.text)), ("files.local:8080".to_owned(), Some("a b/c".to_owned())));
        assert_eq!(url.service(), "http://u:p%40@Files.Local:8080");
        assert_eq!(url.without_user(), b"http://files.local:8080/a%20b/c?q=1");
        assert_eq!(target("http://h"), "/");
        assert_eq!(target("http://h?x"), "/?x");
        assert_eq!(target("http://h/a b\"é%41"), "/a%20b%22%C3%A9%41");
        for (url, wanted) in [("", Some("")), ("%2e%2e%2Fx", Some("../x")), ("%+1", None), ("x%4", None)] {
            assert_eq!(path(&format!("http://h/{url}")).as_deref(), wanted, "{url}");
        }
        assert_eq!(path("http://h/%25%34%31").unwrap(), "%41", "decoded once");
    }

    #[test]
    fn the_target_of_a_known_service_is_the_one_of_the_url() {
        assert_eq!(target_at(b"http://u@h:81/x?y", "http://u@h:81"), Some(&b"/x?y"[..]));
        assert_eq!(target_at(b"http://h", "http://h"), Some(&b""[..]));
        for (url, service) in
            [("http://h:81/x", "http://h"), ("http://host/x", "http://h"), ("http://h@o/", "http://h")]
        {
            assert_eq!(target_at(url.as_bytes(), service), None);
        }
    }

    #[test]
    fn a_url_that_begins_like_one_before_is_taken_apart_as_if_alone() {
        let begins =
            ["http://h", "HTTP://h", "https://h", "http://u@h", "http://u:p@H:81", "http://h:", "http://[::1]:8"];
        let ends = ["", "/", "/x?y#z", "?x", "#z", ":81/x", "ost/x", "@o/", "/a\tb", "\x7f", "\\x", "/é#é", "%/x"];
        let mut all = Parser::default();
        for first in begins {
            for text in begins.iter().flat_map(|begin| ends.iter().map(move |end| format!("{begin}{end}"))) {
                let mut parser = Parser::default();
                let _ = parser.parse(&format!("{first}/first"));
                let wanted = Url::parse(&text).map(|url| (url.host_id(), url));
                assert_eq!(parser.parse(&text).map(|(url, host)| (host, url)), wanted, "{text} after {first}");
                assert_eq!(all.parse(&text).map(|(url, host)| (host, url)), wanted, "{text} after all");
            }
        }
    }

    #[test]
    fn a_host_is_the_same_in_any_case_and_with_its_default_port() {
        let id = |text: &str| Url::parse(text).unwrap().host_id();
        assert_eq!(id("http://h/x"), id("http://u:p@H:80/y"));
        assert_ne!(id("http://h/x"), id("http://h:81/x"));
        assert_ne!(id("http://h/x"), id("http://i/x"));
        assert_ne!(id("http://h:81/x"), id("https://h:81/x"));
    }

    #[test]
    fn a_host_that_was_made_up_to_be_taken_for_another_is_not() {
        let (one, other) = (
            "images.trusted-example.org",
            "05jtkgdsful4k0y0psst0fjpserzldguw1xoik4xmnr5j2qtaaaaaaaaaaaaaaa.\
             bbbbbbbbbbbbbbbbtr1wwn5gfe0xmoxvbbbbbbbbbbbbb.evil-example.net",
        );
        let unsafe_id = |host: &str| xxh3_64(&[host.as_bytes(), &8443_u16.to_le_bytes()].concat());
        assert_eq!(unsafe_id(one), unsafe_id(other), "their names were searched for this");
        let id = |host: &str| Url::parse(&format!("http://{host}:8443/x")).unwrap().host_id();
        assert_ne!(id(one), id(other));
    }

    #[test]
    fn what_cannot_be_fetched_is_refused_without_its_secrets() {
        for text in [
            "file:///etc/passwd",
            "ftp://u:hunter2@h/x",
            "data:,hunter2",
            "/etc/passwd",
            "h/x",
            "",
            "http://",
            "http:///x",
            "http://h:0/",
            "http://h:99999/",
            "http://u:hunter2@h h/x",
            "http://h/\0x",
            "http://h/a\tb",
            "http://hunter2%@h/",
            "http://é/x",
            "http://h\\@o/x",
            "javascript://h/x",
            "hunter2 hunter2://h",
        ] {
            let why = Url::parse(text).unwrap_err();
            assert!(!why.contains("hunter2") && !why.contains("passwd"), "{why}");
        }
    }
}
