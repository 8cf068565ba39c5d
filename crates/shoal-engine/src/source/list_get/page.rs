//! One page of a listing: from JSON to partitions, and a partition's names back out of its payload.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::ListGetOptions;
use crate::display::escape;
use crate::error::{Error, HostId, Kind, Result};
use crate::partition::{Cursor, Key, Partition};
use crate::source::{Entries, Entry};

/// Most objects in one partition: a kill redoes whole partitions, and a lane holds two or three.
const PARTITION_MAX: usize = 100;
/// Set in a stored length: the name stood earlier in its page.
const DUPLICATE: u32 = 1 << 31;

/// What a page says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page<'a> {
    pub names: Vec<Cow<'a, str>>,
    pub next: Option<String>,
}

/// Reads a page.
///
/// # Errors
/// [`Kind::Listing`] with what is wrong with it.
pub(super) fn parse<'a>(json: &'a [u8], options: &ListGetOptions) -> Result<Page<'a>> {
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
    type Value = (Option<Vec<Cow<'de, str>>>, Option<String>);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut names = None;
        // By rank: the first field of the list that is there counts, wherever it stands in the page.
        let mut next: Option<(usize, Option<String>)> = None;
        while let Some(field) = map.next_key::<Text<'de>>()? {
            if *field.0 == self.options.names_field {
                names = Some(map.next_value::<Array<'de>>()?.0);
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

struct Array<'a>(Vec<Cow<'a, str>>);

impl<'de> Deserialize<'de> for Array<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Array<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an array of names")
            }
            fn visit_seq<S: SeqAccess<'de>>(self, mut array: S) -> Result<Self::Value, S::Error> {
                let mut names = Vec::new();
                while let Some(name) = array.next_element::<Text<'de>>()? {
                    names.push(name.0);
                }
                Ok(Array(names))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Array(Vec::new())) // null: some services say so for an empty page
            }
        }
        deserializer.deserialize_any(Elements)
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

/// Cuts the names of a page into partitions, the first of them numbered `seq`.
pub(super) fn cut<'a>(names: &'a [Cow<'a, str>], mut seq: u64, after: &Cursor) -> Vec<Partition> {
    let mut seen: HashSet<&'a [u8]> = HashSet::with_capacity(names.len());
    let numbered = |run: &'a [Cow<'a, str>]| {
        // A run at a time: a page may hold millions.
        let marked: Vec<_> = run.iter().map(|name| (name.as_bytes(), !seen.insert(name.as_bytes()))).collect();
        let partition = Partition { seq, after: after.clone(), ..partition(marked.iter().copied()) };
        seq += 1;
        partition
    };
    names.chunks(PARTITION_MAX).map(numbered).collect()
}

/// A partition of these names; `seq` and `after` are the caller's to set.
pub(super) fn partition<'a>(names: impl Iterator<Item = (&'a [u8], bool)> + Clone) -> Partition {
    let mut payload = Vec::new();
    let mut count = 0;
    for (name, duplicate) in names.clone() {
        let mark = if duplicate { DUPLICATE } else { 0 };
        payload.extend_from_slice(&(name.len() as u32 | mark).to_le_bytes());
        payload.extend_from_slice(name);
        count += 1;
    }
    let key = Key::of(names.map(|(name, _)| name));
    Partition { seq: 0, key, after: Cursor::default(), payload: payload.into(), len: Some(count) }
}

/// The names of an open partition, where they lie in its payload.
pub(super) struct Names {
    payload: Arc<[u8]>,
    /// Start, length and mark of each.
    places: Vec<(u32, u32)>,
}

impl Names {
    /// Finds the names.
    ///
    /// # Errors
    /// [`Kind::Internal`] for a payload this file did not make.
    pub fn new(payload: &Arc<[u8]>) -> Result<Names> {
        let mut places = Vec::new();
        let mut at = 0;
        while at < payload.len() {
            let place = payload.get(at..at + 4).and_then(|bytes| {
                let marked = u32::from_le_bytes(bytes.try_into().ok()?);
                payload.get(at + 4..at + 4 + (marked & !DUPLICATE) as usize)?;
                Some((at as u32 + 4, marked))
            });
            let Some(place) = place else { return Err(Error::new(Kind::Internal, "a partition's names are damaged")) };
            places.push(place);
            at += 4 + (place.1 & !DUPLICATE) as usize;
        }
        Ok(Names { payload: payload.clone(), places })
    }
}

impl Entries for Names {
    fn len(&self) -> u32 {
        self.places.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        let (start, marked) = self.places[index as usize];
        let name = &self.payload[start as usize..(start + (marked & !DUPLICATE)) as usize];
        Entry { name, locator: name, host: HostId(0), duplicate: marked & DUPLICATE != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(json: &str) -> Result<(Vec<String>, Option<String>), Kind> {
        let options = ListGetOptions::default();
        let page = parse(json.as_bytes(), &options).map_err(|e| e.kind())?;
        Ok((page.names.iter().map(ToString::to_string).collect(), page.next))
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
            page(r#"{"NextFile":"later","NextMarker":"first","FileNames":null}"#),
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
            "{\"FileNames\":[]} x",
            "{\"FileNames\":[\"a\"",
        ] {
            assert_eq!(page(json), Err(Kind::Listing), "{json}");
        }
    }

    #[test]
    fn partitions_hold_a_hundred_names_at_most_and_mark_duplicates() {
        let names: Vec<Cow<'_, str>> = (0..250).map(|n| Cow::Owned(format!("n{}", n % 240))).collect();
        let cut = cut(&names, 7, &Cursor::default());
        assert_eq!(
            cut.iter().map(|p| (p.seq, p.len)).collect::<Vec<_>>(),
            [(7, Some(100)), (8, Some(100)), (9, Some(50))]
        );
        let last = Names::new(&cut[2].payload).unwrap();
        let duplicates = (0..last.len()).filter(|&index| last.get(index).duplicate).count();
        assert_eq!((duplicates, last.get(0).name), (10, &b"n200"[..]));
    }
}
