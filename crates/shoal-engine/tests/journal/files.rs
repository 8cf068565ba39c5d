//! Where a journal is, who may read it, who may write it, and what a full disk does to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shoal_engine::journal::{Commit, Durable, Journal, Location, OpenOptions, status};
use shoal_engine::{Error, Kind};

use crate::support::eventually;
use crate::{commit, done, failed, fast_dir, fold, open, open_with, refused, run_key};

/// What tells the test binary that it was started as the other process, and where.
const CHILD: &str = "SHOAL_JOURNAL_TEST_CHILD";

fn open_file(path: &Path) -> Result<(Journal, shoal_engine::journal::Standing), Error> {
    Journal::open(&Location::File(path.to_owned()), &run_key(), &OpenOptions::default())
}

#[test]
fn a_journal_is_its_owners_alone_and_the_ballast_takes_real_room() {
    let dir = fast_dir();
    let destination = dir.path().join("made/on the way");
    let (mut journal, _) = open(&destination);
    journal.mark(1).unwrap();
    let shoal = destination.join(".shoal");
    assert_eq!(shoal.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for name in ["journal.db", "journal.db-wal", "journal.db-shm", "lock", "ballast"] {
        assert_eq!(shoal.join(name).metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    let ballast = shoal.join("ballast").metadata().unwrap();
    assert!(ballast.len() == 1 << 20 && ballast.blocks() * 512 >= 1 << 20);
}

#[test]
fn a_shoal_directory_open_to_others_is_closed() {
    let dir = fast_dir();
    drop(open(dir.path()));
    let shoal = dir.path().join(".shoal");
    std::fs::set_permissions(&shoal, PermissionsExt::from_mode(0o755)).unwrap();
    drop(open(dir.path()));
    assert_eq!(shoal.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_journal_file_has_its_lock_beside_it() {
    let dir = fast_dir();
    let path = dir.path().join("odd?name#%20\u{e9}.db");
    let (mut journal, _) = open_file(&path).unwrap();
    journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    assert_eq!(refused(open_file(&path)).kind(), Kind::JournalLocked);
    let mut lock = path.clone().into_os_string();
    lock.push(".lock");
    assert_eq!(PathBuf::from(lock).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    drop(journal);
    assert_eq!(open_file(&path).unwrap().1.totals.listed, 10);
    assert_eq!(status(&path).unwrap().runs[0].totals.listed, 10);
    assert!(!dir.path().join(".shoal").exists());
}

#[test]
fn the_destinations_own_path_may_be_a_link() {
    let dir = fast_dir();
    std::fs::create_dir(dir.path().join("real")).unwrap();
    symlink("real", dir.path().join("link")).unwrap();
    drop(open(&dir.path().join("link")));
    assert!(dir.path().join("real/.shoal/journal.db").is_file());
    let (_held, _) = open(&dir.path().join("real"));
    assert_eq!(refused(open_with(&dir.path().join("link"), &OpenOptions::default())).kind(), Kind::JournalLocked);
}

/// Puts something in the way.
type Plant = fn(&Path);

#[test]
fn nothing_below_the_destination_may_be_a_link_or_a_strange_file() {
    let plants: [(&str, Plant); 9] = [
        ("a symbolic link", |root| symlink(root.join("victim"), root.join("out/.shoal")).unwrap()),
        ("not a directory", |root| std::fs::write(root.join("out/.shoal"), "").unwrap()),
        ("a symbolic link", |root| inside(root, |shoal| symlink(root.join("file"), shoal.join("journal.db")).unwrap())),
        ("not a regular file", |root| inside(root, |shoal| std::fs::create_dir(shoal.join("journal.db")).unwrap())),
        ("a symbolic link", |root| inside(root, |shoal| symlink(root.join("file"), shoal.join("lock")).unwrap())),
        ("not a regular file", |root| inside(root, |shoal| std::fs::create_dir(shoal.join("lock")).unwrap())),
        ("not a regular file", |root| inside(root, |shoal| fifo(&shoal.join("lock")))),
        ("not a regular file", |root| inside(root, |shoal| fifo(&shoal.join("journal.db")))),
        ("unable to open", |root| {
            drop(open(&root.join("out")));
            symlink(root.join("file"), root.join("out/.shoal/journal.db-wal")).unwrap();
        }),
    ];
    for (words, plant) in plants {
        let dir = fast_dir();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        std::fs::create_dir(dir.path().join("victim")).unwrap();
        std::fs::write(dir.path().join("file"), "precious").unwrap();
        plant(dir.path());
        let error = refused(open_with(&dir.path().join("out"), &OpenOptions::default()));
        assert_eq!(error.kind(), Kind::Journal, "{error}");
        assert!(error.line().contains(words) && error.line().contains(".shoal"), "{error}");
        assert!(error.advice().is_some(), "{error}");
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"precious");
        assert_eq!(std::fs::read_dir(dir.path().join("victim")).unwrap().count(), 0);
    }
}

fn inside(root: &Path, plant: impl FnOnce(&Path)) {
    std::fs::create_dir(root.join("out/.shoal")).unwrap();
    plant(&root.join("out/.shoal"));
}

fn fifo(path: &Path) {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends with NUL, and nothing else.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn two_runs_in_one_process_exclude_each_other_too() {
    let dir = fast_dir();
    let (first, _) = open(dir.path());
    let error = refused(open_with(dir.path(), &OpenOptions::default()));
    assert_eq!(error.kind(), Kind::JournalLocked);
    assert!(error.line().contains(&format!("pid {}", std::process::id())), "{error}");
    drop(first);
    open(dir.path());
}

#[test]
#[ignore = "started by a_killed_process_leaves_its_commits_but_no_lock"]
fn other_process() {
    let (mut journal, _) = open(Path::new(&std::env::var_os(CHILD).unwrap()));
    journal.mark(5).unwrap();
    journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    writeln!(std::io::stderr(), "ready").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_killed_process_leaves_its_commits_but_no_lock() {
    let dir = fast_dir();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "files::other_process", "--nocapture"])
        .env(CHILD, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));

    let error = refused(open_with(dir.path(), &OpenOptions::default()));
    assert_eq!(error.kind(), Kind::JournalLocked);
    assert!(error.line().contains(&format!("pid {} on host", child.id())), "{error}");
    assert_eq!(status(dir.path()).unwrap().owner.unwrap().pid, child.id());

    child.kill().unwrap();
    child.wait().unwrap();
    let (_journal, resume) = open(dir.path());
    assert_eq!((resume.mark, resume.totals.written), (5, 10));
}

#[test]
fn a_forked_child_neither_keeps_nor_drops_its_parents_lock() {
    let dir = fast_dir();
    let (journal, _) = open(dir.path());
    // SAFETY: the child only sleeps and is killed, so nothing in it runs that another thread could have left half-done.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    drop(journal);
    let reopened = open_with(dir.path(), &OpenOptions::default());
    // SAFETY: our own child, by its id.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert!(reopened.is_ok(), "the child's copy of the lock does not count");
}

/// A small file system in memory, gone with this value.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(options: &str) -> Mount {
        let mount = Mount(tempfile::tempdir().unwrap());
        assert!(mount.call(0, options), "needs root, to mount: {}", std::io::Error::last_os_error());
        mount
    }

    fn call(&self, flags: libc::c_ulong, options: &str) -> bool {
        let path = std::ffi::CString::new(self.0.path().as_os_str().as_bytes()).unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        // SAFETY: four strings that end with NUL and outlive the call.
        let answer = unsafe {
            libc::mount(c"shoal-test".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), flags, options.as_ptr().cast())
        };
        answer == 0
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let path = std::ffi::CString::new(self.0.path().as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends with NUL. Where nothing is mounted, nothing happens.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Takes all the room there is.
fn fill(path: &Path) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    for size in [64 << 10, 4 << 10, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

#[test]
#[ignore = "needs root, to mount"]
fn on_a_full_disk_the_ballast_lets_the_last_commit_through() {
    let mount = Mount::new("size=4m");
    let root = mount.0.path();
    let (mut journal, _) = open(root);
    let many = |seq, failures: usize| {
        let mut partition = done(seq, vec![]);
        partition.failures = (0..failures).map(|n| failed(&format!("{seq}/{n:0100}"), None)).collect();
        partition.listed = partition.written + failures as u64;
        partition
    };
    journal.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    fill(&root.join("filler"));
    journal.commit(&commit(vec![many(1, 500)]), Durable::All).unwrap();
    assert!(!root.join(".shoal/ballast").exists(), "this commit needed the room");

    fill(&root.join("filler"));
    let error = journal.commit(&commit(vec![many(2, 4_000)]), Durable::All).unwrap_err();
    assert_eq!((error.kind(), error.os_error()), (Kind::DestinationFull, Some(libc::ENOSPC)), "{error}");
    assert!(error.line().contains("journal.db"), "{error}");
    assert_eq!(journal.totals().listed, 520);
    drop(journal);

    let (mut journal, resume) = open(root);
    assert_eq!((resume.totals.listed, resume.totals.failed), (520, 500), "a full disk can still be looked at");
    assert!(resume.notes[0].contains("full"), "{:?}", resume.notes);
    std::fs::remove_file(root.join("filler")).unwrap();
    journal.commit(&commit(vec![many(2, 1_000)]), Durable::All).unwrap();
    drop(journal);
    let (_journal, resume) = open(root);
    assert_eq!(resume.totals.failed, 1_500);
    assert!(root.join(".shoal/ballast").exists(), "there again");
}

#[test]
#[ignore = "needs root, to mount"]
fn a_read_only_disk_can_be_looked_at_but_not_resumed() {
    let mount = Mount::new("size=8m");
    let root = mount.0.path();
    let (mut journal, _) = open(root);
    journal
        .commit(
            &Commit { done: vec![done(0, vec![failed("a", None)])], fold: fold(1), ..Commit::default() },
            Durable::All,
        )
        .unwrap();
    drop(journal);
    let read_only = eventually(|| mount.call(libc::MS_REMOUNT | libc::MS_RDONLY, ""));
    assert!(read_only, "{}", std::io::Error::last_os_error());
    let error = refused(open_with(root, &OpenOptions::default()));
    assert_eq!(error.kind(), Kind::DestinationReadOnly, "{error}");
    assert_eq!(status(root).unwrap().runs[0].totals.failed, 1);
}

#[test]
fn a_destination_moved_away_leaves_the_journal_of_its_successor_whole() {
    let root = fast_dir();
    let (here, away) = (root.path().join("out"), root.path().join("old"));
    let (mut first, _) = open(&here);
    first.commit(&commit(vec![done(0, vec![])]), Durable::All).unwrap();
    std::fs::rename(&here, &away).unwrap();
    let (mut second, _) = open(&here);
    second.commit(&commit(vec![done(0, vec![]), done(1, vec![])]), Durable::All).unwrap();
    let log = here.join(".shoal/journal.db-wal");
    assert!(log.exists(), "this is about the write-ahead log");
    drop(first);
    assert!(log.exists(), "the log of the second is not the first one's to remove");
    std::mem::forget(second); // killed: all there is of it is in its files
    for (root, listed) in [(&here, 2), (&away, 1)] {
        let totals = status(root).unwrap().runs[0].totals;
        assert_eq!(totals.listed, listed * done(0, vec![]).listed, "{}", root.display());
    }
}
