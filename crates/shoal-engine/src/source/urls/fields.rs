//! Lists with named fields: CSV, and JSON lines. A record is a row or a line; other fields are ignored.
//!
//! Not here: plain lists and reading of lines (`lines.rs`), Parquet (a crate of its own).

use std::borrow::Cow;
use std::sync::Arc;

use csv_core::{ReadRecordResult, ReaderBuilder};

use super::lines::Shape;
use super::record::Record;
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// Longest row or line: they may have descriptions and vectors beside the URL.
const LINE_MAX: usize = 4 << 20;
/// Most columns of a row.
const COLUMNS_MAX: usize = 4096;

/// The fields that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The one with the URL.
    pub url: String,
    /// The one with the name of the object.
    pub name: Option<String>,
}

impl Fields {
    /// The error for a list that does not have a field.
    ///
    /// `found`: those that it has.
    pub fn missing(&self, field: &str, found: &[&str]) -> Error {
        let option = if field == self.url { "url_field" } else { "name_field" };
        let found: Vec<String> = found.iter().take(20).map(|name| format!("\"{}\"", escape(name.as_bytes()))).collect();
        Error::new(Kind::Config, format!("the list has no field \"{}\" (`{option}`)", escape(field.as_bytes())))
            .hint(format!("it has {}", found.join(", ")))
    }

    /// Where the fields are among `columns`.
    ///
    /// # Errors
    /// [`Kind::Config`] if one is missing.
    pub fn places(&self, columns: &[&str]) -> Result<(usize, Option<usize>)> {
        let place = |field: &str| {
            columns.iter().position(|column| *column == field).ok_or_else(|| self.missing(field, columns))
        };
        Ok((place(&self.url)?, self.name.as_deref().map(place).transpose()?))
    }
}

/// How rows are read that are separated by `delimiter`.
pub(super) fn csv(delimiter: u8, (url, name): (usize, Option<usize>)) -> Shape {
    let parse = move |line: &[u8], into: &mut Record| {
        if line.trim_ascii().is_empty() {
            return false;
        }
        match split(line, delimiter) {
            None => into.set_bad(&format!("the row has more than {COLUMNS_MAX} columns")),
            Some(cells) => {
                let cell = |at: usize| cells.get(at).map(|cell| std::str::from_utf8(cell));
                match (cell(url), name.map(cell)) {
                    (None, _) | (_, Some(None)) => into.set_bad("the row has too few columns"),
                    (Some(Err(_)), _) | (_, Some(Some(Err(_)))) => into.set_bad("the row is not UTF-8"),
                    (Some(Ok(url)), name) => {
                        let name = name.flatten().and_then(std::result::Result::ok).filter(|name| !name.is_empty());
                        into.set(name, url.trim());
                    }
                }
            }
        }
        true
    };
    Shape { line_max: LINE_MAX, quoted: true, parse: Arc::new(parse) }
}

/// How the row with the names of the columns is read: as a record that has it.
pub(super) fn header() -> Shape {
    let parse = |line: &[u8], into: &mut Record| {
        into.url = String::from_utf8_lossy(line).into_owned();
        true
    };
    Shape { line_max: LINE_MAX, quoted: true, parse: Arc::new(parse) }
}

/// The cells of a row; `None` if there are too many.
pub(super) fn split(line: &[u8], delimiter: u8) -> Option<Vec<Vec<u8>>> {
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (mut output, mut ends) = (vec![0; line.len() + 1], vec![0; 64]);
    let (mut input, mut written, mut ended) = (line, 0, 0);
    loop {
        let (result, read, wrote, found) = reader.read_record(input, &mut output[written..], &mut ends[ended..]);
        (input, written, ended) = (&input[read..], written + wrote, ended + found);
        match result {
            ReadRecordResult::InputEmpty => {} // an empty input says that this was all
            ReadRecordResult::OutputFull => output.resize(2 * output.len(), 0),
            ReadRecordResult::OutputEndsFull if ends.len() >= COLUMNS_MAX => return None,
            ReadRecordResult::OutputEndsFull => ends.resize(2 * ends.len(), 0),
            ReadRecordResult::Record | ReadRecordResult::End => break,
        }
    }
    let mut start = 0;
    let cells = ends[..ended].iter().map(|&end| output[std::mem::replace(&mut start, end)..end].to_vec());
    Some(cells.collect())
}

/// How lines are read that are JSON objects.
pub(super) fn json(fields: Fields) -> Shape {
    let parse = move |line: &[u8], into: &mut Record| {
        if line.trim_ascii().is_empty() {
            return false;
        }
        let object: serde_json::Map<String, serde_json::Value> = match serde_json::from_slice(line) {
            Ok(object) => object,
            Err(error) => {
                // Not its text: it may show what is in the line.
                into.set_bad(&format!("the line is not a JSON object (column {})", error.column()));
                return true;
            }
        };
        let text = |field: &str| match object.get(field) {
            Some(serde_json::Value::String(text)) => Some(Cow::Borrowed(text.as_str())),
            Some(serde_json::Value::Number(number)) => Some(Cow::Owned(number.to_string())),
            _ => None,
        };
        match text(&fields.url) {
            None => into.set_bad(&format!("it has no text in its field \"{}\"", escape(fields.url.as_bytes()))),
            Some(url) => {
                let name = fields.name.as_deref().and_then(text);
                into.set(name.as_deref().filter(|name| !name.is_empty()), url.trim());
            }
        }
        true
    };
    Shape { line_max: LINE_MAX, quoted: false, parse: Arc::new(parse) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(shape: &Shape, line: &str) -> String {
        let mut record = Record::default();
        match (shape.parse)(line.as_bytes(), &mut record) {
            false => "nothing".to_owned(),
            true if record.bad => format!("bad: {}", record.url),
            true => format!("{:?} {}", record.name, record.url),
        }
    }

    #[test]
    fn rows_have_cells_in_quotes_or_not() {
        let shape = csv(b',', (1, Some(2)));
        assert_eq!(read(&shape, "7,http://h/a,b.jpg\r"), "Some(\"b.jpg\") http://h/a");
        assert_eq!(read(&shape, "\"a \"\"b\"\"\nc\",\"http://h/a,b\",\"x,y\""), "Some(\"x,y\") http://h/a,b");
        assert_eq!(read(&shape, "7, http://h/a ,"), "None http://h/a");
        assert_eq!(read(&shape, "7"), "bad: the row has too few columns");
        assert_eq!(read(&shape, " "), "nothing");
        let wide = vec!["http://h/x"; 100].join(",");
        assert_eq!(read(&shape, &wide), "Some(\"http://h/x\") http://h/x");
        assert!(read(&shape, &"x,".repeat(10_000)).contains("more than 4096 columns"));
        assert_eq!(read(&csv(b'\t', (0, None)), "http://h/a\tb"), "None http://h/a");
    }

    #[test]
    fn lines_are_objects_with_other_fields() {
        let shape = json(Fields { url: "u".to_owned(), name: Some("id".to_owned()) });
        assert_eq!(read(&shape, r#"{"x": [1, {}], "u": "http://h/\u0061", "id": 17}"#), "Some(\"17\") http://h/a");
        assert_eq!(read(&shape, r#"{"u": "http://h/a"}"#), "None http://h/a");
        assert!(read(&shape, r#"{"u": null}"#).contains("no text in its field"));
        for line in ["[]", "{", "hunter2", r#"{"u": "hunter2"#, r#"{"u": "x"} hunter2"#] {
            let bad = read(&shape, line);
            assert!(bad.starts_with("bad: the line is not a JSON object") && !bad.contains("hunter2"), "{bad}");
        }
    }

    #[test]
    fn a_missing_field_is_named_with_those_that_there_are() {
        let fields = Fields { url: "url".to_owned(), name: Some("file".to_owned()) };
        assert_eq!(fields.places(&["id", "file", "url"]).unwrap(), (2, Some(1)));
        let error = fields.places(&["id", "url"]).unwrap_err().to_string();
        assert!(error.contains("\"file\"") && error.contains("`name_field`") && error.contains("\"id\""), "{error}");
    }
}
