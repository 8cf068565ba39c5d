//! The objects of `s3-store` and what it answers. Nothing is stored: an object is a function of its number.
//!
//! | of object 1234567 | |
//! |---|---|
//! | key | `d001234/000001234567.bin`: a directory for each 1,000 keys; the order of bytes is that of numbers |
//! | body | the number as 8 bytes, little endian, again and again, the last time perhaps in part |
//! | ETag | the number and the size, 16 hexadecimal digits each; it is not the MD5 of the body |
//!
//! Ranges of a listing are found by bisection: keys grow with their numbers.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::sigv4::{escaped, unescaped};

/// Keys that the names have digits for.
pub(crate) const MOST: u64 = 1_000_000_000;
pub(crate) const KEY: usize = 24;
const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
const ENTRY: &str = "<Contents><Key>d000000/000000000000.bin</Key><LastModified>2024-02-03T04:05:06.000Z</LastModified>\
    <ETag>&quot;0000000000000000";
const ENTRY_KEY: usize = 15; // where it is in an entry
const ENTRY_TAG: usize = ENTRY.len() - 16;
const MODIFIED: &str = "Sat, 03 Feb 2024 04:05:06 GMT";

/// Status and code of an answer.
pub(crate) type Refusal = (u16, &'static str);
const WRONG: Refusal = (400, "InvalidArgument");

/// The key of an object.
pub(crate) fn key(number: u64) -> [u8; KEY] {
    let mut key = *b"d000000/000000000000.bin";
    digits(&mut key[8..20], number, 10);
    key.copy_within(8 + 3..8 + 9, 1); // of 12 digits, the last three count within the directory
    key
}

/// The number of a key.
fn number(found: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(found.get(8..20)?).ok()?.parse().ok()?;
    (found == key(number)).then_some(number)
}

fn digits(into: &mut [u8], mut number: u64, base: u64) {
    for place in into.iter_mut().rev() {
        *place = b"0123456789abcdef"[(number % base) as usize];
        number /= base;
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A moment as in `x-amz-date` (`20130524T000000Z`) and as in `Date` (`Fri, 24 May 2013 00:00:00 GMT`).
pub(crate) fn dates(moment: u64) -> (String, String) {
    let (days, clock) = (moment / 86_400, moment % 86_400);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let since = days + 719_468; // since 1 March of the year 0: leap days end the years
    let (era, day) = (since / 146_097, since % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let day = day - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let name = |names: &'static str, at: u64| &names[at as usize * 3..][..3];
    let (week, of) = (name("ThuFriSatSunMonTueWed", days % 7), name("JanFebMarAprMayJunJulAugSepOctNovDec", month - 1));
    let amz = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z");
    (amz, format!("{week}, {day:02} {of} {year:04} {hour:02}:{minute:02}:{second:02} GMT"))
}

/// What one thread answers from.
#[derive(Clone)]
pub(crate) struct Bucket {
    path: String,
    objects: u64,
    size: usize,
    page: u64,
    entry: String,
    head: String,
    second: u64,
}

impl Bucket {
    pub fn new(name: &str, objects: u64, size: usize, page: u64) -> Self {
        let rest =
            format!("{size:016x}&quot;</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>");
        let entry = format!("{ENTRY}{rest}");
        Self { path: format!("/{name}"), objects, size, page, entry, head: String::new(), second: 0 }
    }

    /// Answers the request with this head, or says with which status and code it is refused.
    pub fn answer(&mut self, head: &str, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let target = head.strip_prefix("GET ").ok_or((405, "MethodNotAllowed"))?;
        let target = &target[..memchr::memchr(b' ', target.as_bytes()).unwrap_or(target.len())];
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let rest = path.strip_prefix(&*self.path).filter(|rest| matches!(rest.as_bytes().first(), None | Some(b'/')));
        let query = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        match rest.ok_or((404, "NoSuchBucket"))?.get(1..).unwrap_or_default() {
            "" if query().any(|pair| pair == ("list-type", "2")) => self.list(query(), out),
            "" => Err((501, "NotImplemented")),
            key => {
                let key = if key.contains('%') { unescaped(key).into() } else { Cow::Borrowed(key.as_bytes()) };
                let number = number(&key).filter(|number| *number < self.objects).ok_or((404, "NoSuchKey"))?;
                let language = query().find(|pair| pair.0 == "response-content-language");
                let language = language.map(|(_, value)| unescaped(value)).unwrap_or_default();
                if language.iter().any(u8::is_ascii_control) {
                    return Err(WRONG);
                }
                self.object(number, &language, out);
                Ok(())
            }
        }
    }

    fn object(&mut self, number: u64, language: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        // The request's id is as long as the ETag's first half, and the same.
        let mut tag = *b"\r\nETag: \"0000000000000000";
        digits(&mut tag[9..], number, 16);
        out.extend_from_slice(&tag[9..]);
        out.extend_from_slice(&tag);
        let mut size = *b"0000000000000000\"\r\n";
        digits(&mut size[..16], self.size as u64, 16);
        out.extend_from_slice(&size);
        if !language.is_empty() {
            [b"Content-Language: ", language, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
        }
        out.extend_from_slice(b"\r\n");
        let (start, number) = (out.len(), number.to_le_bytes());
        out.resize(start + self.size, 0);
        for piece in out[start..].chunks_mut(8) {
            piece.copy_from_slice(&number[..piece.len()]);
        }
    }

    /// Sets the date of the answers to come.
    pub fn at(&mut self, second: u64) {
        if self.second != second {
            self.second = second;
            self.head = format!(
                "HTTP/1.1 200 OK\r\nDate: {}\r\nLast-Modified: {MODIFIED}\r\nContent-Type: application/octet-stream\r\n\
                 Content-Length: {}\r\nServer: shoal-limits\r\nx-amz-request-id: ",
                dates(second).1,
                self.size
            );
        }
    }

    fn list<'a>(&self, query: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (mut prefix, mut most, mut from, mut after, mut url) = (Vec::new(), self.page, None, 0, false);
        for (name, value) in query {
            let value = unescaped(&value.replace('+', " "));
            let text = || std::str::from_utf8(&value).map_err(|_| WRONG);
            match name {
                "prefix" => prefix = value,
                "max-keys" => most = most.min(text()?.parse().map_err(|_| WRONG)?),
                "start-after" => after = self.first(|key| *key > value[..]),
                "encoding-type" => url = text()? == "url",
                "continuation-token" => {
                    let number = text()?.strip_prefix("1+").and_then(|token| token.strip_suffix("/="));
                    from = Some(number.and_then(|number| number.parse::<u64>().ok()).ok_or(WRONG)?);
                }
                "delimiter" if !value.is_empty() => return Err((501, "NotImplemented")),
                _ => {}
            }
        }
        let until = self.first(|key| key[..prefix.len().min(KEY)] > prefix[..]);
        let from = self.first(|key| *key >= prefix[..]).max(from.unwrap_or(after)).min(until);
        let end = until.min(from + most);
        let mut start = format!("{XML}<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>");
        let prefix = String::from_utf8_lossy(&prefix);
        let prefix = if url { escaped(&prefix, "/") } else { prefix.replace('&', "&amp;").replace('<', "&lt;") };
        start += &format!("{}</Name><Prefix>{prefix}</Prefix>", &self.path[1..]);
        start += &format!("<MaxKeys>{most}</MaxKeys><KeyCount>{}</KeyCount>", end - from);
        if url {
            start += "<EncodingType>url</EncodingType>";
        }
        let is_cut = end < until && most > 0;
        start += &format!("<IsTruncated>{is_cut}</IsTruncated>");
        if is_cut {
            start += &format!("<NextContinuationToken>1+{end}/=</NextContinuationToken>");
        }
        let tail = "</ListBucketResult>";
        let length = start.len() + (end - from) as usize * self.entry.len() + tail.len();
        out.reserve(length + 500);
        self.text("200 OK", length, out);
        out.extend_from_slice(start.as_bytes());
        for number in from..end {
            let at = out.len();
            out.extend_from_slice(self.entry.as_bytes());
            out[at + ENTRY_KEY..][..KEY].copy_from_slice(&key(number));
            digits(&mut out[at + ENTRY_TAG..][..16], number, 16);
        }
        out.extend_from_slice(tail.as_bytes());
        Ok(())
    }

    /// The first number with a key that fulfils what all later keys fulfil, too.
    fn first(&self, is_there: impl Fn(&[u8]) -> bool) -> u64 {
        let (mut low, mut high) = (0, self.objects);
        while low < high {
            let middle = low.midpoint(high);
            if is_there(&key(middle)) { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// Adds the head of an answer in XML.
    fn text(&self, status: &str, length: usize, out: &mut Vec<u8>) {
        let date = dates(self.second).1;
        let head = format!(
            "HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\n\
             Server: shoal-limits\r\nx-amz-request-id: 0000000000000000\r\n\r\n"
        );
        out.extend_from_slice(head.as_bytes());
    }

    /// Adds an answer that refuses.
    pub fn refuse(&self, (status, code): Refusal, out: &mut Vec<u8>) {
        let body = format!("{XML}<Error><Code>{code}</Code><Message>{code}</Message></Error>");
        self.text(&format!("{status} {code}"), body.len(), out);
        out.extend_from_slice(body.as_bytes());
    }
}
