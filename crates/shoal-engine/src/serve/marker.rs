//! The markers of a directory's listing: seven fields in hexadecimal with dots between them,
//! `INSTANCE.SNAPSHOT.PLACE.ROOT.NAMES.DIRECTORIES.NAME`.
//!
//! The first three are a place in a snapshot of this service. The others let a restarted service, or one that has dropped
//! the snapshot, continue in a newer one: in the same directory, behind the last name, and without forgetting what the
//! snapshot so far has left out.
//! Not here: markers of synthetic objects, which are the index of the next one (`list.rs`).

use super::page::LeftOut;
use std::fmt::Write as _;

/// What a snapshot is known by outside: the service that took it, and its number there.
pub(super) type Identity = (u64, u64);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) identity: Identity,
    /// Bytes of the snapshot before the next name.
    pub(super) place: u64,
    /// Which directory it is of (`Directory::identity`).
    pub(super) root: u64,
    /// What this listing has left out so far.
    pub(super) left_out: LeftOut,
    /// The last name that was given.
    pub(super) name: Vec<u8>,
}

impl Marker {
    pub(super) fn text(&self) -> String {
        let ((instance, number), LeftOut { names, directories }) = (self.identity, self.left_out);
        let (place, root) = (self.place, self.root);
        let mut text = format!("{instance:x}.{number:x}.{place:x}.{root:x}.{names:x}.{directories:x}.");
        for byte in &self.name {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (instance, snapshot, place, root) = (number()?, number()?, number()?, number()?);
        let left_out = LeftOut { names: number()?, directories: number()? };
        let digits = parts.next()?.as_bytes();
        if parts.next().is_some() || digits.len() % 2 != 0 {
            return None;
        }
        let value = |digit: u8| char::from(digit).to_digit(16);
        let name = digits
            .chunks_exact(2)
            .map(|pair| Some((value(pair[0])? * 16 + value(pair[1])?) as u8))
            .collect::<Option<Vec<u8>>>()?;
        Some(Self { identity: (instance, snapshot), place, root, left_out, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_reads_back_as_it_was_written() {
        let left_out = LeftOut { names: 3, directories: u64::MAX };
        let marker = Marker { identity: (u64::MAX, 7), place: 9, root: 11, left_out, name: b"a/\x01\xff".to_vec() };
        assert_eq!(Marker::parse(&marker.text()), Some(marker));
        for bad in ["", "x", "1.2.3.4.5.6", "1.2.3.4.5.6.7", "1.2.3.4.5.6.zz", "1.2.3.4.5.6.44.5", "1..3.4.5.6.44"] {
            assert_eq!(Marker::parse(bad), None, "{bad}");
        }
    }
}
