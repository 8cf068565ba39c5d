//! What the source of ids promises: tasks in order, every object that was written elsewhere counted, and nothing that is
//! committed made again; and what a joined directory sink does with what is there already.

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use shoal_engine::options::{TransferOptions, Workers};
use shoal_engine::session::{Interval, LEASE, Lease, Twice, local_clock};
use shoal_engine::sink::dir::{DirOptions, DirSink, Joined};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::sink::{Mode, PartitionWriter, Put, Sink, Start};
use shoal_engine::source::ids::{Answer, Caller, PAGE_IDS, Task, ids};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Cursor, Error, Key, Kind, Name, ObjectMeta, Partition, Payload, Result};

fn name(index: u64) -> Box<[u8]> {
    format!("n-{index}").into_bytes().into()
}

fn names(range: Range<u64>) -> Vec<Box<[u8]>> {
    range.map(name).collect()
}

/// A joined writer, as another process has one.
fn joined(path: &Path, joined: Joined, mode: Mode) -> Box<dyn PartitionWriter> {
    let sink = DirSink::join(path, DirOptions::default(), joined).unwrap();
    let mut lane = sink.writer(0, Arc::new(|| {})).unwrap();
    let partition =
        Partition { seq: 0, key: Key::default(), after: Cursor::default(), next: None, payload: [].into(), len: None };
    lane.open(&partition, mode, Box::new(|_| None)).unwrap()
}

fn put(writer: &mut dyn PartitionWriter, name: &[u8], bytes: &[u8]) -> Result<Put> {
    writer.put(0, &Name::parse(name).unwrap().into(), &ObjectMeta::default(), &mut Payload::Borrowed(bytes))
}

/// Runs a series; `answer` is asked on the caller's thread for each task.
fn run(path: &Path, count: u64, mut answer: impl FnMut(&DirSink, &Task) -> Option<Answer>) -> Outcome {
    let sink = Arc::new(DirSink::new(path, DirOptions::default()).unwrap());
    let (source, caller) = ids("ids:test".into(), count, || {});
    let options = TransferOptions { workers: Workers::Fixed(150), ..TransferOptions::default() };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (over, to) = (&over, sink.clone());
        let running = scope.spawn(move || {
            let mut looks = 0;
            let outcome = Transfer::new(Arc::new(source), to, options).run(&mut |_| {
                looks += 1;
                if looks < 400 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) } // 20 s: it hangs
            });
            over.store(true, SeqCst);
            outcome
        });
        while !over.load(SeqCst) {
            serve(&caller, |task| answer(&sink, task));
            std::thread::sleep(Duration::from_millis(1));
        }
        running.join().unwrap()
    })
}

fn serve(caller: &Caller, mut answer: impl FnMut(&Task) -> Option<Answer>) {
    if let Some(wanted) = caller.names_wanted() {
        caller.offer(wanted.start, names(wanted)).unwrap();
    }
    for task in caller.take(40) {
        if let Some(answer) = answer(&task) {
            caller.answer([(task.token, answer)]);
        }
    }
}

fn write(sink: &DirSink, task: &Task) -> Answer {
    let mode = if task.again { Mode::Redo } else { Mode::First };
    let mut writer = joined(sink.path(), sink.joining().unwrap(), mode);
    let text = task.index.to_string();
    let put = put(&mut *writer, &task.name, text.as_bytes()).unwrap();
    Answer::Done { size: text.len() as u64, put }
}

#[test]
fn every_id_is_handed_out_once_in_order_and_counted_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let count = 2 * PAGE_IDS + 345;
    let mut handed = Vec::new();
    let outcome = run(directory.path(), count, |sink, task| {
        handed.push(task.index);
        assert_eq!(task.name, name(task.index));
        Some(write(sink, task))
    });
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!((outcome.report.run.written, outcome.report.complete), (count, true));
    assert!(handed.iter().copied().eq(0..count));
    assert_eq!(std::fs::read(directory.path().join("n-2344")).unwrap(), b"2344");
}

#[test]
fn what_is_committed_is_not_handed_out_again() {
    let directory = tempfile::tempdir().unwrap();
    let full = || Some(Answer::Failed(Error::new(Kind::DestinationFull, "no space")));
    let cut = run(directory.path(), 2500, |sink, task| match task.index {
        1234.. => {
            std::thread::sleep(Duration::from_millis(700)); // a batch closes meanwhile
            full()
        }
        _ => Some(write(sink, task)),
    });
    assert_eq!(cut.error.map(|error| error.kind()), Some(Kind::DestinationFull));
    let before = cut.report.run.written;
    assert!(before > 0 && before <= 1234, "{before}");

    let mut handed = Vec::new();
    let rest = run(directory.path(), 2500, |sink, task| {
        handed.push(task.index);
        Some(write(sink, task))
    });
    assert!(rest.report.complete, "{:?}", rest.error);
    assert_eq!(handed.len() as u64, 2500 - before);
    assert_eq!(rest.report.total.written, 2500);
}

#[test]
fn a_failed_id_keeps_its_kind_and_reason() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = run(directory.path(), 30, |sink, task| match task.index {
        7 => Some(Answer::Failed(Error::new(Kind::Function, "it raised"))),
        _ => Some(write(sink, task)),
    });
    assert_eq!((outcome.report.run.written, outcome.report.run.failed), (29, 1));
    let failure = &outcome.report.failures[0];
    assert_eq!((&*failure.name, &*failure.kind, &*failure.reason), (&b"n-7"[..], "function", "it raised"));
}

#[test]
fn a_sink_that_nobody_can_join_ends_the_run() {
    let (source, caller) = ids("ids:test".into(), 3, || {});
    let running = std::thread::spawn(|| {
        Transfer::new(Arc::new(source), Arc::new(MemorySink::new()), TransferOptions::default())
            .run(&mut |_| ControlFlow::Continue(()))
    });
    while !running.is_finished() {
        serve(&caller, |_| Some(Answer::Done { size: 1, put: Put::Written }));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(running.join().unwrap().error.map(|error| error.kind()), Some(Kind::Internal));
}

#[test]
fn a_joined_process_replaces_what_the_run_has_left_of_an_id_that_it_makes_again_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("foreign"), "mine").unwrap();
    let run = |sessions: &[Interval]| {
        let sink = DirSink::new(directory.path(), DirOptions::default()).unwrap();
        let lease = Arc::new(Lease::new());
        let (sessions, local) = (sessions.to_vec(), local_clock());
        let start = Start { sessions, twice: Twice::Reissued, lease: lease.clone(), ..Start::default() };
        let began = sink.start(&start, &()).unwrap().began.unwrap();
        lease.grant(began, began + LEASE, began, local); // as the run does once its journal holds it
        sink
    };
    let first = run(&[]);
    std::fs::write(path("left"), "le").unwrap();
    std::fs::write(path("changed"), "le").unwrap();
    let (low, seen) = (first.joining().unwrap().began, first.clock().unwrap().unwrap());
    let earlier = Interval {
        low,
        seen,
        high: seen,
        barrier: None,
        same_boot: true,
        sound: false,
        failed: false,
        volatile: false,
        superseded: false,
        same_root: true,
        whole: true,
    };
    drop(first);
    std::thread::sleep(Duration::from_millis(25));
    std::fs::write(path("changed"), "by the user").unwrap();

    let second = run(&[earlier]);
    let place = second.joining().unwrap();
    std::fs::write(path("half"), "ha").unwrap(); // of a worker of this run that was killed over it
    let mut fresh = joined(directory.path(), place.clone(), Mode::First);
    assert_eq!(put(&mut *fresh, b"half", b"whole").unwrap_err().kind(), Kind::NameConflict);
    assert_eq!(put(&mut *fresh, b"half", b"ha").unwrap(), Put::Duplicate);
    let mut again = joined(directory.path(), place.clone(), Mode::Redo);
    // It may be the object of another id of this name.
    assert_eq!(put(&mut *again, b"half", b"whole").unwrap_err().kind(), Kind::NameConflict);
    let mut reissued = joined(directory.path(), place, Mode::Reissued);
    for (name, writer) in [("half", &mut reissued), ("left", &mut again)] {
        assert_eq!(put(&mut **writer, name.as_bytes(), b"whole").unwrap(), Put::Written, "{name}");
        assert_eq!(std::fs::read(path(name)).unwrap(), b"whole");
    }
    for (name, bytes) in [("foreign", "mine"), ("changed", "by the user")] {
        assert_eq!(put(&mut *again, name.as_bytes(), b"ours").unwrap_err().kind(), Kind::Exists, "{name}");
        assert_eq!(std::fs::read(path(name)).unwrap(), bytes.as_bytes());
    }
}

#[test]
fn a_joined_process_writes_only_while_the_run_holds_its_lease() {
    let directory = tempfile::tempdir().unwrap();
    let sink = DirSink::new(directory.path(), DirOptions::default()).unwrap();
    let lease = Arc::new(Lease::new());
    let began = sink.start(&Start { lease: lease.clone(), ..Start::default() }, &()).unwrap().began.unwrap();
    let place = sink.joining().unwrap();
    let path = directory.path().to_owned();
    let waiting = std::thread::spawn(move || put(&mut *joined(&path, place, Mode::First), b"late", b"x").unwrap());
    std::thread::sleep(Duration::from_millis(300));
    assert!(!directory.path().join("late").exists(), "nothing is made before the journal holds the lease");
    lease.grant(began, began + LEASE, began, local_clock());
    assert_eq!(waiting.join().unwrap(), Put::Written);
    assert!(directory.path().join("late").exists());
}
