//! An HTTP/1.1 client for very many small requests. It asks for no content encoding, and follows redirects by its own rules
//! (`redirect.rs`). Not here: what an answer means; its users decide that.
//!
//! Files in a row use only those in the same row and in the rows below:
//!
//! | files | what they do |
//! |---|---|
//! | `client_loop.rs` | takes jobs and sends their requests over one connection after the other |
//! | `pipelined_connection.rs`, `pipeline_check.rs` | one pipelined connection; the check that order is kept |
//! | `respond.rs`, `stream_body.rs` | hand one answer to the `RequestHandler` (`request_handler.rs`); a large body |
//! | `request.rs`, `idle_connections.rs` | one request with its redirects; the connections kept for the next request |
//! | `connection.rs`, `deadline.rs`, `connect.rs` | one connection, its deadlines, how it is made |
//! | `client.rs`, `changing.rs`, `cookies.rs`, `pipeline_policy.rs`, `remarks.rs` | what all connections to a service share |
//! | `probe.rs`, `check_objects.rs`, `samples.rs` | what the policy learns from: does pipelining help, is it safe |
//! | `proxy.rs` | which requests go through a proxy, and how |
//! | `tls.rs`, `stream.rs`, `attempts.rs` | TLS, the byte stream, attempts to connect |
//! | `resume.rs`, `encoding.rs` | rules for resuming a body, decoding; like all below, without sockets |
//! | `reader.rs`, `head.rs`, `version.rs`, `body.rs` | parse answers |
//! | `redirect.rs`, `url.rs` | rules for redirects, addresses |
//! | `message.rs`, `request_id.rs` | write requests and let them be signed; their ids |
//!
//! Limits on what a server can make us store or do: a head of 64 KiB and 100 fields, a chunk-size line of 1 KiB,
//! trailers of 8 KiB, a discarded body and one of an error of 64 KiB, a whole object of `WHOLE_MAX`, a decoded body of 100 times what was
//! received (from 64 MiB). Everything else is streamed.

#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod attempts;
mod body;
mod changing;
mod check_objects;
mod client;
mod client_loop;
mod connect;
mod connection;
mod cookies;
mod deadline;
mod encoding;
mod head;
mod idle_connections;
mod message;
mod pipeline_check;
mod pipeline_policy;
mod pipelined_connection;
mod probe;
mod proxy;
mod reader;
mod redirect;
mod remarks;
mod request;
mod request_handler;
mod request_id;
mod respond;
mod resume;
mod samples;
mod stream;
mod stream_body;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod unproven;
mod url;
mod version;

pub use attempts::Attempts;
pub use changing::{Changing, Fields, Pairs};
pub use client::{Client, Refuses, Targets, check_headers, request_fields};
pub use client_loop::{Ending, run_requests};
pub use connection::{Connection, ERROR_BODY_MAX};
pub use cookies::Cookies;
pub use head::{CONDITION, Head, Wants};
pub use idle_connections::IdleConnections;
pub use message::{Method, Request, Sign, Unsigned};
pub use pipeline_policy::{DEPTHS, Pipeline, PipelinePolicy};
pub use proxy::{Proxies, Proxy};
pub use redirect::{AllowedHost, RedirectRefused, RedirectTarget, resolve};
pub use remarks::Remarks;
pub use request::{send, send_current};
pub use request_handler::{Next, Plan, RequestHandler};
pub use tls::Tls;
pub use unproven::{Doubt, Passed};
pub use url::{Address, Secret, base64, decode, encode_name, split_host, without_password};
