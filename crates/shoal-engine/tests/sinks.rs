//! Every sink keeps its contract; the directory sink keeps inside its directory and spares what is not its own.

mod support;

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use shoal_engine::options::{Durability, Overwrite};
use shoal_engine::session::Interval;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::sink::null::NullSink;
use shoal_engine::sink::{Mode, Put, Sink, Start};
use shoal_engine::testing::sink_contract;
use shoal_engine::{Error, Kind, Name, ObjectMeta, Payload};
use support::*;

#[test]
fn directory_sinks_keep_the_contract_at_every_durability() {
    for durability in [Durability::None, Durability::Batch, Durability::File] {
        let make = |path: &Path| -> Arc<dyn Sink> {
            Arc::new(DirSink::new(&path.join("out"), options(durability, Overwrite::Never)).unwrap())
        };
        sink_contract::run(make, |path| {
            let out = path.join("out");
            Some(if out.exists() { files(&out) } else { Default::default() })
        });
    }
}

#[test]
fn memory_sinks_keep_the_contract() {
    let stores: Mutex<HashMap<PathBuf, MemorySink>> = Mutex::default();
    let at = |path: &Path| stores.lock().unwrap().entry(path.to_owned()).or_default().clone();
    sink_contract::run(|path| Arc::new(at(path)) as Arc<dyn Sink>, |path| Some(at(path).objects()));
}

#[test]
fn null_sinks_keep_the_contract() {
    sink_contract::run(|_| Arc::new(NullSink::new()) as Arc<dyn Sink>, |_| None);
    sink_contract::run(|_| Arc::new(NullSink::hashing()) as Arc<dyn Sink>, |_| None);
}

#[test]
fn null_sinks_count_and_hash_what_was_sealed_in_whatever_order_it_came() {
    let write = |sink: &NullSink, objects: &[(&str, &str)], pieces: bool| {
        sink.start(&Start::default(), &()).unwrap();
        let mut lane = sink.writer(0, Arc::new(|| {})).unwrap();
        let mut writer = lane.open(&partition(0), Mode::First, Box::new(|_| None)).unwrap();
        for (name, bytes) in objects {
            let name = Name::parse(name.as_bytes()).unwrap();
            let meta = ObjectMeta::default();
            if pieces {
                let mut object = writer.begin(0, &name.clone().into(), &meta).unwrap().unwrap();
                object.write(&bytes.as_bytes()[..1]).unwrap();
                object.write(&bytes.as_bytes()[1..]).unwrap();
                object.finish().unwrap();
            } else {
                writer.put(0, &name.clone().into(), &meta, &mut Payload::Borrowed(bytes.as_bytes())).unwrap();
            }
        }
        assert_eq!(sink.totals().objects, 0, "counted when sealed");
        writer.seal().unwrap();
        sink.totals()
    };
    let one = write(&NullSink::hashing(), &[("a", "one"), ("b", "three")], false);
    assert_eq!((one.objects, one.bytes), (2, 8));
    assert_eq!(one, write(&NullSink::hashing(), &[("b", "three"), ("a", "one")], true));
    assert_ne!(one.hash, write(&NullSink::hashing(), &[("a", "three"), ("b", "one")], false).hash);
    assert_eq!(write(&NullSink::new(), &[("a", "one")], false).hash, 0);
}

#[test]
fn the_destination_and_its_parents_are_made() {
    let temp = temp_dir();
    let out = temp.path().join("not/yet/there");
    let sink = DirSink::new(&out, DirOptions::default()).unwrap();
    assert!(!temp.path().join("not").exists(), "nothing is made before start");
    assert_eq!(sink.journal_dir(), Some(out.clone()));
    assert_eq!(sink.identity(), out.to_str().unwrap());
    sink.start(&Start::default(), &()).unwrap();
    for private in [".shoal", ".shoal/tmp"] {
        assert_eq!(std::fs::metadata(out.join(private)).unwrap().mode() & 0o7777, 0o700, "{private}");
    }
    assert_eq!(temporary(&out), 0, "the probes are gone");
    assert!(out.join(".shoal/clock").exists(), "while the session runs");
    sink.finish().unwrap();
    assert!(!out.join(".shoal/clock").exists(), "and not after it");
}

#[test]
fn a_destination_that_is_no_directory_is_refused_before_the_run() {
    let temp = temp_dir();
    std::fs::write(temp.path().join("file"), b"mine").unwrap();
    for path in ["file", "file/below"] {
        let error = start_error(&temp.path().join(path));
        assert_eq!(error.kind(), Kind::Config, "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
    assert_eq!(DirSink::new(Path::new(""), DirOptions::default()).err().map(|error| error.kind()), Some(Kind::Config));
}

#[test]
fn a_root_that_is_a_link_is_followed() {
    let temp = temp_dir();
    std::fs::create_dir(temp.path().join("real")).unwrap();
    symlink("real", temp.path().join("link")).unwrap();
    let mut run = Run::new(&temp.path().join("link"));
    run.put("d/x", b"x").unwrap();
    run.stream("d/y", b"y").unwrap();
    run.commit().unwrap();
    assert_eq!(names(&temp.path().join("real")), ["d/x", "d/y"]);
}

#[test]
fn a_link_below_the_root_is_never_followed() {
    let temp = temp_dir();
    let (out, outside) = (temp.path().join("out"), temp.path().join("outside"));
    std::fs::create_dir_all(out.join("a")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("victim"), b"mine").unwrap();
    for (target, link) in [
        ("../outside", "way"),
        ("../../outside", "a/way"),
        ("../outside/victim", "name"),
        ("../outside/new", "dangling"),
        ("a", "within"),
        ("/", "absolute"),
    ] {
        symlink(target, out.join(link)).unwrap();
    }
    let before = files(&out);
    for overwrite in [Overwrite::Never, Overwrite::Always] {
        for mode in [Mode::First, Mode::Redo] {
            let mut run = Run::with(&out, options(Durability::Batch, overwrite), &[], mode).unwrap();
            for name in ["way/x", "a/way/x", "a/way/deep/x", "within/x", "absolute/tmp/x", "name", "dangling"] {
                for result in [run.put(name, b"bad"), run.stream(name, b"bad")] {
                    let error = result.expect_err(name);
                    assert_eq!(error.kind(), Kind::NameConflict, "{error}");
                    assert_eq!(error.subject(), Some(name));
                    assert!(error.why().contains("a symbolic link "), "{error}");
                }
            }
            run.put("a/beside", b"good").unwrap();
            std::fs::remove_file(out.join("a/beside")).unwrap();
        }
    }
    assert_eq!(files(&out), before, "the links are as they were");
    assert_eq!(names(&outside), ["victim"]);
    assert_eq!(std::fs::read(outside.join("victim")).unwrap(), b"mine");
    assert_eq!(temporary(&out), 0);
}

#[test]
fn a_link_planted_over_an_open_directory_leads_nowhere() {
    let temp = temp_dir();
    let (out, outside) = (temp.path().join("out"), temp.path().join("outside"));
    std::fs::create_dir(&outside).unwrap();
    let mut run = Run::new(&out);
    run.put("a/b/1", b"1").unwrap();
    std::fs::rename(out.join("a"), out.join("moved")).unwrap();
    symlink("../outside", out.join("a")).unwrap();
    run.put("a/b/2", b"2").unwrap(); // through the fd that is open: into the directory that was checked
    assert!(names(&outside).is_empty());
    run.put("a/c/3", b"3").unwrap(); // likewise: "a" is still open
    assert!(names(&outside).is_empty());
    assert!(names(&out).contains(&"moved/b/2".into()));
}

#[test]
fn a_link_in_the_place_of_shoals_own_directory_is_refused() {
    for own in [".shoal", ".shoal/tmp"] {
        let temp = temp_dir();
        let outside = temp.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join(".shoal-0123456789abcdef.tmp"), b"not to be swept").unwrap();
        let out = temp.path().join("out");
        std::fs::create_dir_all(out.join(own).parent().unwrap()).unwrap();
        symlink(&outside, out.join(own)).unwrap();
        let error = start_error(&out);
        assert_eq!(error.kind(), Kind::DestinationFailed, "{error}");
        assert!(error.why().contains("symbolic link"), "{error}");
        assert_eq!(names(&outside).len(), 1);
    }
}

#[test]
fn a_name_that_is_also_a_directory_is_a_conflict_whichever_came_first() {
    let temp = temp_dir();
    let mut run = Run::with(temp.path(), options(Durability::Batch, Overwrite::Always), &[], Mode::Redo).unwrap();
    run.put("a", b"file").unwrap();
    run.put("d/x", b"file").unwrap();
    for (name, why) in [
        ("a/b", "a file is where the directory"),
        ("a/b/c", "a file is where the directory"),
        ("d", "a directory has this name"),
    ] {
        for result in [run.put(name, b"second"), run.stream(name, b"second")] {
            let error = result.expect_err(name);
            assert_eq!(error.kind(), Kind::NameConflict, "{error}");
            assert!(error.why().contains(why), "{error}");
        }
    }
    assert_eq!(names(temp.path()), ["a", "d/x"]);
    assert_eq!(std::fs::read(temp.path().join("a")).unwrap(), b"file");
    assert_eq!(temporary(temp.path()), 0);
}

#[test]
fn a_strangers_file_stays_unless_overwriting_is_asked_for() {
    let temp = temp_dir();
    std::fs::create_dir(temp.path().join("d")).unwrap();
    for name in ["whole", "d/pieces"] {
        std::fs::write(temp.path().join(name), b"mine").unwrap();
    }
    for mode in [Mode::First, Mode::Redo] {
        let mut run = Run::with(temp.path(), DirOptions::default(), &[], mode).unwrap();
        for result in [run.put("whole", b"theirs"), run.stream("d/pieces", b"theirs")] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), Kind::Exists, "{error}");
            assert!(error.advice().unwrap().contains("overwrite"), "{error}");
        }
        assert!(files(temp.path()).values().all(|bytes| bytes == b"mine"));
    }
    let always = options(Durability::Batch, Overwrite::Always);
    let mut run = Run::with(temp.path(), always, &[], Mode::First).unwrap();
    let mine = std::fs::File::open(temp.path().join("whole")).unwrap();
    assert_eq!(run.put("whole", b"theirs").unwrap(), Put::Written);
    assert_eq!(run.stream("d/pieces", b"theirs").unwrap(), Put::Written);
    for result in [run.put("whole", b"another"), run.stream("d/pieces", b"another")] {
        assert_eq!(result.unwrap_err().kind(), Kind::NameConflict, "replaced once, then it is this run's");
    }
    assert_eq!(run.put("whole", b"theirs").unwrap(), Put::Duplicate);
    assert_eq!(run.stream("d/pieces", b"theirs").unwrap(), Put::Duplicate);
    assert!(files(temp.path()).values().all(|bytes| bytes == b"theirs"));
    assert_eq!(std::io::read_to_string(mine).unwrap(), "mine", "by rename: who has it open keeps it");
    assert_eq!(temporary(temp.path()), 0);
}

#[test]
fn three_sessions_over_one_directory_tell_leftovers_repetitions_and_foreign_files_apart() {
    let temp = temp_dir();
    std::fs::write(temp.path().join("foreign"), b"mine").unwrap();
    let mut first = Run::new(temp.path());
    first.put("committed", b"1").unwrap();
    first.put("left", b"half").unwrap();
    let one = first.cut_off();
    let resumed = |earlier: &[Interval], mode| Run::with(temp.path(), DirOptions::default(), earlier, mode).unwrap();
    let mut second = resumed(&[one], Mode::First);
    assert!(second.started.began > Some(one.seen));
    assert_eq!(second.put("committed", b"1").unwrap(), Put::Kept, "of an earlier session, with the same bytes");
    assert_eq!(second.put("foreign", b"2").unwrap_err().kind(), Kind::Exists);
    assert_eq!(second.put("foreign", b"mine").unwrap(), Put::Duplicate, "another program's, with the same bytes");
    assert_eq!(second.put("second", b"2").unwrap(), Put::Written);
    let two = second.cut_off();
    let mut third = resumed(&[one, two], Mode::Redo);
    assert_eq!(third.put("left", b"whole").unwrap(), Put::Written);
    assert_eq!(third.put("left", b"again").unwrap_err().kind(), Kind::NameConflict);
    assert_eq!(third.stream("second", b"3").unwrap(), Put::Written);
    assert_eq!(third.stream("second", b"4").unwrap_err().kind(), Kind::NameConflict);
    assert_eq!(third.stream("second", b"3").unwrap(), Put::Duplicate);
    assert_eq!(third.put("foreign", b"3").unwrap_err().kind(), Kind::Exists);
    let found = files(temp.path());
    for (name, bytes) in [("committed", "1"), ("left", "whole"), ("second", "3"), ("foreign", "mine")] {
        assert_eq!(found[name.as_bytes()], bytes.as_bytes(), "{name}");
    }
}

fn assert_runs_begin_between_their_files(out: &Path) {
    let born = |name: usize| {
        let found = std::fs::metadata(out.join(name.to_string())).unwrap();
        match found.created() {
            Ok(created) => created.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64,
            Err(_) => found.ctime() * 1_000_000_000 + found.ctime_nsec(),
        }
    };
    for at in 0..20 {
        let mut run = Run::new(out);
        let began = run.started.began.unwrap();
        assert!((0..at).all(|earlier| born(earlier) < began));
        run.put(&at.to_string(), b"x").unwrap();
        assert!(born(at) >= began);
    }
}

#[test]
fn a_run_begins_after_every_file_before_it_and_before_its_own() {
    assert_runs_begin_between_their_files(&temp_dir().path().join("here"));
}

#[test]
#[ignore = "needs root, to mount"]
fn a_run_begins_between_its_files_also_where_the_clock_is_coarse() {
    let temp = temp_dir();
    in_private_mounts(|| {
        // Its clock moves every few milliseconds and it remembers no births, whatever newer file systems do.
        let coarse = temp.path().join("coarse");
        std::fs::create_dir(&coarse).unwrap();
        assert!(mount("ramfs", coarse.to_str().unwrap(), "ramfs", 0, ""));
        assert_runs_begin_between_their_files(&coarse);
    });
}

#[test]
fn temporary_files_of_dead_runs_are_swept_and_nothing_else() {
    let temp = temp_dir();
    drop(Run::new(temp.path()));
    let tmp = temp.path().join(".shoal/tmp");
    for name in [".shoal-0123456789abcdef.tmp", ".shoal-00000000000000ff.tmp", "notes.txt", ".shoal-short.tmp"] {
        std::fs::write(tmp.join(name), b"x").unwrap();
    }
    std::fs::create_dir(tmp.join(".shoal-1111111111111111.tmp")).unwrap();
    symlink("/etc/hostname", tmp.join(".shoal-2222222222222222.tmp")).unwrap(); // a link that was to replace something
    let run = Run::new(temp.path());
    let mut left: Vec<_> = std::fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".shoal-1111111111111111.tmp", ".shoal-short.tmp", "notes.txt"]);
    assert!(run.started.notes.iter().any(|note| note.contains("removed 3 temporary files")), "{:?}", run.started.notes);
}

#[test]
fn a_second_run_on_a_destination_is_refused_and_leaves_the_first_alone() {
    let temp = temp_dir();
    let mut living = Run::new(temp.path());
    let mut object = living.begin("large").unwrap();
    object.write(b"first ").unwrap();
    let error = start_error(temp.path());
    assert_eq!(error.kind(), Kind::JournalLocked, "{error}");
    assert!(error.to_string().contains(&std::process::id().to_string()), "the first is named: {error}");
    object.write(b"second").unwrap();
    assert_eq!(object.finish().unwrap(), Put::Written);
    assert_eq!(std::fs::read(temp.path().join("large")).unwrap(), b"first second");
    drop(living);
    Run::new(temp.path());
}

#[test]
fn new_files_have_the_mode_that_the_umask_leaves() {
    let temp = temp_dir();
    if let Some(path) = as_child() {
        // SAFETY: umask only swaps a number; this process runs one test.
        unsafe { libc::umask(0o027) };
        std::fs::write(path.join("d/replaced"), b"mine").unwrap();
        let always = options(Durability::Batch, Overwrite::Always);
        let mut run = Run::with(&path, always, &[], Mode::First).unwrap();
        run.put("d/whole", b"x").unwrap();
        let object = run.begin("d/pieces").unwrap();
        for entry in std::fs::read_dir(path.join(".shoal/tmp")).unwrap() {
            println!("TOLD tmp {:o}", entry.unwrap().metadata().unwrap().mode() & 0o7777);
        }
        object.finish().unwrap();
        run.put("d/replaced", b"theirs").unwrap();
        run.put("new/x", b"x").unwrap();
        return;
    }
    let out = temp.path().join("out");
    std::fs::create_dir_all(out.join("d")).unwrap();
    std::fs::set_permissions(out.join("d"), PermissionsExt::from_mode(0o755)).unwrap();
    let told = told(&child("new_files_have_the_mode_that_the_umask_leaves", &out, &[]));
    assert_eq!(told, ["tmp 600"]);
    for name in ["d/whole", "d/pieces", "d/replaced"] {
        assert_eq!(std::fs::metadata(out.join(name)).unwrap().mode() & 0o7777, 0o640, "{name}");
    }
    assert_eq!(std::fs::read(out.join("d/replaced")).unwrap(), b"theirs");
    assert_eq!(std::fs::metadata(out.join("new")).unwrap().mode() & 0o7777, 0o750);
}

#[test]
fn a_body_of_another_length_than_announced_is_not_kept() {
    let temp = temp_dir();
    let mut run = Run::new(temp.path());
    let name = Name::parse(b"short").unwrap();
    let meta = ObjectMeta { size: Some(10), ..ObjectMeta::default() };
    let whole = run.writer.put(0, &name.clone().into(), &meta, &mut Payload::Borrowed(b"nine byte"));
    assert_eq!(whole.unwrap_err().kind(), Kind::ShortBody);
    let mut object = run.writer.begin(0, &name.clone().into(), &meta).unwrap().unwrap();
    object.write(b"nine byte").unwrap();
    assert_eq!(object.finish().unwrap_err().kind(), Kind::ShortBody);
    assert!(names(temp.path()).is_empty());
    assert_eq!(temporary(temp.path()), 0);
}

#[test]
fn more_directories_than_are_kept_open_come_and_go() {
    let temp = temp_dir();
    let mut run = Run::new(temp.path());
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    for round in 0..2 {
        for at in 0..300 {
            run.put(&format!("{}/{at}/{round}", at % 3), b"x").unwrap();
        }
    }
    let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after < before + 100, "{before} descriptors before, {after} after"); // other tests run beside this one
    assert_eq!(names(temp.path()).len(), 600);
}

#[test]
fn a_directory_removed_meanwhile_is_made_anew() {
    let temp = temp_dir();
    let mut run = Run::new(temp.path());
    run.put("a/b/1", b"1").unwrap();
    std::fs::remove_dir_all(temp.path().join("a")).unwrap();
    run.put("a/b/2", b"2").unwrap();
    assert_eq!(names(temp.path()), ["a/b/2"]);
}

fn start_error(path: &Path) -> Error {
    DirSink::new(path, DirOptions::default()).unwrap().start(&Start::default(), &()).unwrap_err()
}
