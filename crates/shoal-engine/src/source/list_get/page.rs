//! One page of a listing, read from JSON: its names, the token of the next page, and what looks like one.
//!
//! Not here: what becomes of the names (`cut.rs`), which field is such a place (`place.rs`).

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_128;

use super::ListGetOptions;
use super::cut::Encoded;
use super::place::{DEPTH_MAX, Text, Token, goes_on};
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// Names of one page among which duplicates are looked for. Beyond, as across pages, the destination finds them: a page
/// of 64 MiB may hold 20 million names.
const SEEN_MAX: usize = 65_536;

/// Bytes that are shown of a page which is none.
const BEGINNING_MAX: usize = 16;
/// Fields of a page that are named where the right one is not among them.
const SHOWN_MAX: usize = 12;
/// What a page says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub names: Encoded,
    pub next: Option<String>,
    /// A field that nothing is known of and that looks as if the listing went on, and its value if that can be a token.
    pub more: Option<(String, Option<String>)>,
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
pub(super) fn parse(json: &[u8], options: &ListGetOptions) -> Result<Page> {
    let path = Step::path(&options.names_field);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let found = match path.first() {
        Some(Step::Each) => array(&mut deserializer, &path),
        _ => deserializer.deserialize_map(Fields { options, path: &path }),
    };
    let found = found.and_then(|found| deserializer.end().map(|()| found));
    match found {
        Ok(Found { names: Some(names), next, more, left_out, .. }) => Ok(Page { names, next, more, left_out }),
        Ok(Found { names: None, there, .. }) => {
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
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
                _ => {
                    "is this the listing? set its path with `list_path`; for a list of objects, set the field with \
                    `names_field=\"data[].id\"`"
                }
            };
            let why = format!("the page is not a JSON object of names: {e}; it begins \"{}\"", beginning(json));
            Err(Error::new(Kind::Listing, why).hint(hint))
        }
    }
}

/// What shows whether it is HTML, JSON or words, and no more: a page can have markers in it, and what was sent.
fn beginning(page: &[u8]) -> String {
    let most = if page.starts_with(b"{") || page.starts_with(b"[") { 1 } else { BEGINNING_MAX };
    let shows = |byte: &&u8| byte.is_ascii_alphabetic() || b"<!{[".contains(byte);
    page.iter().take(most).take_while(shows).map(|&byte| char::from(byte)).collect()
}

/// Reads a page that is an array, and so has no field for a next one.
fn array<'de>(page: impl Deserializer<'de, Error = serde_json::Error>, path: &[Step]) -> serde_json::Result<Found> {
    let mut names = Gathered::default();
    Seek { path, names: &mut names }.deserialize(page)?;
    Ok(Found { names: Some(names.names), ..Found::default() })
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
    /// The way that a `names_field` describes: `FileNames` and `FileNames[]`, `data[].id`, `result.files[].path.name`. Of
    /// pages that are arrays: `[]`, `[].id`.
    fn path(text: &str) -> Vec<Step> {
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
        if !path.contains(&Step::Each) {
            path.push(Step::Each);
        }
        path
    }
}

/// What was found in a page.
#[derive(Default)]
struct Found {
    names: Option<Encoded>,
    next: Option<String>,
    more: Option<(String, Option<String>)>,
    left_out: LeftOut,
    /// Names of its fields, the first few.
    there: Vec<String>,
}

struct Fields<'o> {
    options: &'o ListGetOptions,
    path: &'o [Step],
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Found, M::Error> {
        use serde::de::Error;
        let Some((Step::Field(first), rest)) = self.path.split_first() else {
            return Err(M::Error::custom("the name of the field is empty"));
        };
        let (mut found, mut names) = (Found::default(), Gathered::default());
        let known = |field: &str| match self.options.says_no_next() {
            true => None,
            false => self.options.next_field.iter().position(|one| one == field),
        };
        // By rank: the first field of the list that is there counts, wherever it stands in the page.
        let mut next: Vec<Option<Option<String>>> = vec![None; self.options.next_field.len()];
        while let Some(Text(field)) = map.next_key::<Text<'de>>()? {
            let twice = || M::Error::custom(format_args!("the field {field:?} occurs twice"));
            if found.there.len() < SHOWN_MAX {
                found.there.push(format!("\"{}\"", escape(field.as_bytes())));
            }
            if *field == **first {
                if std::mem::replace(&mut names.seen, true) {
                    return Err(twice());
                }
                map.next_value_seed(Seek { path: rest, names: &mut names })?;
            } else if let Some(rank) = known(&field) {
                let token = map.next_value::<Token>()?.0;
                if next[rank].replace(token).is_some() {
                    return Err(twice());
                }
            } else {
                let value: &RawValue = map.next_value()?;
                if *field == *"LeftOut" && value.get().starts_with('{') {
                    found.left_out = serde_json::from_str(value.get()).map_err(M::Error::custom)?;
                } else if found.more.is_none() {
                    found.more = goes_on(&field, value.get(), DEPTH_MAX);
                }
            }
        }
        found.more = found.more.or(names.more);
        found.names = names.reached.then_some(names.names);
        found.next = next.into_iter().flatten().flatten().next();
        Ok(found)
    }
}

/// The names of a page as they are gathered, and whether the place was there at which they stand.
#[derive(Default)]
struct Gathered {
    names: Encoded,
    hashes: HashSet<u128, BuildHasherDefault<AlreadyHashed>>,
    /// The first field of the way to them was there.
    seen: bool,
    /// An array was there, or a name.
    reached: bool,
    /// Arrays that are being read: fields of what is in one are no fields of the page.
    arrays: usize,
    /// As in [`Page`], of fields beside the names.
    more: Option<(String, Option<String>)>,
}

impl Gathered {
    fn push(&mut self, name: &[u8]) {
        let hash = xxh3_128(name);
        let duplicate =
            if self.hashes.len() < SEEN_MAX { !self.hashes.insert(hash) } else { self.hashes.contains(&hash) };
        self.names.push(name, duplicate);
        self.names.sum = self.names.sum.wrapping_add(hash);
    }
}

/// Goes the way that is left, and gathers what is at its end.
struct Seek<'p, 'n> {
    path: &'p [Step],
    names: &'n mut Gathered,
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
        self.names.push(name.as_bytes());
        Ok(())
    }

    fn visit_u64<E>(self, name: u64) -> Result<(), E> {
        self.names.push(name.to_string().as_bytes());
        Ok(())
    }

    fn visit_i64<E>(self, name: i64) -> Result<(), E> {
        self.names.push(name.to_string().as_bytes());
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut array: S) -> Result<(), S::Error> {
        use serde::de::Error;
        let Some((Step::Each, rest)) = self.path.split_first() else {
            return Err(S::Error::custom("a name cannot be an array: for nested arrays use 'data[][]'"));
        };
        self.names.reached = true;
        self.names.arrays += 1;
        while array.next_element_seed(Seek { path: rest, names: &mut *self.names })?.is_some() {}
        self.names.arrays -= 1;
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        use serde::de::Error;
        let Some((Step::Field(wanted), rest)) = self.path.split_first() else {
            return Err(M::Error::custom("a name cannot be an object: name its field, as in 'data[].id'"));
        };
        let (mut there, mut others) = (false, Vec::new());
        while let Some(Text(field)) = map.next_key::<Text<'de>>()? {
            if *field != **wanted {
                if others.len() < SHOWN_MAX && !there {
                    others.push(format!("\"{}\"", escape(field.as_bytes())));
                }
                match self.names.arrays {
                    0 => {
                        let value: &RawValue = map.next_value()?;
                        let more = self.names.more.take();
                        self.names.more = more.or_else(|| goes_on(&field, value.get(), DEPTH_MAX));
                    }
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            } else if std::mem::replace(&mut there, true) {
                return Err(M::Error::custom(format_args!("the field {wanted:?} occurs twice")));
            } else {
                map.next_value_seed(Seek { path: rest, names: &mut *self.names })?;
            }
        }
        match there {
            true => Ok(()),
            false => Err(M::Error::custom(format_args!(
                "an object has no field {wanted:?}; it has: {}",
                if others.is_empty() { "none".to_owned() } else { others.join(", ") }
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
