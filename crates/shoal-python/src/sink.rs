//! The destinations that a user can name: their texts, and how each is opened. The table of them is in `registry.rs`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_engine::sink::Sink;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::null::NullSink;
use shoal_engine::{Error, Kind, TransferOptions};
use shoal_parquet::sink::{ParquetOptions, ParquetSink};

use crate::errors::run_error;
use crate::options::NoOptions;
use crate::registry::{Described, OpenSink, SinkForm, sink_named};

/// A destination as Python describes it: its text, and its own options.
pub type Given<'py> = (OsString, Bound<'py, PyDict>);

/// Takes the options of a destination; what is returned opens it.
pub fn opener(py: Python<'_>, (text, own): Given<'_>) -> PyResult<OpenSink> {
    let kind = sink_named(&text).map_err(|error| run_error(py, &error))?;
    (kind.open)(text, &own)
}

/// A directory.
pub struct Directory;

impl Described for Directory {
    const FUNCTION: &'static str = "";
    const SCHEMES: &'static [&'static str] = &[];
    const WRITTEN: &'static str = "a directory";
    type Options = NoOptions;
}

impl SinkForm for Directory {
    fn open(text: OsString, _: NoOptions, run: &TransferOptions) -> Result<Arc<dyn Sink>, Error> {
        Ok(Arc::new(DirSink::new(Path::new(&text), DirOptions::of(run))?))
    }
}

/// Rows of Parquet files.
pub struct Parquet;

impl Described for Parquet {
    const FUNCTION: &'static str = "parquet";
    const SCHEMES: &'static [&'static str] = &["parquet"];
    const WRITTEN: &'static str = "parquet:DIR for rows of Parquet files";
    type Options = ParquetOptions;
}

impl SinkForm for Parquet {
    fn open(text: OsString, options: ParquetOptions, run: &TransferOptions) -> Result<Arc<dyn Sink>, Error> {
        match text.as_bytes().strip_prefix(b"parquet:") {
            None | Some(b"") => Err(Error::new(Kind::Config, "parquet: needs a directory").hint("as in parquet:out/")),
            Some(directory) => Ok(Arc::new(ParquetSink::new(Path::new(OsStr::from_bytes(directory)), options, run)?)),
        }
    }
}

/// Nothing: everything is discarded.
pub struct Null;

impl Described for Null {
    const FUNCTION: &'static str = "";
    const SCHEMES: &'static [&'static str] = &["null"];
    const WRITTEN: &'static str = "null: to discard everything";
    type Options = NoOptions;
}

impl SinkForm for Null {
    fn open(text: OsString, _: NoOptions, _: &TransferOptions) -> Result<Arc<dyn Sink>, Error> {
        match text.as_bytes() {
            b"null:" => Ok(Arc::new(NullSink::new())),
            _ => Err(Error::new(Kind::Config, "nothing can follow null:").hint("as in `shoal copy SRC null:`")),
        }
    }
}
