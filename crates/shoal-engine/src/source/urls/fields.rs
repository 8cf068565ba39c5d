//! The fields that a list has for URL and name, and lines of JSON, which have them in objects.
//!
//! Not here: rows (`rows.rs`), Parquet (a crate of its own).

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::record::Record;
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// The fields that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The one with the URL.
    pub url: String,
    /// Those that names are made of: the one with the name, or all that the template of names uses.
    pub names: Vec<String>,
}

impl Fields {
    /// What identifies them, behind that of the list.
    pub fn identity(&self) -> String {
        let quoted = |text: &str| text.escape_default().to_string().replace(' ', "\\ ");
        let names: String = self.names.iter().map(|name| format!(" name_field={}", quoted(name))).collect();
        format!(" url_field={}{names}", quoted(&self.url))
    }

    /// Where the fields are among `columns`.
    ///
    /// # Errors
    /// [`Kind::Config`] if one is missing, or is there twice.
    pub fn places(&self, columns: &[&str]) -> Result<(usize, Vec<usize>)> {
        let place = |field: &str| {
            let mut found = columns.iter().enumerate().filter(|(_, column)| **column == field).map(|(at, _)| at);
            let option = if field == self.url { "url_field" } else { "name_field" };
            let wrong = |why: &str, hint: String| {
                let field = escape(field.as_bytes());
                Err(Error::new(Kind::Config, format!("the list has {why} \"{field}\" (`{option}`)")).hint(hint))
            };
            match (found.next(), found.next()) {
                (Some(at), None) => Ok(at),
                (Some(_), Some(_)) => wrong("several fields", "give the one that is meant another name".to_owned()),
                (None, _) => {
                    let names = columns.iter().take(20).map(|name| format!("\"{}\"", escape(name.as_bytes())));
                    wrong("no field", format!("it has {}", names.collect::<Vec<_>>().join(", ")))
                }
            }
        };
        Ok((place(&self.url)?, self.names.iter().map(|name| place(name)).collect::<Result<_>>()?))
    }
}

/// Reads a line that is a JSON object.
pub(super) fn read_json(line: &[u8], fields: &Fields, into: &mut Record) {
    let mut reader = serde_json::Deserializer::from_slice(line);
    let found = Wanted(fields).deserialize(&mut reader).and_then(|found| reader.end().map(|()| found));
    // Not the error's text: it may show what is in the line.
    let found = found.map_err(|error| format!("the line is not a JSON object (column {})", error.column()));
    if let Err(why) = found.and_then(|found| set(&found, fields, into)) {
        into.set_bad(&why);
    }
}

fn set(found: &Found<'_>, fields: &Fields, into: &mut Record) -> std::result::Result<(), String> {
    let url = match &found.url {
        Value::Text(url) | Value::Number(url) => url,
        Value::Twice => return Err(wrong("there are two values", &fields.url)),
        _ => return Err(wrong("it has no text", &fields.url)),
    };
    let name = |(value, field): (&'_ Value<'_>, &String)| match value {
        Value::Text(_) | Value::Number(_) | Value::Missing => Ok(()),
        Value::Other => Err(wrong("neither text nor a number is", field)),
        Value::Twice => Err(wrong("there are two values", field)),
    };
    found.names.iter().zip(&fields.names).try_for_each(name)?;
    into.set_fields(found.names.iter().map(Value::text), url);
    Ok(())
}

fn wrong(why: &str, field: &str) -> String {
    format!("{why} in its field \"{}\"", escape(field.as_bytes()))
}

/// The values of an object: of the URL, and of the fields that names are made of.
struct Found<'a> {
    url: Value<'a>,
    names: Vec<Value<'a>>,
}

/// What an object has in a field.
enum Value<'a> {
    /// Nothing, or null.
    Missing,
    Text(Cow<'a, str>),
    /// As it is written: a long one keeps all its digits.
    Number(Cow<'a, str>),
    Other,
    Twice,
}

impl<'a> Value<'a> {
    fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Number(text) => Some(text),
            _ => None,
        }
    }

    fn of(value: &'a RawValue) -> serde_json::Result<Value<'a>> {
        let text = value.get();
        Ok(match text.as_bytes().first() {
            Some(b'"') if !text.contains('\\') => Value::Text(Cow::Borrowed(text.trim_matches('"'))),
            Some(b'"') => Value::Text(Cow::Owned(serde_json::from_str(text)?)),
            Some(b'-' | b'0'..=b'9') => Value::Number(Cow::Borrowed(text)),
            Some(b'n') => Value::Missing,
            _ => Value::Other,
        })
    }
}

/// Reads an object.
struct Wanted<'f>(&'f Fields);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Found<'de>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut seen = vec![false; 1 + self.0.names.len()];
        let names = self.0.names.iter().map(|_| Value::Missing).collect();
        let mut found = Found { url: Value::Missing, names };
        while let Some(Key(is_url, name)) = map.next_key_seed(KeyOf(self.0))? {
            if !is_url && name.is_none() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let raw = map.next_value::<&RawValue>()?;
            for at in [is_url.then_some(0), name.map(|name| 1 + name)].into_iter().flatten() {
                let own = if at == 0 { &mut found.url } else { &mut found.names[at - 1] };
                let value = Value::of(raw).map_err(A::Error::custom)?;
                *own = if std::mem::replace(&mut seen[at], true) { Value::Twice } else { value };
            }
        }
        Ok(found)
    }
}

/// Whether a key is the field of the URL, and which one of those for names it is.
struct Key(bool, Option<usize>);

struct KeyOf<'f>(&'f Fields);

impl<'de> DeserializeSeed<'de> for KeyOf<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Key, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyOf<'_> {
    type Value = Key;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> std::result::Result<Key, E> {
        Ok(Key(*key == self.0.url, self.0.names.iter().position(|name| *name == key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields { url: "u".to_owned(), names: vec!["id".to_owned()] }
    }

    fn read(line: &str) -> String {
        let mut record = Record::default();
        read_json(line.as_bytes(), &fields(), &mut record);
        if record.bad { format!("bad: {}", record.url) } else { format!("{:?} {}", record.name, record.url) }
    }

    #[test]
    fn lines_are_objects_with_other_fields() {
        assert_eq!(read(r#"{"x": [1, {}], "u": "http://h/\u0061", "id": 17}"#), "Some(\"17\") http://h/a");
        assert_eq!(read(r#"{"x": "\ud83d", "\u0075": "http://h/a", "x": 1}"#), "None http://h/a");
        assert_eq!(read(r#"{"u": "\"", "id": ""}"#), "None \"");
        assert!(read(r#"{"u": null}"#).contains("no text in its field"));
        for line in ["[]", "{", "hunter2", r#"{"u": "hunter2"#, r#"{"u": "x"} hunter2"#, r#"{"u": "hunter2\ud83d"}"#] {
            let bad = read(line);
            assert!(bad.starts_with("bad: the line is not a JSON object") && !bad.contains("hunter2"), "{bad}");
        }
    }

    #[test]
    fn a_name_is_text_or_a_number_as_it_is_written() {
        for number in ["12345678901234567890123", "-0", "1.50", "1e999"] {
            assert_eq!(read(&format!(r#"{{"u": "x", "id": {number}}}"#)), format!("Some(\"{number}\") x"));
        }
        assert_eq!(read(r#"{"u": "x", "id": null}"#), "None x");
        for other in ["true", "[]", r#"{"id": 1}"#] {
            let bad = read(&format!(r#"{{"u": "x", "id": {other}}}"#));
            assert_eq!(bad, "bad: neither text nor a number is in its field \"id\"");
        }
    }

    #[test]
    fn two_values_of_a_field_are_none() {
        assert_eq!(read(r#"{"u": "x", "id": 1, "\u0075": "x"}"#), "bad: there are two values in its field \"u\"");
        assert_eq!(read(r#"{"u": "x", "id": 1, "id": null}"#), "bad: there are two values in its field \"id\"");
    }

    #[test]
    fn a_missing_field_is_named_with_those_that_there_are_and_none_may_be_there_twice() {
        assert_eq!(fields().places(&["x", "x", "id", "u"]).unwrap(), (3, vec![2]));
        let error = fields().places(&["x", "u"]).unwrap_err().to_string();
        assert!(error.contains("no field \"id\" (`name_field`)") && error.contains("\"x\""), "{error}");
        for columns in [["u", "id", "u"], ["id", "u", "id"]] {
            assert!(fields().places(&columns).unwrap_err().to_string().contains("several fields"));
        }
    }
}
