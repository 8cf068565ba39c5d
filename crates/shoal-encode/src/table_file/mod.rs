//! Writes a table of any size to one file, piece by piece.
//!
//! Here: [`write_table`] and its options. The pieces are made by workers (`work_queue.rs`) and written in order by the
//! caller's thread: the columns of row groups (`parquet.rs`), or runs of rows (`rows.rs`), which are the lines of CSV and
//! JSON lines and the elements of `.npy`. What is in memory at once does not grow with the table: two pieces for each
//! worker. Not here: the file itself, which the caller opens, makes durable and names.

mod output;
mod parquet;
mod rows;
mod work_queue;

use std::io::{BufWriter, Seek, Write};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};

use self::output::{Output, Tally};
use crate::{Error, Format, Options, table};

/// Most workers by default: each holds two columns of a row group at once.
const WORKERS_MAX: usize = 16;

/// Rows of a row group; Arrow's own writers take as many.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Size of the write buffer of an Arrow file: schemas and footers come in small pieces.
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

/// Statistics of a Parquet file, with which readers can skip parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistics {
    /// Nothing.
    None,
    /// Minimum and maximum of each column of a row group.
    Column,
    /// And of each page.
    Page,
}

/// Options of [`write_table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Options of text formats.
    pub text: Options,
    /// Compression of Parquet, by default Snappy. The other formats are not compressed.
    pub compression: Option<Codec>,
    /// Rows of a Parquet row group; fewer where these would take more than 128 MiB.
    pub row_group_rows: usize,
    /// Whether to encode Parquet columns with a dictionary, which is abandoned where it does not save space.
    pub dictionary: bool,
    /// Statistics of Parquet columns.
    pub statistics: Statistics,
    /// Number of encoding threads; by default one per processor.
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

/// Writes all batches of `reader` to `out` as one file, from the current position of `out`.
///
/// `watch` is called on the caller's thread with what has been written so far, after each piece and at least ten times a
/// second while it waits for workers; false stops it. After an error, `out` has a partial file, which the caller discards.
///
/// An Arrow file of columns with dictionaries is built in memory, because it can hold only one dictionary per column.
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
    // An encoder reports a failed write with its own error; the tally has the cause.
    match (result, tally.failure()) {
        (Err(_), Some(failure)) => Err(failure),
        (Err(error), None) => Err(error),
        (Ok(()), _) => Ok(watch.written()),
    }
}

fn check(format: Format, options: &TableOptions) -> Result<(), Error> {
    if options.row_group_rows == 0 {
        return Err(Error::invalid("a row group needs at least one row"));
    }
    match options.compression {
        Some(Codec::Snappy | Codec::Zstd) if format != Format::Parquet => Err(Error::unsupported(format!(
            "compression does not apply to a .{format} file: leave it out, or name the file .parquet"
        ))),
        _ => Ok(()),
    }
}

/// Bytes that a row takes in memory, about.
fn row_size(batch: &RecordBatch) -> usize {
    // For a type without this size, the memory of its arrays is an upper bound.
    let size =
        |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size());
    batch.columns().iter().map(size).sum::<usize>().div_ceil(batch.num_rows().max(1))
}

/// Tells the caller what has been written; the answer is whether to continue.
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
