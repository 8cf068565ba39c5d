//! What GNU tar packs, in each of its formats; skipped where it is not installed.

use std::path::Path;
use std::process::Command;

use shoal_engine::source::archive::ArchiveOptions;

use crate::{Objects, failures, objects, support, unpack_file};

/// A tree as GNU tar can pack it; what of it is to arrive.
fn tree(root: &Path, long_names: bool) -> Objects {
    let mut expected = Objects::new();
    let mut put = |name: String, data: &[u8]| {
        let path = root.join(&name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
        expected.insert(name.into_bytes(), data.to_vec());
    };
    for size in [0, 1, 511, 512, 513, 70_000] {
        put(format!("sizes/{size}"), &vec![b'x'; size]);
    }
    put("umlaut \u{e4} and space".into(), b"1");
    if long_names {
        put(format!("{}/{}/{}", "a".repeat(90), "b".repeat(120), "c".repeat(200)), b"2");
    }
    for (link, target) in [("a hard link", "sizes/513"), ("sizes/z", "sizes/70000")] {
        std::fs::hard_link(root.join(target), root.join(link)).unwrap();
        let data = expected[target.as_bytes()].clone();
        expected.insert(link.as_bytes().to_vec(), data);
    }
    std::fs::create_dir(root.join("empty")).unwrap();
    std::os::unix::fs::symlink("sizes/1", root.join("link")).unwrap();
    expected
}

#[test]
fn what_gnu_tar_packs_arrives() {
    if !support::has("tar", "--version") {
        return;
    }
    for format in ["v7", "ustar", "oldgnu", "gnu", "pax"] {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let expected = tree(&root, !["v7", "ustar"].contains(&format));
        for (option, ending) in
            [("", "tar"), ("-z", "tar.gz"), ("-j", "tar.bz2"), ("-J", "tar.xz"), ("--zstd", "tar.zst")]
        {
            let path = temp.path().join(format!("x.{ending}"));
            let mut command = Command::new("tar");
            command.arg("-C").arg(&root).args(["--format", format, "-cf"]).arg(&path);
            command.args(Some(option).filter(|option| !option.is_empty())).arg(".");
            let output = command.output().unwrap();
            if !output.status.success() {
                // The packers are programs of their own, which may be missing.
                eprintln!("skipped: tar {option}: {}", String::from_utf8_lossy(&output.stderr));
                continue;
            }
            let (outcome, found) = unpack_file(&path, ArchiveOptions::default());
            assert_eq!(failures(&outcome), [], "{format} {option}");
            assert!(found == expected, "{format} {option}: {:?}", found.keys());
        }
    }
}

#[test]
fn what_gnu_tar_makes_of_holes_hard_links_and_attributes_is_told_apart() {
    if !support::has("tar", "--version") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a"), b"1").unwrap();
    std::fs::hard_link(root.join("a"), root.join("b")).unwrap();
    let holes = std::fs::File::create(root.join("holes")).unwrap();
    std::os::unix::fs::FileExt::write_at(&holes, b"end", 8 << 20).unwrap();
    std::fs::write(root.join("z"), b"2").unwrap();
    for (format, options) in [
        ("gnu", &[][..]),
        ("pax", &["--sparse-version=0.0"]),
        ("pax", &["--sparse-version=0.1"]),
        ("pax", &["--sparse-version=1.0", "--xattrs"]),
    ] {
        let path = temp.path().join("x.tar");
        let mut command = Command::new("tar");
        command.arg("-C").arg(&root).args(["--format", format, "--sort=name", "-S"]).args(options);
        let output = command.arg("-cf").arg(&path).arg(".").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (outcome, found) = unpack_file(&path, ArchiveOptions::default());
        assert_eq!(found, objects([("a", b"1"), ("b", b"1"), ("z", b"2")]), "{format} {options:?}");
        let names: Vec<String> = failures(&outcome).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["holes"], "{format} {options:?}");
    }
}
