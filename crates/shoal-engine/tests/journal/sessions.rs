//! When each session may have written, and values that bind a run without being stored.

use std::path::Path;

use shoal_engine::journal::{Commit, DESTINATION, Durable, Ending, Journal, Location, MARK_ALL, OpenOptions, RunKey};
use shoal_engine::options::Resume;
use shoal_engine::session::{Interval, LEASE};
use shoal_engine::{Error, Kind};

use crate::{booted, commit, done, fast_dir, fold, open, open_with, refused, run_key};

/// What the journal says of the sessions so far, to the next one.
fn sessions(dir: &Path, boot: &str) -> Vec<Interval> {
    open_with(dir, &booted(boot)).unwrap().1.sessions
}

fn begin(dir: &Path, clock: i64) -> Journal {
    let mut journal = open_with(dir, &booted("one")).unwrap().0;
    journal.begin_session(Some(clock), false).unwrap();
    journal
}

#[test]
fn a_killed_session_keeps_its_lease_and_one_that_ended_the_clock_of_its_end() {
    let dir = fast_dir();
    let journal = begin(dir.path(), 1_000);
    assert_eq!(journal.lease(), Some((1_000, 1_000 + LEASE)), "the journal holds it before anything is written");
    drop(journal); // as a kill: nothing is said
    let first = Interval {
        low: 1_000,
        seen: 1_000,
        high: 1_000 + LEASE,
        barrier: None,
        same_boot: true,
        sound: false,
        failed: false,
        volatile: false,
        superseded: false,
        same_root: true,
        whole: false,
    };
    assert_eq!(sessions(dir.path(), "one"), [first]);

    // The next session ends that lease: what another run makes after it is that run's.
    let mut journal = begin(dir.path(), 7_000);
    let first = Interval { high: 6_999, ..first };
    journal.renew(7_500).unwrap();
    journal.saw(6_000); // set back
    journal.passed_barrier(7_400);
    journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    assert_eq!(journal.lease(), Some((6_000, 7_500 + LEASE)));
    journal.saw(9_000); // not in a transaction: a kill would lose it
    assert_eq!(journal.lease(), Some((6_000, 7_500 + LEASE)), "what may be written is what the journal holds");
    drop(journal);
    let second = Interval {
        low: 6_000,
        seen: 7_500,
        high: 7_500 + LEASE,
        barrier: Some(7_400),
        same_boot: true,
        sound: false,
        failed: false,
        volatile: false,
        superseded: false,
        same_root: true,
        whole: false,
    };
    assert_eq!(sessions(dir.path(), "one"), [first, second]);

    let mut journal = begin(dir.path(), 20_000);
    let second = Interval { high: 19_999, ..second };
    journal.end_session(Some(21_000), Ending::Sound).unwrap();
    drop(journal);
    let third = Interval {
        low: 20_000,
        seen: 21_000,
        high: 21_000,
        barrier: None,
        same_boot: true,
        sound: true,
        failed: false,
        volatile: false,
        superseded: false,
        same_root: true,
        whole: true,
    };
    assert_eq!(sessions(dir.path(), "one"), [first, second, third]);
    let other_boot = |interval| Interval { same_boot: false, ..interval };
    assert_eq!(sessions(dir.path(), "two"), [first, second, third].map(other_boot));
}

#[test]
fn every_transaction_extends_the_lease() {
    let writes: [fn(&mut Journal); 5] = [
        |journal| journal.mark(8).unwrap(),
        |journal| assert_eq!(journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap().written, 10),
        |journal| assert_eq!(journal.reset_listing().unwrap().mark, MARK_ALL),
        |journal| journal.retry_all_failed().unwrap(),
        |journal| journal.renew(5_000).unwrap(),
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let dir = fast_dir();
        let mut journal = begin(dir.path(), 1_000);
        journal.saw(5_000);
        write(&mut journal);
        assert_eq!(journal.lease(), Some((1_000, 5_000 + LEASE)), "{number}");
        drop(journal);
        assert_eq!(sessions(dir.path(), "one")[0].high, 5_000 + LEASE, "{number}");
    }
}

#[test]
fn the_end_of_a_session_says_whether_its_barriers_can_be_believed() {
    for (volatile, ending, sound) in [
        (false, None, false),
        (true, None, true), // it has no barrier that could fail
        (false, Some(Ending::Sound), true),
        (true, Some(Ending::Sound), true),
        (false, Some(Ending::BarrierFailed), false),
        (true, Some(Ending::BarrierFailed), false),
    ] {
        let dir = fast_dir();
        let (mut journal, _) = open(dir.path());
        journal.begin_session(Some(1_000), volatile).unwrap();
        if let Some(ending) = ending {
            journal.end_session(None, ending).unwrap(); // the destination is gone, and its clock with it
        }
        drop(journal);
        let interval = open(dir.path()).1.sessions[0];
        assert_eq!((interval.sound, interval.high), (sound, 1_000 + LEASE), "{volatile} {ending:?}");
    }
}

#[test]
fn a_clock_that_goes_far_ahead_leaves_out_of_the_session_what_lies_between() {
    const HOUR: i64 = 3_600_000_000_000;
    let dir = fast_dir();
    let mut journal = begin(dir.path(), 1_000);
    journal.renew(2_000).unwrap();
    journal.renew(HOUR).unwrap();
    let low = HOUR - 2_000_000_000;
    assert_eq!(journal.lease(), Some((low, HOUR + LEASE)), "what was begun before is made within 2 s");
    journal.renew(HOUR + 1_000).unwrap();
    journal.end_session(Some(3 * HOUR), Ending::Sound).unwrap();
    drop(journal);
    let intervals: Vec<_> = open(dir.path()).1.sessions.iter().map(|session| (session.low, session.high)).collect();
    let last = (3 * HOUR - 2_000_000_000, 3 * HOUR);
    assert_eq!(intervals, [(1_000, 2_000 + LEASE), (low, HOUR + 1_000 + LEASE), last]);
}

#[test]
fn a_destination_without_a_clock_leaves_no_interval() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal.begin_session(None, true).unwrap();
    assert_eq!(journal.lease(), None);
    journal.end_session(None, Ending::Sound).unwrap();
    drop(journal);
    let (_journal, resume) = open(dir.path());
    assert!(resume.sessions.is_empty() && resume.notes.is_empty());
}

#[test]
fn the_sessions_of_another_run_are_not_this_one_s() {
    let dir = fast_dir();
    drop(begin(dir.path(), 1_000));
    let other = RunKey { source: "http://elsewhere".to_owned(), ..run_key() };
    let place = Location::Directory(dir.path().to_owned());
    let (mut journal, resume) = Journal::open(&place, &other, &OpenOptions::default()).unwrap();
    assert!(resume.sessions.is_empty());
    journal.begin_session(Some(2_000), false).unwrap();
    drop(journal);
    assert_eq!(sessions(dir.path(), "one").iter().map(|session| session.low).collect::<Vec<_>>(), [1_000]);
}

#[test]
fn a_listing_that_starts_over_keeps_the_sessions_and_puts_the_mark_above_all() {
    let dir = fast_dir();
    let mut journal = begin(dir.path(), 1_000);
    journal.mark(9).unwrap();
    journal.commit(&Commit { done: vec![done(0, vec![])], fold: fold(1), ..Commit::default() }, Durable::All).unwrap();
    assert_eq!(journal.reset_listing().unwrap().mark, MARK_ALL);
    drop(journal);
    let (_journal, resume) = open(dir.path());
    assert_eq!((resume.frontier, resume.mark, resume.sessions.len()), (0, MARK_ALL, 1));
}

#[test]
fn a_damaged_session_is_said_and_its_files_count_as_foreign() {
    for change in [
        "low = 0",
        "seen = 0",
        "high = high + 1",
        "barrier = 5",
        "boot = 'x'",
        "volatile = 1",
        "state = 1",
        "id = 7",
        "low = NULL",
        "high = 'x'",
        "sum = sum + 1",
    ] {
        let dir = fast_dir();
        drop(begin(dir.path(), 1_000));
        drop(begin(dir.path(), 2_000));
        let database = rusqlite::Connection::open(dir.path().join(".shoal/journal.db")).unwrap();
        let sql = format!("UPDATE session SET {change} WHERE low = 1000");
        assert_eq!(database.execute(&sql, []).unwrap(), 1);
        drop(database);
        let (_journal, resume) = open(dir.path());
        assert_eq!(resume.sessions.iter().map(|session| session.low).collect::<Vec<_>>(), [2_000], "{change}");
        assert!(resume.notes[0].contains("1 damaged rows") && resume.notes.len() == 1, "{change}: {:?}", resume.notes);
    }
}

fn open_secret(dir: &Path, secret: &str, options: &OpenOptions) -> Result<Journal, Error> {
    let key = RunKey { secrets: secret.as_bytes().to_vec(), ..run_key() };
    Journal::open(&Location::Directory(dir.to_owned()), &key, options).map(|(journal, _)| journal)
}

#[test]
fn a_changed_secret_is_refused_until_the_listing_is_checked_and_no_byte_of_it_is_stored() {
    let dir = fast_dir();
    let plain = OpenOptions::default();
    let mut journal = open_secret(dir.path(), "token=correct-horse", &plain).unwrap();
    journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    drop(journal);
    drop(open_secret(dir.path(), "token=correct-horse", &plain).unwrap());
    let place = Location::Directory(dir.path().to_owned());
    for other in ["token=battery-staple", ""] {
        let key = RunKey { secrets: other.as_bytes().to_vec(), ..run_key() };
        let error = refused(Journal::open(&place, &key, &plain));
        assert_eq!(error.kind(), Kind::JournalMismatch, "{error}");
        assert!(error.advice().unwrap().contains("relist"), "{error}");
        let text = error.to_string();
        assert!(!text.contains("correct-horse") && !text.contains("battery-staple"), "{text}");
        let failed = OpenOptions { resume: Resume::Failed, ..plain.clone() };
        assert!(Journal::open(&place, &key, &failed).is_err(), "what is behind the cursor has to be checked");
    }
    let relist = OpenOptions { resume: Resume::Relist, ..plain.clone() };
    let journal = open_secret(dir.path(), "token=battery-staple", &relist).unwrap();
    assert_eq!(journal.totals().listed, 10, "what is committed stays");
    drop(journal);
    drop(open_secret(dir.path(), "token=battery-staple", &plain).unwrap());
    assert!(open_secret(dir.path(), "token=correct-horse", &plain).is_err(), "the new one is the run's now");
    let again = OpenOptions { resume: Resume::Restart, ..plain };
    let journal = open_secret(dir.path(), "token=correct-horse", &again).unwrap();
    for entry in std::fs::read_dir(dir.path().join(".shoal")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for secret in [&b"correct-horse"[..], b"battery-staple"] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{}", path.display());
        }
    }
    drop(journal);
}

#[test]
fn the_same_secret_has_another_hash_in_each_journal() {
    let hash = || -> (Vec<u8>, Vec<u8>) {
        let dir = fast_dir();
        drop(open_secret(dir.path(), "token=same", &OpenOptions::default()).unwrap());
        let database = rusqlite::Connection::open(dir.path().join(".shoal/journal.db")).unwrap();
        database.query_row("SELECT salt, secrets FROM run", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let (one, other) = (hash(), hash());
    assert!(one.0 != other.0 && one.1 != other.1);
}

#[test]
fn a_journal_of_another_destination_too_has_a_run_for_each() {
    let dir = fast_dir();
    let place = Location::Directory(dir.path().to_owned());
    let open = |destination: &str| {
        let mut key = run_key();
        key.options.push((DESTINATION.to_owned(), destination.to_owned()));
        Journal::open(&place, &key, &OpenOptions::default()).unwrap()
    };
    open("/one").0.begin_session(Some(1_000), false).unwrap();
    assert_eq!(open("/one").1.sessions.len(), 1);

    // What others made there in the meantime would count as this run's.
    assert!(open("/two").1.sessions.is_empty());
    assert_eq!(open("/one").1.sessions.len(), 1);
}

#[test]
fn a_session_knows_which_earlier_ones_had_the_same_root() {
    let dir = fast_dir();
    let roots = [Some([1; 32]), Some([2; 32]), None];
    let opened = |root| open_with(dir.path(), &OpenOptions { root, ..OpenOptions::default() }).unwrap();
    for (at, root) in roots.into_iter().enumerate() {
        let mut journal = opened(root).0;
        journal.begin_session(Some(1_000 * (at as i64 + 1)), false).unwrap();
        journal.end_session(Some(1_000 * (at as i64 + 1) + 500), Ending::Sound).unwrap();
    }
    for (at, root) in roots.into_iter().enumerate() {
        let same: Vec<bool> = opened(root).1.sessions.iter().map(|session| session.same_root).collect();
        assert_eq!(same, [at == 0, at == 1, at == 2]);
    }
}
