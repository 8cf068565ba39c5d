//! What can go wrong while a table or an array becomes a file.

use std::fmt;
use std::io;
use std::sync::Arc;

use arrow_schema::{ArrowError, DataType};

/// What an [`Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The format cannot hold this data; the text says which format can.
    Unsupported,
    /// The table's reader failed, or a writer of Arrow's did.
    Arrow,
    /// The description of an array is inconsistent.
    Invalid,
    /// There is not enough memory for the file.
    Memory,
    /// The place that a file is written to has failed; [`Error::errno`] has the system's number.
    Write,
    /// The caller has asked for an end.
    Cancelled,
    /// A defect of this crate.
    Internal,
}

/// Why a table or an array could not be encoded: one line, in lower case, naming column and type.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    errno: Option<i32>,
    /// What the table's reader said.
    reader: Option<Arc<ArrowError>>,
}

/// Equal if they say the same of the same kind.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.text, self.errno) == (other.kind, &other.text, other.errno)
    }
}

impl Eq for Error {}

impl Error {
    fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), errno: None, reader: None }
    }

    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, text)
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, text)
    }

    pub(crate) fn memory(bytes: usize) -> Self {
        Self::new(ErrorKind::Memory, format!("no memory for a file of {bytes} bytes"))
    }

    /// Says what was done when Arrow failed, on one line whatever the cause's text holds.
    pub(crate) fn arrow(doing: impl fmt::Display, cause: &dyn fmt::Display) -> Self {
        let cause = cause.to_string();
        let line: Vec<&str> = cause.split_whitespace().collect();
        Self::new(ErrorKind::Arrow, format!("{doing} failed: {}", line.join(" ")))
    }

    /// The same with the column that it is about, unless it says that already.
    pub(crate) fn of_column(self, name: &str, kind: &DataType) -> Self {
        match self.text.contains(&format!("column {name:?}")) {
            true => self,
            false => Self { text: format!("column {name:?} of type {kind}: {}", self.text), ..self },
        }
    }

    /// Keeps what the reader said, so that the caller can tell one of its own errors.
    pub(crate) fn reading(cause: ArrowError) -> Self {
        let error = Self::arrow("reading the table", &cause);
        Self { reader: Some(Arc::new(cause)), ..error }
    }

    pub(crate) fn writing(cause: &io::Error) -> Self {
        let why = cause.to_string();
        // The number is said apart.
        let why = why.split(" (os error").next().unwrap_or_default();
        let text = format!("writing the file failed: {}", lower_first(why));
        Self { errno: cause.raw_os_error(), ..Self::new(ErrorKind::Write, text) }
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled")
    }

    pub(crate) fn defect() -> Self {
        Self::new(ErrorKind::Internal, "encoding panicked: this is a bug in shoal, please report it")
    }

    /// What the error is about.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operating system's number, where a file could not be written.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// What the table's reader said, where it failed: an [`ArrowError::ExternalError`] holds the reader's own error.
    #[must_use]
    pub fn reader(&self) -> Option<&ArrowError> {
        self.reader.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reader.as_deref().map(|reader| reader as _)
    }
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect()
}
