//! Source: a list/get service. `GET /list` returns a page of names and the marker of the next page, `GET /get/{name}`
//! the bytes of an object.
//!
//! Here: the source. `index/` has another listing, of the directory pages of a web server. `options.rs` has its options, `listing.rs` lists the pages, `page.rs` parses one, `next_page.rs` and
//! `counted.rs` find the next, `hints.rs` detects an end that comes too early, `loops.rs` listings that never end, `cut.rs`
//! cuts a page into partitions, `fetch.rs` fetches objects, `refusal.rs` says what the head of an answer means, `doubt.rs` detects when the service sends none any
//! more (expired credentials, a login page). Not here: connections (`shoal-http`), which name is safe (`Name`), what happens
//! after a failure.

mod counted;
mod cut;
mod doubt;
mod fetch;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
mod hints;
mod index;
mod json;
mod listing;
mod loops;
mod next_page;
mod options;
mod page;
mod refusal;

use std::sync::Arc;

use shoal_http::{Address, AllowedHost, Client, encode_name};

use self::cut::LocalName;
pub use self::options::{ListFormat, ListGetOptions, PageForm};
use super::http_objects::Reach;
use super::{Behind, Fetcher, Listing, Source, SourceProperties, http_objects};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::option::Options;
use crate::partition::{Cursor, Partition};

/// What the listing and all fetchers share.
struct Service {
    client: Client,
    reach: Reach,
    options: ListGetOptions,
    /// Parts of `get_path` before and after `{name}`.
    get_path: (String, String),
    expect_type: Option<globset::GlobMatcher>,
    local_name: LocalName,
    doubt: doubt::Doubt,
}

impl Service {
    /// Appends the request target of an object.
    fn target(&self, name: &[u8], out: &mut Vec<u8>) {
        let (before, after) = &self.get_path;
        out.extend_from_slice(before.as_bytes());
        encode_name(out, name, self.options.encode_slash);
        out.extend_from_slice(after.as_bytes());
    }
}

/// A list/get service as a source.
pub struct ListGet(Arc<Service>);

impl ListGet {
    /// Returns the service at `url` (`http://host:port[/base]`, or `https://`). It sends nothing yet.
    ///
    /// # Errors
    /// [`Kind::Config`] for an invalid URL or option, for certificates that cannot be read, and for a proxy that cannot be used.
    pub fn new(url: &str, options: ListGetOptions) -> Result<ListGet> {
        options.check()?;
        let mut address = Address::parse(url)?;
        let options = if options.index { options.of_index()? } else { options };
        let reach = Reach::new(&options.http.connection)?;
        let config = |what: &str, why: &str| Error::new(Kind::Config, why).on(&escape(what.as_bytes()));
        let once = |(_, after): &(&str, &str)| !after.contains("{name}");
        let Some((before, after)) = options.get_path.split_once("{name}").filter(once) else {
            return Err(config(&options.get_path, "the path of an object must contain {name} exactly once"));
        };
        for path in [&options.list_path, &options.get_path] {
            if !path.starts_with('/') || path.bytes().any(|byte| !(b'!'..=b'~').contains(&byte)) {
                return Err(config(path, "a path must begin with / and contain only ASCII without white space"));
            }
        }
        let get_path = (format!("{}{before}", address.base), after.to_owned());
        let expect_type = http_objects::types(options.http.expect_type.as_deref())?;
        let local_name = LocalName::parse(&options.name)?;
        let fields = http_objects::fields(&mut address, &options.http)?;
        let mut client = reach.client(address, fields)?;
        client.allowed = options.http.allow_host.iter().map(|host| AllowedHost::parse(host)).collect::<Result<_>>()?;
        client.pipelining = http_objects::pipelining(&options.http, &client, &client.remarks);
        let doubt = doubt::Doubt::default();
        Ok(ListGet(Arc::new(Service { client, reach, options, get_path, expect_type, local_name, doubt })))
    }
}

/// A path without the values of its parameters, which may be secrets: their names tell which service it is.
fn without_values(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let names = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) => format!("{name}=…"),
        None => "…".to_owned(), // one without a name may itself be a secret
    });
    format!("{path}?{}", names.collect::<Vec<_>>().join("&"))
}

impl Source for ListGet {
    fn identity(&self) -> String {
        let options = &self.0.options;
        let mut identity = self.0.client.address.shown();
        let defaults = ListGetOptions::default();
        let mut push = |name: &str, value: &str, default: &str| {
            if value != default {
                identity.push_str(&format!(" {name}={}", value.escape_default().to_string().replace(' ', "\\ ")));
            }
        };
        push("list_path", &without_values(&options.list_path), &defaults.list_path);
        if !options.index {
            push("get_path", &without_values(&options.get_path), &defaults.get_path);
        }
        identity.push_str(&options.identity());
        identity
    }

    fn properties(&self) -> SourceProperties {
        // Pages that are counted shift when objects come or go, so a number is no place to continue at.
        let is_compared = self.0.options.index || self.0.options.form().is_counted();
        let behind = if is_compared { Behind::Names } else { Behind::Trusted };
        SourceProperties { behind, ..SourceProperties::default() }
    }

    fn secrets(&self) -> Vec<u8> {
        let paths = [&self.0.options.list_path, &self.0.options.get_path];
        let values = paths.map(|path| path.split_once('?').map_or("", |(_, query)| query));
        values.map(|values| format!("{}:{values}", values.len())).concat().into_bytes()
    }

    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        if self.0.options.index {
            return Ok(Box::new(index::IndexListing::new(self.0.clone(), None)?));
        }
        Ok(Box::new(listing::Pages::new(self.0.clone(), after)?))
    }

    fn list_again(&self, cursor: Cursor) -> Result<Box<dyn Listing>> {
        match self.0.options.index {
            true => Ok(Box::new(index::IndexListing::new(self.0.clone(), Some(&cursor))?)),
            false => self.list(None),
        }
    }

    fn may_shift(&self, cursor: &Cursor) -> bool {
        listing::may_shift(&self.0, cursor)
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(cut::selected(locators))
    }

    fn notes(&self) -> Vec<String> {
        self.0.reach.note().into_iter().collect()
    }

    fn remarks(&self) -> Vec<String> {
        let client = &self.0.client;
        client.pipelining.remark().map(str::to_owned).into_iter().chain(client.remarks.notes()).collect()
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(fetch::Fetch::new(self.0.clone())))
    }
}
