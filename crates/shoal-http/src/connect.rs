//! Makes a connection: resolves the name and tries every address, each for at most `connect_timeout`. Not here: the
//! attempts for one address (`attempts.rs`), the handshake (`tls.rs`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use tokio::time::timeout;

use crate::client::{Client, Refuses};
use crate::stream::Stream;
use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};
use shoal_core::findings::Findings;

/// A new connection to the service, with TLS if its address is https.
///
/// # Errors
/// [`Kind::Connect`] with the reason for the last address, [`Kind::OutOfFiles`]; [`Kind::Tls`] if the service is not
/// trusted; [`Kind::BadAnswer`] if a redirect leads to an address inside this machine's own network.
pub(crate) async fn connect(client: &Client, findings: &Findings) -> Result<Stream> {
    let host = (client.address.host.as_str(), client.address.port);
    let lookup = timeout(client.connect_timeout, tokio::net::lookup_host(host)).await;
    let addresses: Vec<_> = match lookup {
        Err(_) => return Err(failed(client, Kind::Connect, "the host name was not resolved in time".into())),
        Ok(Err(e)) => return Err(failed(client, kind(&e), format!("the host name could not be resolved: {e}"))),
        Ok(Ok(addresses)) => addresses.collect(),
    };
    // Checked here and not earlier: a name may resolve to another address each time.
    let is_refused = |address: &&SocketAddr| match client.refuses {
        Refuses::Nothing => false,
        Refuses::LinkLocal => is_inside(address.ip()),
        Refuses::Private => is_inside(address.ip()) || is_private(address.ip()),
    };
    if let Some(bad) = addresses.iter().find(is_refused) {
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
        return Err(failed(client, Kind::BadAnswer, why).hint(hint));
    }
    let mut last = failed(client, Kind::Connect, "the host name has no address".into());
    for address in addresses {
        let began = Instant::now();
        match timeout(client.connect_timeout, connect_to(client, address, findings)).await {
            Ok(Err(error)) if error.kind() != Kind::Connect => return Err(error),
            Ok(Err(error)) => last = error,
            Ok(Ok(stream)) => return Ok(stream),
            Err(_) => {
                let why = format!("no connection within {:.1} s", began.elapsed().as_secs_f64());
                last = failed(client, Kind::Connect, why);
            }
        }
    }
    Err(last)
}

async fn connect_to(client: &Client, address: SocketAddr, findings: &Findings) -> Result<Stream> {
    let slow = || (!client.is_other_host).then(|| findings.slow_connection());
    let late = || {
        if !client.is_other_host {
            findings.report_late_connection();
        }
    };
    let made = client.attempts.connect(address, slow, late).await;
    let stream = made.map_err(|e| failed(client, kind(&e), reason(&e)).errno(e.raw_os_error()))?;
    // Small requests must not wait for earlier answers (Nagle's algorithm).
    let _ = stream.set_nodelay(true);
    if client.address.secure {
        client.tls.shake_hands(&client.address, stream).await
    } else {
        Ok(Stream::Plain(stream))
    }
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

fn failed(client: &Client, kind: Kind, why: String) -> Error {
    Error::new(kind, why).on(&client.address.shown())
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
