//! What a barrier covers, seen from outside: the system calls it makes, and what is left after a power cut.

mod support;

use std::os::fd::AsRawFd;
use std::path::Path;

use shoal_engine::options::{Durability, Overwrite};
use shoal_engine::sink::{DurabilityScope, Flush, Mode, Sink, Start};
use shoal_engine::{Kind, Name, ObjectMeta, Payload};
use support::*;

fn at(durability: Durability, path: &Path) -> Run {
    Run::with(path, options(durability, Overwrite::Never), &[], Mode::First).unwrap()
}

/// The system calls of this test's child process on its destination, one a line, in order.
fn traced(test: &str, out: &Path) -> Vec<String> {
    let log = out.with_extension("strace");
    let calls = "trace=openat2,openat,?open,write,close,fsync,fdatasync,syncfs,sync,statx,newfstatat,fchmod,renameat2,renameat,rename,unlinkat,mkdirat,utimensat";
    let tracer = ["strace", "-f", "-qq", "-y", "-s", "200", "-e", calls, "-o", log.to_str().unwrap()];
    told(&child(test, out, &tracer));
    let here = out.to_str().unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    let call = |line: &str| line.split_once(' ').map(|(_, call)| call.trim_start().to_owned());
    text.lines().filter(|line| line.contains(here)).filter_map(call).collect()
}

/// How far a run's barrier reaches.
fn reach(mut run: Run) -> DurabilityScope {
    let sealed = run.seal();
    run.sink.flush(vec![sealed], Flush::Last).unwrap().reach
}

fn count(calls: &[String], call: &str, on: &str) -> usize {
    calls.iter().filter(|line| line.starts_with(call) && line.contains(on)).count()
}

fn first(calls: &[String], call: &str, on: &str) -> usize {
    let found = calls.iter().position(|line| line.starts_with(call) && line.contains(on));
    found.unwrap_or_else(|| panic!("no {call} on {on} in\n{}", calls.join("\n")))
}

#[test]
#[ignore = "needs strace"]
fn a_small_object_costs_one_open_one_write_one_close_and_a_batch_one_syncfs() {
    if let Some(path) = as_child() {
        let mut run = at(Durability::Batch, &path);
        for at in 0..50 {
            run.put(&format!("flat-{at}"), b"bytes").unwrap();
            run.put(&format!("d/deep-{at}"), b"bytes").unwrap();
        }
        run.commit().unwrap();
        return;
    }
    let temp = temp_dir();
    let name = "a_small_object_costs_one_open_one_write_one_close_and_a_batch_one_syncfs";
    let calls = traced(name, &temp.path().join("out"));
    for kind in ["flat-", "deep-"] {
        for call in ["openat2(", "write(", "close("] {
            assert_eq!(count(&calls, call, kind), 50, "{call} {kind}");
        }
        let others = calls.iter().filter(|line| line.contains(kind)).count() - 150;
        assert_eq!(others, 0, "{}", calls.join("\n"));
    }
    assert_eq!(count(&calls, "syncfs(", ""), 1);
    assert_eq!(count(&calls, "fsync(", ""), 0);
    assert!(first(&calls, "syncfs(", "") > first(&calls, "close(", "deep-49"), "after the last byte");
    // The barrier's fd: the destination's own, opened before the first object and never closed since.
    let syncfs = &calls[first(&calls, "syncfs(", "")];
    let fd = syncfs.trim_start_matches("syncfs(").split('<').next().unwrap();
    let opened = calls.iter().position(|line| line.starts_with("open") && line.contains(&format!(") = {fd}<")));
    assert!(opened.expect("opened by path") < first(&calls, "openat2(", "flat-0"));
    assert_eq!(count(&calls[..first(&calls, "syncfs(", "")], &format!("close({fd}<"), ""), 0);
}

#[test]
#[ignore = "needs strace"]
fn file_durability_syncs_each_file_before_its_name_and_each_directory_before_the_answer() {
    if let Some(path) = as_child() {
        let mut run = at(Durability::File, &path);
        assert_eq!(run.started.durability, "file: each file and its directory synced");
        run.put("flat", b"bytes").unwrap();
        run.put("d/e/whole", b"bytes").unwrap();
        run.stream("d/e/pieces", b"bytes").unwrap();
        run.commit().unwrap();
        return;
    }
    let temp = temp_dir();
    let out = temp.path().join("out");
    let name = "file_durability_syncs_each_file_before_its_name_and_each_directory_before_the_answer";
    let calls = traced(name, &out);
    for file in ["out/flat>", "out/d/e/whole>", ".tmp>"] {
        assert_eq!(count(&calls, "fsync(", file), 1, "{file}");
        let calls = &calls[first(&calls, "write(", file)..]; // the clock's probes come before
        assert!(first(calls, "fsync(", file) < first(calls, "close(", file));
    }
    assert!(first(&calls, "fsync(", ".tmp>") < first(&calls, "renameat2(", ""));
    let renamed = first(&calls, "renameat2(", "");
    for directory in ["/out>", "/out/d>", "/out/d/e>"] {
        assert_eq!(count(&calls[renamed..], "fsync(", directory), 1, "{directory}");
    }
    assert_eq!(count(&calls, "syncfs(", ""), 0);
    let above = format!("{}>", temp.path().to_str().unwrap());
    let log = std::fs::read_to_string(out.with_extension("strace")).unwrap();
    let synced = log.lines().any(|line| line.contains(" fsync(") && line.contains(&format!("<{above}")));
    assert!(synced, "the destination's own name, in the directory above");
}

#[test]
#[ignore = "needs strace"]
fn a_kept_time_is_set_after_the_last_write_and_before_the_file_is_synced_and_named() {
    if let Some(path) = as_child() {
        let start = Start { keep_times: true, ..Start::default() };
        let mut run = Run::started(&path, options(Durability::File, Overwrite::Never), &start, Mode::First).unwrap();
        let meta = ObjectMeta { last_modified: Some(std::time::UNIX_EPOCH), ..ObjectMeta::default() };
        let name = |text: &str| Name::parse(text.as_bytes()).unwrap();
        run.writer.put(0, &name("whole").into(), &meta, &mut Payload::Borrowed(b"bytes")).unwrap();
        let mut object = run.writer.begin(0, &name("pieces").into(), &meta).unwrap().unwrap();
        object.write(b"bytes").unwrap();
        object.finish().unwrap();
        run.commit().unwrap();
        return;
    }
    let temp = temp_dir();
    let out = temp.path().join("out");
    let name = "a_kept_time_is_set_after_the_last_write_and_before_the_file_is_synced_and_named";
    let calls = traced(name, &out);
    for file in ["out/whole>", ".tmp>"] {
        assert_eq!(count(&calls, "utimensat(", file), 1, "{file}");
        let set = first(&calls, "utimensat(", file);
        assert!(first(&calls, "write(", file) < set && set < first(&calls, "fsync(", file), "{file}");
    }
    assert!(first(&calls, "utimensat(", ".tmp>") < first(&calls, "renameat2(", ""));
    assert_eq!(calls.iter().rposition(|call| call.starts_with("write(") && call.contains("out/whole>")), {
        Some(first(&calls, "write(", "out/whole>"))
    });
}

#[test]
#[ignore = "needs strace"]
fn an_empty_directory_is_synced_with_those_that_lead_to_it() {
    if let Some(path) = as_child() {
        let mut run = at(Durability::File, &path);
        run.writer.directory(&Name::parse(b"d/e/empty").unwrap().into()).unwrap();
        run.commit().unwrap();
        return;
    }
    let temp = temp_dir();
    let out = temp.path().join("out");
    let calls = traced("an_empty_directory_is_synced_with_those_that_lead_to_it", &out);
    let made = first(&calls, "mkdirat(", "empty");
    for directory in ["/out>", "/out/d>", "/out/d/e>"] {
        assert_eq!(count(&calls[made..], "fsync(", directory), 1, "{directory}");
    }
}

#[test]
#[ignore = "needs strace"]
fn without_durability_nothing_is_synced() {
    if let Some(path) = as_child() {
        let mut run = at(Durability::None, &path);
        run.put("d/whole", b"bytes").unwrap();
        run.stream("d/pieces", b"bytes").unwrap();
        assert_eq!(run.commit().unwrap(), [0]);
        return;
    }
    let temp = temp_dir();
    let calls = traced("without_durability_nothing_is_synced", &temp.path().join("out"));
    assert_eq!(count(&calls, "fsync(", "") + count(&calls, "syncfs(", "") + count(&calls, "fdatasync(", ""), 0);
    assert!(count(&calls, "write(", "d/whole") == 1);
}

#[test]
#[ignore = "needs root, to mount"]
fn a_barrier_says_how_far_it_reached() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let on = temp.path().join("a disk");
        ext4(temp.path(), &on, &[]);
        assert_eq!(reach(at(Durability::None, &on.join("none"))), DurabilityScope::PageCache);
        assert_eq!(reach(at(Durability::File, &on.join("file"))), DurabilityScope::Named);
        assert_eq!(reach(at(Durability::Batch, &on.join("batch"))), DurabilityScope::Everything);
        tmpfs(&on.join("batch/old mount"), "size=1m");
        assert_eq!(
            reach(at(Durability::Batch, &on.join("batch"))),
            DurabilityScope::Named,
            "earlier runs may have written there"
        );
        assert_eq!(reach(at(Durability::Batch, &on.join("bat"))), DurabilityScope::Everything, "not below this one");
        let mut run = at(Durability::Batch, &on.join("batch"));
        run.put("old mount/x", b"x").unwrap();
        assert_eq!(reach(run), DurabilityScope::PageCache);
        unmount(&on);
    });
}

#[test]
#[ignore = "needs root, to mount"]
fn syncfs_is_believed_only_where_it_is_known_to_tell_the_truth() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let base = temp.path().join("mounts");
        tmpfs(&base, "size=8m");
        for directory in ["lower", "upper", "work", "merged"] {
            std::fs::create_dir(base.join(directory)).unwrap();
        }
        let memory = at(Durability::Batch, &base.join("memory"));
        assert_eq!(memory.started.durability, "batch: nothing to sync on tmpfs");
        assert_eq!(reach(memory), DurabilityScope::PageCache, "a reboot takes it away");
        let place = |name: &str| base.join(name).to_str().unwrap().to_owned();
        let data = format!("lowerdir={},upperdir={},workdir={}", place("lower"), place("upper"), place("work"));
        assert!(mount("overlay", &place("merged"), "overlay", 0, &data), "{}", std::io::Error::last_os_error());
        let mut overlay = at(Durability::Batch, &base.join("merged/out"));
        assert_eq!(overlay.started.durability, "file: each file and its directory synced");
        let note = overlay.started.notes.iter().find(|note| note.contains("overlayfs"));
        assert!(note.is_some_and(|note| note.contains("durability is \"file\"")), "{:?}", overlay.started.notes);
        overlay.put("d/x", b"x").unwrap();
        overlay.stream("d/y", b"y").unwrap();
        assert_eq!(reach(overlay), DurabilityScope::Named);
    });
}

/// Cuts the power of an ext4: what is not on its device now is gone.
fn cut_power(on: &Path) {
    const SHUTDOWN: libc::c_ulong = 0x8004_587d; // EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
    const WITHOUT_FLUSHING_THE_LOG: u32 = 2;
    let directory = std::fs::File::open(on).unwrap();
    // SAFETY: the call reads one u32 through the pointer, which outlives it.
    let done = unsafe { libc::ioctl(directory.as_raw_fd(), SHUTDOWN, &WITHOUT_FLUSHING_THE_LOG) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn remount(base: &Path, on: &Path) {
    unmount(on);
    mount_loop(&base.join("image"), on, "loop");
}

#[test]
#[ignore = "needs root, to mount"]
fn what_a_barrier_named_survives_a_power_cut() {
    for durability in [Durability::Batch, Durability::File] {
        let temp = temp_dir();
        in_private_mounts(|| {
            let on = temp.path().join("disk");
            ext4(temp.path(), &on, &[]);
            let out = on.join("deep/out");
            let mut run = at(durability, &out);
            for at in 0..200 {
                run.put(&format!("{}/{at}", at % 10), format!("bytes of {at}").as_bytes()).unwrap();
            }
            run.stream("large", &[7; 300_000]).unwrap();
            assert_eq!(run.commit().unwrap(), [0]);
            for at in 200..400 {
                run.put(&format!("{}/{at}", at % 10), format!("bytes of {at}").as_bytes()).unwrap();
            }
            cut_power(&on);
            assert!(run.put("after", b"x").is_err());
            drop(run);
            remount(temp.path(), &on);
            let found = files(&out);
            for at in 0..200 {
                let (name, bytes) = (format!("{}/{at}", at % 10), format!("bytes of {at}"));
                assert_eq!(
                    found.get(name.as_bytes()).map(Vec::as_slice),
                    Some(bytes.as_bytes()),
                    "{durability:?} {name}"
                );
            }
            assert_eq!(found[&b"large"[..]], [7; 300_000]);
            let whole = (200..400)
                .filter(|at| found.get(format!("{}/{at}", at % 10).as_bytes()).is_some_and(|bytes| !bytes.is_empty()));
            // The test would prove nothing if everything survived (files synced one by one do).
            assert!(durability == Durability::File || whole.count() < 200, "the cut lost nothing");
            unmount(&on);
        });
    }
}

#[test]
#[ignore = "needs root, to mount"]
fn a_mount_below_the_destination_has_its_own_barrier_and_its_own_temporary_files() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let out = temp.path().join("out");
        let on = out.join("mounted");
        std::fs::create_dir_all(&out).unwrap();
        ext4(temp.path(), &on, &[]);
        std::fs::create_dir(on.join("d")).unwrap();
        std::fs::write(on.join("d/old"), b"mine").unwrap();
        let always = options(Durability::Batch, Overwrite::Always);
        let mut run = Run::with(&out, always, &[], Mode::First).unwrap();
        run.put("here", b"1").unwrap();
        run.put("mounted/d/whole", b"2").unwrap();
        run.put("mounted/d/old", b"3").unwrap();
        let mut object = run.begin("mounted/d/pieces").unwrap();
        object.write(b"4").unwrap();
        assert_eq!(std::fs::read_dir(on.join("d")).unwrap().count(), 2, "no name before its end");
        assert_eq!(temporary(&out), 0, "not in the other mount");
        object.finish().unwrap();
        drop(run.begin("mounted/d/broken").unwrap());
        run.commit().unwrap();
        cut_power(&on);
        let error = run.put("mounted/d/late", b"5").unwrap_err();
        assert_eq!(error.kind(), Kind::DestinationFailed, "{error}");
        drop(run);
        remount(temp.path(), &on);
        let found = files(&on);
        for (name, bytes) in [("d/whole", b"2"), ("d/old", b"3"), ("d/pieces", b"4")] {
            assert_eq!(found.get(name.as_bytes()).map(Vec::as_slice), Some(&bytes[..]), "{name}");
        }
        assert_eq!(found.len(), 3, "{:?}", names(&on));
        unmount(&on);
    });
}

#[test]
#[ignore = "needs root, to mount"]
fn a_barrier_that_fails_names_nothing_durable() {
    for durability in [Durability::Batch, Durability::File] {
        let temp = temp_dir();
        in_private_mounts(|| {
            let on = temp.path().join("disk");
            ext4(temp.path(), &on, &[]);
            let mut run = at(durability, &on.join("out"));
            run.put("d/x", &[1; 100_000]).unwrap();
            cut_power(&on);
            let error = run.commit().unwrap_err();
            assert_eq!(error.kind(), Kind::DestinationFailed, "{error}");
            assert!(error.why().contains("cannot make durable"), "{error}");
            drop(run);
            unmount(&on);
        });
    }
}

#[test]
#[ignore = "needs root, to mount, and strace"]
fn where_birth_times_are_missing_no_file_has_its_name_before_it_is_whole() {
    const TEST: &str = "where_birth_times_are_missing_no_file_has_its_name_before_it_is_whole";
    if let Some(path) = as_child() {
        let mut run = at(Durability::Batch, &path);
        run.put("d/whole", b"bytes").unwrap();
        run.stream("d/pieces", b"bytes").unwrap();
        run.commit().unwrap();
        return;
    }
    let temp = temp_dir();
    in_private_mounts(|| {
        let (memory, old) = (temp.path().join("memory"), temp.path().join("old"));
        std::fs::create_dir(&memory).unwrap();
        assert!(mount("ramfs", memory.to_str().unwrap(), "ramfs", 0, ""));
        // Inodes of 128 bytes have room for neither births nor parts of a second.
        ext4(temp.path(), &old, &["-I", "128"]);
        for on in [memory, old] {
            let out = on.join("out");
            let calls = traced(TEST, &out);
            for name in ["whole", "pieces"] {
                let opened = format!("\"{name}\"");
                assert_eq!(count(&calls, "openat2(", &opened), 0, "{}", calls.join("\n"));
                assert_eq!(count(&calls, "renameat2(", &opened), 1, "{}", calls.join("\n"));
                let renamed = &calls[first(&calls, "renameat2(", &opened)];
                assert!(renamed.contains("RENAME_NOREPLACE"), "{renamed}");
                assert!(first(&calls, "close(", ".tmp>") < first(&calls, "renameat2(", &opened), "whole before");
            }
            assert!(files(&out).values().all(|bytes| bytes == b"bytes") && names(&out).len() == 2);
            std::fs::remove_file(out.with_extension("strace")).unwrap();
            unmount(&on);
        }
    });
}

#[test]
#[ignore = "needs root, to mount, and strace"]
fn without_births_and_without_a_rename_to_free_names_links_do_and_without_those_it_is_said() {
    const TEST: &str = "without_births_and_without_a_rename_to_free_names_links_do_and_without_those_it_is_said";
    if let Some(path) = as_child() {
        let mut run = at(Durability::Batch, &path);
        run.put("whole", b"bytes").unwrap();
        run.stream("pieces", b"bytes").unwrap();
        for name in ["whole", "pieces"] {
            assert_eq!(run.put(name, b"other").unwrap_err().kind(), Kind::Exists);
        }
        assert_eq!(temporary(&path), 0);
        println!("TOLD {}", run.started.notes.iter().any(|note| note.contains("a kill can leave an empty file")));
        return;
    }
    let temp = temp_dir();
    in_private_mounts(|| {
        let on = temp.path().join("memory");
        std::fs::create_dir(&on).unwrap();
        assert!(mount("ramfs", on.to_str().unwrap(), "ramfs", 0, ""));
        let flag = ["-e", "inject=renameat2:error=EINVAL"];
        let links = ["-e", "inject=linkat:error=EPERM"];
        for (out, injected, said) in [("links", &flag[..], "false"), ("neither", &[flag, links].concat(), "true")] {
            let (out, log) = (on.join(out), temp.path().join("log"));
            let tracer = [&["strace", "-f", "-qq", "-o", log.to_str().unwrap()], injected].concat();
            assert_eq!(told(&child(TEST, &out, &tracer)), [said]);
            assert!(std::fs::read_to_string(&log).unwrap().contains("INJECTED"));
            assert!(files(&out).values().all(|bytes| bytes == b"bytes") && names(&out).len() == 2);
        }
        unmount(&on);
    });
}
