//! `UrlList` and `Records`: what a list of URLs is to the source, whatever its format. Not here: any format.

use ring::digest::{SHA256, digest};
use siphasher::sip128::SipHasher13;

use crate::error::{Error, Result};

/// Longest URL, and longest name, in bytes. Servers accept about 8 KiB.
pub const URL_MAX: usize = 32 << 10;
/// Between the values of several fields: no name can have it.
pub(super) const SEPARATOR: char = '\0';
/// Bytes of a hash of a record.
pub(super) const HASH: usize = 16;

/// A list of URLs in some format.
pub trait UrlList: Send + Sync {
    /// Identifies the list when a run resumes, without secrets.
    fn identity(&self) -> String;
    /// What failures call it.
    fn shown(&self) -> &str;
    /// Starts to read at the first record.
    ///
    /// # Errors
    /// If the list cannot be read.
    fn read(&self) -> Result<Box<dyn Records>>;
    /// Reads the record at a position again, which `read` has returned.
    ///
    /// # Errors
    /// If there is none any more, or the list cannot be read.
    fn find(&self, position: u64, into: &mut Record) -> Result<()>;
    /// Whether it can be read only once, and from front to back.
    fn is_stream(&self) -> bool {
        false
    }
    /// Whether its records have fields, of which one may be the name.
    fn has_fields(&self) -> bool {
        false
    }
    /// Notes for the report that are known before the run starts.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The records of a list, in their order.
pub trait Records: Send {
    /// Reads the next record.
    ///
    /// # Errors
    /// If the list cannot be read, or is not in its format: then nothing of it can be believed.
    fn next(&mut self, into: &mut Record) -> Result<Step>;
}

/// What `Records::next` has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is a record.
    Record,
    /// There is none yet; call it again later.
    Wait,
    /// There are no more.
    End,
}

/// A record: a line, or a row. The memory of its fields is used again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Where it is in the list: an offset in bytes, or the number of a row.
    pub position: u64,
    /// Number of its line or row, from 1.
    pub number: u64,
    /// The URL; if `bad`, why there is none.
    pub url: String,
    /// The name of the object, if the list has one. If names are made of several fields: their values, with `SEPARATOR`
    /// between them.
    pub name: Option<String>,
    /// There is no URL.
    pub bad: bool,
}

impl Record {
    /// Says why there is no URL.
    pub fn set_bad(&mut self, why: &str) {
        (self.bad, self.name) = (true, None);
        why.clone_into(&mut self.url);
    }

    /// Sets the URL, without white space around it, and the name; an empty one is none. Both are validated later; a length
    /// beyond [`URL_MAX`] is an error here.
    pub fn set(&mut self, name: Option<&str>, url: &str) {
        let (name, url) = (name.filter(|name| !name.is_empty()), url.trim());
        if url.len() > URL_MAX || name.is_some_and(|name| name.len() > URL_MAX) {
            return self.set_bad(&format!("it has more than {URL_MAX} bytes, the longest that is read"));
        }
        self.bad = false;
        url.clone_into(&mut self.url);
        match (name, &mut self.name) {
            (Some(name), Some(own)) => name.clone_into(own),
            _ => self.name = name.map(str::to_owned),
        }
    }

    /// Sets the URL, and the values of the fields that the name is made of.
    pub fn set_fields<'a>(&mut self, mut values: impl ExactSizeIterator<Item = Option<&'a str>>, url: &str) {
        if values.len() < 2 {
            return self.set(values.next().flatten(), url);
        }
        let values: Vec<&str> = values.map(Option::unwrap_or_default).collect();
        if values.iter().any(|value| value.contains(SEPARATOR)) {
            return self.set_bad("a field that its name is made of has a NUL character");
        }
        let mut space = [0; 4];
        self.set(Some(&values.join(SEPARATOR.encode_utf8(&mut space))), url);
    }

    /// The key of the hashes of a list with this first record.
    pub(super) fn key(&self) -> [u8; HASH] {
        let mut key = [0; HASH];
        key.copy_from_slice(&digest(&SHA256, self.url.as_bytes()).as_ref()[..HASH]);
        key
    }

    /// A hash that tells nothing of the record to those without the list, as they do not have its key. `space`: to be
    /// used again.
    pub(super) fn hash(&self, key: &[u8; HASH], space: &mut Vec<u8>) -> [u8; HASH] {
        space.clear();
        space.extend_from_slice(&[u8::from(self.bad), u8::from(self.name.is_some())]);
        space.extend_from_slice(&(self.url.len() as u64).to_le_bytes());
        space.extend_from_slice(self.url.as_bytes());
        space.extend_from_slice(self.name.as_deref().unwrap_or_default().as_bytes());
        SipHasher13::new_with_key(key).hash(space).as_bytes()
    }
}

/// The error of a record that is not what was listed.
pub fn changed() -> Error {
    let why = "the list has changed since this object failed: there is another record in its place";
    Error::new(crate::error::Kind::Changed, why)
        .hint("`resume=\"relist\"` reads the list from its start and skips what is done")
}

/// The error of a list that is not what it was when its reading began.
pub fn changed_while_read() -> Error {
    Error::new(crate::error::Kind::Listing, "the list has changed while it was read")
        .hint("run the same command again when nothing writes to the list any more")
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip128::Hasher128;

    use super::*;

    #[test]
    fn the_hash_of_a_record_is_the_one_that_journals_have() {
        let key = [7; HASH];
        let mut space = b"of another record".to_vec();
        for name in [None, Some("x")] {
            let mut record = Record::default();
            record.set(name, "http://h/x");
            let mut wanted = SipHasher13::new_with_key(&key);
            wanted.write(&[0, u8::from(name.is_some())]);
            wanted.write(&10_u64.to_le_bytes());
            wanted.write(b"http://h/x");
            wanted.write(name.unwrap_or_default().as_bytes());
            assert_eq!(record.hash(&key, &mut space), wanted.finish128().as_bytes());
            record.set(Some("a longer name"), "http://h/x");
            assert_ne!(record.hash(&key, &mut space), wanted.finish128().as_bytes());
        }
    }

    #[test]
    fn the_values_of_several_fields_are_told_apart() {
        let mut record = Record::default();
        let mut name = |values: &[Option<&str>]| {
            record.set_fields(values.iter().copied(), "http://h/x");
            if record.bad { "bad".to_owned() } else { format!("{:?}", record.name) }
        };
        assert_eq!(name(&[]), "None");
        assert_eq!(name(&[Some("a\0b")]), "Some(\"a\\0b\")");
        assert_eq!(name(&[Some("a"), None, Some("b")]), "Some(\"a\\0\\0b\")");
        assert_eq!(name(&[Some("a\0"), Some("b")]), "bad");
    }

    #[test]
    fn nothing_of_a_record_stays_in_the_next_one() {
        let mut record = Record::default();
        for name in [Some("long name"), Some("x"), None, Some(""), Some("longer name")] {
            record.set(name, "http://h/x");
            assert_eq!(record.name.as_deref(), name.filter(|name| !name.is_empty()));
        }
    }
}
