//! Objects packed as rows of Parquet files: `parquet:DIR`.
//!
//! A dataset is a directory with files `objects-000000.parquet`, `objects-000001.parquet` and so on. Each row is one
//! object. `schema.rs` has the columns. Any reader of Parquet can read the files. `.shoal/` in the same directory has the
//! journal and files that are not complete.
//!
//! The metadata of each file has, under [`schema::CHECKSUMS`], one xxh3 hash for each row group, over the bytes of the row
//! group in the file, and one of the rest, under [`schema::FOOTER_CHECKSUM`]. The page format has a checksum too, but the
//! library cannot write it.

#![warn(missing_docs)]

mod read;
pub mod schema;
pub mod sink;
pub mod source;
pub mod urls;
pub mod verify;
