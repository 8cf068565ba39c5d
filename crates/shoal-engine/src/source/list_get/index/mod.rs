//! The other listing of a list/get service: the directory pages of a web server, read from the start directory down.
//!
//! `listing.rs` requests the pages and splits what they name into partitions, `page.rs` reads one, `link.rs` says where its
//! links lead, `walk.rs` has their order.
//! Objects are named by their decoded path below the start, and fetched like those of any service (`../fetch.rs`).

mod link;
mod listing;
mod page;
mod walk;

pub(super) use self::listing::IndexListing;
#[cfg(any(test, feature = "testing"))]
pub(crate) use self::page::linked;
