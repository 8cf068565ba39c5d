//! The cookies of a run: kept in memory, and sent back only to the host that has set them. Some services redirect until a
//! cookie comes back, and others keep a session in one.
//!
//! Not here: cookies for several hosts or for a part of a host (`Domain`, `Path`), which the next request to a host of
//! objects does not need, and dates: a run is short.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::head::Head;
use crate::url::Address;

/// Most bytes of all cookies of a client: a server decides how many there are.
const BYTES_MAX: usize = 16 << 10;

/// The cookies that a service, and the hosts to which it redirects, have set. Secret.
#[derive(Default)]
pub struct Cookies {
    /// There are some: every request looks.
    any: AtomicBool,
    /// The newest last.
    all: Mutex<Vec<Cookie>>,
}

struct Cookie {
    host: String,
    name: String,
    value: String,
    /// For https only.
    secure: bool,
}

impl Cookie {
    /// What a field `Set-Cookie` sets, and whether that removes it (RFC 6265, 5.2).
    fn parse(address: &Address, field: &str) -> Option<(Cookie, bool)> {
        let mut parts = field.split(';').map(str::trim);
        let (name, value) = parts.next()?.split_once('=')?;
        let (mut secure, mut is_removed) = (false, false);
        for part in parts {
            let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
            secure |= attribute.eq_ignore_ascii_case("secure");
            is_removed |= attribute.eq_ignore_ascii_case("max-age") && (value == "0" || value.starts_with('-'));
        }
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        let cookie = Cookie { host: address.host.to_ascii_lowercase(), name, value, secure };
        (!cookie.name.is_empty()).then_some((cookie, is_removed))
    }

    fn is_for(&self, address: &Address) -> bool {
        self.host.eq_ignore_ascii_case(&address.host) && (address.secure || !self.secure)
    }

    fn len(&self) -> usize {
        self.host.len() + self.name.len() + self.value.len()
    }
}

impl Cookies {
    /// Keeps what an answer of this host sets.
    pub(crate) fn take(&self, address: &Address, head: &Head) {
        for field in head.set_cookies() {
            let Some((cookie, is_removed)) =
                std::str::from_utf8(field).ok().and_then(|text| Cookie::parse(address, text))
            else {
                continue;
            };
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|other| (&other.host, &other.name) != (&cookie.host, &cookie.name));
            if !is_removed && cookie.len() <= BYTES_MAX {
                all.push(cookie);
            }
            while all.iter().map(Cookie::len).sum::<usize>() > BYTES_MAX {
                all.remove(0);
            }
            self.any.store(!all.is_empty(), Relaxed);
        }
    }

    /// The header lines of a request to this address, with the cookies that it gets. `None`: as they are. A header `Cookie` of
    /// the user replaces them.
    #[inline]
    pub(crate) fn add(&self, address: &Address, fields: &str) -> Option<String> {
        if self.any.load(Relaxed) { self.add_all(address, fields) } else { None }
    }

    fn add_all(&self, address: &Address, fields: &str) -> Option<String> {
        if fields.to_ascii_lowercase().contains("\r\ncookie:") {
            return None;
        }
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = all.iter().filter(|cookie| cookie.is_for(address));
        let pairs: Vec<_> = pairs.map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        (!pairs.is_empty()).then(|| format!("{fields}Cookie: {}\r\n", pairs.join("; ")))
    }
}

impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cookies(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{self, Wants};

    fn set(cookies: &Cookies, at: &str, field: &str) {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: {field}\r\n\r\n");
        let (head, _) = head::parse(head.as_bytes(), &Wants::default(), b"").unwrap().unwrap();
        cookies.take(&Address::parse(at).unwrap(), &head);
    }

    fn sent(cookies: &Cookies, to: &str) -> String {
        cookies.add(&Address::parse(to).unwrap(), "Host: h\r\n").unwrap_or_default()
    }

    #[test]
    fn a_cookie_is_sent_to_its_host_only_and_a_secure_one_only_over_tls() {
        let cookies = Cookies::default();
        set(&cookies, "http://One.example", "a=1; Path=/x; HttpOnly");
        set(&cookies, "https://one.example", "b = \"2\";Secure; Domain=example");
        assert_eq!(sent(&cookies, "http://one.example:81"), "Host: h\r\nCookie: a=1\r\n");
        assert_eq!(sent(&cookies, "https://one.example"), "Host: h\r\nCookie: a=1; b=\"2\"\r\n");
        for other in ["http://example", "http://two.example", "http://www.one.example"] {
            assert_eq!(sent(&cookies, other), "");
        }
        assert!(!format!("{cookies:?}").contains('1'));
    }

    #[test]
    fn a_cookie_is_replaced_and_removed() {
        let cookies = Cookies::default();
        set(&cookies, "http://h", "a=1");
        set(&cookies, "http://h", "a=2");
        assert_eq!(sent(&cookies, "http://h"), "Host: h\r\nCookie: a=2\r\n");
        set(&cookies, "http://h", "a=; Max-Age=0");
        assert_eq!(sent(&cookies, "http://h"), "");
        for nothing in ["", "=x", "novalue", ";a=1"] {
            set(&cookies, "http://h", nothing);
        }
        assert_eq!(sent(&cookies, "http://h"), "");
    }

    #[test]
    fn the_cookie_of_the_user_is_the_only_one() {
        let cookies = Cookies::default();
        set(&cookies, "http://h", "a=1");
        assert_eq!(cookies.add(&Address::parse("http://h").unwrap(), "Host: h\r\ncookie: mine=1\r\n"), None);
    }

    #[test]
    fn a_server_that_sets_ever_new_cookies_takes_no_memory() {
        let cookies = Cookies::default();
        for number in 0..1000 {
            set(&cookies, "http://h", &format!("n{number}={}", "x".repeat(1000)));
        }
        set(&cookies, "http://h", &format!("large={}", "x".repeat(20_000)));
        let sent = sent(&cookies, "http://h");
        assert!(sent.len() < BYTES_MAX + 100 && sent.contains("n999=") && !sent.contains("large"));
    }
}
