//! Notes on the numbers of files, and on files that are not finished.

use std::path::Path;

use crate::read::dataset::Found;
use crate::read::file::name_of;
use crate::schema::file_number;

/// Most numbers that a note names.
const NAMED: usize = 10;

/// What a user may want to know of a dataset, although nothing need be wrong.
pub fn notes(directory: &Path, found: &[Found]) -> Vec<String> {
    let number = |found: &Found| std::str::from_utf8(name_of(&found.path)).ok().and_then(file_number);
    let mut numbers: Vec<u64> = found.iter().filter_map(number).collect();
    numbers.sort_unstable();
    let mut notes = Vec::new();
    notes.extend(gaps(&numbers));
    let unfinished = std::fs::read_dir(directory.join(".shoal/tmp")).map_or(0, Iterator::count);
    if unfinished > 0 {
        let files = if unfinished == 1 { "1 file".to_owned() } else { format!("{unfinished} files") };
        notes.push(format!("{files} in .shoal/tmp not finished: run the same copy again to finish it"));
    }
    notes
}

/// A note on numbers that no file has. `numbers` are sorted.
fn gaps(numbers: &[u64]) -> Option<String> {
    let (mut missing, mut named, mut next) = (0, Vec::new(), 0);
    for &number in numbers {
        missing += number - next;
        named.extend((next..number).take(NAMED - named.len().min(NAMED)));
        next = number.saturating_add(1);
    }
    let shown: Vec<_> = named.iter().map(|&number| crate::schema::file_name(number)).collect();
    let more = if missing > named.len() as u64 { " and more" } else { "" };
    (missing > 0).then(|| format!("no file has the number of {}{more}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_file_are_named() {
        assert_eq!(gaps(&[]), None);
        assert_eq!(gaps(&[0, 1, 2]), None);
        let one = "no file has the number of objects-000001.parquet";
        assert_eq!(gaps(&[0, 2]).unwrap(), one);
        assert!(gaps(&[0, u64::MAX]).unwrap().ends_with("objects-000010.parquet and more"));
    }
}
