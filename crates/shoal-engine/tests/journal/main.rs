//! The journal's promises: what was committed is there after any end of the process, and nothing else is.
//!
//! Here: fixtures, resume, partitions done again, options. Elsewhere: `sessions.rs`, `deferred.rs`, `files.rs` (places, links, locks, full
//! disks), `damage.rs` (cut and flipped bytes), `learnt.rs`, `skipped.rs`, `state.rs`, `status.rs`, `model.rs` (random operations against a
//! dictionary).

mod damage;
mod deferred;
mod files;
mod learnt;
mod model;
mod sessions;
mod skipped;
mod state;
mod status;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use shoal_engine::journal::{
    Commit, Done, Durable, Failed, Fold, Journal, Location, MARK_ALL, Machine, OpenOptions, RunKey, Standing,
};
use shoal_engine::options::Resume;
use shoal_engine::{Counts, Cursor, Error, Key, Kind, Reason, Skips};
use tempfile::TempDir;

/// A directory in memory where there is one, so that a thousand syncs take no time.
fn fast_dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn run_key() -> RunKey {
    RunKey {
        source: "http://127.0.0.1:8080".to_owned(),
        options: vec![("layout".to_owned(), "names".to_owned()), ("cut".to_owned(), "100".to_owned())],
        secrets: Vec::new(),
    }
}

fn open(dir: &Path) -> (Journal, Standing) {
    open_with(dir, &OpenOptions::default()).unwrap()
}

fn open_with(dir: &Path, options: &OpenOptions) -> Result<(Journal, Standing), Error> {
    Journal::open(&Location::Directory(dir.to_owned()), &run_key(), options)
}

/// `Journal` shows nothing of itself, so `unwrap_err` cannot be used.
fn refused(result: Result<(Journal, Standing), Error>) -> Error {
    match result {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    }
}

fn key_of(seq: u64) -> Key {
    Key::of([&seq.to_le_bytes()[..]])
}

/// The key of all partitions below `frontier`.
fn chain_to(frontier: u64) -> Key {
    (0..frontier).fold(Key::default(), |chain, seq| chain.chain(key_of(seq)))
}

/// So many that were filtered.
fn skips(count: u64) -> Skips {
    [(Reason::Filtered, count)].into_iter().collect()
}

/// A partition of ten objects of 7 bytes, all written but those that failed.
fn done(seq: u64, failures: Vec<Failed>) -> Done {
    let written = 10 - failures.len() as u64;
    Done { seq, key: key_of(seq), listed: 10, written, bytes: 7 * written, failures, ..Done::default() }
}

fn failed(locator: &str, due_ms: Option<u64>) -> Failed {
    Failed {
        locator: locator.as_bytes().into(),
        name: format!("name of {locator}").into_bytes().into(),
        kind: Kind::Timeout.as_str(),
        reason: "nothing came for 30 s".to_owned(),
        tries: 3,
        tried_ms: 90_000,
        due_ms,
    }
}

fn fold(frontier: u64) -> Option<Fold> {
    let cursor = Cursor(format!("token {frontier}").into_bytes().into());
    Some(Fold { frontier, cursor, chain: chain_to(frontier) })
}

fn commit(done: Vec<Done>) -> Commit {
    Commit { done, ..Commit::default() }
}

#[test]
fn a_new_journal_starts_at_the_beginning() {
    let dir = fast_dir();
    let (_journal, resume) = open(dir.path());
    assert_eq!((resume.frontier, resume.mark, resume.cursor), (0, 0, None));
    assert_eq!(resume.totals, Counts::default());
    assert_eq!(resume.completed_at, None);
    assert!(resume.sessions.is_empty() && resume.done.is_empty() && resume.notes.is_empty());
}

#[test]
fn what_was_committed_is_resumed() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal.begin_session(Some(-5), false).unwrap();
    journal.mark(8).unwrap();
    let first = Commit {
        done: vec![done(0, vec![]), done(1, vec![failed("a", None)]), done(4, vec![failed("b", Some(9))])],
        fold: fold(2),
        ..Commit::default()
    };
    journal.commit(&first, Durable::All).unwrap();
    journal.commit(&commit(vec![done(6, vec![])]), Durable::All).unwrap();
    let totals = journal.totals();
    drop(journal);

    let (mut journal, resume) = open(dir.path());
    journal.begin_session(Some(77), false).unwrap();
    assert_eq!(resume.frontier, 2);
    assert_eq!(resume.cursor, Some(Cursor(b"token 2".as_slice().into())));
    assert_eq!(resume.chain, chain_to(2));
    assert_eq!(resume.done, [(4, key_of(4)), (6, key_of(6))].into());
    assert_eq!((resume.mark, resume.sessions[0].low, resume.deferred), (8, -5, 1));
    let expected = Counts { listed: 40, written: 38, failed: 1, unfinished: 1, bytes: 266, skipped: 0 };
    assert_eq!(resume.totals, expected);
    assert_eq!(totals, expected);
    assert_eq!(journal.committed(4), Some(key_of(4)));
    assert_eq!(journal.committed(5), None);
    assert_eq!(open_rows(dir.path(), journal, "done"), 2, "partitions behind the frontier are one row");
}

/// How many rows a table has, once the journal is closed.
fn open_rows(dir: &Path, journal: Journal, table: &str) -> i64 {
    drop(journal);
    let database = rusqlite::Connection::open(dir.join(".shoal/journal.db")).unwrap();
    database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn a_partition_done_again_replaces_its_counts_and_failures() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let before = vec![failed("a", None), failed("b", Some(5)), failed("c", None)];
    journal.commit(&commit(vec![done(3, before), done(4, vec![failed("x", None)])]), Durable::All).unwrap();
    let again =
        Done { key: Key(99), listed: 4, written: 2, skips: skips(1), bytes: 50, ..done(3, vec![failed("d", None); 1]) };
    for _ in 0..2 {
        journal.commit(&commit(vec![again.clone()]), Durable::All).unwrap();
        let expected = Counts { listed: 14, written: 11, skipped: 1, failed: 2, unfinished: 0, bytes: 113 };
        assert_eq!(journal.totals(), expected);
    }
    let names: Vec<_> = journal.failures(10).map(|failure| failure.unwrap().name).collect();
    assert_eq!(names, [b"name of x".as_slice().into(), b"name of d".as_slice().into()] as [Box<[u8]>; 2]);
    drop(journal);
    let (journal, resume) = open(dir.path());
    assert_eq!(resume.done[&3], Key(99));
    assert_eq!(resume.totals, journal.totals());
    assert_eq!(journal.deferred(), 0);
}

#[test]
fn a_commit_that_makes_no_sense_leaves_nothing_behind() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal
        .commit(
            &Commit { done: vec![done(0, vec![]), done(1, vec![])], fold: fold(1), ..Commit::default() },
            Durable::All,
        )
        .unwrap();
    let totals = journal.totals();
    let wrong = [
        commit(vec![done(5, vec![]), Done { listed: 11, ..done(2, vec![]) }]), // does not balance
        commit(vec![done(5, vec![]), Done { written: u64::MAX, skips: skips(11), ..done(2, vec![]) }]), // overflows
        commit(vec![done(5, vec![]), done(0, vec![])]),                        // behind the frontier
        Commit { done: vec![done(5, vec![])], fold: fold(4), ..Commit::default() }, // a gap
        Commit { done: vec![done(5, vec![])], fold: fold(0), ..Commit::default() }, // back
    ];
    for commit in wrong {
        assert_eq!(journal.commit(&commit, Durable::All).unwrap_err().kind(), Kind::Internal);
        assert_eq!(journal.totals(), totals);
    }
    drop(journal);
    let (_journal, resume) = open(dir.path());
    assert_eq!((resume.frontier, resume.totals), (1, totals));
    assert_eq!(resume.done, [(1, key_of(1))].into());
}

#[test]
fn other_options_are_refused_with_the_difference() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    drop(journal);
    let place = Location::Directory(dir.path().to_owned());
    let mut other = run_key();
    other.options[1].1 = "50\x1b[31m".to_owned();
    let error = refused(Journal::open(&place, &other, &OpenOptions::default()));
    assert_eq!(error.kind(), Kind::JournalMismatch);
    assert!(error.line().ends_with("other options: cut: 100 -> 50\\x1b[31m"), "{error}");
    assert!(error.advice().unwrap().contains("`resume=\"update\"`"), "{error}");

    let force = OpenOptions { resume: Resume::Update, ..OpenOptions::default() };
    let (journal, resume) = Journal::open(&place, &other, &force).unwrap();
    assert_eq!((resume.done.len(), resume.mark), (0, MARK_ALL), "it was done under other options");
    assert!(resume.notes[0].contains("cut: 100 -> 50"), "{:?}", resume.notes);
    drop(journal);
    let (_journal, resume) = Journal::open(&place, &other, &OpenOptions::default()).unwrap();
    assert!(resume.notes.is_empty(), "the new options are the run's own now");
    drop(_journal);

    let mut long = other;
    long.options[1].1 = "x".repeat(300);
    drop(Journal::open(&place, &long, &force).unwrap());
    long.options[1].1.replace_range(299.., "y");
    let error = refused(Journal::open(&place, &long, &OpenOptions::default()));
    assert!(error.line().ends_with("(they differ further on)"), "{error}");
}

#[test]
fn another_source_is_another_run() {
    let dir = fast_dir();
    let place = Location::Directory(dir.path().to_owned());
    let other = RunKey { source: "http://elsewhere".to_owned(), ..run_key() };
    let (mut journal, _) = open(dir.path());
    journal.commit(&commit(vec![done(0, vec![failed("a", None)])]), Durable::All).unwrap();
    drop(journal);
    let (mut journal, resume) = Journal::open(&place, &other, &OpenOptions::default()).unwrap();
    assert_eq!((resume.totals, resume.done.len()), (Counts::default(), 0));
    journal.commit(&commit(vec![done(0, vec![failed("a", Some(1))]), done(1, vec![])]), Durable::All).unwrap();
    journal.reset_listing().unwrap();
    drop(journal);
    let (journal, resume) = open(dir.path());
    assert_eq!((resume.done.len(), resume.totals.failed), (1, 1), "the first run is untouched");
    assert_eq!(journal.failures(9).count(), 1);
}

#[test]
fn a_restart_forgets_everything_but_the_sessions() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal.begin_session(Some(42), false).unwrap();
    journal.mark(9).unwrap();
    journal
        .commit(
            &Commit {
                done: vec![done(0, vec![failed("a", None)]), done(1, vec![failed("b", Some(1))])],
                fold: fold(1),
                ..Commit::default()
            },
            Durable::All,
        )
        .unwrap();
    drop(journal);
    let (journal, resume) =
        open_with(dir.path(), &OpenOptions { resume: Resume::Restart, ..OpenOptions::default() }).unwrap();
    assert_eq!((resume.frontier, resume.cursor, resume.chain), (0, None, Key::default()));
    assert_eq!((resume.totals, resume.done.len(), resume.deferred), (Counts::default(), 0, 0));
    assert_eq!((resume.mark, resume.sessions[0].low), (MARK_ALL, 42));
    assert_eq!(journal.failures(9).count(), 0);
    drop(journal);
    assert_eq!(open(dir.path()).1.totals, Counts::default());
}

#[test]
fn a_complete_run_says_when() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal.commit(&Commit { done: vec![done(0, vec![])], fold: fold(1), ..Commit::default() }, Durable::All).unwrap();
    journal.complete(1_800_000_000, None).unwrap();
    drop(journal);
    assert_eq!(open(dir.path()).1.completed_at, Some(1_800_000_000));
    let relist = OpenOptions { resume: Resume::Relist, ..OpenOptions::default() };
    let (mut journal, resume) = open_with(dir.path(), &relist).unwrap();
    assert_eq!((resume.completed_at, resume.cursor, resume.frontier), (None, None, 1));
    journal.commit(&commit(vec![done(1, vec![])]), Durable::All).unwrap();
    drop(journal);
    assert_eq!(open(dir.path()).1.completed_at, None, "the listing has grown");
}

fn booted(boot: &str) -> OpenOptions {
    OpenOptions { machine: Machine { boot_id: Some(boot.to_owned()), ..Machine::default() }, ..OpenOptions::default() }
}

#[test]
fn what_was_never_durable_is_done_again_after_a_reboot() {
    let dir = fast_dir();
    let (mut journal, _) = open_with(dir.path(), &booted("one")).unwrap();
    journal.mark(3).unwrap();
    journal.commit(&Commit { done: vec![done(0, vec![])], fold: fold(1), ..Commit::default() }, Durable::All).unwrap();
    journal.commit(&commit(vec![done(1, vec![failed("a", None)])]), Durable::No).unwrap();
    drop(journal);
    let (journal, resume) = open_with(dir.path(), &booted("one")).unwrap();
    assert_eq!((resume.frontier, resume.totals.listed), (1, 20));
    drop(journal);
    let (journal, resume) = open_with(dir.path(), &booted("two")).unwrap();
    assert_eq!((resume.frontier, resume.done.len(), resume.mark), (0, 0, MARK_ALL));
    assert_eq!(resume.totals, Counts::default());
    assert!(resume.notes[0].contains("rebooted"), "{:?}", resume.notes);
    drop(journal);
    let (_journal, resume) = open_with(dir.path(), &booted("two")).unwrap();
    assert!(resume.notes.is_empty(), "said once");
}

#[test]
fn only_a_barrier_over_everything_lifts_what_no_barrier_left() {
    for (durable, listed) in [(Durable::These, 0), (Durable::All, 20)] {
        let dir = fast_dir();
        let (mut journal, _) = open_with(dir.path(), &booted("one")).unwrap();
        journal.commit(&commit(vec![done(0, vec![])]), Durable::No).unwrap();
        drop(journal);
        let (mut journal, _) = open_with(dir.path(), &booted("one")).unwrap();
        journal.commit(&commit(vec![done(1, vec![])]), durable).unwrap();
        drop(journal);
        let (_journal, resume) = open_with(dir.path(), &booted("two")).unwrap();
        assert_eq!(resume.totals.listed, listed, "{durable:?}");
    }
}

#[test]
fn a_machine_without_a_boot_id_is_always_another() {
    let dir = fast_dir();
    let (mut journal, _) = open_with(dir.path(), &booted("")).unwrap();
    journal.commit(&commit(vec![done(0, vec![])]), Durable::No).unwrap();
    drop(journal);
    assert_eq!(open_with(dir.path(), &booted("")).unwrap().1.totals, Counts::default());
}

#[test]
fn a_journal_in_memory_works_and_is_gone_afterwards() {
    let (mut journal, _) = Journal::open(&Location::Memory, &run_key(), &OpenOptions::default()).unwrap();
    journal.mark(4).unwrap();
    journal
        .commit(
            &Commit { done: vec![done(0, vec![failed("a", Some(1))])], fold: fold(1), ..Commit::default() },
            Durable::No,
        )
        .unwrap();
    assert_eq!(journal.totals().written, 9);
    assert_eq!(journal.take_due(1, 5).unwrap().len(), 1);
    drop(journal);
    let (_journal, resume) = Journal::open(&Location::Memory, &run_key(), &OpenOptions::default()).unwrap();
    assert_eq!(resume.totals, Counts::default());
}
