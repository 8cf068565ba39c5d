//! The source of files: what is found and how it is called, what is left out and said, what changes or fails meanwhile.
//! (The contract of a source is in `contracts.rs`.)

mod support;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::files::{Files, FilesFrom, FilesOptions, Links, Paths};
use shoal_engine::source::{Behind, Source};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Cursor, Kind, Partition, Progress, TransferOptions};
use support::{as_child, child, ext4_in_seconds, in_private_mounts, told};

type Objects = BTreeMap<Vec<u8>, Vec<u8>>;

/// Where many files are made and removed in no time: journalling file systems are slow to make them after removing others.
fn quick_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn put(root: &Path, path: impl AsRef<OsStr>, data: &[u8]) {
    let path = root.join(path.as_ref());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, data).unwrap();
}

fn fifo(path: &Path) {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: reads one string.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o644) }, 0);
}

fn files(from: FilesFrom, follow_links: bool) -> Files {
    let links = Some(if follow_links { Links::Follow } else { Links::Skip });
    Files::new(from, FilesOptions { links }).unwrap()
}

fn run(from: FilesFrom, follow_links: bool) -> (Outcome, Objects) {
    run_watched(files(from, follow_links), TransferOptions::default(), &mut |_| ControlFlow::Continue(()))
}

fn run_watched(
    source: Files,
    options: TransferOptions,
    observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> (Outcome, Objects) {
    let sink = MemorySink::new();
    let outcome = Transfer::new(Arc::new(source), Arc::new(sink.clone()), options).run(observer);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert!(outcome.report.run.balanced(), "{:?}", outcome.report.run);
    (outcome, sink.objects())
}

fn names(objects: &Objects) -> Vec<&str> {
    objects.keys().map(|name| std::str::from_utf8(name).unwrap()).collect()
}

fn failures(outcome: &Outcome) -> Vec<(String, &str)> {
    let failures = outcome.report.failures.iter();
    failures.map(|failure| (String::from_utf8_lossy(&failure.name).into_owned(), failure.kind.as_str())).collect()
}

fn list(source: &dyn Source, after: Option<Cursor>) -> shoal_engine::Result<Vec<Partition>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut listing = source.list(after)?;
    let mut all = Vec::new();
    while let Some(partition) = runtime.block_on(listing.next())? {
        all.push(partition);
    }
    Ok(all)
}

#[test]
fn a_path_a_glob_and_a_list_name_what_they_find() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    for path in ["a.txt", "b.bin", "d/c.txt", "d/e/f.txt", ".hidden/g.txt", ".shoal/x", ".SHOAL/y", "d/.shoal/z.txt"] {
        put(root, path, path.as_bytes());
    }
    let glob = |glob: &str| FilesFrom::Glob(root.join(glob).to_str().unwrap().to_owned());
    let whole = [".hidden/g.txt", "a.txt", "b.bin", "d/.shoal/z.txt", "d/c.txt", "d/e/f.txt"];
    assert_eq!(names(&run(FilesFrom::Path(root.to_owned()), false).1), whole);
    assert_eq!(names(&run(glob("*.txt"), false).1), ["a.txt"]);
    assert_eq!(
        names(&run(glob("**/*.txt"), false).1),
        [".hidden/g.txt", "a.txt", "d/.shoal/z.txt", "d/c.txt", "d/e/f.txt"]
    );
    assert_eq!(names(&run(glob("d/*/*.txt"), false).1), ["e/f.txt"], "and .shoal is the first component here");
    assert_eq!(names(&run(glob("{d/c,a}.txt"), false).1), ["a.txt", "d/c.txt"]);
    assert_eq!(names(&run(FilesFrom::Path(root.join("d/c.txt")), false).1), ["c.txt"]);
    symlink("d/c.txt", root.join("link")).unwrap();
    let (_, one) = run(FilesFrom::Path(root.join("link")), false);
    assert_eq!(one[&b"link"[..]], b"d/c.txt", "what a user typed is followed");
    let nothing = files(glob("*.nothing"), false);
    let transfer = Transfer::new(Arc::new(nothing), Arc::new(MemorySink::new()), TransferOptions::default());
    let error = transfer.run(&mut |_| ControlFlow::Continue(())).error.unwrap();
    assert_eq!(error.kind(), Kind::NothingMatched);
    assert!(error.why().ends_with("/*.nothing\""), "{}", error.why());
}

#[test]
fn paths_of_a_list_are_read_in_their_order_and_those_that_are_gone_are_failures() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    for path in ["in/a", "in/b/c"] {
        put(root, path, path.as_bytes());
    }
    fifo(&root.join("in/pipe"));
    symlink("a", root.join("in/link")).unwrap();
    symlink("in", root.join("other")).unwrap();
    let asked = ["in/b/c", "in/gone", "in/b", "in/a", "in/pipe", "in/link", "other/b/c"];
    let paths: Paths = asked.iter().map(|path| root.join(path).into_os_string().into_vec()).collect();
    let (outcome, found) = run(FilesFrom::Paths(paths), false);
    assert_eq!(names(&found), ["in/a", "in/b/c", "in/link", "other/b/c"], "what a user has named is followed");
    let mut failed = failures(&outcome);
    failed.sort();
    let wanted = [("in/b", "bad-answer"), ("in/gone", "vanished"), ("in/pipe", "bad-answer")];
    assert_eq!(failed, wanted.map(|(name, kind)| (name.to_owned(), kind)));
}

#[test]
fn a_list_of_relative_paths_starts_at_the_working_directory() {
    let asked = ["./src//lib.rs", "Cargo.toml", "../../README.md"];
    let (outcome, found) = run(FilesFrom::Paths(asked.iter().collect()), false);
    assert_eq!(failures(&outcome), []);
    assert_eq!(names(&found), ["Cargo.toml", "README.md", "src/lib.rs"]);
    assert_eq!(found[&b"README.md"[..]], std::fs::read("../../README.md").unwrap());
    let identity = |paths: &[&str]| files(FilesFrom::Paths(paths.iter().collect()), false).identity();
    assert_eq!(identity(&asked), identity(&asked));
    assert_ne!(identity(&asked), identity(&asked[..2]));
}

#[test]
fn what_is_no_file_is_skipped_and_counted_by_kind() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path();
    put(root, "d/file", b"x");
    fifo(&root.join("d/pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    symlink("file", root.join("d/link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("..", root.join("d/loop")).unwrap();
    symlink("self", root.join("self")).unwrap();
    symlink("d", root.join("again")).unwrap();

    let (outcome, found) = run(FilesFrom::Path(root.to_owned()), false);
    assert_eq!(names(&found), ["d/file"]);
    assert_eq!(outcome.report.run.skipped, 7);
    let said = "5 symbolic links, 1 pipe and 1 socket were skipped; `links=\"follow\"` follows links";
    assert!(outcome.report.notes.iter().any(|note| note == said), "{:?}", outcome.report.notes);

    let (outcome, found) = run(FilesFrom::Path(root.to_owned()), true);
    assert_eq!(names(&found), ["again/file", "again/link", "d/file", "d/link"]);
    let mut failed = failures(&outcome);
    failed.sort();
    assert_eq!(failed, [("dangling".to_owned(), "vanished"), ("self".to_owned(), "vanished")]);
    let said = "2 symbolic links in a loop, 2 pipes and 1 socket were skipped";
    assert!(outcome.report.notes.iter().any(|note| note == said), "{:?}", outcome.report.notes);
}

#[test]
fn the_text_of_a_link_is_never_an_object_where_links_are_not_taken() {
    let temp = tempfile::tempdir().unwrap();
    put(temp.path(), "d/file", b"x");
    symlink("d/file", temp.path().join("link")).unwrap();
    symlink("d", temp.path().join("directory")).unwrap();
    let from = || FilesFrom::Path(temp.path().to_owned());
    for (links, wanted, skipped) in [
        (Some(Links::Copy), &["d/file"][..], 2),
        (None, &["d/file", "link"], 1),
        (Some(Links::Inside), &["d/file", "link"], 1),
        (Some(Links::Follow), &["d/file", "directory/file", "link"], 0),
        (Some(Links::Skip), &["d/file"], 2),
    ] {
        let source = Files::new(from(), FilesOptions { links }).unwrap();
        let (outcome, found) = run_watched(source, TransferOptions::default(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(names(&found), wanted, "{links:?}");
        assert!(found.values().all(|bytes| bytes == b"x"), "{links:?}");
        assert_eq!(outcome.report.run.skipped, skipped, "{links:?}");
    }
}

#[test]
fn a_root_that_is_not_there_is_named() {
    for from in [FilesFrom::Path("/nowhere/at all".into()), FilesFrom::Glob("/nowhere/at all/*".into())] {
        let error = Files::new(from, FilesOptions::default()).err().unwrap();
        assert_eq!(error.kind(), Kind::Config);
        assert_eq!(error.to_string(), "\"/nowhere/at all\": no such file or directory");
    }
    let error = Files::new(FilesFrom::Path("/dev/null".into()), FilesOptions::default()).err().unwrap();
    assert!(error.to_string().contains("neither a directory nor a regular file"), "{error}");
}

#[test]
fn text_is_a_glob_only_where_no_file_has_that_name() {
    let temp = tempfile::tempdir().unwrap();
    put(temp.path(), "a[1]", b"x");
    put(temp.path(), "a1", b"y");
    let identity = |name: &str| {
        let text = temp.path().join(name).to_str().unwrap().to_owned();
        Files::new(FilesFrom::text(&text), FilesOptions::default()).map(|source| source.identity())
    };
    assert!(identity("a[1]").unwrap().ends_with("file=a[1]"));
    assert!(identity("a[2]").unwrap().ends_with("glob=a[2]"));
    assert_eq!(identity("a2").unwrap_err().kind(), Kind::Config);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_a_failure() {
    type Change = fn(&Path);
    let append: Change = |path| {
        use std::io::Write;
        std::fs::File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
    };
    let truncate: Change = |path| std::fs::File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
    let overwrite: Change = |path| {
        std::fs::File::options().write(true).open(path).unwrap().write_all_at(b"other", 7).unwrap();
    };
    for change in [append, truncate, overwrite] {
        let temp = tempfile::tempdir().unwrap();
        put(temp.path(), "large", &vec![1; 4 << 20]);
        put(temp.path(), "small", b"x");
        // 4 MiB at 4 MB/s: read for a second, changed after a tenth of it.
        let options = TransferOptions { limit_rate: Some(4 << 20), ..TransferOptions::default() };
        let (path, mut calls) = (temp.path().join("large"), 0);
        let source = files(FilesFrom::Path(temp.path().to_owned()), false);
        let (outcome, found) = run_watched(source, options, &mut |_| {
            calls += 1;
            if calls == 3 {
                change(&path);
            }
            ControlFlow::Continue(())
        });
        assert!(calls > 3, "the run was over before the file changed");
        assert_eq!(names(&found), ["small"]);
        assert_eq!(failures(&outcome), [("large".to_owned(), "changed")]);
    }
}

#[test]
fn a_small_file_that_changes_while_it_is_read_is_never_torn_where_change_times_have_steps_of_a_second() {
    const BLOCKS: usize = 15;
    let temp = tempfile::tempdir().unwrap();
    in_private_mounts(|| {
        let disk = ext4_in_seconds(temp.path());
        let path = disk.join("file");
        put(&disk, "file", &[0; BLOCKS * 4096]);
        // The first 300 ms of a second, so that all of it is in one step.
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        std::thread::sleep(Duration::from_millis(u64::from(1100 - now().subsec_millis())));
        let over = AtomicBool::new(false);
        let (outcome, found) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                for (version, block) in
                    (1..=u8::MAX).cycle().flat_map(|v| (0..BLOCKS as u64).map(move |block| (v, block)))
                {
                    file.write_all_at(&[version; 4096], block * 4096).unwrap();
                    std::thread::sleep(Duration::from_micros(500));
                    if over.load(Relaxed) {
                        return;
                    }
                }
            });
            let done = run(FilesFrom::Path(path.clone()), false);
            over.store(true, Relaxed);
            done
        });
        assert_eq!(names(&found), [""; 0], "half of it was written before, half behind");
        assert_eq!(failures(&outcome), [("file".to_owned(), "changed")]);

        // Left alone, it is waited for.
        let (outcome, found) = run(FilesFrom::Path(path.clone()), false);
        assert_eq!(failures(&outcome), []);
        assert_eq!(found[&b"file"[..]], std::fs::read(&path).unwrap());
    });
}

#[test]
fn a_directory_that_goes_while_it_is_listed_is_a_failure_and_not_a_gap() {
    let temp = tempfile::tempdir().unwrap();
    for n in 0..300 {
        put(temp.path(), format!("{n}/x"), b"x");
    }
    let source = files(FilesFrom::Path(temp.path().to_owned()), false);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut listing = source.list(None).unwrap();
    let mut parts = vec![runtime.block_on(listing.next()).unwrap().unwrap()];
    // All names are in the block that was read; two thirds of the directories go now.
    for n in 0..300 {
        std::fs::remove_dir_all(temp.path().join(n.to_string())).unwrap();
    }
    while let Some(partition) = runtime.block_on(listing.next()).unwrap() {
        parts.push(partition);
    }
    let remarks = listing.end().remarks;
    assert_eq!(remarks.len(), 1);
    // Each that is gone is a failure, and the one that was open. Where directories take long to open, up to 16 had been
    // opened ahead: what had been read of those is listed besides.
    let count: u32 = remarks[0].split(' ').next().unwrap().parse().unwrap();
    assert!((200..=201).contains(&count), "{remarks:?}");
    let listed = parts.iter().map(|part| part.len.unwrap()).sum::<u32>() - count;
    assert!((100..=116).contains(&listed), "{listed}");
    let (from, to) = (format!("{count} directories could not be read: \""), format!(" and {} more", count - 5));
    assert!(remarks[0].starts_with(&from) && remarks[0].ends_with(&to), "{remarks:?}");
}

#[test]
fn what_may_not_be_read_is_denied_and_the_rest_arrives() {
    const TEST: &str = "what_may_not_be_read_is_denied_and_the_rest_arrives";
    const NOBODY: u32 = 65534;
    if let Some(path) = as_child() {
        // SAFETY: gives rights up for good; this process runs one test.
        if unsafe { libc::geteuid() } == 0 {
            // SAFETY: as above.
            assert_eq!(unsafe { libc::setgid(NOBODY) | libc::setuid(NOBODY) }, 0);
        }
        let (outcome, found) = run(FilesFrom::Path(path), false);
        println!("TOLD {:?}", names(&found));
        println!("TOLD {:?}", failures(&outcome).into_iter().collect::<BTreeMap<_, _>>());
        println!("TOLD {:?}", outcome.report.notes);
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temp.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for path in ["shut/in", "d/x", "d/secret"] {
        put(temp.path(), path, b"x");
    }
    for path in ["shut", "d/secret"] {
        std::fs::set_permissions(temp.path().join(path), PermissionsExt::from_mode(0o0)).unwrap();
    }
    let told = told(&child(TEST, temp.path(), &[]));
    std::fs::set_permissions(temp.path().join("shut"), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(told[0], "[\"d/x\"]");
    assert_eq!(told[1], "{\"d/secret\": \"denied\", \"shut\": \"denied\"}");
    assert!(told[2].contains("1 directory could not be read: \\\"shut\\\" (cannot read it"), "{}", told[2]);
}

#[test]
fn few_file_descriptors_are_enough() {
    const TEST: &str = "few_file_descriptors_are_enough";
    if let Some(path) = as_child() {
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        // SAFETY: reads one structure; this process runs one test.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        let (outcome, found) = run(FilesFrom::Path(path), false);
        println!("TOLD {} {}", found.len(), outcome.report.run.failed);
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    for n in 0..100 {
        put(temp.path(), format!("{}{n}", "d/".repeat(n)), b"x");
        put(temp.path(), format!("wide/{n}/x"), &vec![0; 70_000]);
    }
    assert_eq!(told(&child(TEST, temp.path(), &[])), ["200 0"]);
}

#[test]
#[ignore = "needs strace"]
fn a_disk_that_cannot_be_read_fails_the_object_and_says_where() {
    const TEST: &str = "a_disk_that_cannot_be_read_fails_the_object_and_says_where";
    if let Some(path) = as_child() {
        let (outcome, found) = run(FilesFrom::Path(path), false);
        let failure = &outcome.report.failures[0];
        println!("TOLD {:?} {} {}", names(&found), failure.kind, failure.reason);
        return;
    }
    let (temp, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(temp.path(), "good", b"x");
    put(temp.path(), "bad", &vec![1; 1 << 20]);
    for (call, when, at) in [("read", 1, 0), ("pread64", 1, 65_537), ("pread64", 2, 65_537 + (256 << 10))] {
        let (bad, inject) = (temp.path().join("bad"), format!("inject={call}:error=EIO:when={when}"));
        let log = logs.path().join("log");
        let tracer = ["strace", "-f", "-qq", "-o", log.to_str().unwrap(), "-P", bad.to_str().unwrap(), "-e", &inject];
        // Old enough that it is read once.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let told = told(&child(TEST, temp.path(), &tracer));
        assert_eq!(told, [format!("[\"good\"] read-failed cannot read it at byte {at}: input/output error")]);
    }
}

#[test]
fn a_hundred_thousand_names_in_one_directory_are_listed_in_pages_and_flat_memory() {
    const TEST: &str = "a_hundred_thousand_names_in_one_directory_are_listed_in_pages_and_flat_memory";
    if let Some(path) = as_child() {
        let source = files(FilesFrom::Path(path), false);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut listing = source.list(None).unwrap();
        let (mut entries, mut first, mut most) = (0, None, 0);
        while let Some(partition) = runtime.block_on(listing.next()).unwrap() {
            entries += partition.len.unwrap();
            first = first.or(Some(resident()));
            most = most.max(resident());
        }
        println!("TOLD {entries} {}", most - first.unwrap());
        return;
    }
    let temp = quick_dir();
    for n in 0..100_000 {
        std::fs::File::create(temp.path().join(format!("a rather long name of a file {n:09}"))).unwrap();
    }
    let told = told(&child(TEST, temp.path(), &[]));
    let (entries, grown) = told[0].split_once(' ').unwrap();
    assert_eq!(entries, "100000");
    // All names are 4.4 MB.
    assert!(grown.parse::<usize>().unwrap() < 1 << 20, "grown by {grown} bytes");

    let source = files(FilesFrom::Path(temp.path().to_owned()), false);
    let all = list(&source, None).unwrap();
    let mut cursors: Vec<Cursor> = all.iter().map(|partition| partition.after.clone()).collect();
    cursors.dedup();
    assert_eq!(cursors.len(), 10);
    let nexts: Vec<&Cursor> = all.iter().filter_map(|partition| partition.next.as_ref()).collect();
    assert!(cursors[1..].iter().eq(nexts[..9].iter().copied()));
    // The order of a directory is not believed: whatever the cursor, all names are listed, to be compared.
    assert_eq!(source.properties().behind, Behind::Names);
    for cursor in [cursors[0].clone(), cursors[5].clone(), Cursor(Arc::new([1, 2, 3]))] {
        let again = list(&source, Some(cursor)).unwrap();
        assert!(again.len() == all.len() && again.iter().zip(&all).all(|(a, b)| (a.seq, a.key) == (b.seq, b.key)));
    }
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_thousand_directories_in_each_other_are_walked() {
    let temp = quick_dir();
    let deep = "d/".repeat(1000);
    std::fs::create_dir_all(temp.path().join(&deep)).unwrap();
    for depth in (0..=1000).step_by(50) {
        put(temp.path(), format!("{}x", "d/".repeat(depth)), b"x");
    }
    let (_, found) = run(FilesFrom::Path(temp.path().to_owned()), false);
    let (_, through) = run(FilesFrom::Path(temp.path().to_owned()), true);
    // What removes the whole tree at once would hold a descriptor for each level.
    for depth in (0..=1000).rev() {
        let _ = std::fs::remove_file(temp.path().join(format!("{}x", "d/".repeat(depth))));
        let _ = std::fs::remove_dir(temp.path().join("d/".repeat(depth)));
    }
    assert_eq!(found.len(), 21);
    assert_eq!(through, found);
    assert!(found.contains_key(format!("{deep}x").as_bytes()));
}

#[test]
fn random_trees_are_found_whole_with_names_of_any_bytes() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..20 {
        let temp = quick_dir();
        let mut directories = vec![temp.path().to_owned()];
        let mut expected = Objects::new();
        for _ in 0..random.usize(1..600) {
            let around = directories[random.usize(..directories.len())].clone();
            let length = random.usize(1..12);
            let name: Vec<u8> = (0..length).map(|_| random.u8(1..)).filter(|byte| *byte != b'/').collect();
            let path = around.join(OsStr::from_bytes(&name));
            if name.is_empty() || name == b"." || name == b".." || path.symlink_metadata().is_ok() {
                continue;
            }
            if random.u8(..) < 50 {
                std::fs::create_dir(&path).unwrap();
                directories.push(path);
            } else {
                let data: Vec<u8> = std::iter::repeat_n(random.u8(..), random.usize(..2000)).collect();
                std::fs::write(&path, &data).unwrap();
                expected.insert(path.strip_prefix(temp.path()).unwrap().as_os_str().as_bytes().to_vec(), data);
            }
        }
        assert_eq!(run(FilesFrom::Path(temp.path().to_owned()), false).1, expected);
        let everything = FilesFrom::Glob(format!("{}/**", temp.path().to_str().unwrap()));
        assert_eq!(run(everything, true).1, expected);
    }
}

#[test]
fn a_destination_that_would_be_read_again_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    put(temp.path(), "src/x", b"x");
    let start = |from: FilesFrom, to: &str| {
        let sink = DirSink::new(&temp.path().join(to), DirOptions::default()).unwrap();
        Transfer::new(Arc::new(files(from, false)), Arc::new(sink), TransferOptions::default())
            .run(&mut |_| ControlFlow::Continue(()))
            .error
    };
    let source = || FilesFrom::Path(temp.path().join("src"));
    let glob = |glob: &str| FilesFrom::Glob(temp.path().join(glob).to_str().unwrap().to_owned());
    symlink("src", temp.path().join("link")).unwrap();
    for (from, to) in [
        (source(), "src"),
        (source(), "src/out/deep"),
        (source(), "link/out"),
        (glob("src/**"), "src/out"),
        (glob("src/*"), "src"),
    ] {
        let error = start(from, to).unwrap();
        assert_eq!(error.kind(), Kind::Config, "{error}");
        assert!(error.why().starts_with("the destination is inside the source"), "{error}");
        assert!(!temp.path().join("src/out").exists(), "nothing was made");
    }
    assert!(start(glob("src/*"), "src/out").is_none(), "what the glob does not reach is outside");
    assert!(start(source(), "srcs").is_none());
    assert!(temp.path().join("srcs/x").exists());
}
