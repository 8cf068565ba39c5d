//! Makes symbolic links, which are never followed here, and further names of a file. Not here: what is done about what has the
//! name (`existing.rs`).

use rustix::io::Errno;

use super::attributes::Attributes;
use super::existing::{Content, Existing, TURNS};
use super::lost::What;
use super::target::Target;
use super::temp_name::random_file_name;
use crate::error::Result;
use crate::fs::dir::Dir;
use crate::fs::error::{FsError, Operation};
use crate::object::ObjectMeta;
use crate::sink::collision::Decision;
use crate::sink::{Mode, Put};

/// Temporary names tried before giving up; one in 2^64 is taken.
const TRIES: u32 = 8;

/// Makes a symbolic link. It has its name at once, since no kill leaves half of one.
pub(super) fn write(target: Target<'_>, text: &[u8], attributes: &Attributes, mode: Mode) -> Result<Put> {
    let Target { destination, directory, .. } = target;
    let at = |failed: FsError| target.error(failed, 0);
    let make = |dir: &Dir, name: &[u8]| {
        dir.make_link(text, name).map_err(|errno| match errno {
            // A file system without links.
            Errno::NOSYS | Errno::NOTSUP => Operation::Link.failed()(Errno::NOTSUP),
            errno => Operation::Create.failed()(errno),
        })?;
        attributes.set_of_link(dir, name, destination)
    };
    for _ in 0..TURNS {
        target.destination.wait_for_lease()?;
        match make(&directory.dir, target.leaf()) {
            Ok(()) => return Ok(Put::Written),
            Err(failed) if failed.errno == Errno::EXIST => {}
            Err(failed) => {
                let error = at(failed);
                if !matches!(failed.operation, Operation::Create | Operation::Link) {
                    let _ = directory.dir.remove(target.leaf());
                }
                return Err(error);
            }
        }
        let look = || target.existing(mode, Content::Link(text), attributes);
        let existing = match look()? {
            Existing::Replace => target.replace_alone(look, || replace_by(target, make).map_err(at))?,
            existing => existing,
        };
        if let Existing::There(put) = existing {
            return Ok(put);
        }
    }
    Err(target.undecided())
}

/// Makes the name of an object another name of the file `to`, if that is the one which this run has written with the size and
/// time in `meta`. `None` if it is not, or cannot have another name.
pub(super) fn join(target: Target<'_>, to: Target<'_>, meta: &ObjectMeta, mode: Mode) -> Result<Option<Put>> {
    let Target { destination, directory, .. } = target;
    let at = |failed: FsError| target.error(failed, 0);
    target.destination.wait_for_lease()?;
    let Ok(file) = to.directory.dir.look(to.leaf()) else { return Ok(None) };
    let has_size_and_time = file.kind.is_file()
        && meta.size == Some(file.size)
        && !Attributes::of(meta, destination.keep_times).has_other_time(&file);
    if !has_size_and_time || !to.is_current(&file, meta.changed) {
        return Ok(None);
    }
    let make =
        |dir: &Dir, name: &[u8]| to.directory.dir.add_name(to.leaf(), dir, name).map_err(Operation::Create.failed());
    let joined = match make(&directory.dir, target.leaf()) {
        Err(failed) if failed.errno == Errno::EXIST => {
            let Ok(look) = directory.dir.look(target.leaf()) else { return Ok(None) };
            if look.id == file.id {
                return Ok(Some(Put::Kept));
            }
            let times = destination.times(&look);
            // What must stay is told where the file is written.
            match target.other_kind(&look, times, Content::Bytes(&[])) {
                Err(_) => return Ok(None),
                Ok(Some(Existing::Free)) => make(&directory.dir, target.leaf()),
                Ok(Some(_)) => replace_by(target, make),
                Ok(None) if target.is_respelled()? => return Ok(None),
                Ok(None) => match destination.rules.decide(&destination.sessions, times, mode, true, &|| false) {
                    Decision::Replace => replace_by(target, make),
                    Decision::Second | Decision::Exists => return Ok(None),
                },
            }
        }
        made => made,
    };
    match joined {
        Ok(()) => Ok(Some(Put::Written)),
        Err(FsError { errno: Errno::MLINK | Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::XDEV, .. }) => {
            destination.lost.if_strict(What::HardLink).map_err(at)?;
            Ok(None) // and counted, if it becomes a file of its own
        }
        Err(failed) => Err(at(failed)),
    }
}

/// Replaces what has the name of an object by what `make` makes under a temporary name.
fn replace_by(target: Target<'_>, make: impl Fn(&Dir, &[u8]) -> Result<(), FsError>) -> Result<(), FsError> {
    let Target { destination, directory, .. } = target;
    let mut dir = if directory.on_other_mount { &directory.dir } else { &destination.tmp };
    let mut turn = 1;
    loop {
        let name = random_file_name();
        match make(dir, &name) {
            Ok(()) => {}
            Err(failed) if failed.errno == Errno::EXIST && turn < TRIES => {
                turn += 1;
                continue;
            }
            Err(failed) => {
                let _ = dir.remove(&name);
                return Err(failed);
            }
        }
        match dir.rename_over(&name, &directory.dir, target.leaf()) {
            Ok(()) => return Ok(()),
            Err(errno) => {
                let _ = dir.remove(&name);
                // One file system, but a rename is not possible: a bind mount on an old kernel, a project quota.
                if errno != Errno::XDEV || std::ptr::eq(dir, &directory.dir) {
                    return Err(Operation::Rename.failed()(errno));
                }
                dir = &directory.dir;
            }
        }
    }
}
