//! One page of a listing: the XML of `ListObjectsV2` as entries. A page counts only if all of it is there and makes sense.
//! Not here: how pages follow each other (`listing.rs`), how it is fetched (`pager.rs`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quick_xml::Reader;
use quick_xml::events::Event;
use shoal_engine::{Error, Kind, Result};

use crate::encoding::Encoding;
use crate::entries::Listed;

/// Longest key as a page has it, in bytes: 1,024, each encoded in three.
const KEY_MAX: usize = 3072;

/// What a page says.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Its objects, as they were listed.
    pub objects: Vec<Listed>,
    /// More follow, and this token gets them.
    pub next: Option<String>,
}

/// An element that is read as text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Key,
    Modified,
    Size,
    Class,
    IsTruncated,
    Next,
    Encoding,
    Restored,
    Count,
}

/// Reads a page. `prefix`: what was asked for.
///
/// # Errors
/// [`Kind::Listing`] if it is not a whole page of a listing.
pub(crate) fn parse(body: &[u8], prefix: &[u8], keys: &mut Encoding) -> Result<Page> {
    let text = std::str::from_utf8(body).map_err(|_| broken("it is not UTF-8"))?;
    let mut reader = Reader::from_str(text);
    let (mut page, mut object, mut value) = (Page::default(), Listed::default(), String::new());
    let (mut depth, mut field, mut whole, mut more, mut encoding) = (0, None, false, None, None);
    let (mut is_in_object, mut count) = (false, 0);
    loop {
        match reader.read_event().map_err(|error| broken(&error.to_string()))? {
            Event::Start(start) => {
                depth += 1;
                let name = start.local_name().into_inner();
                match (depth, name) {
                    (1, "ListBucketResult") => {}
                    (1, "Error") => return Err(broken("it is an error of the store")),
                    (1, _) => return Err(broken("it is no listing of objects")),
                    (2, "Contents") => (is_in_object, object) = (true, Listed::default()),
                    (2, "CommonPrefixes") => return Err(broken("it has prefixes in place of objects")),
                    _ => {}
                }
                field = field_of(depth, is_in_object, name);
                value.clear();
            }
            Event::Empty(_) => {}
            // XML reads a carriage return as a line break, so that a key cannot have one that is not written as `&#13;`.
            Event::Text(text) if field.is_some() && text.contains('\r') => {
                return Err(broken("it has a line break that may be another one"));
            }
            Event::Text(text) if field.is_some() => value.push_str(&text.xml10_content()),
            Event::CData(text) if field.is_some() => value.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) if field.is_some() => {
                value.push(match (reference.resolve_char_ref(), &*reference) {
                    (Ok(Some(one)), _) => one,
                    (_, "lt") => '<',
                    (_, "gt") => '>',
                    (_, "amp") => '&',
                    (_, "apos") => '\'',
                    (_, "quot") => '"',
                    _ => return Err(broken("it has an unknown entity")),
                });
            }
            Event::End(_) => {
                match field.take() {
                    Some(Field::Key) => object.key = std::mem::take(&mut value).into_bytes(),
                    Some(Field::Modified) => object.modified = time(&value),
                    Some(Field::Size) => {
                        object.size = Some(value.parse().map_err(|_| broken("a size is not a number"))?);
                    }
                    Some(Field::Class) => object.is_archived = matches!(&*value, "GLACIER" | "DEEP_ARCHIVE"),
                    Some(Field::Restored) => object.is_restored = true,
                    Some(Field::IsTruncated) => {
                        more = Some(value.parse().map_err(|_| broken("IsTruncated is neither true nor false"))?);
                    }
                    Some(Field::Next) => page.next = Some(std::mem::take(&mut value)),
                    Some(Field::Count) => count = value.parse().unwrap_or(0),
                    Some(Field::Encoding) => encoding = Some(std::mem::take(&mut value)),
                    None => {}
                }
                if depth == 2 && std::mem::take(&mut is_in_object) {
                    if !(1..=KEY_MAX).contains(&object.key.len()) {
                        return Err(broken("it has an object without a key, or with one that is too long"));
                    }
                    page.objects.push(std::mem::take(&mut object));
                }
                depth -= 1;
                whole |= depth == 0;
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if !whole {
        return Err(broken("it ends too early"));
    }
    match more {
        None => return Err(broken("it does not say whether more follows (IsTruncated)")),
        Some(false) if page.next.as_ref().is_some_and(|token| !token.is_empty()) => {
            return Err(broken("it says that nothing follows, and where to continue"));
        }
        Some(false) => page.next = None,
        Some(true) if page.next.as_ref().is_none_or(String::is_empty) => {
            let why = "more follows, but it does not say where";
            return Err(broken(why).hint("the store must answer ListObjectsV2, with continuation tokens"));
        }
        Some(true) => {}
    }
    if page.objects.len() < count {
        return Err(broken("it has fewer keys than it says (KeyCount)"));
    }
    match encoding.as_deref() {
        None | Some("") => page.objects.iter().try_for_each(|object| check_plain(&object.key))?,
        Some("url") => keys.decode(&mut page.objects)?,
        Some(_) => return Err(broken("its keys have an encoding that shoal did not ask for")),
    }
    if page.objects.iter().any(|object| !object.key.starts_with(prefix)) {
        return Err(broken("it has a key that does not begin with what was asked for"));
    }
    Ok(page)
}

fn field_of(depth: usize, is_in_object: bool, name: &str) -> Option<Field> {
    Some(match (depth, is_in_object, name) {
        (3, true, "Key") => Field::Key,
        (3, true, "LastModified") => Field::Modified,
        (3, true, "Size") => Field::Size,
        (3, true, "StorageClass") => Field::Class,
        (4, true, "RestoreExpiryDate") => Field::Restored,
        (2, _, "IsTruncated") => Field::IsTruncated,
        (2, _, "NextContinuationToken") => Field::Next,
        (2, _, "EncodingType") => Field::Encoding,
        (2, _, "KeyCount") => Field::Count,
        _ => return None,
    })
}

/// Keys that are written as they are cannot have what XML cannot have: some stores then write another character in its place.
pub(crate) fn check_plain(key: &[u8]) -> Result<()> {
    let is_lost = memchr::memmem::find(key, "\u{fffd}".as_bytes()).is_some();
    if !is_lost && key.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r')) {
        return Ok(());
    }
    let why = "it has a key with a character that XML cannot have, and the store ignores encoding-type=url";
    Err(broken(why).hint("rename that object; or copy the prefixes without it one by one"))
}

/// `2009-10-12T17:50:30.000Z`; in whole seconds, as `Last-Modified` has them.
pub(crate) fn time(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(text.ends_with('Z') || text.ends_with("+00:00")) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = crate::sign::days_before(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

pub(crate) fn broken(why: &str) -> Error {
    Error::new(Kind::Listing, format!("the page cannot be used: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rest: &str) -> Result<Page> {
        let text = format!("<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\">{rest}");
        parse(text.as_bytes(), b"", &mut Encoding::default())
    }

    fn keys(rest: &str) -> Result<Vec<String>> {
        let page = page(&format!("<IsTruncated>false</IsTruncated>{rest}</ListBucketResult>"))?;
        Ok(page.objects.into_iter().map(|object| String::from_utf8(object.key).unwrap()).collect())
    }

    #[test]
    fn a_page_has_objects_and_says_what_follows() {
        let object = "<Contents><Key>a&amp;b&#x20;c</Key><LastModified>1970-01-02T00:00:01.500Z</LastModified>\
            <Size>7</Size><Owner><ID>Key</ID></Owner><StorageClass>GLACIER</StorageClass><RestoreStatus>\
            <RestoreExpiryDate>x</RestoreExpiryDate></RestoreStatus></Contents>";
        let rest =
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t&lt;</NextContinuationToken></ListBucketResult>";
        let page = page(&format!("{object}{rest}")).unwrap();
        assert_eq!(page.next.as_deref(), Some("t<"));
        let [object] = &page.objects[..] else { panic!() };
        assert_eq!((&object.key[..], object.size), (&b"a&b c"[..], Some(7)));
        assert_eq!(object.modified, Some(UNIX_EPOCH + Duration::from_secs(86_401)));
        assert!(object.is_archived && object.is_restored);
    }

    #[test]
    fn what_is_not_whole_is_no_page() {
        let more = "<IsTruncated>true</IsTruncated>";
        for rest in [
            "",
            "</ListBucketResult>",
            "<IsTruncated>false</IsTruncated>",
            "<Contents><Key>a</Key></Contents><IsTruncated>false</IsTruncated></ListBucket",
            &format!("{more}</ListBucketResult>"),
            "<IsTruncated>True</IsTruncated></ListBucketResult>",
            "<IsTruncated></IsTruncated></ListBucketResult>",
            "<IsTruncated>false</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
            "<IsTruncated>false</IsTruncated><KeyCount>1</KeyCount></ListBucketResult>",
            "<IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>",
            &format!("{more}<NextContinuationToken></NextContinuationToken></ListBucketResult>"),
        ] {
            assert!(page(rest).is_err(), "{rest}");
        }
        let outside =
            "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>q</Key></Contents></ListBucketResult>";
        for text in ["<html><body/></html>", "<Error><Code>x</Code></Error>", "", outside] {
            assert!(parse(text.as_bytes(), b"p", &mut Encoding::default()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_encoding_is_believed_only_if_the_keys_have_it() {
        let key = |key: &str| format!("<Contents><Key>{key}</Key></Contents>");
        let url = "<EncodingType>url</EncodingType>";
        assert_eq!(keys(&format!("{}{url}", key("a%2Fb+c%0A%25"))).unwrap(), ["a/b c\n%"]);
        assert_eq!(keys(&key("a&#13;b")).unwrap(), ["a\rb"]);
        assert!(keys(&key("a\rb")).is_err(), "XML makes a line feed of it");
        assert_eq!(keys(&key("a%2Fb+c")).unwrap(), ["a%2Fb+c"], "not encoded");
        assert!(keys(&key("a\u{fffd}")).is_err() && keys(&key("a&#1;")).is_err());
    }
}
