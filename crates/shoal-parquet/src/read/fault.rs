//! `Fault`: why a file, a row group, a page or a row cannot be read. Unlike an error, it can be told of many objects.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::errors::ParquetError;
use shoal_engine::display::escape;
use shoal_engine::{Class, Error, Kind};

/// Why something cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    pub why: String,
    pub errno: Option<i32>,
}

pub type Result<T, E = Fault> = std::result::Result<T, E>;

impl Fault {
    pub fn new(kind: Kind, why: impl Into<String>) -> Fault {
        Fault { kind, why: why.into(), errno: None }
    }

    /// The same, with the place before the reason.
    pub fn at(mut self, place: &str) -> Fault {
        self.why = format!("{place}: {}", self.why);
        self
    }

    /// Whether it concerns more than this file: it ends a run, or goes away.
    pub fn is_general(&self) -> bool {
        self.kind.class() != Class::Object
    }

    pub fn to_error(&self) -> Error {
        Error::new(self.kind, self.why.clone()).errno(self.errno)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for ParquetError {
    fn from(fault: Fault) -> ParquetError {
        ParquetError::External(Box::new(fault))
    }
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Fault {
        let error = match error {
            ParquetError::External(inner) => match inner.downcast::<Fault>() {
                Ok(fault) => return *fault,
                Err(other) => ParquetError::External(other),
            },
            other => other,
        };
        // Its text may have bytes of the file.
        Fault::new(Kind::Archive, escape(error.to_string().as_bytes()))
    }
}

/// Calls `read`, which decodes bytes of others. The library panics on some bytes that no writer writes.
pub fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Fault::new(Kind::Archive, "damaged: it cannot be decoded")))
}
