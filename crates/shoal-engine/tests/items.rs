//! What the source of handed-in items promises: every item arrives, memory is bounded, each is dropped on the thread that
//! pushed it, a named series goes on where it was cut off.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::Duration;

use shoal_engine::options::{Durability, TransferOptions, Workers};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::items::{BATCH_ITEMS, Item, Pusher, Room, items};
use shoal_engine::source::{Entries, Source};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Error, Kind, Result};

const MEMORY: u64 = 64 << 20;

/// Where items were dropped, and how much of them is there.
#[derive(Default)]
struct Watch {
    held: AtomicU64,
    most: AtomicU64,
    dropped: AtomicU64,
    elsewhere: AtomicBool,
}

struct Bytes {
    data: Vec<u8>,
    home: ThreadId,
    watch: Arc<Watch>,
    encoded: bool,
    slow: Duration,
}

impl Bytes {
    fn new(data: Vec<u8>, watch: &Arc<Watch>) -> Bytes {
        let held = watch.held.fetch_add(data.len() as u64, SeqCst) + data.len() as u64;
        watch.most.fetch_max(held, SeqCst);
        let home = std::thread::current().id();
        Bytes { data, home, watch: watch.clone(), encoded: false, slow: Duration::ZERO }
    }

    fn slow(mut self, time: Duration) -> Bytes {
        self.slow = time;
        self
    }

    fn encoded(mut self, encoded: bool) -> Bytes {
        self.encoded = encoded;
        self
    }
}

impl Item for Bytes {
    fn held(&self) -> u64 {
        self.data.len() as u64
    }

    fn data<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        assert!(scratch.is_empty());
        std::thread::sleep(self.slow);
        if self.data == b"broken" {
            return Err(Error::new(Kind::Encoding, "cannot be written"));
        }
        if self.encoded {
            scratch.extend(self.data.iter().rev());
            return Ok(scratch);
        }
        Ok(&self.data)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.watch.held.fetch_sub(self.data.len() as u64, SeqCst);
        self.watch.dropped.fetch_add(1, SeqCst);
        if std::thread::current().id() != self.home {
            self.watch.elsewhere.store(true, SeqCst);
        }
    }
}

/// Pushes until the run is over or there is nothing left.
fn push_all(pusher: &mut Pusher<Bytes>, all: impl Iterator<Item = (String, Bytes)>) {
    for (name, item) in all {
        loop {
            match pusher.room() {
                Room::Free => break,
                Room::Ended => return,
                Room::Full => {
                    pusher.wait(Duration::from_millis(100));
                    drop(pusher.returned());
                }
            }
        }
        if pusher.push(name.as_bytes(), item) {
            drop(pusher.returned());
        }
    }
}

fn start(transfer: Transfer) -> std::thread::JoinHandle<Outcome> {
    std::thread::spawn(move || transfer.run(&mut |_| ControlFlow::Continue(())))
}

fn options() -> TransferOptions {
    TransferOptions { durability: Durability::None, ..TransferOptions::default() }
}

/// Saves so many items into a directory under a name; `whole`: the series ends there.
fn save_named(directory: &Path, count: usize, whole: bool, name: impl Fn(usize) -> String) -> Outcome {
    let (source, mut pusher) = items(Some("series"), MEMORY);
    let sink = Arc::new(DirSink::new(directory, DirOptions::of(&options())).unwrap());
    let run = start(Transfer::new(Arc::new(source), sink, options()));
    let watch = Arc::new(Watch::default());
    push_all(&mut pusher, (0..count).map(|n| (name(n), Bytes::new(n.to_string().into_bytes(), &watch))));
    pusher.finish(whole);
    let outcome = run.join().unwrap();
    drop(pusher);
    assert_eq!(watch.held.load(SeqCst), 0);
    outcome
}

#[test]
fn every_item_arrives_and_is_dropped_where_it_was_pushed() {
    for workers in [1, 2, 7, 64] {
        let (source, mut pusher) = items(None, MEMORY);
        let sink = MemorySink::new();
        let fixed = TransferOptions { workers: Workers::Fixed(workers), ..options() };
        let run = start(Transfer::new(Arc::new(source), Arc::new(sink.clone()), fixed));
        let watch = Arc::new(Watch::default());
        let mut expected = BTreeMap::new();
        // Around every border: empty, the largest that is handed in whole, larger, larger than a batch.
        let sizes = [0, 1, 1000, 64 << 10, (64 << 10) + 1, 3 << 20, 9 << 20];
        let all = (0..1234).map(|n| {
            let size = if n % 100 == 7 { sizes[n / 100 % sizes.len()] } else { n % 50 };
            let data: Vec<u8> = (0..size).map(|at| (at * 7 + n) as u8).collect();
            let item = Bytes::new(data.clone(), &watch).encoded(n % 3 == 0);
            let arrives = if item.encoded { data.into_iter().rev().collect() } else { data };
            expected.insert(format!("item-{n}").into_bytes(), arrives);
            (format!("item-{n}"), item)
        });
        push_all(&mut pusher, all);
        pusher.finish(true);
        let outcome = run.join().unwrap();
        drop(pusher);
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!((outcome.report.run.written, outcome.report.complete), (1234, true));
        assert!(outcome.report.run.balanced());
        assert!(sink.objects() == expected, "with {workers} workers");
        assert_eq!((watch.dropped.load(SeqCst), watch.held.load(SeqCst)), (1234, 0));
        assert!(!watch.elsewhere.load(SeqCst), "an item was dropped on another thread");
    }
}

#[test]
fn items_wait_while_enough_is_held() {
    let limit = 8 << 20;
    let (source, mut pusher) = items(None, limit);
    let run = start(Transfer::new(Arc::new(source), Arc::new(MemorySink::new()), options()));
    let watch = Arc::new(Watch::default());
    let slow = Duration::from_millis(1);
    let item = |n: usize| (n.to_string(), Bytes::new(vec![0; 200_000], &watch).slow(slow));
    push_all(&mut pusher, (0..400).map(item));
    pusher.finish(true);
    assert_eq!(run.join().unwrap().report.run.written, 400);
    let most = watch.most.load(SeqCst);
    // One item passes the limit, since nobody knows its size before, and one more is made before it is seen that there is
    // no room for it.
    assert!(most <= limit + 2 * 200_000, "{most} bytes were held");
    assert!(most > limit / 2, "{most} bytes were held: the room was not used");
}

#[test]
fn an_item_larger_than_the_memory_is_admitted_alone() {
    let (source, mut pusher) = items(None, 1000);
    let sink = MemorySink::new();
    let run = start(Transfer::new(Arc::new(source), Arc::new(sink.clone()), options()));
    let watch = Arc::new(Watch::default());
    push_all(&mut pusher, (0..5).map(|n| (n.to_string(), Bytes::new(vec![n; 5_000_000], &watch))));
    pusher.finish(true);
    assert_eq!(run.join().unwrap().report.run.written, 5);
    assert!(watch.most.load(SeqCst) <= 10_000_000);
}

#[test]
fn an_item_that_has_no_bytes_fails_alone() {
    let (source, mut pusher) = items(None, MEMORY);
    let sink = MemorySink::new();
    let run = start(Transfer::new(Arc::new(source), Arc::new(sink.clone()), options()));
    let watch = Arc::new(Watch::default());
    let item = |n: usize| {
        let name = if n == 51 { "../out".to_owned() } else { format!("{n}") };
        (name, Bytes::new(if n == 50 { b"broken".to_vec() } else { vec![1] }, &watch))
    };
    push_all(&mut pusher, (0..200).map(item));
    pusher.finish(true);
    let report = run.join().unwrap().report;
    assert_eq!((report.run.written, report.run.failed), (198, 2));
    let mut kinds: Vec<_> = report.failures.iter().map(|failure| failure.kind.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["encoding", "unsafe-name"]);
}

#[test]
fn what_no_lane_came_to_comes_back_when_the_run_is_stopped() {
    let (source, mut pusher) = items(None, MEMORY);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let run = std::thread::spawn(move || {
        Transfer::new(Arc::new(source), Arc::new(MemorySink::new()), options()).run(&mut |_| {
            if stopped.load(SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    });
    let watch = Arc::new(Watch::default());
    let slow = Duration::from_millis(20);
    let item = |n: usize| {
        if n == 1000 {
            stop.store(true, SeqCst);
        }
        (n.to_string(), Bytes::new(vec![0; 10], &watch).slow(slow))
    };
    push_all(&mut pusher, (0..).map(item));
    let outcome = run.join().unwrap();
    assert_eq!(outcome.error.map(|error| error.kind()), Some(Kind::Interrupted));
    drop(pusher);
    assert_eq!(watch.held.load(SeqCst), 0);
    assert!(watch.dropped.load(SeqCst) > 1000);
    assert!(!watch.elsewhere.load(SeqCst), "an item was dropped on another thread");
}

#[test]
fn a_named_series_goes_on_where_it_was_broken_off() {
    let directory = tempfile::tempdir().unwrap();
    let name = |n: usize| format!("item-{n}");
    let first = save_named(directory.path(), 1030, false, name);
    assert!(first.error.is_none(), "{:?}", first.error);
    assert_eq!((first.report.run.written, first.report.complete), (1030, false));

    let second = save_named(directory.path(), 2000, true, name);
    assert!(second.error.is_none(), "{:?}", second.error);
    assert_eq!((second.report.run.listed, second.report.run.written, second.report.complete), (970, 970, true));
    assert_eq!(second.report.total.written, 2000);
    for n in 0..2000 {
        assert_eq!(std::fs::read(directory.path().join(name(n))).unwrap(), n.to_string().as_bytes());
    }

    let third = save_named(directory.path(), 2000, true, name);
    assert!(third.report.completed_before.is_some());
}

/// Items of a series of which some failed: those that `bad` says have no bytes, and `name` says what they are called now.
fn save_again(
    directory: &Path,
    (count, whole): (usize, bool),
    (memory, workers): (u64, usize),
    bad: impl Fn(usize) -> bool,
    name: impl Fn(usize) -> String,
) -> (Outcome, usize) {
    let (source, mut pusher) = items(Some("series"), memory);
    let options = TransferOptions { workers: Workers::Fixed(workers), ..options() };
    let sink = Arc::new(DirSink::new(directory, DirOptions::of(&options)).unwrap());
    let run = start(Transfer::new(Arc::new(source), sink, options));
    let watch = Arc::new(Watch::default());
    let data = |n: usize| if bad(n) { b"broken".to_vec() } else { vec![n as u8; 1000] };
    let mut needed = 0;
    for n in 0..count {
        while pusher.room() == Room::Full {
            pusher.wait(Duration::from_millis(100));
            drop(pusher.returned());
        }
        if pusher.room() == Room::Ended {
            break;
        }
        if pusher.needs(name(n).as_bytes()) {
            needed += 1;
            pusher.push(name(n).as_bytes(), Bytes::new(data(n), &watch));
        }
    }
    pusher.finish(whole);
    let outcome = run.join().unwrap();
    drop(pusher);
    assert_eq!(watch.held.load(SeqCst), 0);
    assert!(!watch.elsewhere.load(SeqCst), "an item was dropped on another thread");
    (outcome, needed)
}

fn item_name(n: usize) -> String {
    format!("item-{n}")
}

/// How many objects each listed, wrote and failed; in all, written and failed.
fn counts(outcome: &Outcome) -> [u64; 5] {
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let (run, total) = (&outcome.report.run, &outcome.report.total);
    [run.listed, run.written, run.failed, total.written, total.failed]
}

#[test]
fn items_that_failed_are_passed_again_in_their_turn() {
    for (memory, workers) in [(MEMORY, 1), (MEMORY, 7), (3000, 1), (3000, 7)] {
        let directory = tempfile::tempdir().unwrap();
        // Every third fails, a hundred in a row, and the last.
        let bad = |n: usize| n.is_multiple_of(3) || (500..600).contains(&n) || n == 1999;
        let all = (0..2000).filter(|n| bad(*n)).count() as u64;
        let with = (memory, workers);
        let first = save_again(directory.path(), (2000, true), with, bad, item_name);
        assert_eq!(counts(&first.0), [2000, 2000 - all, all, 2000 - all, all]);
        let half = |n: usize| bad(n) && n.is_multiple_of(2);
        let left = (0..2000).filter(|n| half(*n)).count() as u64;
        let (second, needed) = save_again(directory.path(), (2000, true), with, half, item_name);
        assert_eq!(counts(&second), [all, all - left, left, 2000 - left, left], "{memory} {workers}");
        assert_eq!(needed as u64, all, "only those that failed");
        let (third, needed) = save_again(directory.path(), (2000, true), with, |_| false, item_name);
        assert_eq!((counts(&third), needed as u64), ([left, left, 0, 2000, 0], left));
        assert!(third.report.complete);
        for n in 0..2000 {
            assert_eq!(std::fs::read(directory.path().join(item_name(n))).unwrap(), vec![n as u8; 1000]);
        }
    }
}

#[test]
fn what_no_lane_asks_for_takes_no_memory() {
    // Refused for their names, before their data is asked for.
    let directory = tempfile::tempdir().unwrap();
    let refused = |n: usize| if n.is_multiple_of(2) { format!("../{n}") } else { item_name(n) };
    for failed in [500, 500] {
        let outcome = save_again(directory.path(), (1000, true), (3000, 3), |_| false, refused).0;
        assert_eq!(counts(&outcome)[2..], [failed, 500, failed]);
    }
    // Committed by an earlier session: the listing drops their partitions.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for (memory, count) in [(10_000, 1000), (MEMORY, 30_000)] {
        let (source, mut pusher) = items(Some("series"), memory);
        let mut listing = source.list(None).unwrap();
        let watch = Arc::new(Watch::default());
        let mut drop_listed = || {
            let next = async { tokio::time::timeout(Duration::from_millis(10), listing.next()).await };
            runtime.block_on(next).is_ok()
        };
        for n in 0..count {
            if pusher.room() == Room::Full {
                while drop_listed() {}
                let _ = (pusher.room(), pusher.returned());
            }
            assert_eq!(pusher.room(), Room::Free, "{n}");
            pusher.push(n.to_string().as_bytes(), Bytes::new(vec![0; 1000], &watch));
        }
    }
}

#[test]
fn a_series_that_was_broken_off_with_failures_retries_them_and_goes_on() {
    for (memory, workers) in [(MEMORY, 1), (MEMORY, 7), (3000, 7)] {
        let directory = tempfile::tempdir().unwrap();
        let bad = |n: usize| n.is_multiple_of(5) || n == 1029;
        let with = (memory, workers);
        let first = save_again(directory.path(), (1030, false), with, bad, item_name);
        assert_eq!((counts(&first.0), first.0.report.complete), ([1030, 823, 207, 823, 207], false));
        let (second, needed) = save_again(directory.path(), (1500, true), with, |n| n == 1300, item_name);
        // What was committed last may be listed again as a whole.
        let again = second.report.run.listed - (207 + 470);
        assert!(again <= 100, "{again}");
        assert_eq!(counts(&second)[2..], [1, 1499, 1]);
        assert_eq!(needed as u64, second.report.run.listed);
        let (third, needed) = save_again(directory.path(), (1500, true), with, |_| false, item_name);
        assert_eq!((counts(&third), needed), ([1, 1, 0, 1500, 0], 1));
    }
}

#[test]
fn an_item_that_failed_and_does_not_come_again_stays_a_failure_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let with = (MEMORY, 2);
    save_again(directory.path(), (300, true), with, |n| n % 100 == 50, item_name);
    let other = |n| if n == 50 { "other".to_owned() } else { item_name(n) };
    for (whole, why) in [(true, "the items ended before it"), (false, "iterating over the items stopped before it")] {
        let (outcome, needed) = save_again(directory.path(), (200, whole), with, |_| true, other);
        assert_eq!(counts(&outcome)[2..], [3, 297, 3]);
        assert_eq!(needed, 1);
        let reasons: Vec<_> = outcome.report.failures.iter().map(|failure| failure.reason.as_str()).collect();
        assert_eq!(reasons[0], "the item at its position is now called \"other\"");
        assert_eq!(reasons[1..], ["cannot be written", why]);
    }
    let (outcome, _) = save_again(directory.path(), (300, true), with, |_| false, item_name);
    assert_eq!(counts(&outcome), [3, 3, 0, 300, 0]);
}

#[test]
fn a_named_series_that_is_another_one_is_refused() {
    for (count, whole) in [(2000, true), (500, true)] {
        let directory = tempfile::tempdir().unwrap();
        save_named(directory.path(), 1000, false, |n| format!("item-{n}"));
        let other = save_named(directory.path(), count, whole, |n| {
            if count == 500 || n != 400 { format!("item-{n}") } else { "other".to_owned() }
        });
        assert_eq!(other.error.map(|error| error.kind()), Some(Kind::CursorRefused), "{count}");
    }
}

/// What of the contract of a source applies to items that can be had only once (`testing::source_contract` lists twice).
#[test]
fn batches_are_dense_and_open_to_what_was_pushed() {
    let (source, mut pusher) = items(None, MEMORY);
    let mut listing = source.list(None).unwrap();
    assert!(source.list(None).is_err(), "a second listing would find nothing");
    let watch = Arc::new(Watch::default());
    push_all(&mut pusher, (0..250).map(|n| (n.to_string(), Bytes::new(vec![0; 10], &watch))));
    pusher.finish(true);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut names, mut seqs) = (Vec::new(), Vec::new());
        let fetcher = source.fetcher(0).unwrap();
        let other = source.fetcher(1).unwrap();
        while let Some(partition) = listing.next().await.unwrap() {
            let entries = fetcher.open(&partition).await.unwrap();
            let shared = other.open(&partition).await.unwrap();
            assert_eq!(partition.len, Some(entries.len()));
            assert!(entries.len() as usize <= BATCH_ITEMS);
            for index in 0..entries.len() {
                assert_eq!(Entries::get(&*entries, index).locator, Entries::get(&*shared, index).locator);
                names.push(String::from_utf8(Entries::get(&*entries, index).name.to_vec()).unwrap());
            }
            let locators: Vec<Box<[u8]>> = (0..entries.len()).map(|n| entries.get(n).locator.into()).collect();
            let selected = source.select(&locators).unwrap();
            let selected = fetcher.open(&selected).await.unwrap();
            for index in 0..entries.len() {
                assert_eq!(selected.get(index).locator, entries.get(index).locator);
                assert_eq!(selected.get(index).name, entries.get(index).name);
            }
            drop((entries, shared));
            let gone = fetcher.open(&partition).await.unwrap();
            assert_eq!(Some(gone.len()), partition.len, "also once all of it is done");
            seqs.push(partition.seq);
        }
        assert_eq!(names, (0..250).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    });
    assert_eq!(pusher.returned().len(), 250);
}

#[test]
fn items_without_a_name_are_another_series_in_a_forked_child() {
    drop(items::<Bytes>(None, MEMORY)); // a generator of random numbers has a state by now
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: the child uses the allocator, which forks allow, and leaves without running anything of this process.
    let child = unsafe { libc::fork() };
    let (source, _pusher) = items::<Bytes>(None, MEMORY);
    if child == 0 {
        let sent = std::io::Write::write_all(&mut writer, source.identity().as_bytes());
        // SAFETY: it ends the process.
        unsafe { libc::_exit(i32::from(sent.is_err())) }
    }
    drop(writer);
    let mut of_child = String::new();
    std::io::Read::read_to_string(&mut reader, &mut of_child).unwrap();
    // SAFETY: a child of this process, and no pointer.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    assert!(of_child.starts_with("items#") && of_child != source.identity(), "{of_child}");
}
