//! The service's reading of requests over any bytes: what the fuzz target `requests` and the test over its corpus run.

use crate::serve::fuzzing::{Verdict, read_requests};

/// Checks what must hold for any bytes at all that a client sends: how they are cut on their way changes nothing, since a
/// proxy in front that cuts otherwise must not see other requests, and what is let in is only what the rules let in.
///
/// # Panics
/// When a promise of the service is broken.
pub fn check_requests(wire: &[u8]) {
    let whole = read_requests(wire, usize::MAX);
    for piece in [1, 7, 64] {
        assert_eq!(read_requests(wire, piece), whole, "in pieces of {piece}");
    }
    for one in &whole {
        if let Verdict::Refused(status) = one.verdict {
            assert!((400..500).contains(&status), "{one:?}");
            continue;
        }
        assert!(matches!(one.method.as_str(), "GET" | "HEAD"), "{one:?}");
        assert!(one.hosts.len() <= 1, "{one:?}");
        assert!(one.hosts.iter().all(|host| is_of_loopback(host)), "{one:?}");
        if let Verdict::Object(name) = &one.verdict {
            let parts = || name.split(|byte| *byte == b'/');
            assert!(!name.contains(&0) && parts().all(|part| !matches!(part, b"" | b"." | b"..")), "{one:?}");
            // Decoding a name once and encoding it again leads back to it.
            let path = one.target.split('?').next().unwrap_or_default();
            let sent = path.split_once("/get/").map_or("", |(_, sent)| sent);
            assert_eq!(encoded(name), recoded(sent), "{one:?}");
        }
    }
}

/// The same question as the service asks itself, asked in another way.
fn is_of_loopback(host: &[u8]) -> bool {
    let host = String::from_utf8_lossy(host).to_ascii_lowercase();
    ["localhost", "127.", "[::1]", "[0:", "[::ffff:127.", "[0000:"].iter().any(|start| host.starts_with(start))
        && !host.contains(['@', '/'])
}

fn encoded(name: &[u8]) -> String {
    name.iter().map(|byte| format!("%{byte:02x}")).collect()
}

/// Every byte of a target's name as `%xx`: those that are so already in lower case.
fn recoded(sent: &str) -> String {
    let (mut out, mut bytes) = (String::new(), sent.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                out.push('%');
                out.push_str(&String::from_utf8_lossy(&digits).to_ascii_lowercase());
            }
            byte => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}
