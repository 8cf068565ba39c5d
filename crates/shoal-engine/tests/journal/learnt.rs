//! How many objects in flight an earlier session has found to be good.

use std::path::Path;

use shoal_engine::journal::{Commit, Durable, Ending, Journal, Location, MARK_ALL, OpenOptions, RunKey, status};
use shoal_engine::options::Resume;

use crate::{booted, commit, done, fast_dir, fold, open, open_with, run_key};

/// A journal after a session that found 48 and was killed.
fn learn(dir: &Path) {
    let (mut journal, standing) = open_with(dir, &booted("one")).unwrap();
    assert_eq!(standing.learnt, None, "a new run has learnt nothing");
    journal.begin_session(Some(1_000), false).unwrap();
    journal.note_learnt(48);
    let first = Commit { done: vec![done(0, vec![])], fold: fold(1), ..Commit::default() };
    journal.commit(&first, Durable::No).unwrap();
}

#[test]
fn what_was_learnt_is_stored_with_whatever_is_written_next() {
    let writes: [fn(&mut Journal); 6] = [
        |journal| assert_eq!(journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap().written, 10),
        |journal| journal.mark(8).unwrap(),
        |journal| journal.renew(2_000).unwrap(),
        |journal| journal.complete(7, None).unwrap(),
        |journal| journal.end_session(Some(2_000), Ending::Sound).unwrap(),
        |journal| journal.end_session(None, Ending::BarrierFailed).unwrap(),
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let dir = fast_dir();
        let (mut journal, _) = open(dir.path());
        journal.begin_session(Some(1_000), false).unwrap();
        journal.note_learnt(7);
        journal.note_learnt(48);
        write(&mut journal);
        drop(journal); // as a kill: nothing more is said
        assert_eq!(open(dir.path()).1.learnt, Some(48), "{number}");
    }
}

#[test]
fn a_session_that_learns_nothing_keeps_what_is_there() {
    let dir = fast_dir();
    learn(dir.path());
    let (mut journal, standing) = open_with(dir.path(), &booted("one")).unwrap();
    assert_eq!(standing.learnt, Some(48));
    journal.begin_session(Some(20_000_000_000), false).unwrap();
    journal.commit(&commit(vec![done(1, vec![])]), Durable::No).unwrap();
    journal.end_session(Some(21_000_000_000), Ending::Sound).unwrap();
    drop(journal);
    assert_eq!(open_with(dir.path(), &booted("one")).unwrap().1.learnt, Some(48));
}

#[test]
fn a_listing_from_the_start_starts_with_what_was_learnt() {
    for (resume, boot) in [
        (Resume::Update, "one"),
        (Resume::Restart, "one"),
        (Resume::Relist, "one"),
        (Resume::Auto, "two"), // nothing of it was synced: all of it is done again
    ] {
        let dir = fast_dir();
        learn(dir.path());
        let options = OpenOptions { resume, ..booted(boot) };
        let (journal, standing) = open_with(dir.path(), &options).unwrap();
        assert!(standing.cursor.is_none(), "{resume:?} {boot}");
        assert_eq!(standing.learnt, Some(48), "{resume:?} {boot}");
        drop(journal);
        assert_eq!(open_with(dir.path(), &booted(boot)).unwrap().1.learnt, Some(48), "{resume:?} {boot}");
    }
    let dir = fast_dir();
    learn(dir.path());
    let (mut journal, _) = open_with(dir.path(), &booted("one")).unwrap();
    let standing = journal.reset_listing().unwrap();
    assert_eq!((standing.mark, standing.learnt), (MARK_ALL, Some(48)));
}

#[test]
fn another_run_in_the_same_journal_has_learnt_nothing() {
    let dir = fast_dir();
    learn(dir.path());
    let other = RunKey { source: "http://elsewhere".to_owned(), ..run_key() };
    let place = Location::Directory(dir.path().to_owned());
    assert_eq!(Journal::open(&place, &other, &OpenOptions::default()).unwrap().1.learnt, None);
}

#[test]
fn looking_sees_what_was_learnt_and_stores_nothing() {
    let dir = fast_dir();
    learn(dir.path());
    let place = Location::Directory(dir.path().to_owned());
    for (resume, boot) in [(Resume::Auto, "one"), (Resume::Restart, "one"), (Resume::Auto, "two")] {
        let options = OpenOptions { resume, ..booted(boot) };
        let (mut journal, standing, _) = Journal::look(&place, &run_key(), &options).unwrap();
        assert_eq!(standing.learnt, Some(48), "{resume:?} {boot}");
        journal.note_learnt(1);
        journal.begin_session(Some(20_000_000_000), false).unwrap();
        journal.end_session(Some(21_000_000_000), Ending::Sound).unwrap();
    }
    assert_eq!(status(dir.path()).unwrap().runs[0].sessions, 1);
    assert_eq!(open_with(dir.path(), &booted("one")).unwrap().1.learnt, Some(48));
}
