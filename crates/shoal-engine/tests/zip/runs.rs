//! Many archives as one job: their order, runs that were cut off, archives that changed or are mended.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use shoal_engine::options::{Resume, Workers};
use shoal_engine::session::Twice;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::sink::null::NullSink;
use shoal_engine::source::Source;
use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, FormatsIn};
use shoal_engine::transfer::Transfer;
use shoal_engine::{Cursor, Kind, Partition, TransferOptions};

use crate::writer::{Entry, Zip};
use crate::{Objects, archives, failures, run, text};

fn list(source: &dyn Source, after: Option<Cursor>) -> Vec<Partition> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut listing = source.list(after).unwrap();
    let mut all = Vec::new();
    while let Some(partition) = runtime.block_on(listing.next()).unwrap() {
        all.push(partition);
    }
    all
}

/// Three archives, the second as large as the others together.
fn several(directory: &Path) -> Objects {
    let mut expected = Objects::new();
    for (archive, count) in [("one", 120), ("two", 700), ("three", 30)] {
        let entries = (0..count).map(|number| {
            let (name, data) = (format!("{archive}/{number}"), text(number * 37));
            expected.insert(name.clone().into_bytes(), data.clone());
            if number % 3 == 0 { Entry::stored(name, &data) } else { Entry::deflated(name, &data) }
        });
        let bytes = Zip::of(entries).done();
        std::fs::write(directory.join(format!("{archive}.zip")), bytes).unwrap();
    }
    expected
}

#[test]
fn many_archives_are_one_job_and_come_largest_first() {
    let temp = tempfile::tempdir().unwrap();
    let expected = several(temp.path());
    let (outcome, objects) = run(archives(temp.path(), "*.zip", ArchiveOptions::default()));
    assert_eq!(failures(&outcome), []);
    assert!(objects == expected);
    let source = archives(temp.path(), "*.zip", ArchiveOptions::default());
    let all = list(&source, None);
    let archive = |partition: &Partition| {
        ["one.zip", "two.zip", "three.zip"].into_iter().find(|name| memmem(&partition.payload, name.as_bytes()))
    };
    let mut order: Vec<_> = all.iter().map(|partition| archive(partition).unwrap()).collect();
    order.dedup();
    assert_eq!(order, ["two.zip", "one.zip", "three.zip"]);
    assert!(all.iter().all(|partition| partition.len.unwrap() <= 100));
    let below = ArchiveOptions { into_subdirectories: true, ..ArchiveOptions::default() };
    let (_, objects) = run(archives(temp.path(), "*.zip", below));
    let renamed = |name: &[u8]| [&name[..name.iter().position(|b| *b == b'/').unwrap()], b"/", name].concat();
    assert!(objects == expected.into_iter().map(|(name, data)| (renamed(&name), data)).collect());
}

fn memmem(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_large_entry_comes_first_and_alone() {
    let temp = tempfile::tempdir().unwrap();
    let giant = vec![0; (64 << 20) + 1];
    let small = (0..150).map(|number| Entry::stored(format!("small/{number}"), b"x"));
    let zip = Zip::of(small.chain([Entry::deflated("giant", &giant)]));
    std::fs::write(temp.path().join("x.zip"), zip.done()).unwrap();
    let trusting = || ArchiveOptions { max_ratio: 2000, ..ArchiveOptions::default() };
    let lengths: Vec<_> = list(&archives(temp.path(), "x.zip", trusting()), None).iter().map(|p| p.len).collect();
    assert_eq!(lengths, [Some(1), Some(100), Some(50)]);
    let (outcome, objects) = run(archives(temp.path(), "x.zip", trusting()));
    assert_eq!((failures(&outcome), objects.len()), (vec![], 151));
    assert!(objects[&b"giant"[..]] == giant);
}

#[test]
fn a_run_that_was_cut_off_goes_on_and_ends_with_the_same_files() {
    let temp = tempfile::tempdir().unwrap();
    let expected = several(temp.path());
    for stop_at in [1, 100, 400] {
        let out = tempfile::tempdir().unwrap();
        let mut written = 0;
        for attempt in 0..50 {
            let options = TransferOptions { workers: Workers::Fixed(2), ..TransferOptions::default() };
            let sink = DirSink::new(out.path(), DirOptions::of(&options)).unwrap();
            let source = archives(temp.path(), "*.zip", ArchiveOptions::default());
            let mut stop = |progress: &shoal_engine::Progress| match progress.run.written >= stop_at {
                true if attempt < 3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            let outcome = Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut stop);
            written += outcome.report.run.written;
            if outcome.error.is_none() {
                assert!(outcome.report.complete && outcome.report.run.failed == 0);
                break;
            }
        }
        assert!(written >= expected.len() as u64);
        for (name, data) in &expected {
            let path = out.path().join(std::str::from_utf8(name).unwrap());
            assert!(std::fs::read(path).unwrap() == *data, "{}", name.escape_ascii());
        }
    }
}

#[test]
fn an_archive_that_was_made_anew_is_changed_and_no_other_entry_is_taken_for_the_old_one() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("x.zip");
    let names = |order: &[&str]| Zip::of(order.iter().map(|name| Entry::stored(name, name.as_bytes()))).done();
    std::fs::write(&path, names(&["a", "b", "c"])).unwrap();
    let source = archives(temp.path(), "x.zip", ArchiveOptions::default());
    let locator = |number: u32, name: &str| -> Box<[u8]> {
        let path = std::fs::canonicalize(&path).unwrap();
        let sum = xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32;
        format!("{}\0{number}\0{sum:08x}", path.to_str().unwrap()).into_bytes().into()
    };
    let open = |source: &Archives, partition: &Partition| {
        let fetcher = source.fetcher(0).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let entries = runtime.block_on(fetcher.open(partition)).unwrap();
        (0..entries.len()).map(|index| entries.get(index).name.to_vec()).collect::<Vec<_>>()
    };
    let locators = [locator(1, "b"), locator(2, "c")];
    assert_eq!(open(&source, &source.select(&locators).unwrap()), [b"b", b"c"]);
    let listed = list(&source, None);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, names(&["x", "a", "c"])).unwrap();
    let source = archives(temp.path(), "x.zip", ArchiveOptions::default());
    assert_eq!(open(&source, &source.select(&locators).unwrap()), [b"x.zip".to_vec(), b"c".to_vec()]);
    assert_eq!(open(&source, &listed[0]), [b"x.zip"; 3], "as many failures as there were entries");
}

#[test]
fn an_archive_is_one_failure_and_the_others_are_unpacked() {
    let temp = tempfile::tempdir().unwrap();
    let expected = several(temp.path());
    std::fs::write(temp.path().join("none.zip"), [b'x'; 5000]).unwrap();
    std::fs::write(temp.path().join("empty.zip"), b"").unwrap();
    std::fs::create_dir(temp.path().join("directory.zip")).unwrap();
    std::os::unix::fs::symlink("gone", temp.path().join("link.zip")).unwrap();
    let (outcome, objects) = run(archives(temp.path(), "*.zip", ArchiveOptions::default()));
    assert!(objects == expected);
    let failed = [("empty.zip", "archive"), ("link.zip", "vanished"), ("none.zip", "archive")];
    assert_eq!(failures(&outcome), failed.map(|(name, kind)| (name.to_owned(), kind)));
    let none = archives(temp.path(), "*.none", ArchiveOptions::default());
    let transfer = Transfer::new(Arc::new(none), Arc::new(MemorySink::new()), TransferOptions::default());
    let error = transfer.run(&mut |_| ControlFlow::Continue(())).error.unwrap();
    assert_eq!((error.kind(), error.why()), (Kind::Config, "no file matches"));
}

#[test]
fn failures_are_tried_again_once_the_archive_is_mended() {
    let temp = tempfile::tempdir().unwrap();
    let (path, out) = (temp.path().join("x.zip"), temp.path().join("out"));
    let good: Vec<Entry> = (0..10).map(|n| Entry::deflated(format!("{n}"), &text(1000 + n))).collect();
    let mut bad = good.clone();
    bad[3].packed[100] ^= 0x55;
    std::fs::write(&path, Zip::of(bad).done()).unwrap();
    let attempt = |resume| {
        let options = TransferOptions { resume, ..TransferOptions::default() };
        let sink = DirSink::new(&out, DirOptions::of(&options)).unwrap();
        let source = archives(temp.path(), "x.zip", ArchiveOptions::default());
        let outcome = Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |_| ControlFlow::Continue(()));
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        outcome
    };
    assert_eq!(failures(&attempt(Resume::Auto)), [("3".to_owned(), "integrity")]);
    assert!(!out.join("3").exists() && out.join("4").exists(), "nothing of it is kept");
    assert_eq!(failures(&attempt(Resume::Failed)), [("3".to_owned(), "integrity")]);
    std::fs::write(&path, Zip::of(good).done()).unwrap();
    assert_eq!(failures(&attempt(Resume::Failed)), []);
    assert_eq!(std::fs::read(out.join("3")).unwrap(), text(1003));
}

#[test]
fn a_glob_of_zips_into_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let expected = several(temp.path());
    let archives = |pattern: &str| {
        Archives::new(ArchivesFrom::Pattern(pattern.to_owned()), FormatsIn::Zip, ArchiveOptions::default())
            .map(Arc::new)
    };
    let source = archives(&format!("{}/*.zip", temp.path().to_str().unwrap())).unwrap();
    assert!(source.identity().starts_with("zip:") && !source.properties().is_network);
    assert_eq!(source.properties().twice, Twice::Repeated);
    let outcome = Transfer::new(source, Arc::new(NullSink::new()), TransferOptions::default())
        .run(&mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.report.run.written, expected.len() as u64);
    let gone = archives("/nowhere/x.zip").err().unwrap();
    assert_eq!(gone.kind(), Kind::Config);
}
