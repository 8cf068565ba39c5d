//! Source: a list of URLs, on one host or on very many.
//!
//! Here: the options and the source. `record.rs` has the traits of a list, `lines.rs` those in files, which `reader.rs`,
//! `rows.rs` and `fields.rs` read; `address.rs` takes a URL apart, `name.rs` makes names; `listing.rs` cuts the list into partitions, `entries.rs` has their objects; `hosts.rs`
//! has what all lanes share of a host, `pools.rs` the connections of one lane, `asked.rs` the requests of one connection,
//! `fetch.rs` what each answer means. Not here: the client (`shoal-http`), what is known of hosts (`hosts/`).
//!
//! No URL is in the journal, because it may have credentials. An object that failed is found again by its place in the list
//! and a hash of its record, which is keyed by the first record of the list.

mod address;
mod asked;
mod by_host;
mod entries;
mod fetch;
mod fields;
mod hosts;
mod lines;
mod listing;
mod name;
mod pools;
mod reader;
mod record;
mod refusal;
mod rows;
mod usual_depth;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub use self::fields::Fields;
use self::hosts::Hosts;
pub use self::lines::{Format, Lines};
use self::name::NameTemplate;
use self::record::HASH;
pub use self::record::{Record, Records, Step, URL_MAX, UrlList, changed, changed_while_read};
use self::usual_depth::UsualDepth;
use super::{Behind, Fetcher, HttpOptions, Listing, Source, SourceProperties, http_objects};
use crate::error::{Error, HostId, Kind, Result};
use crate::fs::random::random;
use crate::option::Options;
use crate::option::group::{SERVICES, URLS};
use crate::partition::{Cursor, Partition};
use crate::poison::ignore_poison;
use crate::session::Twice;

/// Records of a stream that are kept for another try.
const KEPT_MAX: usize = 200_000;

crate::options! {
    /// How to use a list of URLs.
    pub struct UrlsOptions {
        /// The column or field with the URL.
        url_field: String = "url".to_owned(), "Column or field with the URL.", metavar: Some("FIELD"), group: URLS;
        /// The column or field with the name of the object, if the list has one.
        name_field: Option<String> = None, "Column or field with the name.", metavar: Some("FIELD"), group: URLS;
        /// The name of an object at the destination: `"{name}"` is the one in the list, or else the path of the URL,
        /// decoded. Also `"{path}"`, `"{host}"`, `"{hash}"` (of the URL), `"{index}"` and `"{index:09d}"` (the place in
        /// the list, from 0), as in `"{host}/{path}"`, and columns or fields of the list, as in `"{shop}/{id}.jpg"`. Two
        /// objects with one name are a failure.
        name: String = "{name}".to_owned(), "Name at the destination, as '{name}.json'.", metavar: Some("PATTERN"),
            binds: true, group: SERVICES;
        /// Maximum number of connections to one host.
        per_host: usize = 6, "Connections to one host, at most.", metavar: Some("N"), group: URLS;
        /// Maximum number of requests per second to one host.
        limit_requests: Option<f64> = None, "Requests per second to one host, at most.", metavar: Some("N"),
            range: Some((0.001, 1e6)), group: URLS;
    }
    with { http: HttpOptions }
    and {
        /// Partitions are in the order of the list, whatever their hosts. A slow host then holds up all.
        ordered: bool = false;
    }
}

impl UrlsOptions {
    /// Where a list has URLs and names.
    pub fn fields(&self) -> Fields {
        let names = self.name_field.clone().map_or_else(|| name::fields_of(&self.name), |name| vec![name]);
        Fields { url: self.url_field.clone(), names }
    }
}

/// What the listing and all fetchers share.
struct Shared {
    list: Box<dyn UrlList>,
    options: UrlsOptions,
    template: NameTemplate,
    expect_type: Option<globset::GlobMatcher>,
    hosts: Hosts,
    usual_depth: UsualDepth,
    /// Of the hashes of records.
    key: [u8; HASH],
    /// Records of a stream that may be tried again, which cannot be read again.
    kept: Mutex<HashMap<[u8; HASH], Record>>,
}

impl Shared {
    /// Reads the record at a position again, if it is still the one with this hash.
    fn find(&self, position: u64, hash: &[u8], into: &mut Record) -> Result<()> {
        if self.list.is_stream() {
            let kept = ignore_poison(self.kept.lock());
            let record = <[u8; HASH]>::try_from(hash).ok().and_then(|hash| kept.get(&hash).cloned());
            *into = record
                .ok_or_else(|| Error::new(Kind::Changed, "the list came from a stream, which cannot be read again"))?;
            return Ok(());
        }
        self.list.find(position, into)?;
        if into.hash(&self.key, &mut Vec::new()) == *hash { Ok(()) } else { Err(changed()) }
    }

    /// Keeps the URL of an object that may be tried again. Of a file it is read again.
    fn keep(&self, locator: &[u8], url: &[u8]) {
        if !self.list.is_stream() {
            return;
        }
        let mut kept = ignore_poison(self.kept.lock());
        if let Some(hash) = entries::hash_at(locator).filter(|_| kept.len() < KEPT_MAX) {
            let url = String::from_utf8_lossy(url).into_owned();
            kept.insert(hash, Record { url, ..Record::default() });
        }
    }
}

/// A list of URLs as a source.
pub struct Urls(Arc<Shared>);

impl Urls {
    /// Returns the list as a source. It sends nothing yet.
    ///
    /// # Errors
    /// [`Kind::Config`] for an invalid option; [`Kind::Listing`] if the list cannot be read.
    pub fn new(list: Box<dyn UrlList>, options: UrlsOptions) -> Result<Urls> {
        let expect_type = http_objects::types(options.http.expect_type.as_deref())?;
        let key = match list.is_stream() {
            true => random(),
            false => {
                let mut first = Record::default();
                match list.read()?.next(&mut first)? {
                    Step::Record => first.key(),
                    Step::Wait | Step::End => [0; HASH],
                }
            }
        };
        let (template, hosts) = (
            NameTemplate::parse(&options.name, list.has_fields().then(|| options.fields().names).as_deref())?,
            Hosts::new(&options)?,
        );
        let (usual_depth, kept) = (UsualDepth::default(), Mutex::default());
        Ok(Urls(Arc::new(Shared { list, options, template, expect_type, hosts, usual_depth, key, kept })))
    }
}

impl Source for Urls {
    fn identity(&self) -> String {
        let mut identity = format!("urls:{}", self.0.list.identity());
        identity.push_str(&self.0.options.identity());
        identity
    }

    fn properties(&self) -> SourceProperties {
        SourceProperties {
            once: self.0.list.is_stream(),
            // Two URLs may have one path. Then the time of a file says nothing of the URL that is requested.
            twice: if self.0.template.is_of_one_url() { Twice::SameObject } else { Twice::Conflict },
            behind: if self.0.list.is_stream() { Behind::Trusted } else { Behind::Proven },
            // Each lane has a connection to each host.
            lanes_max: Some(self.0.options.per_host),
            many_hosts: true,
            same_name: Some(self.0.template.advice(self.0.list.has_fields())),
            ..SourceProperties::default()
        }
    }

    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        Ok(Box::new(listing::UrlListing::new(self.0.clone(), after)?))
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(entries::selected(locators))
    }

    fn host_of(&self, partition: &Partition) -> Option<HostId> {
        entries::host_of(&partition.payload)
    }

    fn host_at(&self, locator: &[u8]) -> Option<HostId> {
        entries::host_at(locator)
    }

    fn notes(&self) -> Vec<String> {
        self.0.list.notes().into_iter().chain(self.0.hosts.reach.note()).collect()
    }

    fn remarks(&self) -> Vec<String> {
        self.0.hosts.remarks.notes()
    }

    fn request_of(&self, locator: &[u8]) -> Result<Option<String>> {
        let mut record = Record::default();
        match entries::record_at(locator, &self.0, &mut record) {
            Ok(()) => Ok(Some(if record.bad { String::new() } else { record.url })),
            Err(error) if error.kind() == Kind::Changed => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(fetch::Fetch::new(self.0.clone())))
    }
}
