//! The version of its object that an answer holds, and which part. Not here: joining parts (`resume.rs`).

use std::time::{Duration, SystemTime};

/// `Last-Modified` tells versions apart if so long before `Date`, which has whole seconds, by clocks that may be wrong.
const SETTLED: Duration = Duration::from_secs(60);
/// Longest validator that is sent back, in bytes.
const VALIDATOR_MAX: usize = 1024;

/// What an answer says about the version of its object and the part that it holds. Only of large or partial answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    etag: Option<Vec<u8>>,
    modified: Option<Vec<u8>>,
    date: Option<Vec<u8>>,
    /// `Content-Range`.
    pub range: Option<Vec<u8>>,
    /// One of the fields occurred twice, with two values.
    ambiguous: bool,
}

impl Version {
    /// Stores a header field, if it is one of these.
    pub fn field(&mut self, name: &str, value: &[u8]) {
        let place = match name.len() {
            4 if name.eq_ignore_ascii_case("etag") => &mut self.etag,
            4 if name.eq_ignore_ascii_case("date") => &mut self.date,
            13 if name.eq_ignore_ascii_case("last-modified") => &mut self.modified,
            13 if name.eq_ignore_ascii_case("content-range") => &mut self.range,
            _ => return,
        };
        let value = value.trim_ascii().to_vec();
        self.ambiguous |= place.as_ref().is_some_and(|other| *other != value);
        *place = Some(value);
    }

    /// What identifies this version, if anything does.
    pub fn validator(&self) -> Option<Validator> {
        if self.ambiguous {
            return None;
        }
        if let Some(etag) = &self.etag {
            let is_strong = etag.len() >= 2 && etag.len() <= VALIDATOR_MAX && etag[0] == b'"' && etag.ends_with(b"\"");
            return is_strong.then(|| Validator::Tag(etag.clone()));
        }
        let time = |text: &[u8]| httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok();
        let (modified, date): (SystemTime, SystemTime) = (time(self.modified.as_ref()?)?, time(self.date.as_ref()?)?);
        let is_settled = date.duration_since(modified).is_ok_and(|age| age >= SETTLED);
        is_settled.then(|| self.modified.clone().map(Validator::Date)).flatten()
    }

    /// Whether this is the version that the validator identifies.
    pub fn has(&self, validator: &Validator) -> bool {
        !self.ambiguous
            && match validator {
                Validator::Tag(etag) => self.etag.as_ref() == Some(etag),
                Validator::Date(modified) => self.modified.as_ref() == Some(modified),
            }
    }

    /// First and last byte of the part, and the length of the whole object.
    pub fn part(&self) -> Option<(u64, u64, u64)> {
        let text = std::str::from_utf8(self.range.as_ref()?).ok()?;
        let (range, total) = text.strip_prefix("bytes ")?.trim_ascii().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        // Digits only: `parse` would accept a sign.
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        Some((number(first)?, number(last)?, number(total)?))
    }
}

/// A strong validator (RFC 9110, 8.8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Validator {
    Tag(Vec<u8>),
    Date(Vec<u8>),
}
