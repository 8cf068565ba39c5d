//! The packing example as a process of its own: killed at random moments, and on a disk that fills up.

#[path = "../examples/own_sink.rs"]
mod own_sink;
#[path = "support/packs.rs"]
mod packs;
mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use packs::{Objects, unpacked};
use support::{as_child, child, in_private_mounts, temp_dir, tmpfs, told};

const OBJECTS: usize = 5000;
/// Objects of a pack: few, so that a run has many commits.
const PACK: u64 = 100;

/// Makes the files that are packed.
fn files(directory: &Path) -> Objects {
    let objects: Objects = (0..OBJECTS)
        .map(|n| (format!("{}/o-{n:04}", n % 7).into_bytes(), format!("{n} ").repeat(n % 200).into_bytes()))
        .collect();
    for (name, bytes) in &objects {
        let path = directory.join(str::from_utf8(name).unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    objects
}

/// In the child: packs `from` into `out`, both below `base`, and says how that ended.
fn pack(base: &Path) {
    let outcome = own_sink::copy(base.join("from").to_str().unwrap(), &base.join("out"), PACK).unwrap();
    let errno = outcome.error.as_ref().map(|error| error.os_error());
    println!("TOLD {errno:?} of {} before {}", outcome.report.total.written, outcome.report.resumed_from);
}

/// Starts a child that runs the test `name` of this file.
fn start(name: &str, base: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name]).env("SHOAL_TEST_CHILD", base).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_killed_process_loses_nothing_and_packs_nothing_twice() {
    const TEST: &str = "a_killed_process_loses_nothing_and_packs_nothing_twice";
    if let Some(base) = as_child() {
        return pack(&base);
    }
    let base = temp_dir();
    let (out, objects) = (base.path().join("out"), files(&base.path().join("from")));
    let (mut kills, mut most) = (0, Duration::from_millis(200));
    while kills < 10 {
        let mut child = start(TEST, base.path());
        std::thread::sleep(most.mul_f64(0.1 + 0.9 * fastrand::f64()));
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            // It was faster than the kill: once more from the beginning, with less time.
            assert!(unpacked(&out) == objects);
            std::fs::remove_dir_all(&out).unwrap();
            most /= 2;
            continue;
        }
        kills += 1;
        if out.exists() {
            unpacked(&out); // what has its final name is whole
        }
    }
    assert!(start(TEST, base.path()).wait().unwrap().success());
    assert!(unpacked(&out) == objects);
    assert_eq!(std::fs::read_dir(out.join(".shoal/tmp")).unwrap().count(), 0);
}

#[test]
#[ignore = "needs root, to mount"]
fn a_disk_that_fills_up_stops_the_run_and_the_same_command_continues() {
    const TEST: &str = "a_disk_that_fills_up_stops_the_run_and_the_same_command_continues";
    if let Some(base) = as_child() {
        return pack(&base);
    }
    let base = temp_dir();
    let objects = files(&base.path().join("from"));
    in_private_mounts(|| {
        let out = base.path().join("out");
        tmpfs(&out, "size=8m");
        std::fs::write(out.join("other"), vec![1; 6 << 20]).unwrap();
        let told = || told(&child(TEST, base.path(), &[])).remove(0);
        let full = told();
        assert!(full.starts_with("Some(Some(28)) of ") && full.ends_with(" before 0"), "{full}");
        let packed = unpacked(&out).len();
        assert!((100..4900).contains(&packed), "{packed} objects had room");
        // It is still full. What the last session left unfinished is gone, so a smaller pack may have room.
        let full = told();
        assert!(full.starts_with("Some(Some(28)) of ") && full.ends_with(&format!(" before {packed}")), "{full}");
        let packed = unpacked(&out).len();
        std::fs::remove_file(out.join("other")).unwrap();
        assert_eq!(told(), format!("None of {OBJECTS} before {packed}"));
        assert!(unpacked(&out) == objects);
    });
}
