//! Objects that failed: deferred, taken, answered, taken up again.

use shoal_engine::journal::{Commit, Done, Durable, Journal, OpenOptions, Retried, Settled, Withdrawn};
use shoal_engine::options::Resume;
use shoal_engine::{Counts, Reason};

use crate::{commit, done, failed, fast_dir, fold, open, open_with};

fn take(journal: &mut Journal, now_ms: u64, limit: usize) -> Vec<String> {
    let due = journal.take_due(now_ms, limit).unwrap();
    due.iter().map(|due| String::from_utf8_lossy(&due.locator).into_owned()).collect()
}

fn answer(journal: &mut Journal, retried: Vec<Retried>) {
    journal.commit(&Commit { retried, ..Commit::default() }, Durable::All).unwrap();
}

fn written(locator: &str, bytes: u64) -> Retried {
    Retried { locator: locator.as_bytes().into(), seq: 0, outcome: Ok(Settled::Written { bytes, kept: false }) }
}

#[test]
fn a_deferred_object_is_handed_out_once_until_it_is_answered() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let failures = vec![failed("c", Some(300)), failed("a", Some(100)), failed("b", Some(200)), failed("z", None)];
    journal
        .commit(&Commit { done: vec![done(0, failures)], fold: fold(1), ..Commit::default() }, Durable::All)
        .unwrap();
    assert_eq!((journal.deferred(), journal.next_due().unwrap()), (3, Some(100)));
    assert!(take(&mut journal, 99, 9).is_empty());
    assert_eq!(take(&mut journal, 250, 1), ["a"], "the longest waiting first");
    assert_eq!(journal.next_due().unwrap(), Some(200));
    assert_eq!(take(&mut journal, 250, 9), ["b"]);
    assert!(take(&mut journal, 250, 9).is_empty());

    let later = Retried { locator: b"a".as_slice().into(), seq: 0, outcome: Err(failed("a", Some(400))) };
    answer(&mut journal, vec![later, written("b", 70)]);
    assert_eq!(journal.totals(), Counts { listed: 10, written: 7, failed: 1, unfinished: 2, bytes: 112, skipped: 0 });
    assert_eq!(take(&mut journal, 9_999, 9), ["c", "a"]);
    let skipped = Retried { locator: b"c".as_slice().into(), seq: 0, outcome: Ok(Settled::Skipped(Reason::Vanished)) };
    let lost = Retried { locator: b"a".as_slice().into(), seq: 0, outcome: Err(failed("a", None)) };
    answer(&mut journal, vec![skipped, lost, written("nobody", 1)]);
    let end = Counts { listed: 10, written: 7, skipped: 1, failed: 2, unfinished: 0, bytes: 112 };
    assert_eq!((journal.totals(), journal.deferred(), journal.next_due().unwrap()), (end, 0, None));
    drop(journal);
    assert_eq!(open(dir.path()).1.totals, end);
}

#[test]
fn what_was_handed_out_and_not_tried_is_handed_out_again_without_a_change_to_its_row() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let failures = vec![failed("a", Some(100)), failed("b", Some(200))];
    journal.commit(&Commit { done: vec![done(0, failures)], ..Commit::default() }, Durable::All).unwrap();
    assert_eq!(take(&mut journal, 999, 9), ["a", "b"]);
    let returned = vec![b"a".as_slice().into()];
    journal.commit(&Commit { retried: vec![written("b", 7)], returned, ..Commit::default() }, Durable::All).unwrap();
    assert_eq!((take(&mut journal, 999, 9), journal.deferred()), (vec!["a".to_owned()], 1));
    assert!(take(&mut journal, 999, 9).is_empty(), "once");
}

#[test]
fn an_object_that_was_deferred_in_two_partitions_can_be_withdrawn_from_the_one_that_counts_it() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let twice = |seq, due_ms| Done { listed: 1, written: 0, bytes: 0, ..done(seq, vec![failed("a", Some(due_ms))]) };
    journal.commit(&commit(vec![twice(0, 9), twice(1, 5)]), Durable::All).unwrap();
    let [due] = &*journal.take_due(9, 9).unwrap() else { panic!("it is one object") };
    assert_eq!(due.seq, 1, "it waited longest there");
    let was = Settled::Written { bytes: 7, kept: false };
    answer(&mut journal, vec![Retried { locator: due.locator.clone(), seq: due.seq, outcome: Ok(was) }]);
    let withdrawn = vec![Withdrawn { seq: due.seq, was, failed: failed("a", None) }];
    journal.commit(&Commit { withdrawn, ..Commit::default() }, Durable::All).unwrap();
    let end = Counts { listed: 2, skipped: 1, failed: 1, ..Counts::default() };
    assert_eq!(journal.totals(), end);
    drop(journal);
    assert_eq!(open(dir.path()).1.totals, end);
}

#[test]
fn what_was_handed_out_is_due_again_after_a_crash() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal.commit(&commit(vec![done(0, vec![failed("a", Some(1))])]), Durable::All).unwrap();
    let due = journal.take_due(5, 9).unwrap();
    assert_eq!((due[0].tries, due[0].tried_ms), (3, 90_000));
    drop(journal);
    assert_eq!(take(&mut open(dir.path()).0, 5, 9), ["a"]);
}

#[test]
fn a_later_success_goes_with_its_partition() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    journal.commit(&commit(vec![done(2, vec![failed("a", Some(1)), failed("b", Some(1))])]), Durable::All).unwrap();
    answer(&mut journal, vec![written("a", 7)]);
    assert_eq!(journal.totals(), Counts { listed: 10, written: 9, unfinished: 1, bytes: 63, ..Counts::default() });
    // Listed anew with other content: the success counts no more.
    journal.commit(&commit(vec![done(2, vec![failed("c", None)])]), Durable::All).unwrap();
    let expected = Counts { listed: 10, written: 9, failed: 1, bytes: 63, ..Counts::default() };
    assert_eq!(journal.totals(), expected);
    drop(journal);
    let (_journal, resume) = open(dir.path());
    assert!(resume.notes.is_empty(), "{:?}", resume.notes);
    assert_eq!(resume.totals, expected);
}

#[test]
fn an_object_that_failed_in_two_places_is_written_once() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let twice = vec![failed("same", Some(1)), failed("same", Some(1))];
    journal
        .commit(
            &Commit {
                done: vec![done(0, vec![failed("same", Some(1))]), done(1, twice), done(2, vec![failed("same", None)])],
                fold: fold(1),
                ..Commit::default()
            },
            Durable::All,
        )
        .unwrap();
    assert_eq!(journal.totals(), Counts { listed: 30, written: 26, skipped: 1, failed: 1, unfinished: 2, bytes: 182 });
    assert_eq!(take(&mut journal, 5, 9), ["same"]);
    answer(&mut journal, vec![written("same", 7)]);
    let expected = Counts { listed: 30, written: 27, skipped: 3, bytes: 189, ..Counts::default() };
    assert_eq!(journal.totals(), expected);
    drop(journal);
    assert_eq!(open(dir.path()).1.totals, expected);
}

#[test]
fn a_later_try_that_is_an_hour_ahead_was_planned_before_the_clock_was_set_back_and_is_due() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    const NOW: u64 = 1_800_000_000_000;
    let planned = [("an hour", 3_600_000), ("two minutes", 120_000), ("a second", 1_000)];
    let failures = planned.map(|(locator, ahead)| failed(locator, Some(NOW + ahead))).to_vec();
    journal.commit(&commit(vec![done(0, failures)]), Durable::All).unwrap();
    assert_eq!(take(&mut journal, NOW, 9), ["an hour"], "no host asks for so long a wait");
    assert_eq!(take(&mut journal, NOW + 120_000, 9), ["a second", "two minutes"]);
}

#[test]
fn resume_failed_takes_every_failure_up_again() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    const FAILURES: usize = 4_321; // more than one transaction takes
    let mut partition = done(0, vec![]);
    partition.failures = (0..FAILURES).map(|n| failed(&format!("o{n}"), None)).collect();
    partition.listed = partition.written + FAILURES as u64;
    journal.commit(&Commit { done: vec![partition], fold: fold(1), ..Commit::default() }, Durable::All).unwrap();
    journal.complete(1_800_000_000, None).unwrap();
    drop(journal);

    let (mut journal, resume) =
        open_with(dir.path(), &OpenOptions { resume: Resume::Failed, ..OpenOptions::default() }).unwrap();
    assert_eq!((resume.deferred, resume.totals.failed), (FAILURES as u64, 0));
    assert_eq!(resume.completed_at, Some(1_800_000_000), "the listing is finished all the same");
    assert!(journal.complete(1, None).is_err(), "not while objects wait");
    let mut taken = 0;
    loop {
        let due = journal.take_due(0, 1_000).unwrap();
        if due.is_empty() {
            break;
        }
        assert!(due.iter().all(|due| due.tries == 0 && due.tried_ms == 0));
        taken += due.len();
        let retried = due
            .into_iter()
            .map(|due| Retried {
                locator: due.locator,
                seq: due.seq,
                outcome: Ok(Settled::Written { bytes: 1, kept: false }),
            })
            .collect();
        answer(&mut journal, retried);
    }
    assert_eq!(taken, FAILURES);
    journal.complete(1_900_000_000, None).unwrap();
    drop(journal);
    let (_journal, resume) = open(dir.path());
    assert_eq!(resume.totals.written, 10 + FAILURES as u64);
    assert_eq!(resume.completed_at, Some(1_900_000_000));
}

#[test]
fn failures_are_listed_page_by_page_up_to_the_limit() {
    let dir = fast_dir();
    let (mut journal, _) = open(dir.path());
    let mut partition = done(0, vec![]);
    partition.failures = (0..700).map(|n| failed(&format!("o{n}"), (n % 2 == 0).then_some(1))).collect();
    partition.listed = partition.written + 700;
    journal.commit(&commit(vec![partition]), Durable::All).unwrap();
    let names = |limit| -> Vec<String> {
        let failures = journal.failures(limit).map(Result::unwrap);
        failures.map(|failure| String::from_utf8(failure.name.into()).unwrap()).collect()
    };
    let expected: Vec<String> = (0..350).map(|n| format!("name of o{}", 2 * n + 1)).collect();
    assert_eq!(names(1_000), expected);
    assert_eq!(names(300), expected[..300]);
    assert_eq!(journal.failures(1).next().unwrap().unwrap().reason, "nothing came for 30 s");
}
