//! What a run knows of its destination: the directory held open, its clock, its file systems, the barrier.
//!
//! Here: all that `start` finds out, whose file it is that has a name already, the barrier itself, and the path in
//! errors. Not here: writing objects.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::partition::Parts;
use super::sweep::sweep;
use super::{DirOptions, Joined, SHOAL_DIR, Touched, temp};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Access, Dir, Place, has_mounts_below, make_path, resolved};
use crate::fs::error::{Doing, Trouble};
use crate::fs::file::survive_size_limit;
use crate::fs::sync::{Barrier, FileSystem, file_system, free, sync_directory, syncfs};
use crate::name::Name;
use crate::options::{Durability, Layout, Overwrite};
use crate::sink::collision::{Began, Owner};
use crate::sink::{Mode, Reach, Start, Started};

/// Where temporary files live, in [`SHOAL_DIR`].
const TMP: &[u8] = b"tmp";
/// Longest wait for the destination's clock to move on. A kernel's moves every 1–10 ms, a coarse file system's every 2 s;
/// on those a file made just before the run counts as ours.
const CLOCK_STEP_MAX: Duration = Duration::from_millis(50);
/// Fewer free inodes than this deserve a remark: one batch of objects needs 20,000.
const FEW_INODES: u64 = 20_000;
/// Likewise for free bytes: one batch is at most 64 MiB.
const FEW_BYTES: u64 = 64 << 20;
/// How often a barrier asks again for a file descriptor, every 20 ms. Not the sync is tried again, only the opening.
const OPEN_TRIES: u32 = 100;

/// A directory below the destination, or the destination itself.
#[derive(Debug)]
pub(super) struct Parent {
    /// The directory.
    pub dir: Dir,
    /// Its path below the destination; empty for the destination.
    pub path: Box<[u8]>,
    /// What makes its files durable.
    pub barrier: Barrier,
    /// It lies on another mount than `.shoal/tmp`, so that temporary files must lie beside the final ones.
    pub elsewhere: bool,
    /// It lies in a partition's directory that is not published yet: all files in it are of this session.
    pub ours: bool,
}

/// A mount below the destination on which something was written.
#[derive(Debug)]
struct Mount {
    place: Place,
    barrier: Barrier,
    /// Opened before the first write there, for `syncfs`.
    kept: Option<std::os::fd::OwnedFd>,
}

/// Everything a run knows of its destination.
#[derive(Debug)]
pub(super) struct Session {
    /// The destination's absolute path, for messages.
    path: PathBuf,
    pub options: DirOptions,
    /// The destination, opened before the first write and kept: only such a fd reports what write-back lost.
    pub root: Arc<Parent>,
    place: Place,
    /// Earlier sessions may have written where the barrier of this one does not reach.
    mounts_below: bool,
    /// `.shoal/tmp`; a lock on it tells other runs that these temporary files have an owner.
    pub tmp: Dir,
    /// The mode of a new file that may be run: 0777 less the umask, or as the directory's default ACL has it.
    pub file_mode: u32,
    pub began: Began,
    mounts: Mutex<Vec<Mount>>,
    /// Partitions whose directories are not published yet.
    pub parts: Parts,
    /// A forked child has copies of the fds; dropping those must not unlock for the parent.
    pid: u32,
}

/// What to do where a name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is free again.
    Free,
    /// The joined runs wrote it before; the first stays.
    Duplicate,
    /// Replace what is there.
    Replace,
}

impl Session {
    /// Opens the destination, making it where it is missing, and looks around.
    pub(super) fn start(path: &Path, options: DirOptions, start: &Start) -> Result<(Session, Started)> {
        survive_size_limit();
        let dir = open_destination(path)?;
        let at = |trouble: Trouble| trouble.at_start(path, dir.as_fd());
        let place = dir.place().map_err(Doing::Look.failed()).map_err(at)?;
        let system = file_system(&dir).map_err(at)?;
        let barrier = barrier(options.durability, system);

        let shoal = private(&dir, SHOAL_DIR.as_bytes(), &path.join(SHOAL_DIR))?;
        let tmp_path = path.join(SHOAL_DIR).join("tmp");
        let tmp = private(&shoal, TMP, &tmp_path)?;
        let mut notes = Vec::new();
        notes.extend(sweep(&tmp, &tmp_path)?);
        let (session_began, file_mode) = read_clock(&tmp, &tmp_path)?;
        let clock_went_back = newest(&shoal) > session_began;
        if clock_went_back {
            notes.push("the destination's clock has gone back since the last run: duplicates within redone partitions are not told apart".into());
        }
        notes.extend(remarks(&dir, options, system));
        if barrier == Barrier::Each {
            sync_above(path);
        }

        let first = start.first_began.unwrap_or(session_began);
        let started = Started {
            began: session_began,
            durability: durability_words(options.durability, barrier, system),
            publish: publish_words(options.layout).into(),
            notes,
        };
        let session = Session {
            path: path.to_owned(),
            options,
            root: Arc::new(Parent { dir, path: Box::default(), barrier, elsewhere: false, ours: false }),
            place,
            mounts_below: has_mounts_below(&resolved(path)),
            tmp,
            file_mode,
            began: Began { first, session: session_began, clock_went_back },
            mounts: Mutex::default(),
            parts: Parts::default(),
            pid: std::process::id(),
        };
        Ok((session, started))
    }

    /// Joins a run that another process has started here: nothing is made, swept or waited for, and no lock is taken.
    pub(super) fn join(path: &Path, options: DirOptions, joined: Joined) -> Result<Session> {
        survive_size_limit();
        let dir = Dir::root(path).map_err(|errno| {
            let why = format!("cannot open \"{}\": {errno}", crate::display::escape(path.as_os_str().as_bytes()));
            Error::new(Kind::DestinationFailed, why).errno(Some(errno.raw_os_error()))
        })?;
        let at = |trouble: Trouble| trouble.at_start(path, dir.as_fd());
        let open = |parent: &Dir, name: &[u8]| parent.open(name).map_err(Doing::Open.failed()).map_err(at);
        let tmp = open(&open(&dir, SHOAL_DIR.as_bytes())?, TMP)?;
        let place = dir.place().map_err(Doing::Look.failed()).map_err(at)?;
        let barrier = barrier(options.durability, file_system(&dir).map_err(at)?);
        // Of a name that was handed out before, no file is known to be whole: whoever wrote it, perhaps just now, may have
        // been killed over it. Only its first writer, in mode fresh, can have come across a duplicate.
        let began = Began { first: joined.first, session: joined.first, clock_went_back: true };
        Ok(Session {
            path: path.to_owned(),
            options,
            root: Arc::new(Parent { dir, path: Box::default(), barrier, elsewhere: false, ours: false }),
            place,
            mounts_below: false, // the barrier is the other process's
            tmp,
            file_mode: joined.file_mode,
            began,
            mounts: Mutex::default(),
            parts: Parts::default(),
            pid: std::process::id(),
        })
    }

    /// What another process needs to join.
    pub(super) fn joining(&self) -> Joined {
        Joined { first: self.began.first, file_mode: self.file_mode }
    }

    /// Takes in a directory that was just opened: what makes it durable depends on where it lies.
    pub(super) fn parent(&self, dir: Dir, path: &[u8]) -> Result<Parent, Trouble> {
        let place = dir.place().map_err(Doing::Look.failed())?;
        let elsewhere = place != self.place;
        let barrier = match elsewhere {
            false => self.root.barrier,
            true => self.barrier_elsewhere(&dir, place)?,
        };
        Ok(Parent { dir, path: path.into(), barrier, elsewhere, ours: false })
    }

    fn barrier_elsewhere(&self, dir: &Dir, place: Place) -> Result<Barrier, Trouble> {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = mounts.iter().find(|mount| mount.place == place) {
            return Ok(mount.barrier);
        }
        let barrier = barrier(self.options.durability, file_system(dir)?);
        // A copy of the fd shares the moment at which it was opened, which is what syncfs reports errors since.
        let kept = match barrier {
            Barrier::Syncfs => Some(rustix::io::fcntl_dupfd_cloexec(dir, 0).map_err(Doing::Open.failed())?),
            _ => None,
        };
        mounts.push(Mount { place, barrier, kept });
        Ok(barrier)
    }

    /// What to do about the file that has this name.
    ///
    /// # Errors
    /// [`Kind::Exists`], or [`Kind::NameConflict`] for what is not a file.
    pub(super) fn taken(&self, parent: &Parent, name: &Name, mode: Mode) -> Result<Taken> {
        let look = match parent.dir.look(name.split().1) {
            Ok(look) => look,
            Err(Errno::NOENT) => return Ok(Taken::Free),
            Err(errno) => return Err(self.error(Doing::Look.failed()(errno), parent, name, 0)),
        };
        let refused = |kind, why: &str| {
            let path = self.shown(&joined(&parent.path, name.split().1));
            Err(Error::new(kind, format!("cannot create \"{path}\": {why}")).on(&name.to_string()))
        };
        if look.kind.is_symlink() {
            // Neither followed nor replaced: somebody meant something by it.
            return refused(Kind::NameConflict, "a symbolic link stands in its place");
        }
        if look.kind.is_dir() {
            return refused(Kind::NameConflict, "a directory stands in its place");
        }
        if !look.kind.is_file() {
            return refused(Kind::NameConflict, "something that is not a file stands in its place");
        }
        if parent.ours {
            return Ok(Taken::Duplicate);
        }
        match self.began.owner(look.born, mode) {
            Owner::Ours => Ok(Taken::Duplicate),
            Owner::Leftover => Ok(Taken::Replace),
            Owner::Stranger if self.options.overwrite == Overwrite::Always => Ok(Taken::Replace),
            Owner::Stranger => refused(Kind::Exists, "a file that shoal did not write has this name")
                .map_err(|error| error.hint("overwrite=\"always\" replaces such files")),
        }
    }

    /// Makes all that was written before this call, and the names in the touched directories, durable.
    pub(super) fn sync(&self, touched: Touched) -> Result<Reach> {
        self.sync_names(&self.root, &touched)?;
        let at = |trouble: Trouble| trouble.of_run(&self.path, self.root.dir.as_fd());
        if self.root.barrier == Barrier::Syncfs {
            syncfs(&self.root.dir).map_err(at)?;
        }
        let mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        for kept in mounts.iter().filter_map(|mount| mount.kept.as_ref()) {
            syncfs(kept).map_err(at)?;
        }
        let alone = mounts.is_empty() && !self.mounts_below;
        let anywhere = |barrier| self.root.barrier == barrier || mounts.iter().any(|mount| mount.barrier == barrier);
        Ok(match self.root.barrier {
            // Also a tmpfs, whose files a reboot takes away.
            _ if anywhere(Barrier::Nothing) => Reach::PageCache,
            Barrier::Syncfs if alone => Reach::Everything,
            _ => Reach::Named,
        })
    }

    /// Makes the names in the touched directories durable, all of which lie in `base`: an object's name is durable only
    /// with the names of the directories that lead to it.
    pub(super) fn sync_names(&self, base: &Parent, touched: &Touched) -> Result<()> {
        let above = if base.path.is_empty() { 0 } else { base.path.len() + 1 };
        let mut directories = Touched::new();
        for path in touched {
            let mut rest: &[u8] = path.get(above..).unwrap_or_default();
            while directories.insert(rest.into()) && !rest.is_empty() {
                rest = memchr::memrchr(b'/', rest).map_or(b"", |cut| &rest[..cut]);
            }
        }
        for path in &directories {
            match path.is_empty() {
                true => sync_directory(&base.dir),
                false => self.reopen(&base.dir, path).and_then(sync_directory),
            }
            .map_err(|trouble| trouble.of_run(&self.below(&joined(&base.path, path)), base.dir.as_fd()))?;
        }
        Ok(())
    }

    /// Opens a directory once more, for the barrier.
    pub(super) fn reopen(&self, base: &Dir, path: &[u8]) -> Result<Dir, Trouble> {
        let mut tries = 0;
        'again: loop {
            let mut dir: Option<Dir> = None;
            for component in path.split(|&byte| byte == b'/') {
                match dir.as_ref().unwrap_or(base).open(component) {
                    Ok(next) => dir = Some(next),
                    // The lanes hold them all just now; waiting costs less than a lost batch.
                    Err(Errno::MFILE | Errno::NFILE) if tries < OPEN_TRIES => {
                        tries += 1;
                        std::thread::sleep(Duration::from_millis(20));
                        continue 'again;
                    }
                    Err(errno) => return Err(Doing::Sync.failed()(errno)),
                }
            }
            return dir.ok_or_else(|| Doing::Sync.failed()(Errno::NOENT));
        }
    }

    /// The error of an object, with its name and the path it was to have.
    pub(super) fn error(&self, trouble: Trouble, parent: &Parent, name: &Name, need: u64) -> Error {
        let path = self.below(&joined(&parent.path, name.split().1));
        let error = trouble.at(&path, parent.dir.as_fd(), need);
        let error = match (trouble.doing, trouble.errno) {
            // Nothing can be made in the destination: every other flat name would fail the same way.
            (Doing::Create | Doing::MakeDirectory, Errno::ACCESS) if parent.path.is_empty() => {
                trouble.of_run(&path, parent.dir.as_fd())
            }
            _ => error,
        };
        error.on(&name.to_string())
    }

    /// The error of an object one of whose directories could not be opened or made.
    pub(super) fn directory_error(&self, trouble: Trouble, parent: &Parent, path: &[u8], name: &Name) -> Error {
        let component = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if matches!(trouble.errno, Errno::NOTDIR | Errno::LOOP) {
            let what = match parent.dir.look(component) {
                Ok(look) if look.kind.is_symlink() => "a symbolic link",
                _ => "a file",
            };
            let why = format!("{what} stands where the directory \"{}\" should be", self.shown(path));
            return Error::new(Kind::NameConflict, why).errno(Some(trouble.errno.raw_os_error())).on(&name.to_string());
        }
        let path = self.below(path);
        let error = match trouble.errno {
            Errno::ACCESS if parent.path.is_empty() && trouble.doing == Doing::MakeDirectory => {
                trouble.of_run(&path, parent.dir.as_fd())
            }
            _ => trouble.at(&path, parent.dir.as_fd(), 0),
        };
        error.on(&name.to_string())
    }

    /// The whole path, for messages.
    pub(super) fn below(&self, path: &[u8]) -> PathBuf {
        match path.is_empty() {
            true => self.path.clone(),
            false => self.path.join(std::ffi::OsStr::from_bytes(path)),
        }
    }

    /// The same, safe to show.
    pub(super) fn shown(&self, path: &[u8]) -> String {
        crate::display::escape(self.below(path).as_os_str().as_bytes())
    }
}

/// The path of `rest` in a directory.
pub(super) fn joined(directory: &[u8], rest: &[u8]) -> Vec<u8> {
    match directory.is_empty() || rest.is_empty() {
        true => [directory, rest].concat(),
        false => [directory, b"/", rest].concat(),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // Closing is not enough where a forked child still has the fd.
            self.tmp.unlock();
        }
    }
}

fn open_destination(path: &Path) -> Result<Dir> {
    let failed = |doing: Doing, errno: Errno| {
        let nearby = Dir::root(Path::new("/")).map_err(|_| Error::new(Kind::DestinationFailed, "cannot open \"/\""))?;
        // The nearest directory that exists tells how much room there is.
        let nearby = path.ancestors().find_map(|above| Dir::root(above).ok()).unwrap_or(nearby);
        Err(doing.failed()(errno).at_start(path, nearby.as_fd()))
    };
    match Dir::root(path) {
        Ok(dir) => Ok(dir),
        Err(Errno::NOENT) => {
            if let Err(error) = make_path(path) {
                let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
                return failed(Doing::MakeDirectory, errno);
            }
            Dir::root(path).or_else(|errno| failed(Doing::Open, errno))
        }
        Err(errno) => failed(Doing::Open, errno),
    }
}

/// Opens a directory of shoal's own, making it where it is missing; only its owner may look inside.
fn private(parent: &Dir, name: &[u8], path: &Path) -> Result<Dir> {
    let at = |doing: Doing| move |errno: Errno| doing.failed()(errno).at_start(path, parent.as_fd());
    parent.make(name, Access::Owner).map_err(at(Doing::MakeDirectory))?;
    parent.open(name).map_err(|errno| match errno {
        Errno::LOOP | Errno::NOTDIR => {
            let shown = crate::display::escape(path.as_os_str().as_bytes());
            Error::new(Kind::DestinationFailed, format!("\"{shown}\" is a symbolic link or a file, not a directory"))
                .hint("shoal keeps its own files there and follows no link: remove it")
        }
        errno => at(Doing::Open)(errno),
    })
}

/// What the destination's clock says, and the mode that new files get. Waits until the clock has moved, so that
/// whatever was there before is older than the answer and whatever this run makes is not.
fn read_clock(tmp: &Dir, path: &Path) -> Result<(i128, u32)> {
    let probe = || -> Result<(i128, u32), Trouble> {
        let name = temp::random_name();
        drop(tmp.create(&name, Access::Executable).map_err(Doing::Create.failed())?);
        let look = tmp.look(&name).map_err(Doing::Look.failed());
        tmp.remove(&name).map_err(Doing::Create.failed())?;
        look.map(|look| (look.born, look.mode & 0o777))
    };
    let at = |trouble: Trouble| trouble.at_start(path, tmp.as_fd());
    let (first, _) = probe().map_err(at)?;
    let waiting = Instant::now();
    loop {
        let (now, mode) = probe().map_err(at)?;
        if now != first || waiting.elapsed() > CLOCK_STEP_MAX {
            return Ok((now, mode));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The newest file in `.shoal`, where each commit of an earlier run left its time.
fn newest(shoal: &Dir) -> i128 {
    let mut newest = 0;
    let _ = shoal.names(|name| {
        // Directories change whenever a temporary file is made, so also just now.
        if let Some(look) = shoal.look(name).ok().filter(|look| look.kind.is_file()) {
            newest = newest.max(look.written);
        }
        Ok(())
    });
    newest
}

fn barrier(durability: Durability, system: FileSystem) -> Barrier {
    match durability {
        Durability::None => Barrier::Nothing,
        Durability::Batch => system.batch,
        Durability::File => Barrier::Each,
    }
}

fn durability_words(asked: Durability, barrier: Barrier, system: FileSystem) -> String {
    match (asked, barrier) {
        (Durability::None, _) => "none: in the page cache, done again after a reboot".into(),
        (_, Barrier::Nothing) => format!("batch: nothing to sync on {}", system.name),
        (_, Barrier::Syncfs) => "batch: one syncfs for up to 20,000 objects".into(),
        (_, Barrier::Each) => "file: each file and its directory synced".into(),
    }
}

fn publish_words(layout: Layout) -> &'static str {
    match layout {
        Layout::Names => "new names directly; objects in pieces and replacements by temporary file and rename",
        Layout::Partition => {
            "partitions whole, each by one rename of its directory; objects tried again later directly, under retried/"
        }
    }
}

/// What a user should know before the first write.
fn remarks(dir: &Dir, options: DirOptions, system: FileSystem) -> Vec<String> {
    let mut notes = Vec::new();
    if options.durability == Durability::Batch && system.batch == Barrier::Each {
        notes.push(format!(
            "durability is \"file\" here, not \"batch\": {} is not known to keep the promise of syncfs; each file is synced, which is slower",
            system.name
        ));
    }
    if let Ok(room) = free(dir.as_fd()) {
        if let Some(inodes) = room.inodes.filter(|&inodes| inodes < FEW_INODES) {
            notes.push(format!("the destination has room for only {inodes} more files (free inodes)"));
        }
        if room.bytes < FEW_BYTES {
            notes.push(format!("the destination has only {} bytes free", room.bytes));
        }
    }
    notes
}

/// Makes the destination's own name durable, and those of the directories above it, which this run may have made. What
/// cannot be opened was not made by us.
fn sync_above(path: &Path) {
    let path = resolved(path);
    let Ok(place) = Dir::root(&path).and_then(|dir| dir.place()) else { return };
    for above in path.ancestors().skip(1) {
        match Dir::root(above) {
            Ok(dir) if dir.place().is_ok_and(|other| other == place) => {
                let _ = sync_directory(&dir);
            }
            _ => return,
        }
    }
}
