//! A URL of a list, taken apart: which host, which request, which name. Pure.
//!
//! A URL is a line that others may have written, so what is wrong with it is a reason for a failure, without secrets.

use xxhash_rust::xxh3::Xxh3;

use crate::error::HostId;
use crate::http::{decode, split_host};

/// A URL, with what stands for its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    secure: bool,
    /// `user:password`.
    user: Option<&'a str>,
    /// Host and port, as in the URL.
    authority: &'a str,
    host: &'a str,
    port: Option<u16>,
    /// Path and query, without the fragment.
    target: &'a str,
}

impl<'a> Url<'a> {
    /// Takes a URL apart; the error says why it is none that can be fetched, without showing it.
    pub fn parse(text: &'a str) -> Result<Url<'a>, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
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
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
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
        let Some((host, port)) = split_host(authority) else {
            return Err(match authority.is_ascii() {
                true => "its host or port is not valid".to_owned(),
                false => "its host is not ASCII: write it in punycode (xn--…)".to_owned(),
            });
        };
        Ok(Url { secure, user, authority, host, port, target })
    }

    /// The host with its port.
    pub fn host_id(&self) -> HostId {
        let mut hasher = Xxh3::new();
        self.host.bytes().for_each(|byte| hasher.update(&[byte.to_ascii_lowercase()]));
        hasher.update(&self.port().to_le_bytes());
        HostId(hasher.digest().max(1)) // 0 stands for none
    }

    fn port(&self) -> u16 {
        self.port.unwrap_or(if self.secure { 443 } else { 80 })
    }

    /// The address of the service, as a user would type it.
    pub fn service(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let user = self.user.map_or_else(String::new, |user| format!("{user}@"));
        format!("{scheme}://{user}{}", self.authority)
    }

    /// What tells connections apart that must not be shared.
    pub fn origin(&self) -> (bool, Option<&'a str>) {
        (self.secure, self.user)
    }

    /// Appends path and query as they are requested.
    pub fn push_target(&self, out: &mut Vec<u8>) {
        push_target(self.target.as_bytes(), out);
    }

    /// The host, and its port if the URL names one.
    pub fn host(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host.to_ascii_lowercase()),
            None => self.host.to_ascii_lowercase(),
        }
    }

    /// The path, decoded once, without the first slash; `None` if it is not percent-encoded correctly.
    pub fn path(&self) -> Option<Vec<u8>> {
        let path = self.target.split('?').next().unwrap_or_default();
        decode(path.strip_prefix('/').unwrap_or(path))
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
    for &byte in target {
        match byte {
            b'!' | b'$'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}

/// What is behind `service` in a URL that begins with it, without the fragment; `None` if the URL is of another service.
pub(super) fn target_at<'a>(url: &'a [u8], service: &str) -> Option<&'a [u8]> {
    let rest = url.strip_prefix(service.as_bytes())?;
    let rest = &rest[..memchr::memchr(b'#', rest).unwrap_or(rest.len())];
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

    #[test]
    fn a_url_is_taken_apart() {
        let url = Url::parse("HTTP://u:p%40@Files.Local:8080/a%20b/c?q=1#part").unwrap();
        assert_eq!((url.host(), url.path().unwrap()), ("files.local:8080".to_owned(), b"a b/c".to_vec()));
        assert_eq!(url.service(), "http://u:p%40@Files.Local:8080");
        assert_eq!(url.without_user(), b"http://files.local:8080/a%20b/c?q=1");
        assert_eq!(target("http://h"), "/");
        assert_eq!(target("http://h?x"), "/?x");
        assert_eq!(target("http://h/a b\"é%41"), "/a%20b%22%C3%A9%41");
        assert_eq!(Url::parse("http://h/").unwrap().path(), Some(Vec::new()));
        assert_eq!(Url::parse("http://h/%2e%2e%2Fx").unwrap().path().unwrap(), b"../x");
        assert_eq!(Url::parse("http://h/%25%34%31").unwrap().path().unwrap(), b"%41", "decoded once");
    }

    #[test]
    fn the_target_of_a_known_service_is_the_one_of_the_url() {
        let text = b"http://u@h:81/x?y#z";
        assert_eq!(target_at(text, "http://u@h:81"), Some(&b"/x?y"[..]));
        assert_eq!(target_at(b"http://h#z", "http://h"), Some(&b""[..]));
        for (url, service) in
            [("http://h:81/x", "http://h"), ("http://host/x", "http://h"), ("http://h@o/", "http://h")]
        {
            assert_eq!(target_at(url.as_bytes(), service), None);
        }
    }

    #[test]
    fn a_host_is_the_same_in_any_case_and_with_its_default_port() {
        let id = |text: &str| Url::parse(text).unwrap().host_id();
        assert_eq!(id("http://h/x"), id("http://u:p@H:80/y"));
        assert_ne!(id("http://h/x"), id("http://h:81/x"));
        assert_ne!(id("http://h/x"), id("http://i/x"));
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
