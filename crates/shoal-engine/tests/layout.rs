//! Layout `partition`: each partition in a directory of its own, published whole; nobody else's files are destroyed.

mod support;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;

use shoal_engine::options::{Durability, Layout, Overwrite, Workers};
use shoal_engine::session::Interval;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::{Flush, Mode, Put, Sink, Start};
use shoal_engine::source::memory::MemorySource;
use shoal_engine::testing::sink_contract;
use shoal_engine::transfer::{Transfer, sink_from_url};
use shoal_engine::{Kind, Name, ObjectMeta, Payload, RETRIED_FROM, TransferOptions};
use support::*;

fn whole(durability: Durability, overwrite: Overwrite) -> DirOptions {
    DirOptions { layout: Layout::Partition, ..options(durability, overwrite) }
}

fn run(path: &Path, earlier: &[Interval], mode: Mode) -> Run {
    Run::with(path, whole(Durability::Batch, Overwrite::Never), earlier, mode).unwrap()
}

#[test]
fn partitions_in_directories_keep_the_contract_at_every_durability() {
    for durability in [Durability::None, Durability::Batch, Durability::File] {
        let make = |path: &Path| -> Arc<dyn Sink> {
            Arc::new(DirSink::new(&path.join("out"), whole(durability, Overwrite::Never)).unwrap())
        };
        sink_contract::run_apart(make, |path| {
            let out = path.join("out");
            let all = if out.exists() { files(&out) } else { Default::default() };
            // Below the partition's directory, "00/0000/34/".
            Some(all.into_iter().map(|(name, bytes)| (name["00/0000/34/".len()..].to_vec(), bytes)).collect())
        });
    }
}

#[test]
fn a_copied_tree_has_a_directory_for_each_partition() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let object =
        |n: usize| (format!("{}o-{n}", if n.is_multiple_of(2) { "d/e/" } else { "" }).into_bytes(), vec![n as u8; n]);
    let pages: Vec<Vec<_>> = (0..5).map(|page| (page * 250..page * 250 + 250).map(object).collect()).collect();
    let options =
        TransferOptions { layout: Layout::Partition, workers: Workers::Fixed(8), ..TransferOptions::default() };
    let sink = sink_from_url(out.to_str().unwrap(), &options).unwrap();
    let source = Arc::new(MemorySource::new(pages.clone(), 100));
    let outcome = Transfer::new(source, sink, options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!((outcome.report.run.written, outcome.report.run.failed), (1250, 0));
    assert!(outcome.report.publish.contains("one rename"), "{}", outcome.report.publish);
    let mut wanted = std::collections::BTreeMap::new();
    for (seq, part) in pages.iter().flat_map(|page| page.chunks(100)).enumerate() {
        for (name, bytes) in part {
            wanted.insert([format!("00/0000/{seq:02}/").as_bytes(), name].concat(), bytes.clone());
        }
    }
    assert!(files(&out) == wanted, "{:?}", names(&out));
    assert_eq!(temporary(&out), 0);
}

#[test]
fn a_partition_is_seen_whole_or_not_at_all() {
    let temp = temp_dir();
    let mut run = run(temp.path(), &[], Mode::First);
    run.put("a", b"1").unwrap();
    run.put("d/b", b"22").unwrap();
    run.stream("large", &[7; 200_000]).unwrap();
    assert_eq!(names(temp.path()), [""; 0]);
    let sealed = run.seal();
    assert_eq!(names(temp.path()), [""; 0]);
    run.put("of the next", b"x").unwrap();
    assert_eq!(run.sink.flush(vec![sealed], Flush::Due).unwrap().durable, [0]);
    assert_eq!(names(temp.path()), ["00/0000/00/a", "00/0000/00/d/b", "00/0000/00/large"]);
    assert_eq!(temporary(temp.path()), 1, "the next is still in work");
    run.commit().unwrap();
    assert_eq!(names(temp.path()).last().unwrap(), "00/0000/01/of the next");
    assert_eq!(temporary(temp.path()), 0);
    let mode = |path: &str| std::fs::metadata(temp.path().join(path)).unwrap().mode();
    std::fs::create_dir(temp.path().join("usual")).unwrap();
    std::fs::write(temp.path().join("usual/file"), b"x").unwrap();
    assert_eq!(mode("00/0000/00"), mode("usual"));
    assert_eq!(mode("00/0000/00/large"), mode("usual/file"));
}

#[test]
fn an_empty_partition_makes_no_directory() {
    let temp = temp_dir();
    let mut run = run(temp.path(), &[], Mode::First);
    assert_eq!(run.commit().unwrap(), [0]);
    assert!(!temp.path().join("00").exists());
}

#[test]
fn names_are_unique_within_a_partition_only() {
    let temp = temp_dir();
    let mut run = run(temp.path(), &[], Mode::Redo);
    for name in ["x", "d/x"] {
        assert_eq!(run.put(name, b"first").unwrap(), Put::Written);
        assert_eq!(run.put(name, b"first").unwrap(), Put::Duplicate);
        assert_eq!(run.stream(name, b"first").unwrap(), Put::Duplicate);
        for result in [run.put(name, b"second"), run.stream(name, b"third"), run.stream(name, b"other")] {
            assert_eq!(result.unwrap_err().kind(), Kind::NameConflict);
        }
    }
    assert_eq!(run.put("x/y", b"").unwrap_err().kind(), Kind::NameConflict);
    let error = run.put("d", b"").unwrap_err();
    assert_eq!(error.kind(), Kind::NameConflict);
    assert!(error.why().contains("00/0000/00/d\": a directory has this name"), "{error}");
    run.commit().unwrap();
    assert_eq!(run.put("x", b"of another partition").unwrap(), Put::Written);
    run.commit().unwrap();
    assert_eq!(names(temp.path()), ["00/0000/00/d/x", "00/0000/00/x", "00/0000/01/x"]);
    assert!(files(temp.path()).iter().all(|(name, bytes)| name.starts_with(b"00/0000/01") || bytes == b"first"));
    assert_eq!(temporary(temp.path()), 0);
}

#[test]
fn an_object_in_pieces_that_ends_early_leaves_no_trace() {
    let temp = temp_dir();
    let mut run = run(temp.path(), &[], Mode::First);
    let mut broken = run.begin("large").unwrap();
    broken.write(&[1; 100_000]).unwrap();
    drop(broken);
    let meta = ObjectMeta { size: Some(10), ..ObjectMeta::default() };
    let mut short = run.writer.begin(0, &Name::parse(b"short").unwrap().into(), &meta).unwrap().unwrap();
    short.write(b"nine byte").unwrap();
    assert_eq!(short.finish().unwrap_err().kind(), Kind::ShortBody);
    run.put("kept", b"x").unwrap();
    run.commit().unwrap();
    assert_eq!(names(temp.path()), ["00/0000/00/kept"]);
}

#[test]
fn what_was_published_and_not_committed_is_exchanged() {
    let temp = temp_dir();
    let mut first = run(temp.path(), &[], Mode::First);
    first.put("kept", b"old").unwrap();
    first.put("d/e/gone", b"old").unwrap();
    first.commit().unwrap(); // and cut off before the journal
    let first = first.cut_off();
    let mut second = run(temp.path(), &[first], Mode::Redo);
    second.put("kept", b"new").unwrap();
    assert_eq!(files(temp.path())[&b"00/0000/00/kept"[..]], b"old", "until the barrier");
    second.commit().unwrap();
    assert_eq!(names(temp.path()), ["00/0000/00/kept"]);
    assert_eq!(files(temp.path())[&b"00/0000/00/kept"[..]], b"new");
    assert_eq!(temporary(temp.path()), 0);
}

#[test]
#[ignore = "needs strace"]
fn file_systems_that_cannot_exchange_replace_in_two_steps() {
    let temp = temp_dir();
    if let Some(path) = as_child() {
        let mut first = run(&path, &[], Mode::First);
        first.put("old", b"old").unwrap();
        first.commit().unwrap();
        let first = first.cut_off();
        let mut second = run(&path, &[first], Mode::Redo);
        second.put("new", b"new").unwrap();
        second.commit().unwrap();
        assert_eq!(temporary(&path), 0);
        return;
    }
    let log = temp.path().join("log");
    let refuse = ["-f", "-qq", "-e", "trace=renameat2", "-e", "inject=renameat2:error=EINVAL", "-o"];
    let before = [&["strace"], &refuse[..], &[log.to_str().unwrap()]].concat();
    let out = temp.path().join("out");
    told(&child("file_systems_that_cannot_exchange_replace_in_two_steps", &out, &before));
    assert!(std::fs::read_to_string(&log).unwrap().contains("RENAME_EXCHANGE"), "it was tried");
    assert_eq!(names(&out), ["00/0000/00/new"]);
}

#[test]
fn partitions_of_a_killed_run_are_swept() {
    let temp = temp_dir();
    if let Some(path) = as_child() {
        let mut run = run(&path, &[], Mode::First);
        for name in ["x", "d/y", "d/e/z"] {
            run.put(name, b"x").unwrap();
        }
        let _sealed = run.seal();
        run.put("of the next", b"x").unwrap();
        std::process::abort();
    }
    let out = temp.path().join("out");
    assert!(!child("partitions_of_a_killed_run_are_swept", &out, &[]).status.success());
    assert_eq!((temporary(&out), names(&out).len()), (2, 0));
    let tmp = out.join(".shoal/tmp");
    symlink(temp.path(), tmp.join(".shoal-0123456789abcdef.dir")).unwrap();
    std::fs::create_dir(tmp.join("somebody's")).unwrap();
    let second = run(&out, &[], Mode::First);
    assert_eq!(temporary(&out), 2, "a link and a directory that are not ours");
    let notes = &second.started.notes;
    assert!(notes.iter().any(|note| note.contains("and 2 partitions of an interrupted run")), "{notes:?}");
}

#[test]
fn what_is_given_up_is_removed_with_its_last_part() {
    let temp = temp_dir();
    let mut run = run(temp.path(), &[], Mode::First);
    let mut lane = run.sink.writer(1, Arc::new(|| {})).unwrap();
    let mut other = lane.open(&partition(0), Mode::First, Box::new(())).unwrap();
    run.put("deep/er/x", b"x").unwrap();
    let meta = ObjectMeta::default();
    other.put(0, &Name::parse(b"y").unwrap().into(), &meta, &mut Payload::Borrowed(b"y")).unwrap();
    assert_eq!(temporary(temp.path()), 1, "one directory for both");
    drop(run.reopen(1));
    assert_eq!(temporary(temp.path()), 1);
    drop(other.seal().unwrap());
    assert_eq!(temporary(temp.path()), 0);
    drop(run.reopen(0));
    run.put("z", b"z").unwrap();
    run.commit().unwrap();
    assert_eq!(names(temp.path()), ["00/0000/00/z"]);
}

#[test]
fn a_strangers_directory_stays_unless_overwriting_is_asked_for() {
    let temp = temp_dir();
    std::fs::create_dir_all(temp.path().join("00/0000/00/sub")).unwrap();
    std::fs::write(temp.path().join("00/0000/00/sub/mine"), b"mine").unwrap();
    std::fs::create_dir(temp.path().join("00/0000/01")).unwrap();
    let long_ago = Interval { high: 1, ..EVER };
    for (mode, earlier) in [(Mode::First, &[][..]), (Mode::Redo, &[]), (Mode::Redo, &[long_ago])] {
        let mut run = run(temp.path(), earlier, mode);
        for result in [run.put("x", b"theirs"), run.stream("d/y", b"theirs")] {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.subject().is_some()), (Kind::Exists, true), "{error}");
            assert!(error.advice().unwrap().contains("overwrite"), "{error}");
        }
        run.commit().unwrap();
        assert_eq!(names(temp.path()), ["00/0000/00/sub/mine"]);
        assert_eq!(temporary(temp.path()), 0);
    }
    let always = whole(Durability::Batch, Overwrite::Always);
    let mut run = Run::with(temp.path(), always, &[], Mode::First).unwrap();
    run.put("x", b"theirs").unwrap();
    run.commit().unwrap();
    run.put("an empty one counts as ours", b"x").unwrap();
    run.commit().unwrap();
    assert_eq!(names(temp.path()), ["00/0000/00/x", "00/0000/01/an empty one counts as ours"]);
    assert_eq!(temporary(temp.path()), 0);
}

#[test]
fn an_empty_directory_counts_as_ours() {
    let temp = temp_dir();
    std::fs::create_dir_all(temp.path().join("00/0000/00")).unwrap();
    let mut run = run(temp.path(), &[], Mode::First);
    run.put("x", b"x").unwrap();
    run.commit().unwrap();
    assert_eq!(names(temp.path()), ["00/0000/00/x"]);
}

#[test]
fn a_strangers_directory_that_appears_meanwhile_ends_the_run() {
    let temp = temp_dir();
    let mut run = run(temp.path(), &[], Mode::First);
    run.put("x", b"theirs").unwrap();
    std::fs::create_dir(temp.path().join("00/0000/00")).unwrap();
    std::fs::write(temp.path().join("00/0000/00/mine"), b"mine").unwrap();
    let error = run.commit().unwrap_err();
    assert_eq!(error.kind(), Kind::DestinationFailed, "{error}");
    assert!(error.why().contains("00/0000/00"), "{error}");
    assert_eq!(names(temp.path()), ["00/0000/00/mine"]);
}

#[test]
fn files_and_links_in_the_way_are_neither_followed_nor_replaced() {
    let temp = temp_dir();
    let outside = temp.path().join("outside");
    std::fs::create_dir_all(outside.join("0000/00")).unwrap();
    for overwrite in [Overwrite::Never, Overwrite::Always] {
        for (at, link) in ["00", "00/0000", "00/0000/00"].into_iter().flat_map(|at| [(at, true), (at, false)]) {
            let out = tempfile::tempdir_in(temp.path()).unwrap();
            let place = out.path().join(at);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            match link {
                true => symlink(&outside, &place).unwrap(),
                false => std::fs::write(&place, b"mine").unwrap(),
            }
            let before = files(out.path());
            for mode in [Mode::First, Mode::Redo] {
                let mut run = Run::with(out.path(), whole(Durability::Batch, overwrite), &[EVER], mode).unwrap();
                for result in [run.put("x", b"bad"), run.stream("y", b"bad")] {
                    let error = result.expect_err(at);
                    assert_eq!(error.kind(), Kind::NameConflict, "{error}");
                    assert_eq!(error.why().contains("a symbolic link is where the directory"), link, "{error}");
                }
                run.commit().unwrap();
            }
            assert_eq!(files(out.path()), before);
            assert!(names(&outside).is_empty());
            assert_eq!(temporary(out.path()), 0);
        }
    }
}

#[test]
#[ignore = "needs root, to mount"]
fn another_file_system_in_the_place_of_partitions_is_refused() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let out = temp.path().join("out");
        tmpfs(&out.join("00/0000"), "size=1m");
        let mut run = run(&out, &[], Mode::First);
        let error = run.put("x", b"x").unwrap_err();
        assert_eq!(error.kind(), Kind::NameConflict, "{error}");
        assert!(error.why().contains("another file system"), "{error}");
    });
}

#[test]
fn objects_tried_again_later_keep_their_place_over_runs() {
    let temp = temp_dir();
    let again = |earlier: &[Interval], bytes: &[u8]| {
        let sink = DirSink::new(temp.path(), whole(Durability::Batch, Overwrite::Never)).unwrap();
        let low = sink.start(&Start { sessions: earlier.to_vec(), ..Start::default() }, &()).unwrap().began.unwrap();
        let mut lane = sink.writer(0, Arc::new(|| {})).unwrap();
        for seq in [u64::MAX, RETRIED_FROM] {
            let mut writer = lane.open(&partition(seq), Mode::Redo, Box::new(())).unwrap();
            for n in 0..100 {
                let name = Name::parse(format!("{seq}/o-{n}").as_bytes()).unwrap().into();
                let put = writer.put(0, &name, &ObjectMeta::default(), &mut Payload::Borrowed(bytes)).unwrap();
                assert_eq!(put, Put::Written);
            }
            let sealed = writer.seal().unwrap();
            assert_eq!(sink.flush(vec![sealed], Flush::Due).unwrap().durable, [seq]);
        }
        let seen = sink.clock().unwrap().unwrap();
        Interval { low, seen, high: seen, ..EVER }
    };
    let first = again(&[], b"old"); // cut off before the journal
    let before: BTreeSet<_> = names(temp.path()).into_iter().collect();
    assert_eq!(before.len(), 200);
    for name in &before {
        let parts: Vec<_> = name.split('/').collect();
        assert_eq!((parts[0], parts[1].len(), parts[2].len(), parts.len()), ("retried", 2, 2, 5), "{name}");
    }
    again(&[first], b"new");
    let found = files(temp.path());
    assert_eq!(found.len(), 200, "none twice");
    assert!(found.values().all(|bytes| bytes == b"new"));
}
