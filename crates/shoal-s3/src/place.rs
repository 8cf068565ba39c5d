//! Where a listing continues after an interruption: what a cursor holds.
//!
//! A listing is entered behind a key (`start-after`), and must then first show some of the keys that it showed last. If it
//! shows none of them, it is read from its start: stores were seen that skip keys behind such an entry. MinIO lists nothing
//! behind a key that ends in a slash. SeaweedFS leaves out what is below the key. So a listing is entered at a key that
//! ends in no slash, and of which everything below was listed.

use shoal_engine::Cursor;

/// Keys of which one must be shown again: so many may be removed meanwhile.
const SHOWN: usize = 8;
/// Keys among which that one is looked for behind which a listing can be entered.
pub(crate) const WINDOW: usize = 32;
/// The form of a cursor; then the number of ranges that it has.
const VERSION: [u8; 2] = [1, 1];

/// Where a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// `seq` of its first partition.
    pub seq: u64,
    /// The key behind which the listing is entered.
    pub enter: Option<Vec<u8>>,
    /// The last keys before it, in their order.
    pub shown: Vec<Vec<u8>>,
}

impl Place {
    /// The place behind a page with these keys.
    pub fn behind(seq: u64, keys: &[&[u8]]) -> Place {
        let Some((last, before)) = keys.split_last() else { return Place { seq, ..Place::default() } };
        let is_past = |key: &[u8]| key.iter().copied().chain([b'/' + 1]).le(last.iter().copied());
        let is_plain = |key: &[u8]| !key.ends_with(b"/") && key.iter().all(|&byte| byte >= b' ' && byte != 0x7f);
        let enter = before.iter().rposition(|key| is_plain(key) && is_past(key));
        let shown = enter.map_or(&keys[..0], |at| &keys[(at + 1).max(keys.len().saturating_sub(SHOWN))..]);
        Place { seq, enter: enter.map(|at| keys[at].to_vec()), shown: shown.iter().map(|key| key.to_vec()).collect() }
    }

    /// The same, in a listing that no key orders.
    pub fn unordered(seq: u64) -> Place {
        Place { seq, ..Place::default() }
    }

    /// Whether the listing can only be read from its start, and what is before this place be compared.
    pub fn is_from_start(&self) -> bool {
        self.seq > 0 && self.enter.is_none()
    }

    pub fn cursor(&self) -> Cursor {
        let mut bytes = VERSION.to_vec();
        bytes.extend_from_slice(&self.seq.to_le_bytes());
        for key in self.enter.iter().chain(&self.shown) {
            bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
            bytes.extend_from_slice(key);
        }
        Cursor(bytes.into())
    }

    pub fn of(cursor: &Cursor) -> Option<Place> {
        let (seq, mut rest) = cursor.0.strip_prefix(&VERSION)?.split_first_chunk::<8>()?;
        let mut keys = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk::<2>() {
            let (key, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            keys.push(key.to_vec());
            rest = behind;
        }
        let shown = if keys.is_empty() { Vec::new() } else { keys.split_off(1) };
        rest.is_empty().then(|| Place { seq: u64::from_le_bytes(*seq), enter: keys.pop(), shown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(keys: &[&str]) -> (Option<String>, usize) {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let place = Place::behind(3, &keys);
        assert_eq!(Place::of(&place.cursor()), Some(place.clone()));
        (place.enter.map(|key| String::from_utf8(key).unwrap()), place.shown.len())
    }

    #[test]
    fn a_listing_is_entered_at_a_key_of_which_all_below_was_listed() {
        assert_eq!(behind(&["1", "2", "3"]), (Some("2".into()), 1));
        assert_eq!(behind(&["1", "2", "2/x"]), (Some("1".into()), 2), "2/y may follow");
        assert_eq!(behind(&["1", "2/", "2/x"]), (Some("1".into()), 2), "ends in a slash");
        assert_eq!(behind(&["1", "2\n", "3"]), (Some("1".into()), 2), "no store takes it");
        let many: Vec<String> = (0..20).map(|at| format!("d/{at:02}/")).collect();
        let many: Vec<&str> = ["c"].into_iter().chain(many.iter().map(String::as_str)).collect();
        assert_eq!(behind(&many), (Some("c".into()), SHOWN));
    }

    #[test]
    fn without_such_a_key_it_is_listed_from_the_start() {
        for keys in [&["1"][..], &["a", "a/b"], &["a/", "b/"], &[]] {
            assert_eq!(behind(keys), (None, 0));
        }
        assert!(Place::unordered(5).is_from_start() && !Place::default().is_from_start());
        assert_eq!(Place::of(&Cursor(b"\x01\x01short"[..].into())), None);
    }
}
