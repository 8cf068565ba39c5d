//! One file that appears whole or not at all.

mod support;

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use shoal_engine::fs::publish::{Failed, Unpublished, publish};
use shoal_engine::{Error, Kind};
use support::*;

fn fill(bytes: &'static [u8]) -> impl FnOnce(&mut Unpublished) -> std::io::Result<usize> {
    move |file| file.write_all(bytes).map(|()| bytes.len())
}

/// Every name in a directory, hidden ones as well.
fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn refused<T: std::fmt::Debug>(result: Result<T, Failed<std::io::Error>>) -> Error {
    match result.unwrap_err() {
        Failed::File(error) => error,
        Failed::Filling(error) => panic!("an error of the filling: {error}"),
    }
}

#[test]
fn a_file_appears_when_it_is_whole_and_can_be_gone_back_in() {
    let temp = temp_dir();
    let path = temp.path().join("new");
    for durable in [false, true] {
        let length = publish(&path, durable, |file| {
            file.write_all(b"0123456789")?;
            assert!(durable || !path.exists());
            file.seek(SeekFrom::Start(2))?;
            file.write_all(b"xx")?;
            file.seek(SeekFrom::End(0))
        });
        assert_eq!(length.unwrap(), 10);
        assert_eq!(std::fs::read(&path).unwrap(), b"01xx456789");
    }
    assert_eq!(entries(temp.path()), ["new"]);
}

#[test]
fn what_was_there_stays_until_the_new_one_is_whole_and_gives_it_its_permissions() {
    let temp = temp_dir();
    let path = temp.path().join("there");
    std::fs::write(&path, b"old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let failed = publish(&path, true, |file| {
        file.write_all(b"half").unwrap();
        Err::<(), _>("given up")
    });
    assert!(matches!(failed, Err(Failed::Filling("given up"))));
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(entries(temp.path()), ["there"]);
    publish(&path, false, fill(b"new")).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(entries(temp.path()), ["there"]);
}

#[test]
fn a_panic_while_it_is_filled_leaves_nothing() {
    let temp = temp_dir();
    let path = temp.path().join("new");
    let panicked = std::panic::catch_unwind(|| {
        publish(&path, false, |file| -> Result<(), ()> {
            file.write_all(b"half").unwrap();
            panic!("on purpose")
        })
    });
    assert!(panicked.is_err());
    assert!(entries(temp.path()).is_empty());
}

#[test]
fn a_link_to_a_file_is_followed_and_any_other_refused() {
    let temp = temp_dir();
    let (file, link, lost) = (temp.path().join("file"), temp.path().join("link"), temp.path().join("lost"));
    std::fs::write(&file, b"old").unwrap();
    symlink(&file, &link).unwrap();
    publish(&link, false, fill(b"new")).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
    assert!(link.is_symlink());
    symlink(temp.path().join("nowhere"), &lost).unwrap();
    assert!(refused(publish(&lost, false, fill(b"x"))).why().contains("a dangling symbolic link"));
    assert_eq!(entries(temp.path()), ["file", "link", "lost"]);
}

#[test]
fn a_path_that_no_file_can_have_is_refused_before_anything_is_made() {
    let temp = temp_dir();
    let file = temp.path().join("file");
    std::fs::write(&file, b"old").unwrap();
    for (path, why) in [
        (temp.path().join("missing/x"), "its directory does not exist"),
        (temp.path().to_owned(), "a directory has this name"),
        (file.join("x"), "its parent is a file, not a directory"),
        ("/dev/null".into(), "not a regular file"),
        ("/".into(), "does not end in a file name"),
    ] {
        let error = refused(publish(&path, false, |_| -> std::io::Result<()> { panic!("nothing is to be filled") }));
        assert_eq!(error.kind(), Kind::Config, "{error}");
        assert!(error.why().contains(why), "{error}");
        assert!(error.why().contains(path.to_str().unwrap()), "{error}");
    }
    assert_eq!(entries(temp.path()), ["file"]);
}

#[test]
fn two_at_once_each_put_a_whole_file_in_place() {
    let temp = temp_dir();
    let path = temp.path().join("both");
    std::thread::scope(|scope| {
        for letter in [b'a', b'b'] {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..20 {
                    let written =
                        publish(path, false, |file| (0..50).try_for_each(|_| file.write_all(&[letter; 1000])));
                    written.unwrap();
                    let found = std::fs::read(path).unwrap();
                    assert!(found.len() == 50_000 && found.iter().all(|byte| *byte == found[0]));
                }
            });
        }
    });
    assert_eq!(entries(temp.path()), ["both"]);
}

#[test]
#[ignore = "needs root, to mount"]
fn a_full_medium_is_told_with_the_path_and_nothing_is_left() {
    let temp = temp_dir();
    in_private_mounts(|| {
        let out = temp.path().join("out");
        tmpfs(&out, "size=1m");
        let path = out.join("large");
        std::fs::write(&path, b"old").unwrap();
        // Whatever an encoder makes of it, the file's own error comes out.
        let result = publish(&path, false, |file| (0..64).try_for_each(|_| file.write_all(&[1; 64 << 10])));
        let error = refused(result);
        assert_eq!(error.kind(), Kind::DestinationFull, "{error}");
        assert!(error.why().contains("no space left") && error.why().contains(path.to_str().unwrap()), "{error}");
        assert!(!error.advice().unwrap().contains("continues"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(entries(&out), ["large"]);
    });
}

#[test]
fn a_file_beyond_the_size_limit_is_told_with_the_path() {
    if let Some(path) = as_child() {
        let limit = libc::rlimit { rlim_cur: 10_000, rlim_max: 10_000 };
        // SAFETY: reads one structure; this process runs one test.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        let error = refused(publish(&path.join("x"), true, |file| file.write_all(&[1; 20_000])));
        println!("TOLD {:?} {}", error.kind(), error.why());
        return;
    }
    let temp = temp_dir();
    let told = told(&child("a_file_beyond_the_size_limit_is_told_with_the_path", temp.path(), &[]));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("TooLarge cannot write \""), "{told:?}");
    assert!(entries(temp.path()).is_empty());
}
