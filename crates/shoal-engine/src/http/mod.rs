//! The connection-level HTTP/1.1 client shared by sources: GET only, identity encoding, no automatic redirects.
//!
//! Here: addresses (`url.rs`), connecting (`connect.rs`), one answer's head (`head.rs`) and body (`body.rs`), deadlines
//! (`watch.rs`), one connection (`connection.rs`), and the loop that takes jobs and hands in answers (`drive.rs`, speaking
//! to its owner through `exchange.rs`). Not here: what an answer means; sources say that.
//!
//! Limits on what a server may make us hold or do: a head of 64 KiB and 100 fields, a chunk-size line of 1 KiB, trailers
//! of 8 KiB, a discarded body of 64 KiB, a whole object of `WHOLE_MAX`; everything else streams.

mod body;
mod connect;
mod connection;
mod drive;
mod exchange;
mod head;
mod url;
mod watch;

pub(crate) use connection::Connection;
pub(crate) use drive::{ask, drive};
pub(crate) use exchange::{Exchange, Next, Plan};
pub(crate) use head::Head;
pub(crate) use url::{Address, Secret, encode_name, valid_field};

use std::time::Duration;

/// What all connections to one service share.
#[derive(Debug)]
pub(crate) struct Client {
    pub address: Address,
    /// Header lines sent with every request, `Host` and `Authorization` among them. Secret.
    pub fields: Secret,
    /// Longest wait for a byte; for a whole head; and the window of the least throughput.
    pub timeout: Duration,
    /// Longest wait for a connection to one address.
    pub connect_timeout: Duration,
    /// Keep the `Content-Type` of answers: only for those who look at it.
    pub wants_type: bool,
}

impl Client {
    /// Appends a GET request for `target` (path and query, encoded).
    pub fn request(&self, out: &mut Vec<u8>, target: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"GET ");
        target(out);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(self.fields.reveal().as_bytes());
    }
}
