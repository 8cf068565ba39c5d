//! The state table of ARCHITECTURE.md against a dictionary: random listings, random failures of objects, runs that are
//! cut off at random operations and resumed. Whatever happens, the destination ends as the dictionary says.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use shoal_engine::options::{Durability, Layout};
use shoal_engine::sink::Sink;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::testing::faults::FailingSink;
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, Name, TransferOptions};

/// Objects in a partition.
const PARTITION: usize = 7;

type Pages = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

/// What a fetch of this name answers, the same in every session.
fn fate(name: &[u8], count: u32) -> Answer {
    match (name.iter().map(|&b| u32::from(b)).sum::<u32>() % 11, count) {
        (0, _) => Answer::Fail(Kind::Forbidden),
        (1, 1) => Answer::Fail(Kind::Disconnected),
        (2, 1..=2) => Answer::Broken(Kind::ShortBody),
        (3, 1) => Answer::GivenBack,
        (4, _) => Answer::Pieces(3),
        _ => Answer::Whole,
    }
}

fn listing(random: &mut fastrand::Rng) -> Pages {
    let mut pages = Vec::new();
    for _ in 0..random.usize(1..6) {
        let mut page = Vec::new();
        for _ in 0..random.usize(0..40) {
            let number = random.u32(0..150); // names come twice now and then
            let name = match random.u32(0..20) {
                0 => format!("../escape-{number}"),
                1 => format!("dir-{}/file-{number}", number % 3),
                2 => format!("dir-{}/empty-{number}/", number % 3),
                _ => format!("file-{number}"),
            };
            page.push((
                name.clone().into_bytes(),
                format!("bytes of {name};").repeat(number as usize % 5).into_bytes(),
            ));
        }
        pages.push(page);
    }
    pages
}

fn run(pages: &Pages, destination: &Path, layout: Layout, cut: Option<(u64, bool)>) -> Outcome {
    let source = MemorySource::new(pages.clone(), PARTITION).answering(fate).with_directories();
    let dir = DirOptions { durability: Durability::None, layout, ..DirOptions::default() };
    let mut sink: Arc<dyn Sink> = Arc::new(DirSink::new(destination, dir).unwrap());
    if let Some((operations, after)) = cut {
        sink = Arc::new(FailingSink::new(sink, operations, after));
    }
    let options = TransferOptions { durability: Durability::None, layout, ..TransferOptions::default() };
    Transfer::new(Arc::new(source), sink, options).run(&mut |_| ControlFlow::Continue(()))
}

fn tree(root: &Path, below: &Path, files: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if path.as_os_str() == ".shoal" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            tree(root, &path, files);
        } else {
            files.insert(path.to_str().unwrap().as_bytes().to_vec(), std::fs::read(root.join(&path)).unwrap());
        }
    }
}

fn cut_off_at_random_and_resumed(seed: u64, layout: Layout) {
    let mut random = fastrand::Rng::with_seed(seed);
    let pages = listing(&mut random);
    let directory = tempfile::tempdir().unwrap();
    let destination = directory.path().join("out");
    let mut sessions = 0;
    loop {
        sessions += 1;
        let cut = (sessions < 12).then(|| (random.u64(1..60), random.bool()));
        let outcome = run(&pages, &destination, layout, cut);
        let report = &outcome.report;
        match &outcome.error {
            None => break,
            Some(error) => assert_eq!(error.kind(), Kind::DestinationFailed, "seed {seed}: {error}"),
        }
        assert!(report.run.balanced() && report.total.balanced(), "seed {seed}: {report:?}");
    }
    check(seed, &pages, &destination, layout, run(&pages, &destination, layout, None));
}

/// What the tree of the layout `partition` says of names: each file lies in a partition that lists it, or among those
/// tried again later, and there only if some partition lacks it.
fn without_partitions(seed: u64, pages: &Pages, found: BTreeMap<Vec<u8>, Vec<u8>>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let partitions: Vec<_> = pages.iter().flat_map(|page| page.chunks(PARTITION)).collect();
    let mut names = BTreeMap::new();
    for (path, bytes) in &found {
        let text = std::str::from_utf8(path).unwrap();
        let mut parts = text.splitn(4, '/');
        let place = [parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap()];
        let name = parts.next().unwrap().as_bytes();
        let listed = |seq: usize| partitions[seq].iter().any(|(other, _)| other == name);
        match place {
            ["00", "0000", leaf] => assert!(listed(leaf.parse().unwrap()), "seed {seed}: {text}"),
            ["retried", _, _] => {
                let there = |seq: &usize| found.contains_key(&[format!("00/0000/{seq:02}/").as_bytes(), name].concat());
                let lacking = (0..partitions.len()).filter(|&seq| listed(seq)).any(|seq| !there(&seq));
                assert!(lacking, "seed {seed}: {text} is there twice");
            }
            _ => panic!("seed {seed}: {text}"),
        }
        let before = names.insert(name.to_vec(), bytes.clone());
        assert!(before.is_none_or(|before| before == *bytes), "seed {seed}: {text}");
    }
    names
}

/// The run after the last one changes nothing, and what is there is what the dictionary says.
fn check(seed: u64, pages: &Pages, destination: &Path, layout: Layout, outcome: Outcome) {
    assert!(outcome.error.is_none() && outcome.report.completed_before.is_some(), "seed {seed}");
    let total = outcome.report.total;
    let entries: Vec<_> = pages.iter().flatten().collect();
    let empty = |name: &[u8]| name.ends_with(b"/");
    let good = |name: &[u8]| Name::parse(name).is_ok() && !matches!(fate(name, 9), Answer::Fail(_));
    let wanted: BTreeMap<Vec<u8>, Vec<u8>> =
        entries.iter().filter(|(name, _)| good(name)).map(|e| (*e).clone()).collect();
    let mut found = BTreeMap::new();
    tree(destination, Path::new(""), &mut found);
    let found = if layout == Layout::Names { found } else { without_partitions(seed, pages, found) };
    assert_eq!(found, wanted, "seed {seed}");
    assert!(total.balanced() && total.unfinished == 0, "seed {seed}: {total:?}");
    assert_eq!(total.listed, entries.len() as u64, "seed {seed}: {total:?}");
    // A failed name that is listed twice fails twice, but the journal keeps one row a name and partition.
    let failed: HashSet<_> = entries.iter().map(|(name, _)| name).filter(|name| !good(name) && !empty(name)).collect();
    for (name, _) in entries.iter().filter(|(name, _)| empty(name) && layout == Layout::Names) {
        let name = std::str::from_utf8(name).unwrap();
        assert!(destination.join(name).is_dir(), "seed {seed}: {name}");
    }
    assert!(total.failed >= failed.len() as u64, "seed {seed}: {total:?}");
    assert!(total.written >= wanted.len() as u64, "seed {seed}: {total:?}");
    let left: Vec<_> = std::fs::read_dir(destination.join(".shoal/tmp")).unwrap().collect();
    assert!(left.is_empty(), "seed {seed}: {left:?}");
}

fn every_seed(layout: Layout) {
    let first = std::env::var("SHOAL_MODEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count = std::env::var("SHOAL_MODEL_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(30);
    for seed in first..first + count {
        cut_off_at_random_and_resumed(seed, layout);
    }
}

#[test]
fn a_run_cut_off_anywhere_resumes_to_what_the_dictionary_says() {
    every_seed(Layout::Names);
}

#[test]
fn with_a_directory_for_each_partition_too() {
    every_seed(Layout::Partition);
}
