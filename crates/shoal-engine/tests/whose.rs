//! Of which run is a file? What the directory sink does with an object if its name is taken, row by row of ARCHITECTURE.md's table, on
//! real file systems. (The rule itself, on bare numbers, is tested beside `sink/collision.rs`.)

mod support;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shoal_engine::options::{Durability, Overwrite};
use shoal_engine::session::{Interval, Twice};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::{Mode, Put, Sink, Start};
use shoal_engine::{Kind, Name, ObjectKey, ObjectMeta, Payload, Result};
use support::*;

/// The time of every object here: long before any session.
const SOURCE_TIME: Duration = Duration::from_secs(1_000_000_000);

fn timed(size: usize) -> ObjectMeta {
    let last_modified = Some(UNIX_EPOCH + SOURCE_TIME);
    ObjectMeta { size: Some(size as u64), last_modified, ..ObjectMeta::default() }
}

fn name(text: &str) -> ObjectKey {
    Name::parse(text.as_bytes()).unwrap().into()
}

/// A session that gives files the time of their source.
fn session(path: &Path, twice: Twice, overwrite: Overwrite, earlier: &[Interval], mode: Mode) -> Run {
    let start = Start { sessions: earlier.to_vec(), twice, keep_times: true, ..Start::default() };
    Run::started(path, options(Durability::None, overwrite), &start, mode).unwrap()
}

fn put(run: &mut Run, text: &str, bytes: &[u8], pieces: bool) -> Result<Put> {
    if !pieces {
        return run.writer.put(0, &name(text), &timed(bytes.len()), &mut Payload::Borrowed(bytes));
    }
    let mut object = run.writer.begin(0, &name(text), &timed(bytes.len()))?.unwrap();
    object.write(bytes)?;
    object.finish()
}

/// In a few letters what became of an object.
fn told(result: Result<Put>) -> &'static str {
    match result {
        Ok(Put::Written) => "written",
        Ok(Put::Kept) => "kept",
        Ok(Put::Later) => panic!("a directory writes at once"),
        Ok(Put::Duplicate) => "duplicate",
        Err(error) => error.kind().as_str(),
    }
}

/// Lets the kernel's clock move, so that what comes next is later.
fn tick() {
    std::thread::sleep(Duration::from_millis(25));
}

fn append(path: &Path) {
    use std::io::Write;
    File::options().append(true).open(path).unwrap().write_all(b" and more").unwrap();
}

/// The file that has the name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum There {
    /// Older than the run.
    Older,
    /// Made between two sessions of the run.
    Between,
    /// The earlier session made it; something changed its bytes after that session.
    Modified,
    /// The same, but only its permissions.
    Chmodded,
    /// The earlier session made it, all of it.
    Whole,
    /// The earlier session was cut off in the middle of it.
    Torn,
    /// This session made it.
    This,
}

/// Puts the file `x` there and starts the session that meets it.
fn meet(there: There, path: &Path, twice: Twice, overwrite: Overwrite, mode: Mode) -> Run {
    let file = path.join("x");
    if there == There::Older {
        std::fs::write(&file, b"first").unwrap();
    }
    let mut earlier = session(path, twice, Overwrite::Never, &[], Mode::First);
    match there {
        There::Whole | There::Modified | There::Chmodded => {
            assert_eq!(told(put(&mut earlier, "x", b"first", false)), "written");
        }
        // What a kill leaves between the creation and the time, which is set last.
        There::Torn => std::fs::write(&file, b"seco").unwrap(),
        There::Older | There::Between | There::This => {}
    }
    let earlier = earlier.cut_off();
    tick();
    match there {
        There::Between => std::fs::write(&file, b"first").unwrap(),
        There::Modified => {
            append(&file);
            let time = UNIX_EPOCH + SOURCE_TIME; // a program may set this one back
            OpenOptions::new().write(true).open(&file).unwrap().set_modified(time).unwrap();
        }
        There::Chmodded => std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap(),
        _ => {}
    }
    let mut run = session(path, twice, overwrite, &[earlier], mode);
    if there == There::This {
        assert_eq!(told(put(&mut run, "x", b"first", false)), "written");
    }
    run
}

#[test]
fn every_row_of_the_table_holds_for_objects_whole_and_in_pieces() {
    use Mode::{First, Redo};
    use There::*;
    use Twice::{Conflict, Reissued, Repeated, SameObject};
    let mut rows = Vec::new();
    // Files of others, and files that were changed since: whatever the source, whatever the mode.
    for there in [Older, Between, Modified, Chmodded] {
        for twice in [SameObject, Repeated, Conflict, Reissued] {
            for mode in [First, Redo] {
                rows.push((there, twice, mode, "exists", "written"));
            }
        }
    }
    // An id that was handed out again replaces what any session of the run has left.
    for (there, mode) in [(Whole, Redo), (Torn, Redo), (Whole, Mode::Reissued), (This, Mode::Reissued)] {
        rows.push((there, Reissued, mode, "written", "written"));
    }
    // A second object of this session is another object.
    for (twice, kind) in [
        (SameObject, "name-conflict"),
        (Conflict, "name-conflict"),
        (Reissued, "name-conflict"),
        (Repeated, "repeated"),
    ] {
        rows.push((This, twice, First, kind, kind));
        rows.push((This, twice, Redo, kind, kind));
    }
    // An earlier session's: an older copy where each name is one object, else another object if it is whole.
    for mode in [First, Redo] {
        for there in [Whole, Torn] {
            rows.push((there, SameObject, mode, "written", "written"));
        }
        for (twice, kind) in [(Conflict, "name-conflict"), (Repeated, "repeated")] {
            rows.push((Whole, twice, mode, kind, "written"));
            rows.push((Torn, twice, mode, "written", "written"));
        }
    }
    for (there, twice, mode, never, always) in rows {
        for (overwrite, wanted) in [(Overwrite::Never, never), (Overwrite::Always, always)] {
            for pieces in [false, true] {
                let temp = temp_dir();
                let mut run = meet(there, temp.path(), twice, overwrite, mode);
                let before = files(temp.path());
                let context = format!("{there:?} {twice:?} {mode:?} {overwrite:?}, in pieces: {pieces}");
                assert_eq!(told(put(&mut run, "x", b"second one", pieces)), wanted, "{context}");
                match wanted {
                    "written" => assert_eq!(files(temp.path())[&b"x"[..]], b"second one", "{context}"),
                    _ => assert_eq!(files(temp.path()), before, "{context}"),
                }
                assert_eq!(temporary(temp.path()), 0, "{context}");
            }
        }
    }
}

#[test]
fn the_same_bytes_are_kept_and_a_foreign_file_s_mode_and_time_stay_as_they_are() {
    use There::*;
    for (there, wanted) in
        [(Older, "duplicate"), (Between, "duplicate"), (Chmodded, "duplicate"), (Whole, "kept"), (This, "duplicate")]
    {
        for twice in [Twice::SameObject, Twice::Repeated, Twice::Conflict, Twice::Reissued] {
            if (there, twice) == (Whole, Twice::Reissued) {
                continue; // written again: the test below
            }
            let again = (there, twice) == (This, Twice::Reissued);
            // Handed out again: a process wrote it and died before it said so.
            let (mode, wanted) = if again { (Mode::Reissued, "kept") } else { (Mode::Redo, wanted) };
            for overwrite in [Overwrite::Never, Overwrite::Always] {
                for pieces in [false, true] {
                    let temp = temp_dir();
                    let mut run = meet(there, temp.path(), twice, overwrite, mode);
                    let look = || {
                        let found = std::fs::metadata(temp.path().join("x")).unwrap();
                        (found.ino(), found.mode(), found.mtime(), found.mtime_nsec(), found.ctime_nsec())
                    };
                    let before = look();
                    let context = format!("{there:?} {twice:?} {overwrite:?}, in pieces: {pieces}");
                    assert_eq!(told(put(&mut run, "x", b"first", pieces)), wanted, "{context}");
                    assert_eq!(look(), before, "{context}");
                    assert_eq!(temporary(temp.path()), 0, "{context}");
                    let sealed = run.seal();
                    assert_eq!(sealed.objects, u64::from(there == This) + u64::from(wanted == "kept"), "{context}");
                }
            }
        }
    }
}

#[test]
fn what_is_made_again_is_of_this_session_so_that_another_id_of_its_name_fails() {
    for pieces in [false, true] {
        let temp = temp_dir();
        let mut run = meet(There::Whole, temp.path(), Twice::Reissued, Overwrite::Never, Mode::Redo);
        assert_eq!(told(put(&mut run, "x", b"first", pieces)), "written");
        assert_eq!(told(put(&mut run, "x", b"second one", pieces)), "name-conflict");
        assert_eq!(files(temp.path())[&b"x"[..]], b"first");
        assert_eq!(temporary(temp.path()), 0);
    }
}

#[test]
fn the_hint_of_a_refused_name_works_when_it_is_followed() {
    let temp = temp_dir();
    let mut run = meet(There::Between, temp.path(), Twice::SameObject, Overwrite::Never, Mode::First);
    let error = put(&mut run, "x", b"second one", false).unwrap_err();
    let hint = error.advice().unwrap();
    assert!(hint.contains("`resume=\"failed\"`") && hint.contains("`overwrite=\"always\"`"), "{hint}");
    let one = run.cut_off();
    // Moved away, and tried again; or replaced.
    std::fs::rename(temp.path().join("x"), temp.path().join("mine")).unwrap();
    let mut run = session(temp.path(), Twice::SameObject, Overwrite::Never, &[one], Mode::Redo);
    assert_eq!(told(put(&mut run, "x", b"second one", false)), "written");
    let two = run.cut_off();
    let mut run = session(temp.path(), Twice::SameObject, Overwrite::Always, &[one, two], Mode::Redo);
    assert_eq!(told(put(&mut run, "mine", b"replaced", false)), "written");
}

#[test]
fn after_a_restart_a_file_is_whole_only_if_a_barrier_covered_it() {
    for (barrier, wanted) in [(None, "written"), (Some(-1), "written"), (Some(1), "repeated")] {
        let temp = temp_dir();
        let mut earlier = session(temp.path(), Twice::Repeated, Overwrite::Never, &[], Mode::First);
        put(&mut earlier, "x", b"first", false).unwrap();
        let found = std::fs::metadata(temp.path().join("x")).unwrap();
        let changed = found.ctime() * 1_000_000_000 + found.ctime_nsec();
        let cut = Interval { barrier: barrier.map(|after| changed + after), ..earlier.cut_off() };
        let rebooted = Interval { same_boot: false, ..cut };
        let mut run = session(temp.path(), Twice::Repeated, Overwrite::Never, &[cut], Mode::First);
        assert_eq!(told(put(&mut run, "x", b"second one", false)), "repeated", "{barrier:?}: the same boot");
        drop(run);
        let mut run = session(temp.path(), Twice::Repeated, Overwrite::Never, &[rebooted], Mode::First);
        assert_eq!(told(put(&mut run, "x", b"second one", false)), wanted, "{barrier:?}: after a restart");
    }
}

#[test]
fn where_times_are_not_kept_a_file_is_whole_when_fresh_and_not_when_redone() {
    for (mode, wanted) in [(Mode::First, "name-conflict"), (Mode::Redo, "written")] {
        let temp = temp_dir();
        let start = |sessions| Start { sessions, twice: Twice::Conflict, ..Start::default() };
        let mut earlier = Run::started(temp.path(), DirOptions::default(), &start(vec![]), Mode::First).unwrap();
        earlier.put("x", b"sec").unwrap();
        let earlier = earlier.cut_off();
        let mut run = Run::started(temp.path(), DirOptions::default(), &start(vec![earlier]), mode).unwrap();
        assert_eq!(told(run.put("x", b"second one")), wanted, "{mode:?}");
    }
}

#[test]
fn bytes_that_a_failed_barrier_may_have_lost_are_written_again() {
    for (same_boot, sound, wanted) in
        [(true, true, "kept"), (true, false, "written"), (false, true, "written"), (false, false, "written")]
    {
        let temp = temp_dir();
        let mut earlier = session(temp.path(), Twice::Conflict, Overwrite::Never, &[], Mode::First);
        put(&mut earlier, "x", b"first", false).unwrap();
        let earlier = Interval { same_boot, sound, ..earlier.cut_off() };
        let before = std::fs::metadata(temp.path().join("x")).unwrap().ino();
        let mut run = session(temp.path(), Twice::Conflict, Overwrite::Never, &[earlier], Mode::Redo);
        assert_eq!(told(put(&mut run, "x", b"first", false)), wanted, "{same_boot} {sound}");
        let after = std::fs::metadata(temp.path().join("x")).unwrap().ino();
        assert_eq!(after == before, wanted == "kept");
    }
}

#[test]
fn an_object_that_an_earlier_session_finished_is_not_fetched_again() {
    let temp = temp_dir();
    let mut earlier = session(temp.path(), Twice::SameObject, Overwrite::Never, &[], Mode::First);
    for at in ["whole", "modified", "d/deep", "emptied"] {
        put(&mut earlier, at, b"first", at.starts_with('d')).unwrap();
    }
    std::fs::write(temp.path().join("emptied"), b"").unwrap();
    std::fs::write(temp.path().join("torn"), b"first").unwrap(); // all bytes, and no time yet
    let earlier = earlier.cut_off();
    tick();
    append(&temp.path().join("modified"));
    std::fs::write(temp.path().join("foreign"), b"first").unwrap();
    let set = |path: &str, to: SystemTime| {
        File::options().write(true).open(temp.path().join(path)).unwrap().set_modified(to).unwrap();
    };
    set("foreign", UNIX_EPOCH + SOURCE_TIME);
    let has = |interval: Interval, keep_times: bool, text: &str, meta: &ObjectMeta| {
        let start = Start { sessions: vec![interval], keep_times, ..Start::default() };
        let mut run = Run::started(temp.path(), DirOptions::default(), &start, Mode::Redo).unwrap();
        let has = run.writer.has(&name(text), &mut || Some(meta.clone())).unwrap().is_some();
        assert_eq!(run.seal().objects, u64::from(has), "it counts as written");
        has
    };
    let there = |text: &str| has(earlier, true, text, &timed(5));
    assert!(there("whole") && there("d/deep"));
    for missing in ["modified", "emptied", "torn", "foreign", "not there", "no/way"] {
        assert!(!there(missing), "{missing}");
    }
    let other_time = ObjectMeta { last_modified: Some(UNIX_EPOCH), ..timed(5) };
    for meta in [timed(4), other_time, ObjectMeta { size: None, ..timed(5) }, ObjectMeta::default()] {
        assert!(!has(earlier, true, "whole", &meta), "{meta:?}");
    }
    assert!(!has(earlier, false, "whole", &timed(5)), "without times nothing proves that it is whole");
    let start = Start { sessions: vec![earlier], keep_times: true, ..Start::default() };
    let mut run = Run::started(temp.path(), DirOptions::default(), &start, Mode::Redo).unwrap();
    for missing in ["not there", "no/way"] {
        let has = run.writer.has(&name(missing), &mut || panic!("{missing}: nothing to compare the source with"));
        assert_eq!(has.unwrap(), None);
    }
    drop(run);
    for lost in [Interval { sound: false, ..earlier }, Interval { same_boot: false, ..earlier }] {
        assert!(!has(lost, true, "whole", &timed(5)), "{lost:?}");
        assert!(has(Interval { barrier: Some(lost.seen), ..lost }, true, "whole", &timed(5)), "{lost:?}");
    }
}

#[test]
fn a_file_that_the_user_puts_in_the_place_of_a_failed_object_stays() {
    let temp = temp_dir();
    let first = Run::new(temp.path()).cut_off(); // "x" could not be fetched
    tick();
    // As an editor saves: another file, renamed.
    std::fs::write(temp.path().join("saved"), b"the user's").unwrap();
    std::fs::rename(temp.path().join("saved"), temp.path().join("x")).unwrap();
    for mode in [Mode::First, Mode::Redo] {
        let mut retry = Run::with(temp.path(), DirOptions::default(), &[first], mode).unwrap();
        for result in [retry.put("x", b"the object"), retry.stream("x", b"the object")] {
            assert_eq!(result.unwrap_err().kind(), Kind::Exists);
        }
    }
    assert_eq!(std::fs::read(temp.path().join("x")).unwrap(), b"the user's");
}

#[test]
fn an_empty_object_is_not_taken_for_another_of_its_name_that_is_being_written() {
    let temp = temp_dir();
    let sink = DirSink::new(temp.path(), options(Durability::None, Overwrite::Never)).unwrap();
    sink.start(&Start { twice: Twice::Conflict, ..Start::default() }, &()).unwrap();
    let turn = std::sync::Barrier::new(2);
    let lane = |number: usize, bytes: &[u8]| -> Vec<&str> {
        let mut lane = sink.writer(number, Arc::new(|| {})).unwrap();
        let mut writer = lane.open(&partition(number as u64), Mode::First, Box::new(|_| None)).unwrap();
        let mut put = |at: u32| {
            turn.wait();
            told(writer.put(0, &name(&format!("o-{at}")), &timed(bytes.len()), &mut Payload::Borrowed(bytes)))
        };
        (0..3_000).map(&mut put).collect()
    };
    let (full, empty) = std::thread::scope(|scope| {
        let full = scope.spawn(|| lane(0, &[7; 30_000]));
        (lane(1, b""), full.join().unwrap())
    });
    for pair in full.iter().zip(&empty) {
        assert!(matches!(pair, (&"written", &"name-conflict") | (&"name-conflict", &"written")), "{pair:?}");
    }
}

#[test]
fn a_resumed_run_neither_replaces_nor_takes_for_its_own_what_another_run_wrote_meanwhile() {
    let temp = temp_dir();
    let mut first = Run::new(temp.path());
    first.put("mine", b"of run A").unwrap();
    let first = first.cut_off();
    tick();
    let mut other = Run::new(temp.path());
    other.put("x", b"of run B").unwrap();
    drop(other);
    for mode in [Mode::First, Mode::Redo] {
        let mut resumed = Run::with(temp.path(), DirOptions::default(), &[first], mode).unwrap();
        for result in [resumed.put("x", b"of run A"), resumed.stream("x", b"of run A")] {
            assert_eq!(result.unwrap_err().kind(), Kind::Exists);
        }
        assert_eq!(resumed.put("mine", b"of run A").unwrap(), Put::Kept);
    }
    assert_eq!(std::fs::read(temp.path().join("x")).unwrap(), b"of run B");
}

#[test]
#[ignore = "needs root, to mount"]
fn without_birth_times_no_file_is_taken_for_the_run_s_own() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let out = temp.path().join("out");
        std::fs::create_dir(&out).unwrap();
        assert!(mount("ramfs", out.to_str().unwrap(), "ramfs", 0, ""));
        std::fs::write(out.join("older"), b"mine").unwrap();
        let mut first = Run::new(&out);
        assert_eq!(first.started.publish, "by temporary file and rename");
        assert_eq!(first.put("whole", b"1").unwrap(), Put::Written);
        assert_eq!(first.stream("d/pieces", b"1").unwrap(), Put::Written);
        assert_eq!(first.put("whole", b"1").unwrap(), Put::Duplicate);
        // Since the first session began, and so changed within it.
        std::fs::set_permissions(out.join("older"), PermissionsExt::from_mode(0o600)).unwrap();
        let first = first.cut_off();
        let mut again = Run::with(&out, DirOptions::default(), &[first], Mode::Redo).unwrap();
        for taken in ["older", "whole", "d/pieces"] {
            assert_eq!(again.put(taken, b"other").unwrap_err().kind(), Kind::Exists, "{taken}");
            assert_eq!(again.stream(taken, b"other").unwrap_err().kind(), Kind::Exists, "{taken}");
        }
        assert_eq!(again.put("whole", b"1").unwrap(), Put::Duplicate);
        assert_eq!(again.stream("d/pieces", b"1").unwrap(), Put::Duplicate);
        assert_eq!(temporary(&out), 0);
        drop(again);
        let always = options(Durability::Batch, Overwrite::Always);
        let mut always = Run::with(&out, always, &[first], Mode::Redo).unwrap();
        assert_eq!(always.put("older", b"other").unwrap(), Put::Written);
        drop(always);
        unmount(&out);
    });
}

#[test]
#[ignore = "needs root, to mount"]
fn shoal_s_own_directory_is_refused_by_whatever_name() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let out = temp.path().join("out");
        drop(Run::new(&out));
        let inside = || {
            let mut found: Vec<_> =
                std::fs::read_dir(out.join(".shoal")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            found.sort();
            found
        };
        std::fs::create_dir_all(out.join("d/x")).unwrap();
        assert!(mount(out.join(".shoal").to_str().unwrap(), out.join("d/x").to_str().unwrap(), "", libc::MS_BIND, ""));
        for overwrite in [Overwrite::Never, Overwrite::Always] {
            let options = options(Durability::Batch, overwrite);
            let mut run = Run::with(&out, options, &[EVER], Mode::Redo).unwrap();
            let before = inside();
            for taken in ["d/x/journal.db", "d/x/new", "d/x/tmp/new"] {
                for result in [run.put(taken, b"bad"), run.stream(taken, b"bad")] {
                    let error = result.unwrap_err();
                    assert_eq!(error.kind(), Kind::NameConflict, "{error}");
                    assert!(error.why().contains("shoal's own directory"), "{error}");
                }
            }
            let directory = run.writer.directory(&name("d/x/new")).unwrap_err();
            assert_eq!(directory.kind(), Kind::NameConflict, "{directory}");
            assert_eq!(inside(), before);
            run.put("d/beside", b"good").unwrap();
            std::fs::remove_file(out.join("d/beside")).unwrap();
        }
        unmount(&out.join("d/x"));
    });
}
