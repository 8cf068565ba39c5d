//! One page of a listing: from JSON to partitions, and a partition's names back out of its payload.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_128;

use super::ListGetOptions;
use crate::display::escape;
use crate::error::{Error, HostId, Kind, Result};
use crate::partition::{Cursor, Key, Partition};
use crate::source::Skip;
use crate::source::{Entries, Entry};

/// Most objects in one partition: a kill redoes whole partitions, and a lane holds two or three.
pub(super) const PARTITION_MAX: usize = 100;
/// Set in a stored length: the name stood earlier in its page.
const DUPLICATE: u32 = 1 << 31;

/// Names of one page among which duplicates are looked for. Beyond, as across pages, the destination finds them: a page
/// of 64 MiB may hold 20 million names.
const SEEN_MAX: usize = 65_536;

/// Longest token, in bytes: each partition and the journal carry one.
const TOKEN_MAX: usize = 16 << 10;
/// Objects within objects in which a place to go on at is looked for.
const DEPTH_MAX: usize = 4;
/// Fields of a page that are named where the right one is not among them.
const SHOWN_MAX: usize = 12;
/// What stands in the names of fields that say where a listing goes on.
const GOES_ON: [&str; 6] = ["next", "token", "cursor", "marker", "truncated", "more"];

/// What a page says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub names: Encoded,
    pub next: Option<String>,
    /// A field that nothing is known of and that looks as if the listing went on, and its value as JSON.
    pub more: Option<(String, String)>,
}

/// Names one behind the other, each after its length and mark: the form in which partitions carry them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Encoded {
    bytes: Vec<u8>,
    sum: u128,
}

impl Encoded {
    fn push(&mut self, name: &[u8], duplicate: bool) {
        let mark = if duplicate { DUPLICATE } else { 0 };
        self.bytes.extend_from_slice(&(name.len() as u32 | mark).to_le_bytes());
        self.bytes.extend_from_slice(name);
    }

    /// What is the same for the same names in any order; `None` when there are none.
    pub fn sum(&self) -> Option<u128> {
        (!self.bytes.is_empty()).then_some(self.sum)
    }
}

/// The name at `at`, its mark, and where the next begins.
fn entry(encoded: &[u8], at: usize) -> Option<(std::ops::Range<usize>, bool, usize)> {
    let marked = u32::from_le_bytes(encoded.get(at..at + 4)?.try_into().ok()?);
    let end = at + 4 + (marked & !DUPLICATE) as usize;
    encoded.get(at + 4..end)?;
    Some((at + 4..end, marked & DUPLICATE != 0, end))
}

/// Reads a page.
///
/// # Errors
/// [`Kind::Listing`] with what is wrong with it.
pub(super) fn parse(json: &[u8], options: &ListGetOptions) -> Result<Page> {
    let path = Step::path(&options.names_field);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let fields = Fields { options, path: &path };
    let page = deserializer.deserialize_map(fields).and_then(|page| deserializer.end().map(|()| page));
    match page {
        Ok(Found { names: Some(names), next, more, .. }) => Ok(Page { names, next, more }),
        Ok(Found { names: None, there, .. }) => {
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            let why = format!("the page has no field \"{}\"; there are: {there}", options.names_field);
            Err(Error::new(Kind::Listing, why)
                .hint("name the field that holds the names with --names-field; of a list of objects, 'data[].id'"))
        }
        Err(e) => {
            let begin = escape(&json[..json.len().min(60)]);
            Err(Error::new(
                Kind::Listing,
                format!("the page is not a JSON object of names: {e}; it begins \"{begin}\""),
            )
            .hint("is this the listing? its path is given with --list-path; of a list of objects, the field with --names-field 'data[].id'"))
        }
    }
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
    /// The way that a `names_field` describes: `FileNames` and `FileNames[]`, `data[].id`, `result.files[].path.name`.
    fn path(text: &str) -> Vec<Step> {
        let mut path = Vec::new();
        for mut part in text.split('.') {
            let mut arrays = 0;
            while let Some(of) = part.strip_suffix("[]") {
                (part, arrays) = (of, arrays + 1);
            }
            path.push(Step::Field(part.to_owned()));
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
    more: Option<(String, String)>,
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
            return Err(M::Error::custom("the field of names has no name"));
        };
        let (mut found, mut names) = (Found::default(), Gathered::default());
        let known = |field: &str| match self.options.says_no_next() {
            true => None,
            false => self.options.next_field.iter().position(|one| one == field),
        };
        // By rank: the first field of the list that is there counts, wherever it stands in the page.
        let mut next: Vec<Option<Option<String>>> = vec![None; self.options.next_field.len()];
        while let Some(Text(field)) = map.next_key::<Text<'de>>()? {
            let twice = || M::Error::custom(format_args!("the field {field:?} is there twice"));
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
                if found.more.is_none() {
                    found.more = goes_on(&field, value.get(), DEPTH_MAX);
                }
            }
        }
        found.names = names.reached.then_some(names.names);
        found.next = next.into_iter().flatten().flatten().next();
        Ok(found)
    }
}

/// The field, or one below it, that looks as if the listing went on, and its value.
fn goes_on(field: &str, value: &str, depth: usize) -> Option<(String, String)> {
    if value.starts_with('{') {
        let below = depth.checked_sub(1).filter(|_| value.len() <= TOKEN_MAX)?;
        let fields: std::collections::BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(value).ok()?;
        let found = fields.into_iter().find_map(|(name, value)| goes_on(&name, value.get(), below))?;
        return Some((format!("{field}.{}", found.0), found.1));
    }
    let name = field.to_ascii_lowercase();
    let says_nothing = matches!(value, "null" | "false" | "\"\"" | "0" | "\"false\"") || value.starts_with('[');
    let found = !says_nothing && GOES_ON.iter().any(|word| name.contains(word));
    found.then(|| (field.to_owned(), value[..value.len().min(TOKEN_MAX)].to_owned()))
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
            return Err(S::Error::custom("an array is no name: say that it is one, as in 'data[][]'"));
        };
        self.names.reached = true;
        while array.next_element_seed(Seek { path: rest, names: &mut *self.names })?.is_some() {}
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        use serde::de::Error;
        let Some((Step::Field(wanted), rest)) = self.path.split_first() else {
            return Err(M::Error::custom("an object is no name: say which of its fields is, as in 'data[].id'"));
        };
        let (mut there, mut others) = (false, Vec::new());
        while let Some(Text(field)) = map.next_key::<Text<'de>>()? {
            if *field != **wanted {
                if others.len() < SHOWN_MAX && !there {
                    others.push(format!("\"{}\"", escape(field.as_bytes())));
                }
                map.next_value::<IgnoredAny>()?;
            } else if std::mem::replace(&mut there, true) {
                return Err(M::Error::custom(format_args!("the field {wanted:?} is there twice")));
            } else {
                map.next_value_seed(Seek { path: rest, names: &mut *self.names })?;
            }
        }
        match there {
            true => Ok(()),
            false => Err(M::Error::custom(format_args!(
                "an object has no field {wanted:?}; there are: {}",
                if others.is_empty() { "none".to_owned() } else { others.join(", ") }
            ))),
        }
    }
}

/// A string that borrows from the page where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing;
        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrowing)
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

/// A token: a string or a number, whose digits stay as they are; null and the empty string mean the end.
struct Token(Option<String>);

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        // Not read into memory before it is known to be small.
        let json = <&RawValue>::deserialize(deserializer)?.get();
        if json.len() > TOKEN_MAX {
            let why = format_args!("the place of the next page is longer than {} KiB", TOKEN_MAX >> 10);
            return Err(D::Error::custom(why));
        }
        match json.as_bytes().first() {
            Some(b'"') => {
                let text: String = serde_json::from_str(json).map_err(D::Error::custom)?;
                Ok(Token(Some(text).filter(|text| !text.is_empty())))
            }
            Some(b'-' | b'0'..=b'9') => Ok(Token(Some(json.to_owned()))),
            Some(b'n') => Ok(Token(None)),
            _ => Err(D::Error::custom("the place of the next page is neither text nor a number")),
        }
    }
}

/// Cuts the names of a page into partitions, one at a time.
pub(super) struct Cut {
    names: Encoded,
    at: usize,
    /// `seq` of the next one.
    seq: u64,
    after: Cursor,
    /// Where the listing continues behind the page.
    next: Option<Cursor>,
}

impl Cut {
    pub fn new(names: Encoded, seq: u64, after: Cursor, next: Option<Cursor>) -> Cut {
        Cut { names, at: 0, seq, after, next }
    }

    /// Partitions in it altogether.
    pub fn count(names: &Encoded) -> u64 {
        let (mut at, mut count) = (0, 0u64);
        while let Some((_, _, next)) = entry(&names.bytes, at) {
            (at, count) = (next, count + 1);
        }
        count.div_ceil(PARTITION_MAX as u64)
    }
}

impl Iterator for Cut {
    type Item = Partition;

    fn next(&mut self) -> Option<Partition> {
        let (from, mut locators) = (self.at, Vec::with_capacity(PARTITION_MAX));
        while locators.len() < PARTITION_MAX
            && let Some((name, _, next)) = entry(&self.names.bytes, self.at)
        {
            locators.push(&self.names.bytes[name]);
            self.at = next;
        }
        let len = Some(locators.len() as u32).filter(|&len| len > 0)?;
        let (seq, key) = (self.seq, Key::of(locators));
        self.seq += 1;
        let payload = self.names.bytes[from..self.at].into();
        let next = if self.at == self.names.bytes.len() { self.next.take() } else { None };
        Some(Partition { seq, key, after: self.after.clone(), next, payload, len: Some(len) })
    }
}

/// A partition of exactly these names; `seq`, `key` and `after` are the caller's to set.
pub(super) fn selected(locators: &[Box<[u8]>]) -> Partition {
    let mut names = Encoded::default();
    for locator in locators {
        names.push(locator, false);
    }
    let (key, len) = (Key::default(), Some(locators.len() as u32));
    Partition { seq: 0, key, after: Cursor::default(), next: None, payload: names.bytes.into(), len }
}

/// The names of an open partition, where they lie in its payload.
pub(super) struct Names {
    payload: Arc<[u8]>,
    /// Where each lies, and its mark.
    places: Vec<(u32, u32, bool)>,
}

impl Names {
    /// Finds the names.
    ///
    /// # Errors
    /// [`Kind::Internal`] for a payload this file did not make.
    pub fn new(payload: &Arc<[u8]>) -> Result<Names> {
        let mut places = Vec::with_capacity(PARTITION_MAX);
        let mut at = 0;
        while let Some((name, duplicate, next)) = entry(payload, at) {
            places.push((name.start as u32, name.end as u32, duplicate));
            at = next;
        }
        if at != payload.len() {
            return Err(Error::new(Kind::Internal, "the names of a partition are damaged"));
        }
        Ok(Names { payload: payload.clone(), places })
    }
}

impl Entries for Names {
    fn len(&self) -> u32 {
        self.places.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let (start, end, duplicate) = self.places[index as usize];
        let name = &self.payload[start as usize..end as usize];
        Entry { name, locator: name, host: HostId(0), skip: duplicate.then_some(Skip::Duplicate), unlisted: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(json: &str) -> Result<(Vec<String>, Option<String>), Kind> {
        let page = parse(json.as_bytes(), &ListGetOptions::default()).map_err(|e| e.kind())?;
        let names = Names::new(&page.names.bytes.into()).unwrap();
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
    fn partitions_hold_a_hundred_names_at_most_and_mark_duplicates() {
        let names: Vec<String> = (0..250).map(|n| format!("n{}", n % 240)).collect();
        let json = serde_json::json!({ "FileNames": names }).to_string();
        let names = parse(json.as_bytes(), &ListGetOptions::default()).unwrap().names;
        assert_eq!(Cut::count(&names), 3);
        let cut: Vec<Partition> = Cut::new(names, 7, Cursor::default(), None).collect();
        let numbers: Vec<_> = cut.iter().map(|p| (p.seq, p.len)).collect();
        assert_eq!(numbers, [(7, Some(100)), (8, Some(100)), (9, Some(50))]);
        let last = Names::new(&cut[2].payload).unwrap();
        let duplicates = (0..last.len()).filter(|&index| last.get(index).skip.is_some()).count();
        assert_eq!((duplicates, last.get(0).name), (10, &b"n200"[..]));
    }
}
