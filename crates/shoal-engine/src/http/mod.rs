//! The connection-level HTTP/1.1 client shared by sources: GET only, identity encoding, redirects only by rules of its own
//! (`redirect.rs`).
//!
//! Here: addresses (`url.rs`), connecting (`connect.rs`, `attempts.rs`, `tls.rs`, `stream.rs`), one answer's head
//! (`head.rs`) and body (`body.rs`), deadlines (`watch.rs`), one connection (`connection.rs`), and the loop that takes
//! jobs and hands in answers: one at a time (`drive.rs`, asking through `asking.rs`, speaking to its owner through
//! `exchange.rs`), or with requests sent ahead (`pipeline.rs`; whether and how many is `pipelining.rs`, what proves
//! that it helps `probe.rs` and that it does no harm `compare.rs` and `samples.rs`, which request an answer is for
//! `request_id.rs`, reading them `reader.rs`). `encoding.rs` undoes encodings that were not asked for, `remarks.rs`
//! keeps what the report must say.
//! Not here: what an answer means; sources say that.
//!
//! Limits on what a server may make us hold or do: a head of 64 KiB and 100 fields, a chunk-size line of 1 KiB,
//! trailers of 8 KiB, a discarded body of 64 KiB, a whole object of `WHOLE_MAX`, an encoded body of 100 times what came
//! (from 64 MiB); everything else streams.

mod asking;
mod attempts;
mod body;
mod compare;
mod connect;
mod connection;
mod drive;
mod encoding;
mod exchange;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
mod head;
mod large;
mod pipeline;
mod pipelining;
mod probe;
mod reader;
mod redirect;
mod remarks;
mod request_id;
mod resume;
mod samples;
mod stream;
mod tls;
pub(crate) mod url;
mod watch;

pub(crate) use asking::{Idle, Kept, ask};
pub(crate) use attempts::Attempts;
pub(crate) use drive::drive;
pub(crate) use exchange::{Exchange, Next, Plan};
pub(crate) use head::Head;
pub use pipelining::Pipeline;
pub(crate) use pipelining::Pipelining;
pub(crate) use redirect::AllowedHost;
pub(crate) use remarks::Remarks;
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
    /// How connections to it are made.
    pub attempts: Attempts,
    /// Whom its TLS trusts.
    pub tls: Arc<Tls>,
    /// Its address came from a server, not from the user.
    pub received: bool,
    /// Other hosts to which redirects may lead.
    pub allowed: Vec<AllowedHost>,
    /// Whether requests to it are sent ahead.
    pub pipelining: Pipelining,
    /// Keep the `Content-Type` of answers: only for those who look at it.
    pub wants_type: bool,
    /// What the report must say of its answers.
    pub remarks: Arc<Remarks>,
}

impl Client {
    /// Appends a GET request for `target` (path and query, encoded), with its id if it has one and further
    /// header lines.
    pub fn request(&self, out: &mut Vec<u8>, id: &[u8], extra: &[u8], target: impl FnOnce(&mut Vec<u8>)) {
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
        out.extend_from_slice(extra);
        out.extend_from_slice(b"\r\n");
    }

    /// The client of another host, to which a redirect leads: none of what the user gave for this one is sent there.
    fn elsewhere(&self, address: Address) -> Client {
        Client {
            fields: Secret::new(plain_fields(&address, true)),
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            // Another host is at another distance, and how late it is says nothing of this one.
            attempts: Attempts::default(),
            tls: self.tls.clone(),
            received: !self.address.is_same_origin(&address),
            allowed: Vec::new(),
            pipelining: Pipelining::new(Pipeline::Off),
            wants_type: self.wants_type,
            remarks: self.remarks.clone(),
            address,
        }
    }
}

/// The header lines that every service gets.
pub(crate) fn plain_fields(address: &Address, with_agent: bool) -> String {
    let agent = if with_agent { concat!("User-Agent: shoal/", env!("CARGO_PKG_VERSION"), "\r\n") } else { "" };
    format!("Host: {}\r\nAccept-Encoding: identity\r\n{agent}", address.authority())
}
