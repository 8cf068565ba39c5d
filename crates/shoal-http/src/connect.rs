//! Makes a connection: resolves the name and tries every address, each for at most `connect_timeout`, or does so for a proxy
//! and has it open a tunnel. Not here: the attempts for one address (`attempts.rs`), the handshake (`tls.rs`), which proxy
//! and how long it is waited for (`proxy.rs`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::attempts::Attempts;
use crate::client::{Client, Refuses};
use crate::head::{self, Wants};
use crate::proxy::{Proxy, local_ip};
use crate::reader::HEAD_MAX;
use crate::stream::Stream;
use crate::url::Address;
use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};
use shoal_core::findings::Findings;

/// A new connection to the service, with TLS if its address is https. If it is requested through a proxy, the name is resolved
/// there, so that only an address in the URL itself can be refused here.
///
/// # Errors
/// [`Kind::Connect`] with the reason for the last address, [`Kind::OutOfFiles`]; [`Kind::Tls`] if the service is not
/// trusted; [`Kind::BadAnswer`] if a redirect leads to an address inside this machine's own network; those of a proxy.
pub(crate) async fn connect(client: &Client, findings: &Findings) -> Result<Stream> {
    let shown = client.address.shown();
    let Some(proxy) = client.proxy.as_deref() else {
        let addresses = own_addresses(client).await?;
        let make = |address| async move {
            let stream = connect_to(client, address, &client.attempts, findings).await?;
            secured(client, stream).await
        };
        return first_of(client, addresses, &shown, make).await;
    };
    if is_resolved_here(&client.address.host) {
        own_addresses(client).await?; // for what is refused
    }
    let to_proxy = || async {
        let addresses = resolve(client, &proxy.address).await?;
        let make = |address| connect_to(client, address, &proxy.attempts, findings);
        first_of(client, addresses, &shown, make).await
    };
    let stream = proxy.reach(&client.remarks, to_proxy).await?;
    let began = Instant::now();
    let Ok(made) = timeout(client.connect_timeout, through(client, proxy, stream)).await else {
        let why = format!("no connection through the proxy {} within {:.1} s", proxy.shown(), seconds(began));
        return Err(failed(&shown, Kind::Connect, why));
    };
    if made.is_ok() {
        client.attempts.connected(began.elapsed());
    }
    made
}

/// The addresses of the service, unless one of them is refused.
async fn own_addresses(client: &Client) -> Result<Vec<SocketAddr>> {
    let addresses = resolve(client, &client.address).await?;
    refuse(client, &addresses).map(|()| addresses)
}

async fn resolve(client: &Client, to: &Address) -> Result<Vec<SocketAddr>> {
    let failed = |kind, why| failed(&to.shown(), kind, why);
    match timeout(client.connect_timeout, tokio::net::lookup_host((to.host.as_str(), to.port))).await {
        Err(_) => Err(failed(Kind::Connect, "the host name was not resolved in time".into())),
        Ok(Err(e)) => Err(failed(kind(&e), format!("the host name could not be resolved: {e}"))),
        Ok(Ok(addresses)) => Ok(addresses.collect()),
    }
}

/// Whether a host needs no name server: an address, also in an old form such as `127.1`, or this machine.
fn is_resolved_here(host: &str) -> bool {
    let is_number = |part: &str| {
        let is_digit = |byte: u8| byte.is_ascii_hexdigit() || byte == b'x';
        part.bytes().next().is_none_or(|first| first.is_ascii_digit()) && part.bytes().all(is_digit)
    };
    local_ip(host).is_some() || host.to_ascii_lowercase().split('.').all(is_number)
}

/// Refuses addresses that a host must not have. Checked here and not earlier: a name may resolve to another one each time.
fn refuse(client: &Client, addresses: &[SocketAddr]) -> Result<()> {
    let is_refused = |address: &&SocketAddr| match client.refuses {
        Refuses::Nothing => false,
        Refuses::LinkLocal => is_inside(address.ip()),
        Refuses::Private => is_inside(address.ip()) || is_private(address.ip()),
    };
    let Some(bad) = addresses.iter().find(is_refused) else { return Ok(()) };
    let (ip, host) = (bad.ip(), escape(client.address.authority().as_bytes()));
    let (why, hint) = match is_inside(ip) {
        true if client.received => (
            format!("{ip} is an address inside this machine's own network"),
            "no option allows that: a server must not redirect there".to_owned(),
        ),
        true => (
            format!("{ip} is an address inside this machine's own network"),
            "no option allows that: clouds keep the credentials of their machines there".to_owned(),
        ),
        false => (
            format!("{ip} is an address of a private network"),
            format!("`allow_host=\"{host}\"` follows redirects from public hosts there"),
        ),
    };
    Err(failed(&client.address.shown(), Kind::BadAnswer, why).hint(hint))
}

/// What is made with the first of these addresses that answers, each within `connect_timeout`.
async fn first_of<T, F: Future<Output = Result<T>>>(
    client: &Client,
    addresses: Vec<SocketAddr>,
    shown: &str,
    make: impl Fn(SocketAddr) -> F,
) -> Result<T> {
    let mut last = failed(shown, Kind::Connect, "the host name has no address".into());
    for address in addresses {
        let began = Instant::now();
        match timeout(client.connect_timeout, make(address)).await {
            Ok(Err(error)) if error.kind() != Kind::Connect => return Err(error),
            Ok(Err(error)) => last = error,
            Ok(Ok(made)) => return Ok(made),
            Err(_) => {
                last = failed(shown, Kind::Connect, format!("no connection within {:.1} s", seconds(began)));
            }
        }
    }
    Err(last)
}

async fn connect_to(
    client: &Client,
    address: SocketAddr,
    attempts: &Attempts,
    findings: &Findings,
) -> Result<TcpStream> {
    let slow = || (!client.is_other_host).then(|| findings.slow_connection());
    let late = || {
        if !client.is_other_host {
            findings.report_late_connection();
        }
    };
    let made = attempts.connect(address, slow, late).await;
    let stream = made.map_err(|e| failed(&client.address.shown(), kind(&e), reason(&e)).errno(e.raw_os_error()))?;
    // Small requests must not wait for earlier answers (Nagle's algorithm).
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// The stream to the service, over a connection to the proxy.
async fn through(client: &Client, proxy: &Proxy, mut stream: TcpStream) -> Result<Stream> {
    if !client.address.secure {
        return Ok(Stream::Plain(stream));
    }
    let broken = |why: &dyn std::fmt::Display| {
        let why = format!("the proxy {} ended the connection before the tunnel was open: {why}", proxy.shown());
        failed(&client.address.shown(), Kind::Connect, why)
    };
    let request = proxy.connect_request(&client.address);
    stream.write_all(request.as_bytes()).await.map_err(|error| broken(&error))?;
    let mut answer = Vec::new();
    let head = loop {
        // One by one: what follows the head is of the service, and that waits for the handshake.
        let byte = stream.read_u8().await.map_err(|error| broken(&error))?;
        answer.push(byte);
        if byte == b'\n'
            && let Some((head, _)) = head::parse(&answer, &Wants::default(), b"").map_err(|error| broken(&error))?
        {
            if head.status / 100 != 1 {
                break head;
            }
            answer.clear();
        }
        if answer.len() >= HEAD_MAX {
            return Err(broken(&"its answer has no end"));
        }
    };
    match proxy.refuses(&client.address, &head) {
        Some(error) if error.kind() == Kind::Connect => Err(error.on(&client.address.shown())),
        Some(error) => Err(error),
        None => secured(client, stream).await,
    }
}

async fn secured(client: &Client, stream: TcpStream) -> Result<Stream> {
    match client.address.secure {
        true => client.tls.shake_hands(&client.address, stream).await,
        false => Ok(Stream::Plain(stream)),
    }
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Addresses that a redirect must not lead to, by whatever name: link-local ones, where clouds keep the credentials of
/// their machines, and those that are not a host's.
fn is_inside(address: IpAddr) -> bool {
    /// Credentials of machines at an IPv6 address that is not link-local.
    const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let v4 = |address: Ipv4Addr| {
        address.is_link_local() || address.octets()[0] == 0 || address.is_broadcast() || address.is_multicast()
    };
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => {
            let [a, b, .., y, z] = address.segments();
            let embedded = Ipv4Addr::from((u32::from(y) << 16) | u32::from(z));
            let nat64 = a == 0x64 && b == 0xff9b;
            address.is_unicast_link_local()
                || address.is_unspecified()
                || address.is_multicast()
                || address == METADATA
                || (address.to_ipv4_mapped().is_some() || nat64) && v4(embedded)
        }
    }
}

/// Addresses of private networks and of this machine: a public server must not lead there.
pub(crate) fn is_private(address: IpAddr) -> bool {
    let v4 = |address: Ipv4Addr| {
        let [a, b, c, _] = address.octets();
        let shared = a == 100 && b & 0xc0 == 64; // of a provider (RFC 6598)
        let tests = a == 198 && b & 0xfe == 18; // of benchmarks (RFC 2544)
        address.is_private() || address.is_loopback() || shared || tests || a >= 240 || (a, b, c) == (192, 0, 0)
    };
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => {
            let [a, b, c, .., y, z] = address.segments();
            let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
            let nat64 = a == 0x64 && b == 0xff9b;
            address.is_loopback()
                || address.is_unique_local()
                || a & 0xffc0 == 0xfec0 // site-local, as it was
                || a == 0x2002 && v4(of(b, c)) // 6to4
                || (address.to_ipv4_mapped().is_some() || nat64) && v4(of(y, z))
        }
    }
}

fn failed(shown: &str, kind: Kind, why: String) -> Error {
    Error::new(kind, why).on(shown)
}

fn kind(error: &io::Error) -> Kind {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => Kind::OutOfFiles,
        _ => Kind::Connect,
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset while connecting".to_owned(),
        _ => format!("cannot connect: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_server_leads_to_where_machines_keep_their_credentials() {
        for inside in
            ["169.254.169.254", "0.0.0.0", "fe80::1", "::", "::ffff:169.254.1.1", "64:ff9b::a9fe:a9fe", "fd00:ec2::254"]
        {
            assert!(is_inside(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["127.0.0.1", "10.0.0.1", "192.0.2.1", "::1", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!is_inside(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn numbers_are_addresses_in_every_form_and_names_are_left_to_the_proxy() {
        for own in
            ["127.0.0.1", "::1", "localhost", "LOCALHOST.", "127.1", "2130706433", "0x7f000001", "0X7F.1", "017.1."]
        {
            assert!(is_resolved_here(own), "{own}");
        }
        for other in ["files.example", "1.example", "x1", "10.0.0.1.example", "1and1", "localhost.example"] {
            assert!(!is_resolved_here(other), "{other}");
        }
    }

    #[test]
    fn private_addresses_are_known_in_every_form() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "198.18.0.1",
            "240.0.0.1",
            "192.0.0.8",
            "::1",
            "fd00::1",
            "fec0::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in ["192.0.2.1", "8.8.8.8", "100.128.0.1", "2001:db8::1", "::ffff:8.8.8.8", "2002:808:808::"] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }
}
