//! Where a listing goes on, as a page says it: the token of the next page, and fields that look like the place of one.
//!
//! Not here: the page itself (`page.rs`), what is done about such a field (`listing.rs`).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Longest token, in bytes: each partition and the journal carry one.
const TOKEN_MAX: usize = 16 << 10;
/// Objects within objects in which a place to go on at is looked for, and the longest such object in bytes.
pub(super) const DEPTH_MAX: usize = 8;
const NESTED_MAX: usize = 1 << 20;
/// What stands in the names of fields that say where a listing goes on.
const GOES_ON: [&str; 9] = ["next", "token", "cursor", "marker", "continu", "truncat", "more", "scroll", "bookmark"];
/// Fields that say so where they hold text. As numbers they say where this page is.
const TEXT_GOES_ON: [&str; 2] = ["after", "offset"];

/// The field, or one below it, that looks as if the listing went on, and its value if that can be a token.
pub(super) fn goes_on(field: &str, value: &str, depth: usize) -> Option<(String, Option<String>)> {
    let name = field.to_ascii_lowercase();
    if matches!(value, "null" | "false" | "\"\"" | "0" | "\"false\"" | "{}" | "[]") {
        return None;
    }
    if value.starts_with(['{', '[']) {
        if name == "next" || value.starts_with('[') && links_on(value) {
            return Some((field.to_owned(), None));
        }
        let below = depth.checked_sub(1).filter(|_| value.len() <= NESTED_MAX && value.starts_with('{'))?;
        let fields: Nested<'_> = serde_json::from_str(value).ok()?;
        let found = fields.0.into_iter().find_map(|(name, value)| goes_on(&name, value.get(), below))?;
        return Some((format!("{field}.{}", found.0), found.1));
    }
    let is_text = value.starts_with('"');
    let found = GOES_ON.iter().any(|word| name.contains(word)) || is_text && TEXT_GOES_ON.contains(&&*name);
    found.then(|| (field.to_owned(), serde_json::from_str::<Token>(value).ok().and_then(|token| token.0)))
}

/// Whether an array of links has one to the next page: `[{"rel": "next", "href": …}]`.
fn links_on(array: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Rel {
        One(String),
        Several(Vec<String>),
    }
    #[derive(Deserialize)]
    struct Link {
        rel: Rel,
    }
    let links: Vec<&RawValue> = match array.len() <= NESTED_MAX {
        true => serde_json::from_str(array).unwrap_or_default(),
        false => Vec::new(),
    };
    let mut rels = links.iter().filter_map(|link| serde_json::from_str::<Link>(link.get()).ok()).map(|link| link.rel);
    rels.any(|rel| match rel {
        Rel::One(rel) => rel == "next",
        Rel::Several(rels) => rels.iter().any(|rel| rel == "next"),
    })
}

/// The fields of an object, also those that are there twice.
struct Nested<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Nested<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Gathering;
        impl<'de> Visitor<'de> for Gathering {
            type Value = Nested<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::new();
                while let Some((Text(field), value)) = map.next_entry()? {
                    fields.push((field, value));
                }
                Ok(Nested(fields))
            }
        }
        deserializer.deserialize_map(Gathering)
    }
}

/// A string that borrows from the page where it has no escapes.
pub(super) struct Text<'a>(pub Cow<'a, str>);

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

/// A token: a string, or a number with its digits as they are; null and the empty string mean the end.
pub(super) struct Token(pub Option<String>);

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        // Not read into memory before it is known to be small.
        let json = <&RawValue>::deserialize(deserializer)?.get();
        if json.len() > TOKEN_MAX {
            let why = format_args!("the marker of the next page is longer than {} KiB", TOKEN_MAX >> 10);
            return Err(D::Error::custom(why));
        }
        match json.as_bytes().first() {
            Some(b'"') => {
                let text: String = serde_json::from_str(json).map_err(D::Error::custom)?;
                Ok(Token(Some(text).filter(|text| !text.is_empty())))
            }
            Some(b'-' | b'0'..=b'9') => Ok(Token(Some(json.to_owned()))),
            Some(b'n') => Ok(Token(None)),
            _ => Err(D::Error::custom("the marker of the next page must be text or a number")),
        }
    }
}
