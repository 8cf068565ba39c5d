//! A table of any size, written to one file piece by piece.
//!
//! Here: [`write_table`] and what can be chosen. The pieces are made by workers (`order.rs`) and written in order by the
//! caller's thread: the columns of row groups (`parquet.rs`), or runs of rows (`rows.rs`), which are the lines of CSV and
//! JSON lines and the elements of `.npy`. What is in memory at once does not grow with the table: two pieces for each
//! worker. Not here: the file itself, which the caller opens, makes durable and names.

mod order;
mod output;
mod parquet;
mod rows;

use std::io::{BufWriter, Seek, Write};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};

use self::output::{Output, Tally};
use crate::{Error, Format, Options, table};

/// Most workers unless the caller names a number: each has two columns of a row group at once.
const WORKERS_MAX: usize = 16;

/// Rows of a row group; Arrow's own writers take as many.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Bytes that are gathered before an Arrow file is written to: schemas and footers come in small pieces.
const GATHERED: usize = 256 << 10;

/// How the pages of a Parquet file are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// Snappy: fast, and what most writers do.
    Snappy,
    /// Zstandard at its lowest level: smaller.
    Zstd,
}

/// What a Parquet file says of its values, so that readers can pass over parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistics {
    /// Nothing.
    None,
    /// Least and greatest value of each column of a row group.
    Column,
    /// And of each page.
    Page,
}

/// How a table becomes a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// What a text format leaves open.
    pub text: Options,
    /// Of Parquet, Snappy unless told. The other formats are not compressed.
    pub compression: Option<Codec>,
    /// Rows of a Parquet row group; fewer where these would take more than 128 MiB.
    pub row_group_rows: usize,
    /// Whether Parquet columns begin with a dictionary of their values, given up where that does not pay.
    pub dictionary: bool,
    /// What is said of Parquet columns.
    pub statistics: Statistics,
    /// How many threads encode; without it one for each processor.
    pub workers: Option<usize>,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            text: Options::default(),
            compression: None,
            row_group_rows: ROW_GROUP_ROWS,
            dictionary: true,
            statistics: Statistics::Page,
            workers: None,
        }
    }
}

impl TableOptions {
    fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.workers.unwrap_or_else(|| cores().min(WORKERS_MAX)).max(1)
    }
}

/// What has been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes all batches of `reader` to `out` as one file, which begins where `out` stands.
///
/// `watch` hears what has been written so far, on the caller's thread, after each piece and at least ten times a second
/// while it waits for workers; false ends it. After an error `out` holds a part of the file: who calls throws it away.
///
/// An Arrow file of columns with dictionaries is made in memory, because it may hold one dictionary of each column only.
///
/// # Errors
///
/// Unsupported: the format cannot hold a column's type, a null (`.npy`), or what the options ask for. Arrow: the reader
/// failed ([`Error::reader`] says how), or a writer of Arrow's did. Write: `out` failed. Cancelled: `watch` said so.
pub fn write_table<W: Write + Seek + Send>(
    reader: &mut dyn RecordBatchReader,
    format: Format,
    options: &TableOptions,
    out: &mut W,
    watch: &mut dyn FnMut(Written) -> bool,
) -> Result<Written, Error> {
    check(format, options)?;
    let tally = Tally::default();
    let mut out = Output::new(out, &tally);
    let mut watch = Watch { rows: 0, tally: &tally, watch };
    let result = match format {
        Format::Parquet => parquet::write(reader, options, &mut out, &mut watch),
        Format::Csv | Format::JsonLines => rows::write_lines(reader, format, options, &mut out, &mut watch),
        Format::Npy => rows::write_elements(reader, options, &mut out, &mut watch),
        Format::Arrow => {
            let mut gathered = BufWriter::with_capacity(GATHERED, &mut out);
            table::write_arrow(reader, &mut gathered, |rows| watch.add(rows)).and_then(|()| {
                gathered.flush().map_err(|cause| Error::writing(&cause)) // what it said is in the tally as well
            })
        }
    };
    // An encoder that could not write tells of it in its own words.
    match (result, tally.failure()) {
        (Err(_), Some(failure)) => Err(failure),
        (Err(error), None) => Err(error),
        (Ok(()), _) => Ok(watch.written()),
    }
}

fn check(format: Format, options: &TableOptions) -> Result<(), Error> {
    if options.row_group_rows == 0 {
        return Err(Error::invalid("a row group of 0 rows: it needs at least one"));
    }
    match options.compression {
        Some(Codec::Snappy | Codec::Zstd) if format != Format::Parquet => Err(Error::unsupported(format!(
            "a .{format} file is not compressed: leave the compression out, or name the file .parquet"
        ))),
        _ => Ok(()),
    }
}

/// Bytes that a row takes in memory, about.
fn row_size(batch: &RecordBatch) -> usize {
    // Where a type does not tell, all that its arrays hold is an upper bound.
    let size =
        |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size());
    batch.columns().iter().map(size).sum::<usize>().div_ceil(batch.num_rows().max(1))
}

/// Tells the caller what has been written, and hears whether to go on.
struct Watch<'a> {
    rows: u64,
    tally: &'a Tally,
    watch: &'a mut dyn FnMut(Written) -> bool,
}

impl Watch<'_> {
    /// Says that so many rows more have been written.
    fn add(&mut self, rows: usize) -> Result<(), Error> {
        self.rows += rows as u64;
        self.look()
    }

    fn look(&mut self) -> Result<(), Error> {
        let written = self.written();
        if (self.watch)(written) { Ok(()) } else { Err(Error::cancelled()) }
    }

    fn written(&self) -> Written {
        Written { rows: self.rows, bytes: self.tally.bytes() }
    }
}
