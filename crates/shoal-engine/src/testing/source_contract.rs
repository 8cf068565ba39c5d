//! The contract of `Source` as a suite: every source passes it, ours and those outside this crate.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::options::{TransferOptions, Workers};
use crate::partition::{Cursor, Key, Partition};
use crate::sink::memory::MemorySink;
use crate::source::{Entries, Fetcher, Source};
use crate::transfer::Transfer;

type Objects = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs the suite on a source that holds exactly `expected`, over several partitions.
///
/// # Panics
/// When the source breaks its contract.
pub fn run(source: &Arc<dyn Source>, expected: &Objects) {
    let all = list(&**source, None);
    listing_is_dense_and_stable(&**source, &all);
    every_cursor_continues_at_its_page(&**source, &all);
    select_gives_exactly_what_is_asked(&**source, &all);
    for workers in [1, 2, 7, 64] {
        every_object_arrives(source, expected, workers);
    }
    assert_eq!(source.identity(), source.identity());
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop")
}

fn list(source: &dyn Source, after: Option<Cursor>) -> Vec<Partition> {
    runtime().block_on(async {
        let mut listing = source.list(after).expect("a listing starts");
        let mut all = Vec::new();
        while let Some(partition) = listing.next().await.expect("a listing continues") {
            all.push(partition);
        }
        all
    })
}

fn listing_is_dense_and_stable(source: &dyn Source, all: &[Partition]) {
    assert!(all.len() > 1, "the suite needs more than one partition");
    for (at, partition) in all.iter().enumerate() {
        assert_eq!(partition.seq, at as u64, "seq is dense and ascending from 0");
    }
    // Not `after`: a service may give each listing tokens of its own.
    let identity = |p: &Partition| (p.seq, p.key, p.len);
    let again: Vec<_> = list(source, None).iter().map(identity).collect();
    assert_eq!(again, all.iter().map(identity).collect::<Vec<_>>(), "the same content lists the same");
}

fn every_cursor_continues_at_its_page(source: &dyn Source, all: &[Partition]) {
    for (at, partition) in all.iter().enumerate() {
        let first = all[..at].iter().position(|earlier| earlier.after == partition.after).unwrap_or(at);
        let rest: Vec<(u64, Key)> =
            list(source, Some(partition.after.clone())).iter().map(|p| (p.seq, p.key)).collect();
        let wanted: Vec<(u64, Key)> = all[first..].iter().map(|p| (p.seq, p.key)).collect();
        assert_eq!(rest, wanted, "the cursor of partition {at}");
    }
}

fn entries(fetcher: &dyn Fetcher, partition: &Partition) -> Vec<(Vec<u8>, Box<[u8]>)> {
    let entries = runtime().block_on(fetcher.open(partition)).expect("a partition opens");
    assert!(partition.len.is_none_or(|len| len == entries.len()), "the listing said another length");
    let entry = |index| {
        let entry = Entries::get(&*entries, index);
        (entry.name.to_vec(), entry.locator.into())
    };
    (0..entries.len()).map(entry).collect()
}

fn select_gives_exactly_what_is_asked(source: &dyn Source, all: &[Partition]) {
    let fetcher = source.fetcher(0).expect("a fetcher");
    let listed: Vec<_> = all.iter().flat_map(|partition| entries(&*fetcher, partition)).collect();
    let asked: Vec<_> = listed.iter().step_by(3).cloned().collect();
    let locators: Vec<Box<[u8]>> = asked.iter().map(|(_, locator)| locator.clone()).collect();
    let selected = source.select(&locators).expect("locators that were listed are known");
    assert_eq!(entries(&*fetcher, &selected), asked);
}

fn every_object_arrives(source: &Arc<dyn Source>, expected: &Objects, workers: usize) {
    let sink = MemorySink::new();
    let options = TransferOptions { workers: Workers::Fixed(workers), ..TransferOptions::default() };
    let outcome =
        Transfer::new(source.clone(), Arc::new(sink.clone()), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(outcome.report.run.balanced());
    assert_eq!(&sink.objects(), expected, "with {workers} workers");
}
