//! Sinks that decide what is durable: that hold objects back, that write many at once, and that fail.

#[path = "../examples/own_sink.rs"]
mod own_sink;
#[path = "../examples/own_source.rs"]
mod own_source;
#[path = "support/packs.rs"]
mod packs;
#[path = "support/waiting.rs"]
mod waiting;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shoal_engine::options::Workers;
use shoal_engine::sink::deliver::{Deliver, DeliverSink, Next};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::sink::null::NullSink;
use shoal_engine::sink::{Flush, Flushed, Sealed, Sink, SinkProperties, SinkState, Start, Started, Wake, Writer};
use shoal_engine::source::Source;
use shoal_engine::source::files::{Files, FilesFrom, FilesOptions};
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::testing::faults::FailingSink;
use shoal_engine::testing::{sink_contract, source_contract};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Counts, Kind, Result, TransferOptions};

use own_sink::Packs;
use own_source::Numbers;
use packs::{Objects, unpacked};
use waiting::Waiting;

fn options(workers: usize) -> TransferOptions {
    TransferOptions { workers: Workers::Fixed(workers), ..TransferOptions::default() }
}

fn run(source: impl Source + 'static, sink: Arc<dyn Sink>, options: TransferOptions) -> Outcome {
    Transfer::new(Arc::new(source), sink, options).run(&mut |_| ControlFlow::Continue(()))
}

fn numbers(count: u64) -> Objects {
    (0..count).map(|number| (number.to_string().into_bytes(), format!("number {number}").into_bytes())).collect()
}

fn memory(count: usize) -> (MemorySource, Objects) {
    let objects: Vec<_> = (0..count).map(|n| (format!("o-{n:06}").into_bytes(), vec![n as u8; n % 300])).collect();
    let source = MemorySource::new(objects.chunks(500).map(<[_]>::to_vec).collect(), 100);
    (source, objects.into_iter().collect())
}

#[test]
fn the_examples_keep_the_contracts() {
    sink_contract::run(|path| Arc::new(Packs::new(path, 10)), |_| None);
    let source: Arc<dyn Source> = Arc::new(Numbers(2500));
    source_contract::run(&source, &numbers(2500));
}

#[test]
fn a_sink_that_waits_keeps_the_contract() {
    sink_contract::run(|_| Arc::new(Waiting::new(MemorySink::new(), Duration::from_millis(1))), |_| None);
}

#[test]
fn a_sink_that_holds_100_000_objects_back_finishes() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = run(Numbers(250_500), Arc::new(Packs::new(directory.path(), 100_000)), options(2));
    assert!(outcome.error.is_none() && outcome.report.complete, "{:?}", outcome.error);
    assert_eq!(outcome.report.run.written, 250_500);
    assert!(unpacked(directory.path()) == numbers(250_500));
    let packs = std::fs::read_dir(directory.path()).unwrap().count() - 1;
    assert!(packs <= 4, "{packs} packs of at least 100,000 objects, and what is left");
}

/// Counts objects, and commits only `burst` of them at once.
struct Holding {
    inner: NullSink,
    burst: u64,
    window: u64,
    held: Mutex<(u64, Vec<u64>)>,
}

impl Sink for Holding {
    fn identity(&self) -> String {
        "holding".into()
    }
    fn properties(&self) -> SinkProperties {
        SinkProperties { window_objects: self.window, window_bytes: u64::MAX, ..self.inner.properties() }
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        None
    }
    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        self.inner.start(start, state)
    }
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        self.inner.writer(lane, wake)
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        let (objects, held) = &mut *self.held.lock().unwrap();
        *objects += sealed.iter().map(|part| part.objects).sum::<u64>();
        held.extend(Flushed::all(&sealed).durable);
        if *objects < self.burst && reason == Flush::Due {
            return Ok(Flushed::default());
        }
        *objects = 0;
        Ok(Flushed { durable: std::mem::take(held), ..Flushed::default() })
    }
}

fn holding(burst: u64, window: u64) -> Arc<Holding> {
    Arc::new(Holding { inner: NullSink::new(), burst, window, held: Mutex::default() })
}

#[test]
fn a_sink_that_commits_in_bursts_of_2_000_000_objects_finishes() {
    let outcome = run(Numbers(5_000_000), holding(2_000_000, 4_000_000), options(2));
    assert!(outcome.error.is_none() && outcome.report.complete, "{:?}", outcome.error);
    assert_eq!(outcome.report.run.written, 5_000_000);
}

#[test]
fn a_sink_that_wants_more_than_its_window_cannot_stop_a_run() {
    let began = Instant::now();
    let outcome = run(Numbers(200_000), holding(1_000_000, 5_000), options(2));
    assert!(outcome.error.is_none() && outcome.report.complete, "{:?}", outcome.error);
    assert_eq!(outcome.report.run.written, 200_000);
    assert!(began.elapsed() < Duration::from_secs(10), "it waits for the next look, not for half a second");
}

#[test]
fn a_kill_at_any_moment_loses_nothing_and_packs_nothing_twice() {
    let mut random = fastrand::Rng::with_seed(20);
    for _ in 0..30 {
        let directory = tempfile::tempdir().unwrap();
        let mut sessions = 0;
        loop {
            let inner: Arc<dyn Sink> = Arc::new(Packs::new(directory.path(), 3000));
            let sink = match sessions < 4 {
                true => Arc::new(FailingSink::new(inner, random.u64(0..12_000), random.bool())) as Arc<dyn Sink>,
                false => inner,
            };
            let outcome = run(Numbers(10_000), sink, options(2));
            let Counts { listed, written, .. } = outcome.report.total;
            if outcome.error.is_none() {
                assert!(outcome.report.complete && listed == 10_000 && written == 10_000, "{:?}", outcome.report);
                break;
            }
            sessions += 1;
        }
        assert!(unpacked(directory.path()) == numbers(10_000));
    }
}

#[test]
fn what_a_stopped_run_has_fetched_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let sink = Arc::new(Packs::new(directory.path(), 1_000_000));
    let outcome =
        Transfer::new(Arc::new(Numbers(100_000_000)), sink, options(2)).run(&mut |progress| match progress.run.written
            < 150_000
        {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
    assert_eq!(outcome.error.unwrap().kind(), Kind::Interrupted);
    let written = outcome.report.run.written;
    assert!(written >= 149_000, "{written} objects were committed, all but those of open partitions");
    assert_eq!(unpacked(directory.path()).len() as u64, written);
}

#[test]
fn two_lanes_write_many_objects_at_once() {
    let (source, objects) = memory(3000);
    let memory = MemorySink::new();
    let sink = Arc::new(Waiting::new(memory.clone(), Duration::from_millis(30)));
    let began = Instant::now();
    let outcome = run(source, sink.clone(), options(64));
    let rate = 3000.0 / began.elapsed().as_secs_f64();
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(memory.objects() == objects);
    assert!((50..=64).contains(&sink.most()), "{} writes were in flight", sink.most());
    assert!(rate >= 1500.0, "{rate:.0} objects a second");
}

#[test]
fn files_are_read_while_others_are_written() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..400 {
        std::fs::write(directory.path().join(format!("{number}")), vec![number as u8; 100]).unwrap();
    }
    let source = Files::new(FilesFrom::Path(directory.path().into()), FilesOptions::default());
    let memory = MemorySink::new();
    let sink = Arc::new(Waiting::new(memory.clone(), Duration::from_millis(20)));
    let outcome =
        Transfer::new(Arc::new(source.unwrap()), sink.clone(), options(64)).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(memory.objects().len(), 400);
    assert!(sink.most() > 30, "{} writes were in flight", sink.most());
}

#[test]
fn a_stop_does_not_wait_for_writes() {
    let (source, _) = memory(3000);
    let sink = Arc::new(Waiting::new(NullSink::new(), Duration::from_secs(3600)));
    let mut stopped = None;
    let began = Instant::now();
    let outcome = Transfer::new(Arc::new(source), sink, options(64)).run(&mut |_| match began.elapsed()
        < Duration::from_millis(300)
    {
        true => ControlFlow::Continue(()),
        false => {
            stopped.get_or_insert_with(Instant::now);
            ControlFlow::Break(())
        }
    });
    assert_eq!(outcome.error.unwrap().kind(), Kind::Interrupted);
    let took = stopped.unwrap().elapsed();
    assert!(took < Duration::from_secs(10), "a write takes an hour, the stop took {took:?}");
}

#[test]
fn objects_in_order_do_not_wait_for_each_other() {
    let (source, objects) = memory(2000);
    let ordered = Deliver {
        memory: 64 << 10, // less than what is in flight
        rows: 50,
        bytes: 4 << 10,
        apart: true,
        utf8_names: false,
        any_name: false,
        ordered: true,
        piece: None,
    };
    let (deliver, delivery) = DeliverSink::new(ordered);
    let end = deliver.clone();
    let consumer = std::thread::spawn(move || {
        let mut found = Vec::new();
        loop {
            match delivery.next(Duration::from_secs(20)) {
                Next::Chunk(chunk) => found.extend((0..chunk.len()).map(|at| chunk.name(at).to_vec())),
                Next::End => return found,
                Next::Nothing => panic!("nothing came for 20 s"),
            }
        }
    });
    let outcome = run(source, Arc::new(Waiting::new(deliver, Duration::from_millis(5))), options(64));
    end.end();
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(consumer.join().unwrap() == objects.into_keys().collect::<Vec<_>>());
}

#[test]
fn a_destination_that_fails_costs_no_fetch_and_no_pause_of_the_source() {
    for later in [true, false] {
        let fetches = Arc::new(AtomicU64::new(0));
        let (source, objects) = memory(2000);
        let counted = fetches.clone();
        let source = source.answering(move |_, _| {
            counted.fetch_add(1, Relaxed);
            Answer::Whole
        });
        let memory = MemorySink::new();
        // One write in five fails at first; for a second in the middle, all do.
        let outage = std::sync::OnceLock::<Instant>::new();
        let fails = move |writes: usize, tries| {
            let began = (writes >= 1000).then(|| *outage.get_or_init(Instant::now));
            tries == 1 && writes.is_multiple_of(5)
                || began.is_some_and(|began| began.elapsed() < Duration::from_secs(1))
        };
        let waiting = Waiting::failing(memory.clone(), Duration::from_millis(2), later, fails);
        let outcome = run(source, Arc::new(waiting), options(64));
        assert!(outcome.error.is_none() && outcome.report.run.failed == 0, "{:?}", outcome.error);
        assert!(outcome.report.retries >= 400, "{} retries", outcome.report.retries);
        assert!(memory.objects() == objects);
        assert_eq!(fetches.load(Relaxed), 2000, "each object was fetched once");
    }
}

#[test]
fn a_destination_that_stays_away_ends_the_run_and_says_so() {
    let (source, _) = memory(500);
    let waiting = Waiting::failing(MemorySink::new(), Duration::from_millis(1), true, |_, _| true);
    let options = TransferOptions { retry_timeout: Duration::from_secs(2), ..options(8) };
    let error = run(source, Arc::new(waiting), options).error.unwrap();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.why().contains("the destination"), "{error}");
}

#[test]
fn what_its_source_withdraws_fails_whatever_the_sink_says_later() {
    let (source, objects) = memory(1000);
    let source = source.answering(|name, _| match name.last() {
        Some(b'3') => Answer::Withdrawn { kind: Kind::ShortBody, at_end: false },
        Some(b'7') => Answer::Withdrawn { kind: Kind::ShortBody, at_end: true },
        _ => Answer::Whole,
    });
    let memory = MemorySink::new();
    let waiting = Waiting::failing(memory.clone(), Duration::from_millis(3), true, |writes, tries| {
        tries == 1 && writes.is_multiple_of(7)
    });
    let outcome = run(source, Arc::new(waiting), options(16));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let Counts { written, failed, .. } = outcome.report.run;
    assert_eq!((written, failed), (800, 200));
    let wanted: Objects = objects.into_iter().filter(|(name, _)| !matches!(name.last(), Some(b'3' | b'7'))).collect();
    assert!(memory.objects() == wanted, "what is withdrawn is removed");
}

#[test]
fn a_sink_says_before_the_fetch_which_keys_it_takes() {
    let keys: Vec<Vec<u8>> =
        [&b"a/b"[..], b"../up", b"a//b", b"nul\0", b"/root", b".shoal/x"].map(<[u8]>::to_vec).into();
    for any_key in [true, false] {
        let fetches = Arc::new(AtomicU64::new(0));
        let counted = fetches.clone();
        let page = keys.iter().map(|key| (key.clone(), b"data".to_vec())).collect();
        let source = MemorySource::new(vec![page], 100).answering(move |_, _| {
            counted.fetch_add(1, Relaxed);
            Answer::Whole
        });
        let memory = MemorySink::new();
        let mut waiting = Waiting::new(memory.clone(), Duration::from_millis(1));
        waiting.any_key = any_key;
        let report = run(source, Arc::new(waiting), options(2)).report;
        let taken = if any_key { 6 } else { 1 };
        assert_eq!((report.run.written, report.run.failed), (taken, 6 - taken));
        assert_eq!((memory.objects().len() as u64, fetches.load(Relaxed)), (taken, taken), "no other is fetched");
        let mut waiting = Waiting::new(MemorySink::new(), Duration::from_millis(1));
        waiting.any_key = any_key;
        let page = keys.iter().map(|key| (key.clone(), b"data".to_vec())).collect();
        let dry = TransferOptions { dry_run: true, ..options(2) };
        let report = run(MemorySource::new(vec![page], 100), Arc::new(waiting), dry).report;
        assert_eq!((report.run.written, report.run.failed), (taken, 6 - taken), "a dry run says so too");
    }
}

#[test]
fn retries_that_a_sink_holds_back_do_not_stop_a_run() {
    // A tenth is deferred (its waits come to more than 1 s), and written or not in a later retry.
    let (source, _) = memory(2000);
    let source = source.answering(|name, fetches| match name[name.len() - 1] {
        b'5' if name[name.len() - 2] == b'5' && fetches <= 6 => Answer::Fail(Kind::ServerError),
        b'7' if name[name.len() - 2] == b'7' => Answer::Fail(Kind::ServerError),
        _ => Answer::Whole,
    });
    let options = TransferOptions { max_retries: 7, ..options(8) };
    let outcome = run(source, holding(1_000_000, 4_000_000), options);
    assert!(outcome.error.is_none() && outcome.report.complete, "{:?}", outcome.error);
    assert_eq!((outcome.report.run.written, outcome.report.run.failed), (1980, 20));
}

#[test]
fn a_destination_that_refuses_the_object_that_asks_it_is_asked_again() {
    let (source, objects) = memory(1000);
    let fails = |writes: usize, _| (300..500).contains(&writes);
    let memory = MemorySink::new();
    // Every write in the outage is refused for itself, or fails with its bytes, without them, or with fewer.
    let waiting = Waiting::failing(memory.clone(), Duration::from_millis(1), true, fails);
    let outcome = run(source, Arc::new(waiting.refusing()), TransferOptions { max_retries: 3, ..options(16) });
    assert!(outcome.error.is_none() && outcome.report.complete, "{:?}", outcome.error);
    let Counts { written, failed, .. } = outcome.report.run;
    assert!(failed > 0 && written + failed == 1000, "{:?}", outcome.report.run);
    let found = memory.objects();
    assert_eq!(found.len() as u64, written);
    assert!(found.iter().all(|(name, bytes)| objects[name] == *bytes), "an object has other bytes than its source");
}
