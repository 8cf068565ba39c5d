//! Looking at a journal from outside.

use shoal_engine::journal::{Commit, Durable, Fate, Journal, Location, Machine, OpenOptions, status};
use shoal_engine::{Counts, Kind};

use crate::{commit, done, failed, fast_dir, fold, open, open_with};

#[test]
fn status_shows_a_run_that_is_going_on() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal.begin_session(Some(1), false).unwrap();
    journal.sample(1_000, 0, 0);
    let failures = vec![failed("a", None), failed("b", Some(5))];
    journal
        .commit(
            &Commit { done: vec![done(0, failures), done(2, vec![])], fold: fold(1), ..Commit::default() },
            Durable::No,
        )
        .unwrap();

    let seen = status(dir.path()).unwrap();
    let owner = seen.owner.as_ref().unwrap();
    assert_eq!(owner.pid, std::process::id());
    assert!(!owner.host.is_empty() && owner.since > 1_700_000_000);
    let run = &seen.runs[0];
    assert_eq!((run.source.as_str(), run.sessions, run.completed_at), ("http://127.0.0.1:8080", 1, None));
    assert_eq!(run.options, crate::run_key().options);
    assert_eq!((run.totals, run.deferred), (journal.totals(), 1));
    assert!(run.until_reboot && run.started > 1_700_000_000);
    assert_eq!(run.samples.len(), 1);
    for (fate, name) in [(Fate::Failed, "name of a"), (Fate::Deferred, "name of b")] {
        let failures: Vec<_> = seen.failures(run, fate, 9).map(Result::unwrap).collect();
        assert_eq!(failures.len(), 1);
        assert_eq!((&failures[0].name[..], failures[0].tries), (name.as_bytes(), 3));
        assert_eq!((failures[0].kind.as_str(), failures[0].reason.as_str()), ("timeout", "nothing came for 30 s"));
    }
    journal.commit(&commit(vec![done(3, vec![])]), Durable::All).unwrap();
    drop(journal);
    let seen = status(dir.path()).unwrap();
    assert_eq!(seen.owner, None);
    assert_eq!((seen.runs[0].totals.listed, seen.runs[0].until_reboot), (30, false));
}

#[test]
fn looking_never_gets_in_the_way_of_a_run() {
    let dir = fast_dir();
    drop(open(dir.path()));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                status(dir.path()).unwrap();
            }
        });
        for seq in 0..50 {
            let (mut journal, _) = open(dir.path());
            journal.commit(&commit(vec![done(seq, vec![])]), Durable::All).unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(status(dir.path()).unwrap().runs[0].totals.listed, 500);
}

#[test]
fn only_runs_that_have_listed_something_are_shown_and_bind() {
    let (dir, mut other) = (fast_dir(), crate::run_key());
    let place = Location::Directory(dir.path().to_owned());
    other.options[1].1 = "50".to_owned();
    let (mut journal, _) = open(dir.path());
    journal.begin_session(Some(1), false).unwrap();
    drop(journal); // killed before the first page
    assert_eq!(status(dir.path()).unwrap().runs.len(), 0);

    let (mut journal, standing) = Journal::open(&place, &other, &OpenOptions::default()).unwrap();
    assert_eq!((standing.sessions.len(), standing.notes.len()), (1, 0), "the attempt goes on with the new options");
    journal.mark(1).unwrap();
    drop(journal);
    let runs = status(dir.path()).unwrap().runs;
    assert_eq!((runs.len(), &runs[0].options), (1, &other.options), "a lane may have begun");
    assert!(open_with(dir.path(), &OpenOptions::default()).is_err());

    for work in [
        (|journal| assert!(journal.commit(&commit(vec![done(0, vec![])]), Durable::All).is_ok())) as fn(&mut Journal),
        |journal| journal.complete(1, None).unwrap(),
        |journal| drop(journal.reset_listing().unwrap()),
    ] {
        let dir = fast_dir();
        let (mut journal, _) = open(dir.path());
        work(&mut journal);
        drop(journal);
        assert_eq!(status(dir.path()).unwrap().runs.len(), 1);
    }
}

#[test]
fn status_without_a_journal_says_so_and_makes_none() {
    let dir = fast_dir();
    for path in [dir.path().to_owned(), dir.path().join("nothing.db"), dir.path().join("no/such")] {
        let error = status(&path).err().unwrap();
        assert!(matches!(error.kind(), Kind::Config | Kind::Journal), "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_rate_history_stays_short_and_even() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let hours = 20 * 3600;
    for second in 0..hours {
        journal.sample(1_000 * second, second, 2 * second);
        if second % 60 == 0 {
            journal.mark(second + 1).unwrap();
        }
        if second == hours / 2 {
            drop(journal);
            journal = open(dir.path()).0;
        }
    }
    journal.mark(hours + 1).unwrap();
    let samples = status(dir.path()).unwrap().runs.remove(0).samples;
    assert!((400..=1_000).contains(&samples.len()), "{}", samples.len());
    let gaps: Vec<u64> = samples.windows(2).map(|pair| pair[1].at_ms - pair[0].at_ms).collect();
    assert!(gaps.iter().all(|gap| (1_000..=600_000).contains(gap)), "{gaps:?}");
    assert_eq!(samples[0].at_ms, 0);
    assert!(samples.last().unwrap().at_ms > 1_000 * (hours - 600));
    assert!(samples.iter().all(|sample| sample.objects == sample.at_ms / 1_000 && sample.bytes == 2 * sample.objects));
}

#[test]
fn without_shared_memory_only_the_run_reads_its_journal() {
    let dir = fast_dir();
    let machine = Machine { shares_no_memory: true, ..Machine::default() };
    let alone = OpenOptions { machine, ..OpenOptions::default() };
    let (mut journal, _) = open_with(dir.path(), &alone).unwrap();
    journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    assert!(!dir.path().join(".shoal/journal.db-shm").exists());
    let error = status(dir.path()).err().unwrap();
    assert_eq!(error.kind(), Kind::JournalLocked);
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    drop(journal);
    // Either kind of log takes over what the other left.
    for options in [OpenOptions::default(), alone] {
        let (mut journal, resume) = open_with(dir.path(), &options).unwrap();
        assert_eq!(resume.totals.listed, 10);
        journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    }
    assert_eq!(
        status(dir.path()).unwrap().runs[0].totals,
        Counts { listed: 10, written: 10, bytes: 70, ..Counts::default() }
    );
}
