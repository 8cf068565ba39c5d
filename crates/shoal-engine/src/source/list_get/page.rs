//! One page of a listing: from JSON to partitions, and a partition's names back out of its payload.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
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

/// What a page says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub names: Encoded,
    pub next: Option<String>,
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
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let page = deserializer.deserialize_map(Fields { options }).and_then(|page| deserializer.end().map(|()| page));
    match page {
        Ok((Some(names), next)) => Ok(Page { names, next }),
        Ok((None, _)) => Err(Error::new(Kind::Listing, format!("the page has no field \"{}\"", options.names_field))
            .hint("name the field that holds the names with --names-field")),
        Err(e) => {
            let begin = escape(&json[..json.len().min(60)]);
            Err(Error::new(
                Kind::Listing,
                format!("the page is not a JSON object of names: {e}; it begins \"{begin}\""),
            )
            .hint("is this the listing? its path is given with --list-path"))
        }
    }
}

struct Fields<'o> {
    options: &'o ListGetOptions,
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = (Option<Encoded>, Option<String>);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut names = None;
        // By rank: the first field of the list that is there counts, wherever it stands in the page.
        let mut next: Option<(usize, Option<String>)> = None;
        while let Some(field) = map.next_key::<Text<'de>>()? {
            if *field.0 == self.options.names_field {
                names = Some(map.next_value::<Encoded>()?);
            } else if let Some(rank) = self.options.next_field.iter().position(|known| *known == *field.0) {
                let token = map.next_value::<Token>()?.0;
                if next.as_ref().is_none_or(|(other, text)| text.is_none() || rank < *other && token.is_some()) {
                    next = Some((rank, token));
                }
            } else {
                map.next_value::<serde::de::IgnoredAny>()?;
            }
        }
        Ok((names, next.and_then(|(_, token)| token)))
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

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Encoded;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an array of names")
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut array: S) -> Result<Self::Value, S::Error> {
                let mut names = Encoded::default();
                let mut seen = HashSet::with_capacity_and_hasher(1024, BuildHasherDefault::<AlreadyHashed>::default());
                while let Some(Text(name)) = array.next_element()? {
                    let hash = xxh3_128(name.as_bytes());
                    let duplicate = if seen.len() < SEEN_MAX { !seen.insert(hash) } else { seen.contains(&hash) };
                    names.push(name.as_bytes(), duplicate);
                    names.sum = names.sum.wrapping_add(hash);
                }
                Ok(names)
            }
        }
        deserializer.deserialize_seq(Elements)
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

/// A token: a string or a number; null and the empty string mean the end.
struct Token(Option<String>);

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Number(serde_json::Number),
            Nothing(()),
        }
        Ok(Token(match Form::deserialize(deserializer)? {
            Form::Text(text) if text.is_empty() => None,
            Form::Text(text) => Some(text),
            Form::Number(number) => Some(number.to_string()),
            Form::Nothing(()) => None,
        }))
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
            "{\"FileNames\":[1]}",
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
