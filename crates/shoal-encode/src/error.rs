//! What can go wrong while a table or an array becomes a file.

use std::fmt;

use arrow_schema::ArrowError;

/// What an [`Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The format cannot hold this data; the text says which format can.
    Unsupported,
    /// The table's reader failed, or a writer of Arrow's did.
    Arrow,
    /// The description of an array contradicts itself.
    Invalid,
    /// There is not enough memory for the file.
    Memory,
}

/// Why a table or an array could not be encoded: one line, in lower case, naming column and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

impl Error {
    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unsupported, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, text: text.into() }
    }

    pub(crate) fn memory(bytes: usize) -> Self {
        Self { kind: ErrorKind::Memory, text: format!("no memory for a file of {bytes} bytes") }
    }

    /// Says what was done when Arrow failed, on one line whatever the cause's text holds.
    pub(crate) fn arrow(doing: impl fmt::Display, cause: &dyn fmt::Display) -> Self {
        let cause = cause.to_string();
        let line: Vec<&str> = cause.split_whitespace().collect();
        Self { kind: ErrorKind::Arrow, text: format!("{doing} failed: {}", line.join(" ")) }
    }

    pub(crate) fn reading(cause: &ArrowError) -> Self {
        Self::arrow("reading the table", cause)
    }

    /// What the error is about.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
