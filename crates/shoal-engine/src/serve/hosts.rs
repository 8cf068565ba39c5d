//! Which requests are let in by what they say of their origin: the `Host` they name, and the page that a browser sends
//! them for.
//!
//! A page in a browser can reach the service in two ways. It can send requests to the address directly, which
//! `Sec-Fetch-Site` and `Origin` give away. Or its own name can be made to mean the address (DNS rebinding): to the
//! browser the request is not cross-site then, but its `Host` is that name.
//! Not here: what is asked for (`asked.rs`).

use hyper::HeaderMap;
use hyper::header::{self, HeaderName};
use std::net::{IpAddr, SocketAddr};

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Which `Host` a request may name.
#[derive(Debug)]
pub(super) struct HostRule {
    /// The address itself: first in the order of likelihood.
    own: Vec<u8>,
    /// Only addresses of loopback count, and not those of other networks.
    loopback: bool,
    /// Names in lower case: those that the user allows and, beyond loopback, the machine's own.
    names: Vec<String>,
}

impl HostRule {
    /// The rule for a service at this address. No name is looked up, so that a resolver cannot change the rule.
    pub(super) fn of(address: SocketAddr, allowed: &[String]) -> Self {
        let loopback = address.ip().is_loopback();
        let mut names: Vec<String> = allowed.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.push("localhost".to_owned());
        if !loopback {
            let node = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
            let first = node.split('.').next().unwrap_or(&node).to_owned();
            // The name that multicast DNS has for it.
            names.push(format!("{first}.local"));
            names.extend([first, node]);
        }
        Self { own: address.to_string().into_bytes(), loopback, names }
    }

    pub(super) fn allows(&self, host: &[u8]) -> bool {
        host == self.own || std::str::from_utf8(host).is_ok_and(|host| self.allows_name(name_of(host)))
    }

    fn allows_name(&self, name: &str) -> bool {
        let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let address = match inner {
            Some(inner) => inner.parse().ok().filter(IpAddr::is_ipv6),
            None => name.parse().ok().filter(IpAddr::is_ipv4),
        };
        // An address cannot be rebound: a page that is fetched by address comes from that address.
        address.is_some_and(|address| !self.loopback || address.is_loopback())
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(inner.unwrap_or(name)))
    }
}

/// A `Host` without its port, which may be any (it may have been forwarded), and without the dot of the root.
fn name_of(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// Whether a name can be one that `--allow-host` takes: a host's name or address, without a port.
pub(super) fn is_host_name(name: &str) -> bool {
    let byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (!name.is_empty() && name.bytes().all(byte)) || name.parse::<IpAddr>().is_ok()
}

/// Whether a browser sends this request for a page of another site. Programs send neither field.
pub(super) fn is_cross_site(headers: &HeaderMap) -> bool {
    if headers.get(&SEC_FETCH_SITE).is_some_and(|site| matches!(site.as_bytes(), b"cross-site" | b"same-site")) {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return false;
    };
    let origin = origin.as_bytes();
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    let host = headers.get(header::HOST).map(header::HeaderValue::as_bytes);
    !authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

/// Whether a browser sends this request: every one of them calls itself Mozilla.
pub(super) fn is_browser(headers: &HeaderMap) -> bool {
    headers.get(header::USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"Mozilla/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn only_names_of_this_machine_are_allowed_on_loopback() {
        let rule = HostRule::of("127.0.0.1:8080".parse().unwrap(), &["Tunnel.example".to_owned()]);
        for host in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "localhost",
            "LocalHost:9",
            "localhost.",
            "localhost.:8080",
            "127.9.9.9:1",
            "[::1]:8080",
            "[::1]",
            "tunnel.Example:80",
        ] {
            assert!(rule.allows(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ".",
            "localhost..",
            "example.com",
            "localhost.example.com",
            "x.tunnel.example",
            "128.0.0.1",
            "[::2]",
            "[127.0.0.1]",
            "::1",
            "127.0.0.1:8x",
            "127.0.0.1.example.com",
            "user@localhost",
        ] {
            assert!(!rule.allows(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn beyond_loopback_addresses_the_machines_names_and_allowed_names_count_and_no_other() {
        let rule = HostRule::of("0.0.0.0:8080".parse().unwrap(), &["files.example".to_owned()]);
        let node = rustix::system::uname().nodename().to_str().unwrap().to_owned();
        for host in ["192.168.1.7:8080", "[2001:db8::1]:8080", "localhost", "FILES.example:1", &node] {
            assert!(rule.allows(host.as_bytes()), "{host}");
        }
        for host in ["", "rebound.example", "rebound.example:8080", "files.example.com", "1.2.3.4.example"] {
            assert!(!rule.allows(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn a_request_for_a_page_of_another_site_is_told_by_either_field() {
        let told = |fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:80"));
            for (name, value) in fields {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            is_cross_site(&headers)
        };
        assert!(!told(&[]));
        assert!(!told(&[("sec-fetch-site", "none")]));
        assert!(!told(&[("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:80")]));
        assert!(told(&[("sec-fetch-site", "cross-site")]));
        assert!(told(&[("sec-fetch-site", "same-site")]));
        for origin in ["null", "http://evil.example", "http://127.0.0.1:81", "http://127.0.0.1", "file://", ""] {
            assert!(told(&[("origin", origin)]), "{origin}");
        }
    }

    #[test]
    fn what_is_allowed_is_a_name_without_a_port_or_a_path() {
        for name in ["files", "files.example", "my_host-1", "10.0.0.1", "::1"] {
            assert!(is_host_name(name), "{name}");
        }
        for name in ["", "files:80", "http://files", "a/b", "*.example", "a b", "é"] {
            assert!(!is_host_name(name), "{name}");
        }
    }
}
