//! What stands for a source, from Python to the engine: `parquet:DIR`, or what the engine's `transfer.rs` makes of a text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use shoal_engine::Error;
use shoal_engine::source::Source;
use shoal_engine::source::archive::{self, ArchivesFrom, FormatsIn};
use shoal_engine::source::files::{self, FilesFrom, FilesOptions};
use shoal_engine::transfer::source_from_url;
use shoal_parquet::source::ParquetSource;

use crate::from_items::from_items;
use crate::options::{Archives, ListGet, Options, UrlList};

const PARQUET: &[u8] = b"parquet:";
/// The engine's hint does not have `parquet:`.
const HINT: &str = "a source is a directory, a file, a glob, archives (zip:PATTERN, tar:PATTERN), rows of Parquet files \
                    (parquet:DIR), or a list/get service, http://host:port; for a file with a colon in its name, ./NAME:X";

from_items! {
    /// `shoal._options.SourceOptions`.
    pub struct SourceOptions {
        text: Option<OsString>,
        paths: Option<Vec<OsString>>,
        entries: bool,
        urls: Option<UrlList>,
        list_get: ListGet,
        files: Files,
        archives: Archives,
    }
}

from_items! {
    /// `shoal._options.FilesOptions`.
    struct Files {
        follow_links: bool,
    }
}

impl SourceOptions {
    /// The source. Looks at the file system, so without the interpreter.
    /// `ordered`: objects are wanted in the order of the source.
    pub fn open(self, py: Python<'_>, options: &Options, ordered: bool) -> PyResult<Result<Arc<dyn Source>, Error>> {
        if let Some(list) = self.urls {
            let open = options.urls(list, ordered)?;
            return Ok(py.detach(|| -> Result<Arc<dyn Source>, Error> { Ok(Arc::new(open()?)) }));
        }
        let own = shoal_engine::transfer::SourceOptions {
            list_get: options.list_get(self.list_get)?,
            files: FilesOptions { follow_links: self.files.follow_links },
            archive: self.archives.to_engine()?,
        };
        let (text, paths) = (self.text.unwrap_or_default(), self.paths);
        if self.entries {
            let from = match (paths, text.to_str()) {
                (Some(paths), _) => ArchivesFrom::Paths(paths.into_iter().map(PathBuf::from).collect()),
                (None, Some(text)) => ArchivesFrom::Pattern(text.to_owned()),
                (None, None) => ArchivesFrom::Paths(vec![text.into()]),
            };
            let open = || -> Result<Arc<dyn Source>, Error> {
                Ok(Arc::new(archive::Archives::new(from, FormatsIn::Any, own.archive)?))
            };
            return Ok(py.detach(open));
        }
        if let (None, Some(directory)) = (&paths, text.as_bytes().strip_prefix(PARQUET)) {
            let directory = PathBuf::from(OsStr::from_bytes(directory));
            return Ok(
                py.detach(|| -> Result<Arc<dyn Source>, Error> { Ok(Arc::new(ParquetSource::new(&directory)?)) })
            );
        }
        let files =
            |what| -> Result<Arc<dyn Source>, Error> { Ok(Arc::new(files::Files::new(what, own.files.clone())?)) };
        Ok(py.detach(|| match (paths, text.to_str()) {
            (Some(paths), _) => files(FilesFrom::Paths(paths.iter().map(|path| path.as_bytes()).collect())),
            (None, Some(text)) => source_from_url(text, &own).map_err(|error| match error.why() {
                "not a valid source" => error.hint(HINT),
                _ => error,
            }),
            // Only a path may be something other than text.
            (None, None) => files(FilesFrom::Path(text.clone().into())),
        }))
    }
}
