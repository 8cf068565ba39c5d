//! Reads the records of a file or stream of lines, in chunks. A line ends with LF, CR LF or CR.
//!
//! What is a record depends on the bytes from its begin on and on nothing before them, so `find` reads the same one as
//! `Records::next`. Not here: rows of CSV (`rows.rs`), JSON (`fields.rs`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::fields::{self, Fields};
use super::record::{Record, Records, Step, URL_MAX, changed, changed_while_read};
use super::rows::{self, Rows};
use crate::error::{Error, Kind, Result};
use crate::fs::error::plain;
use crate::fs::read::{self, Facts};

/// Longest line that is read whole: a URL, a name and a tab.
const LINE_MAX: usize = 2 * URL_MAX + 1;
/// The same of a row, or a line of JSON: they may have descriptions and vectors beside the URL.
pub(super) const LONG_LINE_MAX: usize = 4 << 20;
/// Bytes of a read; and of one for a single line, as most are short.
const CHUNK: usize = 256 << 10;
const CHUNK_FOUND: usize = 4 << 10;
/// Most bytes of a read after one that was not enough.
const CHUNK_MAX: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What is a record, and how it is read.
#[derive(Debug)]
pub(super) enum Shape {
    /// `URL` or `NAME<TAB>URL`, empty lines and comments.
    Plain,
    /// `URL` or `NAME<TAB>URL`, whatever it begins with.
    Items,
    Rows(Rows),
    Json(Fields),
}

/// What a record, or a line that is none, has taken.
pub(super) struct Taken {
    /// Where the next one begins.
    pub next: usize,
    /// Line breaks in it.
    pub breaks: u64,
    pub is_record: bool,
}

impl Shape {
    /// Longest line that is read, in bytes.
    fn line_max(&self) -> usize {
        match self {
            Shape::Plain | Shape::Items => LINE_MAX,
            Shape::Rows(_) | Shape::Json(_) => LONG_LINE_MAX,
        }
    }

    /// Reads the record at the begin of `bytes`; none if it may go on behind them, or is too long. `is_all`: there are no
    /// more.
    fn take(&self, bytes: &[u8], is_all: bool, into: &mut Record) -> Option<Taken> {
        if let Shape::Rows(rows) = self {
            return rows.take(bytes, is_all, into);
        }
        let (end, next) = line_end(bytes, is_all).filter(|(end, _)| *end <= self.line_max())?;
        let line = &bytes[..end];
        let is_record = match self {
            Shape::Plain => is_plain_record(line),
            Shape::Items => true,
            Shape::Rows(_) | Shape::Json(_) => !line.trim_ascii().is_empty(),
        };
        match self {
            _ if !is_record => {}
            Shape::Json(fields) => fields::read_json(line, fields, into),
            _ => read_plain(line, into),
        }
        Some(Taken { next, breaks: 0, is_record })
    }
}

/// Where the line at the begin of `bytes` ends, and where the next one begins; none if that is behind them. `is_all`: there
/// are no more.
pub(super) fn line_end(bytes: &[u8], is_all: bool) -> Option<(usize, usize)> {
    match memchr::memchr2(b'\n', b'\r', bytes) {
        None => is_all.then_some((bytes.len(), bytes.len())),
        Some(end) if bytes[end] == b'\n' => Some((end, end + 1)),
        Some(end) => match bytes.get(end + 1) {
            Some(b'\n') => Some((end, end + 2)),
            Some(_) => Some((end, end + 1)),
            None => is_all.then_some((end, end + 1)),
        },
    }
}

pub(super) fn is_url(text: &[u8]) -> bool {
    let begins = |with: &[u8]| text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    begins(b"http://") || begins(b"https://")
}

/// Whether a line is neither empty nor a comment. One with a URL behind a tab is a record: names may begin with `#`.
fn is_plain_record(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    match text.first() {
        None => false,
        Some(b'#') => memchr::memchr_iter(b'\t', text).any(|tab| is_url(text[tab + 1..].trim_ascii_start())),
        Some(_) => true,
    }
}

/// Reads a line `URL` or `NAME<TAB>URL`.
fn read_plain(line: &[u8], into: &mut Record) {
    let Ok(line) = std::str::from_utf8(line.trim_ascii_end()) else { return into.set_bad("the line is not UTF-8") };
    match line.split_once('\t') {
        None => into.set(None, line),
        Some((name, url)) if is_url(name.as_bytes()) && !is_url(url.trim_start().as_bytes()) => {
            into.set_bad("the name must come before the URL: NAME<TAB>URL");
        }
        Some((name, url)) => into.set(Some(name), url),
    }
}

/// Reads the record at an offset of a file.
pub(super) fn find(file: &Arc<OwnedFd>, position: u64, shape: &Arc<Shape>, into: &mut Record) -> Result<()> {
    let mut reader = LineReader::new(file.clone(), shape.clone());
    reader.at = position;
    reader.chunk = CHUNK_FOUND;
    reader.skips_mark = false;
    match reader.next(into)? {
        Step::Record if into.position == position => Ok(()),
        _ => Err(changed()),
    }
}

/// Reads lines. The memory that it needs does not depend on their length.
pub(super) struct LineReader {
    file: Arc<OwnedFd>,
    shape: Arc<Shape>,
    pub is_stream: bool,
    /// What the file was when the list was opened, if it must stay so.
    pub opened: Option<Facts>,
    /// Bytes of a read.
    pub chunk: usize,
    pub skips_mark: bool,
    buffer: Vec<u8>,
    /// Unread bytes are `buffer[start..]`.
    start: usize,
    /// Offset of these in the file.
    pub at: u64,
    /// Number of the last line, from 1.
    pub number: u64,
    /// The file has ended.
    ended: bool,
    /// Bytes of a line that is too long, if there is one, which were dropped.
    dropped: Option<u64>,
}

impl LineReader {
    pub fn new(file: Arc<OwnedFd>, shape: Arc<Shape>) -> LineReader {
        LineReader {
            file,
            shape,
            is_stream: false,
            opened: None,
            chunk: CHUNK,
            skips_mark: true,
            buffer: Vec::new(),
            start: 0,
            at: 0,
            number: 0,
            ended: false,
            dropped: None,
        }
    }

    /// Reads more; false if there is nothing yet.
    fn fill(&mut self) -> Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let unread = self.buffer.len();
        // A row is read again from its begin when there is more of it.
        let most = self.chunk.max(unread.min(CHUNK_MAX));
        self.buffer.reserve(most);
        let read = match self.is_stream {
            true => match read::is_ready(self.file.as_fd()) {
                Ok(true) => read::append(self.file.as_fd(), &mut self.buffer, most),
                Ok(false) => return Ok(false),
                Err(errno) => Err(errno),
            },
            false => read::append_at(self.file.as_fd(), &mut self.buffer, self.at + unread as u64, most),
        };
        self.ended = match read {
            Ok(read) => read == 0,
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(unreadable(errno)),
        };
        // Before the last line is believed: it may be cut.
        if self.ended && self.opened.is_some() && self.opened != read::facts(self.file.as_fd()).ok() {
            return Err(changed_while_read());
        }
        Ok(true)
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.at += bytes as u64;
    }

    /// Whether nothing is left to skip before the first line; reads for that.
    fn skip_mark(&mut self) -> Result<bool> {
        while self.skips_mark {
            let unread = &self.buffer[self.start..];
            if unread.len() < BYTE_ORDER_MARK.len() && !self.ended {
                if !self.fill()? {
                    return Ok(false);
                }
                continue;
            }
            if unread.starts_with(BYTE_ORDER_MARK) {
                self.consume(BYTE_ORDER_MARK.len());
            }
            self.skips_mark = false;
        }
        Ok(true)
    }

    /// Reads the row with the names of the columns of a file; none if the file is empty.
    pub fn names(&mut self, delimiter: u8) -> Result<Option<Vec<String>>> {
        let broken = |why: &str| {
            Error::new(Kind::Config, format!("the names of the columns, in the first row, cannot be read: {why}"))
        };
        self.skip_mark()?;
        loop {
            let unread = &self.buffer[self.start..];
            if self.ended && unread.is_empty() {
                return Ok(None);
            }
            match rows::names(unread, self.ended, delimiter) {
                Some(Ok((names, taken))) => {
                    self.consume(taken.next);
                    self.number += 1 + taken.breaks;
                    return Ok(Some(names));
                }
                Some(Err(why)) => return Err(broken(why)),
                None if unread.len() > LONG_LINE_MAX => return Err(broken("it is too long")),
                None => self.fill()?,
            };
        }
    }

    /// Reads the begin of a record that is too long as far as it is there: of rows, its first line. False if that has not
    /// ended yet.
    fn take_long(&mut self, into: &mut Record) -> bool {
        let line_max = self.shape.line_max();
        let unread = &self.buffer[self.start..];
        let dropped = *self.dropped.get_or_insert(0);
        let Some((end, next)) = line_end(unread, self.ended) else {
            // A CR may be the first byte of a line break of two.
            let bytes = unread.len() - usize::from(unread.last() == Some(&b'\r'));
            self.dropped = Some(dropped + bytes as u64);
            self.consume(bytes);
            return false;
        };
        let whole = dropped + end as u64;
        self.dropped = None;
        (into.position, into.number) = (self.at - dropped, self.number + 1);
        match whole > line_max as u64 {
            true => into.set_bad(&format!("the line has {whole} bytes: the longest that is read has {line_max}")),
            false => into.set_bad(rows::NOT_CLOSED),
        }
        self.number += 1;
        self.consume(next);
        true
    }
}

impl Records for LineReader {
    fn next(&mut self, into: &mut Record) -> Result<Step> {
        // One byte behind the longest line tells that it ends there, and two that it ends with CR LF.
        let most = self.shape.line_max() + 2;
        if !self.skip_mark()? {
            return Ok(Step::Wait);
        }
        loop {
            let unread = &self.buffer[self.start..];
            if self.ended && unread.is_empty() && self.dropped.is_none() {
                return Ok(Step::End);
            }
            // No more than is needed, so that a record does not depend on how much was read at once.
            let seen = &unread[..unread.len().min(most)];
            let is_all = self.ended && seen.len() == unread.len();
            let taken = if self.dropped.is_none() { self.shape.take(seen, is_all, into) } else { None };
            if let Some(Taken { next, breaks, is_record }) = taken {
                (into.position, into.number) = (self.at, self.number + 1);
                self.number += 1 + breaks;
                self.consume(next);
                if is_record {
                    return Ok(Step::Record);
                }
                continue;
            }
            let is_long = self.dropped.is_some() || seen.len() == most || self.ended;
            if is_long && self.take_long(into) {
                return Ok(Step::Record);
            }
            if !self.fill()? {
                return Ok(Step::Wait);
            }
        }
    }
}

fn unreadable(errno: rustix::io::Errno) -> Error {
    Error::new(Kind::Listing, format!("the list cannot be read: {}", plain(errno))).errno(Some(errno.raw_os_error()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    /// All records of a text, read in chunks of several sizes, and each of them read again.
    pub fn records(text: &[u8], shape: Shape) -> Vec<Record> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let (opened, shape) = (Arc::new(read::open_path(file.path()).unwrap()), Arc::new(shape));
        let read = |chunk| {
            let mut reader = LineReader::new(opened.clone(), shape.clone());
            reader.chunk = chunk;
            let (mut all, mut record) = (Vec::new(), Record::default());
            while reader.next(&mut record).unwrap() == Step::Record {
                all.push(record.clone());
            }
            all
        };
        let all = read(1000);
        let chunks: &[usize] = if text.len() < 10_000 { &[1, 2, 7] } else { &[1 << 20] };
        chunks.iter().for_each(|&chunk| assert_eq!(read(chunk), all, "{chunk}"));
        for record in &all {
            let mut found = Record::default();
            find(&opened, record.position, &shape, &mut found).unwrap();
            assert_eq!(Record { number: record.number, ..found }, *record, "read again");
        }
        all
    }

    /// The number of its line, `!` if it is bad, its name and its URL.
    pub fn shown(text: &[u8], shape: Shape) -> Vec<String> {
        let name = |record: &Record| record.name.as_ref().map_or_else(String::new, |name| format!("{name}|"));
        let show = |record: &Record| {
            format!("{}:{}{}{}", record.number, if record.bad { "!" } else { "" }, name(record), record.url)
        };
        records(text, shape).iter().map(show).collect()
    }

    #[test]
    fn lines_are_urls_with_or_without_a_name() {
        let text = b"\xef\xbb\xbfhttp://h/1\r\n\n# comment\n  http://h/2\t\nmy name\thttp://h/3\n\t\thttp://h/4";
        let wanted = ["1:http://h/1", "4:http://h/2", "5:my name|http://h/3", "6:http://h/4"];
        assert_eq!(shown(text, Shape::Plain), wanted);
        assert_eq!(shown(b"http://h/x\thttp://h/1\n", Shape::Plain), ["1:http://h/x|http://h/1"]);
        assert!(shown(b"http://h/x\tname\n", Shape::Plain)[0].contains("NAME<TAB>URL"));
    }

    #[test]
    fn a_line_ends_with_lf_or_cr_or_both() {
        let wanted = ["1:a", "2:b", "3:c", "5:d", "6:e"];
        assert_eq!(shown(b"a\rb\r\nc\n\rd\r\ne\r", Shape::Plain), wanted);
        let json = |url: &str| format!("{{\"u\": \"{url}\"}}");
        let text = format!("{}\r{}\r\n{}\n\r{}\r\n{}\r", json("a"), json("b"), json("c"), json("d"), json("e"));
        assert_eq!(shown(text.as_bytes(), Shape::Json(Fields { url: "u".to_owned(), names: Vec::new() })), wanted);
    }

    #[test]
    fn names_are_kept_as_they_are() {
        let text = b"#1\thttp://h/1\n lead\t http://h/2 \ntrail \thttp://h/3\n#\tx\thttp://h/4\n#http://h/5\n#\tx\n";
        let wanted = ["1:#1|http://h/1", "2: lead|http://h/2", "3:trail |http://h/3", "4:#|x\thttp://h/4"];
        assert_eq!(shown(text, Shape::Plain), wanted);
        assert_eq!(
            shown(b"#\thttp://h/1\n#x\n\thttp://h/2\n", Shape::Items),
            ["1:#|http://h/1", "2:#x", "3:http://h/2"]
        );
    }

    #[test]
    fn hostile_lines_are_records_of_their_own() {
        let long = vec![b'x'; 3 << 20];
        let text = [b"http://h/1\n\xff\xfe\n", &long[..], b"\r\r\0\0\nhttp://h/2\n", &long].concat();
        let all = records(&text, Shape::Plain);
        let bad: Vec<_> = all.iter().map(|record| (record.number, record.bad)).collect();
        assert_eq!(bad, [(1, false), (2, true), (3, true), (5, false), (6, false), (7, true)]);
        assert!(all[2].url.contains("3145728 bytes"), "{}", all[2].url);
    }

    #[test]
    fn the_longest_line_is_read_and_one_byte_more_is_not() {
        for end in ["", "\n", "\r", "\r\n"] {
            let line = |length: usize| format!("{}\thttp://h/1{end}", "n".repeat(length - "\thttp://h/1".len()));
            let found = records([line(LINE_MAX), line(LINE_MAX + 1)].concat().as_bytes(), Shape::Plain);
            assert!(found.iter().all(|record| record.bad) && found.len() == if end.is_empty() { 1 } else { 2 });
            assert!(end.is_empty() || found[0].url.starts_with("it has more than"), "{}", found[0].url);
            assert!(found.last().unwrap().url.starts_with("the line has"), "{}", found.last().unwrap().url);
        }
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"http://h/1\nhttp://h/2\n").unwrap();
        let opened = Arc::new(read::open_path(file.path()).unwrap());
        let facts = read::facts(opened.as_fd()).unwrap();
        let all = |opened_as| {
            let mut reader = LineReader::new(opened.clone(), Arc::new(Shape::Plain));
            (reader.chunk, reader.opened) = (11, Some(opened_as));
            let mut record = Record::default();
            (0..3).map(|_| reader.next(&mut record).map_err(|error| error.kind())).collect::<Vec<_>>()
        };
        assert_eq!(all(facts), [Ok(Step::Record), Ok(Step::Record), Ok(Step::End)]);
        for other in [
            Facts { size: facts.size + 1, ..facts },
            Facts { written: facts.written + 1, ..facts },
            Facts { changed: facts.changed - 1, ..facts },
        ] {
            assert_eq!(all(other)[2], Err(Kind::Listing));
        }
        file.as_file().set_len(15).unwrap();
        assert_eq!(all(facts)[..2], [Ok(Step::Record), Err(Kind::Listing)], "a part of a URL is none");
    }
}
