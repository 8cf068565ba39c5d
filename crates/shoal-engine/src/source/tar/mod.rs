//! Tar archives, plain or compressed with gzip, bzip2, xz or zstd.
//!
//! `format.rs` is the format. `headers.rs` reads entries (`pax.rs` the extended headers) from `stream.rs`,
//! `contents.rs` makes a plan of them, `links.rs` resolves hard links, `unpack.rs` unpacks entries. Not here:
//! decompression (`archive/decode.rs`), limits, names and conflicts (`archive/`).
//!
//! A plain archive is read by position: its headers once, for the plan, and its entries by any number of lanes. A
//! compressed one can only be read from front to back. It is unpacked once for the plan, which keeps the bytes if there
//! is room (`archive/cache.rs`), else a second time for its entries, which are one partition.
//!
//! The reader is our own instead of the crate `tar`, which ignores malformed pax headers, takes the length of an entry
//! from its last header alone, and does not report its position in a stream.

mod contents;
mod format;
mod headers;
mod links;
mod pax;
mod stream;
mod unpack;

pub(crate) use self::format::Tar;
