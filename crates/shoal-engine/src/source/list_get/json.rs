//! Values within a page, read without copying what is not needed.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Longest token, in bytes: each partition and the journal carry one.
const TOKEN_MAX: usize = 16 << 10;

/// The fields of an object, also those that are there twice.
pub(super) struct Nested<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

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

/// A token: a string, or a number with its digits as they are. `None` for what means that there is no next page: null,
/// false, 0, -1, and what is empty.
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
            Some(b'-' | b'0'..=b'9') => {
                Ok(Token(Some(json).filter(|json| !matches!(*json, "0" | "-1")).map(str::to_owned)))
            }
            _ if matches!(json, "null" | "false" | "[]" | "{}") => Ok(Token(None)),
            _ => Err(D::Error::custom("the marker of the next page must be text or a number")),
        }
    }
}
