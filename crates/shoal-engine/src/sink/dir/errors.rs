//! The error texts of objects, with the object's name and the path that its file was to have. Not here: the texts of system
//! calls (`fs/error.rs`).

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::destination::Destination;
use super::directory::Directory;
use crate::error::{Error, Kind};
use crate::fs::error::{Doing, Trouble};
use crate::name::Name;

impl Destination {
    /// The error of an object that could not be written or looked up. `need` is the room for the rest of it, in bytes.
    pub(super) fn error(&self, trouble: Trouble, directory: &Directory, name: &Name, need: u64) -> Error {
        let path = self.path_of(&directory.join(name.split().1));
        let error = match (trouble.doing, trouble.errno) {
            // Nothing can be created in the destination, so every other flat name would fail in the same way.
            (Doing::Create | Doing::MakeDirectory, Errno::ACCESS) if directory.path.is_empty() => {
                trouble.of_run(&path, directory.dir.as_fd())
            }
            _ => trouble.at(&path, directory.dir.as_fd(), need),
        };
        error.on(&name.to_string())
    }

    /// The error of an object if the directory `path`, which is in `above`, could not be opened or created.
    pub(super) fn directory_error(&self, trouble: Trouble, above: &Directory, path: &[u8], name: &Name) -> Error {
        let component = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if matches!(trouble.errno, Errno::NOTDIR | Errno::LOOP) {
            let what = match above.dir.look(component) {
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
        let path = self.path_of(path);
        let error = match trouble.errno {
            Errno::ACCESS if above.path.is_empty() && trouble.doing == Doing::MakeDirectory => {
                trouble.of_run(&path, above.dir.as_fd())
            }
            _ => trouble.at(&path, above.dir.as_fd(), 0),
        };
        error.on(&name.to_string())
    }

    /// The error of an object that may not be created, because of what has its name.
    pub(super) fn refused(&self, kind: Kind, directory: &Directory, name: &Name, why: &str) -> Error {
        let path = self.shown(&directory.join(name.split().1));
        Error::new(kind, format!("cannot create \"{path}\": {why}")).on(&name.to_string())
    }

    /// The error of a name that the file system reports as free and as taken in turn.
    pub(super) fn undecided(&self, directory: &Directory, name: &Name) -> Error {
        let why = "the file system reports this name as taken and as free in turn";
        self.refused(Kind::NameConflict, directory, name, why)
    }
}

/// The error if the run has ended while an object waited to be written.
pub(super) fn stopped() -> Error {
    Error::new(Kind::Interrupted, "the run was stopped while an object waited to be written")
}
