//! The sink that hands objects to a consumer: its contract, its memory, its order, and what a slow or vanished consumer does.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shoal_engine::options::Workers;
use shoal_engine::sink::deliver::{Deliver, DeliverSink, Delivery, Next};
use shoal_engine::sink::digest::{Checksum, DigestSink};
use shoal_engine::sink::{Mode, Sink};
use shoal_engine::source::WHOLE_MAX;
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::testing::sink_contract;
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Cursor, Key, Kind, Name, Partition, TransferOptions};

fn deliver(ordered: bool) -> Deliver {
    let bytes = 4 << 10;
    Deliver { memory: 1 << 20, rows: 50, bytes, apart: true, utf8_names: false, any_name: false, ordered, piece: None }
}

fn objects(count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count).map(|n| (format!("o-{n:05}").into_bytes(), vec![n as u8; n % 300])).collect()
}

/// Runs a source into the sink on a thread of its own.
fn start(source: MemorySource, sink: &DeliverSink, workers: usize) -> std::thread::JoinHandle<Outcome> {
    let sink = sink.clone();
    std::thread::spawn(move || {
        let options = TransferOptions { workers: Workers::Fixed(workers), max_retries: 0, ..Default::default() };
        let outcome =
            Transfer::new(Arc::new(source), Arc::new(sink.clone()), options).run(&mut |_| ControlFlow::Continue(()));
        sink.end();
        outcome
    })
}

fn take_all(delivery: &Delivery) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        match delivery.next(Duration::from_secs(20)) {
            Next::Chunk(chunk) => {
                assert!(!chunk.is_empty());
                found.extend(
                    (0..chunk.len()).map(|at| (chunk.name(at).to_vec(), chunk.data()[chunk.range(at)].to_vec())),
                );
            }
            Next::End => return found,
            Next::Nothing => panic!("nothing came for 20 s"),
        }
    }
}

#[test]
fn it_keeps_the_contract_of_a_sink_in_either_order() {
    for ordered in [false, true] {
        let make = || {
            let (sink, delivery) = DeliverSink::new(Deliver { memory: 64 << 20, ..deliver(ordered) });
            // Takes whatever comes until the suite has dropped the sink; then nothing will.
            std::thread::spawn(
                move || while !matches!(delivery.next(Duration::from_secs(2)), Next::Nothing | Next::End) {},
            );
            Arc::new(sink) as Arc<dyn Sink>
        };
        sink_contract::run(|_| make(), |_| None);
    }
}

#[test]
fn every_object_is_handed_over_once_and_in_order_where_asked() {
    let all = objects(5000);
    let source = MemorySource::new(all.chunks(300).map(<[_]>::to_vec).collect(), 70);
    for (ordered, workers) in [(false, 1), (false, 9), (true, 1), (true, 9)] {
        let (sink, delivery) = DeliverSink::new(deliver(ordered));
        let run = start(source.clone(), &sink, workers);
        let mut found = take_all(&delivery);
        assert_eq!(run.join().unwrap().report.run.written, 5000);
        assert_eq!(delivery.held(), 0, "what was taken is no longer counted");
        if !ordered {
            found.sort();
        }
        assert_eq!(found, all);
    }
}

#[test]
fn objects_that_fail_or_come_in_pieces_leave_no_hole_in_the_order() {
    let all = objects(1000);
    let script = |name: &[u8], _| match name[name.len() - 1] {
        b'3' => Answer::Fail(Kind::Vanished),
        b'5' => Answer::Pieces(7),
        b'7' => Answer::Broken(Kind::Forbidden),
        _ => Answer::Whole,
    };
    let source = MemorySource::new(all.chunks(100).map(<[_]>::to_vec).collect(), 30).answering(script);
    let (sink, delivery) = DeliverSink::new(deliver(true));
    let run = start(source, &sink, 7);
    let found = take_all(&delivery);
    let wanted: Vec<_> = all.into_iter().filter(|(name, _)| !matches!(name[name.len() - 1], b'3' | b'7')).collect();
    assert_eq!(found, wanted);
    assert_eq!(run.join().unwrap().report.run.failed, 200);
    assert_eq!(delivery.held(), 0, "what failed is no longer counted");
}

#[test]
fn an_object_put_in_its_place_is_whole_or_not_there() {
    let (sink, delivery) = DeliverSink::new(Deliver { bytes: 256 << 10, ..deliver(false) });
    let partition = Partition {
        seq: 0,
        key: Key::default(),
        after: Cursor::default(),
        next: None,
        payload: Arc::from([]),
        len: Some(5),
    };
    let mut lane = sink.writer(0, Arc::new(|| {})).unwrap();
    let mut writer = lane.open(&partition, Mode::First, Box::new(|_| None)).unwrap();
    let mut put = |name: &[u8], bytes: &[u8], complete: bool| {
        let name = Name::parse(name).unwrap().into();
        let read = &mut |space: &mut Vec<u8>| {
            assert!(space.capacity() - space.len() > WHOLE_MAX, "there is room for one byte more than a whole object");
            space.extend_from_slice(bytes);
            complete
        };
        writer.put_in_place(0, &name, read).unwrap()
    };
    assert_eq!(put(b"no", b"first of all", false), None);
    assert_eq!(put(b"a", b"12345", true), Some(5));
    assert_eq!(put(b"no", &[9; WHOLE_MAX + 1], false), None);
    assert_eq!(put(b"empty", b"", true), Some(0));
    assert_eq!(put(b"b", &[7; WHOLE_MAX], true), Some(WHOLE_MAX as u64));
    assert_eq!(writer.seal().unwrap().bytes, 5 + WHOLE_MAX as u64);
    drop(lane);
    sink.end();
    let wanted = [(&b"a"[..], &b"12345"[..]), (b"empty", b""), (b"b", &[7; WHOLE_MAX])];
    assert_eq!(take_all(&delivery), wanted.map(|(name, data)| (name.to_vec(), data.to_vec())));
    assert_eq!(delivery.held(), 0);
}

#[test]
fn a_consumer_that_waits_holds_the_lanes_back() {
    let all: Vec<_> = (0..200).map(|n| (format!("{n:03}").into_bytes(), vec![1; 50_000])).collect();
    for ordered in [false, true] {
        let source = MemorySource::new(all.chunks(40).map(<[_]>::to_vec).collect(), 40);
        let (sink, delivery) = DeliverSink::new(deliver(ordered));
        let run = start(source, &sink, 4);
        std::thread::sleep(Duration::from_millis(300));
        // The budget, and one object for each of those that were in flight when it was used up.
        assert!(delivery.held() <= (1 << 20) + 5 * 50_010, "{}", delivery.held());
        assert!(delivery.held() > 1 << 19, "it runs ahead");
        assert_eq!(take_all(&delivery).len(), 200);
        assert!(run.join().unwrap().error.is_none());
    }
}

#[test]
fn a_consumer_that_is_gone_ends_the_run_at_once() {
    let source = MemorySource::new(vec![objects(100_000)], 100);
    let (sink, delivery) = DeliverSink::new(deliver(false));
    let run = start(source, &sink, 4);
    assert!(matches!(delivery.next(Duration::from_secs(20)), Next::Chunk(_)));
    let before = Instant::now();
    drop(delivery);
    let outcome = run.join().unwrap();
    assert!(before.elapsed() < Duration::from_secs(1));
    assert_eq!(outcome.error.unwrap().kind(), Kind::Interrupted);
    assert!(outcome.report.run.balanced());
}

#[test]
fn checksums_take_the_place_of_the_bytes() {
    let all: BTreeMap<_, _> = [(b"empty".to_vec(), Vec::new()), (b"digits".to_vec(), b"123456789".to_vec())].into();
    let source = MemorySource::new(vec![all.into_iter().collect()], 10).answering(|_, _| Answer::Pieces(4));
    let (sink, delivery) = DeliverSink::new(deliver(false));
    let front = Arc::new(DigestSink::new(Arc::new(sink.clone()), Checksum::Crc32));
    let run = std::thread::spawn(move || {
        let outcome =
            Transfer::new(Arc::new(source), front, Default::default()).run(&mut |_| ControlFlow::Continue(()));
        sink.end();
        outcome
    });
    let found: BTreeMap<_, _> = take_all(&delivery).into_iter().collect();
    // The check value that everybody publishes for this checksum.
    let with_size = |size: u64, digest: u32| [&size.to_le_bytes()[..], &digest.to_be_bytes()].concat();
    assert_eq!(found[&b"digits".to_vec()], with_size(9, 0xcbf4_3926));
    assert_eq!(found[&b"empty".to_vec()], with_size(0, 0));
    assert_eq!(run.join().unwrap().report.run.bytes, 9, "bytes are those of the objects");
}
