//! The parts of a job at their destination: what they have in common, and which processes may write there.
//!
//! ```text
//! .shoal/lock, .shoal/writer   shared by all parts that run; a run without parts has them alone
//! .shoal/parts/lock            held for a moment while a part starts
//! .shoal/parts/job             the number of parts, the source, the options
//! .shoal/parts/3/              journal, lock, ballast, clock and temporary files of part 3
//! ```
//!
//! A destination has one job in parts or runs without parts, never both: whichever begins second is refused. Both look for
//! the other under the same locks, so two that begin at once cannot both be the first. Not here: the journal of a part,
//! which is like any other, and how a source is divided (`source/part.rs`).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use super::files::Files;
use super::open::{differences, refuse_directories};
use super::options::{PART, RunKey};
use super::status::{self, RunStatus, Status};
use crate::display::{count as shown, escape};
use crate::error::{Error, Kind, Result};
use crate::fs::lock::{Lock, Owner};
use crate::fs::private::PrivateDir;
use crate::name::{JOB, PARTS_DIR};
use crate::part::{Part, Seen};
use crate::report::{Counts, Skips};

/// The version of the file `job`, and of the way in which names are divided.
const FORMAT: u64 = 1;
/// How many groups of parts that have seen less usual listings are named.
const SHOWN: usize = 3;
/// The locks of `.shoal`: of a journal there, and of a run that writes there wherever its journal is.
const LOCKS: [&str; 2] = ["lock", "writer"];

/// Held by a part while it runs: no run without parts begins meanwhile.
pub struct Membership {
    _shared: [Lock; 2],
}

impl Membership {
    /// Joins a job in parts at this destination, or begins it. Creates the destination.
    ///
    /// # Errors
    /// [`Kind::JournalMismatch`] for another number of parts, another source or other options than those of the parts
    /// that began before; [`Kind::Config`] if runs without parts have written here; [`Kind::JournalLocked`] if one does.
    pub fn join(destination: &Path, part: Part, key: &RunKey) -> Result<Membership> {
        let private = PrivateDir::create(destination)?;
        let [journal, writer] = LOCKS.map(|name| Lock::share(&private, OsStr::new(name)));
        let shared = [journal?, writer?];
        let parts = private.create_in(PARTS_DIR.as_ref())?;
        let _moment = Lock::take_for_a_moment(&parts, OsStr::new("lock"))?;
        if !check(destination, &private, part, key)?
            && !parts.create_whole(JOB.as_ref(), Job::new(part, key).text().as_bytes())?
        {
            check(destination, &private, part, key)?; // another machine was faster, and this one sees it now
        }
        Ok(Membership { _shared: shared })
    }

    /// Checks that a part may begin here, without locks and without writing, for a dry run.
    ///
    /// # Errors
    /// As [`Membership::join`].
    pub fn look(destination: &Path, part: Part, key: &RunKey) -> Result<()> {
        match PrivateDir::open(destination)? {
            Some(private) => check(destination, &private, part, key).map(drop),
            None => Ok(()),
        }
    }
}

/// Checks that a part may begin here. Returns whether the job has begun.
fn check(destination: &Path, private: &PrivateDir, part: Part, key: &RunKey) -> Result<bool> {
    let shown = escape(destination.as_os_str().as_bytes());
    let new = Job::new(part, key);
    if let Some(old) = Job::read(private)? {
        refuse_directories(&old.options).map_err(|error| error.on(&shown))?;
        let differences = old.differences(&new);
        if differences.is_empty() {
            return Ok(true);
        }
        let why = format!("the parts at this destination belong to another job: {}", differences.join(", "));
        return Err(Error::new(Kind::JournalMismatch, why).on(&shown).hint(format!(
            "use the same source, options and number of parts for all parts, or choose another destination; if the \
                other job was a mistake and has written nothing, remove \"{}\"",
            escape(private.path().join(PARTS_DIR).as_os_str().as_bytes())
        )));
    }
    // A run that was killed before it began has a journal without runs.
    let has_journal = private.has_file(OsStr::new("journal.db"))? && !status::status(destination)?.runs.is_empty();
    // Those that share this lock leave the file empty.
    let has_written = private.read(OsStr::new(LOCKS[1]))?.is_some_and(|text| !text.is_empty());
    if has_journal || has_written {
        let why = "a run without `part` has written to this destination, which therefore cannot be written in parts";
        return Err(Error::new(Kind::Config, why).on(&shown).hint("leave out `part`, or choose another destination"));
    }
    Ok(false)
}

/// What the parts of a job have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    parts: u32,
    source: String,
    options: Vec<(String, String)>,
}

impl Job {
    fn new(part: Part, key: &RunKey) -> Job {
        Job { parts: part.count(), source: key.source.clone(), options: key.options.clone() }
    }

    /// The job at a destination with this `.shoal`.
    fn read(private: &PrivateDir) -> Result<Option<Job>> {
        let Some(parts) = private.open_in(PARTS_DIR.as_ref())? else { return Ok(None) };
        let Some(text) = parts.read(JOB.as_ref())? else { return Ok(None) };
        let path = escape(parts.path().join(JOB).as_os_str().as_bytes());
        Job::parse(&text).map(Some).map_err(|why| {
            Error::new(Kind::Journal, format!("cannot be understood: {why}"))
                .on(&path)
                .hint("restore it, or copy to another destination")
        })
    }

    fn text(&self) -> String {
        let Job { parts, source, options } = self;
        json!({"format": FORMAT, "parts": parts, "source": source, "options": options}).to_string()
    }

    fn parse(text: &[u8]) -> Result<Job, &'static str> {
        let job: Value = serde_json::from_slice(text).map_err(|_| "it is damaged")?;
        match job["format"].as_u64() {
            Some(FORMAT) => {}
            Some(_) => return Err("another version of shoal has written it"),
            None => return Err("it is damaged"),
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let option = |pair: &Value| Some((text(&pair[0])?, text(&pair[1])?));
        let read = || {
            let parts = job["parts"].as_u64().and_then(|parts| u32::try_from(parts).ok()).filter(|parts| *parts > 0)?;
            let options = job["options"].as_array()?.iter().map(option).collect::<Option<_>>()?;
            Some(Job { parts, source: text(&job["source"])?, options })
        };
        read().ok_or("it is damaged")
    }

    /// How another job differs, as `name: old -> new`.
    fn differences(&self, new: &Job) -> Vec<String> {
        let all = |job: &Job| {
            let own = [("parts".to_owned(), job.parts.to_string()), ("source".to_owned(), job.source.clone())];
            own.into_iter().chain(job.options.iter().cloned()).collect::<Vec<_>>()
        };
        differences(&all(self), &all(new))
    }
}

/// The parts of a job, as their journals say.
pub struct Parts {
    /// The number of parts.
    pub count: u32,
    /// `Source::identity`.
    pub source: String,
    /// Options that change the result.
    pub options: Vec<(String, String)>,
    /// Each part, in order.
    pub parts: Vec<PartStatus>,
}

/// One part of a job.
pub struct PartStatus {
    /// Its number.
    pub index: u32,
    /// The process that works on it now.
    pub owner: Option<Owner>,
    /// Its journal, with one run. `None` if it has not begun, or if only the process that works on it can read it.
    pub journal: Option<Status>,
}

impl PartStatus {
    /// Whether it has been completed, and nothing works on it.
    pub fn is_complete(&self) -> bool {
        let completed = |status: &Status| status.runs.iter().all(|run| run.completed_at.is_some());
        self.owner.is_none() && self.journal.as_ref().is_some_and(completed)
    }
}

/// How the listings of parts differ, where they should not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    why: String,
    /// Some parts have seen nothing, others something. This is never accepted.
    pub is_empty: bool,
    /// Some parts have not been updated, or restarted, like the others.
    is_behind: bool,
}

impl Difference {
    /// The parts with these numbers have completed such a pass over the source and seen this.
    fn of(count: u32, seen: &[(u32, u64, Seen)]) -> Option<Difference> {
        let is_empty = seen.iter().any(|(.., seen)| seen.count == 0) && seen.iter().any(|(.., seen)| seen.count > 0);
        // A source may change from pass to pass, but what has been empty is compared with every pass.
        let passes: BTreeSet<_> = seen.iter().map(|(_, pass, _)| *pass).collect();
        let groups = match is_empty {
            true => groups(seen.iter()),
            false => passes
                .into_iter()
                .rev()
                .map(|pass| groups(seen.iter().filter(|(_, of, _)| *of == pass)))
                .find(|groups| groups.len() > 1)?,
        };
        let ((most, usual), others) = groups.split_first()?;
        let text = |group: &[u32], seen: &Seen| {
            let other = if seen.count == most.count && seen != most { "other " } else { "" };
            format!("{} saw {} {other}names", named(group), shown(seen.count))
        };
        let mut texts: Vec<_> = others.iter().take(SHOWN).map(|(seen, group)| text(group, seen)).collect();
        if others.len() > SHOWN {
            texts.push("others saw still others".to_owned());
        }
        texts.push(text(usual, most));
        let why = format!("the {count} parts have listed different names: {}", texts.join(", "));
        Some(Difference { why, is_empty, is_behind: false })
    }

    /// What a user reads.
    pub fn to_error(&self) -> Error {
        let check = "check that the source is there and the same on every machine, and run the parts that saw less again \
            with `resume=\"relist\"`";
        let hint = match self.is_empty {
            true => check.to_owned(),
            false if self.is_behind => {
                "run the others in the same way; `allow_different_listings` accepts them".to_owned()
            }
            false => format!("{check}; `allow_different_listings` accepts a source that changes meanwhile"),
        };
        Error::new(Kind::DifferentListings, self.why.clone()).hint(hint)
    }
}

/// The parts that have seen the same, the most first.
fn groups<'s>(seen: impl Iterator<Item = &'s (u32, u64, Seen)>) -> Vec<(Seen, Vec<u32>)> {
    let mut groups: Vec<(Seen, Vec<u32>)> = Vec::new();
    for (index, _, seen) in seen {
        match groups.iter_mut().find(|(same, _)| same == seen) {
            Some((_, group)) => group.push(*index),
            None => groups.push((*seen, vec![*index])),
        }
    }
    groups.sort_by_key(|(_, group)| Reverse(group.len()));
    groups
}

/// `part 2`, `parts 0-3, 7`.
fn named(indexes: &[u32]) -> String {
    let ranges = indexes.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    format!("part{} {}", if indexes.len() > 1 { "s" } else { "" }, ranges.collect::<Vec<_>>().join(", "))
}

/// How the listings of the parts that are complete now differ. Does not read the journals of those that are running.
///
/// # Errors
/// As [`parts`].
pub fn difference(destination: &Path) -> Result<Option<Difference>> {
    Ok(read(destination, false)?.and_then(|parts| parts.listings()))
}

/// What all parts together have counted; `None` while one is not complete.
///
/// # Errors
/// As [`parts`].
pub fn sums(destination: &Path) -> Result<Option<(Counts, Skips)>> {
    let Some(parts) = read(destination, false)? else { return Ok(None) };
    let (mut total, mut skips) = (Counts::default(), Skips::default());
    for part in &parts.parts {
        let run = part.journal.as_ref().and_then(|journal| journal.runs.first());
        let Some(run) = run.filter(|_| part.is_complete()) else { return Ok(None) };
        total.listed += run.totals.listed;
        skips.join(&run.skips);
    }
    Ok((parts.parts.len() == parts.count as usize).then_some((total, skips)))
}

/// The numbers of the oldest and the newest pass over the source that parts have begun.
///
/// # Errors
/// As [`parts`].
pub(super) fn passes(destination: &Path) -> Result<(u64, u64)> {
    let parts = read(destination, true)?;
    let runs = parts.iter().flat_map(|parts| &parts.parts).filter_map(|part| part.journal.as_ref()?.runs.first());
    let passes: Vec<_> = runs.map(|run| run.passes).collect();
    Ok((passes.iter().min().copied().unwrap_or(0), passes.iter().max().copied().unwrap_or(0)))
}

impl Parts {
    /// How the parts that are complete differ: in what they have listed, or because some were not updated like the others.
    pub fn difference(&self) -> Option<Difference> {
        self.listings().or_else(|| {
            let complete = self.parts.iter().filter(|part| part.is_complete());
            let pass = |part: &PartStatus| Some((part.journal.as_ref()?.runs.first()?.passes, part.index));
            let passes: Vec<(u64, u32)> = complete.filter_map(pass).collect();
            let newest = passes.iter().map(|(pass, _)| *pass).max()?;
            let (new, old): (Vec<_>, Vec<_>) = passes.iter().partition(|(pass, _)| *pass == newest);
            let indexes = |of: Vec<(u64, u32)>| named(&of.into_iter().map(|(_, index)| index).collect::<Vec<_>>());
            (!old.is_empty()).then(|| Difference {
                why: format!("{} went through the source again after {}", indexes(new), indexes(old)),
                is_empty: false,
                is_behind: true,
            })
        })
    }

    /// How the listings of the parts that are complete differ. A source may change from pass to pass.
    fn listings(&self) -> Option<Difference> {
        let complete = self.parts.iter().filter(|part| part.is_complete());
        let seen = complete.filter_map(|part| {
            let run = part.journal.as_ref()?.runs.first()?;
            Some((part.index, run.passes, run.seen))
        });
        Difference::of(self.count, &seen.collect::<Vec<_>>())
    }
}

/// Reads the journals of a destination that is written in parts. `None` if it is not.
///
/// # Errors
/// As [`status`](super::status()), for any of the parts.
pub fn parts(destination: &Path) -> Result<Option<Parts>> {
    read(destination, true)
}

/// `running`: also the journals of parts that are running.
fn read(destination: &Path, running: bool) -> Result<Option<Parts>> {
    if !crate::fs::private::is_directory(destination) {
        return Ok(None);
    }
    let Some(private) = PrivateDir::open(destination)? else { return Ok(None) };
    let Some(Job { parts: count, source, options }) = Job::read(&private)? else { return Ok(None) };
    let part = |index| {
        let part = Part::new(index, count)?;
        let Some(files) = Files::find_part(destination, index)? else {
            return Ok(PartStatus { index, owner: None, journal: None });
        };
        let owner = files.holder()?;
        if owner.is_some() && !running {
            return Ok(PartStatus { index, owner, journal: None });
        }
        let shown = files.shown();
        let is_other =
            |run: &RunStatus| run.options.iter().all(|(name, value)| name != PART || *value != part.to_string());
        let journal = match status::read(files) {
            Ok(journal) if journal.runs.iter().any(is_other) => {
                return Err(
                    Error::new(Kind::Journal, format!("is not that of part {part}, as its job says")).on(&shown)
                );
            }
            Ok(journal) => Some(journal).filter(|journal| !journal.runs.is_empty()),
            // Only its own process can read it on this file system: of this part is known that it is running.
            Err(error) if error.kind() == Kind::JournalLocked => None,
            Err(error) => return Err(error),
        };
        Ok(PartStatus { index, owner, journal })
    };
    let parts = (0..count).map(part).collect::<Result<_>>()?;
    Ok(Some(Parts { count, source, options, parts }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let options = vec![("layout".to_owned(), "names".to_owned()), ("include".to_owned(), "[\"a\"]".to_owned())];
        Job { parts: 16, source: "/data".to_owned(), options }
    }

    #[test]
    fn a_job_is_read_as_it_was_written() {
        assert_eq!(Job::parse(job().text().as_bytes()), Ok(job()));
        let zero = Job { parts: 0, ..job() }.text();
        let later = job().text().replace("\"format\":1", "\"format\":2");
        for damaged in ["", "{}", "[]", "null", "{\"format\":1}", &zero, &later, &job().text()[1..]] {
            assert!(Job::parse(damaged.as_bytes()).is_err(), "{damaged}");
        }
    }

    #[test]
    fn listings_of_one_pass_are_compared_and_an_empty_one_with_those_of_all_passes() {
        let saw = |count| Seen { count, sum: count * 7 };
        let why = |seen: &[(u32, u64, Seen)]| Difference::of(9, seen).map(|found| (found.why, found.is_empty));
        let same = [(0, 0, saw(1000)), (1, 0, saw(1000)), (3, 1, saw(1100)), (4, 1, saw(1100))];
        assert_eq!(why(&same), None);
        assert_eq!(why(&[(0, 0, saw(0)), (1, 1, saw(0))]), None);
        let text = |what: &str, is_empty| Some((format!("the 9 parts have listed different names: {what}"), is_empty));
        let later = [&same[..], &[(5, 1, saw(1000)), (8, 2, saw(7))]].concat();
        assert_eq!(why(&later), text("part 5 saw 1,000 names, parts 3-4 saw 1,100 names", false));
        let empty = [&same[..2], &[(2, 3, saw(0))]].concat();
        assert_eq!(why(&empty), text("part 2 saw 0 names, parts 0-1 saw 1,000 names", true));
        let other = [(0, 0, saw(5)), (1, 0, Seen { count: 5, sum: 1 }), (7, 0, saw(5))];
        assert_eq!(why(&other), text("part 1 saw 5 other names, parts 0, 7 saw 5 names", false));
        let all: Vec<_> = (0..9).map(|index| (index, 0, saw(u64::from(index) + 1))).collect();
        assert!(why(&all).unwrap().0.ends_with("part 3 saw 4 names, others saw still others, part 0 saw 1 names"));
    }

    #[test]
    fn what_differs_is_named() {
        let other = Job { parts: 8, source: "/other".to_owned(), ..job() };
        assert_eq!(job().differences(&other), ["parts: 16 -> 8", "source: /data -> /other"]);
        assert!(job().differences(&job()).is_empty());
    }
}
