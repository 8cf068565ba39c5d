//! A list of URLs in a column of a Parquet file, for `shoal_engine::source::urls`.
//!
//! A record is a row, and its position is the row's number in the file. Only the columns of the URL and of names are read,
//! some thousand rows at a time.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use shoal_engine::display::escape;
use shoal_engine::source::urls::{Fields, Record, Records, Step, UrlList, changed, changed_while_read};
use shoal_engine::{Error, Kind, Result};

use crate::read::fault::{Fault, guarded};

/// Rows that are decoded at once.
const ROWS: usize = 4096;

/// What a file is: device, inode, size, and the times of its contents and of any change.
type Facts = ([u64; 3], [i64; 4]);

fn facts(path: &Path) -> std::io::Result<Facts> {
    let found = std::fs::metadata(path)?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    Ok(([found.dev(), found.ino(), found.size()], times))
}

/// A Parquet file with a column of URLs.
#[derive(Clone)]
pub struct ParquetUrls {
    path: PathBuf,
    shown: String,
    fields: Fields,
    /// What the file was when it was opened.
    opened: Option<Facts>,
}

impl ParquetUrls {
    /// Opens a file, and checks that it has the columns.
    ///
    /// # Errors
    /// [`Kind::Config`] if it cannot be opened, is not Parquet or does not have the columns.
    pub fn open(path: &Path, fields: &Fields) -> Result<ParquetUrls> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let shown = escape(path.file_name().unwrap_or(path.as_os_str()).as_bytes());
        let list = ParquetUrls { opened: facts(&path).ok(), path, shown, fields: fields.clone() };
        let full = escape(list.path.as_os_str().as_bytes());
        let config = |fault: Fault| Error::new(Kind::Config, fault.why).errno(fault.errno).on(&full);
        let builder = list.builder().map_err(config)?;
        let columns: Vec<&str> = builder.schema().fields().iter().map(|field| field.name().as_str()).collect();
        fields.places(&columns).map_err(|error| error.on(&full))?;
        for name in [&fields.url].into_iter().chain(&fields.names) {
            let kind = builder.schema().field_with_name(name).map(|field| field.data_type().clone());
            if !kind.is_ok_and(|kind| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)) {
                let why = format!("its column \"{}\" is not text", escape(name.as_bytes()));
                return Err(Error::new(Kind::Config, why).on(&full));
            }
        }
        Ok(list)
    }

    fn builder(&self) -> Result<ParquetRecordBatchReaderBuilder<File>, Fault> {
        let file = File::open(&self.path).map_err(|error| Fault {
            errno: error.raw_os_error(),
            ..Fault::new(Kind::Listing, format!("cannot be opened: {error}"))
        })?;
        guarded(|| Ok(ParquetRecordBatchReaderBuilder::try_new(file)?))
    }

    /// Reads from a row on, at most so many rows.
    fn rows_from(&self, row: u64, limit: Option<usize>) -> Result<Rows> {
        let reader = self.builder().and_then(|builder| {
            guarded(|| {
                let roots = [&self.fields.url].into_iter().chain(&self.fields.names).map(String::as_str);
                let mask = ProjectionMask::columns(builder.parquet_schema(), roots);
                let mut builder = builder.with_projection(mask).with_batch_size(limit.unwrap_or(ROWS));
                builder = builder.with_offset(usize::try_from(row).unwrap_or(usize::MAX));
                if let Some(limit) = limit {
                    builder = builder.with_limit(limit);
                }
                Ok(builder.build()?)
            })
        });
        let reader = reader.map_err(|fault| self.failed(fault))?;
        Ok(Rows { list: self.clone(), is_whole: limit.is_none(), reader, batch: None, at: 0, row })
    }

    fn failed(&self, fault: Fault) -> Error {
        let path = escape(self.path.as_os_str().as_bytes());
        Error::new(Kind::Listing, format!("the list cannot be read: {}", fault.why)).errno(fault.errno).on(&path)
    }
}

impl UrlList for ParquetUrls {
    fn identity(&self) -> String {
        // All bytes: shortened for display, two long paths could be equal.
        format!("{}{}", self.path.as_os_str().as_bytes().escape_ascii(), self.fields.identity())
    }

    fn shown(&self) -> &str {
        &self.shown
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn read(&self) -> Result<Box<dyn Records>> {
        Ok(Box::new(self.rows_from(0, None)?))
    }

    fn find(&self, position: u64, into: &mut Record) -> Result<()> {
        match self.rows_from(position, Some(1))?.next(into)? {
            Step::Record if into.position == position => Ok(()),
            _ => Err(changed()),
        }
    }
}

/// The rows of a file, in their order.
struct Rows {
    list: ParquetUrls,
    /// All rows are read.
    is_whole: bool,
    reader: ParquetRecordBatchReader,
    /// The columns with the URLs, and with what names are made of.
    batch: Option<(ArrayRef, Vec<ArrayRef>)>,
    /// The next row of the batch, and its number in the file.
    at: usize,
    row: u64,
}

impl Rows {
    fn columns(&self, batch: &RecordBatch) -> Option<(ArrayRef, Vec<ArrayRef>)> {
        let column = |name: &String| batch.column_by_name(name).cloned();
        Some((column(&self.list.fields.url)?, self.list.fields.names.iter().map(column).collect::<Option<_>>()?))
    }
}

impl Records for Rows {
    fn next(&mut self, into: &mut Record) -> Result<Step> {
        loop {
            if let Some((urls, names)) = &self.batch
                && self.at < urls.len()
            {
                (into.position, into.number) = (self.row, self.row + 1);
                match text(urls, self.at) {
                    Some(url) => into.set_fields(names.iter().map(|names| text(names, self.at)), url),
                    None => into.set_bad("the row has no URL"),
                }
                (self.at, self.row) = (self.at + 1, self.row + 1);
                return Ok(Step::Record);
            }
            let next =
                guarded(|| self.reader.next().transpose().map_err(|error| Fault::from(ParquetError::from(error))));
            match next.map_err(|fault| self.list.failed(fault))? {
                None if self.is_whole && facts(&self.list.path).ok() != self.list.opened => {
                    return Err(changed_while_read());
                }
                None => return Ok(Step::End),
                Some(batch) => {
                    let damaged = || self.list.failed(Fault::new(Kind::Listing, "a column is missing"));
                    self.batch = Some(self.columns(&batch).ok_or_else(damaged)?);
                    self.at = 0;
                }
            }
        }
    }
}

/// The text of a cell; none if it is null.
fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row),
        DataType::Utf8View => column.as_string_view().value(row),
        _ => return None,
    })
}
