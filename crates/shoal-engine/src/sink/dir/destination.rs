//! `Destination`: what a session knows of the directory that it writes to: open directories, clock, file systems,
//! earlier sessions, options.
//!
//! Not here: opening and locking (`open.rs`), how the barrier works (`barrier.rs`), error texts of objects
//! (`target.rs`), files that already exist (`existing.rs`), writing.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, RwLock};

use rustix::io::Errno;

use super::barrier::{Mounts, Touched, barrier, sync_names};
use super::clock::{self, Clock, First, Warp};
use super::description;
use super::directory::Directory;
use super::joined::Joined;
use super::lost::Lost;
use super::open::{Opened, sync_above};
use super::options::DirOptions;
use super::probe;
use super::removals::Removals;
use super::writing::Writing;
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Dir, DirectoryId, Look, has_mounts_below, resolved};
use crate::fs::error::{FsError, Operation};
use crate::fs::file;
use crate::fs::lock::Lock;
use crate::fs::sync::Barrier;
use crate::name::SHOAL_DIR;
use crate::object::Takes;
use crate::options::Pass;
use crate::session::{Lease, Sessions, Twice, Whose};
use crate::sink::collision::{Rules, Times};
use crate::sink::{DurabilityScope, Start, Started};

/// What the owner of a directory needs to create files in it.
const WRITABLE: u32 = 0o300;

/// Everything that a session knows of its destination.
#[derive(Debug)]
pub(super) struct Destination {
    /// The absolute path, for messages.
    path: PathBuf,
    pub options: DirOptions,
    /// The destination itself. Opened before the first write and kept open: only such an fd reports failed write-back.
    pub root: Arc<Directory>,
    place: DirectoryId,
    /// Identifies `.shoal`. No object may be written into it, by whatever name.
    pub private: DirectoryId,
    /// Different names may mean the same file, everywhere on the destination's file system.
    folds: bool,
    mounts: Mounts,
    /// For temporary files.
    pub tmp: Dir,
    /// The mode of a file created with all bits: 0777 less the umask, or what the directory's default ACL allows.
    pub file_mode: u32,
    pub sessions: Sessions,
    pub rules: Rules,
    /// Files get the timestamps of their source.
    pub keep_times: bool,
    /// In an update, directories lose the permissions that those of the source do not have, before anything is written into
    /// them. They gain none: the user may have closed them, and files in them may be wider than those of the source. This
    /// is one that lacks some.
    pub lacking: Option<OnceLock<Box<[u8]>>>,
    /// What belongs to files and could not be kept.
    pub lost: Lost,
    /// `None` in a process that writes for the session of another process.
    pub clock: Option<Clock>,
    /// Keeps other runs out.
    _lock: Option<Lock>,
    /// Locked while a file is replaced; by one alone, if several objects may have its name.
    pub replacing: RwLock<()>,
    /// Files of objects that failed after all.
    pub removals: Removals,
    /// The names being written. `None` if each name is one object, or if other processes write too.
    pub writing: Option<Writing>,
}

impl Destination {
    /// Begins a session at a destination that was cleaned up.
    pub fn start(
        opened: Opened,
        options: DirOptions,
        start: &Start,
        warp: Option<Warp>,
    ) -> Result<(Destination, Started)> {
        let Opened { path, dir, system, own, own_path, tmp, .. } = &opened;
        let at = |failed: FsError| failed.at_start(path, dir.as_fd());
        let barrier = barrier(options.durability, *system);
        let mut notes = Vec::new();
        let (clock, First { now, file_mode, births }) = Clock::start(own, own_path, &start.sessions, warp)?;
        start.lease.saw(now);
        if let Some(file) = clock.handle() {
            if !file::set_mode(file.as_fd(), file_mode & 0o700).is_ok_and(|is_set| is_set) {
                let note = "the destination's file system refuses to change permissions: objects in pieces and \
                            replaced files are for their owner only, or as it decides";
                notes.push(note.into());
            }
            start.lease.mirrored(move |granted| clock::tell(file.as_fd(), granted));
        }
        if start.sessions.iter().any(|session| session.seen >= now) {
            let note = "the destination's clock was set back since the last session: files that may be from either \
                        session count as the earlier one's";
            notes.push(note.into());
        }
        if !births && !probe::publishes_atomically(tmp).map_err(Operation::Rename.failed()).map_err(at)? {
            let note = "the destination's file system has no creation times and cannot publish a file atomically: a \
                        kill can leave an empty file, which is then a failure \"exists\"";
            notes.push(note.into());
        }
        notes.extend(description::notes(dir, options, *system));
        if barrier == Barrier::Each {
            sync_above(path);
        }
        let started = Started {
            began: Some(now),
            volatile: barrier == Barrier::Nothing,
            durability: description::durability(options.durability, barrier, *system),
            publish: description::publishing(births).into(),
            notes,
            ..Started::default()
        };
        let folds = probe::folds_names(tmp).map_err(Operation::Create.failed()).map_err(at)?;
        let mounts = Mounts::new(has_mounts_below(&resolved(path)));
        let facts =
            Joined { sessions: start.sessions.clone(), began: now, file_mode, births, folds, part: options.part };
        let destination = Destination {
            mounts,
            keep_times: start.keep_times,
            lacking: (start.pass == Pass::Update).then(OnceLock::new),
            clock: Some(clock),
            writing: matches!(start.twice, Twice::Repeated | Twice::Conflict).then(Writing::new),
            ..Destination::new(opened, options, facts, start.twice, start.lease.clone())
        };
        Ok((destination, started))
    }

    /// Joins a session that another process has started here. It creates, removes and locks nothing, and does not wait.
    pub fn join(opened: Opened, options: DirOptions, joined: Joined) -> Result<Destination> {
        let at = |failed: FsError| failed.at_start(&opened.path, opened.dir.as_fd());
        let clock = clock::of_another(&opened.own).map_err(Operation::Open.failed()).map_err(at)?;
        let lease = Lease::following(move || clock::told(clock.as_fd()));
        lease.saw(joined.began);
        Ok(Destination::new(opened, options, joined, Twice::Reissued, Arc::new(lease)))
    }

    fn new(opened: Opened, options: DirOptions, facts: Joined, twice: Twice, lease: Arc<Lease>) -> Destination {
        let barrier = barrier(options.durability, opened.system);
        Destination {
            path: opened.path,
            options,
            root: Arc::new(Directory::new(opened.dir, b"", barrier, facts.births)),
            place: opened.place,
            private: opened.shoal_place,
            folds: facts.folds,
            mounts: Mounts::default(),
            tmp: opened.tmp,
            file_mode: facts.file_mode,
            sessions: Sessions::new(facts.sessions, lease),
            rules: Rules { twice, overwrite: options.overwrite, hard_links: options.takes().hard_links },
            keep_times: false,
            lacking: None,
            lost: Lost::new(options.strict_attributes),
            clock: None,
            _lock: opened.lock,
            replacing: RwLock::default(),
            removals: Removals::default(),
            writing: None,
        }
    }

    /// What another process needs to join.
    pub fn joining(&self) -> Option<Joined> {
        self.clock.as_ref()?;
        Some(Joined {
            sessions: self.sessions.earlier().to_vec(),
            began: self.sessions.lease().began(),
            file_mode: self.file_mode,
            births: self.root.births,
            folds: self.folds,
            part: self.options.part,
        })
    }

    /// The time on the destination's clock.
    pub fn now(&self) -> Result<Option<i64>> {
        let at = |failed: FsError| failed.of_run(&self.path_of(SHOAL_DIR.as_bytes()), self.root.dir.as_fd());
        self.clock.as_ref().map(Clock::now).transpose().map_err(at)
    }

    /// The times of a file, on the clock of this session.
    pub fn times(&self, look: &Look) -> Times {
        let shown = |time| self.clock.as_ref().map_or(time, |clock| clock.shown(time));
        Times { born: look.born.map(shown), changed: shown(look.changed), written: shown(look.written) }
    }

    /// Makes all that was written before this call, and the names in the touched directories, durable.
    pub fn sync(&self, touched: &Touched) -> Result<DurabilityScope> {
        let at = |(failed, path): (FsError, Box<[u8]>)| failed.of_run(&self.path_of(&path), self.root.dir.as_fd());
        sync_names(&self.root.dir, touched).map_err(at)?;
        self.mounts.sync(&self.root).map_err(|failed| failed.of_run(&self.path, self.root.dir.as_fd()))
    }

    /// Takes the permissions from a directory that its source, which has `bits`, does not have.
    fn narrow(&self, dir: &Dir, path: &[u8], look: &Look, bits: u32) {
        let Some(lacking) = &self.lacking else { return };
        let narrow = look.mode & (bits | !0o077); // its owner keeps all
        if narrow != look.mode {
            dir.set_mode(narrow);
        }
        if bits & self.file_mode & !look.mode & 0o077 != 0 {
            lacking.get_or_init(|| path.into());
        }
    }

    /// What is to be said of the session at its end.
    pub fn note(&self) -> Option<String> {
        let lacking = self.lacking.as_ref().and_then(OnceLock::get).map(|path| {
            let path = escape(path);
            format!("directories have fewer permissions than at the source, as \"{path}\" has: an update adds none")
        });
        let notes: Vec<String> = lacking.into_iter().chain(self.lost.note()).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// What of a file is kept.
    pub fn takes(&self) -> Takes {
        self.options.takes()
    }

    /// Makes what directories got at the end of a run durable.
    pub fn sync_directories(&self) -> Result<()> {
        match self.root.barrier {
            // One by one, each costs as much as a whole run; if they are lost, the next update sets them again.
            Barrier::Nothing | Barrier::Each => Ok(()),
            Barrier::Syncfs => self.sync(&Touched::new()).map(drop),
        }
    }

    /// Whether a directory that is closed to its owner is this run's, which has closed it as its source is. The end of the run
    /// closes it again.
    pub fn may_open(&self, look: &Look) -> bool {
        let times = self.times(look);
        let is_own = || self.sessions.whose(times.born, times.changed) != Whose::Other;
        look.user == rustix::process::geteuid().as_raw() && (self.options.exact || is_own())
    }

    /// Finds out about a directory that was just opened. `bits`: the permissions of its source, if that is to be compared.
    pub fn directory(&self, dir: Dir, path: &[u8], bits: Option<u32>) -> Result<Directory, FsError> {
        let (look, place) = dir.place().map_err(Operation::Stat.failed())?;
        if place.is(&self.private) {
            // Some file systems find `.shoal` by other names too: in another case, with a dot at the end.
            return Err(Operation::Open.failed()(Errno::LOOP));
        }
        if let Some(bits) = bits {
            self.narrow(&dir, path, &look, bits);
        }
        if look.mode & WRITABLE != WRITABLE && self.may_open(&look) && !dir.takes_files() {
            dir.set_mode(look.mode | 0o700);
        }
        let on_other_mount = !place.is_on_mount_of(&self.place);
        let (barrier, births) = match on_other_mount {
            false => (self.root.barrier, self.root.births),
            true => (self.mounts.barrier(&dir, place, self.options.durability)?, look.born.is_some()),
        };
        let born = self.times(&look).born;
        let is_new = born.is_some_and(|born| self.sessions.whose(Some(born), born) == Whose::This);
        Ok(Directory { on_other_mount, is_new, ..Directory::new(dir, path, barrier, births) })
    }

    /// Whether different names may mean the same file in this directory: in another case, or composed of other
    /// characters.
    pub fn folds(&self, directory: &Directory) -> rustix::io::Result<bool> {
        if let Some(folds) = directory.folds.get() {
            return Ok(*folds);
        }
        let folds = match directory.on_other_mount {
            false => self.folds || directory.dir.is_marked_folding(),
            true => probe::folds_names(&directory.dir)?,
        };
        Ok(*directory.folds.get_or_init(|| folds))
    }

    /// Waits until this session may write.
    pub fn wait_for_lease(&self) -> Result<()> {
        match self.sessions.lease().wait() {
            true => Ok(()),
            false => Err(Error::new(Kind::Interrupted, "the run was stopped while an object waited to be written")),
        }
    }

    /// The whole path, for messages.
    pub fn path_of(&self, path: &[u8]) -> PathBuf {
        match path.is_empty() {
            true => self.path.clone(),
            false => self.path.join(OsStr::from_bytes(path)),
        }
    }

    /// The same, safe to print.
    pub fn shown(&self, path: &[u8]) -> String {
        crate::display::escape(self.path_of(path).as_os_str().as_bytes())
    }
}
