//! Clocks that jump, stand still or move in steps: no half file stays, no foreign file is replaced, and a run ends.

mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use shoal_engine::options::Durability;
use shoal_engine::session::{Interval, LEASE, Twice, local_clock};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::{Mode, Put, Sink, Start};
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::testing::faults::FailingSink;
use shoal_engine::transfer::Transfer;
use shoal_engine::{Kind, TransferOptions};
use support::*;

const SECOND: i64 = 1_000_000_000;

fn warped(path: &Path, warp: impl Fn(i64) -> i64 + Send + Sync + 'static) -> DirSink {
    DirSink::new(path, DirOptions::default()).unwrap().with_clock(Arc::new(warp))
}

fn session(sink: DirSink, earlier: &[Interval], twice: Twice) -> Run {
    let start = Start { sessions: earlier.to_vec(), twice, ..Start::default() };
    Run::into(sink, &start, Mode::Redo).unwrap()
}

fn says(run: &Run, words: &str) -> bool {
    run.started.notes.iter().any(|note| note.contains(words))
}

#[test]
fn a_clock_set_back_never_keeps_half_a_file_and_never_takes_a_foreign_one() {
    for back in [3600 * SECOND, SECOND / 5] {
        let temp = temp_dir();
        let mut first = session(warped(temp.path(), |now| now), &[], Twice::SameObject);
        first.put("left", b"wh").unwrap();
        std::thread::sleep(Duration::from_millis(400));
        let first = first.cut_off();
        let jump = first.seen;
        let shown = move |now| if now <= jump { now } else { now - back };
        std::thread::sleep(Duration::from_millis(20));
        std::fs::write(temp.path().join("foreign"), b"mine").unwrap();
        let mut second = session(warped(temp.path(), shown), &[first], Twice::SameObject);
        assert!(says(&second, "clock was set back"), "{:?}", second.started.notes);
        assert_eq!(second.put("left", b"whole").unwrap(), Put::Written);
        assert_eq!(second.put("of the second", b"x").unwrap(), Put::Written);
        if back > SECOND {
            // Made between the sessions. (Set back into the first one, it cannot be told from a leftover.)
            assert_eq!(second.put("foreign", b"ours").unwrap_err().kind(), Kind::Exists);
            assert_eq!(second.put("of the second", b"other").unwrap_err().kind(), Kind::NameConflict);
            assert_eq!(std::fs::read(temp.path().join("foreign")).unwrap(), b"mine");
        }
        assert_eq!(std::fs::read(temp.path().join("left")).unwrap(), b"whole");
    }
}

#[test]
fn a_clock_that_stands_still_never_keeps_half_a_file() {
    let temp = temp_dir();
    let stopped = local_clock();
    let still = move |now: i64| now.min(stopped);
    let mut first = session(warped(temp.path(), still), &[], Twice::SameObject);
    assert_eq!(first.started.began, Some(stopped));
    first.put("left", b"wh").unwrap();
    let first = first.cut_off();
    let began = Instant::now();
    let mut second = session(warped(temp.path(), still), &[first], Twice::SameObject);
    assert!((2.0..4.0).contains(&began.elapsed().as_secs_f64()), "waited out once: {:?}", began.elapsed());
    assert!(says(&second, "clock was set back"), "{:?}", second.started.notes);
    assert_eq!(second.put("left", b"whole").unwrap(), Put::Written);
    assert_eq!(std::fs::read(temp.path().join("left")).unwrap(), b"whole");
}

#[test]
fn a_clock_of_two_second_steps_is_waited_out_on_resume_only() {
    let temp = temp_dir();
    let steps = |now: i64| now / (2 * SECOND) * (2 * SECOND);
    // Not at the end of a step, which might be met by chance.
    while local_clock() % (2 * SECOND) > SECOND {
        std::thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    let mut first = session(warped(temp.path(), steps), &[], Twice::Conflict);
    first.put("left", b"wh").unwrap();
    let first = first.cut_off();
    assert!(began.elapsed() < Duration::from_millis(900), "a first session does not wait: {:?}", began.elapsed());
    let mut second = session(warped(temp.path(), steps), &[first], Twice::Conflict);
    assert!(second.started.began > Some(first.seen), "a step later");
    assert!(!says(&second, "clock was set back"), "{:?}", second.started.notes);
    assert_eq!(second.put("left", b"whole").unwrap(), Put::Written);
    assert_eq!(second.put("left", b"other").unwrap_err().kind(), Kind::NameConflict);
    assert_eq!(std::fs::read(temp.path().join("left")).unwrap(), b"whole");
}

#[test]
fn a_run_ends_and_resumes_whatever_its_clock_does() {
    let start = local_clock();
    type Shown = fn(i64, i64) -> i64;
    let clocks: [(&str, Shown); 5] = [
        ("as it is", |now, _| now),
        ("stands still", |now, start| now.min(start)),
        ("two-second steps", |now, _| now / (2 * SECOND) * (2 * SECOND)),
        ("set back by an hour on the way", |now, start| if now < start + SECOND { now } else { now - 3600 * SECOND }),
        ("set ahead by an hour on the way", |now, start| if now < start + SECOND { now } else { now + 3600 * SECOND }),
    ];
    std::thread::scope(|scope| {
        for (what, shown) in clocks {
            scope.spawn(move || {
                let temp = temp_dir();
                let out = temp.path().join("out");
                let objects: Vec<_> =
                    (0..300).map(|n| (format!("o-{n}").into_bytes(), format!("{n}").into_bytes())).collect();
                let mut sessions = 0;
                loop {
                    let source =
                        MemorySource::new(objects.chunks(20).map(<[_]>::to_vec).collect(), 10).answering(|_, _| {
                            std::thread::sleep(Duration::from_millis(10)); // 300 take 1.5 s on two lanes
                            Answer::Whole
                        });
                    let sink: Arc<dyn Sink> = Arc::new(warped(&out, move |now| shown(now, start)));
                    let looks = AtomicU32::new(0);
                    // No barrier, which may take longer than the run where the disk is busy.
                    let options = TransferOptions { durability: Durability::None, ..TransferOptions::default() };
                    let outcome = Transfer::new(Arc::new(source), sink, options).run(&mut |seen| {
                        let enough = sessions == 0 && seen.committed > 0;
                        match enough || looks.fetch_add(1, Relaxed) > 600 {
                            true => ControlFlow::Break(()), // 30 s: it hangs
                            false => ControlFlow::Continue(()),
                        }
                    });
                    assert!(looks.load(Relaxed) < 600, "{what}: it hangs");
                    let report = outcome.report;
                    assert!(report.run.balanced() && report.total.balanced(), "{what}: {report:?}");
                    sessions += 1;
                    match outcome.error {
                        Some(error) => assert_eq!((error.kind(), sessions), (Kind::Interrupted, 1), "{what}: {error}"),
                        None => {
                            assert_eq!((report.complete, report.total.failed), (true, 0), "{what}: {report:?}");
                            break;
                        }
                    }
                }
                assert_eq!(sessions, 2, "{what}");
                assert!(files(&out) == objects.into_iter().collect(), "{what}");
            });
        }
    });
}

#[test]
fn a_run_waits_for_the_end_of_the_lease_of_another_one_that_was_killed_there() {
    let temp = temp_dir();
    let clock = temp.path().join(".shoal/clock");
    let killed = session(warped(temp.path(), |now| now), &[], Twice::SameObject).cut_off();
    std::fs::write(&clock, "").unwrap(); // a kill leaves it
    let killed = Interval { high: killed.seen + LEASE, ..killed };
    let begun = Instant::now();
    // The same run goes on at once.
    drop(session(warped(temp.path(), |now| now), &[killed], Twice::SameObject));
    // Neither does a clock that was set back keep another one waiting.
    std::fs::write(&clock, "").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let set_back = local_clock();
    let shown = move |now| if now > set_back { now - 3600 * SECOND } else { now };
    drop(session(warped(temp.path(), shown), &[], Twice::SameObject));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    std::fs::write(&clock, "").unwrap();
    let other = session(warped(temp.path(), |now| now), &[], Twice::SameObject);
    assert!(other.started.began.unwrap() > killed.high, "{:?} {killed:?}", other.started);
}

#[test]
fn a_run_that_could_not_read_the_clock_at_its_end_keeps_its_lease_from_other_runs() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let page: Vec<_> = (0..100).map(|n| (format!("{n}").into_bytes(), b"the first's".to_vec())).collect();
    let copied = |sink: Arc<dyn Sink>| {
        let source = Arc::new(MemorySource::new(vec![page.clone()], 10));
        Transfer::new(source, sink, TransferOptions::default()).run(&mut |_| ControlFlow::Continue(()))
    };
    let failing = FailingSink::new(Arc::new(warped(&out, |now| now)), 50, false);
    assert!(copied(Arc::new(failing)).error.is_some());
    let missing = (0..100).map(|n| out.join(n.to_string())).find(|path| !path.exists()).unwrap();

    let other = session(warped(&out, |now| now), &[], Twice::SameObject);
    std::fs::write(&missing, "the other's").unwrap();
    drop(other);

    let outcome = copied(Arc::new(warped(&out, |now| now)));
    assert_eq!((outcome.report.total.written, outcome.report.total.failed), (99, 1), "{outcome:?}");
    assert_eq!(outcome.report.failures[0].kind, "exists");
    assert_eq!(std::fs::read(&missing).unwrap(), b"the other's");
}
