//! Rows of CSV and TSV: where a row ends and what its cells are, found in one pass.
//!
//! A quote is one only at the begin of a cell, and the cell then ends at the next single quote. Many lists have quotes that
//! mean nothing, and one of these must not hide the lines behind it: so a row fails by its first line alone, and the next line
//! is read on its own, if its quotes cannot be right.

use std::borrow::Cow;

use super::fields::Fields;
use super::reader::{LONG_LINE_MAX, Taken, is_url, line_end};
use super::record::Record;
use crate::error::Result;

pub(super) const NOT_CLOSED: &str = "a quote in this line is not closed";

/// How rows are read.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    delimiter: u8,
    columns: usize,
    url: usize,
    names: Vec<usize>,
}

/// A cell as it is written, without the quotes around it.
#[derive(Clone, Copy, Default)]
struct Cell<'a> {
    text: &'a [u8],
    is_quoted: bool,
}

impl<'a> Cell<'a> {
    fn decoded(self) -> Cow<'a, [u8]> {
        if !self.is_quoted || memchr::memchr(b'"', self.text).is_none() {
            return Cow::Borrowed(self.text);
        }
        let mut after_quote = false;
        let keep = |byte: &&u8| {
            after_quote = **byte == b'"' && !after_quote;
            **byte != b'"' || after_quote
        };
        Cow::Owned(self.text.iter().filter(keep).copied().collect())
    }
}

/// A row that has been found: where it ends, where the next one begins, and how many line breaks are in its cells.
struct Row {
    end: usize,
    next: usize,
    breaks: u64,
}

impl Rows {
    /// Rows below a row with these names of columns.
    ///
    /// # Errors
    /// [`crate::Kind::Config`] if a field is not among them, or twice.
    pub fn below(names: &[&str], delimiter: u8, fields: &Fields) -> Result<Rows> {
        let (url, places) = fields.places(names)?;
        Ok(Rows { delimiter, columns: names.len(), url, names: places })
    }

    /// Reads the row at the begin of `bytes`; none if it may go on behind them. `is_all`: there are no more.
    pub fn take(&self, bytes: &[u8], is_all: bool, into: &mut Record) -> Option<Taken> {
        let (mut url, mut count, mut is_blank) = (None, 0, false);
        let mut names = vec![None; self.names.len()];
        let found = self.cells(bytes, is_all, |cell| {
            if count == self.url {
                url = Some(cell);
            }
            if let Some(at) = self.names.iter().position(|name| *name == count) {
                names[at] = Some(cell);
            }
            is_blank = count == 0 && !cell.is_quoted && cell.text.trim_ascii().is_empty();
            count += 1;
            count <= self.columns || cell.text.is_empty()
        })?;
        let Row { end, next, breaks } = match found {
            Ok(row) => row,
            Err(why) => {
                let (end, next) = line_end(bytes, is_all)?;
                into.set_bad(why);
                return (end <= LONG_LINE_MAX).then_some(Taken { next, breaks: 0, is_record: true });
            }
        };
        if end > LONG_LINE_MAX {
            return None;
        }
        match url.zip(names.into_iter().collect::<Option<Vec<Cell<'_>>>>()) {
            None => into.set_bad("the row has too few columns"),
            Some((url, names)) => {
                let (url, names) = (url.decoded(), names.into_iter().map(Cell::decoded).collect::<Vec<_>>());
                let texts = names.iter().map(|name| str::from_utf8(name).map(Some));
                match (str::from_utf8(&url), texts.collect::<std::result::Result<Vec<_>, _>>()) {
                    (Ok(url), Ok(names)) => into.set_fields(names.into_iter(), url),
                    _ => into.set_bad("the row is not UTF-8"),
                }
            }
        }
        Some(Taken { next, breaks, is_record: !is_blank })
    }

    /// Passes on the cells of a row; the error says why it is none. `each` says whether a cell may be there.
    fn cells<'a>(
        &self,
        bytes: &'a [u8],
        is_all: bool,
        mut each: impl FnMut(Cell<'a>) -> bool,
    ) -> Option<std::result::Result<Row, &'static str>> {
        // The cell, the line, and the part of it that is in a quoted cell of an earlier line.
        let (mut at, mut line, mut quoted_to, mut breaks) = (0_usize, 0, 0_usize, 0);
        loop {
            let (cell, end) = if bytes.get(at) == Some(&b'"') {
                let close = closing_quote(bytes, at);
                // A quote at the end of the bytes may be the first of two.
                let is_closed = close.is_some_and(|close| close + 1 < bytes.len() || is_all);
                let inner_end = close.unwrap_or(bytes.len());
                let mut inner = at + 1;
                while let Some((end, next)) = line_end(&bytes[inner..inner_end], is_closed || is_all) {
                    let (end, next) = (inner + end, inner + next);
                    if next == inner_end && end == next {
                        break; // not a line break, but the end
                    }
                    if self.hides_url(&bytes[line..end], quoted_to.saturating_sub(line), at.saturating_sub(line)) {
                        return Some(Err(NOT_CLOSED));
                    }
                    (line, quoted_to, inner) = (next, inner_end, next);
                    breaks += 1;
                }
                match close {
                    Some(close) if is_closed => (Cell { text: &bytes[at + 1..close], is_quoted: true }, close + 1),
                    _ if is_all => return Some(Err(NOT_CLOSED)),
                    _ => return None,
                }
            } else {
                let end = memchr::memchr3(self.delimiter, b'\n', b'\r', &bytes[at..]).map(|end| at + end);
                let end = end.or_else(|| is_all.then_some(bytes.len()))?;
                (Cell { text: &bytes[at..end], is_quoted: false }, end)
            };
            let ends = bytes.get(end).is_none_or(|&byte| byte == b'\n' || byte == b'\r');
            if !ends && bytes[end] != self.delimiter {
                return Some(Err("there is text after a closing quote"));
            }
            if !each(cell) {
                return Some(Err("the row has more cells than there are columns"));
            }
            if ends {
                let next = line_end(&bytes[end..], is_all)?.1 + end;
                let hides = breaks > 0 && self.hides_url(&bytes[line..end], quoted_to - line, usize::MAX);
                return Some(if hides { Err(NOT_CLOSED) } else { Ok(Row { end, next, breaks }) });
            }
            at = end + 1;
        }
    }

    /// Whether a line of a row with line breaks would be a row by itself, with its URL in a quoted cell: before `quoted_to`
    /// or from `quoted_from` on. Its own quotes may be right, or mean nothing.
    fn hides_url(&self, line: &[u8], quoted_to: usize, quoted_from: usize) -> bool {
        [true, false].into_iter().any(|quotes_count| {
            let (mut at, mut count, mut is_hidden) = (0, 0, false);
            while at <= line.len() {
                let close = if quotes_count { closing_quote(line, at) } else { None };
                let close = close.filter(|close| line.get(close + 1).is_none_or(|&byte| byte == self.delimiter));
                let rest = memchr::memchr(self.delimiter, &line[at..]).map_or(line.len(), |end| at + end);
                let end = close.map_or(rest, |close| close + 1);
                if count == self.url {
                    let text = line[at..end].strip_prefix(b"\"").unwrap_or(&line[at..end]);
                    is_hidden = (at < quoted_to || at >= quoted_from) && is_url(text.trim_ascii_start());
                }
                (at, count) = (end + 1, count + 1);
            }
            is_hidden && count >= self.columns
        })
    }
}

/// The names of columns in the row at the begin of `bytes`, and what `Rows::take` returns.
pub(super) fn names(
    bytes: &[u8],
    is_all: bool,
    delimiter: u8,
) -> Option<std::result::Result<(Vec<String>, Taken), &'static str>> {
    let mut names = Vec::new();
    let rows = Rows { delimiter, columns: usize::MAX, url: usize::MAX, names: Vec::new() };
    let found = rows.cells(bytes, is_all, |cell| {
        names.push(String::from_utf8_lossy(&cell.decoded()).trim().to_owned());
        true
    })?;
    Some(found.map(|row| (names, Taken { next: row.next, breaks: row.breaks, is_record: true })))
}

/// The quote that closes the cell at `at`; none if it does not begin with one, or if that is behind the bytes.
fn closing_quote(bytes: &[u8], at: usize) -> Option<usize> {
    let mut from = at + usize::from(bytes.get(at) == Some(&b'"'));
    while from > at {
        let close = from + memchr::memchr(b'"', bytes.get(from..)?)?;
        if bytes.get(close + 1) != Some(&b'"') {
            return Some(close);
        }
        from = close + 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::reader::Shape;
    use super::super::reader::tests::{records, shown};
    use super::*;

    fn rows(columns: &str, delimiter: char) -> Shape {
        let names: Vec<&str> = columns.split(delimiter).collect();
        let fields = Fields {
            url: "url".to_owned(),
            names: names.contains(&"name").then(|| "name".to_owned()).into_iter().collect(),
        };
        Shape::Rows(Rows::below(&names, delimiter as u8, &fields).unwrap())
    }

    fn read(columns: &str, text: &str) -> Vec<String> {
        shown(text.as_bytes(), rows(columns, ','))
    }

    #[test]
    fn cells_may_be_in_quotes() {
        assert_eq!(read("id,url,name", "7,http://h/a,b.jpg\r"), ["1:b.jpg|http://h/a"]);
        let text = "\"a \"\"b\"\"\nc\",\"http://h/a,\"\"b\",\"x,y\"\n\n \n7, http://h/b ,\n\"\",\"http://h/c\",\"\"";
        assert_eq!(read("id,url,name", text), ["1:x,y|http://h/a,\"b", "5:http://h/b", "6:http://h/c"]);
        assert_eq!(shown(b"http://h/a\t\"x\ty\"\n", rows("url\tx", '\t')), ["1:http://h/a"]);
        assert_eq!(read("url", "\"\"\"\"\"\"\nx\"\"\n"), ["1:\"\"", "2:x\"\""]);
    }

    #[test]
    fn a_quote_in_a_cell_that_does_not_begin_with_one_is_text() {
        assert_eq!(read("x,url", "3\" pipe,u1\na \"b\" c,u2\n ,u3\n6\",u4\n"), ["1:u1", "2:u2", "3:u3", "4:u4"]);
    }

    #[test]
    fn text_behind_a_closing_quote_fails_its_line_alone() {
        let why = "!there is text after a closing quote";
        assert_eq!(read("x,url", "\"Go\" he,u1\na,u2\n"), [&format!("1:{why}"), "2:u2"]);
        assert_eq!(
            read("x,url", "\"5\\\" disk\",u1\n\"b\" ,u2\n\"a\n\"b,u4\n")[..2],
            [format!("1:{why}"), format!("2:{why}")]
        );
        assert_eq!(read("x,url", "\"a\nb\"c,u\nd,u3"), [&format!("1:{why}"), "2:u", "3:u3"]);
    }

    #[test]
    fn a_quote_that_is_not_closed_hides_no_other_line() {
        let read = |columns: &str, text: &str| {
            let found = read(columns, text);
            let end = |record: &str| record.find('!').map_or(record.len(), |bad| bad + 1);
            found.iter().map(|record| record[..end(record)].to_owned()).collect::<Vec<_>>()
        };
        let (u1, u2) = ("http://h/1", "HTTPS://h/2");
        // To the end; to a quote that begins, ends or is in a later line.
        for (later, name) in [("c", "c|"), ("\"c", "!"), ("c\"", "c\"|"), ("\"\"", "")] {
            let last = |line: u64| if name == "!" { format!("{line}:!") } else { format!("{line}:{name}{u2}") };
            let found = read("url,name", &format!("{u1},\"a\nx,y\n{u2},{later}\nz,"));
            assert_eq!(found, ["1:!", "2:y|x", &last(3), "4:z"], "{later}");
            let found = read("name,url", &format!("\"a,{u1}\n{later},{u2}\n,z"));
            assert_eq!(found, ["1:!", &last(2), "3:z"], "{later}");
        }
        let found = read("x,url,y", &format!("a,{u1},\"b\nc\",{u2},d\n"));
        assert_eq!(found, ["1:!", &format!("2:{u2}")]);
    }

    #[test]
    fn a_description_may_have_lines_and_urls() {
        let text = "\"a\r\nsee http://h/0, or\nhttp://h/0\n\",http://h/1\n";
        assert_eq!(read("x,url", text), ["1:http://h/1"]);
        assert_eq!(read("url,x", "http://h/1,\"a\n\rhttp://h/0\r\"\nu"), ["1:http://h/1", "5:u"]);
    }

    #[test]
    fn cells_may_be_missing_or_empty_but_not_too_many() {
        let few = "!the row has too few columns";
        assert_eq!(read("url,x,y", "u1\nu2,\n,,\n"), ["1:u1", "2:u2", "3:"]);
        assert_eq!(read("x,url,name", "a\na,b\na,u,\n"), [&format!("1:{few}"), &format!("2:{few}"), "3:u"]);
        let many = read("x,url", &format!("a,u1,,\"\"\na,u2,b\na,u3{}", ",".repeat(100_000)));
        assert_eq!(many, ["1:u1", "2:!the row has more cells than there are columns", "3:u3"]);
        assert_eq!(shown(b"\t\t\n \n\tu\n", rows("x\turl", '\t')), ["1:", "3:u"]);
    }

    #[test]
    fn only_what_is_used_must_be_utf8() {
        let found = shown(b"\xff,u1\na,\xff\n", rows("x,url", ','));
        assert_eq!(found, ["1:u1", "2:!the row is not UTF-8"]);
    }

    #[test]
    fn a_row_that_is_too_long_or_has_too_many_lines_fails_by_its_first() {
        let long = "x".repeat(LONG_LINE_MAX - 4);
        let found = shown(format!("{long},u1\nxx{long},u2\na,u3\n\"\n{long},").as_bytes(), rows("x,url", ','));
        assert_eq!(found[0], "1:u1");
        assert!(found[1].starts_with("2:!the line has 4194305 bytes"), "{}", found[1]);
        assert_eq!(found[2..4], ["3:u3".to_owned(), format!("4:!{NOT_CLOSED}")]);
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn no_line_is_lost_whatever_its_quotes() {
        const CELLS: &[&str] = &[
            "a",
            "\"b",
            "c\"",
            "\"d\"",
            "e\"f",
            "\"\"",
            "\"",
            "\"\"\"",
            "g\"\"h",
            "\"i\"\"j\"",
            "",
            "\"k\"l",
            "\"m,n\"",
            " \"",
        ];
        let mut chance = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let (columns, lines, odd) = (chance.usize(1..4), chance.usize(1..12), chance.usize(1..CELLS.len()));
            let url = chance.usize(..columns);
            let mut text = String::new();
            for line in 1..=lines {
                let cell =
                    |at| if at == url { format!("http://h/{line}") } else { CELLS[chance.usize(..=odd)].to_owned() };
                text += &(0..columns).map(cell).collect::<Vec<_>>().join(",");
                text += ["\n", "\r\n", "\r"][chance.usize(..3)];
            }
            let found =
                records(text.as_bytes(), Shape::Rows(Rows { delimiter: b',', columns, url, names: Vec::new() }));
            let numbers: Vec<u64> = found.iter().map(|record| record.number).collect();
            assert_eq!(numbers, (1..=lines as u64).collect::<Vec<_>>(), "{text}");
            for record in found {
                assert!(record.bad || record.url == format!("http://h/{}", record.number), "{text}\n{record:?}");
            }
        }
    }

    #[test]
    fn the_names_of_columns_may_be_in_quotes_and_have_lines() {
        let (found, taken) = names(b"\"a\r\nb\", url ,\"\"\rx", false, b',').unwrap().unwrap();
        assert_eq!(
            (found, taken.next, taken.breaks),
            (vec!["a\r\nb".to_owned(), "url".to_owned(), String::new()], 16, 1)
        );
        assert!(names(b"\"a\n", false, b',').is_none() && names(b"\"a\n", true, b',').unwrap().is_err());
    }
}
