//! The sources that a user can name: their texts, and how each is opened. The table of them is in `registry.rs`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use shoal_engine::source::archive::{self, ArchiveOptions, ArchivesFrom, FormatsIn};
use shoal_engine::source::files::{self, FilesFrom, FilesOptions};
use shoal_engine::source::list_get::{ListGet, ListGetOptions};
use shoal_engine::source::urls::{self, Format, Lines, UrlsOptions};
use shoal_engine::source::{ConnectionOptions, HttpOptions, Source};
use shoal_engine::{Error, Kind, TransferOptions};
use shoal_parquet::source::ParquetSource;
use shoal_parquet::urls::ParquetUrls;
use shoal_s3::{S3, S3Options};

use crate::credentials::{self, Headers};
use crate::errors::run_error;
use crate::options::NoOptions;
use crate::registry::{Described, SOURCES, SourceForm, What, source_named};

/// A source as Python describes it: the function that did, or none for a plain text; what it is of (a text, paths or a
/// `Spooled`); and the own options.
pub type Given<'py> = (Option<String>, Bound<'py, PyAny>, Bound<'py, PyDict>);

/// Opens a source for a run with these options. It looks at the file system, so without the interpreter.
/// `ordered`: objects are wanted in the order of the source. With it comes what gives the headers of its requests, which the
/// caller serves while it waits for the run.
pub fn open(
    py: Python<'_>,
    given: Given<'_>,
    run: &mut TransferOptions,
    ordered: bool,
) -> PyResult<(Arc<dyn Source>, Option<Headers>)> {
    let (function, what, own) = given;
    let what = if what.is_instance_of::<PyString>() {
        What::Text(what.extract()?)
    } else if what.hasattr("identity")? {
        What::Spooled(what.getattr("path")?.extract()?, what.getattr("identity")?.extract()?)
    } else {
        What::Paths(what.try_iter()?.map(|path| path?.extract()).collect::<PyResult<Vec<OsString>>>()?)
    };
    let kind = match (&function, &what) {
        (None, What::Text(text)) => source_named(text).map_err(|error| run_error(py, &error))?,
        (function, _) => {
            let name = function.as_deref().unwrap_or(Files::FUNCTION);
            SOURCES.iter().find(|kind| kind.function == name).ok_or_else(|| unknown(py, name))?
        }
    };
    let (open, headers) = (kind.open)(what, &own, run, ordered)?;
    Ok((py.detach(open).map_err(|error| run_error(py, &error))?, headers))
}

fn unknown(py: Python<'_>, name: &str) -> PyErr {
    run_error(py, &Error::new(Kind::Config, format!("no source is described by {name}")))
}

fn network(given: &Bound<'_, PyDict>, http: &mut HttpOptions, run: &mut TransferOptions) -> PyResult<Option<Headers>> {
    retries(&http.connection, run);
    credentials::prepare(given, http)
}

/// A run retries as its source says.
fn retries(connection: &ConnectionOptions, run: &mut TransferOptions) {
    (run.max_retries, run.retry_timeout) = (connection.max_retries, connection.retry_timeout);
}

/// The text of a source that is one.
fn text(what: What) -> Result<OsString, Error> {
    match what {
        What::Text(text) => Ok(text),
        _ => Err(Error::new(Kind::Config, "this source is one text, not several paths")),
    }
}

/// Without a colon and what is before it, if that is this word.
fn after<'a>(text: &'a OsStr, scheme: &str) -> Option<&'a OsStr> {
    let rest = text.as_bytes().strip_prefix(scheme.as_bytes())?.strip_prefix(b":")?;
    Some(OsStr::from_bytes(rest))
}

/// Files: a directory, one file, a glob, or paths.
pub struct Files;

impl Described for Files {
    const FUNCTION: &'static str = "files";
    const SCHEMES: &'static [&'static str] = &[];
    const WRITTEN: &'static str = "a directory, a file, a glob";
    type Options = FilesOptions;
}

impl SourceForm for Files {
    fn open(what: What, options: FilesOptions, _: bool) -> Result<Arc<dyn Source>, Error> {
        let from = match what {
            // Only a path may be something other than text.
            What::Text(text) => text.to_str().map_or_else(|| FilesFrom::Path((&text).into()), FilesFrom::text),
            What::Spooled(path, _) => FilesFrom::Path(path.into()),
            What::Paths(paths) => FilesFrom::Paths(paths.iter().map(|path| path.as_bytes()).collect()),
        };
        Ok(Arc::new(files::Files::new(from, options)?))
    }
}

/// A list/get service.
pub struct Service;

impl Described for Service {
    const FUNCTION: &'static str = "list_get";
    const SCHEMES: &'static [&'static str] = &["http", "https"];
    const WRITTEN: &'static str = "a list/get service, http://host:port";
    type Options = ListGetOptions;
}

impl SourceForm for Service {
    fn open(what: What, options: ListGetOptions, _: bool) -> Result<Arc<dyn Source>, Error> {
        Ok(Arc::new(ListGet::new(&text(what)?.to_string_lossy(), options)?))
    }

    fn prepare(
        given: &Bound<'_, PyDict>,
        options: &mut ListGetOptions,
        run: &mut TransferOptions,
    ) -> PyResult<Option<Headers>> {
        network(given, &mut options.http, run)
    }
}

/// The entries of archives.
pub struct Archives;

impl Described for Archives {
    const FUNCTION: &'static str = "archives";
    const SCHEMES: &'static [&'static str] = &["zip", "tar"];
    const WRITTEN: &'static str = "archives (zip:PATTERN, tar:PATTERN)";
    type Options = ArchiveOptions;
}

impl SourceForm for Archives {
    fn open(what: What, options: ArchiveOptions, _: bool) -> Result<Arc<dyn Source>, Error> {
        let pattern = |text: &OsStr| match text.to_str() {
            Some(text) => ArchivesFrom::Pattern(text.to_owned()),
            None => ArchivesFrom::Paths(vec![text.into()]),
        };
        let (from, formats) = match &what {
            What::Paths(paths) => (ArchivesFrom::Paths(paths.iter().map(PathBuf::from).collect()), FormatsIn::Any),
            What::Text(text) | What::Spooled(text, _) => match (after(text, "zip"), after(text, "tar")) {
                (Some(rest), _) => (pattern(rest), FormatsIn::Zip),
                (_, Some(rest)) => (pattern(rest), FormatsIn::Tar),
                (None, None) => (pattern(text), FormatsIn::Any),
            },
        };
        Ok(Arc::new(archive::Archives::new(from, formats, options)?))
    }
}

/// A list of URLs.
pub struct UrlList;

/// The formats of a list by the end of its name; others are plain lines.
const FORMATS: &[(&str, ListFormat)] = &[
    (".csv", ListFormat::Columns(b',')),
    (".tsv", ListFormat::Columns(b'\t')),
    (".jsonl", ListFormat::Json),
    (".ndjson", ListFormat::Json),
    (".parquet", ListFormat::Parquet),
];

#[derive(Clone, Copy)]
enum ListFormat {
    Columns(u8),
    Json,
    Parquet,
}

impl Described for UrlList {
    const FUNCTION: &'static str = "urls";
    const SCHEMES: &'static [&'static str] = &[];
    const WRITTEN: &'static str = "";
    type Options = UrlsOptions;
}

impl SourceForm for UrlList {
    fn open(what: What, mut options: UrlsOptions, ordered: bool) -> Result<Arc<dyn Source>, Error> {
        options.ordered = ordered;
        let fields = options.fields();
        let list: Box<dyn urls::UrlList> = match what {
            What::Spooled(path, identity) => Box::new(Lines::open(Path::new(&path), &Format::Items, Some(identity))?),
            _ => {
                let path = text(what)?;
                let name = path.to_string_lossy().to_ascii_lowercase();
                let format = FORMATS.iter().find(|(end, _)| name.ends_with(end)).map(|&(_, format)| format);
                match format {
                    _ if path == "-" => Box::new(Lines::stdin()?),
                    Some(ListFormat::Parquet) => Box::new(ParquetUrls::open(Path::new(&path), &fields)?),
                    Some(ListFormat::Columns(separator)) => {
                        Box::new(Lines::open(Path::new(&path), &Format::Csv(separator, fields), None)?)
                    }
                    Some(ListFormat::Json) => Box::new(Lines::open(Path::new(&path), &Format::Json(fields), None)?),
                    None => Box::new(Lines::open(Path::new(&path), &Format::Plain, None)?),
                }
            }
        };
        Ok(Arc::new(urls::Urls::new(list, options)?))
    }

    fn prepare(
        given: &Bound<'_, PyDict>,
        options: &mut UrlsOptions,
        run: &mut TransferOptions,
    ) -> PyResult<Option<Headers>> {
        network(given, &mut options.http, run)
    }
}

/// The rows of Parquet files.
pub struct ParquetRows;

impl Described for ParquetRows {
    const FUNCTION: &'static str = "";
    const SCHEMES: &'static [&'static str] = &["parquet"];
    const WRITTEN: &'static str = "rows of Parquet files (parquet:DIR)";
    type Options = NoOptions;
}

impl SourceForm for ParquetRows {
    fn open(what: What, _: NoOptions, _: bool) -> Result<Arc<dyn Source>, Error> {
        let text = text(what)?;
        Ok(Arc::new(ParquetSource::new(Path::new(after(&text, "parquet").unwrap_or(&text)))?))
    }
}

/// A bucket of an object store.
pub struct Bucket;

impl Described for Bucket {
    const FUNCTION: &'static str = "s3";
    const SCHEMES: &'static [&'static str] = &["s3"];
    const WRITTEN: &'static str = "a bucket (s3://BUCKET/PREFIX)";
    type Options = S3Options;
}

impl SourceForm for Bucket {
    fn open(what: What, options: S3Options, _: bool) -> Result<Arc<dyn Source>, Error> {
        Ok(Arc::new(S3::new(&text(what)?.to_string_lossy(), options)?))
    }

    fn prepare(
        given: &Bound<'_, PyDict>,
        options: &mut S3Options,
        run: &mut TransferOptions,
    ) -> PyResult<Option<Headers>> {
        retries(&options.connection, run);
        credentials::of_store(given, options)
    }
}
