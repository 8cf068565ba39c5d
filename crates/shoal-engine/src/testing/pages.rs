//! The reader of list pages over any bytes: what the fuzz target `list_page` and the test over its corpus run.

use serde_json::Value;

use crate::error::Kind;
use crate::source::list_get::ListGetOptions;
use crate::source::list_get::fuzzing::{PARTITION_MAX, linked, read_page};

/// Where names may stand in a page, and what another reader of JSON finds there.
type Way = (&'static str, fn(&Value) -> Option<Vec<&Value>>);
const WAYS: [Way; 4] = [
    ("FileNames", |page| Some(page.get("FileNames")?.as_array()?.iter().collect())),
    ("data[].id", |page| page.get("data")?.as_array()?.iter().map(|object| object.get("id")).collect()),
    ("[]", |page| Some(page.as_array()?.iter().collect())),
    ("[].id", |page| page.as_array()?.iter().map(|object| object.get("id")).collect()),
];

/// Checks what must hold for any bytes at all that come as a page: another reader of JSON says the same.
///
/// # Panics
/// When a promise of the reader is broken.
pub fn check_list_page(json: &[u8]) {
    for way in WAYS {
        check(json, way);
    }
    // As the page of a directory: what it links to is below it, and is requested by its name.
    for (name, requested) in linked(json) {
        assert_eq!(requested.as_ref(), Some(&name), "the request of a name leads to it");
        assert!(name.len() > 2 && name.starts_with(b"c/"), "{}", name.escape_ascii());
    }
}

fn check(json: &[u8], (names_field, found_by): Way) {
    let options = ListGetOptions { names_field: names_field.to_owned(), ..ListGetOptions::default() };
    let page = match read_page(json, &options) {
        Ok(page) => page,
        Err(error) => return assert_eq!(error.kind(), Kind::Listing, "{error}"),
    };
    let names = page.partitions.iter().flatten();
    // What is passed over may be what the other one refuses: a number or a character that there is none of.
    if let Ok(value) = serde_json::from_slice::<Value>(json) {
        let listed = found_by(&value).expect("a page has names").into_iter().map(|name| match name {
            Value::String(text) => text.clone(),
            Value::Number(number) if number.is_u64() || number.is_i64() => number.to_string(),
            other => panic!("a name is text or a whole number, not {other}"),
        });
        assert!(names.clone().map(|(name, _)| name.clone()).eq(listed.map(String::into_bytes)), "in the page's order");
    }
    let mut seen = std::collections::HashSet::new();
    assert!(
        names.clone().all(|(name, duplicate)| seen.insert(name) != *duplicate),
        "a name that stood earlier is marked"
    );
    assert_eq!(page.counted, page.partitions.len() as u64);
    assert!(page.partitions.iter().all(|names| (1..=PARTITION_MAX).contains(&names.len())));
    assert!(page.next.as_ref().is_none_or(|token| !token.is_empty()), "an empty token is the end");
}
