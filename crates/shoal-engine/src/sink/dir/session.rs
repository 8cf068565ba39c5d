//! What a run knows of its destination: the directory held open, its clock, its file systems, the barrier.
//!
//! Here: all that `start` finds out, the barrier itself, and the path in errors. `clock.rs`: the destination's clock.
//! `existing.rs`: names that are taken. Not here: writing objects.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::clock::{self, Clock, First, Warp};
use super::partition::Parts;
use super::sweep::sweep;
use super::writing::Writing;
use super::{DirOptions, Joined, SHOAL_DIR, Touched, temp};
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Access, Dir, Place, has_mounts_below, make_path, resolved};
use crate::fs::error::{Doing, Trouble};
use crate::fs::file::survive_size_limit;
use crate::fs::lock::Lock;
use crate::fs::private::PrivateDir;
use crate::fs::sync::{Barrier, FileSystem, file_system, free, sync_directory, syncfs};
use crate::name::Name;
use crate::options::{Durability, Layout};
use crate::session::{Lease, Sessions, Twice, Whose};
use crate::sink::collision::Rules;
use crate::sink::{Reach, Start, Started};

/// Where temporary files live, in [`SHOAL_DIR`].
const TMP: &[u8] = b"tmp";
/// In [`SHOAL_DIR`]; locked by the run that writes to the destination, wherever its journal is.
pub(super) const WRITER: &str = "writer";
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
    /// It was made in this session: no earlier one has left anything in it.
    pub made: bool,
    /// Its file system says when a file came into being. Where it does not, no file has its final name before it is whole.
    pub births: bool,
    /// Names that differ may mean the same file here; found out when a name proves to be taken.
    pub folds: OnceLock<bool>,
}

impl Parent {
    pub(super) fn new(dir: Dir, path: &[u8], barrier: Barrier, births: bool) -> Parent {
        let (path, folds) = (path.into(), OnceLock::new());
        Parent { dir, path, barrier, elsewhere: false, ours: false, made: false, births, folds }
    }

    /// Whether names that differ may mean the same file here: in another case, or composed of other characters.
    pub(super) fn folds(&self, session: &Session) -> rustix::io::Result<bool> {
        if let Some(folds) = self.folds.get() {
            return Ok(*folds);
        }
        let folds = match self.elsewhere {
            false => session.folds || self.dir.is_marked_folding(),
            true => folds(&self.dir)?,
        };
        Ok(*self.folds.get_or_init(|| folds))
    }
}

/// Whether a name in another spelling finds the same file, tried with a file of our own.
fn folds(dir: &Dir) -> rustix::io::Result<bool> {
    // One letter with an accent, as one character and as two.
    const SPELLINGS: [[&str; 2]; 2] = [[".shoal-é", ".shoal-e\u{301}"], [".shoal-a", ".SHOAL-A"]];
    for [one, other] in SPELLINGS {
        let random = temp::random_name();
        let named = |text: &str| [text.as_bytes(), &random].concat();
        match dir.create(&named(one), Access::Owner) {
            Ok(file) => drop(file),
            Err(Errno::INVAL | Errno::ILSEQ) => continue, // takes no such character, and so no such name
            Err(errno) => return Err(errno),
        }
        let found = dir.look(&named(other)).is_ok();
        dir.remove(&named(one))?;
        if found {
            return Ok(true);
        }
    }
    Ok(false)
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
    /// That of `.shoal`, which no object may lie in by whatever name.
    pub private: Place,
    /// Names that differ may mean the same file, everywhere on the destination's file system.
    folds: bool,
    /// Earlier sessions may have written where the barrier of this one does not reach.
    mounts_below: bool,
    /// `.shoal/tmp`.
    pub tmp: Dir,
    /// The mode of a file made with all bits: 0777 less the umask, or as the directory's default ACL has it.
    pub file_mode: u32,
    pub sessions: Sessions,
    pub rules: Rules,
    /// Files get the time of their source.
    pub keep_times: bool,
    /// `None` in a process that works for a session of another one.
    pub clock: Option<Clock>,
    /// Keeps other runs out.
    _lock: Option<Lock>,
    mounts: Mutex<Vec<Mount>>,
    /// Held while a file is replaced, where several objects may have its name.
    pub replacing: Mutex<()>,
    /// What is being written, where several objects may have one name and all lanes are of this process.
    pub writing: Option<Writing>,
    /// Partitions whose directories are not published yet.
    pub parts: Parts,
}

impl Session {
    /// Opens the destination, making it where it is missing, and looks around.
    pub(super) fn start(
        path: &Path,
        options: DirOptions,
        start: &Start,
        warp: Option<Warp>,
    ) -> Result<(Session, Started)> {
        survive_size_limit();
        let dir = open_destination(path)?;
        let at = |trouble: Trouble| trouble.at_start(path, dir.as_fd());
        let (_, place) = dir.place().map_err(Doing::Look.failed()).map_err(at)?;
        let system = file_system(&dir).map_err(at)?;
        let barrier = barrier(options.durability, system);

        let shoal = private(&dir, SHOAL_DIR.as_bytes(), &path.join(SHOAL_DIR))?;
        let lock = match PrivateDir::open(path)? {
            Some(private) => Lock::take_where_possible(&private, WRITER.as_ref())?,
            None => None,
        };
        let tmp_path = path.join(SHOAL_DIR).join("tmp");
        let tmp = private(&shoal, TMP, &tmp_path)?;
        let mut notes = Vec::new();
        notes.extend(sweep(&tmp, &tmp_path)?);
        let (clock, First { now, file_mode, births }) =
            Clock::start(&shoal, &path.join(SHOAL_DIR), &start.sessions, warp)?;
        start.lease.saw(now);
        if let Some(file) = clock.handle() {
            start.lease.mirrored(move |granted| clock::tell(file.as_fd(), granted));
        }
        if start.sessions.iter().any(|session| session.seen >= now) {
            let note = "the destination's clock was set back since the last session: files that may be from either \
                        session count as the earlier one's";
            notes.push(note.into());
        }
        if !births && !one_step(&tmp).map_err(|errno| at(Doing::Rename.failed()(errno)))? {
            let note = "the destination's file system has no creation times and cannot publish a file atomically: a \
                        kill can leave an empty file, which is then a failure \"exists\"";
            notes.push(note.into());
        }
        notes.extend(remarks(&dir, options, system));
        if barrier == Barrier::Each {
            sync_above(path);
        }

        let started = Started {
            began: Some(now),
            volatile: barrier == Barrier::Nothing,
            durability: durability_words(options.durability, barrier, system),
            publish: publish_words(options.layout, births).into(),
            notes,
        };
        let (_, private) = shoal.place().map_err(Doing::Look.failed()).map_err(at)?;
        let folds = folds(&tmp).map_err(Doing::Create.failed()).map_err(at)?;
        let session = Session {
            path: path.to_owned(),
            options,
            root: Arc::new(Parent::new(dir, b"", barrier, births)),
            place,
            private,
            folds,
            mounts_below: has_mounts_below(&resolved(path)),
            tmp,
            file_mode,
            sessions: Sessions::new(start.sessions.clone(), start.lease.clone()),
            rules: Rules { twice: start.twice, overwrite: options.overwrite },
            keep_times: start.keep_times,
            clock: Some(clock),
            _lock: lock,
            mounts: Mutex::default(),
            replacing: Mutex::default(),
            writing: matches!(start.twice, Twice::Repeated | Twice::Conflict).then(Writing::new),
            parts: Parts::default(),
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
        let shoal = open(&dir, SHOAL_DIR.as_bytes())?;
        let tmp = open(&shoal, TMP)?;
        let (_, place) = dir.place().map_err(Doing::Look.failed()).map_err(at)?;
        let (_, private) = shoal.place().map_err(Doing::Look.failed()).map_err(at)?;
        let barrier = barrier(options.durability, file_system(&dir).map_err(at)?);
        let clock = clock::of_another(&shoal).map_err(Doing::Open.failed()).map_err(at)?;
        let lease = Lease::following(move || clock::told(clock.as_fd()));
        lease.saw(joined.began);
        Ok(Session {
            path: path.to_owned(),
            options,
            root: Arc::new(Parent::new(dir, b"", barrier, joined.births)),
            place,
            private,
            folds: joined.folds,
            mounts_below: false, // the barrier is the other process's
            tmp,
            file_mode: joined.file_mode,
            sessions: Sessions::new(joined.sessions, Arc::new(lease)),
            rules: Rules { twice: Twice::Reissued, overwrite: options.overwrite },
            keep_times: false,
            clock: None,
            _lock: None,
            mounts: Mutex::default(),
            replacing: Mutex::default(),
            writing: None,
            parts: Parts::default(),
        })
    }

    /// What another process needs to join.
    pub(super) fn joining(&self) -> Option<Joined> {
        self.clock.as_ref()?;
        Some(Joined {
            sessions: self.sessions.earlier().to_vec(),
            began: self.sessions.lease().began(),
            file_mode: self.file_mode,
            births: self.root.births,
            folds: self.folds,
        })
    }

    /// The destination's clock.
    pub(super) fn now(&self) -> Result<Option<i64>> {
        let Some(clock) = &self.clock else { return Ok(None) };
        clock
            .now()
            .map(Some)
            .map_err(|trouble| trouble.of_run(&self.below(SHOAL_DIR.as_bytes()), self.root.dir.as_fd()))
    }

    /// Takes in a directory that was just opened: what makes it durable depends on where it lies.
    pub(super) fn parent(&self, dir: Dir, path: &[u8]) -> Result<Parent, Trouble> {
        let (look, place) = dir.place().map_err(Doing::Look.failed())?;
        if place.is(&self.private) {
            // Some file systems find `.shoal` by other names too: in another case, with a dot at the end.
            return Err(Doing::Open.failed()(Errno::LOOP));
        }
        let elsewhere = !place.is_on_mount_of(&self.place);
        let (barrier, births) = match elsewhere {
            false => (self.root.barrier, self.root.births),
            true => (self.barrier_elsewhere(&dir, place)?, look.born.is_some()),
        };
        let born = self.times(&look).born;
        let made = born.is_some_and(|born| self.sessions.whose(Some(born), born) == Whose::This);
        Ok(Parent { elsewhere, made, ..Parent::new(dir, path, barrier, births) })
    }

    fn barrier_elsewhere(&self, dir: &Dir, place: Place) -> Result<Barrier, Trouble> {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = mounts.iter().find(|mount| mount.place.is_on_mount_of(&place)) {
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
                Ok(look) if look.kind.is_dir() && trouble.errno == Errno::LOOP => {
                    "shoal's own directory, by another name,"
                }
                Ok(look) if look.kind.is_dir() => "a directory that is spelled differently",
                _ => "a file",
            };
            let why = format!("{what} is where the directory \"{}\" should be", self.shown(path));
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
                .hint("shoal keeps its own files there and does not follow links: remove it")
        }
        errno => at(Doing::Open)(errno),
    })
}

/// Whether a temporary file can be given a name that nothing has in one step.
fn one_step(tmp: &Dir) -> rustix::io::Result<bool> {
    let (from, to) = (temp::random_name(), temp::random_name());
    drop(tmp.create(&from, Access::Owner)?);
    let one_step = tmp.rename_new(&from, tmp, &to)?;
    tmp.remove(&to)?;
    Ok(one_step)
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
        (Durability::None, _) => "none: in the page cache only, copied again after a reboot".into(),
        (_, Barrier::Nothing) => format!("batch: nothing to sync on {}", system.name),
        (_, Barrier::Syncfs) => "batch: one syncfs for up to 20,000 objects".into(),
        (_, Barrier::Each) => "file: each file and its directory synced".into(),
    }
}

fn publish_words(layout: Layout, births: bool) -> &'static str {
    match layout {
        Layout::Names if !births => "by temporary file and rename",
        Layout::Names => "new names directly; objects in pieces and replacements by temporary file and rename",
        Layout::Partition => {
            "whole partitions, each by one rename of its directory; retried objects directly, under retried/"
        }
    }
}

/// What a user should know before the first write.
fn remarks(dir: &Dir, options: DirOptions, system: FileSystem) -> Vec<String> {
    let mut notes = Vec::new();
    if options.durability == Durability::Batch && system.batch == Barrier::Each {
        notes.push(format!(
            "durability is \"file\" here, not \"batch\": syncfs is not known to be reliable on {}; each file is \
            synced, which is slower",
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
    let Ok((_, place)) = Dir::root(&path).and_then(|dir| dir.place()) else { return };
    for above in path.ancestors().skip(1) {
        match Dir::root(above) {
            Ok(dir) if dir.place().is_ok_and(|(_, other)| other.is_on_mount_of(&place)) => {
                let _ = sync_directory(&dir);
            }
            _ => return,
        }
    }
}
