//! What a user can name as a source or a destination: one line each.
//!
//! A source or destination is a type that implements [`Described`] and [`SourceForm`] or [`SinkForm`]: the function of
//! Python that describes it, the schemes of its texts, its options, and how it is opened. Not here: the forms
//! (`source.rs`, `sink.rs`).

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_engine::display::escape;
use shoal_engine::fs::is_there;
use shoal_engine::option::{Opt, Options};
use shoal_engine::sink::Sink;
use shoal_engine::source::Source;
use shoal_engine::source::without_password;
use shoal_engine::{Error, Kind, TransferOptions};

use crate::credentials::Headers;
use crate::options::{take, values};
use crate::sink::{Directory, Null, Parquet};
use crate::source::{Archives, Bucket, Files, ParquetRows, Service, UrlList};

/// The sources.
pub const SOURCES: &[SourceKind] = &[
    SourceKind::of::<Files>(),
    SourceKind::of::<Service>(),
    SourceKind::of::<Archives>(),
    SourceKind::of::<UrlList>(),
    SourceKind::of::<ParquetRows>(),
    SourceKind::of::<Bucket>(),
];

/// The destinations.
pub const SINKS: &[SinkKind] = &[SinkKind::of::<Directory>(), SinkKind::of::<Parquet>(), SinkKind::of::<Null>()];

/// What a user writes for a source or a destination.
pub trait Described {
    /// The function of Python that describes it.
    const FUNCTION: &'static str;
    /// How its texts begin, before a colon; without any, it is what a text without a scheme means.
    const SCHEMES: &'static [&'static str];
    /// What a user may write, for messages; empty if there is no text for it.
    const WRITTEN: &'static str;
    /// Its own options.
    type Options: Options + Send + 'static;
}

/// A source.
pub trait SourceForm: Described {
    /// Opens it. `ordered`: objects are wanted in the order of the source.
    fn open(what: What, options: Self::Options, ordered: bool) -> Result<Arc<dyn Source>, Error>;

    /// Completes what the run needs to know of how it uses the network, if it does. Returns what gives headers or keys.
    fn prepare(_: &Bound<'_, PyDict>, _: &mut Self::Options, _: &mut TransferOptions) -> PyResult<Option<Headers>> {
        Ok(None)
    }
}

/// A destination.
pub trait SinkForm: Described {
    /// Opens it.
    fn open(text: OsString, options: Self::Options, run: &TransferOptions) -> Result<Arc<dyn Sink>, Error>;
}

/// What a source is of.
pub enum What {
    /// A text or a path.
    Text(OsString),
    /// Paths.
    Paths(Vec<OsString>),
    /// A list that was passed in memory and is kept in this file, and what identifies it.
    Spooled(OsString, String),
}

type Checked = for<'py> fn(&Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>>;
/// Opens a source; and what gives the headers of its requests.
pub type OpenSource = (Box<dyn FnOnce() -> Result<Arc<dyn Source>, Error> + Send>, Option<Headers>);
/// Opens a destination for a run with these options.
pub type OpenSink = Box<dyn FnOnce(&TransferOptions) -> Result<Arc<dyn Sink>, Error> + Send>;

/// A source in the table.
pub struct SourceKind {
    pub function: &'static str,
    pub schemes: &'static [&'static str],
    pub written: &'static str,
    pub tables: &'static [&'static [Opt]],
    pub checked: Checked,
    /// Takes its options; opening looks at the file system, so it is done without the interpreter.
    pub open: for<'py> fn(What, &Bound<'py, PyDict>, &mut TransferOptions, bool) -> PyResult<OpenSource>,
}

/// A destination in the table.
pub struct SinkKind {
    pub function: &'static str,
    pub schemes: &'static [&'static str],
    pub written: &'static str,
    pub tables: &'static [&'static [Opt]],
    pub checked: Checked,
    /// As that of a source.
    pub open: for<'py> fn(OsString, &Bound<'py, PyDict>) -> PyResult<OpenSink>,
}

impl SourceKind {
    const fn of<T: SourceForm>() -> SourceKind {
        SourceKind {
            function: T::FUNCTION,
            schemes: T::SCHEMES,
            written: T::WRITTEN,
            tables: T::Options::TABLES,
            checked: checked::<T::Options>,
            open: |what, given, run, ordered| {
                let mut options: T::Options = take(given)?;
                let headers = T::prepare(given, &mut options, run)?;
                Ok((Box::new(move || T::open(what, options, ordered)), headers))
            },
        }
    }
}

impl SinkKind {
    const fn of<T: SinkForm>() -> SinkKind {
        SinkKind {
            function: T::FUNCTION,
            schemes: T::SCHEMES,
            written: T::WRITTEN,
            tables: T::Options::TABLES,
            checked: checked::<T::Options>,
            open: |text, given| {
                let options: T::Options = take(given)?;
                Ok(Box::new(move |run| T::open(text, options, run)))
            },
        }
    }
}

fn checked<'py, T: Options>(given: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let all = values(given.py(), &take::<T>(given)?)?;
    if let Some(function) = given.get_item("headers")?.filter(|headers| headers.is_callable()) {
        all.set_item("headers", function)?;
    }
    Ok(all)
}

/// The scheme of a text: what is before the first colon of its first part, if that is a word.
pub fn scheme(text: &[u8]) -> Option<&str> {
    let first = text.split(|&byte| byte == b'/').next()?;
    let end = first.iter().position(|&byte| byte == b':')?;
    std::str::from_utf8(&first[..end])
        .ok()
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// The kind of source that a text names.
pub fn source_named(text: &OsString) -> Result<&'static SourceKind, Error> {
    let named = |scheme: Option<&str>| {
        SOURCES.iter().find(|kind| match scheme {
            Some(scheme) => kind.schemes.iter().any(|known| known.eq_ignore_ascii_case(scheme)),
            None => kind.function == Files::FUNCTION,
        })
    };
    refuse_elsewhere(SOURCE, text)?;
    named(scheme(text.as_bytes())).filter(|_| !text.is_empty()).ok_or_else(|| {
        let written: Vec<&str> = SOURCES.iter().map(|kind| kind.written).filter(|form| !form.is_empty()).collect();
        unknown(SOURCE, text, &written)
    })
}

/// The kind of destination that a text names.
pub fn sink_named(text: &OsString) -> Result<&'static SinkKind, Error> {
    refuse_elsewhere("destination", text)?;
    let scheme = scheme(text.as_bytes());
    let named =
        SINKS.iter().find(|kind| scheme.map_or(kind.schemes.is_empty(), |scheme| kind.schemes.contains(&scheme)));
    named.filter(|_| !text.is_empty()).ok_or_else(|| {
        let written: Vec<&str> = SINKS.iter().map(|kind| kind.written).collect();
        unknown("destination", text, &written)
    })
}

/// What a source is called in messages.
const SOURCE: &str = "source";

/// Schemes of other programs.
const MACHINES: [&str; 8] = ["rsync", "ssh", "sftp", "scp", "ftp", "ftps", "smb", "nfs"];
/// Schemes of stores, and what to write instead.
const STORES: [(&[&str], &str); 6] = [
    (
        &["s3"],
        "shoal cannot write into a bucket yet: copy into a directory, and upload that with the store's own program",
    ),
    (&["s3a", "s3n"], "write s3://BUCKET/PREFIX"),
    (
        &["gs", "gcs"],
        "write s3://BUCKET/PREFIX with `endpoint=\"https://storage.googleapis.com\"`: with an HMAC key, that store answers as S3 does",
    ),
    (
        &["r2"],
        "write s3://BUCKET/PREFIX with `endpoint=\"https://ACCOUNT.r2.cloudflarestorage.com\"` and `region=\"auto\"`",
    ),
    (&["b2"], "write s3://BUCKET/PREFIX with `endpoint=\"https://s3.REGION.backblazeb2.com\"` and `region=\"REGION\"`"),
    (
        &["az", "abfs", "abfss", "adl", "swift", "hf", "hdfs"],
        "shoal does not know this store: mount it and use its path, or pass a list of the URLs of its objects",
    ),
];
const OF_MACHINE: &str = "mount what is on the other machine and use its path; or run `shoal serve DIR` there, and copy from http://HOST:PORT";

/// What other programs take for the address of a machine, a store or a service would be a path here. A path that exists is one.
///
/// # Errors
/// [`Kind::Config`] for such an address, with what to use.
fn refuse_elsewhere(what: &str, text: &OsString) -> Result<(), Error> {
    let shown = text.to_string_lossy();
    // The user of an address without a scheme is a part of it.
    let shown = if shown.contains("://") { without_password(&shown) } else { shown.into_owned() };
    let shown = escape(shown.as_bytes());
    match elsewhere(what, text.as_bytes()) {
        Some(hint) if !is_there(Path::new(text)) => {
            let hint = format!("{}; for a path of this name, ./{shown}", hint.replace("ADDRESS", &shown));
            Err(Error::new(Kind::Config, format!("not a valid {what}")).on(&shown).hint(hint))
        }
        _ => Ok(()),
    }
}

/// What to use instead of an address of another program.
fn elsewhere(what: &str, text: &[u8]) -> Option<&'static str> {
    let first = text.split(|&byte| byte == b'/').next()?;
    let (host, rest) = text.split_at(first.iter().position(|&byte| byte == b':')?);
    let (word, rest) = (scheme(text).unwrap_or_default().to_ascii_lowercase(), &rest[1..]);
    let sources = SOURCES.iter().filter(|_| what == SOURCE).flat_map(|kind| kind.schemes);
    let ours = sources.chain(SINKS.iter().flat_map(|kind| kind.schemes));
    let store = || STORES.iter().find(|(schemes, _)| schemes.contains(&&*word)).map(|(_, hint)| *hint);
    let is_host = std::str::from_utf8(host).is_ok_and(|host| host == "localhost" || host.parse::<Ipv4Addr>().is_ok());
    let port = rest.split(|&byte| byte == b'/').next()?;
    match () {
        () if ours.into_iter().any(|known| *known == word) => None,
        () if rest.starts_with(b"//") && MACHINES.contains(&&*word) => Some(OF_MACHINE),
        () if rest.starts_with(b"//") => store(),
        () if is_host && !port.is_empty() && port.iter().all(u8::is_ascii_digit) => Some("use http://ADDRESS"),
        () if host.contains(&b'@') || matches!(rest.first(), None | Some(b'/' | b'~')) => Some(OF_MACHINE),
        () => None,
    }
}

fn unknown(what: &str, text: &OsString, written: &[&str]) -> Error {
    let shown = without_password(&text.to_string_lossy());
    let (last, others) = written.split_last().unwrap_or((&"", &[]));
    let hint = format!("a {what} is {}, or {last}; for a path with a colon in its name, ./NAME:X", others.join(", "));
    let error = match text.is_empty() {
        true => Error::new(Kind::Config, format!("the {what} is empty")),
        false => Error::new(Kind::Config, format!("not a valid {what}")).on(&escape(shown.as_bytes())),
    };
    error.hint(hint)
}
