//! Which version of its object an answer holds, and which part of it. Not here: what follows from that (`resume.rs`).

use std::time::{Duration, SystemTime};

/// A date of change tells versions apart when it was so long past: clocks have whole seconds, and are not all right.
const SETTLED: Duration = Duration::from_secs(60);
/// Longest validator that is sent back, in bytes.
const VALIDATOR_MAX: usize = 1024;

/// What an answer says about the version of its object and the part that it holds. Only of large or partial answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    etag: Option<Vec<u8>>,
    modified: Option<Vec<u8>>,
    date: Option<Vec<u8>>,
    pub range: Option<Vec<u8>>,
    /// A field stood there twice, with two values.
    ambiguous: bool,
}

impl Version {
    /// Takes note of a field, if it is one that says something of this.
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

    pub fn has(&self, validator: &Validator) -> bool {
        !self.ambiguous
            && match validator {
                Validator::Tag(etag) => self.etag.as_ref() == Some(etag),
                Validator::Date(modified) => self.modified.as_ref() == Some(modified),
            }
    }

    /// First and last byte of the part, and the length of the whole.
    pub fn part(&self) -> Option<(u64, u64, u64)> {
        let text = std::str::from_utf8(self.range.as_ref()?).ok()?;
        let (range, total) = text.strip_prefix("bytes ")?.trim_ascii().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        // Digits only: `parse` would take a sign.
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        Some((number(first)?, number(last)?, number(total)?))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Validator {
    Tag(Vec<u8>),
    Date(Vec<u8>),
}
