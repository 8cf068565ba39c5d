//! What several test files need: a run over a directory in a few lines, private mounts, a process of one's own.

#![allow(dead_code)] // each file uses its part

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use shoal_engine::options::{Durability, Overwrite};
use shoal_engine::session::Interval;
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::sink::{Flush, Mode, ObjectWriter, PartitionWriter, Put, Sealed, Sink, Start, Started, Writer};
use shoal_engine::{Cursor, Key, Name, ObjectKey, ObjectMeta, Partition, Payload, Result};

/// A run over a directory, with one writer and one open partition. Dropped, it has ended in order.
pub struct Run {
    pub sink: DirSink,
    pub started: Started,
    pub writer: Box<dyn PartitionWriter>,
    lane: Box<dyn Writer>,
    seq: u64,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.sink.finish();
    }
}

impl Run {
    pub fn new(path: &Path) -> Run {
        Run::with(path, DirOptions::default(), &[], Mode::First).unwrap()
    }

    /// A session of a run that has had these earlier ones.
    pub fn with(path: &Path, options: DirOptions, earlier: &[Interval], mode: Mode) -> Result<Run> {
        Run::started(path, options, &Start { sessions: earlier.to_vec(), ..Start::default() }, mode)
    }

    pub fn started(path: &Path, options: DirOptions, start: &Start, mode: Mode) -> Result<Run> {
        Run::into(DirSink::new(path, options)?, start, mode)
    }

    pub fn into(sink: DirSink, start: &Start, mode: Mode) -> Result<Run> {
        let started = sink.start(start, &())?;
        let mut lane = sink.writer(0, Arc::new(|| {}))?;
        let writer = lane.open(&partition(0), mode, Box::new(|_| None))?;
        Ok(Run { sink, started, writer, lane, seq: 0 })
    }

    /// Ends the session, and says what the journal knows of it.
    pub fn cut_off(self) -> Interval {
        let (low, seen) = (self.started.began.unwrap(), self.sink.clock().unwrap().unwrap());
        Interval {
            low,
            seen,
            high: seen,
            barrier: None,
            same_boot: true,
            sound: true,
            failed: false,
            volatile: true,
            superseded: false,
            same_root: true,
            whole: true,
        }
    }

    pub fn put(&mut self, name: &str, bytes: &[u8]) -> Result<Put> {
        let meta = ObjectMeta { size: Some(bytes.len() as u64), ..ObjectMeta::default() };
        self.writer.put(0, &key(name), &meta, &mut Payload::Borrowed(bytes))
    }

    pub fn begin(&mut self, name: &str) -> Result<Box<dyn ObjectWriter>> {
        let name = key(name);
        Ok(self.writer.begin(0, &name, &ObjectMeta::default())?.expect("a directory has room"))
    }

    /// Writes an object in pieces.
    pub fn stream(&mut self, name: &str, bytes: &[u8]) -> Result<Put> {
        let mut object = self.begin(name)?;
        for piece in bytes.chunks(100_000) {
            object.write(piece)?;
        }
        object.finish()
    }

    /// Seals the open partition and opens the next.
    pub fn seal(&mut self) -> Sealed {
        self.reopen(self.seq + 1).seal().unwrap()
    }

    /// Opens another partition; the writer of the one before.
    pub fn reopen(&mut self, seq: u64) -> Box<dyn PartitionWriter> {
        self.seq = seq;
        let opened = self.lane.open(&partition(seq), Mode::First, Box::new(|_| None)).unwrap();
        std::mem::replace(&mut self.writer, opened)
    }

    /// Seals and syncs.
    pub fn commit(&mut self) -> Result<Vec<u64>> {
        let sealed = self.seal();
        Ok(self.sink.flush(vec![sealed], Flush::Due)?.durable)
    }
}

/// A name, as a key.
pub fn key(name: &str) -> ObjectKey {
    Name::parse(name.as_bytes()).unwrap().into()
}

/// A session in which every file that is there may have been written.
pub const EVER: Interval = Interval {
    low: 0,
    seen: 0,
    high: i64::MAX,
    barrier: None,
    same_boot: true,
    sound: true,
    failed: false,
    volatile: true,
    superseded: false,
    same_root: true,
    whole: true,
};

pub fn options(durability: Durability, overwrite: Overwrite) -> DirOptions {
    DirOptions { durability, overwrite, ..DirOptions::default() }
}

pub fn partition(seq: u64) -> Partition {
    Partition { seq, key: Key::default(), after: Cursor::default(), next: None, payload: Arc::from([]), len: None }
}

/// Every file below `path` but shoal's own, with its bytes; a link counts as a file that holds its target.
pub fn files(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let name = entry.path().strip_prefix(path).unwrap().as_os_str().as_bytes().to_vec();
            if name == b".shoal" {
            } else if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                found.insert(name, [b"-> ", target.as_os_str().as_bytes()].concat());
            } else {
                found.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// The names of the files below `path`, as text.
pub fn names(path: &Path) -> Vec<String> {
    files(path).into_keys().map(|name| String::from_utf8_lossy(&name).into_owned()).collect()
}

/// The temporary files of a destination.
pub fn temporary(path: &Path) -> usize {
    std::fs::read_dir(path.join(".shoal/tmp")).unwrap().count()
}

pub fn temp_dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs `test` on a thread with mounts of its own; they vanish with it, also when it panics or is killed. This takes
/// root: such a test is marked `#[ignore = "needs root, to mount"]`, and `scripts/test_rust.sh` runs it where it can.
pub fn in_private_mounts(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: unshare changes only the calling thread, which ends with this closure.
            let own = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
            assert!(own && mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, ""), "needs root, to mount");
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Mounts something, within [`in_private_mounts`].
pub fn mount(what: &str, on: &str, kind: &str, flags: libc::c_ulong, data: &str) -> bool {
    let text = |text: &str| std::ffi::CString::new(text).unwrap();
    let (what, on, kind, data) = (text(what), text(on), text(kind), text(data));
    // SAFETY: all four are NUL-terminated strings that outlive the call.
    unsafe { libc::mount(what.as_ptr(), on.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) == 0 }
}

/// Tries for a second: a process that another test is just starting holds copies of this one's descriptors for a moment,
/// which keeps a deleted file's room taken and a mount in use.
pub fn eventually(mut attempt: impl FnMut() -> bool) -> bool {
    (0..100).any(|_| {
        attempt() || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            false
        }
    })
}

/// Unmounts, which is refused while anything is open there.
pub fn unmount(on: &Path) {
    assert!(eventually(|| Command::new("umount").arg("-R").arg(on).output().unwrap().status.success()), "still in use");
}

/// A tmpfs of its own on `path`.
pub fn tmpfs(path: &Path, data: &str) {
    std::fs::create_dir_all(path).unwrap();
    assert!(mount("tmpfs", path.to_str().unwrap(), "tmpfs", 0, data), "{}", std::io::Error::last_os_error());
}

/// A small ext4 of its own on a loop device, made with these further arguments, within [`in_private_mounts`].
pub fn ext4(base: &Path, on: &Path, made_with: &[&str]) {
    let image = base.join("image");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).args(made_with).arg(&image).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    std::fs::create_dir_all(on).unwrap();
    mount_loop(&image, on, "loop");
}

/// Mounts an image with these options, within [`in_private_mounts`].
pub fn mount_loop(image: &Path, on: &Path, data: &str) {
    let mounted = Command::new("mount").args(["-o", data]).arg(image).arg(on).output().unwrap();
    assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
}

/// A small file system that has change times without nanoseconds and remembers no births.
pub fn ext4_in_seconds(base: &Path) -> PathBuf {
    let disk = base.join("disk");
    ext4(base, &disk, &["-I", "128"]);
    disk
}

/// In a process that [`child`] started: where it works.
pub fn as_child() -> Option<PathBuf> {
    std::env::var_os("SHOAL_TEST_CHILD").map(PathBuf::from)
}

/// Runs the test `name` of this very file again in a process of its own, where [`as_child`] answers `path`; `before` is
/// what to start it with (a tracer), or nothing. Its standard output holds whatever it printed.
pub fn child(name: &str, path: &Path, before: &[&str]) -> Output {
    let this = std::env::current_exe().unwrap();
    let mut command = match before.split_first() {
        None => Command::new(&this),
        Some((tracer, arguments)) => {
            let mut command = Command::new(tracer);
            command.args(arguments).arg(&this);
            command
        }
    };
    let arguments = ["--include-ignored", "--exact", name, "--nocapture", "--test-threads=1"];
    command.args(arguments).env("SHOAL_TEST_CHILD", path).output().unwrap()
}

/// The lines that a child printed with `told!`, after it succeeded.
pub fn told(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|line| line.split_once("TOLD ")).map(|(_, rest)| rest.to_owned()).collect()
}

/// Says in a few words how an operation ended.
pub fn outcome<T>(result: &Result<T>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(error) => format!("{}: {}", error.kind().as_str(), error.to_string().replace('\n', " / ")),
    }
}

/// Whether a program can be started; says so when not.
pub fn has(program: &str, argument: &str) -> bool {
    let there = Command::new(program).arg(argument).output().is_ok();
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    there
}
