//! What stands for a source, from Python to the engine. Not here: what a text means (the engine's `transfer.rs`).

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::prelude::*;
use shoal_engine::Error;
use shoal_engine::source::Source;
use shoal_engine::transfer::source_from_url;

use crate::options::{ListGet, Options};

/// `shoal._options.SourceOptions`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SourceOptions {
    text: Option<OsString>,
    paths: Option<Vec<OsString>>,
    list_get: ListGet,
    files: Files,
}

/// `shoal._options.FilesOptions`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Files {
    follow_links: bool,
}

impl SourceOptions {
    /// The source. Looks at the file system, so without the interpreter.
    pub fn open(self, py: Python<'_>, options: &Options) -> PyResult<Result<Arc<dyn Source>, Error>> {
        let list_get = options.list_get(self.list_get)?;
        let text = self.text.unwrap_or_default();
        Ok(py.detach(|| source_from_url(&text.to_string_lossy(), &list_get)))
    }
}
