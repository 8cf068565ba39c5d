//! The source: a bucket, and which of its keys are selected. Not here: requests (`service.rs`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use shoal_engine::display::escape;
use shoal_engine::option::Options;
use shoal_engine::source::http_objects::Reach;
use shoal_engine::source::{Behind, Fetcher, Listing, Source, SourceProperties};
use shoal_engine::{Cursor, Error, Kind, Partition, Result};
use tokio::sync::OnceCell;

use crate::entries::{self, Listed};
use crate::fetch::Fetch;
use crate::listing::Pages;
use crate::options::{Archived, S3Options};
use crate::place::Place;
use crate::service::{Endpoint, Service};

/// What an address of a store begins with.
const SCHEME: &str = "s3://";
/// Characters that make a text a glob.
const GLOB: [char; 4] = ['*', '?', '[', '{'];

/// A bucket, as the user describes it.
pub(crate) struct Store {
    pub bucket: String,
    /// What the user wrote behind the bucket.
    given: String,
    /// What all keys begin with.
    pub prefix: String,
    glob: Option<GlobMatcher>,
    /// Names begin behind so many bytes of a key.
    named_from: usize,
    pub options: S3Options,
    pub reach: Reach,
    pub endpoint: Endpoint,
    service: OnceCell<Arc<Service>>,
}

impl Store {
    fn new(url: &str, options: S3Options) -> Result<Store> {
        let config = |why: &str| Error::new(Kind::Config, why).on(&escape(url.as_bytes()));
        let wrong = || config("not the address of a bucket").hint("write s3://BUCKET or s3://BUCKET/PREFIX");
        let rest =
            url.get(SCHEME.len()..).filter(|_| url.to_ascii_lowercase().starts_with(SCHEME)).ok_or_else(wrong)?;
        let (bucket, given) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.trim_matches('.').is_empty()
            || !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        {
            return Err(wrong());
        }
        let at = given.find(GLOB);
        let (prefix, named_from, glob) = match at {
            None if given.is_empty() || given.ends_with('/') => (given.to_owned(), given.len(), None),
            None => (format!("{given}/"), given.len() + 1, None),
            Some(at) => {
                let from = given[..at].rfind('/').map_or(0, |slash| slash + 1);
                let glob = GlobBuilder::new(&given[from..]).literal_separator(true).backslash_escape(false).build();
                let glob = glob.map_err(|error| config(&format!("not a valid glob: {}", error.kind())))?;
                (given[..at].to_owned(), from, Some(glob.compile_matcher()))
            }
        };
        let reach = Reach::new(&options.connection)?;
        let endpoint = Endpoint::new(bucket, &options)?;
        let (bucket, given) = (bucket.to_owned(), given.to_owned());
        Ok(Store { bucket, given, prefix, glob, named_from, options, reach, endpoint, service: OnceCell::new() })
    }

    /// As the user wrote it.
    pub fn shown(&self) -> String {
        escape(format!("{SCHEME}{}/{}", self.bucket, self.given).as_bytes())
    }

    /// The bucket at its address, which is asked for once.
    ///
    /// # Errors
    /// It is not found.
    pub async fn service(self: &Arc<Self>) -> Result<&Arc<Service>> {
        self.service.get_or_try_init(|| Service::find(self)).await
    }

    /// The key that the address is, if it is one and no prefix.
    pub fn only_key(&self) -> Option<&str> {
        Some(&*self.given).filter(|given| !given.is_empty() && !given.ends_with('/') && self.glob.is_none())
    }

    /// Whether all of the bucket is selected.
    pub fn is_all(&self) -> bool {
        self.given.is_empty()
    }

    /// Whether a pattern selects its objects that matches no slash, as those of other programs do.
    pub fn stops_at_slashes(&self) -> bool {
        self.given.contains('*') && !self.given.contains("**")
    }

    /// Whether an object of the listing is one of the source.
    pub fn selects(&self, object: &Listed) -> bool {
        let name = || OsStr::from_bytes(&object.key[self.named_from(&object.key)..]);
        self.glob.as_ref().is_none_or(|glob| glob.is_match(name()))
    }

    /// Where the name of an object begins in its key.
    pub fn named_from(&self, key: &[u8]) -> usize {
        match key.starts_with(self.prefix.as_bytes()) {
            true => self.named_from,
            false => memchr::memrchr(b'/', key).map_or(0, |slash| slash + 1), // the only one
        }
    }

    pub fn skips_archived(&self) -> bool {
        self.options.archived == Archived::Skip
    }
}

/// A bucket, or a part of one, as a source.
pub struct S3(Arc<Store>);

impl S3 {
    /// Returns the objects at `url`: `s3://BUCKET`, `s3://BUCKET/PREFIX`, or with a glob. It sends nothing yet.
    ///
    /// # Errors
    /// [`Kind::Config`] for an invalid address or option, for certificates that cannot be read, and for a proxy that cannot be used.
    pub fn new(url: &str, options: S3Options) -> Result<S3> {
        Ok(S3(Arc::new(Store::new(url, options)?)))
    }
}

impl Source for S3 {
    fn identity(&self) -> String {
        let at = self.0.endpoint.identity().map(|endpoint| format!(" endpoint={endpoint}")).unwrap_or_default();
        let shown = self.0.shown();
        let given = shown.strip_suffix('/').unwrap_or(&shown).replace(' ', "\\ ");
        format!("{given}{at}{}", self.0.options.identity())
    }

    fn properties(&self) -> SourceProperties {
        SourceProperties { has_times: true, has_keys: true, behind: Behind::Proven, ..SourceProperties::default() }
    }

    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        Ok(Box::new(Pages::new(self.0.clone(), after)?))
    }

    fn may_shift(&self, cursor: &Cursor) -> bool {
        Place::of(cursor).is_none_or(|place| place.is_from_start())
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(entries::partition(&locators.concat()))
    }

    fn request_of(&self, locator: &[u8]) -> Result<Option<String>> {
        Ok(Some(format!("{SCHEME}{}/{}", self.0.bucket, escape(entries::key_of(locator)))))
    }

    fn notes(&self) -> Vec<String> {
        self.0.reach.note().into_iter().collect()
    }

    fn remarks(&self) -> Vec<String> {
        self.0.service.get().map(|service| service.client.remarks.notes()).unwrap_or_default()
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(Fetch::new(self.0.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(url: &str) -> Result<Store> {
        Store::new(url, S3Options { anonymous: true, ..S3Options::default() })
    }

    fn selects(url: &str, key: &str) -> Option<String> {
        let store = store(url).unwrap();
        let object = Listed { key: key.as_bytes().to_vec(), ..Listed::default() };
        let is_listed = key.starts_with(&store.prefix) && store.selects(&object);
        is_listed.then(|| key[store.named_from(key.as_bytes())..].to_owned())
    }

    #[test]
    fn an_address_selects_keys_and_says_where_their_names_begin() {
        for (url, key, name) in [
            ("s3://b", "a/b", Some("a/b")),
            ("s3://b/p", "p/x/y", Some("x/y")),
            ("S3://b/p/", "p/x", Some("x")),
            ("s3://b/p", "px", None),
            ("s3://b/p//", "p//x", Some("x")),
            ("s3://b/p/*.json", "p/a.json", Some("a.json")),
            ("s3://b/p/*.json", "p/q/a.json", None),
            ("s3://b/p/q*/**/*.json", "p/q7/r/a.json", Some("q7/r/a.json")),
            ("s3://b/p-{a,b}", "p-b", Some("p-b")),
        ] {
            assert_eq!(selects(url, key).as_deref(), name, "{url} {key}");
        }
        assert_eq!(store("s3://b/p/q*/**/*.json").unwrap().prefix, "p/q");
        assert_eq!(store("s3://b/d/file.txt").unwrap().named_from(b"d/file.txt"), 2, "one object");
        for wrong in ["s3://", "s3:///p", "s3:b/p", "s3://a b", "s3://arn:aws:s3/x", "s3://b/[", "s3://u@b"] {
            assert!(store(wrong).is_err(), "{wrong}");
        }
    }
}
