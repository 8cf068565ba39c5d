//! Finds files that are missing, by the numbers of the others. The sink leaves no number out.

use super::dataset::Found;
use super::file::name_of;
use crate::schema::{file_name, file_number};

/// Most files that are named.
const NAMED: usize = 10;

/// Why a file must be there.
pub const MISSING: &str = "it is missing: there are files with higher numbers";

/// The files that must be there because one with a higher number is, and how many each stands for. Whether the last ones are
/// there, no number says.
pub fn missing(found: &[Found]) -> Vec<(String, u64)> {
    let number = |found: &Found| std::str::from_utf8(name_of(&found.path)).ok().and_then(file_number);
    let mut numbers: Vec<u64> = found.iter().filter_map(number).collect();
    numbers.sort_unstable();
    let (mut named, mut count, mut next) = (Vec::new(), 0, 0);
    for number in numbers {
        count += number - next;
        named.extend((next..number).take(NAMED - named.len()));
        next = number.saturating_add(1);
    }
    let unnamed = count - named.len() as u64;
    let mut missing: Vec<_> = named.into_iter().map(|number| (file_name(number), 1)).collect();
    if let Some((_, count)) = missing.last_mut() {
        *count += unnamed;
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::super::file::Facts;
    use super::*;

    fn missing_beside(numbers: &[u64]) -> Vec<(String, u64)> {
        let path = |number: &u64| format!("/a/{}", file_name(*number)).into_bytes().into();
        let mut found: Vec<_> = numbers.iter().map(|n| Found { path: path(n), facts: Facts::default() }).collect();
        found.push(Found { path: b"/a/other.parquet"[..].into(), facts: Facts::default() });
        missing(&found)
    }

    #[test]
    fn numbers_without_a_file_are_named() {
        assert_eq!(missing_beside(&[]), []);
        assert_eq!(missing_beside(&[0, 1, 2]), []);
        assert_eq!(missing_beside(&[2, 0]), [(file_name(1), 1)]);
        let many = missing_beside(&[0, u64::MAX]);
        assert_eq!((many.len(), &many[9]), (NAMED, &(file_name(10), u64::MAX - 10)));
    }
}
