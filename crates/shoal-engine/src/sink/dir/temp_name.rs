//! Names of temporary files: random, and recognizable by the cleanup.

const PREFIX: &[u8] = b".shoal-";
/// What names begin with that are looked for in another spelling: one letter with an accent, as one character and as two,
/// and one letter in lower and upper case.
pub(super) const SPELLINGS: [[&str; 2]; 2] = [[".shoal-é", ".shoal-e\u{301}"], [".shoal-a", ".SHOAL-A"]];
const SUFFIX: &[u8] = b".tmp";
/// Hexadecimal digits between prefix and suffix: 64 random bits.
const DIGITS: usize = 16;
const LENGTH: usize = PREFIX.len() + DIGITS + SUFFIX.len();

pub(super) type TempName = [u8; LENGTH];

/// A name for a temporary file.
pub(super) fn random_file_name() -> TempName {
    let mut name = [0; LENGTH];
    name[..PREFIX.len()].copy_from_slice(PREFIX);
    name[LENGTH - SUFFIX.len()..].copy_from_slice(SUFFIX);
    let number = fastrand::u64(..);
    for (at, digit) in name[PREFIX.len()..][..DIGITS].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * at)) as usize & 15];
    }
    name
}

/// Whether [`random_file_name`] can make this name, or one behind the first of `SPELLINGS`.
pub(super) fn is_file_name(name: &[u8]) -> bool {
    let behind = |[one, _]: [&str; 2]| name.strip_prefix(one.as_bytes());
    [Some(name)].into_iter().chain(SPELLINGS.map(behind)).flatten().any(matches_pattern)
}

fn matches_pattern(name: &[u8]) -> bool {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    digits.is_some_and(|digits| {
        digits.len() == DIGITS && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_own_making_are_removed() {
        for _ in 0..1000 {
            assert!(is_file_name(&random_file_name()));
            assert!(is_file_name(&[".shoal-é".as_bytes(), &random_file_name()].concat()));
        }
        for name in ["journal.db", ".shoal-.tmp", ".shoal-0123456789abcdeg.tmp", ".shoal-0123456789abcdef.tmp2", "x"] {
            assert!(!is_file_name(name.as_bytes()), "{name}");
        }
    }
}
