//! What all connections to one service share, and the text of a request. Not here: one connection (`connection.rs`).

use std::sync::Arc;
use std::time::Duration;

use super::attempts::Attempts;
use super::pipelining::{Pipeline, Pipelining};
use super::redirect::AllowedHost;
use super::remarks::Remarks;
use super::request_id;
use super::tls::Tls;
use super::url::{Address, Secret};

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
            out.extend_from_slice(request_id::FIELD.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(id);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(extra);
        out.extend_from_slice(b"\r\n");
    }

    /// The client of another host, to which a redirect leads: none of what the user gave for this one is sent there.
    pub(super) fn elsewhere(&self, address: Address) -> Client {
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
