//! What the directory sink gives a file besides its bytes (the time of its last change, its permissions), and
//! directories that no object brings along; and what the engine makes of entries that stand for those.

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shoal_engine::options::{Durability, Overwrite, Pass, Resume, Workers};
use shoal_engine::session::Twice;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::sink::{Flush, Mode, Sink, Start};
use shoal_engine::source::files::{Files, FilesFrom, FilesOptions};
use shoal_engine::source::memory::{Answer, MemorySource};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, MODE_UNKNOWN, Name, ObjectMeta, Payload, Result, TransferOptions};
use support::*;

/// Before 1970, with a part of a second; long ago; a file system's finest step; ahead of every clock.
const TIMES: [(i64, u32); 4] =
    [(-1_000_000_000, 500_000_000), (0, 0), (1_234_567_890, 123_456_789), (4_000_000_000, 0)];

fn time((seconds, nanoseconds): (i64, u32)) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let from = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
    from + Duration::from_nanos(nanoseconds.into())
}

fn modified(path: &Path) -> (i64, u32) {
    let found = std::fs::metadata(path).unwrap();
    (found.mtime(), found.mtime_nsec() as u32)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

/// Writes an object whole or in pieces.
fn write(run: &mut Run, name: &str, meta: &ObjectMeta, pieces: bool) -> Result<()> {
    let name = Name::parse(name.as_bytes()).unwrap();
    if pieces {
        let mut object = run.writer.begin(0, &name.clone().into(), meta)?.unwrap();
        object.write(b"in ").and_then(|()| object.write(b"pieces"))?;
        object.finish().map(|_| ())
    } else {
        run.writer.put(0, &name.clone().into(), meta, &mut Payload::Borrowed(b"whole")).map(|_| ())
    }
}

#[test]
fn times_are_kept_where_that_is_asked_for_however_a_file_comes_to_be() {
    for durability in [Durability::Batch, Durability::File] {
        let temp = temp_dir();
        let out = temp.path().join("out");
        std::fs::create_dir_all(&out).unwrap();
        std::fs::write(out.join("replaced"), b"mine").unwrap();
        let options = options(durability, Overwrite::Always);
        let start = Start { keep_times: true, ..Start::default() };
        let mut run = Run::started(&out, options, &start, Mode::First).unwrap();
        let mut names = Vec::new();
        for (at, when) in TIMES.into_iter().enumerate() {
            let meta = ObjectMeta { last_modified: Some(time(when)), ..ObjectMeta::default() };
            for (kind, pieces) in [("whole", false), ("pieces", true)] {
                let name = format!("d/{kind}-{at}");
                write(&mut run, &name, &meta, pieces).unwrap();
                names.push((name, when));
            }
        }
        let meta = ObjectMeta { last_modified: Some(time(TIMES[2])), ..ObjectMeta::default() };
        write(&mut run, "replaced", &meta, false).unwrap();
        names.push(("replaced".into(), TIMES[2]));
        write(&mut run, "unknown", &ObjectMeta::default(), false).unwrap();
        run.commit().unwrap();
        for (name, when) in names {
            assert_eq!(modified(&out.join(&name)), when, "{name}, {durability:?}");
        }
        let unknown = modified(&out.join("unknown")).0;
        assert!(SystemTime::now().duration_since(time((unknown, 0))).unwrap() < Duration::from_secs(600));
    }
}

#[test]
fn times_are_not_kept_unasked() {
    let temp = temp_dir();
    let mut run = Run::new(temp.path());
    let meta = ObjectMeta { last_modified: Some(UNIX_EPOCH), ..ObjectMeta::default() };
    write(&mut run, "whole", &meta, false).unwrap();
    write(&mut run, "pieces", &meta, true).unwrap();
    for name in ["whole", "pieces"] {
        assert!(modified(&temp.path().join(name)).0 > 1_600_000_000, "{name}");
    }
}

#[test]
fn a_file_has_the_permissions_of_its_source_as_far_as_the_umask_permits_however_it_comes_to_be() {
    const TEST: &str = "a_file_has_the_permissions_of_its_source_as_far_as_the_umask_permits_however_it_comes_to_be";
    const MODES: [(Option<u32>, u32); 7] = [
        (None, 0o640),
        (Some(0o666), 0o640),
        (Some(0o777), 0o750),
        (Some(0o600), 0o600),
        (Some(0o400), 0o400),
        (Some(0o6755), 0o750),
        (Some(0), 0),
    ];
    let temp = temp_dir();
    if let Some(path) = as_child() {
        // SAFETY: umask only swaps a number; this process runs one test.
        unsafe { libc::umask(0o027) };
        let options = options(Durability::Batch, Overwrite::Always);
        for (at, (mode, _)) in MODES.into_iter().enumerate() {
            std::fs::write(path.join(format!("replaced-{at}")), b"mine").unwrap();
            let mut run = Run::with(&path, options, &[], Mode::First).unwrap();
            let meta = ObjectMeta { mode, ..ObjectMeta::default() };
            for (kind, pieces) in [("whole", false), ("pieces", true), ("replaced", false)] {
                write(&mut run, &format!("{kind}-{at}"), &meta, pieces).unwrap();
            }
        }
        return;
    }
    let out = temp.path().join("out");
    std::fs::create_dir(&out).unwrap();
    told(&child(TEST, &out, &[]));
    for (at, (given, wanted)) in MODES.into_iter().enumerate() {
        for kind in ["whole", "pieces", "replaced"] {
            assert_eq!(mode(&out.join(format!("{kind}-{at}"))), wanted, "{kind}, {given:?}");
        }
    }
}

fn copy(source: impl shoal_engine::source::Source + 'static, out: &Path, options: TransferOptions) -> Outcome {
    let sink = DirSink::new(out, DirOptions::of(&options)).unwrap();
    let outcome =
        Transfer::new(Arc::new(source), Arc::new(sink), options).run(&mut |_| std::ops::ControlFlow::Continue(()));
    assert!(outcome.report.run.balanced() && outcome.report.total.balanced(), "{:?}", outcome.report);
    outcome
}

#[test]
fn copied_files_stay_programs_and_keep_their_times() {
    let temp = temp_dir();
    let (from, out) = (temp.path().join("from"), temp.path().join("out"));
    std::fs::create_dir(&from).unwrap();
    for (name, size, bits) in [("plain", 10, 0o644), ("program", 10, 0o755), ("large", 200_000, 0o4711)] {
        let path = from.join(name);
        std::fs::write(&path, vec![7; size]).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(bits)).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time(TIMES[2])).unwrap();
    }
    let source = || Files::new(FilesFrom::Path(from.clone()), FilesOptions::default()).unwrap();
    let outcome = copy(source(), &out, TransferOptions { keep_times: Some(true), ..TransferOptions::default() });
    assert!(outcome.error.is_none() && outcome.report.run.written == 3, "{outcome:?}");
    let runs = |name: &str| mode(&out.join(name)) & 0o4100;
    assert_eq!([runs("plain"), runs("program"), runs("large")], [0, 0o100, 0o100]);
    for name in ["plain", "program", "large"] {
        assert_eq!(modified(&out.join(name)), TIMES[2], "{name}");
    }
    let once = TransferOptions { keep_times: Some(false), resume: Resume::Once, ..TransferOptions::default() };
    let again = copy(source(), &out, once);
    assert!(again.error.is_none() && again.report.completed_before.is_some(), "the choice binds no run: {again:?}");

    let (kept, not_kept) = (temp.path().join("kept"), temp.path().join("not kept"));
    copy(source(), &kept, TransferOptions::default());
    copy(source(), &not_kept, TransferOptions { keep_times: Some(false), ..TransferOptions::default() });
    assert_eq!(modified(&kept.join("plain")), TIMES[2], "files keep their times unless told not to");
    assert!(modified(&not_kept.join("plain")).0 > 1_600_000_000);
}

#[test]
fn empty_directories_are_made_at_every_durability() {
    for durability in [Durability::Batch, Durability::File] {
        let temp = temp_dir();
        let out = temp.path().join("out");
        let options = options(durability, Overwrite::Never);
        let mut run = Run::with(&out, options, &[], Mode::First).unwrap();
        for name in ["empty", "a/b/c", "a/b", "empty"] {
            run.writer.directory(&Name::parse(name.as_bytes()).unwrap().into()).unwrap();
        }
        let sealed = run.seal();
        assert_eq!((sealed.objects, sealed.bytes), (0, 0));
        assert_eq!(run.sink.flush(vec![sealed], Flush::Last).unwrap().durable, [0]);
        for name in ["empty", "a/b/c"] {
            assert!(out.join(name).is_dir(), "{name}, {durability:?}");
        }
        assert_eq!(temporary(&out), 0);
    }
}

#[test]
fn a_directory_never_takes_the_place_of_a_file_or_a_link() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::create_dir(temp.path().join("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", out.join("link")).unwrap();
    let mut run = Run::new(&out);
    run.put("file", b"x").unwrap();
    for name in ["file", "file/below", "link", "link/below"] {
        let error = run.writer.directory(&Name::parse(name.as_bytes()).unwrap().into()).unwrap_err();
        assert_eq!(error.kind(), Kind::NameConflict, "{name}: {error}");
        assert_eq!(error.subject(), Some(name));
    }
    assert_eq!(std::fs::read(out.join("file")).unwrap(), b"x");
    assert_eq!(std::fs::read_dir(temp.path().join("outside")).unwrap().count(), 0);
}

fn objects(names: &[&str]) -> Vec<(Vec<u8>, Vec<u8>)> {
    names.iter().map(|name| (name.as_bytes().to_vec(), format!("bytes of {name}").into_bytes())).collect()
}

#[test]
fn directories_count_as_skipped_and_unsafe_or_taken_ones_have_failed() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let options = || TransferOptions { workers: Workers::Fixed(1), ..TransferOptions::default() };
    let source = || {
        let page = objects(&["a/one", "empty/", "deep/er/", "../out-of-here/", "taken", "taken/", "a/"]);
        MemorySource::new(vec![page], 3).with_directories()
    };
    let outcome = copy(source(), &out, options());
    assert!(outcome.error.is_none() && outcome.report.complete, "{outcome:?}");
    let run = outcome.report.run;
    assert_eq!((run.listed, run.written, run.skipped, run.failed, run.unfinished), (7, 2, 3, 2, 0), "{run:?}");
    let failed: Vec<_> = outcome.report.failures.iter().map(|failure| (&*failure.name, &*failure.kind)).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed.contains(&(&b"../out-of-here"[..], "unsafe-name")), "{failed:?}");
    assert!(failed.contains(&(&b"taken"[..], "name-conflict")), "{failed:?}");
    assert!(out.join("empty").is_dir() && out.join("deep/er").is_dir() && !temp.path().join("out-of-here").exists());

    // Once what is in the way is gone, that one alone is made.
    std::fs::remove_file(out.join("taken")).unwrap();
    let outcome = copy(source(), &out, TransferOptions { resume: Resume::Failed, ..options() });
    let total = outcome.report.total;
    assert_eq!((total.written, total.skipped, total.failed), (2, 4, 1), "{:?}", outcome.report);
    assert!(out.join("taken").is_dir());
}

#[test]
fn directories_that_are_left_out_are_not_made() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let options = TransferOptions { exclude: vec!["*.d".into()], ..TransferOptions::default() };
    let page = objects(&["kept/", "left-out.d/"]);
    let outcome = copy(MemorySource::new(vec![page], 3).with_directories(), &out, options);
    assert_eq!(outcome.report.run.skipped, 2);
    assert!(out.join("kept").is_dir() && !out.join("left-out.d").exists());
}

#[test]
fn a_run_of_directories_alone_ends_and_a_full_sink_ends_it() {
    let names: Vec<String> = (0..1000).map(|n| format!("{}/{n}/", n % 10)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pages = vec![objects(&names)];
    let temp = temp_dir();
    let out = temp.path().join("out");
    let outcome = copy(MemorySource::new(pages.clone(), 50).with_directories(), &out, TransferOptions::default());
    assert_eq!((outcome.report.run.skipped, outcome.report.complete), (1000, true), "{outcome:?}");

    let inner = DirSink::new(&temp.path().join("other"), DirOptions::default()).unwrap();
    let failing: Arc<dyn Sink> = Arc::new(shoal_engine::testing::faults::FailingSink::new(Arc::new(inner), 123, false));
    let source = MemorySource::new(pages, 50).with_directories();
    let outcome = Transfer::new(Arc::new(source), failing, TransferOptions::default())
        .run(&mut |_| std::ops::ControlFlow::Continue(()));
    assert_eq!(outcome.error.as_ref().map(|error| error.kind()), Some(Kind::DestinationFailed));
    let run = outcome.report.run;
    assert!(run.balanced() && run.unfinished > 0 && run.failed == 0, "{run:?}");
}

/// The second object of a name has other bytes than the first.
fn second(is_second: bool) -> Answer {
    if is_second { Answer::Other(b"the second".to_vec()) } else { Answer::Whole }
}

#[test]
fn a_repeated_name_is_a_failure_unless_the_bytes_are_the_same() {
    let same = |twice| MemorySource::new(vec![objects(&["a", "b"]), objects(&["c", "a"])], 2).twice(twice);
    let other = |twice| same(twice).answering(|_, count| second(count == 2));
    let options = || TransferOptions { workers: Workers::Fixed(1), ..TransferOptions::default() };
    let memory = |source: MemorySource| {
        let sink = MemorySink::new();
        let outcome = Transfer::new(Arc::new(source), Arc::new(sink), options())
            .run(&mut |_| std::ops::ControlFlow::Continue(()));
        outcome.report
    };
    for (twice, kind) in [
        (Twice::SameObject, "name-conflict"),
        (Twice::Conflict, "name-conflict"),
        (Twice::Reissued, "name-conflict"),
        (Twice::Repeated, "repeated"),
    ] {
        let skipping = memory(same(twice));
        assert_eq!((skipping.run.written, skipping.run.skipped, skipping.run.failed), (3, 1, 0), "{twice:?}");
        let failing = memory(other(twice));
        assert_eq!((failing.run.written, failing.run.skipped, failing.run.failed), (3, 0, 1), "{twice:?}");
        assert_eq!((&*failing.failures[0].name, &*failing.failures[0].kind), (&b"a"[..], kind), "{twice:?}");
    }
}

#[test]
fn a_repeated_name_tried_again_leaves_the_first_where_it_is() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let source = |nth| {
        let pages = vec![objects(&["a", "b"]), objects(&["c", "a"])];
        MemorySource::new(pages, 2).twice(Twice::Repeated).answering(move |_, count| second(count == nth))
    };
    let options = || TransferOptions { workers: Workers::Fixed(1), ..TransferOptions::default() };
    assert_eq!(copy(source(2), &out, options()).report.run.failed, 1);
    let again = copy(source(1), &out, TransferOptions { resume: Resume::Failed, ..options() });
    assert_eq!((again.report.run.written, again.report.total.failed), (0, 1), "{:?}", again.report);
    assert_eq!(std::fs::read(out.join("a")).unwrap(), b"bytes of a");
    // Unless it is gone.
    std::fs::remove_file(out.join("a")).unwrap();
    let again = copy(source(1), &out, TransferOptions { resume: Resume::Failed, ..options() });
    assert_eq!((again.report.run.written, again.report.total.failed), (1, 0), "{:?}", again.report);
}

#[test]
fn only_an_update_narrows_a_directory_and_only_where_the_source_says_what_it_permits() {
    for (says, updated) in
        [(Some(0o711), 0o711), (Some(0o777), 0o755), (Some(0), 0o700), (None, 0o755), (Some(MODE_UNKNOWN), 0o755)]
    {
        let temp = temp_dir();
        let directory = temp.path().join("directory");
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
        for (pass, wanted) in [(Pass::First, 0o755), (Pass::Restart, 0o755), (Pass::Update, updated)] {
            let sink = DirSink::new(temp.path(), DirOptions::default()).unwrap();
            sink.start(&Start { pass, ..Start::default() }, &()).unwrap();
            let mut lane = sink.writer(0, Arc::new(|| {})).unwrap();
            let mut writer = lane.open(&partition(0), Mode::Redo, Box::new(move |_| says)).unwrap();
            let put = writer.put(0, &key("directory/file"), &ObjectMeta::default(), &mut Payload::Borrowed(b"x"));
            assert!(put.is_ok(), "{put:?}");
            assert_eq!(mode(&directory), wanted, "{says:?}, {pass:?}");
            sink.finish().unwrap();
        }
    }
}
