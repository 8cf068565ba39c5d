//! What a dataset lacks: files that are missing, by the numbers of the others and by what the journal says, and rows that a
//! copy has not written yet. Without its directory `.shoal`, only numbers tell, and none tells that the last files are gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use shoal_engine::journal::{self, Status};
use shoal_engine::sink::SinkState;
use shoal_engine::{Kind, PARTS_DIR, Result, SHOAL_DIR};

use super::dataset::{Found, names};
use super::fault::Fault;
use super::file::{name_of, unreadable};
use crate::schema::{file_name, file_number};
use crate::sink::{is_withdrawn, published_number};

/// Most files that are named.
const NAMED: usize = 10;

/// What a dataset lacks.
#[derive(Debug, Default)]
pub struct Lacking {
    /// Files that must be there, and how many each stands for.
    pub files: Vec<(String, u64)>,
    /// Why rows are missing that no file ever had.
    pub unfinished: Vec<String>,
    /// What cannot be known.
    pub unknown: Option<String>,
}

/// Why a file must be there.
pub const MISSING: &str = "it is missing: there are files with higher numbers, or the journal knows it";

impl Lacking {
    /// Looks at the files that are there and, if there are any, at the journals.
    pub fn of(directory: &Path, found: &[Found]) -> Lacking {
        let mut lacking = Lacking::default();
        let mut ends = BTreeMap::new();
        if let Err(error) = lacking.ask(directory, &mut ends) {
            lacking.unknown =
                Some(format!("it is not known whether the copy into this directory is finished: {error}"));
        }
        match unfinished_files(directory) {
            Ok(unfinished) => lacking.unfinished.extend(unfinished),
            Err(errno) => {
                let why = format!("it is not known whether it has files that are not finished: {}", unreadable(errno));
                lacking.unknown.get_or_insert(why);
            }
        }
        lacking.files = missing(found, &ends);
        lacking
    }

    /// Asks the journals what is finished, and how many files were published in each part.
    fn ask(&mut self, directory: &Path, ends: &mut BTreeMap<Option<u32>, u64>) -> Result<()> {
        if let Some(job) = journal::parts(directory)? {
            let complete = job.parts.iter().filter(|part| part.is_complete()).count();
            if complete < job.count as usize {
                let why = format!("{complete} of {} parts are complete: the rows of the others are missing", job.count);
                self.unfinished.push(why);
            }
            let mut journals = job.parts.iter().filter_map(|part| Some((part.index, part.journal.as_ref()?)));
            return journals.try_for_each(|(part, status)| self.published(Some(part), status, ends));
        }
        let status = match journal::status(directory) {
            Err(error) if error.kind() == Kind::Config => return Ok(()), // there is none
            status => status?,
        };
        if status.runs.iter().any(|run| run.completed_at.is_none()) {
            self.unfinished.push("the copy into this directory is not finished: run it again to finish it".to_owned());
        }
        self.published(None, &status, ends)
    }

    /// Reads how many files a part has published, and whether some of their rows are known to be wrong.
    fn published(&mut self, part: Option<u32>, status: &Status, ends: &mut BTreeMap<Option<u32>, u64>) -> Result<()> {
        let mut is_wrong = false;
        status.each(&mut |key, value| {
            is_wrong |= is_withdrawn(key, value);
            if let Some(number) = published_number(key, value) {
                let end = ends.entry(part).or_default();
                *end = number.saturating_add(1).max(*end);
            }
            Ok(())
        })?;
        if is_wrong {
            let why =
                "rows that are known to be wrong could not be removed yet: run the copy into this directory again";
            self.unfinished.push(why.to_owned());
        }
        Ok(())
    }

    /// All of it as one reason; empty if it lacks nothing.
    pub fn why(&self) -> String {
        let missing = |(file, count): &(String, u64)| match count {
            1 => format!("\"{file}\" is missing"),
            more => format!("\"{file}\" and {} more files are missing", more - 1),
        };
        let reasons: Vec<String> = self.unfinished.iter().cloned().chain(self.files.iter().map(missing)).collect();
        reasons.join("; ")
    }

    /// Why a dataset is a failure, now.
    pub fn fault(directory: &Path, found: &[Found]) -> Fault {
        let why = Lacking::of(directory, found).why();
        match why.is_empty() {
            true => Fault::new(Kind::Archive, "the dataset is complete now, but what was added was not listed"),
            false => Fault::new(Kind::Archive, format!("the dataset is incomplete: {why}")),
        }
    }
}

/// Files that a copy into the directory has not finished: their rows are not part of the dataset yet.
fn unfinished_files(directory: &Path) -> Result<Option<String>, Errno> {
    let own = directory.join(SHOAL_DIR);
    let names = |path: PathBuf| match names(&path) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Vec::new()),
        names => names,
    };
    let mut count = names(own.join("tmp"))?.len();
    for part in names(own.join(PARTS_DIR))? {
        count += names(own.join(PARTS_DIR).join(part).join("tmp"))?.len();
    }
    let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let why = "not finished, and not read: run the copy into this directory again to finish it";
    let place = if own.join(PARTS_DIR).exists() { PARTS_DIR } else { "tmp" };
    Ok((count > 0).then(|| format!("{files} in {SHOAL_DIR}/{place} {why}")))
}

/// The files that must be there because one with a higher number is, or was published (`ends`: how many were, by part). The
/// sink leaves no number out.
fn missing(found: &[Found], ends: &BTreeMap<Option<u32>, u64>) -> Vec<(String, u64)> {
    let number = |found: &Found| std::str::from_utf8(name_of(&found.path)).ok().and_then(file_number);
    let mut numbers: BTreeMap<Option<u32>, Vec<u64>> = ends.keys().map(|part| (*part, Vec::new())).collect();
    for (part, number) in found.iter().filter_map(number) {
        numbers.entry(part).or_default().push(number);
    }
    let (mut named, mut count) = (Vec::new(), 0u64);
    for (part, mut numbers) in numbers {
        numbers.sort_unstable();
        let end = ends.get(&part).copied().unwrap_or(0);
        let mut next = 0;
        for number in numbers.into_iter().chain([end]) {
            count = count.saturating_add(number.saturating_sub(next));
            named.extend((next..number).take(NAMED - named.len()).map(|number| file_name(part, number)));
            next = next.max(number.saturating_add(1));
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
        missing(&found, &BTreeMap::new())
    }

    #[test]
    fn each_part_has_numbers_of_its_own() {
        let found =
            |(part, number)| Found { path: file_name(part, number).into_bytes().into(), facts: Facts::default() };
        let all = [(None, 0), (Some(2), 0), (Some(2), 2), (Some(10), 1), (Some(3), 0)].map(found);
        assert_eq!(missing(&all, &BTreeMap::new()), [(file_name(Some(2), 1), 1), (file_name(Some(10), 0), 1)]);
    }

    #[test]
    fn what_was_published_must_be_there() {
        let found = |number| Found { path: file_name(None, number).into_bytes().into(), facts: Facts::default() };
        let ends = BTreeMap::from([(None, 3), (Some(1), 1)]);
        let lost = [(file_name(None, 2), 1), (file_name(Some(1), 0), 1)];
        assert_eq!(missing(&[found(0), found(1)], &ends), lost);
        assert_eq!(missing(&[found(0), found(1), found(2), found(3)], &ends), lost[1..]);
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
