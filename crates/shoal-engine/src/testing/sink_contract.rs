//! The contract of `Sink` as a suite: every sink passes it, ours and those outside this crate.

#![allow(clippy::disallowed_methods)] // scratch directories for the sinks under test

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::name::Name;
use crate::object::{ObjectMeta, Payload};
use crate::partition::{Cursor, Key, Partition};
use crate::session::Interval;
use crate::sink::{Flush, Mode, PartitionWriter, Put, Sealed, Sink, Start, Writer};
use crate::testing::names::LEGAL;

/// How long a sink may take for a write that it ends later.
const LATER_MAX: std::time::Duration = std::time::Duration::from_secs(10);

type Objects = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs the suite. `make` gives a sink on a destination, and is called again for a second run on the same one;
/// `read_back` says what is at a destination, or `None` for a sink that keeps nothing.
///
/// # Panics
/// When the sink breaks its contract.
pub fn run(make: impl Fn(&Path) -> Arc<dyn Sink>, read_back: impl Fn(&Path) -> Option<Objects>) {
    run_in(&std::env::temp_dir(), make, read_back);
}

/// Runs the suite with destinations in `base`.
///
/// # Panics
/// When the sink breaks its contract.
pub fn run_in(base: &Path, make: impl Fn(&Path) -> Arc<dyn Sink>, read_back: impl Fn(&Path) -> Option<Objects>) {
    Suite { base, make: &make, read_back: &read_back }.run();
}

const PROMISES: &[fn(&Suite<'_>, &Path)] = &[
    whole_objects_arrive,
    objects_in_pieces_arrive,
    an_unfinished_object_leaves_nothing,
    two_partitions_are_open_at_once,
    a_dropped_writer_commits_nothing,
    parts_of_a_partition_are_written_by_two_writers,
    odd_legal_names_are_kept_byte_for_byte,
    a_directory_counts_as_nothing_and_is_in_the_way_of_nothing,
    the_first_of_a_name_stays,
    leftovers_of_a_run_that_was_cut_off_are_replaced,
    what_another_run_finished_is_not_replaced,
    flush_names_what_was_sealed,
];

struct Suite<'a> {
    base: &'a Path,
    make: &'a dyn Fn(&Path) -> Arc<dyn Sink>,
    read_back: &'a dyn Fn(&Path) -> Option<Objects>,
}

impl Suite<'_> {
    fn run(&self) {
        for promise in PROMISES {
            let scratch = Scratch::new(self.base);
            promise(self, &scratch.0);
        }
    }

    fn begin(&self, path: &Path, earlier: Option<Interval>) -> (Arc<dyn Sink>, Option<i64>) {
        let sink = (self.make)(path);
        let sessions = Vec::from_iter(earlier);
        let started = sink.start(&Start { sessions, ..Start::default() }, &()).expect("start");
        assert!(!started.durability.is_empty() && !started.publish.is_empty(), "the barrier is named");
        assert!(!self.keeps(path) || started.began.is_some(), "what keeps objects has a clock");
        (sink, started.began)
    }

    /// The session of a sink that is cut off now, as the journal would know it.
    fn cut_off(&self, sink: &dyn Sink, began: Option<i64>) -> Option<Interval> {
        let (low, seen) = (began?, sink.clock().expect("clock")?);
        Some(Interval {
            low,
            seen,
            high: seen,
            barrier: None,
            same_boot: true,
            sound: true,
            failed: false,
            volatile: true,
            superseded: false,
            same_root: true,
            whole: true,
        })
    }

    fn expect(&self, path: &Path, wanted: &[(&[u8], &[u8])]) {
        if let Some(found) = (self.read_back)(path) {
            let wanted: Objects = wanted.iter().map(|(name, bytes)| (name.to_vec(), bytes.to_vec())).collect();
            assert!(found == wanted, "found {:?}, wanted {:?}", sizes(&found), sizes(&wanted));
        }
    }

    fn keeps(&self, path: &Path) -> bool {
        (self.read_back)(path).is_some()
    }
}

fn sizes(objects: &Objects) -> Vec<(String, usize)> {
    objects.iter().map(|(name, bytes)| (crate::display::escape(name), bytes.len())).collect()
}

fn whole_objects_arrive(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 7, Mode::First);
    assert_eq!(put(&mut *writer, b"a", b"alpha"), Put::Written);
    assert_eq!(put(&mut *writer, b"deep/er/b", b""), Put::Written);
    let mut owned = Payload::Owned(vec![9; 100_000]);
    let large = writer.put(2, &name(b"deep/c"), &ObjectMeta::default(), &mut owned).expect("put");
    assert_eq!(ended(&mut *writer, 2, large), Put::Written);
    let sealed = writer.seal().expect("seal");
    assert_eq!((sealed.seq, sealed.objects, sealed.bytes), (7, 3, 100_005));
    settle(&*sink, vec![sealed], &[7]);
    suite.expect(path, &[(b"a", b"alpha"), (b"deep/er/b", b""), (b"deep/c", &[9; 100_000])]);
}

fn objects_in_pieces_arrive(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::First);
    let meta = ObjectMeta { size: Some(1_000_000), ..ObjectMeta::default() };
    let mut object = writer.begin(0, &name(b"d/large"), &meta).expect("begin").expect("room");
    for _ in 0..10 {
        object.write(&[5; 100_000]).expect("write");
    }
    suite.expect(path, &[]); // nothing of it before its end
    let empty = writer.begin(1, &name(b"empty"), &ObjectMeta::default()).expect("two at once").expect("room");
    let put = empty.finish().expect("finish");
    assert_eq!(ended(&mut *writer, 1, put), Put::Written);
    let put = object.finish().expect("finish");
    assert_eq!(ended(&mut *writer, 0, put), Put::Written);
    let sealed = writer.seal().expect("seal");
    assert_eq!((sealed.objects, sealed.bytes), (2, 1_000_000));
    settle(&*sink, vec![sealed], &[0]);
    suite.expect(path, &[(b"d/large", &[5; 1_000_000]), (b"empty", b"")]);
}

fn an_unfinished_object_leaves_nothing(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::First);
    let mut object = writer.begin(0, &name(b"broken"), &ObjectMeta::default()).expect("begin").expect("room");
    object.write(b"the first half").expect("write");
    drop(object);
    suite.expect(path, &[]);
    assert_eq!(put(&mut *writer, b"broken", b"whole"), Put::Written); // and the name is free
    let sealed = writer.seal().expect("seal");
    assert_eq!((sealed.objects, sealed.bytes), (1, 5));
    settle(&*sink, vec![sealed], &[0]);
    suite.expect(path, &[(b"broken", b"whole")]);
}

fn two_partitions_are_open_at_once(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut first = open(&mut *lane, 10, Mode::First);
    let mut second = open(&mut *lane, 11, Mode::First);
    put(&mut *first, b"x", b"1");
    put(&mut *second, b"y", b"22");
    put(&mut *first, b"z", b"333");
    let second = second.seal().expect("seal");
    let first = first.seal().expect("seal");
    assert_eq!((first.seq, first.objects, first.bytes), (10, 2, 4));
    assert_eq!((second.seq, second.objects, second.bytes), (11, 1, 2));
    settle(&*sink, vec![second, first], &[10, 11]);
    suite.expect(path, &[(b"x", b"1"), (b"y", b"22"), (b"z", b"333")]);
}

fn a_dropped_writer_commits_nothing(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::First);
    put(&mut *writer, b"given-up", b"1");
    drop(writer);
    let mut writer = open(&mut *lane, 1, Mode::First);
    put(&mut *writer, b"kept", b"22");
    let sealed = writer.seal().expect("seal");
    assert_eq!((sealed.seq, sealed.objects, sealed.bytes), (1, 1, 2));
    settle(&*sink, vec![sealed], &[1]);
}

fn parts_of_a_partition_are_written_by_two_writers(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let sealed: Vec<Sealed> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..2)
            .map(|lane| {
                let sink = &sink;
                scope.spawn(move || {
                    let mut writers = writer_of(&**sink, lane);
                    let mut writer = open(&mut *writers, 5, Mode::First);
                    for at in 0..50 {
                        let name = format!("shared/{}/{lane}-{at}", at % 7);
                        assert_eq!(put(&mut *writer, name.as_bytes(), name.as_bytes()), Put::Written);
                    }
                    writer.seal().expect("seal")
                })
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().expect("a lane")).collect()
    });
    assert_eq!(sealed.iter().map(|part| part.objects).sum::<u64>(), 100);
    assert!(sealed.iter().all(|part| part.seq == 5));
    settle(&*sink, sealed, &[5]);
    if let Some(found) = (suite.read_back)(path) {
        assert_eq!(found.len(), 100);
        assert!(found.iter().all(|(name, bytes)| name == bytes), "bytes under the wrong name");
    }
}

fn odd_legal_names_are_kept_byte_for_byte(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::First);
    let admits = |raw: &Vec<u8>| sink.admit(raw).is_ok();
    let names: Vec<_> = LEGAL().into_iter().filter(admits).collect();
    for (at, raw) in names.iter().enumerate() {
        if at % 2 == 0 {
            assert_eq!(put(&mut *writer, raw, raw), Put::Written);
        } else {
            let mut object = writer.begin(0, &name(raw), &ObjectMeta::default()).expect("begin").expect("room");
            object.write(raw).expect("write");
            let put = object.finish().expect("finish");
            assert_eq!(ended(&mut *writer, 0, put), Put::Written);
        }
    }
    let sealed = writer.seal().expect("seal");
    settle(&*sink, vec![sealed], &[0]);
    let wanted: Vec<_> = names.iter().map(|raw| (&raw[..], &raw[..])).collect();
    suite.expect(path, &wanted);
}

fn a_directory_counts_as_nothing_and_is_in_the_way_of_nothing(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::First);
    for raw in [&b"empty"[..], b"a/b/c", b"a/b/c", b"a"] {
        writer.directory(&name(raw)).expect("a directory, also one that is there");
    }
    assert_eq!(put(&mut *writer, b"a/b/c/object", b"1"), Put::Written);
    assert_eq!(put(&mut *writer, b"file", b"22"), Put::Written);
    for raw in [&b"file"[..], b"file/below"] {
        if let Err(error) = writer.directory(&name(raw)) {
            assert_eq!(error.kind(), crate::Kind::NameConflict, "{error}"); // a sink that has no directories says nothing
        }
    }
    let sealed = writer.seal().expect("seal");
    assert_eq!((sealed.objects, sealed.bytes), (2, 3));
    settle(&*sink, vec![sealed], &[0]);
    suite.expect(path, &[(b"a/b/c/object", b"1"), (b"file", b"22")]);
}

fn the_first_of_a_name_stays(suite: &Suite<'_>, path: &Path) {
    if !suite.keeps(path) {
        return; // such a sink remembers no names, and its documentation says so
    }
    let (sink, _) = suite.begin(path, None);
    let (mut lane_one, mut lane_two) = (writer_of(&*sink, 0), writer_of(&*sink, 1));
    let mut one = open(&mut *lane_one, 0, Mode::First);
    let mut two = open(&mut *lane_two, 1, Mode::First);
    let mut redone = open(&mut *lane_one, 2, Mode::Redo);
    assert_eq!(put(&mut *one, b"same", b"first"), Put::Written);
    assert_eq!(put(&mut *one, b"same", b"first"), Put::Duplicate, "the same bytes again");
    second_fails(&mut *one, b"within a partition");
    second_fails(&mut *two, b"across partitions");
    second_fails(&mut *redone, b"in one that is redone");
    for (bytes, wanted) in [(&b"first"[..], Some(Put::Duplicate)), (b"in pieces", None)] {
        if let Ok(Some(mut object)) = two.begin(0, &name(b"same"), &ObjectMeta::default()) {
            object.write(bytes).expect("write");
            let put = object.finish();
            assert_eq!(
                put.as_ref().err().map(crate::Error::kind),
                wanted.is_none().then_some(crate::Kind::NameConflict)
            );
            assert_eq!(put.ok(), wanted);
        }
    }
    let sealed = vec![one.seal().expect("seal"), two.seal().expect("seal"), redone.seal().expect("seal")];
    assert_eq!(sealed.iter().map(|part| part.objects).collect::<Vec<_>>(), [1, 0, 0]);
    settle(&*sink, sealed, &[0, 1, 2]);
    suite.expect(path, &[(b"same", b"first")]);
}

fn leftovers_of_a_run_that_was_cut_off_are_replaced(suite: &Suite<'_>, path: &Path) {
    let (sink, first_began) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::First);
    put(&mut *writer, b"d/left", b"half");
    put(&mut *writer, b"d/left-in-pieces", b"half");
    drop((writer, lane)); // cut off: neither sealed nor flushed
    let earlier = suite.cut_off(&*sink, first_began);
    drop(sink);

    let (sink, began) = suite.begin(path, earlier);
    assert!(!suite.keeps(path) || began > first_began, "the second session begins later than the first");
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::Redo);
    assert_eq!(put(&mut *writer, b"d/left", b"the whole"), Put::Written);
    let mut object = writer.begin(0, &name(b"d/left-in-pieces"), &ObjectMeta::default()).expect("begin").expect("room");
    object.write(b"the ").and_then(|()| object.write(b"whole")).expect("write");
    let put = object.finish().expect("finish");
    assert_eq!(ended(&mut *writer, 0, put), Put::Written);
    if suite.keeps(path) {
        let again = writer.put(0, &name(b"d/left"), &ObjectMeta::default(), &mut Payload::Borrowed(b"not a leftover"));
        assert_eq!(again.expect_err("the first of this session stays").kind(), crate::Kind::NameConflict);
    }
    let sealed = writer.seal().expect("seal");
    settle(&*sink, vec![sealed], &[0]);
    suite.expect(path, &[(b"d/left", b"the whole"), (b"d/left-in-pieces", b"the whole")]);
}

fn what_another_run_finished_is_not_replaced(suite: &Suite<'_>, path: &Path) {
    if !suite.keeps(path) {
        return;
    }
    let (sink, first_began) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::First);
    put(&mut *writer, b"done", b"committed");
    let sealed = writer.seal().expect("seal");
    settle(&*sink, vec![sealed], &[0]);
    let earlier = suite.cut_off(&*sink, first_began);
    drop((lane, sink));

    // The same object again, in a later session of this run.
    let (sink, _) = suite.begin(path, earlier);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 9, Mode::First);
    assert_eq!(put(&mut *writer, b"done", b"committed"), Put::Kept);
    drop((writer, lane, sink));

    // A run of its own, which did not write it.
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut writer = open(&mut *lane, 0, Mode::Redo);
    let refused = writer.put(0, &name(b"done"), &ObjectMeta::default(), &mut Payload::Borrowed(b"another"));
    assert_eq!(refused.expect_err("another run's object stays").kind(), crate::Kind::Exists);
    suite.expect(path, &[(b"done", b"committed")]);
}

fn flush_names_what_was_sealed(suite: &Suite<'_>, path: &Path) {
    let (sink, _) = suite.begin(path, None);
    let mut lane = writer_of(&*sink, 0);
    let mut durable = Vec::new();
    for seq in 0..20 {
        let mut writer = open(&mut *lane, seq, Mode::First);
        put(&mut *writer, format!("{seq}/x").as_bytes(), b"x");
        let sealed = writer.seal().expect("seal");
        let settled = sink.flush(vec![sealed], Flush::Due).expect("flush");
        assert!(settled.durable.iter().all(|&done| done <= seq), "named before it was sealed");
        durable.extend(settled.durable);
    }
    durable.extend(sink.flush(Vec::new(), Flush::Last).expect("flush").durable);
    durable.sort_unstable();
    assert_eq!(durable, (0..20).collect::<Vec<u64>>(), "each exactly once, and none held back at the end");
    drop(lane);
    sink.finish().expect("finish");
}

fn settle(sink: &dyn Sink, sealed: Vec<Sealed>, wanted: &[u64]) {
    let mut durable = sink.flush(sealed, Flush::Last).expect("flush").durable;
    durable.sort_unstable();
    durable.dedup();
    assert_eq!(durable, wanted);
    sink.finish().expect("finish");
}

fn second_fails(writer: &mut dyn PartitionWriter, bytes: &[u8]) {
    let refused = writer.put(0, &name(b"same"), &ObjectMeta::default(), &mut Payload::Borrowed(bytes));
    assert_eq!(refused.expect_err("other bytes fail").kind(), crate::Kind::NameConflict);
}

fn writer_of(sink: &dyn Sink, lane: usize) -> Box<dyn Writer> {
    sink.writer(lane, Arc::new(|| {})).expect("writer")
}

fn open(lane: &mut dyn Writer, seq: u64, mode: Mode) -> Box<dyn PartitionWriter> {
    lane.open(&partition(seq), mode, Box::new(|_| None)).expect("open")
}

fn put(writer: &mut dyn PartitionWriter, raw: &[u8], bytes: &[u8]) -> Put {
    let meta = ObjectMeta { size: Some(bytes.len() as u64), ..ObjectMeta::default() };
    let put = writer.put(0, &name(raw), &meta, &mut Payload::Borrowed(bytes)).expect("put");
    ended(writer, 0, put)
}

/// Waits for a write that the sink ends later.
fn ended(writer: &mut dyn PartitionWriter, index: u32, put: Put) -> Put {
    if put != Put::Later {
        return put;
    }
    let until = std::time::Instant::now() + LATER_MAX;
    loop {
        match writer.completed() {
            Some(completed) => {
                assert_eq!(completed.index, index, "a write that the sink had, once");
                return completed.result.expect("a write");
            }
            None => assert!(std::time::Instant::now() < until, "a write never ended"),
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn name(raw: &[u8]) -> ObjectKey {
    Name::parse(raw).expect("a legal name").into()
}

fn partition(seq: u64) -> Partition {
    let payload = Arc::from(seq.to_le_bytes());
    Partition { seq, key: Key::of([&seq.to_le_bytes()[..]]), after: Cursor::default(), next: None, payload, len: None }
}

/// A directory of its own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(base: &Path) -> Scratch {
        let path = base.join(format!("shoal-contract-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&path).expect("a scratch directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
