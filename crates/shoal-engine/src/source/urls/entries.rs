//! Records of a partition, and what the journal keeps of an object that failed: not its URL, but where that is.
//!
//! A payload is a tag, the host of all its objects (0 if they have several), and then records, or the locators of objects
//! to try again. Locators are stored in journals, so their form must not change.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::Shared;
use super::address::{Parser, Url};
use super::record::{HASH, Record};
use crate::error::{Error, HostId, Kind, Result};
use crate::partition::{Cursor, Key, Partition};
use crate::source::locators::Unread;
use crate::source::{Entries, Entry, Unlisted, locators};

/// What follows in a payload.
const RECORDS: u8 = 0;
const LOCATORS: u8 = 1;
/// Bytes of a payload before the records.
const HEAD: usize = 9;
/// Bytes of a locator before the name: number, position, host, hash.
const NAME: usize = 24 + HASH;
/// No name is given.
const NONE: u32 = u32::MAX;

/// A record as the listing passes it on.
pub(super) struct Listed<'a> {
    pub record: &'a Record,
    /// How many records are before it.
    pub index: u64,
    pub host: HostId,
    pub hash: [u8; HASH],
}

/// Starts a payload of records.
pub(super) fn head(host: Option<HostId>) -> Vec<u8> {
    let mut payload = vec![RECORDS];
    payload.extend_from_slice(&host.unwrap_or_default().0.to_le_bytes());
    payload
}

/// Appends a record to a payload: its locator without a name, its place among the records, two lengths, whether it is bad.
pub(super) fn push(payload: &mut Vec<u8>, Listed { record, index, host, hash }: Listed<'_>) {
    let name = record.name.as_ref().map_or(NONE, |name| name.len() as u32);
    for number in [record.number, record.position, host.0] {
        payload.extend_from_slice(&number.to_le_bytes());
    }
    payload.extend_from_slice(&hash);
    payload.extend_from_slice(&index.to_le_bytes());
    payload.extend_from_slice(&(record.url.len() as u32).to_le_bytes());
    payload.extend_from_slice(&name.to_le_bytes());
    payload.push(u8::from(record.bad));
    payload.extend_from_slice(record.url.as_bytes());
    payload.extend_from_slice(record.name.as_deref().unwrap_or_default().as_bytes());
}

/// The host of all objects of a payload, if it is one.
pub(super) fn host_of(payload: &[u8]) -> Option<HostId> {
    let host = u64::from_le_bytes(payload.get(1..HEAD)?.try_into().ok()?);
    (host != 0).then_some(HostId(host))
}

/// The number of the line at a locator.
fn line_at(locator: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(locator.get(..8)?.try_into().ok()?))
}

/// The host of the object at a locator.
pub(super) fn host_at(locator: &[u8]) -> Option<HostId> {
    Some(HostId(u64::from_le_bytes(locator.get(16..24)?.try_into().ok()?)))
}

/// The hash in a locator.
pub(super) fn hash_at(locator: &[u8]) -> Option<[u8; HASH]> {
    locator.get(24..NAME)?.try_into().ok()
}

/// Reads the record at a locator again, if it is still the same.
pub(super) fn record_at(locator: &[u8], shared: &Shared, into: &mut Record) -> Result<()> {
    let position = locator.get(8..16).and_then(|position| Some(u64::from_le_bytes(position.try_into().ok()?)));
    match (position, locator.get(24..NAME)) {
        (Some(position), Some(hash)) => shared.find(position, hash, into),
        _ => Err(Error::new(Kind::Journal, "the journal's place of an object is not one in a list of URLs")),
    }
}

/// A partition of the objects at these locators.
pub(super) fn selected(locators: &[Box<[u8]>]) -> Partition {
    let first = locators.first().and_then(|locator| host_at(locator));
    let host = first.filter(|_| locators.iter().all(|locator| host_at(locator) == first));
    let mut prefix = head(host);
    prefix[0] = LOCATORS;
    let payload = locators::append(prefix, locators).into();
    let (seq, key, after) = (0, Key::default(), Cursor::default());
    Partition { seq, key, after, next: None, payload, len: Some(locators.len() as u32) }
}

/// The objects of an open partition.
pub(super) struct Opened {
    /// Locators, URLs and places, one behind the other.
    text: Vec<u8>,
    rows: Vec<Row>,
    /// What failures call the list.
    list: String,
}

struct Row {
    host: HostId,
    locator: Range<u32>,
    /// The URL without its fragment; if `bad`, why it is not fetched.
    request: Range<u32>,
    bad: bool,
}

impl Opened {
    /// Reads a payload. Lines of locators are read again from the list.
    pub fn new(payload: &Arc<[u8]>, shared: &Shared) -> Result<Opened> {
        let damaged = || Error::new(Kind::Internal, "a partition of a list of URLs is damaged");
        let mut opened = Opened {
            text: Vec::with_capacity(2 * payload.len()),
            rows: Vec::new(),
            list: shared.list.shown().to_owned(),
        };
        let (tag, mut unread) = (payload.first().copied(), Unread(payload.get(HEAD..).ok_or_else(damaged)?));
        match tag {
            Some(RECORDS) => {
                let mut parser = Parser::default();
                while !unread.0.is_empty() {
                    opened.push_record(&mut unread, &mut parser, shared).ok_or_else(damaged)?;
                }
            }
            Some(LOCATORS) => {
                while !unread.0.is_empty() {
                    let locator = unread.locator().ok_or_else(damaged)?;
                    opened.push_located(locator, shared)?;
                }
            }
            _ => return Err(damaged()),
        }
        Ok(opened)
    }

    fn push_record(&mut self, unread: &mut Unread<'_>, parser: &mut Parser, shared: &Shared) -> Option<()> {
        let locator = unread.take(NAME)?;
        let index = u64::from_le_bytes(unread.take(8)?.try_into().ok()?);
        let (length, name) = (unread.number::<4>()? as usize, unread.number::<4>()?);
        let bad = unread.number::<1>()? == 1;
        let url = std::str::from_utf8(unread.take(length)?).ok()?;
        let given = if name == NONE { None } else { Some(unread.take(name as usize)?) };
        let from = self.text.len();
        self.text.extend_from_slice(locator);
        let request = match bad {
            true => Err(url.to_owned()),
            false => parser.parse(url).and_then(|(url, host)| {
                shared.template.push(&url, given, index, &mut self.text)?;
                Ok((url.text, host))
            }),
        };
        match request {
            Ok((url, host)) => self.push_row(from, host, url, false),
            Err(why) => {
                self.text.truncate(from + NAME);
                self.text.extend_from_slice(format!("line {}", line_at(locator)?).as_bytes());
                self.push_row(from, HostId(0), &why, true);
            }
        }
        Some(())
    }

    fn push_located(&mut self, locator: &[u8], shared: &Shared) -> Result<()> {
        let mut record = Record::default();
        let found = record_at(locator, shared, &mut record);
        // The host is the one of this URL, whatever the journal says.
        let mut host = HostId(0);
        let (request, bad) = match found {
            Ok(()) if record.bad => (record.url.clone(), true),
            Ok(()) => match Url::parse(&record.url) {
                // Its name is in the locator, also if the line has none any more that could be made one.
                Ok(url) => match has_name(locator, &record, &url, shared) {
                    Ok(()) => {
                        host = url.host_id();
                        (url.text.to_owned(), false)
                    }
                    Err(why) => (why, true),
                },
                Err(why) => (why, true),
            },
            Err(error) if error.kind() == Kind::Changed => (error.why().to_owned(), true),
            Err(error) => return Err(error),
        };
        let from = self.text.len();
        self.text.extend_from_slice(locator);
        self.push_row(from, host, &request, bad);
        Ok(())
    }

    fn push_row(&mut self, from: usize, host: HostId, request: &str, bad: bool) {
        let locator = from as u32..self.text.len() as u32;
        self.text.extend_from_slice(request.as_bytes());
        let request = locator.end..self.text.len() as u32;
        self.rows.push(Row { host, locator, request, bad });
    }

    fn text(&self, range: &Range<u32>) -> &[u8] {
        &self.text[range.start as usize..range.end as usize]
    }
}

/// Whether the name in a locator is one; the error says why the object has none. Then it is called by its line, and so may
/// be an object with a name.
fn has_name(locator: &[u8], record: &Record, url: &Url<'_>, shared: &Shared) -> std::result::Result<(), String> {
    let line = line_at(locator).map(|line| format!("line {line}"));
    if line.is_none_or(|line| locator[NAME..] != *line.as_bytes()) {
        return Ok(());
    }
    shared.template.push(url, record.name.as_deref().map(str::as_bytes), 0, &mut Vec::new())
}

impl Entries for Opened {
    fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let Row { host, locator, bad, .. } = &self.rows[index as usize];
        let locator = self.text(locator);
        let unlisted = bad.then_some(Unlisted::Itself);
        Entry { name: &locator[NAME..], locator, host: *host, skip: None, unlisted }
    }

    /// The list and the line.
    fn within(&self, index: u32) -> Option<Cow<'_, [u8]>> {
        let locator = self.text(&self.rows[index as usize].locator);
        let line = line_at(locator)?;
        Some(Cow::Owned(format!("{}:{line}", self.list).into_bytes()))
    }

    fn request(&self, index: u32) -> &[u8] {
        self.text(&self.rows[index as usize].request)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Lines, Urls, UrlsOptions};
    use super::*;
    use crate::source::Source;

    #[test]
    fn the_host_of_an_object_is_that_of_its_url_whatever_a_locator_says() {
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(list.path(), "http://h/x\nhttps://i/x\n").unwrap();
        let lines = Lines::open(list.path(), &Format::Plain, None).unwrap();
        let urls = Urls::new(Box::new(lines), UrlsOptions::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let listed = runtime.block_on(urls.list(None).unwrap().next()).unwrap().unwrap();
        let opened = Opened::new(&listed.payload, &urls.0).unwrap();
        let own = Url::parse("http://h/x").unwrap().host_id();
        assert_eq!((opened.get(0).host, host_at(opened.get(0).locator)), (own, Some(own)));
        let mut locator = opened.get(0).locator.to_vec();
        locator[16..24].copy_from_slice(&opened.get(1).host.0.to_le_bytes());
        let again = selected(&[locator.into()]);
        assert_eq!(Opened::new(&again.payload, &urls.0).unwrap().get(0).host, own);
    }
}
