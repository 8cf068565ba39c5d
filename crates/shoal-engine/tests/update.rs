//! `Resume::Update` and `Resume::Restart`: the destination becomes what the source is, and nothing of others is touched.

mod support;

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shoal_engine::journal::status;
use shoal_engine::options::{Durability, Overwrite, Pass, Resume};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::null::NullSink;
use shoal_engine::source::Source;
use shoal_engine::source::archive::{ArchiveOptions, Archives, ArchivesFrom, FormatsIn};
use shoal_engine::source::files::{Files, FilesFrom, FilesOptions};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Kind, Reason, Report, TransferOptions};
use support::*;

struct World {
    _temp: tempfile::TempDir,
    source: PathBuf,
    out: PathBuf,
}

impl World {
    fn new() -> World {
        let temp = temp_dir();
        let (source, out) = (temp.path().join("source"), temp.path().join("out"));
        std::fs::create_dir(&source).unwrap();
        World { _temp: temp, source, out }
    }

    fn write(&self, names: &[&str], text: &str) {
        for name in names {
            let path = self.source.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{name} {text}")).unwrap();
        }
        tick();
    }

    fn copy(&self, options: TransferOptions) -> Outcome {
        let source = Files::new(FilesFrom::Path(self.source.clone()), FilesOptions::default()).unwrap();
        copy(Arc::new(source), &self.out, options)
    }

    fn update(&self) -> Report {
        ended(self.copy(with(Resume::Update)))
    }

    fn is_equal(&self) -> bool {
        files(&self.source) == files(&self.out)
    }
}

fn copy(source: Arc<dyn Source>, out: &Path, options: TransferOptions) -> Outcome {
    let sink = DirSink::new(out, DirOptions::of(&options)).unwrap();
    let outcome = Transfer::new(source, Arc::new(sink), options).run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.report.run.balanced() && outcome.report.total.balanced(), "{:?}", outcome.report);
    tick();
    outcome
}

fn with(resume: Resume) -> TransferOptions {
    TransferOptions { resume, durability: Durability::None, ..TransferOptions::default() }
}

fn ended(outcome: Outcome) -> Report {
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    outcome.report
}

/// Lets the kernel's clock move, so that what comes next is later.
fn tick() {
    std::thread::sleep(Duration::from_millis(25));
}

fn kinds(report: &Report) -> Vec<(String, &str)> {
    let mut kinds: Vec<_> =
        report.failures.iter().map(|f| (String::from_utf8_lossy(&f.name).into_owned(), &*f.kind)).collect();
    kinds.sort();
    kinds
}

#[test]
fn an_update_copies_what_is_new_or_differs_and_counts_the_rest_as_unchanged() {
    let world = World::new();
    world.write(&["a", "b", "d/c", "d/e"], "old");
    assert_eq!(ended(world.copy(with(Resume::Auto))).run.written, 4);
    let kept = std::fs::metadata(world.out.join("b")).unwrap().ino();

    world.write(&["a", "d/new"], "another");
    world.write(&["d/e"], "new"); // as many bytes as before
    let report = world.update();
    assert_eq!(
        (report.run.written, report.run.skipped, report.unchanged, report.complete),
        (3, 2, 2, true),
        "{report:?}"
    );
    assert!(world.is_equal());
    assert_eq!(std::fs::metadata(world.out.join("b")).unwrap().ino(), kept, "it was not written again");

    let report = world.update();
    assert_eq!((report.run.written, report.unchanged), (0, 5), "{report:?}");
    let run = status(&world.out).unwrap().runs.remove(0);
    assert_eq!((run.pass, run.skips.of(Reason::Unchanged)), (Pass::Update, 5));
    let report = ended(world.copy(with(Resume::Once)));
    assert!(report.completed_before.is_some() && report.unchanged == 5, "{report:?}");
    world.write(&["d/later"], "new");
    let report = ended(world.copy(with(Resume::Auto)));
    assert_eq!((report.run.written, report.unchanged), (1, 5), "a finished copy of a tree is updated: {report:?}");
}

#[test]
fn an_update_deletes_nothing() {
    let world = World::new();
    world.write(&["a", "b"], "old");
    ended(world.copy(with(Resume::Auto)));
    std::fs::remove_file(world.source.join("a")).unwrap();
    assert_eq!(world.update().unchanged, 1);
    assert!(world.out.join("a").exists());
}

#[test]
fn a_file_that_was_edited_at_the_destination_stays_and_what_has_replaced_one_is_a_failure() {
    let world = World::new();
    world.write(&["edited", "replaced", "same", "touched"], "old");
    ended(world.copy(with(Resume::Auto)));
    let at = |name: &str| world.out.join(name);
    std::fs::write(at("edited"), "mine").unwrap();
    // Another file of the same size, with the same time.
    let time = std::fs::metadata(at("replaced")).unwrap().modified().unwrap();
    std::fs::write(at("mine"), "replaced OLD").unwrap();
    File::options().write(true).open(at("mine")).unwrap().set_modified(time).unwrap();
    std::fs::rename(at("mine"), at("replaced")).unwrap();
    File::options().write(true).open(at("touched")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    tick();

    let report = world.update();
    assert_eq!(kinds(&report), [("replaced".into(), "exists")], "{report:?}");
    // What has the same bytes is left alone, whatever its time.
    assert_eq!((report.run.written, report.run.skipped, report.unchanged), (0, 3, 1), "{report:?}");
    assert_eq!(report.edited, 1);
    assert_eq!(std::fs::read(at("edited")).unwrap(), b"mine");
    assert_eq!(std::fs::read(at("replaced")).unwrap(), b"replaced OLD");

    let always = TransferOptions { overwrite: Overwrite::Always, ..with(Resume::Update) };
    assert_eq!(ended(world.copy(always)).run.written, 2, "it is not bound to the run");
    assert!(world.is_equal());
}

#[test]
fn an_update_that_was_stopped_goes_on_as_one() {
    // `Auto` would compare all of a tree again; it continues where `Once` does with any other source.
    for last in [Resume::Once, Resume::Update, Resume::Auto] {
        let world = World::new();
        let names: Vec<String> = (0..400).map(|number| format!("{:02}/{number}", number % 7)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.write(&names, "old");
        ended(world.copy(with(Resume::Auto)));
        world.write(&names[100..], "new");

        let options = TransferOptions { limit_rate: Some(1_000), ..with(Resume::Update) };
        let sink = DirSink::new(&world.out, DirOptions::of(&options)).unwrap();
        let source = Files::new(FilesFrom::Path(world.source.clone()), FilesOptions::default()).unwrap();
        let stopped = Transfer::new(Arc::new(source), Arc::new(sink), options).in_batches_of(20).run(&mut |progress| {
            match progress.committed > 40 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        assert_eq!(stopped.error.map(|error| error.kind()), Some(Kind::Interrupted));
        assert!(!world.is_equal());
        tick();
        let report = ended(world.copy(with(last)));
        assert!(report.complete && (report.resumed_from > 0) == (last == Resume::Once), "{last:?}: {report:?}");
        assert_eq!((report.total.listed, report.total.failed), (400, 0), "{last:?}: {report:?}");
        assert_eq!(report.total.written + report.total.skipped, 400, "{last:?}: {report:?}");
        assert!(world.is_equal(), "{last:?}");
        assert!(
            last != Resume::Once || report.notes.iter().any(|note| note.contains("an interrupted update continues")),
            "{:?}",
            report.notes
        );
    }
}

#[test]
fn an_update_after_one_that_was_stopped_compares_everything_again() {
    let world = World::new();
    let names: Vec<String> = (0..400).map(|number| format!("{:02}/{number}", number % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.write(&names, "old");
    ended(world.copy(with(Resume::Auto)));
    world.write(&names, "new");
    let options = TransferOptions { limit_rate: Some(1_000), ..with(Resume::Update) };
    let sink = DirSink::new(&world.out, DirOptions::of(&options)).unwrap();
    let source = Files::new(FilesFrom::Path(world.source.clone()), FilesOptions::default()).unwrap();
    let stopped =
        Transfer::new(Arc::new(source), Arc::new(sink), options).in_batches_of(20).run(&mut |progress| match progress
            .committed
            > 40
        {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
    assert_eq!(stopped.error.map(|error| error.kind()), Some(Kind::Interrupted));
    tick();
    world.write(&names, "3rd");
    assert_eq!(world.update().total.failed, 0);
    assert!(world.is_equal(), "also what the stopped one had done");
}

#[test]
fn a_source_that_lists_nothing_any_more_is_an_error_until_it_is_begun_anew() {
    let world = World::new();
    world.write(&["a"], "old");
    ended(world.copy(with(Resume::Auto)));
    std::fs::remove_file(world.source.join("a")).unwrap();
    for resume in [Resume::Update, Resume::Update, Resume::Auto] {
        let Outcome { report, error } = world.copy(with(resume));
        let error = error.unwrap_or_else(|| panic!("{resume:?}: {report:?}"));
        assert_eq!(error.kind(), Kind::JournalMismatch, "{resume:?}: {error}");
    }
    ended(world.copy(with(Resume::Restart)));
    assert_eq!(world.update().total.listed, 0);
    world.write(&["a"], "new");
    let report = world.update();
    assert_eq!((report.run.written, report.total.failed), (1, 0), "{report:?}");
}

#[test]
fn a_source_that_never_had_an_object_is_no_error() {
    let world = World::new();
    for resume in [Resume::Auto, Resume::Update, Resume::Update] {
        assert_eq!(ended(world.copy(with(resume))).total.listed, 0);
    }
}

#[test]
fn other_permissions_and_another_time_arrive_though_the_bytes_are_the_same() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.write(&["mode", "time"], "same");
    let at = |name: &str| world.source.join(name);
    std::fs::set_permissions(at("mode"), PermissionsExt::from_mode(0o644)).unwrap();
    tick();
    ended(world.copy(with(Resume::Auto)));
    std::fs::set_permissions(at("mode"), PermissionsExt::from_mode(0o600)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(at("time")).unwrap().set_modified(time).unwrap();
    tick();
    let report = world.update();
    assert_eq!((report.run.written, report.run.failed), (2, 0), "{report:?}");
    let found = |name: &str| std::fs::metadata(world.out.join(name)).unwrap();
    assert_eq!(found("mode").mode() & 0o777, 0o600);
    assert_eq!(found("time").modified().unwrap(), time);
    assert_eq!(world.update().unchanged, 2);
}

#[test]
fn a_finished_run_whose_destination_was_emptied_says_so() {
    let world = World::new();
    world.write(&["a"], "old");
    ended(world.copy(with(Resume::Auto)));
    let notes = || ended(world.copy(with(Resume::Once))).notes.join("\n");
    assert!(!notes().contains("destination"), "{}", notes());
    std::fs::remove_file(world.out.join("a")).unwrap();
    assert!(notes().contains("the written files are no longer at the destination"), "{}", notes());
}

#[test]
fn other_filters_are_refused_but_an_update_takes_them_as_the_runs_own() {
    let world = World::new();
    world.write(&["a.jpg", "b.jpg", "c.png"], "old");
    let options = |include: &[&str], resume| TransferOptions {
        include: include.iter().map(|&glob| glob.to_owned()).collect(),
        ..with(resume)
    };
    assert_eq!(ended(world.copy(options(&["*.jpg"], Resume::Auto))).run.written, 2);
    for resume in [Resume::Auto, Resume::Failed, Resume::Relist] {
        let error = world.copy(options(&[], resume)).error.unwrap();
        assert_eq!(error.kind(), Kind::JournalMismatch);
        assert!(error.advice().unwrap().contains("`resume=\"update\"`"), "{error}");
    }
    let report = ended(world.copy(options(&[], Resume::Update)));
    assert_eq!((report.run.written, report.unchanged), (1, 2), "{report:?}");
    assert!(ended(world.copy(options(&[], Resume::Once))).completed_before.is_some());
    assert!(world.copy(options(&["*.jpg"], Resume::Auto)).error.is_some());
    assert_eq!(ended(world.copy(options(&["*.png"], Resume::Restart))).run.written, 1);
}

#[test]
fn a_restart_believes_no_size_and_no_time() {
    let world = World::new();
    world.write(&["a", "b"], "old");
    ended(world.copy(with(Resume::Auto)));
    let log = |report: &Report| (report.run.written, report.unchanged, report.run.bytes);
    assert_eq!(log(&world.update()), (0, 2, 0));
    assert_eq!(log(&ended(world.copy(with(Resume::Restart)))), (2, 0, 10), "compared byte by byte");
    assert!(world.is_equal());
}

#[test]
fn what_keeps_no_names_cannot_be_updated() {
    let world = World::new();
    world.write(&["a"], "old");
    let source = Files::new(FilesFrom::Path(world.source.clone()), FilesOptions::default()).unwrap();
    let null = Transfer::new(Arc::new(source), Arc::new(NullSink::new()), with(Resume::Update));
    assert_eq!(null.run(&mut |_| ControlFlow::Continue(())).error.unwrap().kind(), Kind::Config);
}

fn unpack(directory: &Path, out: &Path, options: TransferOptions) -> Outcome {
    let glob = directory.join("*.tar").to_str().unwrap().to_owned();
    let archives = Archives::new(ArchivesFrom::Pattern(glob), FormatsIn::Tar, ArchiveOptions::default()).unwrap();
    copy(Arc::new(archives), out, options)
}

/// A plain tar of small files.
fn tar(path: &Path, entries: &[(&str, &str)]) {
    let mut bytes = Vec::new();
    for (name, text) in entries {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", text.len()).as_bytes());
        header[136..148].copy_from_slice(b"07000000000\0");
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend(header);
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    std::fs::write(path, bytes).unwrap();
    tick();
}

#[test]
fn of_archives_the_bytes_tell_what_is_unchanged_since_two_may_have_one_name() {
    let world = World::new();
    // Of the same size and time, and another content.
    tar(&world.source.join("one.tar"), &[("a", "first a"), ("b", "first b"), ("c", "c")]);
    tar(&world.source.join("two.tar"), &[("a", "other a"), ("d", "d")]);
    let report = ended(unpack(&world.source, &world.out, with(Resume::Auto)));
    assert_eq!((report.run.written, kinds(&report).len()), (4, 1), "{report:?}");

    for (round, b) in [(0, "first b"), (1, "newer b"), (2, "newer b")] {
        tar(&world.source.join("one.tar"), &[("a", "first a"), ("b", b), ("c", "c")]);
        let report = ended(unpack(&world.source, &world.out, with(Resume::Update)));
        let written = u64::from(round == 1);
        // Which of the two is the first, is settled anew: then it is written.
        assert!([written, written + 1].contains(&report.run.written), "{round}: {report:?}");
        assert_eq!((report.unchanged + report.run.written, report.total.failed), (4, 1), "{round}: {report:?}");
        let there = files(&world.out);
        let text = |name: &str| String::from_utf8(there[name.as_bytes()].clone()).unwrap();
        assert!(["first a", "other a"].contains(&&*text("a")));
        assert_eq!((text("b"), text("c"), text("d")), (b.into(), "c".into(), "d".into()));
    }
}

#[test]
fn a_dry_run_creates_nothing_and_says_what_would_be_copied() {
    let world = World::new();
    world.write(&["a", "b", "d/c", "x.tmp"], "old");
    let dry = |resume| TransferOptions { dry_run: true, exclude: vec!["*.tmp".into()], ..with(resume) };
    let real = || TransferOptions { dry_run: false, ..dry(Resume::Once) };
    let report = ended(world.copy(dry(Resume::Auto)));
    assert_eq!((report.run.written, report.run.skipped, report.run.failed), (3, 1, 0), "{report:?}");
    assert!(report.dry_run && !report.complete && !world.out.exists(), "{report:?}");

    std::fs::create_dir_all(world.out.join("b")).unwrap(); // a directory in its place
    assert_eq!(ended(world.copy(real())).run.failed, 1);
    std::fs::remove_dir(world.out.join("b")).unwrap();
    world.write(&["new"], "old");
    let journal = || std::fs::read(world.out.join(".shoal/journal.db")).unwrap();
    let before = (files(&world.out), journal());
    for (resume, written) in [(Resume::Once, 1), (Resume::Failed, 1), (Resume::Restart, 4)] {
        let report = ended(world.copy(dry(resume)));
        assert_eq!(report.run.written, written, "{resume:?}: {report:?}");
        assert!(before == (files(&world.out), journal()), "{resume:?}: nothing is written");
    }
    let other = TransferOptions { exclude: Vec::new(), ..dry(Resume::Auto) };
    assert_eq!(world.copy(other).error.unwrap().kind(), Kind::JournalMismatch, "as the real run");
    assert_eq!(ended(world.copy(real())).run.written, 1, "the failure is tried again");
}
