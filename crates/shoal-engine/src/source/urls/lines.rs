//! A list in a file of lines, or in a stream: opening it, and what identifies it. Not here: reading (`reader.rs`), which URL
//! can be fetched (`address.rs`).

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::fields::Fields;
use super::reader::{self, LineReader, Shape};
use super::record::{Record, Records, UrlList};
use super::rows::Rows;
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::error::plain;
use crate::fs::random::random;
use crate::fs::read::{self, Facts};
use crate::source::before_options;

/// The format of a list of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// `URL` or `NAME<TAB>URL`; empty lines and comments are no records.
    Plain,
    /// `URL` or `NAME<TAB>URL`: each line is a record, whatever it begins with.
    Items,
    /// Rows below a row with the names of the columns, separated by this character.
    Csv(u8, Fields),
    /// A JSON object on each line.
    Json(Fields),
}

/// A file of lines, or a stream.
pub struct Lines {
    file: Arc<OwnedFd>,
    identity: String,
    shown: String,
    is_stream: bool,
    /// What the file was when it was opened; none if it is no regular one.
    opened: Option<Facts>,
    shape: Arc<Shape>,
    has_fields: bool,
    /// Where the records begin, and lines before that.
    begin: (u64, u64),
}

impl Lines {
    /// Opens a file. Pipes are streams. `identity`: what identifies its contents, if its path does not.
    ///
    /// # Errors
    /// [`Kind::Config`] if it cannot be opened, is a directory, or does not have the fields.
    pub fn open(path: &Path, format: &Format, identity: Option<String>) -> Result<Lines> {
        let subject = escape(path.as_os_str().as_bytes());
        let config = |why: &str| Error::new(Kind::Config, why).on(&subject);
        let failed = |errno: rustix::io::Errno| {
            config(&format!("the list cannot be opened: {}", plain(errno))).errno(Some(errno.raw_os_error()))
        };
        let file = read::open_path(path).map_err(failed)?;
        let is_stream = read::is_stream(file.as_fd()).map_err(failed)?;
        let is_stream = is_stream.ok_or_else(|| config("a list of URLs must be a file, not a directory or device"))?;
        let shown = match &identity {
            None => escape(path.file_name().unwrap_or(path.as_os_str()).as_bytes()),
            Some(_) => "list".to_owned(),
        };
        let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut identity = match (identity, is_stream) {
            (Some(identity), _) => identity,
            (None, true) => stream_identity(),
            // All bytes: shortened for display, two long paths could be equal.
            (None, false) => {
                let path = full.as_os_str().as_bytes().escape_ascii().to_string();
                before_options(path, &[" url_field=", " name="])
            }
        };
        if let Format::Csv(_, fields) | Format::Json(fields) = format {
            if is_stream {
                return Err(config("a list with fields must be a file: from a stream, only plain lists are read"));
            }
            identity.push_str(&fields.identity());
        }
        let mut lines = Lines::new(file, identity, shown, is_stream);
        lines.has_fields = matches!(format, Format::Csv(..) | Format::Json(_));
        match format {
            Format::Plain => {}
            Format::Items => lines.shape = Arc::new(Shape::Items),
            Format::Json(fields) => lines.shape = Arc::new(Shape::Json(fields.clone())),
            Format::Csv(delimiter, fields) => {
                let mut reader = lines.reader();
                if let Some(names) = reader.names(*delimiter).map_err(|error| error.on(&subject))? {
                    let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
                    let rows = Rows::below(&names, *delimiter, fields).map_err(|error| error.on(&subject))?;
                    lines.shape = Arc::new(Shape::Rows(rows));
                    lines.begin = (reader.at, reader.number);
                }
            }
        }
        Ok(lines)
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// [`Kind::Config`] if it is closed.
    pub fn stdin() -> Result<Lines> {
        let file = read::stdin()
            .map_err(|errno| Error::new(Kind::Config, format!("standard input cannot be read: {}", plain(errno))))?;
        Ok(Lines::new(file, stream_identity(), "-".to_owned(), true))
    }

    /// A plain list.
    fn new(file: OwnedFd, identity: String, shown: String, is_stream: bool) -> Lines {
        let opened = read::facts(file.as_fd()).ok().filter(|facts| facts.regular);
        let (file, shape) = (Arc::new(file), Arc::new(Shape::Plain));
        Lines { file, identity, shown, is_stream, opened, shape, has_fields: false, begin: (0, 0) }
    }

    fn reader(&self) -> LineReader {
        let mut reader = LineReader::new(self.file.clone(), self.shape.clone());
        (reader.at, reader.number) = self.begin;
        (reader.is_stream, reader.opened) = (self.is_stream, self.opened);
        // What begins with these bytes among items is a name.
        reader.skips_mark = reader.at == 0 && !matches!(*self.shape, Shape::Items);
        reader
    }
}

/// What came once does not come again.
fn stream_identity() -> String {
    format!("stream#{:032x}", u128::from_ne_bytes(random()))
}

impl UrlList for Lines {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn shown(&self) -> &str {
        &self.shown
    }

    fn read(&self) -> Result<Box<dyn Records>> {
        Ok(Box::new(self.reader()))
    }

    fn find(&self, position: u64, into: &mut Record) -> Result<()> {
        reader::find(&self.file, position, &self.shape, into)
    }

    fn is_stream(&self) -> bool {
        self.is_stream
    }

    fn has_fields(&self) -> bool {
        self.has_fields
    }

    fn notes(&self) -> Vec<String> {
        let note = "the list comes from a stream: a run that is stopped cannot be resumed; use a file for that";
        self.is_stream.then(|| note.to_owned()).into_iter().collect()
    }
}
