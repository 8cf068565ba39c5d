//! Objects of S3, and of the stores that speak its protocol, as a source: `s3://bucket/prefix`.
//!
//! | file | what is there |
//! |---|---|
//! | `options.rs` | how a store is reached |
//! | `store.rs` | the source, and which keys it selects |
//! | `service.rs` | one bucket at one address: requests, and where the bucket is |
//! | `sign.rs` | signatures |
//! | `answer.rs` | what the codes of errors mean |
//! | `listing.rs`, `pager.rs`, `page.rs`, `encoding.rs` | pages in a row, fetched ahead, and what one says |
//! | `place.rs` | where an interrupted listing continues, and how that is proven |
//! | `entries.rs` | the objects of a partition |
//! | `fetch.rs`, `checksum.rs` | getting objects, and checking them |
//!
//! Not here: the HTTP client (`shoal-http`), where credentials come from (`python/shoal/_s3.py`).

#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod answer;
mod checksum;
mod encoding;
mod entries;
mod fetch;
mod listing;
mod options;
mod page;
mod pager;
mod place;
mod service;
mod sign;
mod store;

pub use self::options::{Addressing, Archived, S3Options};
pub use self::sign::{ACCESS_KEY, SECRET_KEY, TOKEN};
pub use self::store::S3;
