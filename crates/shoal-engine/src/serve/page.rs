//! One page of a listing as JSON: `{"FileNames":[…],"NextMarker":"…"}`, and `"LeftOut"` on the last one.
//!
//! Not here: which names are on it, and what a marker says (`list.rs`, `marker.rs`).

use super::options::Options;
use bytes::Bytes;
use std::io::Write as _;

/// Bytes after which a page ends before it has all its names. A connection holds one page until its client has read it,
/// so this bounds what clients that do not read can make the service hold.
const PAGE_BYTES: usize = 1024 * 1024;

/// What a listing cannot show, of which its client is told on the last page.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Files with names that are not UTF-8 or too long.
    pub(super) names: u64,
    /// Directories that could not be read, or were not found again.
    pub(super) directories: u64,
}

impl LeftOut {
    /// Of a listing that has gone on in another snapshot: what either has left out, and not the sum, since most of it is
    /// the same.
    pub(super) fn or(self, other: Self) -> Self {
        Self { names: self.names.max(other.names), directories: self.directories.max(other.directories) }
    }
}

/// A page, written as it grows.
pub(super) struct Page<'a> {
    options: &'a Options,
    json: Vec<u8>,
    names: usize,
}

impl<'a> Page<'a> {
    pub(super) fn new(options: &'a Options) -> Self {
        let mut json = Vec::with_capacity(32 * 1024);
        json.push(b'{');
        push_string(&mut json, options.names_field.as_bytes());
        json.extend_from_slice(b":[");
        Self { options, json, names: 0 }
    }

    /// Whether the page takes another name after this one.
    pub(super) fn push(&mut self, name: &[u8]) -> bool {
        if self.names > 0 {
            self.json.push(b',');
        }
        push_string(&mut self.json, name);
        self.names += 1;
        self.names < self.options.page_size && self.json.len() < PAGE_BYTES
    }

    /// The page with the marker of the next one.
    pub(super) fn followed_by(mut self, marker: &str) -> Bytes {
        self.json.extend_from_slice(b"],");
        push_string(&mut self.json, self.options.next_field.as_bytes());
        self.json.push(b':');
        push_string(&mut self.json, marker.as_bytes());
        self.json.push(b'}');
        Bytes::from(self.json)
    }

    /// The last page.
    pub(super) fn last(mut self, left_out: LeftOut) -> Bytes {
        self.json.push(b']');
        if left_out != LeftOut::default() {
            let LeftOut { names, directories } = left_out;
            // Writing to a Vec cannot fail.
            let _ = write!(self.json, r#","LeftOut":{{"Names":{names},"Directories":{directories}}}"#);
        }
        self.json.push(b'}');
        Bytes::from(self.json)
    }
}

/// A JSON string; the text is UTF-8 (names that are not never reach a snapshot).
fn push_string(json: &mut Vec<u8>, text: &[u8]) {
    json.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => json.extend_from_slice(&[b'\\', *byte]),
            0..0x20 | 0x7f => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                json.extend_from_slice(b"\\u00");
                json.push(HEX[usize::from(byte >> 4)]);
                json.push(HEX[usize::from(byte & 15)]);
            }
            _ => json.push(*byte),
        }
    }
    json.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::push_string;

    #[test]
    fn names_are_json_strings_that_parse_back_to_the_same_name() {
        for name in ["plain", "qu\"ote", "back\\slash", "new\nline\u{1b}[31m\u{7f}", "日本語 é"] {
            let mut json = Vec::new();
            push_string(&mut json, name.as_bytes());
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), name);
        }
    }
}
