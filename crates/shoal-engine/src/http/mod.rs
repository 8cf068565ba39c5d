//! The connection-level HTTP/1.1 client shared by sources: GET only, identity encoding, no automatic redirects.
//!
//! Here: addresses (`url.rs`), connecting (`connect.rs`, `tls.rs`, `stream.rs`), one answer's head (`head.rs`) and body (`body.rs`), deadlines
//! (`watch.rs`), one connection (`connection.rs`), and the loop that takes jobs and hands in answers: one at a time
//! (`drive.rs`, speaking to its owner through `exchange.rs`), or with requests sent ahead (`pipeline.rs`; whether and how
//! many is `pipelining.rs`, whose answer it is `request_id.rs`, reading them `reader.rs`). Not here: what an answer means; sources say that.
//!
//! Limits on what a server may make us hold or do: a head of 64 KiB and 100 fields, a chunk-size line of 1 KiB, trailers
//! of 8 KiB, a discarded body of 64 KiB, a whole object of `WHOLE_MAX`; everything else streams.

mod body;
mod compare;
mod connect;
mod connection;
mod drive;
mod exchange;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
mod head;
mod pipeline;
mod pipelining;
mod reader;
mod request_id;
mod stream;
mod tls;
mod url;
mod watch;

pub(crate) use connection::Connection;
pub(crate) use drive::{ask, drive};
pub(crate) use exchange::{Exchange, Next, Plan};
pub(crate) use head::Head;
pub use pipelining::Pipeline;
pub(crate) use pipelining::Pipelining;
pub(crate) use request_id::FIELD as REQUEST_ID;
pub(crate) use tls::Tls;
pub(crate) use url::{Address, Secret, encode_name, valid_field};

use std::sync::Arc;
use std::time::Duration;

/// What all connections to one service share.
#[derive(Debug)]
pub(crate) struct Client {
    pub address: Address,
    /// Header lines sent with every request, `Host` and `Authorization` among them, each with its line break. Secret.
    pub fields: Secret,
    /// Longest wait for a byte; for a whole head; and the window of the least throughput.
    pub timeout: Duration,
    /// Longest wait for a connection to one address.
    pub connect_timeout: Duration,
    /// Whom its TLS trusts.
    pub tls: Arc<Tls>,
    /// Its address came from a server, not from the user.
    pub received: bool,
    /// Whether requests to it are sent ahead.
    pub pipelining: Pipelining,
    /// Keep the `Content-Type` of answers: only for those who look at it.
    pub wants_type: bool,
}

impl Client {
    /// Appends a GET request for `target` (path and query, encoded), with its id if it has one.
    pub fn request(&self, out: &mut Vec<u8>, id: &[u8], target: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"GET ");
        target(out);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(self.fields.reveal().as_bytes());
        if !id.is_empty() {
            out.extend_from_slice(REQUEST_ID.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(id);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}
