//! What can go wrong while records are described, read, chosen, added up or appended.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What an [`Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The description of a record is inconsistent, or has a type that records cannot have.
    Format,
    /// A condition that cannot be read or does not fit the format; [`Error::column`] says where.
    Expression,
    /// An argument that makes no sense with this file or format.
    Invalid,
    /// The file ends within a record.
    Torn,
    /// An append was interrupted, and another program may have written to the file since.
    Unfinished,
    /// The file has changed under the reader: it was cut short or replaced.
    Changed,
    /// The operating system refused; [`Error::errno`] has its number.
    Io,
    /// Another program has held the file's lock for too long.
    Locked,
    /// More groups than were allowed.
    Groups,
    /// The caller has asked for an end.
    Cancelled,
    /// A defect of this crate.
    Internal,
}

/// Why something could not be done with records: one line, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    path: Option<PathBuf>,
    errno: Option<i32>,
    column: Option<usize>,
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), path: None, errno: None, column: None }
    }

    pub(crate) fn format(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Format, text)
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, text)
    }

    /// About a place in a condition; columns count characters from 1.
    pub(crate) fn expression(column: usize, text: impl fmt::Display) -> Self {
        let text = format!("condition, column {column}: {text}");
        Self { column: Some(column), ..Self::new(ErrorKind::Expression, text) }
    }

    /// About a file, whose path begins the text.
    pub(crate) fn file(kind: ErrorKind, path: &Path, text: impl fmt::Display) -> Self {
        Self { path: Some(path.to_owned()), ..Self::new(kind, format!("{path:?}: {text}")) }
    }

    pub(crate) fn io(path: &Path, doing: impl fmt::Display, errno: Errno) -> Self {
        let text = match errno {
            Errno::NOENT => "there is no such file".to_owned(),
            _ => {
                // Not the kind's text: of an I/O error that is "uncategorized error".
                let why = std::io::Error::from(errno).to_string().to_lowercase();
                let why = why.split(" (os error").next().unwrap_or_default();
                format!("{doing} failed: {why} (errno {})", errno.raw_os_error())
            }
        };
        Self { errno: Some(errno.raw_os_error()), ..Self::file(ErrorKind::Io, path, text) }
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled")
    }

    /// What the error is about.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file it is about.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The operating system's number, where it refused.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// The character of the condition, counted from 1, at which it went wrong.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.column
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<Error> for arrow_schema::ArrowError {
    fn from(error: Error) -> Self {
        arrow_schema::ArrowError::ExternalError(Box::new(error))
    }
}
