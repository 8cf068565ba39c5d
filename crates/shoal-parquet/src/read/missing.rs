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
    let mut numbers: Vec<(Option<u32>, u64)> = found.iter().filter_map(number).collect();
    numbers.sort_unstable();
    let (mut named, mut count) = (Vec::new(), 0u64);
    for of_part in numbers.chunk_by(|(one, _), (other, _)| one == other) {
        let mut next = 0;
        for &(part, number) in of_part {
            count = count.saturating_add(number - next);
            named.extend((next..number).take(NAMED - named.len()).map(|number| file_name(part, number)));
            next = number.saturating_add(1);
        }
    }
    let unnamed = count - named.len() as u64;
    let mut missing: Vec<_> = named.into_iter().map(|name| (name, 1)).collect();
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
        let path = |number: &u64| format!("/a/{}", file_name(None, *number)).into_bytes().into();
        let mut found: Vec<_> = numbers.iter().map(|n| Found { path: path(n), facts: Facts::default() }).collect();
        found.push(Found { path: b"/a/other.parquet"[..].into(), facts: Facts::default() });
        missing(&found)
    }

    #[test]
    fn each_part_has_numbers_of_its_own() {
        let found =
            |(part, number)| Found { path: file_name(part, number).into_bytes().into(), facts: Facts::default() };
        let all = [(None, 0), (Some(2), 0), (Some(2), 2), (Some(10), 1), (Some(3), 0)].map(found);
        assert_eq!(missing(&all), [(file_name(Some(2), 1), 1), (file_name(Some(10), 0), 1)]);
    }

    #[test]
    fn numbers_without_a_file_are_named() {
        assert_eq!(missing_beside(&[]), []);
        assert_eq!(missing_beside(&[0, 1, 2]), []);
        assert_eq!(missing_beside(&[2, 0]), [(file_name(None, 1), 1)]);
        let many = missing_beside(&[0, u64::MAX]);
        assert_eq!((many.len(), &many[9]), (NAMED, &(file_name(None, 10), u64::MAX - 10)));
    }
}
