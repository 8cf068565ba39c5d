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
mod check_objects;
mod client;
mod compare;
mod connect;
mod connection;
mod drive;
mod encoding;
mod exchange;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
mod head;
mod idle_connections;
mod large;
mod pipeline;
mod pipelining;
mod probe;
mod reader;
mod redirect;
mod remarks;
mod request_id;
mod respond;
mod resume;
mod samples;
mod stream;
mod tls;
pub(crate) mod url;
mod version;
mod watch;

pub(crate) use asking::ask;
pub(crate) use attempts::Attempts;
pub(crate) use client::{Client, plain_fields};
pub(crate) use drive::drive;
pub(crate) use exchange::{Exchange, Next, Plan};
pub(crate) use head::Head;
pub(crate) use idle_connections::{Idle, Kept};
pub use pipelining::Pipeline;
pub(crate) use pipelining::Pipelining;
pub(crate) use redirect::AllowedHost;
pub(crate) use tls::Tls;
pub(crate) use url::{Address, Secret, encode_name, valid_field};
