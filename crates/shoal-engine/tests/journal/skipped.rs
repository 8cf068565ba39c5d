//! What was left out without being asked for: its names, and the counts by reason.

use std::path::Path;

use shoal_engine::journal::{Commit, Done, Durable, NAMES_MAX, OpenOptions, Retried, RunStatus, Settled, status};
use shoal_engine::options::Resume;
use shoal_engine::{Reason, Skipped};

use crate::damage::execute;
use crate::{commit, done, failed, fast_dir, fold, open, open_with};

/// A partition of ten objects, of which these were left out, and as many filtered.
fn leaving_out(seq: u64, names: &[(&str, Reason)]) -> Done {
    let left_out = names.iter().map(|(name, reason)| Skipped { name: name.as_bytes().into(), reason: *reason });
    let count = names.len() as u64;
    let skips = names.iter().map(|(_, reason)| (*reason, 1)).chain([(Reason::Filtered, count)]).collect();
    Done { skips, left_out: left_out.collect(), written: 10 - 2 * count, ..done(seq, vec![]) }
}

fn looked_at(dir: &Path, limit: usize) -> (RunStatus, Vec<(String, Reason)>) {
    let seen = status(dir).unwrap();
    let names = seen.skipped(&seen.runs[0], limit).unwrap().into_iter();
    let names = names.map(|one| (String::from_utf8_lossy(&one.name).into_owned(), one.reason)).collect();
    (seen.runs.into_iter().next().unwrap(), names)
}

fn names(dir: &Path) -> Vec<String> {
    looked_at(dir, usize::MAX).1.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn what_was_left_out_is_listed_with_its_reason_and_counted() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let first = leaving_out(0, &[("a", Reason::Link), ("b", Reason::Duplicate)]);
    let second = leaving_out(2, &[("\u{1b}", Reason::Pipe)]);
    journal.commit(&Commit { done: vec![second, first], fold: fold(1), ..Commit::default() }, Durable::All).unwrap();
    drop(journal);
    let (journal, resume) = open(dir.path());
    assert_eq!(resume.totals.skipped, 6);
    let (run, listed) = looked_at(dir.path(), usize::MAX);
    let expected = [("a", Reason::Link), ("b", Reason::Duplicate), ("\u{1b}", Reason::Pipe)];
    assert_eq!(listed, expected.map(|(name, reason)| (name.to_owned(), reason)));
    assert_eq!(looked_at(dir.path(), 1).1.len(), 1);
    let counts: Vec<_> = run.skips.iter().collect();
    assert_eq!(counts, [(Reason::Filtered, 3), (Reason::Duplicate, 1), (Reason::Link, 1), (Reason::Pipe, 1)]);
    assert_eq!((run.totals, run.skips.listed()), (journal.totals(), 3));
}

#[test]
fn a_partition_done_again_has_its_names_once() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    for again in [leaving_out(1, &[("a", Reason::Link), ("b", Reason::Link)]), leaving_out(1, &[("b", Reason::Pipe)])] {
        journal.commit(&commit(vec![again, leaving_out(3, &[("c", Reason::Socket)])]), Durable::All).unwrap();
    }
    assert_eq!(names(dir.path()), ["b", "c"]);
    journal.commit(&commit(vec![done(1, vec![])]), Durable::All).unwrap();
    assert_eq!(names(dir.path()), ["c"]);
    // A partition of which the row was lost is done again too.
    drop(journal);
    execute(dir.path(), "UPDATE done SET skipped = '{}' WHERE seq = 3");
    let (mut journal, _) = open(dir.path());
    assert_eq!(names(dir.path()), [""; 0]);
    journal.commit(&commit(vec![leaving_out(3, &[("c", Reason::Socket)])]), Durable::All).unwrap();
    assert_eq!(names(dir.path()), ["c"]);
    drop(journal);
    drop(open_with(dir.path(), &OpenOptions { resume: Resume::Restart, ..OpenOptions::default() }).unwrap());
    let (run, listed) = looked_at(dir.path(), 9);
    assert_eq!((run.skips.total(), listed.len()), (0, 0));
}

#[test]
fn what_a_later_try_left_out_is_listed_too() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let failures = |seq| vec![failed("x", Some(1)), failed(&format!("y{seq}"), Some(1)), failed("y", Some(1))];
    let done = vec![done(0, failures(0)), done(1, failures(1))];
    journal.commit(&Commit { done, fold: fold(1), ..Commit::default() }, Durable::All).unwrap();
    let answer = |locator: &str, settled| Retried { locator: locator.as_bytes().into(), seq: 0, outcome: Ok(settled) };
    let retried = vec![
        answer("x", Settled::Written { bytes: 1, kept: false }),
        answer("y0", Settled::Skipped(Reason::Vanished)),
        answer("y1", Settled::Written { bytes: 1, kept: true }),
        answer("y", Settled::Skipped(Reason::Vanished)),
    ];
    journal.commit(&Commit { retried, ..Commit::default() }, Durable::All).unwrap();
    drop(journal);
    drop(open(dir.path()));
    let (run, listed) = looked_at(dir.path(), 9);
    let expected =
        [("y0", Reason::Vanished), ("y", Reason::Vanished), ("x", Reason::Duplicate), ("y", Reason::Vanished)];
    assert_eq!(listed, expected.map(|(name, reason)| (format!("name of {name}"), reason)));
    assert_eq!((run.skips.of(Reason::Kept), run.skips.total(), run.totals.written), (1, 4, 16));
}

#[test]
fn no_more_than_so_many_names_are_kept_and_the_rest_is_counted() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let many = |seq, count: u64| {
        let left_out = (0..count).map(|n| Skipped { name: n.to_string().as_bytes().into(), reason: Reason::Link });
        let skips = [(Reason::Link, count)].into_iter().collect();
        Done { listed: count, written: 0, bytes: 0, skips, left_out: left_out.collect(), ..done(seq, vec![]) }
    };
    journal.commit(&commit(vec![many(0, NAMES_MAX - 1)]), Durable::All).unwrap();
    drop(journal);
    let (mut journal, _) = open(dir.path());
    journal.commit(&Commit { done: vec![many(1, 3)], fold: fold(2), ..Commit::default() }, Durable::All).unwrap();
    journal.commit(&commit(vec![many(2, 4)]), Durable::All).unwrap();
    let (run, listed) = looked_at(dir.path(), usize::MAX);
    assert_eq!((listed.len() as u64, run.skips.of(Reason::Link)), (NAMES_MAX, NAMES_MAX + 6));
}

#[test]
fn a_damaged_name_is_not_shown_and_harms_no_run() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let left_out = [("a", Reason::Link), ("b", Reason::Link), ("c", Reason::Link)];
    journal.commit(&commit(vec![leaving_out(0, &left_out)]), Durable::All).unwrap();
    drop(journal);
    for change in ["name = x'00' WHERE id = 1", "reason = 'pipe' WHERE id = 3"] {
        execute(dir.path(), &format!("UPDATE skipped SET {change}"));
    }
    let (_journal, resume) = open(dir.path());
    assert_eq!((resume.totals.skipped, resume.notes.len()), (6, 0));
    let (run, listed) = looked_at(dir.path(), usize::MAX);
    assert_eq!((listed, run.skips.listed()), (vec![("b".to_owned(), Reason::Link)], 3));
}
