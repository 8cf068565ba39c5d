//! What the source of ids promises: tasks in order, every object that was written elsewhere counted, and nothing that is
//! committed made again; and what a joined directory sink does with what is there already.

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use shoal_engine::options::{Layout, TransferOptions, Workers};
use shoal_engine::sink::dir::{DirOptions, DirSink, Joined};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::sink::{Mode, Put, Sink, Writer};
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
fn joined(path: &Path, joined: Joined, mode: Mode) -> Box<dyn Writer> {
    let mut writer = DirSink::join(path, DirOptions::default(), joined).unwrap().writer(0).unwrap();
    let partition =
        Partition { seq: 0, key: Key::default(), after: Cursor::default(), next: None, payload: [].into(), len: None };
    writer.open(0, &partition, mode).unwrap();
    writer
}

fn put(writer: &mut dyn Writer, name: &[u8], bytes: &[u8]) -> Result<Put> {
    writer.put(0, &Name::parse(name).unwrap(), &ObjectMeta::default(), Payload::Borrowed(bytes))
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
    let mode = if task.again { Mode::Again } else { Mode::Fresh };
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
fn one_who_joins_replaces_in_mode_again_whatever_the_run_has_written_and_never_a_strangers() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("stranger"), "mine").unwrap();
    let mut place = None;
    run(directory.path(), 1, |sink, task| {
        place = sink.joining();
        Some(write(sink, task))
    });
    let place = place.unwrap();
    std::fs::write(directory.path().join("half"), "ha").unwrap(); // since the run began: one that was killed over it

    let mut again = joined(directory.path(), place, Mode::Again);
    assert_eq!(put(&mut *again, b"half", b"whole").unwrap(), Put::Written);
    assert_eq!(std::fs::read(directory.path().join("half")).unwrap(), b"whole");
    assert_eq!(put(&mut *again, b"stranger", b"ours").unwrap_err().kind(), Kind::Exists);
    let mut fresh = joined(directory.path(), place, Mode::Fresh);
    assert_eq!(put(&mut *fresh, b"half", b"other").unwrap(), Put::Duplicate);
    assert_eq!(std::fs::read(directory.path().join("half")).unwrap(), b"whole");
}

#[test]
fn a_directory_for_each_partition_cannot_be_joined() {
    let directory = tempfile::tempdir().unwrap();
    let options = DirOptions { layout: Layout::Partition, ..DirOptions::default() };
    let joined = Joined { first: 0, file_mode: 0o644 };
    assert_eq!(DirSink::join(directory.path(), options, joined).unwrap_err().kind(), Kind::Config);
}
