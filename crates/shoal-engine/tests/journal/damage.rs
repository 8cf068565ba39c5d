//! A damaged journal is refused or shortened; it never claims more than was committed, and never panics.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::Connection;
use shoal_engine::journal::{Commit, Durable, Journal, MARK_ALL, OpenOptions, Retried, Settled, Standing, status};
use shoal_engine::options::Resume;
use shoal_engine::{Error, Key, Kind};
use tempfile::TempDir;

use crate::{commit, done, failed, fast_dir, fold, key_of, open, open_with, refused};

/// Folded: 0, 1 with failures `a` (for good) and `b` (deferred). In the window: 3 with failure `c`, and 5.
fn sample_journal(dir: &Path) {
    let (mut journal, _) = open(dir);
    journal.begin_session(Some(1), false).unwrap();
    journal.mark(8).unwrap();
    journal.sample(1_000, 1, 1);
    journal.note_learnt(16);
    let folded = vec![done(0, vec![failed("a", None)]), done(1, vec![failed("b", Some(1))])];
    journal.commit(&Commit { done: folded, fold: fold(2), ..Commit::default() }, Durable::All).unwrap();
    journal.commit(&commit(vec![done(3, vec![failed("c", None)]), done(5, vec![])]), Durable::All).unwrap();
}

pub(crate) fn execute(dir: &Path, sql: &str) {
    let database = Connection::open(dir.join(".shoal/journal.db")).unwrap();
    assert_eq!(database.execute(sql, []).unwrap(), 1, "{sql}");
}

fn damaged(sql: &str) -> (TempDir, Result<(Journal, Standing), Error>) {
    let dir = fast_dir();
    sample_journal(dir.path());
    execute(dir.path(), sql);
    let opened = open_with(dir.path(), &OpenOptions::default());
    (dir, opened)
}

#[test]
fn a_damaged_partition_row_means_its_partition_is_done_again() {
    let changes = [
        "seq = 4",
        "seq = 'x'",
        "key = zeroblob(16)",
        "key = x'00'",
        "listed = 11",
        "written = written - 1",
        "skipped = 1",
        "bytes = NULL",
        "sum = sum + 1",
        "run = 1.5",
    ];
    for change in changes {
        let (dir, opened) = damaged(&format!("UPDATE done SET {change} WHERE seq = 3"));
        let (journal, resume) = opened.unwrap();
        assert_eq!(resume.done, [(5, key_of(5))].into(), "{change}");
        assert_eq!((resume.frontier, resume.totals.listed, resume.totals.failed), (2, 30, 1), "{change}");
        assert!(resume.totals.balanced());
        assert_eq!(journal.failures(9).count(), 1, "its failures went with it");
        drop(journal);
        let (_journal, resume) = open(dir.path());
        assert!(resume.notes.is_empty(), "said and mended once: {:?}", resume.notes);
    }
}

#[test]
fn a_damaged_failure_of_a_partition_in_the_window_means_the_same() {
    for change in ["locator = x'00'", "reason = 'all is well'", "due_ms = 5", "tries = 0", "seq = 5", "kind = x'ff'"] {
        let (_dir, opened) = damaged(&format!("UPDATE failure SET {change} WHERE seq = 3"));
        let (_journal, resume) = opened.unwrap();
        assert_eq!(resume.done, [(5, key_of(5))].into(), "{change}");
        assert!(resume.totals.balanced() && resume.notes[0].contains("damaged"), "{:?}", resume.notes);
    }
    let (_dir, opened) = damaged("DELETE FROM failure WHERE seq = 3");
    assert_eq!(opened.unwrap().1.done, [(5, key_of(5))].into());
}

#[test]
fn a_run_that_had_listed_everything_lists_again_what_a_damaged_row_was_about() {
    for table in ["done", "failure"] {
        let dir = fast_dir();
        sample_journal(dir.path());
        let (mut journal, _) = open(dir.path());
        journal.retry_all_failed().unwrap();
        for due in journal.take_due(u64::MAX, 9).unwrap() {
            let outcome = Err(failed(std::str::from_utf8(&due.locator).unwrap(), None));
            let retried = vec![Retried { locator: due.locator, seq: due.seq, outcome }];
            journal.commit(&Commit { retried, ..Commit::default() }, Durable::All).unwrap();
        }
        journal.complete(1_900_000_000, None).unwrap();
        drop(journal);
        assert!(open(dir.path()).1.completed_at.is_some());
        execute(dir.path(), &format!("UPDATE {table} SET sum = sum + 1 WHERE seq = 3"));
        assert_eq!(status(dir.path()).unwrap().runs.len(), 1);
        assert!(status(dir.path()).unwrap().runs[0].completed_at.is_none() || table == "failure");
        for _ in 0..2 {
            let (_, resume) = open(dir.path());
            assert_eq!((resume.completed_at, resume.done), (None, [(5, key_of(5))].into()), "{table}");
        }
    }
}

#[test]
fn a_lost_failure_behind_the_frontier_is_refused_until_listed_anew() {
    for sql in ["UPDATE failure SET name = x'00' WHERE seq = 0", "DELETE FROM failure WHERE seq = 1"] {
        let (dir, opened) = damaged(sql);
        let error = refused(opened);
        assert_eq!(error.kind(), Kind::Journal);
        assert!(error.line().contains("1 records of failed objects"), "{error}");
        assert!(error.advice().unwrap().contains("restart"), "{error}");
        let (journal, resume) =
            open_with(dir.path(), &OpenOptions { resume: Resume::Restart, ..OpenOptions::default() }).unwrap();
        assert_eq!((resume.frontier, resume.mark, resume.totals.listed), (0, MARK_ALL, 0));
        drop(journal);
        open(dir.path());
    }
}

#[test]
fn a_damaged_run_or_prefix_is_refused_with_advice() {
    let columns = [
        "source = 'x'",
        "options = '[]'",
        "options = '{'",
        "started = 1",
        "salt = zeroblob(16)",
        "secrets = zeroblob(32)",
        "sum = 1",
        "id = 1",
    ];
    let runs = columns.map(|change| format!("UPDATE run SET {change}"));
    let columns = [
        "epoch = 1",
        "frontier = 7",
        "page_cursor = x'01'",
        "page_cursor = NULL",
        "chain = zeroblob(16)",
        "listed = 30",
        "written = 20",
        "skipped = 2",
        "bytes = 0",
        "mark = 0",
        "sessions = 9",
        "completed = 1",
        "boot = 'x'",
        "learnt = 7",
        "learnt = NULL",
        "learnt = 'x'",
        "learnt = -1",
        "learnt = 4294967312", // 16, if the upper half were lost
        "sum = 0",
        "run = 5",
    ];
    let prefixes = columns.map(|change| format!("UPDATE progress SET {change}"));
    for sql in runs.into_iter().chain(prefixes).chain(["DELETE FROM progress".to_owned()]) {
        let (_dir, opened) = damaged(&sql);
        let error = refused(opened);
        assert_eq!(error.kind(), Kind::Journal, "{sql}: {error}");
        assert!(error.advice().unwrap().contains("overwrite=\"always\""), "{sql}: {error}");
        assert!(error.subject().unwrap().ends_with(".shoal/journal.db"), "{sql}: {error}");
    }
}

#[test]
fn a_damaged_rate_history_harms_nothing() {
    let (_dir, opened) = damaged("UPDATE sample SET objects = 1000000");
    assert_eq!(opened.unwrap().1.totals.listed, 40);
}

#[test]
fn rows_from_before_a_reset_never_count_after_it() {
    let dir = fast_dir();
    sample_journal(dir.path());
    let copy = "CREATE TEMP TABLE kept AS SELECT * FROM done";
    let database = Connection::open(dir.path().join(".shoal/journal.db")).unwrap();
    database.execute(copy, []).unwrap();
    let (mut journal, _) = open(dir.path());
    journal.reset_listing().unwrap();
    drop(journal);
    database.execute("INSERT INTO done SELECT * FROM kept", []).unwrap();
    let (_journal, resume) = open(dir.path());
    assert!(resume.done.is_empty());
    assert_eq!(resume.notes.len(), 1);
}

#[test]
fn another_format_and_foreign_databases_are_refused() {
    let pragma = |dir: &Path, sql: &str| {
        let database = Connection::open(dir.join(".shoal/journal.db")).unwrap();
        database.execute_batch(sql).unwrap();
    };
    let cases = [
        ("PRAGMA user_version = 1", Kind::JournalMismatch, "format 1"),
        ("PRAGMA user_version = 3", Kind::JournalMismatch, "format 3"),
        ("PRAGMA user_version = 0", Kind::JournalMismatch, "format 0"),
        ("PRAGMA application_id = 7", Kind::Journal, "not a journal of shoal"),
        ("CREATE TRIGGER t AFTER INSERT ON done BEGIN DELETE FROM failure; END", Kind::Journal, "tables"),
        ("CREATE TABLE more (x)", Kind::Journal, "tables"),
        ("DROP TABLE sample", Kind::Journal, "tables"),
        // As it was while cursors had no version byte.
        ("ALTER TABLE progress RENAME COLUMN page_cursor TO cursor", Kind::Journal, "tables"),
        ("DROP INDEX failure_due", Kind::Journal, "tables"),
    ];
    for (sql, kind, words) in cases {
        let dir = fast_dir();
        sample_journal(dir.path());
        pragma(dir.path(), sql);
        let error = refused(open_with(dir.path(), &OpenOptions::default()));
        assert_eq!(error.kind(), kind, "{sql}");
        assert!(error.line().contains(words) && error.advice().is_some(), "{error}");
        assert_eq!(status(dir.path()).err().unwrap().kind(), kind, "{sql}");
    }
    let dir = fast_dir();
    drop(open(dir.path()));
    std::fs::write(dir.path().join(".shoal/journal.db"), "a diary, not a journal").unwrap();
    let error = refused(open_with(dir.path(), &OpenOptions::default()));
    assert_eq!(error.kind(), Kind::Journal);
    assert!(error.advice().unwrap().contains("move"), "{error}");
}

#[test]
fn a_damaged_structure_is_refused_even_where_every_row_is_sound() {
    let dir = fast_dir();
    sample_journal(dir.path());
    let database = Connection::open(dir.path().join(".shoal/journal.db")).unwrap();
    database.execute_batch("PRAGMA writable_schema = ON").unwrap();
    // Two indexes change places.
    let root = |name: &str| -> i64 {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        database.query_row(sql, [name], |row| row.get(0)).unwrap()
    };
    let roots = [root("failure_seq"), root("failure_due")];
    for (name, root) in ["failure_due", "failure_seq"].into_iter().zip(roots) {
        let sql = "UPDATE sqlite_schema SET rootpage = ?1 WHERE name = ?2";
        assert_eq!(database.execute(sql, rusqlite::params![root, name]).unwrap(), 1);
    }
    drop(database);
    let error = refused(open_with(dir.path(), &OpenOptions::default()));
    assert_eq!(error.kind(), Kind::Journal);
    assert!(error.line().contains("structure") && error.advice().unwrap().contains("move"), "{error}");
}

#[test]
fn a_lost_log_never_makes_a_journal_look_new() {
    let (dir, copy) = (fast_dir(), fast_dir());
    let (_journal, _) = open(dir.path());
    std::fs::create_dir(copy.path().join(".shoal")).unwrap();
    let [from, to] = [&dir, &copy].map(|dir| dir.path().join(".shoal/journal.db"));
    std::fs::copy(from, &to).unwrap();
    let runs: i64 = Connection::open(to).unwrap().query_row("SELECT count(*) FROM run", [], |row| row.get(0)).unwrap();
    assert_eq!(runs, 1);
}

/// A journal with a history, its files as a crash would leave them, and everything it ever said.
struct History {
    database: Vec<u8>,
    log: Vec<u8>,
    /// Frontier, chain, mark and totals after each step.
    states: Vec<(u64, Key, u64)>,
    /// Keys under which a partition was ever committed.
    keys: HashMap<u64, Vec<Key>>,
}

fn history() -> History {
    let dir = fast_dir();
    let (mut journal, resume) = open(dir.path());
    let mut states = vec![(resume.frontier, resume.chain, resume.mark)];
    let mut keys: HashMap<u64, Vec<Key>> = HashMap::new();
    let (mut frontier, mut mark) = (0, 0);
    let mut state = |frontier, mark| states.push((frontier, crate::chain_to(frontier), mark));
    for step in 0..14u64 {
        if step % 4 == 0 {
            mark = 3 * step + 12;
            journal.mark(mark).unwrap();
            state(frontier, mark);
        }
        let mut partitions: Vec<_> = (3 * step..3 * step + 3)
            .filter(|seq| seq % 7 != 3)
            .map(|seq| done(seq, (0..seq % 3).map(|n| failed(&format!("{seq}/{n}"), (n == 0).then_some(n))).collect()))
            .collect();
        if step > 0 && step % 2 == 0 {
            partitions.extend((frontier..3 * step).filter(|seq| seq % 7 == 3).map(|seq| done(seq, vec![])));
            frontier = 3 * step;
        }
        for partition in &partitions {
            keys.entry(partition.seq).or_default().push(partition.key);
        }
        let retried = vec![Retried {
            locator: format!("{}/0", 3 * step / 2).into_bytes().into(),
            seq: 0,
            outcome: Ok(Settled::Written { bytes: 1, kept: false }),
        }];
        let fold = fold(frontier).filter(|_| frontier > 0);
        journal.commit(&Commit { done: partitions, retried, fold, ..Commit::default() }, Durable::All).unwrap();
        state(frontier, mark);
        if step == 6 {
            // Half of it in the database, half in the log.
            drop(journal);
            journal = open(dir.path()).0;
        }
    }
    let read = |name: &str| std::fs::read(dir.path().join(".shoal").join(name)).unwrap();
    History { database: read("journal.db"), log: read("journal.db-wal"), states, keys }
}

impl History {
    /// Opens these bytes as a journal; whether they were accepted.
    fn try_open(&self, dir: &Path, database: &[u8], log: &[u8], what: &str) -> bool {
        std::fs::write(dir.join(".shoal/journal.db"), database).unwrap();
        std::fs::write(dir.join(".shoal/journal.db-wal"), log).unwrap();
        match open_with(dir, &OpenOptions::default()) {
            Ok((mut journal, resume)) => {
                let state = (resume.frontier, resume.chain, resume.mark);
                assert!(self.states.contains(&state) || state == (0, Key::default(), 0), "{what}: {resume:?}");
                for (seq, key) in &resume.done {
                    assert!(self.keys[seq].contains(key), "{what}: partition {seq} was never committed so");
                }
                assert!(resume.totals.balanced(), "{what}: {resume:?}");
                // Whatever comes of going on with it, it is no panic.
                let _ = journal.commit(&commit(vec![done(90, vec![failed("new", Some(1))])]), Durable::All);
                let _ = journal.take_due(u64::MAX, 10);
                true
            }
            Err(error) => {
                assert!(matches!(error.kind(), Kind::Journal | Kind::JournalMismatch), "{what}: {error}");
                assert!(error.advice().is_some(), "{what}: {error}");
                false
            }
        }
    }
}

#[test]
fn cut_and_flipped_bytes_never_claim_what_was_not_committed() {
    let history = history();
    let History { database, log, .. } = &history;
    assert!(database.len() > 20_000 && log.len() > 20_000, "{} {}", database.len(), log.len());
    let dir = fast_dir();
    drop(open(dir.path()));
    assert!(history.try_open(dir.path(), database, log, "undamaged"));

    let mut random = fastrand::Rng::with_seed(5);
    let (mut accepted, mut tried) = (0, 0);
    let mut attempt = |database: &[u8], log: &[u8], what: &str| {
        tried += 1;
        accepted += usize::from(history.try_open(dir.path(), database, log, what));
    };
    for part in 0..500 {
        let at = |length: usize| (part * length) / 500;
        let cut = at(log.len());
        attempt(database, &log[..cut], &format!("log cut at {cut}"));
        let cut = at(database.len());
        attempt(&database[..cut], log, &format!("database cut at {cut}"));
        attempt(&database[..cut], &[], &format!("database cut at {cut}, no log"));
        let mut flipped = log.clone();
        let byte = at(log.len()) + random.usize(..log.len() / 500);
        flipped[byte] ^= 1 << random.u8(..8);
        attempt(database, &flipped, &format!("log flipped at {byte}"));
        // The first page is header and tables: every fifth byte of it, and samples of the rest.
        let mut flipped = database.clone();
        let byte = if part < 100 { part } else { at(database.len()) + random.usize(..database.len() / 500) };
        flipped[byte] ^= 1 << random.u8(..8);
        attempt(&flipped, &[], &format!("database flipped at {byte}, no log"));
        attempt(&flipped, log, &format!("database flipped at {byte}"));
        let mut zeroed = database.clone();
        let block = at(database.len()) / 512 * 512;
        zeroed[block..block + 512].fill(0);
        attempt(&zeroed, &[], &format!("database zeroed at {block}"));
    }
    assert!(accepted > tried / 4 && accepted < tried, "{accepted} of {tried}: the sweep must see both ends");
}
