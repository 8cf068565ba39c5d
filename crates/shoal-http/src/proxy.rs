//! Proxies: which addresses are requested through one, the request for a tunnel, and what a proxy's refusal means. Not here:
//! the connection to the proxy (`connect.rs`).
//!
//! Requests to http services are sent to the proxy with the whole URL. For https, the proxy opens a tunnel (CONNECT), in which
//! the handshake is made with the service itself. The credentials of the proxy are sent to no service, and those of a service
//! are not in the request for a tunnel.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};
use shoal_core::poison::ignore_poison;
use tokio::net::TcpStream;

use crate::attempts::Attempts;
use crate::head::Head;
use crate::remarks::Remarks;
use crate::url::{Address, split_host};

/// First wait before the next attempt to reach a proxy; doubles up to the second one, so a restart is seen within seconds.
const WAIT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// How long to try a proxy that was never reached: most likely its address is wrong.
const FIRST: Duration = Duration::from_secs(10);

/// The proxies of the user, and for which addresses they are used.
#[derive(Debug, Default)]
pub struct Proxies {
    http: Setting,
    https: Setting,
    /// The user has passed it to shoal; else it comes from the environment.
    is_given: bool,
    /// The list of `no_proxy`.
    exempt: String,
}

/// A proxy, or why it cannot be used: that is an error only if an address needs it.
type Setting = Option<Result<Arc<Proxy>, (String, String)>>;

impl Proxies {
    /// `given`: the proxy for everything, or `"none"`. Otherwise the variables of the environment apply, as in curl.
    /// `patience`: how long the run waits for a proxy that is not reached.
    ///
    /// # Errors
    /// [`Kind::Config`] if `given` is not a proxy.
    pub fn new(given: Option<&str>, variable: impl Fn(&str) -> Option<String>, patience: Duration) -> Result<Proxies> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let exempt = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
        let first = |names: &[&str]| {
            let (name, value) = names.iter().find_map(|name| Some((*name, set(name)?)))?;
            Some(Proxy::parse(&format!("the variable {name}"), name, &value, patience))
        };
        let (http, https) = match given {
            Some("none") => (None, None),
            Some(url) => {
                let given = Proxy::parse("`proxy`", "`proxy`", url, patience).map_err(config)?;
                (Some(Ok(given.clone())), Some(Ok(given)))
            }
            None => (
                // HTTP_PROXY in capitals can be set by a request to a CGI program (httpoxy). Like curl, shoal ignores it.
                first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
                first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            ),
        };
        Ok(Proxies { http, https, is_given: given.is_some(), exempt })
    }

    /// The proxy through which this address is requested, if there is one.
    ///
    /// # Errors
    /// [`Kind::Config`] if that is not a proxy that shoal can use.
    pub fn of(&self, address: &Address) -> Result<Option<Arc<Proxy>>> {
        let setting = if address.secure { &self.https } else { &self.http };
        let is_loopback = local_ip(&address.host).is_some_and(|ip| ip.is_loopback());
        let mut exempt = self.exempt.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
        match setting {
            None => Ok(None),
            Some(_) if is_loopback && !self.is_given => Ok(None),
            Some(_) if exempt.any(|entry| names(entry, address)) => Ok(None),
            Some(Ok(proxy)) => Ok(Some(proxy.clone())),
            Some(Err(refused)) => Err(config(refused.clone()).on(&address.shown())),
        }
    }
}

fn config((why, hint): (String, String)) -> Error {
    Error::new(Kind::Config, why).hint(hint)
}

/// The address that a host stands for without a name server.
pub(crate) fn local_ip(host: &str) -> Option<IpAddr> {
    let host = host.trim_end_matches('.');
    if host.eq_ignore_ascii_case("localhost") { Some([127, 0, 0, 1].into()) } else { host.parse().ok() }
}

/// Whether an entry of `no_proxy` names this address: a host with all below it, an IP address, a network, or `*`.
fn names(entry: &str, address: &Address) -> bool {
    let host = address.host.trim_end_matches('.').to_ascii_lowercase();
    let ip = host.parse::<IpAddr>().ok();
    if let (Some(ip), Some((network, bits))) = (ip, entry.split_once('/')) {
        return is_in(ip, network, bits).unwrap_or(false);
    }
    let entry = entry.trim_matches('.').to_ascii_lowercase();
    let (named, port) = match entry.parse::<IpAddr>() {
        Ok(_) => (&*entry, None),
        Err(_) => split_host(&entry).unwrap_or((&entry, None)),
    };
    let is_below = || host.strip_suffix(named).is_some_and(|rest| rest.ends_with('.'));
    let is_named = match ip {
        _ if named == "*" => true,
        Some(ip) => named.parse() == Ok(ip),
        None => host == named || is_below(),
    };
    is_named && port.is_none_or(|port| port == address.port)
}

/// Whether an address is in a network; `None` if the text is not a network of its kind.
fn is_in(ip: IpAddr, network: &str, bits: &str) -> Option<bool> {
    let bits: u32 = bits.parse().ok()?;
    let others = match (ip, network.parse().ok()?) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            u128::from(u32::from(ip) ^ u32::from(network)).checked_shr(32_u32.checked_sub(bits)?)
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            (u128::from(ip) ^ u128::from(network)).checked_shr(128_u32.checked_sub(bits)?)
        }
        _ => return None,
    };
    Some(others.unwrap_or(0) == 0)
}

/// A proxy that is spoken to by http.
#[derive(Debug)]
pub struct Proxy {
    /// Where it is. Its `authorization` is secret, and for the proxy alone.
    pub(crate) address: Address,
    /// How connections to it are attempted.
    pub(crate) attempts: Attempts,
    /// What the user can change: the option or the variable.
    setting: String,
    patience: Duration,
    /// Since when no connection to it could be made.
    away: Mutex<Option<Instant>>,
    /// While it is away, one connection asks for it, and the others wait for that one.
    turn: tokio::sync::Mutex<()>,
}

impl Proxy {
    /// `from` and `setting`: what has the text, for messages. The text itself may have a password, so it is not shown.
    fn parse(from: &str, setting: &str, text: &str, patience: Duration) -> Result<Arc<Proxy>, (String, String)> {
        let hint = "use http://HOST:PORT or http://USER:PASSWORD@HOST:PORT; `proxy=\"none\"` uses no proxy".to_owned();
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        if !scheme.eq_ignore_ascii_case("http") {
            let known = ["https", "socks4", "socks4a", "socks5", "socks5h"].into_iter().find(|known| *known == scheme);
            let why = known.map_or_else(String::new, |scheme| format!(", and this is one of {scheme}://"));
            return Err((format!("{from} cannot be used: shoal uses http:// proxies only{why}"), hint));
        }
        let Ok(address) = Address::parse(&format!("http://{rest}")) else {
            return Err((format!("{from} is not the URL of a proxy"), hint));
        };
        Ok(Arc::new(Proxy {
            address,
            attempts: Attempts::default(),
            setting: setting.to_owned(),
            patience,
            away: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    /// What it is called in messages: without user and password, with its port.
    pub(crate) fn shown(&self) -> String {
        let Address { host, port, .. } = &self.address;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        escape(format!("http://{host}:{port}").as_bytes())
    }

    /// The header line with the credentials, or nothing.
    pub(crate) fn authorization(&self) -> String {
        let secret = self.address.authorization.as_ref();
        secret.map_or_else(String::new, |secret| format!("Proxy-Authorization: {}\r\n", secret.reveal()))
    }

    /// The request for a tunnel to a service.
    pub(crate) fn connect_request(&self, to: &Address) -> String {
        let to = end(to);
        let agent = concat!("User-Agent: shoal/", env!("CARGO_PKG_VERSION"));
        format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{agent}\r\n{}\r\n", self.authorization())
    }

    /// Why there is no tunnel after this answer; `None`: there is one.
    pub(crate) fn refuses(&self, to: &Address, head: &Head) -> Option<Error> {
        let (status, proxy) = (head.status, self.shown());
        let to = escape(end(to).as_bytes());
        let error = match status {
            200..=299 => return None,
            401 | 407 => return Some(self.credentials(status)), // tinyproxy answers 401 to a wrong password
            429 => Error::new(Kind::Throttled, format!("the proxy {proxy} asks to slow down (429)")),
            // It could not reach the service, or not in time.
            408 | 500..=599 => Error::new(Kind::Connect, format!("the proxy {proxy} answered {status}")),
            403 => Error::new(Kind::Forbidden, format!("the proxy {proxy} refuses a connection to {to} (403)"))
                .hint("ask its administrator to allow it, or add the host to no_proxy if it can be reached directly"),
            _ => Error::new(Kind::BadAnswer, format!("the proxy {proxy} opens no connection to {to} ({status})")),
        };
        Some(error.retry_after(head.retry_after()))
    }

    /// The error of the run for an answer that asks for the credentials of the proxy.
    pub(crate) fn credentials(&self, status: u16) -> Error {
        let is_given = self.address.authorization.is_some();
        let why = if is_given { "rejects the given credentials" } else { "requires credentials" };
        Error::new(Kind::Credentials, format!("the proxy {why} ({status})")).on(&self.shown()).hint(format!(
            "give them in {}, as http://USER:PASSWORD@HOST:PORT, then run the same command again",
            self.setting
        ))
    }

    /// Makes a connection to it with `attempt`. While none can be made, this waits: the services behind it are not to blame,
    /// and their objects must not fail for it.
    ///
    /// # Errors
    /// [`Kind::Unreachable`], which ends the run, if it stays away too long; those of `attempt` that do not blame the proxy.
    pub(crate) async fn reach<F: Future<Output = Result<TcpStream>>>(
        &self,
        remarks: &Remarks,
        attempt: impl Fn() -> F,
    ) -> Result<TcpStream> {
        let (mut wait, mut turn) = (WAIT.0, None);
        loop {
            if self.away().is_some() && turn.is_none() {
                turn = Some(self.turn.lock().await);
            }
            if self.away().is_none() {
                turn = None; // it is back: the others need not wait for this connection
            }
            let began = Instant::now();
            let error = match attempt().await {
                Ok(stream) => {
                    if let Some(since) = self.away().take() {
                        remarks.waited(since.elapsed());
                    }
                    return Ok(stream);
                }
                Err(error) if error.kind() != Kind::Connect => return Err(error),
                Err(error) => error,
            };
            let away = self.away().get_or_insert(began).elapsed();
            // A little sooner than hosts that do not answer end the run: that error would not name the proxy.
            if away >= self.patience().mul_f64(0.9) {
                let (why, setting) = (error.why(), &self.setting);
                let why = format!("no connection to the proxy for {:.0} s: {why}", away.as_secs_f64());
                let hint = format!(
                    "is it running, and is {setting} right? `proxy=\"none\"` uses no proxy; finished work is kept: run the same \
                    command again to resume"
                );
                return Err(Error::new(Kind::Unreachable, why).on(&self.shown()).hint(hint));
            }
            if turn.is_some() {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(WAIT.1);
            }
        }
    }

    fn patience(&self) -> Duration {
        if self.attempts.have_connected() { self.patience } else { self.patience.min(FIRST) }
    }

    fn away(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        ignore_poison(self.away.lock())
    }
}

/// Host and port, also if that is the scheme's.
fn end(address: &Address) -> String {
    let authority = address.authority();
    if address.port == address.default_port() { format!("{authority}:{}", address.port) } else { authority }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// The port of the proxy for a URL, if it has one.
    fn port(given: Option<&str>, variables: &[(&str, &str)], url: &str) -> Option<u16> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        let proxies = Proxies::new(given, variable, PATIENCE).unwrap();
        proxies.of(&Address::parse(url).unwrap()).unwrap().map(|proxy| proxy.address.port)
    }

    #[test]
    fn the_variable_of_the_scheme_comes_before_that_for_all() {
        let variables = [("http_proxy", "http://p:1"), ("https_proxy", "p:2"), ("all_proxy", "http://p:3/")];
        assert_eq!(port(None, &variables, "http://files.example"), Some(1));
        assert_eq!(port(None, &variables, "https://files.example"), Some(2));
        assert_eq!(port(None, &variables[2..], "http://files.example"), Some(3));
        assert_eq!(port(None, &[("HTTPS_PROXY", "http://p:4")], "https://files.example"), Some(4));
        assert_eq!(port(None, &[("http_proxy", ""), ("ALL_PROXY", "p:5")], "http://files.example"), Some(5));
        assert_eq!(port(None, &[("HTTP_PROXY", "http://p:6")], "http://files.example"), None, "httpoxy");
    }

    #[test]
    fn the_option_comes_before_the_variables() {
        let variables = [("all_proxy", "http://p:1")];
        assert_eq!(port(Some("http://p:7"), &variables, "http://files.example"), Some(7));
        assert_eq!(port(Some("none"), &variables, "http://files.example"), None);
    }

    #[test]
    fn loopback_has_a_proxy_only_by_the_option() {
        for host in ["localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "[::1]"] {
            let url = format!("http://{host}:8080");
            assert_eq!(port(None, &[("all_proxy", "http://p:1")], &url), None, "{url}");
            assert_eq!(port(Some("http://p:1"), &[], &url), Some(1), "{url}");
            assert_eq!(port(Some("http://p:1"), &[("no_proxy", host)], &url), None, "{url}");
        }
        assert_eq!(port(None, &[("all_proxy", "http://p:1")], "http://localhost.example"), Some(1));
    }

    #[test]
    fn no_proxy_names_hosts_with_all_below_them_addresses_networks_and_ports() {
        let is_exempt = |list: &str, host: &str| {
            let url = format!("http://{host}");
            port(None, &[("http_proxy", "http://p:1"), ("no_proxy", list)], &url).is_none()
        };
        for (list, host) in [
            ("*", "a.example"),
            ("other, a.example", "a.example"),
            ("other a.example", "A.Example:8080"),
            (".example", "a.example"),
            ("example", "b.a.example"),
            ("example.", "a.example."),
            ("a.example:8080", "a.example:8080"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.0/24", "192.0.2.7:81"),
            ("0.0.0.0/0", "192.0.2.7"),
            ("2001:db8::/32", "[2001:db8:1::7]"),
            ("2001:DB8::7", "[2001:db8:0::7]"),
            ("[2001:db8::7]:81", "[2001:db8::7]:81"),
        ] {
            assert!(is_exempt(list, host), "{list:?} names {host}");
        }
        for (list, host) in [
            ("", "a.example"),
            (", ,", "a.example"),
            ("ample", "a.example"),
            ("b.a.example", "a.example"),
            ("a.example:81", "a.example"),
            ("a.*", "a.example"),
            ("2.7", "192.0.2.7"),
            ("192.0.3.0/24", "192.0.2.7"),
            ("192.0.2.0/33", "192.0.2.7"),
            ("192.0.2.0/24", "2.0.192.example"),
            ("2001:db8::/32", "192.0.2.7"),
        ] {
            assert!(!is_exempt(list, host), "{list:?} does not name {host}");
        }
        let capitals = [("http_proxy", "http://p:1"), ("NO_PROXY", "a.example")];
        assert_eq!(port(None, &capitals, "http://a.example"), None);
    }

    #[test]
    fn what_is_no_http_proxy_is_refused_without_its_password_once_an_address_needs_it() {
        for url in ["socks5://u:hunter2@p:1", "https://u:hunter2@p", "u:hunter2@p:x", "hunter2://p", "//u:hunter2@"] {
            let given = Proxies::new(Some(url), |_| None, PATIENCE).unwrap_err();
            let proxies = Proxies::new(None, |name| (name == "http_proxy").then(|| url.to_owned()), PATIENCE).unwrap();
            assert!(proxies.of(&Address::parse("https://h").unwrap()).unwrap().is_none());
            let found = proxies.of(&Address::parse("http://h").unwrap()).unwrap_err();
            for error in [given, found] {
                assert_eq!(error.kind(), Kind::Config);
                assert!(!error.to_string().contains("hunter2"), "{error}");
            }
        }
    }

    #[test]
    fn credentials_are_for_the_proxy_alone_and_are_not_shown() {
        let proxy = Proxy::parse("", "", "u:hunter2@p:1", PATIENCE).unwrap();
        let service = Address::parse("https://reader:sesame@[::1]").unwrap();
        let request = proxy.connect_request(&service);
        assert!(request.starts_with("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n"), "{request}");
        assert!(request.ends_with("\r\nProxy-Authorization: Basic dTpodW50ZXIy\r\n\r\n"), "{request}");
        assert!(!request.contains("\r\nAuthorization"), "{request}");
        assert!(!format!("{proxy:?}{}", proxy.shown()).contains("dTpodW50ZXIy"));
        assert_eq!(proxy.shown(), "http://p:1");
    }
}
