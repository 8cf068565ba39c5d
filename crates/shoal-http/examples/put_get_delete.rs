//! Puts a file at a URL, fetches it again, compares it, and removes it: what a crate for an object store builds on.
//!
//!     cargo run -p shoal-http --example put_get_delete -- http://127.0.0.1:8080/bucket/key FILE

use std::sync::Arc;
use std::time::Duration;

use shoal_core::display::escape;
use shoal_core::{Error, Kind, Result};
use shoal_http::{
    Address, Client, Head, IdleConnections, Method, Request, Sign, Unsigned, Wants, request_fields, send,
};

/// The largest file, in bytes.
const BODY_MAX: usize = 1 << 30;

/// A signer: a real one hashes what it sees with a secret key.
struct Dated;

impl Sign for Dated {
    fn sign(&self, request: &Unsigned<'_>, out: &mut Vec<u8>) -> Result<()> {
        let what = format!("X-Signed: {} {} bytes\r\n", request.method.as_str(), request.body.len());
        out.extend_from_slice(what.as_bytes());
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let [url, file] = <[String; 2]>::try_from(std::env::args().skip(1).collect::<Vec<_>>())
        .map_err(|_| "usage: put_get_delete URL FILE")?;
    // The address of a service may have a path, which is part of every target.
    let address = Address::parse(&url)?;
    let (target, fields) = (address.base.clone(), request_fields(&address, &[])?);
    let client = Client { signer: Some(Arc::new(Dated)), ..Client::new(address, fields) };
    // One connection is kept between requests; `W`, here (), is for what a caller wants back if an answer is doubted later.
    let mut connections = IdleConnections::<fn() -> Duration, ()>::new(Arc::default(), Wants::fields(&["etag"]));
    let bytes = std::fs::read(file)?;

    let put = Request::new(Method::Put, target.as_bytes()).body(bytes.clone());
    let (head, _) = exchange(&client, &mut connections, &put).await?;
    println!("put {} bytes, tag {:?}", bytes.len(), head.field("ETag").map(String::from_utf8_lossy));
    let (_, body) = exchange(&client, &mut connections, &Request::new(Method::Get, target.as_bytes())).await?;
    println!("got {} bytes, the same: {}", body.len(), body == bytes);
    exchange(&client, &mut connections, &Request::new(Method::Delete, target.as_bytes())).await?;
    println!("deleted");
    Ok(())
}

/// Sends a request and reads its answer; one that is an error says why.
async fn exchange(
    client: &Client,
    connections: &mut IdleConnections<fn() -> Duration, ()>,
    request: &Request<'_>,
) -> Result<(Head, Vec<u8>)> {
    let (mut open, mut head) = send(client, connections, || Duration::ZERO, request, || ()).await?;
    if head.status / 100 != 2 {
        let body = open.error_body(&mut head).await;
        let why = format!("the answer has status {}: {}", head.status, escape(&body));
        return Err(Error::new(Kind::BadAnswer, why));
    }
    let body = open.body(&mut head, BODY_MAX).await?;
    let body = body.ok_or_else(|| Error::new(Kind::TooLarge, format!("the answer is larger than {BODY_MAX} bytes")))?;
    connections.keep(open, &head);
    Ok((head, body))
}
