//! A destination that is full, read-only, gone or failing: the right error, naming the object, and nothing half-written.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use shoal_engine::options::{Durability, Overwrite};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::{Mode, Put, Sink, Start};
use shoal_engine::{Class, Kind};
use support::*;

#[test]
#[ignore = "needs root, to mount"]
fn a_file_system_without_blocks_is_full_and_keeps_no_part() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let out = temp.path().join("out");
        tmpfs(&out, "size=1m");
        let mut run = Run::new(&out);
        assert!(run.started.notes.iter().any(|note| note.contains("bytes free")), "{:?}", run.started.notes);
        run.put("small", b"fits").unwrap();
        let large = vec![1; 2 << 20];
        for result in [run.put("d/whole", &large), run.stream("d/pieces", &large)] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), Kind::DestinationFull, "{error}");
            assert!(error.why().contains("no space left: 0 bytes free, "), "{error}");
            assert!(error.why().contains(out.join("d").to_str().unwrap()), "{error}");
            assert!(error.advice().unwrap().contains("free some space"), "{error}");
        }
        assert_eq!(names(&out), ["small"]);
        assert_eq!(temporary(&out), 0);
        assert!(eventually(|| run.put("afterwards", b"there is room again").is_ok()));
    });
}

#[test]
#[ignore = "needs root, to mount"]
fn a_file_system_without_inodes_is_full_and_says_so() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let out = temp.path().join("out");
        tmpfs(&out, "size=8m,nr_inodes=20");
        let mut run = Run::new(&out);
        assert!(run.started.notes.iter().any(|note| note.contains("free inodes")), "{:?}", run.started.notes);
        let error = (0..30).find_map(|at| run.put(&at.to_string(), b"x").err()).expect("20 inodes hold no 30 files");
        assert_eq!(error.kind(), Kind::DestinationFull, "{error}");
        assert!(error.why().contains("no inodes left"), "{error}");
        for name in ["d/x", "y"] {
            assert_eq!(run.stream(name, b"x").unwrap_err().kind(), Kind::DestinationFull);
        }
        assert!(files(&out).values().all(|bytes| bytes == b"x"));
        drop(run);
        let sink = DirSink::new(&out.join("deeper"), DirOptions::default()).unwrap();
        let error = sink.start(&Start::default(), &()).unwrap_err();
        assert_eq!(error.kind(), Kind::DestinationFull, "also before the first write: {error}");
    });
}

#[test]
#[ignore = "needs root, to mount"]
fn a_read_only_destination_ends_the_run() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let out = temp.path().join("out");
        // A remount is refused while anything is open for writing; this is what a kernel does that found an error.
        ext4(temp.path(), &out, &["-e", "remount-ro"]);
        let mut run = Run::new(&out);
        run.put("d/x", b"x").unwrap();
        let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
        let mounted = mounts.lines().find(|line| line.split(' ').nth(1) == out.to_str()).unwrap();
        let device = Path::new(mounted.split(' ').next().unwrap()).file_name().unwrap();
        std::fs::write(Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error"), "on purpose").unwrap();
        for result in [run.put("d/y", b"y"), run.put("z", b"z"), run.put("e/z", b"z"), run.stream("d/y", b"y")] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), Kind::DestinationReadOnly, "{error}");
        }
        let sink = DirSink::new(&out.join("other"), DirOptions::default()).unwrap();
        let error = sink.start(&Start::default(), &()).unwrap_err();
        assert_eq!(error.kind(), Kind::DestinationReadOnly, "{error}");
    });
}

#[test]
fn a_file_beyond_the_size_limit_fails_alone() {
    if let Some(path) = as_child() {
        let limit = libc::rlimit { rlim_cur: 10_000, rlim_max: 10_000 };
        // SAFETY: reads one structure; this process runs one test.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        let mut run = Run::new(&path);
        println!("TOLD {}", outcome(&run.put("d/whole", &[1; 20_000])));
        println!("TOLD {}", outcome(&run.stream("d/pieces", &[1; 20_000])));
        println!("TOLD {}", outcome(&run.put("d/fits", &[1; 10_000])));
        return;
    }
    let temp = temp_dir();
    let out = temp.path().join("out");
    let told = told(&child("a_file_beyond_the_size_limit_fails_alone", &out, &[]));
    assert_eq!(told.len(), 3, "{told:?}");
    for (line, name) in told.iter().zip(["d/whole", "d/pieces"]) {
        assert!(line.starts_with(&format!("too-large: \"{name}\": cannot write \"")), "{line}");
    }
    assert_eq!(told[2], "ok");
    assert_eq!(names(&out), ["d/fits"]);
    assert_eq!(temporary(&out), 0);
}

#[test]
fn out_of_file_descriptors_is_worth_another_try() {
    if let Some(path) = as_child() {
        let limit = libc::rlimit { rlim_cur: 40, rlim_max: 40 };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        let mut run = Run::with(&path, options(Durability::File, Overwrite::Never), &[], Mode::First).unwrap();
        // More directories than descriptors: those kept open make room.
        let all = (0..200).map(|at| run.put(&format!("{at}/x"), b"x")).collect::<Result<Vec<_>, _>>();
        println!("TOLD {}", outcome(&all));
        let mut open = Vec::new();
        let error = loop {
            match run.begin(&format!("large-{}", open.len())) {
                Ok(object) => open.push(object),
                Err(error) => break error,
            }
        };
        println!("TOLD {:?} {}", error.class(), outcome::<()>(&Err(error)));
        println!("TOLD {}", outcome(&run.put("small", b"x")).split(':').next().unwrap());
        for object in open {
            object.finish().unwrap();
        }
        println!("TOLD {}", outcome(&run.put("small", b"x")));
        println!("TOLD {}", outcome(&run.commit()));
        return;
    }
    let temp = temp_dir();
    let out = temp.path().join("out");
    let told = told(&child("out_of_file_descriptors_is_worth_another_try", &out, &[]));
    assert_eq!(told[0], "ok");
    assert!(told[1].starts_with("Retry out-of-files: \"large-"), "{}", told[1]);
    assert_eq!(told[2..], ["out-of-files", "ok", "ok"]);
    assert!(names(&out).len() > 210, "{}", names(&out).len());
    assert_eq!(temporary(&out), 0);
}

#[test]
#[ignore = "needs root, to become another user"]
fn a_directory_that_permits_no_file_fails_its_objects_and_a_destination_that_permits_none_ends_the_run() {
    const NOBODY: u32 = 65534;
    if let Some(path) = as_child() {
        // SAFETY: gives rights up for good; this process runs one test.
        assert_eq!(unsafe { libc::setgid(NOBODY) | libc::setuid(NOBODY) }, 0);
        let mut run = Run::new(&path.join("out"));
        println!("TOLD {}", outcome(&run.put("closed/x", b"x")));
        println!("TOLD {}", outcome(&run.stream("closed/x", b"x")));
        println!("TOLD {}", outcome(&run.put("closed/deep/x", b"x")));
        println!("TOLD {}", outcome(&run.put("open/x", b"x")));
        std::fs::set_permissions(path.join("out"), PermissionsExt::from_mode(0o555)).unwrap();
        println!("TOLD {}", outcome(&run.put("x", b"x")));
        println!("TOLD {}", outcome(&run.put("new/x", b"x")));
        let sink = DirSink::new(&path.join("closed/out"), DirOptions::default()).unwrap();
        println!("TOLD {}", outcome(&sink.start(&Start::default(), &())));
        return;
    }
    let temp = temp_dir();
    let base = temp.path();
    std::fs::set_permissions(base, PermissionsExt::from_mode(0o755)).unwrap();
    for directory in ["out", "out/closed", "closed"] {
        std::fs::create_dir(base.join(directory)).unwrap();
    }
    std::os::unix::fs::chown(base.join("out"), Some(NOBODY), Some(NOBODY)).unwrap();
    let name = "a_directory_that_permits_no_file_fails_its_objects_and_a_destination_that_permits_none_ends_the_run";
    let told = told(&child(name, base, &[]));
    let kinds: Vec<_> = told.iter().map(|line| line.split(':').next().unwrap()).collect();
    let (one, run) = ("denied", "destination-read-only");
    assert_eq!(kinds, [one, one, one, "ok", run, run, run], "{told:#?}");
    assert_eq!(names(&base.join("out")), ["open/x"]);
}

#[test]
fn a_destination_deleted_under_us_ends_the_run() {
    let temp = temp_dir();
    let out = temp.path().join("out");
    let mut run = Run::new(&out);
    run.put("d/x", b"x").unwrap();
    let mut object = run.begin("d/large").unwrap();
    object.write(b"x").unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    let put = [run.put("y", b"y"), run.put("d/y", b"y"), run.put("e/y", b"y"), object.finish(), run.stream("z", b"z")];
    for result in put {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), Kind::DestinationFailed, "{error}");
        assert!(error.why().contains("no longer exists"), "{error}");
        assert!(error.advice().unwrap().contains("removed or unmounted"), "{error}");
    }
    assert!(!out.exists(), "not made again: the journal went with it");
}

/// One injected failure: what is done, which call fails how, and what must come of it.
struct Row {
    operation: &'static str,
    inject: &'static str,
    outcome: &'static str,
    left: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row { operation: "put", inject: "write:error=ENOSPC:when=1", outcome: "destination-full", left: &[] },
    Row { operation: "put", inject: "write:error=EDQUOT:when=1", outcome: "destination-full", left: &[] },
    Row { operation: "put", inject: "write:error=EIO:when=1", outcome: "destination-failed", left: &[] },
    Row { operation: "put", inject: "write:error=EFBIG:when=1", outcome: "too-large", left: &[] },
    Row { operation: "put", inject: "write:retval=0:when=1", outcome: "destination-failed", left: &[] },
    Row { operation: "put", inject: "write:error=EINTR:when=1..3", outcome: "ok", left: &["s/x"] },
    Row { operation: "put", inject: "write:error=EAGAIN:when=1..3", outcome: "ok", left: &["s/x"] },
    Row { operation: "put", inject: "close:error=EIO:when=1", outcome: "destination-failed", left: &[] },
    Row { operation: "put", inject: "close:error=ENOSPC:when=1", outcome: "destination-full", left: &[] },
    Row { operation: "put", inject: "close:error=EINTR:when=1", outcome: "ok", left: &["s/x"] },
    Row { operation: "put", inject: "openat2:error=ENOSPC:when=1", outcome: "destination-full", left: &[] },
    Row { operation: "put", inject: "openat2:error=EROFS:when=1", outcome: "destination-read-only", left: &[] },
    Row { operation: "put", inject: "openat2:error=ENAMETOOLONG:when=1", outcome: "name-too-long", left: &[] },
    Row { operation: "put", inject: "openat2:error=EINVAL:when=1", outcome: "denied", left: &[] },
    Row { operation: "put", inject: "openat2:error=EXDEV:when=1", outcome: "name-conflict", left: &[] },
    Row { operation: "put", inject: "openat2:error=ENOSYS:when=1", outcome: "ok", left: &["s/x"] },
    Row { operation: "put", inject: "openat2:error=EPERM:when=1", outcome: "ok", left: &["s/x"] },
    Row { operation: "put", inject: "openat2:error=EMFILE:when=1", outcome: "ok", left: &["s/x"] },
    Row { operation: "put", inject: "openat2:error=EMFILE:when=1+", outcome: "out-of-files", left: &[] },
    Row { operation: "file", inject: "fsync:error=EIO:when=1", outcome: "destination-failed", left: &[] },
    Row { operation: "stream", inject: "renameat2:error=ENOSPC:when=1", outcome: "destination-full", left: &[] },
    Row { operation: "stream", inject: "renameat2:error=EIO:when=1", outcome: "destination-failed", left: &[] },
    Row { operation: "stream", inject: "renameat2:error=EINVAL:when=1", outcome: "ok", left: &["s/x"] },
    Row { operation: "stream", inject: "renameat2:error=EXDEV:when=1", outcome: "ok", left: &["s/x"] },
    Row { operation: "stream", inject: "fchmod:error=EPERM:when=1", outcome: "ok", left: &["s/x"] },
    Row {
        operation: "replace",
        inject: "renameat,renameat2,?rename:error=EIO:when=1",
        outcome: "destination-failed",
        left: &["s/x"],
    },
    Row {
        operation: "replace",
        inject: "renameat,renameat2,?rename:error=EXDEV:when=1",
        outcome: "ok",
        left: &["s/x"],
    },
    Row { operation: "mkdir", inject: "mkdirat:error=ENOSPC:when=3", outcome: "destination-full", left: &[] },
    Row { operation: "mkdir", inject: "mkdirat:error=EMLINK:when=3", outcome: "destination-full", left: &[] },
    Row { operation: "commit", inject: "syncfs:error=EIO:when=1", outcome: "destination-failed", left: &["s/x"] },
    Row { operation: "file", inject: "fsync:error=EINVAL:when=2+", outcome: "ok", left: &["s/x"] },
];

#[test]
#[ignore = "needs strace"]
fn every_failing_system_call_has_its_outcome_and_leaves_nothing_half_written() {
    const TEST: &str = "every_failing_system_call_has_its_outcome_and_leaves_nothing_half_written";
    if let Some(path) = as_child() {
        return operate(&path);
    }
    for row in ROWS {
        let temp = temp_dir();
        let out = temp.path().join(row.operation).join("out");
        std::fs::create_dir_all(out.join("s")).unwrap();
        let inject = format!("inject={}", row.inject);
        // Only calls on the file and on its directory are counted and fail; the rest of the process is left alone.
        let log = temp.path().join("log");
        let mut tracer = vec!["strace", "-f", "-qq", "-o", log.to_str().unwrap(), "-e", &inject];
        let watched = [out.join("s"), out.join("s/x"), out.clone()];
        let call = row.inject.split(':').next().unwrap();
        let paths: &[_] = match call {
            "write" | "close" => &watched[1..2],
            "openat2" => &watched[..1],
            "fsync" if row.inject.contains("EIO") => &watched[1..2],
            "fsync" => &watched[..2],
            "syncfs" => &watched[2..],
            _ => &[],
        };
        for path in paths {
            tracer.extend(["-P", path.to_str().unwrap()]);
        }
        let told = told(&child(TEST, &out, &tracer));
        let context = format!("{} with {}: {told:?}", row.operation, row.inject);
        assert!(std::fs::read_to_string(&log).unwrap().contains("INJECTED"), "no such call was made: {context}");
        assert_eq!(told.len(), 1, "{context}");
        assert_eq!(told[0].split(':').next().unwrap(), row.outcome, "{context}");
        if row.outcome != "ok" && row.operation != "commit" {
            assert!(told[0].contains(&format!("\"{}/", out.to_str().unwrap())), "the path is named: {context}");
        }
        assert_eq!(names(&out), row.left, "{context}");
        assert_eq!(temporary(&out), 0, "{context}");
        let bytes: &[u8] = if row.outcome == "ok" || row.operation == "commit" { b"bytes" } else { b"mine" };
        assert!(files(&out).values().all(|found| found == bytes), "{context}");
        if row.inject == "openat2:error=ENOSPC:when=1" {
            assert!(told[0].contains("its directory is full") && told[0].contains("\"parquet:DIR\""), "{context}");
        }
    }
}

/// What a row does, in its own process; the last component but one of the path says which.
fn operate(path: &Path) {
    let operation = path.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
    let durability = if operation == "file" { Durability::File } else { Durability::Batch };
    if operation == "replace" {
        std::fs::write(path.join("s/x"), b"mine").unwrap();
    }
    let mut run = Run::with(path, options(durability, Overwrite::Always), &[], Mode::First).unwrap();
    let ended = match operation {
        "stream" => outcome(&run.stream("s/x", b"bytes")),
        "mkdir" => outcome(&run.put("s/new/x", b"bytes")),
        "commit" | "file" => outcome(&run.put("s/x", b"bytes").and_then(|_| run.commit())),
        _ => outcome(&run.put("s/x", b"bytes")),
    };
    println!("TOLD {ended}");
}

#[test]
fn a_failed_object_can_be_tried_again() {
    let temp = temp_dir();
    let mut run = Run::new(temp.path());
    std::fs::create_dir(temp.path().join("x")).unwrap();
    let error = run.put("x", b"x").unwrap_err();
    assert_eq!(error.class(), Class::Object);
    std::fs::remove_dir(temp.path().join("x")).unwrap();
    assert_eq!(run.put("x", b"x").unwrap(), Put::Written);
}
