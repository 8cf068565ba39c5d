//! One page of a listing: its names, what its fields say of the next page, and what looks as if there were one.
//!
//! Not here: what becomes of the names (`cut.rs`), where the listing continues (`next_page.rs`).

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_128;

use super::cut::Encoded;
use super::hints::Hints;
use super::json::{Nested, Text, Token};
use super::{ListFormat, ListGetOptions};
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// Names of one page among which duplicates are looked for. Beyond, as across pages, the destination finds them: a page
/// of 64 MiB may hold 20 million names.
const SEEN_MAX: usize = 65_536;

/// Bytes that are shown of a page which is none.
const BEGINNING_MAX: usize = 16;
/// Fields of a page that are named where the right one is not among them.
const SHOWN_MAX: usize = 12;
/// Some programs put it before a text (RFC 8259, 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What a page says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub names: Encoded,
    /// Elements of its outermost array: services count these. Each may have several names.
    pub entries: u64,
    /// What the field of the next page has.
    pub next: Option<String>,
    pub hints: Hints,
    pub left_out: LeftOut,
}

/// What the service says that its listing lacks. `shoal serve` does; no other is known to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct LeftOut {
    /// Files with names that no JSON text can hold.
    pub names: u64,
    /// Directories that could not be read.
    pub directories: u64,
}

/// Reads a page.
///
/// # Errors
/// [`Kind::Listing`] with what is wrong with it.
pub(super) fn parse(page: &[u8], options: &ListGetOptions) -> Result<Page> {
    let page = page.strip_prefix(BYTE_ORDER_MARK).unwrap_or(page);
    let mut found = Gathered::default();
    match options.list_format {
        ListFormat::Json => read_json(page, options, &mut found)?,
        ListFormat::Jsonl => {
            let path = match options.names_field == ListGetOptions::default().names_field {
                true => Vec::new(),
                false => Step::parse(options.names_field.strip_prefix("[].").unwrap_or(&options.names_field)),
            };
            found.arrays = 1; // of lines: fields in them are no fields of the page
            read_lines(page, |line| {
                let mut deserializer = serde_json::Deserializer::from_slice(line);
                Seek { path: &path, found: &mut found }.deserialize(&mut deserializer)?;
                deserializer.end()
            })?;
        }
        ListFormat::Lines => read_lines(page, |line| {
            let name = std::str::from_utf8(line).map_err(serde_json::Error::custom)?;
            found.push(name.as_bytes());
            Ok(())
        })?,
    }
    let next = found.next.into_iter().flatten().flatten().next();
    let entries = if options.list_format == ListFormat::Json { found.entries } else { found.names.count };
    Ok(Page { names: found.names, entries, next, hints: found.hints, left_out: found.left_out })
}

/// Reads one JSON value with all names.
fn read_json(json: &[u8], options: &ListGetOptions, found: &mut Gathered) -> Result<()> {
    let path = Step::path(&options.names_field);
    found.fields = options.next_fields().into_iter().map(str::to_owned).collect();
    found.next = vec![None; found.fields.len()];
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let read = Seek { path: &path, found }.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match read {
        Ok(()) if found.reached => Ok(()),
        Ok(()) => {
            let there = if found.there.is_empty() { "none".to_owned() } else { found.there.join(", ") };
            let why = format!("the page has no field \"{}\"; it has: {there}", options.names_field);
            Err(Error::new(Kind::Listing, why).hint(
                "name the field that has the names with `names_field`; for a list of objects, use \
                `names_field=\"data[].id\"`",
            ))
        }
        Err(e) => {
            let hint = match json.trim_ascii_start().first() {
                Some(b'[') => {
                    "use `names_field=\"[]\"` for an array of names, `names_field=\"[].id\"` for an array of objects"
                }
                Some(b'<') => {
                    "if the URL is a directory of a web server, use `index=True`; else set the path of the listing \
                    with `list_path`"
                }
                _ => {
                    "is this the listing? set its path with `list_path`; for a list of objects, set the field with \
                    `names_field=\"data[].id\"`; for a list of lines, use `list_format=\"lines\"` or `\"jsonl\"`"
                }
            };
            let why = format!("the page is not a JSON object of names: {e}; it begins \"{}\"", beginning(json));
            Err(Error::new(Kind::Listing, why).hint(hint))
        }
    }
}

/// Reads each line that is not empty.
fn read_lines(page: &[u8], mut read: impl FnMut(&[u8]) -> serde_json::Result<()>) -> Result<()> {
    for (number, line) in page.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            read(line).map_err(|error| {
                let why = format!("line {} of the page has no name: {error}", number + 1);
                Error::new(Kind::Listing, why).hint("set the field that has the name with `names_field`")
            })?;
        }
    }
    Ok(())
}

/// What shows whether it is HTML, JSON or words, and no more: a page can have markers in it, and what was sent.
fn beginning(page: &[u8]) -> String {
    let most = if page.starts_with(b"{") || page.starts_with(b"[") { 1 } else { BEGINNING_MAX };
    let shows = |byte: &&u8| byte.is_ascii_alphabetic() || b"<!{[".contains(byte);
    page.iter().take(most).take_while(shows).map(|&byte| char::from(byte)).collect()
}

/// A part of the way from a page to its names.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The value of this field of an object.
    Field(String),
    /// Each element of an array.
    Each,
}

impl Step {
    /// The way that a `names_field` describes: `FileNames[]`, `data[].id`, `result.files[].path.name`. Of pages that are
    /// arrays: `[]`, `[].id`.
    fn parse(text: &str) -> Vec<Step> {
        let mut path = Vec::new();
        for mut part in text.split('.') {
            let mut arrays = 0;
            while let Some(of) = part.strip_suffix("[]") {
                (part, arrays) = (of, arrays + 1);
            }
            if !part.is_empty() || arrays == 0 || !path.is_empty() {
                path.push(Step::Field(part.to_owned()));
            }
            path.extend((0..arrays).map(|_| Step::Each));
        }
        path
    }

    /// The same, to an array in any case: `FileNames` is `FileNames[]`.
    fn path(text: &str) -> Vec<Step> {
        let mut path = Step::parse(text);
        if !path.contains(&Step::Each) {
            path.push(Step::Each);
        }
        path
    }
}

/// What is left of a path below this one: nothing where it ends here. A field's own name may have dots.
fn below<'p>(path: &'p str, field: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(field)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
}

/// What is gathered of a page.
#[derive(Default)]
struct Gathered {
    names: Encoded,
    hashes: HashSet<u128, BuildHasherDefault<AlreadyHashed>>,
    /// An array was there, or a name.
    reached: bool,
    entries: u64,
    /// Arrays that are being read: fields of what is in one are no fields of the page.
    arrays: usize,
    /// The fields of the page that are being read, each with a dot.
    within: String,
    /// Names of the fields of the page, the first few.
    there: Vec<String>,
    /// Where the next page may stand, and what does. The first that is there counts, wherever it stands in the page.
    fields: Vec<String>,
    next: Vec<Option<Option<String>>>,
    hints: Hints,
    left_out: LeftOut,
}

impl Gathered {
    fn push(&mut self, name: &[u8]) {
        let hash = xxh3_128(name);
        let duplicate =
            if self.hashes.len() < SEEN_MAX { !self.hashes.insert(hash) } else { self.hashes.contains(&hash) };
        self.names.push(name, duplicate);
        self.names.sum = self.names.sum.wrapping_add(hash);
    }

    /// Reads a field that is not on the way to the names.
    fn beside(&mut self, field: &str, value: &RawValue) -> serde_json::Result<()> {
        let path = format!("{}{field}", self.within);
        if field == "LeftOut" && self.within.is_empty() && value.get().starts_with('{') {
            self.left_out = serde_json::from_str(value.get())?;
        } else if !self.says_next(&path, value)? {
            self.hints.field(&path, field, value.get());
        }
        Ok(())
    }

    /// Reads what a field says of the next page. Whether it is one that should.
    fn says_next(&mut self, path: &str, value: &RawValue) -> serde_json::Result<bool> {
        let mut says = false;
        for rank in 0..self.fields.len() {
            match below(&self.fields[rank], path) {
                Some("") => {
                    says = true;
                    let token = serde_json::from_str::<Token>(value.get())?.0;
                    if self.next[rank].replace(token).is_some() {
                        return Err(serde_json::Error::custom(format_args!("the field {path:?} occurs twice")));
                    }
                }
                Some(_) if value.get().starts_with('{') => {
                    for (field, value) in serde_json::from_str::<Nested<'_>>(value.get())?.0 {
                        says |= self.says_next(&format!("{path}.{field}"), value)?;
                    }
                    break; // all of them were looked for
                }
                _ => {}
            }
        }
        Ok(says)
    }
}

/// Goes the way that is left, and gathers what is at its end.
struct Seek<'p, 'n> {
    path: &'p [Step],
    found: &'n mut Gathered,
}

impl<'de> DeserializeSeed<'de> for Seek<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.path.first() {
            Some(Step::Each) => deserializer.deserialize_seq(self),
            Some(Step::Field(_)) => deserializer.deserialize_map(self),
            None => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Seek<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.first() {
            Some(Step::Each) => f.write_str("an array of names"),
            Some(Step::Field(name)) => write!(f, "an object with the field {name:?}"),
            None => f.write_str("a name: a string or a whole number"),
        }
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        self.found.push(name.as_bytes());
        Ok(())
    }

    fn visit_u64<E>(self, name: u64) -> Result<(), E> {
        self.found.push(name.to_string().as_bytes());
        Ok(())
    }

    fn visit_i64<E>(self, name: i64) -> Result<(), E> {
        self.found.push(name.to_string().as_bytes());
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut array: S) -> Result<(), S::Error> {
        let Some((Step::Each, rest)) = self.path.split_first() else {
            return Err(S::Error::custom("a name cannot be an array: for nested arrays use 'data[][]'"));
        };
        self.found.reached = true;
        self.found.arrays += 1;
        while array.next_element_seed(Seek { path: rest, found: &mut *self.found })?.is_some() {
            self.found.entries += u64::from(self.found.arrays == 1);
        }
        self.found.arrays -= 1;
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let Some((Step::Field(wanted), rest)) = self.path.split_first() else {
            return Err(M::Error::custom("a name cannot be an object: name its field, as in 'data[].id'"));
        };
        let is_page = self.found.arrays == 0;
        let (mut there, mut fields) = (false, Vec::new());
        while let Some(Text(field)) = map.next_key::<Text<'de>>()? {
            if fields.len() < SHOWN_MAX && !there {
                fields.push(format!("\"{}\"", escape(field.as_bytes())));
            }
            if *field != **wanted {
                match is_page {
                    true => self.found.beside(&field, map.next_value()?).map_err(M::Error::custom)?,
                    false => drop(map.next_value::<IgnoredAny>()?),
                }
            } else if std::mem::replace(&mut there, true) {
                return Err(M::Error::custom(format_args!("the field {wanted:?} occurs twice")));
            } else {
                let length = self.found.within.len();
                if is_page {
                    self.found.within.push_str(&format!("{field}."));
                }
                map.next_value_seed(Seek { path: rest, found: &mut *self.found })?;
                self.found.within.truncate(length);
            }
        }
        match there {
            true => Ok(()),
            false if is_page && self.found.within.is_empty() => {
                self.found.there = fields;
                Ok(())
            }
            false => Err(M::Error::custom(format_args!(
                "an object has no field {wanted:?}; it has: {}",
                if fields.is_empty() { "none".to_owned() } else { fields.join(", ") }
            ))),
        }
    }
}

/// The hasher of a set of hashes.
#[derive(Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| hash.rotate_left(8) ^ u64::from(byte));
    }
    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::cut::{LocalName, Names};
    use super::*;
    use crate::source::Entries;

    fn page(json: &str) -> Result<(Vec<String>, Option<String>), Kind> {
        let page = parse(json.as_bytes(), &ListGetOptions::default()).map_err(|e| e.kind())?;
        let names = Names::new(&page.names.bytes.into(), &LocalName::default()).unwrap();
        let text = |index| String::from_utf8(names.get(index).name.to_vec()).unwrap();
        Ok(((0..names.len()).map(text).collect(), page.next))
    }

    #[test]
    fn pages_are_read_in_every_form_a_service_sends() {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            page(r#"{"FileNames":["a","b\u0000c"],"NextMarker":"t"}"#),
            Ok((names(&["a", "b\0c"]), Some("t".into())))
        );
        assert_eq!(page(r#"{"NextFile":"f","x":[{}],"FileNames":[]}"#), Ok((vec![], Some("f".into()))));
        assert_eq!(page(r#"{"FileNames":["a"],"NextMarker":""}"#), Ok((names(&["a"]), None)));
        assert_eq!(
            page(r#"{"FileNames":["a"],"NextMarker":null,"NextFile":7}"#),
            Ok((names(&["a"]), Some("7".into())))
        );
        assert_eq!(
            page(r#"{"NextFile":"later","NextMarker":"first","FileNames":[]}"#),
            Ok((vec![], Some("first".into())))
        );
    }

    #[test]
    fn what_is_no_page_is_an_error_of_the_listing() {
        for json in [
            "",
            "[]",
            "<html>",
            "{\"Names\":[]}",
            "{\"FileNames\":[1.5]}",
            "{\"FileNames\":[null]}",
            "{\"FileNames\":[{\"id\":1}]}",
            "{\"FileNames\":[\"a\"],\"FileNames\":[\"b\"]}",
            "{\"NextMarker\":1,\"NextMarker\":null,\"FileNames\":[]}",
            "{\"NextMarker\":true,\"FileNames\":[]}",
            "{\"NextMarker\":[0],\"FileNames\":[]}",
            "{\"FileNames\":{}}",
            "{\"FileNames\":null}",
            "{\"FileNames\":[]} x",
            "{\"FileNames\":[\"a\"",
        ] {
            assert_eq!(page(json), Err(Kind::Listing), "{json}");
        }
    }

    #[test]
    fn of_what_is_no_page_no_more_is_shown_than_what_it_may_be() {
        for (page, shown) in [
            ("<!DOCTYPE html><p>/list?key=secret", "<!DOCTYPE"),
            ("{\"NextMarker\":\"secret", "{"),
            ("[secret", "["),
            ("Unauthorized: secret", "Unauthorized"),
            ("\u{1f}\u{8b}", ""),
        ] {
            let error = parse(page.as_bytes(), &ListGetOptions::default()).unwrap_err();
            assert!(error.why().ends_with(&format!("it begins \"{shown}\"")), "{}", error.why());
        }
    }
}
