//! Names of temporary files and of unpublished directories: random, and recognizable by the cleanup.

const PREFIX: &[u8] = b".shoal-";
/// What names begin with that are looked for in another spelling: one letter with an accent, as one character and as two,
/// and one letter in lower and upper case.
pub(super) const SPELLINGS: [[&str; 2]; 2] = [[".shoal-é", ".shoal-e\u{301}"], [".shoal-a", ".SHOAL-A"]];
/// Of files.
const SUFFIX: &[u8] = b".tmp";
/// Of directories of partitions that are not published.
const DIRECTORY_SUFFIX: &[u8] = b".dir";
/// Hexadecimal digits between prefix and suffix: 64 random bits.
const DIGITS: usize = 16;
const LENGTH: usize = PREFIX.len() + DIGITS + SUFFIX.len();

pub(super) type TempName = [u8; LENGTH];

/// A name for a temporary file.
pub(super) fn random_file_name() -> TempName {
    random_name(SUFFIX)
}

/// A name for a directory that is not published yet, or was replaced.
pub(super) fn random_directory_name() -> TempName {
    random_name(DIRECTORY_SUFFIX)
}

fn random_name(suffix: &[u8]) -> TempName {
    let mut name = [0; LENGTH];
    name[..PREFIX.len()].copy_from_slice(PREFIX);
    name[LENGTH - suffix.len()..].copy_from_slice(suffix);
    let number = fastrand::u64(..);
    for (at, digit) in name[PREFIX.len()..][..DIGITS].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * at)) as usize & 15];
    }
    name
}

/// Whether [`random_file_name`] can make this name, or one behind the first of `SPELLINGS`.
pub(super) fn is_file_name(name: &[u8]) -> bool {
    let behind = |[one, _]: [&str; 2]| name.strip_prefix(one.as_bytes());
    [Some(name)].into_iter().chain(SPELLINGS.map(behind)).flatten().any(|name| matches_pattern(name, SUFFIX))
}

/// Whether [`random_directory_name`] can make this name.
pub(super) fn is_directory_name(name: &[u8]) -> bool {
    matches_pattern(name, DIRECTORY_SUFFIX)
}

fn matches_pattern(name: &[u8], suffix: &[u8]) -> bool {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(suffix));
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
            assert!(is_file_name(&random_file_name()) && !is_directory_name(&random_file_name()));
            assert!(is_file_name(&[".shoal-é".as_bytes(), &random_file_name()].concat()));
            assert!(is_directory_name(&random_directory_name()) && !is_file_name(&random_directory_name()));
        }
        for name in ["journal.db", ".shoal-.tmp", ".shoal-0123456789abcdeg.tmp", ".shoal-0123456789abcdef.tmp2", "x"] {
            assert!(!is_file_name(name.as_bytes()), "{name}");
        }
    }
}
