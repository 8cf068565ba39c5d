//! What a request asks of the version and the part of an object: If-Match, If-None-Match, If-Range and Range (RFC 9110,
//! sections 13 and 14).
//!
//! Not here: where an entity tag comes from (`dir.rs`, `synthetic.rs`), and the answers (`answer.rs`).
//! Left out on purpose: dates (no Last-Modified is sent, so a date never matches) and several ranges at once, which a
//! server may ignore; the whole object is sent then.

use hyper::HeaderMap;
use hyper::header;

/// What the conditions of a request come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send the whole object.
    Whole,
    /// Send `first..end`.
    Part { first: u64, end: u64 },
    /// 304: the client has this version.
    NotModified,
    /// 412: the client wants another version.
    Failed,
    /// 416: no byte of the range exists.
    OutOfRange,
}

/// Judges the conditions against the current tag (`"…"`, strong, quotes included) and size of the object.
pub(super) fn judge(headers: &HeaderMap, is_get: bool, tag: &[u8], size: u64) -> Verdict {
    // Most requests ask none of this: one look at their few headers instead of a hashed look-up for each.
    if !headers.keys().any(asks) {
        return Verdict::Whole;
    }
    if headers.contains_key(header::IF_MATCH) && !listed(headers, header::IF_MATCH, tag, false) {
        return Verdict::Failed;
    }
    if headers.contains_key(header::IF_NONE_MATCH) && listed(headers, header::IF_NONE_MATCH, tag, true) {
        return Verdict::NotModified;
    }
    let Some(range) = headers.get(header::RANGE).filter(|_| is_get) else {
        return Verdict::Whole;
    };
    if let Some(wanted) = headers.get(header::IF_RANGE)
        && wanted.as_bytes() != tag
    {
        return Verdict::Whole;
    }
    match range.to_str().ok().and_then(|text| parse_range(text, size)) {
        None => Verdict::Whole,
        Some(part) if part.0 < part.1 => Verdict::Part { first: part.0, end: part.1 },
        Some(_) => Verdict::OutOfRange,
    }
}

/// Whether a header is one of those that are judged here by themselves.
fn asks(name: &header::HeaderName) -> bool {
    [header::IF_MATCH, header::IF_NONE_MATCH, header::RANGE].contains(name)
}

/// Whether the tag is among those of the header; `*` stands for any. A weak tag counts only where `weak` is allowed.
fn listed(headers: &HeaderMap, name: header::HeaderName, tag: &[u8], weak: bool) -> bool {
    headers.get_all(name).iter().any(|value| {
        let value = value.as_bytes().trim_ascii();
        value == b"*" || tags(value).any(|(is_weak, text)| text == tag && (weak || !is_weak))
    })
}

/// The tags of a comma-separated list, quotes kept, each with whether it is weak; stops at the first malformed one.
fn tags(mut rest: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
        rest = &rest[start..];
        let weak = rest.starts_with(b"W/");
        let quoted = if weak { &rest[2..] } else { rest };
        if quoted.first() != Some(&b'"') {
            return None;
        }
        let end = 2 + memchr::memchr(b'"', &quoted[1..])?;
        rest = &quoted[end..];
        Some((weak, &quoted[..end]))
    })
}

/// `first..end` of one byte range, an empty one where nothing of it exists; `None` for anything that is to be ignored.
fn parse_range(text: &str, size: u64) -> Option<(u64, u64)> {
    let (unit, spec) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || spec.contains(',') {
        return None;
    }
    let (first, last) = spec.trim().split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // More digits than fit mean "further than any object reaches".
        Some(text.parse().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        let length = number(last)?;
        return Some((size.saturating_sub(length), size));
    }
    let first = number(first)?;
    let end = if last.is_empty() {
        size
    } else {
        let last = number(last)?;
        if last < first {
            return None;
        }
        last.saturating_add(1).min(size)
    };
    Some((first, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn verdict(pairs: &[(header::HeaderName, &'static str)], size: u64) -> Verdict {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        judge(&headers, true, b"\"a-1\"", size)
    }

    #[test]
    fn a_range_is_cut_to_the_object_and_refused_beyond_it() {
        let part = |first, end| Verdict::Part { first, end };
        for (range, size, expected) in [
            ("bytes=0-0", 10, part(0, 1)),
            ("bytes=3-", 10, part(3, 10)),
            ("bytes=3-99999999999999999999999", 10, part(3, 10)),
            ("bytes=-4", 10, part(6, 10)),
            ("bytes=-40", 10, part(0, 10)),
            ("bytes=10-", 10, Verdict::OutOfRange),
            ("bytes=-0", 10, Verdict::OutOfRange),
            ("bytes=0-", 0, Verdict::OutOfRange),
            ("bytes=5-4", 10, Verdict::Whole),
            ("bytes=0-1,3-4", 10, Verdict::Whole),
            ("bytes=+1-2", 10, Verdict::Whole),
            ("lines=0-1", 10, Verdict::Whole),
            ("bytes=-", 10, Verdict::Whole),
        ] {
            assert_eq!(verdict(&[(header::RANGE, range)], size), expected, "{range} of {size}");
        }
    }

    #[test]
    fn tags_compare_strongly_for_if_match_and_weakly_for_if_none_match() {
        use header::{IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};
        for (pairs, expected) in [
            (vec![(IF_MATCH, "\"b\", \"a-1\"")], Verdict::Whole),
            (vec![(IF_MATCH, "*")], Verdict::Whole),
            (vec![(IF_MATCH, "W/\"a-1\"")], Verdict::Failed),
            (vec![(IF_MATCH, "\"b,\\\"a-1\"")], Verdict::Failed),
            (vec![(IF_NONE_MATCH, "W/\"a-1\"")], Verdict::NotModified),
            (vec![(IF_NONE_MATCH, "\"b\"")], Verdict::Whole),
            (vec![(RANGE, "bytes=0-1"), (IF_RANGE, "\"a-1\"")], Verdict::Part { first: 0, end: 2 }),
            (vec![(RANGE, "bytes=0-1"), (IF_RANGE, "\"b\"")], Verdict::Whole),
            (vec![(RANGE, "bytes=0-1"), (IF_RANGE, "W/\"a-1\"")], Verdict::Whole),
        ] {
            assert_eq!(verdict(&pairs, 10), expected, "{pairs:?}");
        }
    }
}
