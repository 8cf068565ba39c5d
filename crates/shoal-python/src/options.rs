//! Options from Python to the engine, and the engine's defaults to Python. Not here: any default.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_engine::options::{Durability, Overwrite, Resume, Workers};
use shoal_engine::source::archive::{ArchiveOptions, Backslashes, Encoding};
use shoal_engine::source::files::FilesOptions;
use shoal_engine::source::list_get::{ListGetOptions, Pipeline};
use shoal_engine::source::urls::{self, Fields, Format, Urls, UrlsOptions};
use shoal_engine::{Error, Part, TransferOptions};
use shoal_parquet::sink::ParquetOptions;
use shoal_parquet::urls::ParquetUrls;

use crate::errors::OnError;
use crate::from_items::from_items;

/// What stands for an encoding that is found out.
const AUTO: &str = "auto";

/// A word such as `"auto"`, or a number.
#[derive(FromPyObject)]
enum NumberOrWord {
    Count(usize),
    Word(String),
}

impl NumberOrWord {
    fn to_pipeline(&self) -> PyResult<Pipeline> {
        match self {
            NumberOrWord::Count(depth) => Ok(Pipeline::Depth(*depth)),
            NumberOrWord::Word(word) if word == "auto" => Ok(Pipeline::Auto),
            NumberOrWord::Word(word) if word == "off" => Ok(Pipeline::Off),
            NumberOrWord::Word(word) => Err(unknown("pipeline", word)),
        }
    }
}

from_items! {
    /// `shoal._options.Options`, which has looked at the values already.
    pub struct Options {
        workers: NumberOrWord,
        nice: bool,
        memory: u64,
        durability: String,
        overwrite: String,
        keep_times: Option<bool>,
        journal: Option<PathBuf>,
        max_retries: u32,
        retry_timeout: f64,
        timeout: f64,
        connect_timeout: f64,
        include: Vec<String>,
        exclude: Vec<String>,
        limit_rate: Option<u64>,
        max_failures: Option<u64>,
        on_error: String,
        ignore_vanished: bool,
        resume: String,
        allow_different_listings: bool,
        dry_run: bool,
        part: Option<(u32, u32)>,
        shard_size: u64,
        shard_age: f64,
    }
}

from_items! {
    /// `shoal._options.ListGetOptions`.
    pub struct ListGet {
        list_path: String,
        get_path: String,
        names_field: String,
        name: String,
        next_field: Vec<String>,
        marker_param: String,
        headers: Vec<(String, String)>,
        expect_type: Option<String>,
        require_length: bool,
        encode_slash: bool,
        ca_file: Option<PathBuf>,
        insecure: bool,
        allow_host: Vec<String>,
        pipeline: NumberOrWord,
    }
}

from_items! {
    /// `shoal._options.UrlsOptions`.
    pub struct UrlList {
        list: Option<PathBuf>,
        identity: Option<String>,
        format: String,
        url_field: String,
        name_field: Option<String>,
        name: String,
        per_host: usize,
        limit_requests: Option<f64>,
        headers: Vec<(String, String)>,
        expect_type: Option<String>,
        require_length: bool,
        ca_file: Option<PathBuf>,
        insecure: bool,
        allow_host: Vec<String>,
        pipeline: NumberOrWord,
    }
}

impl UrlList {
    /// Opens the list; without a path, standard input.
    fn open(self) -> Result<Box<dyn urls::UrlList>, Error> {
        let fields = Fields { url: self.url_field, name: self.name_field };
        let Some(path) = self.list else { return Ok(Box::new(urls::Lines::stdin()?)) };
        let format = match &*self.format {
            "csv" => Format::Csv(b',', fields),
            "tsv" => Format::Csv(b'\t', fields),
            "jsonl" => Format::Json(fields),
            "items" => Format::Items,
            "parquet" => return Ok(Box::new(ParquetUrls::open(&path, &fields)?)),
            _ => Format::Plain,
        };
        Ok(Box::new(urls::Lines::open(&path, &format, self.identity)?))
    }
}

from_items! {
    /// `shoal._options.ArchiveOptions`.
    pub struct Archives {
        into_subdirectories: bool,
        encoding: String,
        backslashes: String,
        max_size: Option<u64>,
        max_ratio: u64,
        max_entries: u64,
        max_depth: u32,
        allow_overlap: bool,
    }
}

impl Archives {
    /// The engine's form.
    pub fn to_engine(&self) -> PyResult<ArchiveOptions> {
        Ok(ArchiveOptions {
            into_subdirectories: self.into_subdirectories,
            encoding: match &*self.encoding {
                AUTO => Encoding::Auto,
                label => Encoding::Label(label.to_owned()),
            },
            backslashes: [Backslashes::Refuse, Backslashes::Separator]
                .into_iter()
                .find(|choice| choice.as_str() == self.backslashes)
                .ok_or_else(|| unknown("backslashes", &self.backslashes))?,
            max_size: self.max_size,
            max_ratio: self.max_ratio,
            max_entries: self.max_entries,
            max_depth: self.max_depth,
            allow_overlap: self.allow_overlap,
        })
    }
}

from_items! {
    /// `shoal._options.EncodeOptions`.
    pub struct EncodeOptions {
        header: bool,
        final_newline: bool,
    }
}

impl EncodeOptions {
    /// The encoder's form.
    pub fn to_encoder(&self) -> shoal_encode::Options {
        shoal_encode::Options { header: self.header, final_newline: self.final_newline }
    }

    /// By what names the journal compares them.
    pub fn bound(&self) -> [(String, String); 2] {
        [("header", self.header), ("final_newline", self.final_newline)]
            .map(|(name, value)| (name.to_owned(), value.to_string()))
    }
}

/// A value that an option does not take.
pub fn unknown(option: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!("{option} is not known: {value:?}"))
}

/// A part of a job, from its number and the number of parts.
pub fn part((index, count): (u32, u32)) -> PyResult<Part> {
    Part::new(index, count).map_err(|error| PyValueError::new_err(error.why().to_owned()))
}

fn seconds(option: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| unknown(option, &value.to_string()))
}

impl Options {
    /// What failed objects mean.
    pub fn on_error(&self) -> PyResult<OnError> {
        match &*self.on_error {
            "raise" => Ok(OnError::Raise),
            "record" => Ok(OnError::Record),
            "stop" => Ok(OnError::Stop),
            other => Err(unknown("on_error", other)),
        }
    }

    /// The engine's form.
    pub fn to_engine(&self) -> PyResult<TransferOptions> {
        Ok(TransferOptions {
            workers: match &self.workers {
                NumberOrWord::Count(count) => Workers::Fixed(*count),
                NumberOrWord::Word(word) if word == "auto" => Workers::Auto,
                NumberOrWord::Word(word) => return Err(unknown("workers", word)),
            },
            nice: self.nice,
            memory: self.memory,
            durability: [Durability::None, Durability::Batch, Durability::File]
                .into_iter()
                .find(|choice| choice.as_str() == self.durability)
                .ok_or_else(|| unknown("durability", &self.durability))?,
            overwrite: [Overwrite::Never, Overwrite::Always]
                .into_iter()
                .find(|choice| choice.as_str() == self.overwrite)
                .ok_or_else(|| unknown("overwrite", &self.overwrite))?,
            keep_times: self.keep_times,
            journal: self.journal.clone(),
            max_retries: self.max_retries,
            retry_timeout: seconds("retry_timeout", self.retry_timeout)?,
            max_failures: if self.on_error()? == OnError::Stop { Some(0) } else { self.max_failures },
            ignore_vanished: self.ignore_vanished,
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            limit_rate: self.limit_rate,
            resume: [Resume::Auto, Resume::Failed, Resume::Relist, Resume::Update, Resume::Restart]
                .into_iter()
                .find(|choice| choice.as_str() == self.resume)
                .ok_or_else(|| unknown("resume", &self.resume))?,
            allow_different_listings: self.allow_different_listings,
            dry_run: self.dry_run,
            part: self.part.map(part).transpose()?,
        })
    }

    /// How the files of a packed destination are cut.
    pub fn parquet(&self) -> PyResult<ParquetOptions> {
        Ok(ParquetOptions {
            shard_size: self.shard_size,
            shard_age: seconds("shard_age", self.shard_age)?,
            ..ParquetOptions::default()
        })
    }

    /// The source of a list of URLs. `ordered`: in the order of the list.
    pub fn urls(&self, own: UrlList, ordered: bool) -> PyResult<impl FnOnce() -> Result<Urls, Error> + Send> {
        let options = UrlsOptions {
            name: own.name.clone(),
            per_host: own.per_host,
            limit_requests: own.limit_requests,
            headers: own.headers.clone(),
            timeout: seconds("timeout", self.timeout)?,
            connect_timeout: seconds("connect_timeout", self.connect_timeout)?,
            expect_type: own.expect_type.clone(),
            require_length: own.require_length,
            ca_file: own.ca_file.clone(),
            insecure: own.insecure,
            allow_host: own.allow_host.clone(),
            pipeline: own.pipeline.to_pipeline()?,
            ordered,
        };
        Ok(move || Urls::new(own.open()?, options))
    }

    /// The list/get source's form: its own knobs and the two time-outs that a user sets beside the engine's.
    pub fn list_get(&self, own: ListGet) -> PyResult<ListGetOptions> {
        Ok(ListGetOptions {
            list_path: own.list_path,
            get_path: own.get_path,
            names_field: own.names_field,
            name: own.name,
            next_field: own.next_field,
            marker_param: own.marker_param,
            headers: own.headers,
            timeout: seconds("timeout", self.timeout)?,
            connect_timeout: seconds("connect_timeout", self.connect_timeout)?,
            expect_type: own.expect_type,
            require_length: own.require_length,
            encode_slash: own.encode_slash,
            ca_file: own.ca_file,
            insecure: own.insecure,
            allow_host: own.allow_host,
            pipeline: own.pipeline.to_pipeline()?,
        })
    }
}

/// The engine's defaults by the name of the option; sizes in bytes, times in seconds.
///
/// Taken apart without `..`, so that a new knob does not compile until Python has it too.
#[pyfunction]
pub fn default_options(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let TransferOptions {
        workers,
        nice,
        memory,
        durability,
        overwrite,
        keep_times,
        journal,
        max_retries,
        retry_timeout,
        max_failures,
        ignore_vanished,
        include,
        exclude,
        limit_rate,
        resume,
        allow_different_listings,
        dry_run,
        part,
    } = TransferOptions::default();
    let all = PyDict::new(py);
    match workers {
        Workers::Auto => all.set_item("workers", "auto")?,
        Workers::Fixed(count) => all.set_item("workers", count)?,
    }
    all.set_item("nice", nice)?;
    all.set_item("memory", memory)?;
    all.set_item("durability", durability.as_str())?;
    all.set_item("overwrite", overwrite.as_str())?;
    all.set_item("keep_times", keep_times)?;
    all.set_item("journal", journal)?;
    all.set_item("max_retries", max_retries)?;
    all.set_item("retry_timeout", retry_timeout.as_secs_f64())?;
    all.set_item("max_failures", max_failures)?;
    all.set_item("ignore_vanished", ignore_vanished)?;
    all.set_item("include", include)?;
    all.set_item("exclude", exclude)?;
    all.set_item("limit_rate", limit_rate)?;
    all.set_item("resume", resume.as_str())?;
    all.set_item("allow_different_listings", allow_different_listings)?;
    all.set_item("dry_run", dry_run)?;
    all.set_item("part", part.map(|part| (part.index(), part.count())))?;
    let ParquetOptions { shard_size, shard_age, .. } = ParquetOptions::default();
    all.set_item("shard_size", shard_size)?;
    all.set_item("shard_age", shard_age.as_secs_f64())?;
    let FilesOptions { follow_links } = FilesOptions::default();
    all.set_item("follow_links", follow_links)?;
    list_get_defaults(&all)?;
    let UrlsOptions { per_host, limit_requests, .. } = UrlsOptions::default(); // the rest is as of a service
    all.set_item("per_host", per_host)?;
    all.set_item("limit_requests", limit_requests)?;
    all.set_item("url_field", "url")?;
    all.set_item("name_field", None::<String>)?;
    archive_defaults(&all)?;
    Ok(all)
}

fn archive_defaults(all: &Bound<'_, PyDict>) -> PyResult<()> {
    let ArchiveOptions {
        into_subdirectories,
        encoding,
        backslashes,
        max_size,
        max_ratio,
        max_entries,
        max_depth,
        allow_overlap,
    } = ArchiveOptions::default();
    all.set_item("into_subdirectories", into_subdirectories)?;
    match encoding {
        Encoding::Auto => all.set_item("encoding", AUTO)?,
        Encoding::Label(label) => all.set_item("encoding", label)?,
    }
    all.set_item("backslashes", backslashes.as_str())?;
    all.set_item("max_size", max_size)?;
    all.set_item("max_ratio", max_ratio)?;
    all.set_item("max_entries", max_entries)?;
    all.set_item("max_depth", max_depth)?;
    all.set_item("allow_overlap", allow_overlap)
}

fn list_get_defaults(all: &Bound<'_, PyDict>) -> PyResult<()> {
    let ListGetOptions {
        list_path,
        get_path,
        names_field,
        name,
        next_field,
        marker_param,
        headers,
        timeout,
        connect_timeout,
        expect_type,
        require_length,
        encode_slash,
        ca_file,
        insecure,
        allow_host,
        pipeline,
    } = ListGetOptions::default();
    all.set_item("list_path", list_path)?;
    all.set_item("get_path", get_path)?;
    all.set_item("names_field", names_field)?;
    all.set_item("name", name)?;
    all.set_item("next_field", next_field)?;
    all.set_item("marker_param", marker_param)?;
    all.set_item("headers", headers)?;
    all.set_item("timeout", timeout.as_secs_f64())?;
    all.set_item("connect_timeout", connect_timeout.as_secs_f64())?;
    all.set_item("expect_type", expect_type)?;
    all.set_item("require_length", require_length)?;
    all.set_item("encode_slash", encode_slash)?;
    all.set_item("ca_file", ca_file)?;
    all.set_item("insecure", insecure)?;
    all.set_item("allow_host", allow_host)?;
    match pipeline {
        Pipeline::Auto => all.set_item("pipeline", "auto"),
        Pipeline::Off => all.set_item("pipeline", "off"),
        Pipeline::Depth(depth) => all.set_item("pipeline", depth),
    }
}
