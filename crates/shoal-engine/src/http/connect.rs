//! Making a connection: resolving the name, trying every address, each for `connect_timeout` at the most.

use std::io;
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Client;
use crate::error::{Error, Kind, Result};

/// A new connection to the service.
///
/// # Errors
/// [`Kind::Connect`] with the last address's cause, [`Kind::OutOfFiles`].
pub(crate) async fn connect(client: &Client) -> Result<TcpStream> {
    let host = (client.address.host.as_str(), client.address.port);
    let began = Instant::now();
    let lookup = timeout(client.connect_timeout, tokio::net::lookup_host(host)).await;
    let addresses: Vec<_> = match lookup {
        Err(_) => return Err(failed(client, Kind::Connect, "the name was not resolved in time".into())),
        Ok(Err(e)) => return Err(failed(client, kind(&e), format!("the name could not be resolved: {e}"))),
        Ok(Ok(addresses)) => addresses.collect(),
    };
    let mut last = failed(client, Kind::Connect, "the name has no address".into());
    for address in addresses {
        match timeout(client.connect_timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Small requests must not wait for the answer to the one before (Nagle).
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(e)) => last = failed(client, kind(&e), reason(&e)).errno(e.raw_os_error()),
            Err(_) => {
                let why = format!("no connection within {:.1} s", began.elapsed().as_secs_f64());
                last = failed(client, Kind::Connect, why);
            }
        }
    }
    Err(last)
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
        _ => format!("no connection: {error}"),
    }
}
