//! Flat files of fixed-size records, at the speed of memory.
//!
//! Here: what a record is made of ([`Format`]), the records of one or many files ([`Records`]), conditions on them
//! ([`Expression`]), what is chosen of them as Arrow batches ([`Scan`]), sums and groups ([`Query`]), raw blocks for a loop
//! ([`Blocks`]), and appending ([`append`]). All work is done by the threads of a [`Pool`] over runs of records; memory does
//! not grow with the file.
//!
//! Not here: Python, printing, other formats. For Parquet or CSV, pass the batches of a [`Scan`] to an encoder.
//!
//! ```
//! use shoal_records::{Aggregate, AppendOptions, Format, Function, OpenOptions, Pool, Query, Records, Value, append};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("index.bin");
//! let names = ["ts", "id", "len"].map(String::from);
//! let format = Format::from_struct("<QII", Some(&names))?;
//! let mut row = Vec::new();
//! row.extend(1_700_000_000_u64.to_le_bytes());
//! row.extend(7_u32.to_le_bytes());
//! row.extend(512_u32.to_le_bytes());
//! append(&path, &row, &format, AppendOptions::default())?;
//!
//! let records = Records::open(&[&path], format, OpenOptions::default())?;
//! let query = Query {
//!     aggregates: vec![Aggregate::of(Function::Sum, "len")],
//!     condition: Some("len > 100 and id == 7".parse()?),
//!     ..Query::default()
//! };
//! assert_eq!(records.aggregate(&query, &Pool::default())?, [Value::Integer(512)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod aggregate;
mod append;
mod arrow;
mod blocks;
mod column;
mod error;
mod expression;
mod file;
mod format;
mod mark;
mod pool;
mod read;
mod rows;
mod scan;

pub use aggregate::{Aggregate, Function, Grouped, Query, Value};
pub use append::{AppendOptions, Appended, append, recover};
pub use blocks::Blocks;
pub use error::{Error, ErrorKind, Result};
pub use expression::Expression;
pub use file::{OpenOptions, Records, Tail};
pub use format::{Field, Format, Kind, RECORD_MAX};
pub use pool::Pool;
pub use scan::{Scan, ScanOptions};
