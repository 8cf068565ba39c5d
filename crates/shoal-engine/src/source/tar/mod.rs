//! Tar archives, plain and packed by gzip, bzip2, xz or zstd.
//!
//! Here: the format. `headers.rs` reads entries (`pax.rs` the extended ones), `contents.rs` makes a plan of them, `links.rs`
//! resolves its hard links, `stream.rs` is where all read from, `unpack.rs` hands entries over. Not here: what unpacks a packed archive (`archive/decode.rs`),
//! limits, names and collisions (`archive/`).
//!
//! A plain archive is read by position: its headers once, for the plan, its entries by as many lanes as there are. A packed
//! one can only be read from front to back: it is unpacked once for the plan, which keeps it where there is room
//! (`archive/keep.rs`), and else a second time for its entries, which are one partition.
//!
//! The reader is our own and not the crate `tar`: that one passes over malformed pax headers, takes the length of an entry
//! from its last header alone, and does not say where in a stream it stands.

mod contents;
mod headers;
mod links;
mod pax;
mod stream;
mod unpack;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::archive::decode::{MAGIC, Method};
use super::archive::plan::Plan;
use super::archive::{ArchiveFile, ArchiveOptions, Format, Unpacker};
use crate::error::Result;

/// The format.
#[derive(Default)]
pub(crate) struct Tar {
    /// Bytes that lanes hold for copies.
    held: Arc<AtomicU64>,
}

impl Format for Tar {
    fn is_stream(&self) -> bool {
        true
    }

    fn begins(&self, head: &[u8]) -> bool {
        Method::of_file(head).is_some() || headers::begins(head)
    }

    fn plan(&self, file: &ArchiveFile, options: &ArchiveOptions) -> Result<Plan> {
        let mut head = [0; MAGIC];
        let length = file.read_at(&mut head, 0)?;
        let plan = match Method::of_file(&head[..length]) {
            None => contents::of_plain(file, options),
            Some(method) => contents::of_packed(method, file, options),
        };
        file.unchanged()?; // the reason for all else, where it is one
        plan?.checked(file, options)
    }

    fn unpacker(&self) -> Box<dyn Unpacker> {
        Box::new(unpack::Unpack::new(self.held.clone()))
    }
}
