//! `Opened`: the directories of a destination, opened or created, and locked against other runs. Not here: what a
//! session finds out about them (`destination.rs`).

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Access, Dir, DirectoryId, make_path, resolved};
use crate::fs::error::{FsError, Operation};
use crate::fs::file::survive_size_limit;
use crate::fs::lock::Lock;
use crate::fs::private::PrivateDir;
use crate::fs::sync::{FileSystem, file_system, sync_directory};
use crate::name::{PARTS_DIR, SHOAL_DIR};
use crate::part::Part;

/// In the run's own directory, for temporary files.
const TMP: &str = "tmp";
/// In [`SHOAL_DIR`]; locked by the run that writes to the destination, also if its journal is elsewhere.
pub(super) const WRITER: &str = "writer";

/// The open directories of a destination.
pub(super) struct Opened {
    /// The destination's absolute path, for messages.
    pub path: PathBuf,
    /// The destination.
    pub dir: Dir,
    /// Identifies the destination and its mount.
    pub place: DirectoryId,
    /// The destination's file system.
    pub system: FileSystem,
    /// The run's own directory: `.shoal`, or that of a part in it.
    pub own: Dir,
    /// Its path, for messages.
    pub own_path: PathBuf,
    /// Identifies `.shoal`.
    pub shoal_place: DirectoryId,
    /// `tmp` in the run's own directory.
    pub tmp: Dir,
    /// Keeps other runs out. `None` if the file system has no locks, if this process has joined a run, or if this is a
    /// part, which the caller has locked.
    pub lock: Option<Lock>,
}

impl Opened {
    /// Opens a destination for a new session. Creates the directories that do not exist.
    pub fn create(path: &Path, part: Option<Part>) -> Result<Opened> {
        survive_size_limit();
        let dir = open_or_create(path)?;
        let shoal = open_or_create_private(&dir, SHOAL_DIR, path)?;
        let shoal_place = place_of(&shoal, path)?;
        let (own, own_path) = match part {
            None => (shoal, path.join(SHOAL_DIR)),
            Some(part) => {
                let above = path.join(SHOAL_DIR);
                let parts = open_or_create_private(&shoal, PARTS_DIR, &above)?;
                let (above, number) = (above.join(PARTS_DIR), part.index().to_string());
                (open_or_create_private(&parts, &number, &above)?, above.join(number))
            }
        };
        let lock = match PrivateDir::open(path)? {
            Some(private) if part.is_none() => {
                let lock = Lock::take_where_possible(&private, WRITER.as_ref())?;
                // Again under the lock, if the journal is elsewhere: parts may have begun since the run looked.
                private.keep_out_of_parts()?;
                lock
            }
            _ => None,
        };
        let tmp = open_or_create_private(&own, TMP, &own_path)?;
        Opened::new(path, dir, shoal_place, (own, own_path), tmp, lock)
    }

    /// Opens the destination of a session that another process has started. Creates and locks nothing.
    pub fn join(path: &Path, part: Option<Part>) -> Result<Opened> {
        survive_size_limit();
        let dir = Dir::root(path).map_err(|errno| {
            let why = format!("cannot open \"{}\": {errno}", crate::display::escape(path.as_os_str().as_bytes()));
            Error::new(Kind::DestinationFailed, why).errno(Some(errno.raw_os_error()))
        })?;
        let at = |failed: FsError| failed.at_start(path, dir.as_fd());
        let open =
            |parent: &Dir, name: &str| parent.open(name.as_bytes()).map_err(Operation::Open.failed()).map_err(at);
        let shoal = open(&dir, SHOAL_DIR)?;
        let shoal_place = place_of(&shoal, path)?;
        let (own, own_path) = match part.map(|part| part.index().to_string()) {
            None => (shoal, path.join(SHOAL_DIR)),
            Some(number) => {
                let own = open(&open(&shoal, PARTS_DIR)?, &number)?;
                (own, path.join(SHOAL_DIR).join(PARTS_DIR).join(number))
            }
        };
        let tmp = open(&own, TMP)?;
        Opened::new(path, dir, shoal_place, (own, own_path), tmp, None)
    }

    /// The path of `tmp`, for messages.
    pub fn tmp_path(&self) -> PathBuf {
        self.own_path.join(TMP)
    }

    fn new(
        path: &Path,
        dir: Dir,
        shoal_place: DirectoryId,
        (own, own_path): (Dir, PathBuf),
        tmp: Dir,
        lock: Option<Lock>,
    ) -> Result<Opened> {
        let place = place_of(&dir, path)?;
        let system = file_system(&dir).map_err(|failed| failed.at_start(path, dir.as_fd()))?;
        Ok(Opened { path: path.to_owned(), dir, place, system, own, own_path, shoal_place, tmp, lock })
    }
}

fn place_of(dir: &Dir, path: &Path) -> Result<DirectoryId> {
    let placed = dir.place().map_err(Operation::Stat.failed());
    placed.map(|(_, place)| place).map_err(|failed| failed.at_start(path, dir.as_fd()))
}

fn open_or_create(path: &Path) -> Result<Dir> {
    let failed = |operation: Operation, errno: Errno| {
        let nearby = Dir::root(Path::new("/")).map_err(|_| Error::new(Kind::DestinationFailed, "cannot open \"/\""))?;
        // The nearest directory that exists tells how much room there is.
        let nearby = path.ancestors().find_map(|above| Dir::root(above).ok()).unwrap_or(nearby);
        Err(operation.failed()(errno).at_start(path, nearby.as_fd()))
    };
    match Dir::root(path) {
        Ok(dir) => Ok(dir),
        Err(Errno::NOENT) => {
            if let Err(error) = make_path(path) {
                let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
                return failed(Operation::Mkdir, errno);
            }
            Dir::root(path).or_else(|errno| failed(Operation::Open, errno))
        }
        Err(errno) => failed(Operation::Open, errno),
    }
}

/// Opens or creates one of shoal's own directories, which only its owner may read. `above` is the path of `parent`.
fn open_or_create_private(parent: &Dir, name: &str, above: &Path) -> Result<Dir> {
    let path = above.join(name);
    let at = |failed: FsError| failed.at_start(&path, parent.as_fd());
    parent.make(name.as_bytes(), Access::Owner).map_err(Operation::Mkdir.failed()).map_err(at)?;
    parent.open(name.as_bytes()).map_err(|errno| match errno {
        Errno::LOOP | Errno::NOTDIR => {
            let shown = crate::display::escape(path.as_os_str().as_bytes());
            Error::new(Kind::DestinationFailed, format!("\"{shown}\" is a symbolic link or a file, not a directory"))
                .hint("shoal keeps its own files there and does not follow links: remove it")
        }
        errno => at(Operation::Open.failed()(errno)),
    })
}

/// Makes the destination's own name durable, and those of the directories above it, which this run may have created. A
/// directory that cannot be opened was not created by this run.
pub(super) fn sync_above(path: &Path) {
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
