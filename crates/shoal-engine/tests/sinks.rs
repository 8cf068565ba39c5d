//! Every sink keeps its contract; the directory sink keeps inside its directory and spares what is not its own.

mod support;

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use shoal_engine::options::{Durability, Overwrite};
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
        sink.start(&Start { first_began: None }).unwrap();
        let mut writer = sink.writer(0).unwrap();
        writer.open(0, &partition(0), Mode::Fresh).unwrap();
        for (name, bytes) in objects {
            let name = Name::parse(name.as_bytes()).unwrap();
            let meta = ObjectMeta::default();
            if pieces {
                let mut object = writer.begin(0, &name, &meta).unwrap();
                object.write(&bytes.as_bytes()[..1]).unwrap();
                object.write(&bytes.as_bytes()[1..]).unwrap();
                object.finish().unwrap();
            } else {
                writer.put(0, &name, &meta, Payload::Borrowed(bytes.as_bytes())).unwrap();
            }
        }
        assert_eq!(sink.totals().objects, 0, "counted when sealed");
        writer.seal(0).unwrap();
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
    sink.start(&Start { first_began: None }).unwrap();
    for private in [".shoal", ".shoal/tmp"] {
        assert_eq!(std::fs::metadata(out.join(private)).unwrap().mode() & 0o7777, 0o700, "{private}");
    }
    assert_eq!(temporary(&out), 0, "the clock's probes are gone");
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
    assert_eq!(DirSink::new(Path::new(""), DirOptions::default()).unwrap_err().kind(), Kind::Config);
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
        for mode in [Mode::Fresh, Mode::Again] {
            let mut run = Run::with(&out, options(Durability::Batch, overwrite), Some(0), mode).unwrap();
            for name in ["way/x", "a/way/x", "a/way/deep/x", "within/x", "absolute/tmp/x", "name", "dangling"] {
                for result in [run.put(name, b"bad"), run.stream(name, b"bad")] {
                    let error = result.expect_err(name);
                    assert_eq!(error.kind(), Kind::NameConflict, "{error}");
                    assert_eq!(error.subject(), Some(name));
                    assert!(error.why().contains("a symbolic link stands"), "{error}");
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
    let mut run = Run::with(temp.path(), options(Durability::Batch, Overwrite::Always), None, Mode::Again).unwrap();
    run.put("a", b"file").unwrap();
    run.put("d/x", b"file").unwrap();
    for (name, why) in [
        ("a/b", "a file stands where the directory"),
        ("a/b/c", "a file stands where the directory"),
        ("d", "a directory stands in its place"),
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
    for mode in [Mode::Fresh, Mode::Again] {
        let mut run = Run::with(temp.path(), DirOptions::default(), None, mode).unwrap();
        for result in [run.put("whole", b"theirs"), run.stream("d/pieces", b"theirs")] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), Kind::Exists, "{error}");
            assert!(error.advice().unwrap().contains("overwrite"), "{error}");
        }
        assert!(files(temp.path()).values().all(|bytes| bytes == b"mine"));
    }
    let always = options(Durability::Batch, Overwrite::Always);
    let mut run = Run::with(temp.path(), always, None, Mode::Fresh).unwrap();
    let mine = std::fs::File::open(temp.path().join("whole")).unwrap();
    assert_eq!(run.put("whole", b"theirs").unwrap(), Put::Written);
    assert_eq!(run.stream("d/pieces", b"theirs").unwrap(), Put::Written);
    assert_eq!(run.put("whole", b"a duplicate").unwrap(), Put::Duplicate, "replaced once, then it is ours");
    assert_eq!(run.stream("d/pieces", b"a duplicate").unwrap(), Put::Duplicate);
    assert!(files(temp.path()).values().all(|bytes| bytes == b"theirs"));
    assert_eq!(std::io::read_to_string(mine).unwrap(), "mine", "by rename: who has it open keeps it");
    assert_eq!(temporary(temp.path()), 0);
}

#[test]
fn three_runs_over_one_directory_tell_leftovers_duplicates_and_strangers_apart() {
    let temp = temp_dir();
    std::fs::write(temp.path().join("stranger"), b"mine").unwrap();
    let mut first = Run::new(temp.path());
    let began = first.started.began;
    first.put("committed", b"1").unwrap();
    first.put("left", b"half").unwrap();
    drop(first);
    let resumed = |mode| Run::with(temp.path(), DirOptions::default(), Some(began), mode).unwrap();
    let mut second = resumed(Mode::Fresh);
    assert!(second.started.began > began);
    assert_eq!(second.put("committed", b"2").unwrap(), Put::Duplicate);
    assert_eq!(second.put("stranger", b"2").unwrap_err().kind(), Kind::Exists);
    assert_eq!(second.put("second", b"2").unwrap(), Put::Written);
    drop(second);
    let mut third = resumed(Mode::Again);
    assert_eq!(third.put("left", b"whole").unwrap(), Put::Written);
    assert_eq!(third.put("left", b"again").unwrap(), Put::Duplicate);
    assert_eq!(third.stream("second", b"3").unwrap(), Put::Written);
    assert_eq!(third.stream("second", b"4").unwrap(), Put::Duplicate);
    assert_eq!(third.put("stranger", b"3").unwrap_err().kind(), Kind::Exists);
    let found = files(temp.path());
    for (name, bytes) in [("committed", "1"), ("left", "whole"), ("second", "3"), ("stranger", "mine")] {
        assert_eq!(found[name.as_bytes()], bytes.as_bytes(), "{name}");
    }
}

#[test]
fn a_run_begins_after_every_file_before_it_and_before_its_own() {
    let follows = |out: &Path| {
        let born = |name: usize| {
            let found = std::fs::metadata(out.join(name.to_string())).unwrap();
            match found.created() {
                Ok(created) => created.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i128,
                Err(_) => i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec()),
            }
        };
        for at in 0..20 {
            let mut run = Run::new(out);
            assert!((0..at).all(|earlier| born(earlier) < run.started.began));
            run.put(&at.to_string(), b"x").unwrap();
            assert!(born(at) >= run.started.began);
        }
    };
    let temp = temp_dir();
    follows(&temp.path().join("here"));
    in_private_mounts(|| {
        // Its clock moves every few milliseconds and it remembers no births, whatever newer file systems do.
        let coarse = temp.path().join("coarse");
        std::fs::create_dir(&coarse).unwrap();
        assert!(mount("ramfs", coarse.to_str().unwrap(), "ramfs", 0, ""));
        follows(&coarse);
    });
}

#[test]
fn a_clock_that_went_back_never_keeps_half_a_file() {
    let temp = temp_dir();
    let began = Run::new(temp.path()).started.began;
    // What a clock set back by an hour looks like: the journal was last written an hour from now. A leftover of that
    // hour would seem to be of the second run, so in what is redone nothing is trusted because of its age.
    let journal = std::fs::File::create(temp.path().join(".shoal/journal.db")).unwrap();
    journal.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(3600)).unwrap();
    let mut second = Run::with(temp.path(), DirOptions::default(), Some(began), Mode::Again).unwrap();
    assert!(second.started.notes.iter().any(|note| note.contains("clock has gone back")), "{:?}", second.started.notes);
    assert_eq!(second.put("seems-new", b"half").unwrap(), Put::Written);
    assert_eq!(second.put("seems-new", b"whole").unwrap(), Put::Written);
    assert_eq!(std::fs::read(temp.path().join("seems-new")).unwrap(), b"whole");
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
    symlink("/etc/hostname", tmp.join(".shoal-2222222222222222.tmp")).unwrap();
    let run = Run::new(temp.path());
    let mut left: Vec<_> = std::fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let kept = [".shoal-1111111111111111.tmp", ".shoal-2222222222222222.tmp", ".shoal-short.tmp", "notes.txt"];
    assert_eq!(left, kept);
    assert!(run.started.notes.iter().any(|note| note.contains("removed 2 temporary files")), "{:?}", run.started.notes);
}

#[test]
fn temporary_files_of_a_living_run_are_left_alone() {
    let temp = temp_dir();
    let mut living = Run::new(temp.path());
    let mut object = living.begin("large").unwrap();
    object.write(b"first ").unwrap();
    let other = Run::new(temp.path());
    assert!(other.started.notes.iter().any(|note| note.contains("another run")), "{:?}", other.started.notes);
    object.write(b"second").unwrap();
    assert_eq!(object.finish().unwrap(), Put::Written);
    assert_eq!(std::fs::read(temp.path().join("large")).unwrap(), b"first second");
}

#[test]
fn new_files_have_the_mode_that_the_umask_leaves() {
    let temp = temp_dir();
    if let Some(path) = as_child() {
        // SAFETY: umask only swaps a number; this process runs one test.
        unsafe { libc::umask(0o027) };
        std::fs::write(path.join("d/replaced"), b"mine").unwrap();
        let always = options(Durability::Batch, Overwrite::Always);
        let mut run = Run::with(&path, always, None, Mode::Fresh).unwrap();
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
    let whole = run.writer.put(0, &name, &meta, Payload::Borrowed(b"nine byte"));
    assert_eq!(whole.unwrap_err().kind(), Kind::ShortBody);
    let mut object = run.writer.begin(0, &name, &meta).unwrap();
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
    DirSink::new(path, DirOptions::default()).unwrap().start(&Start { first_began: None }).unwrap_err()
}
