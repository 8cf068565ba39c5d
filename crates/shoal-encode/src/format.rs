//! Which format a name asks for.

use std::fmt;

/// The format of a file that holds a table or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values: tables, and arrays of up to two dimensions.
    Csv,
    /// Parquet, compressed with Snappy as most writers do: tables.
    Parquet,
    /// The Arrow IPC file format, also known as Feather version 2, uncompressed so that it can be mapped: tables.
    Arrow,
    /// One JSON object a line: tables.
    JsonLines,
    /// NumPy's own format: arrays.
    Npy,
}

impl Format {
    /// Every ending that is known, without its dot and in lower case.
    pub const ENDINGS: [(&'static str, Self); 7] = [
        ("csv", Self::Csv),
        ("parquet", Self::Parquet),
        ("arrow", Self::Arrow),
        ("feather", Self::Arrow),
        ("jsonl", Self::JsonLines),
        ("ndjson", Self::JsonLines),
        ("npy", Self::Npy),
    ];

    /// The format that the ending of a name's last component says, in any case; none if it is not a known one.
    ///
    /// Only the last suffix counts, so `a.csv.gz` has no format: nothing here compresses.
    #[must_use]
    pub fn of_name(name: &[u8]) -> Option<Self> {
        let ending = Self::ending(name)?;
        Self::ENDINGS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known.as_bytes())).map(|(_, format)| *format)
    }

    /// The ending of a name's last component, without its dot.
    #[must_use]
    pub fn ending(name: &[u8]) -> Option<&[u8]> {
        let component = name.rsplit(|byte| *byte == b'/').next()?;
        let dot = component.iter().rposition(|byte| *byte == b'.')?;
        Some(&component[dot + 1..])
    }

    /// The ending that stands for the format, without its dot.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::JsonLines => "jsonl",
            Self::Npy => "npy",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
