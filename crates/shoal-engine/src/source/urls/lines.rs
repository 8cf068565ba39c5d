//! Lists of lines, and the plain ones: a URL on each line, or `NAME<TAB>URL`. Empty lines and lines that begin with `#` are
//! no records there.
//!
//! Not here: which URL can be fetched (`address.rs`), lines with fields (`fields.rs`).

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::fields::{self, Fields};
use super::record::{Record, Records, Step, URL_MAX, UrlList, changed};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::error::plain;
use crate::fs::random::random;
use crate::fs::read;

/// Longest line that is read whole: a URL, a name and a tab.
const LINE_MAX: usize = 2 * URL_MAX + 1;
/// Bytes of a read; and of one for a single line, as most are short.
const CHUNK: usize = 256 << 10;
const CHUNK_FOUND: usize = 4 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a line; false if it is no record.
pub(super) type Parse = dyn Fn(&[u8], &mut Record) -> bool + Send + Sync;

/// What is a record, and how it is read.
#[derive(Clone)]
pub(super) struct Shape {
    /// Longest line that is read, in bytes.
    pub line_max: usize,
    /// Line breaks between quotes do not end a record.
    pub quoted: bool,
    /// Reads a line; false if it is no record.
    pub parse: Arc<Parse>,
}

impl Shape {
    fn plain() -> Shape {
        Shape { line_max: LINE_MAX, quoted: false, parse: Arc::new(parse) }
    }
}

/// The format of a list of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// `URL` or `NAME<TAB>URL`.
    Plain,
    /// Rows below a row with the names of the columns, separated by this character.
    Csv(u8, Fields),
    /// A JSON object on each line.
    Json(Fields),
}

/// A file of lines, or a stream.
pub struct Lines {
    file: Arc<OwnedFd>,
    identity: String,
    shown: String,
    is_stream: bool,
    shape: Shape,
    /// Where the records begin, and lines before that.
    begin: (u64, u64),
}

impl Lines {
    /// Opens a file. Pipes are streams. `identity`: what identifies its contents, if its path does not.
    ///
    /// # Errors
    /// [`Kind::Config`] if it cannot be opened, is a directory, or does not have the fields.
    pub fn open(path: &Path, format: &Format, identity: Option<String>) -> Result<Lines> {
        let shown = match &identity {
            None => escape(path.file_name().unwrap_or(path.as_os_str()).as_bytes()),
            Some(_) => "list".to_owned(),
        };
        let failed = |errno: rustix::io::Errno| {
            Error::new(Kind::Config, format!("the list cannot be opened: {}", plain(errno)))
                .on(&escape(path.as_os_str().as_bytes()))
                .errno(Some(errno.raw_os_error()))
        };
        let file = read::open_path(path).map_err(failed)?;
        let is_stream = match read::is_stream(file.as_fd()) {
            Ok(Some(is_stream)) => is_stream,
            Ok(None) => {
                let why = "a list of URLs must be a file, not a directory or device";
                return Err(Error::new(Kind::Config, why).on(&escape(path.as_os_str().as_bytes())));
            }
            Err(errno) => return Err(failed(errno)),
        };
        let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let identity = match (identity, is_stream) {
            (Some(identity), _) => identity,
            (None, true) => stream_identity(),
            // All bytes: shortened for display, two long paths could be equal.
            (None, false) => full.as_os_str().as_bytes().escape_ascii().to_string(),
        };
        let identity = match format {
            Format::Plain => identity,
            Format::Csv(_, fields) | Format::Json(fields) => {
                let quoted = |text: &str| text.escape_default().to_string().replace(' ', "\\ ");
                let name =
                    fields.name.as_deref().map_or_else(String::new, |name| format!(" name_field={}", quoted(name)));
                format!("{identity} url_field={}{name}", quoted(&fields.url))
            }
        };
        let mut lines =
            Lines { file: Arc::new(file), identity, shown, is_stream, shape: Shape::plain(), begin: (0, 0) };
        match format {
            Format::Plain => {}
            _ if is_stream => {
                let why = "a list with fields must be a file: from a stream, only plain lists are read";
                return Err(Error::new(Kind::Config, why).on(&escape(path.as_os_str().as_bytes())));
            }
            Format::Json(fields) => lines.shape = fields::json(fields.clone()),
            Format::Csv(delimiter, fields) => {
                let mut reader = lines.reader(fields::header());
                let mut header = Record::default();
                if reader.next(&mut header)? == Step::Record {
                    let cells = fields::split(header.url.as_bytes(), *delimiter).unwrap_or_default();
                    let names: Vec<_> = cells.iter().map(|cell| String::from_utf8_lossy(cell)).collect();
                    let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
                    lines.shape = fields::csv(*delimiter, fields.places(&names)?);
                    lines.begin = (reader.at, reader.number);
                }
            }
        }
        Ok(lines)
    }

    fn reader(&self, shape: Shape) -> LineReader {
        let mut reader = LineReader::new(self.file.clone(), self.is_stream, shape);
        (reader.at, reader.number) = self.begin;
        reader.skips_mark = reader.at == 0;
        reader
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// [`Kind::Config`] if it is closed.
    pub fn stdin() -> Result<Lines> {
        let file = read::stdin()
            .map_err(|errno| Error::new(Kind::Config, format!("standard input cannot be read: {}", plain(errno))))?;
        let file = Arc::new(file);
        let (identity, shown) = (stream_identity(), "-".to_owned());
        Ok(Lines { file, identity, shown, is_stream: true, shape: Shape::plain(), begin: (0, 0) })
    }
}

/// What came once does not come again.
fn stream_identity() -> String {
    format!("stream#{:032x}", u128::from_ne_bytes(random()))
}

impl UrlList for Lines {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn shown(&self) -> &str {
        &self.shown
    }

    fn read(&self) -> Result<Box<dyn Records>> {
        Ok(Box::new(self.reader(self.shape.clone())))
    }

    fn find(&self, position: u64, into: &mut Record) -> Result<()> {
        find(&self.file, position, self.shape.clone(), into)
    }

    fn is_stream(&self) -> bool {
        self.is_stream
    }

    fn notes(&self) -> Vec<String> {
        let note = "the list comes from a stream: a run that is stopped cannot be resumed; use a file for that";
        self.is_stream.then(|| note.to_owned()).into_iter().collect()
    }
}

/// Reads a line `URL` or `NAME<TAB>URL`.
fn parse(line: &[u8], into: &mut Record) -> bool {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return false;
    }
    let Ok(line) = std::str::from_utf8(line) else {
        into.set_bad("the line is not UTF-8");
        return true;
    };
    match line.split_once('\t') {
        None => into.set(None, line),
        Some((name, url)) => {
            let is_url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
            if is_url(name) && !is_url(url) {
                into.set_bad("the name must come before the URL: NAME<TAB>URL");
            } else {
                into.set(Some(name), url.trim_ascii());
            }
        }
    }
    true
}

/// Reads the record at an offset of a file.
pub(super) fn find(file: &Arc<OwnedFd>, position: u64, shape: Shape, into: &mut Record) -> Result<()> {
    let mut reader = LineReader::new(file.clone(), false, shape);
    reader.at = position;
    reader.chunk = CHUNK_FOUND;
    reader.skips_mark = false;
    match reader.next(into)? {
        Step::Record if into.position == position => Ok(()),
        _ => Err(changed()),
    }
}

fn unreadable(errno: rustix::io::Errno) -> Error {
    Error::new(Kind::Listing, format!("the list cannot be read: {}", plain(errno))).errno(Some(errno.raw_os_error()))
}

/// Reads lines. The memory that it needs does not depend on their length.
pub(super) struct LineReader {
    file: Arc<OwnedFd>,
    is_stream: bool,
    shape: Shape,
    buffer: Vec<u8>,
    /// Unread bytes are `buffer[start..]`.
    start: usize,
    /// Offset of these in the file.
    at: u64,
    /// Number of the last line, from 1.
    number: u64,
    /// The file has ended.
    ended: bool,
    /// Bytes of a read.
    chunk: usize,
    skips_mark: bool,
    /// Bytes of a line that is too long, which were dropped.
    dropped: u64,
}

impl LineReader {
    pub fn new(file: Arc<OwnedFd>, is_stream: bool, shape: Shape) -> LineReader {
        LineReader {
            file,
            is_stream,
            shape,
            buffer: Vec::new(),
            start: 0,
            at: 0,
            number: 0,
            ended: false,
            chunk: CHUNK,
            skips_mark: true,
            dropped: 0,
        }
    }

    /// Reads more; false if there is nothing yet.
    fn fill(&mut self) -> Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.reserve(self.chunk);
        let at = self.at + self.buffer.len() as u64;
        let read = match self.is_stream {
            true => match read::is_ready(self.file.as_fd()) {
                Ok(true) => read::append(self.file.as_fd(), &mut self.buffer, self.chunk),
                Ok(false) => return Ok(false),
                Err(errno) => Err(errno),
            },
            false => read::append_at(self.file.as_fd(), &mut self.buffer, at, self.chunk),
        };
        match read {
            Ok(read) => self.ended = read == 0,
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(unreadable(errno)),
        }
        Ok(true)
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.at += bytes as u64;
    }

    /// Where the record at the start of the unread bytes ends, and how many line breaks are in it.
    fn end(&self) -> (Option<usize>, u64) {
        let unread = &self.buffer[self.start..];
        if !self.shape.quoted {
            return (memchr::memchr(b'\n', unread), 0);
        }
        let (mut breaks, mut is_quoted) = (0, false);
        for at in memchr::memchr2_iter(b'\n', b'"', unread) {
            match unread[at] {
                b'"' => is_quoted = !is_quoted,
                _ if is_quoted => breaks += 1,
                _ => return (Some(at), breaks),
            }
        }
        (None, breaks)
    }

    fn record(&mut self, length: usize, line: usize, breaks: u64, into: &mut Record) -> bool {
        let whole = self.dropped + line as u64;
        (into.position, into.number) = (self.at - self.dropped, self.number + 1);
        let is_record = match whole > self.shape.line_max as u64 {
            true => {
                let most = self.shape.line_max;
                into.set_bad(&format!("the line has {whole} bytes: the longest that is read has {most}"));
                true
            }
            false => (self.shape.parse)(&self.buffer[self.start..self.start + line], into),
        };
        (self.number, self.dropped) = (self.number + 1 + breaks, 0);
        self.consume(length);
        is_record
    }
}

impl Records for LineReader {
    fn next(&mut self, into: &mut Record) -> Result<Step> {
        loop {
            let unread = self.buffer.len() - self.start;
            if self.skips_mark && (unread >= BYTE_ORDER_MARK.len() || self.ended) {
                self.skips_mark = false;
                if self.buffer[self.start..].starts_with(BYTE_ORDER_MARK) {
                    self.consume(BYTE_ORDER_MARK.len());
                }
                continue;
            }
            let (end, breaks) = if self.skips_mark { (None, 0) } else { self.end() };
            if let Some(end) = end {
                if self.record(end + 1, end, breaks, into) {
                    return Ok(Step::Record);
                }
                continue;
            }
            if self.ended && unread == 0 && self.dropped == 0 {
                return Ok(Step::End);
            }
            let is_too_long = unread > self.shape.line_max;
            if self.shape.quoted && (is_too_long || self.ended) && breaks > 0 {
                // The lines behind it are read on their own: one quote must not hide the rest of the list.
                let line = memchr::memchr(b'\n', &self.buffer[self.start..]).unwrap_or(unread - 1);
                (into.position, into.number) = (self.at, self.number + 1);
                into.set_bad("a quote in this line is not closed");
                self.number += 1;
                self.consume(line + 1);
                return Ok(Step::Record);
            }
            if self.ended {
                if self.record(unread, unread, 0, into) {
                    return Ok(Step::Record);
                }
                continue;
            }
            if is_too_long {
                self.dropped += unread as u64;
                self.consume(unread);
            }
            if !self.fill()? {
                return Ok(Step::Wait);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn records(text: &[u8], shape: Shape, chunk: usize) -> Vec<Record> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let opened = Arc::new(read::open_path(file.path()).unwrap());
        let mut reader = LineReader::new(opened.clone(), false, shape.clone());
        reader.chunk = chunk;
        let (mut all, mut record) = (Vec::new(), Record::default());
        while reader.next(&mut record).unwrap() == Step::Record {
            let mut found = Record::default();
            find(&opened, record.position, shape.clone(), &mut found).unwrap();
            assert_eq!(Record { number: 0, ..found }, Record { number: 0, ..record.clone() }, "read again");
            all.push(record.clone());
        }
        all
    }

    fn shown(records: &[Record]) -> Vec<String> {
        let name = |record: &Record| record.name.as_ref().map_or_else(String::new, |name| format!("{name}|"));
        let show = |record: &Record| {
            format!("{}:{}{}{}", record.number, if record.bad { "!" } else { "" }, name(record), record.url)
        };
        records.iter().map(show).collect()
    }

    #[test]
    fn lines_are_urls_with_or_without_a_name() {
        let text = b"\xef\xbb\xbfhttp://h/1\r\n\n# comment\n  http://h/2  \nmy name\thttp://h/3\nhttp://h/4";
        let wanted = ["1:http://h/1", "4:http://h/2", "5:my name|http://h/3", "6:http://h/4"];
        for chunk in [1, 2, 7, 1000] {
            assert_eq!(shown(&records(text, Shape::plain(), chunk)), wanted, "{chunk}");
        }
        assert_eq!(shown(&records(b"http://h/x\thttp://h/1\n", Shape::plain(), 9)), ["1:http://h/x|http://h/1"]);
        assert!(shown(&records(b"http://h/x\tname\n", Shape::plain(), 9))[0].contains("NAME<TAB>URL"));
    }

    #[test]
    fn hostile_lines_are_records_of_their_own() {
        let long = vec![b'x'; 3 << 20];
        let text = [b"http://h/1\n\xff\xfe\n", &long[..], b"\n\0\0\nhttp://h/2\n", &long].concat();
        for chunk in [1 << 10, 1 << 20] {
            let all = records(&text, Shape::plain(), chunk);
            let bad: Vec<_> = all.iter().map(|record| (record.number, record.bad)).collect();
            assert_eq!(bad, [(1, false), (2, true), (3, true), (4, false), (5, false), (6, true)]);
            assert!(all[2].url.contains("3145728 bytes"), "{}", all[2].url);
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_hides_no_other_line() {
        let parse = |line: &[u8], into: &mut Record| {
            into.set(None, std::str::from_utf8(line).unwrap());
            true
        };
        let shape = Shape { line_max: 50, quoted: true, parse: Arc::new(parse) };
        let text = b"a\n\"b\nc\"\nd\n\"e\nf\ng\n";
        for chunk in [1, 5, 100] {
            let all = shown(&records(text, shape.clone(), chunk));
            assert_eq!(
                all,
                ["1:a", "2:\"b\nc\"", "4:d", "5:!a quote in this line is not closed", "6:f", "7:g"],
                "{chunk}"
            );
        }
    }
}
