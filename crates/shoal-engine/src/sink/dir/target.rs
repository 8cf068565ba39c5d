//! `Target`: the file of an object, and the error texts of objects. Not here: the texts of system calls
//! (`fs/error.rs`), writing the file (`whole_object.rs`, `stream.rs`).

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::destination::Destination;
use super::directory::Directory;
use crate::error::{Error, Kind};
use crate::fs::error::{FsError, Operation};
use crate::name::Name;

/// The file of an object.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub destination: &'a Arc<Destination>,
    /// The directory of the file.
    pub directory: &'a Arc<Directory>,
    /// The name of the object. Its last component is the name of the file.
    pub name: &'a Name,
}

impl<'a> Target<'a> {
    /// The name of the file in its directory.
    pub fn leaf(self) -> &'a [u8] {
        self.name.split().1
    }

    /// The error of a failed system call. `need` is the number of bytes that were to be written.
    pub fn error(self, failed: FsError, need: u64) -> Error {
        let Target { destination, directory, name } = self;
        let path = destination.path_of(&directory.join(self.leaf()));
        let error = match (failed.operation, failed.errno) {
            // Nothing can be created in the destination, so every other flat name would fail in the same way.
            (Operation::Create | Operation::Mkdir, Errno::ACCESS) if directory.path.is_empty() => {
                failed.of_run(&path, directory.dir.as_fd())
            }
            _ => failed.at(&path, directory.dir.as_fd(), need),
        };
        error.on(&name.to_string())
    }

    /// The error of a file that may not be created.
    pub fn refused(self, kind: Kind, why: &str) -> Error {
        let path = self.destination.shown(&self.directory.join(self.leaf()));
        Error::new(kind, format!("cannot create \"{path}\": {why}")).on(&self.name.to_string())
    }

    /// The error of a name that the file system reports as free and as taken in turn.
    pub fn undecided(self) -> Error {
        self.refused(Kind::NameConflict, "the file system reports this name as taken and as free in turn")
    }
}

impl Destination {
    /// The error of the object `name` if the directory `path`, which is in `above`, could not be opened or created.
    pub fn directory_error(&self, failed: FsError, above: &Directory, path: &[u8], name: &Name) -> Error {
        let component = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if matches!(failed.errno, Errno::NOTDIR | Errno::LOOP) {
            let what = match above.dir.look(component) {
                Ok(look) if look.kind.is_symlink() => "a symbolic link",
                Ok(look) if look.kind.is_dir() && failed.errno == Errno::LOOP => {
                    "shoal's own directory, by another name,"
                }
                Ok(look) if look.kind.is_dir() => "a directory that is spelled differently",
                _ => "a file",
            };
            let why = format!("{what} is where the directory \"{}\" should be", self.shown(path));
            let error = Error::new(Kind::NameConflict, why).errno(Some(failed.errno.raw_os_error()));
            return error.hint("move it away, then run the same command again").on(&name.to_string());
        }
        let path = self.path_of(path);
        let error = match failed.errno {
            Errno::ACCESS if above.path.is_empty() && failed.operation == Operation::Mkdir => {
                failed.of_run(&path, above.dir.as_fd())
            }
            _ => failed.at(&path, above.dir.as_fd(), 0),
        };
        error.on(&name.to_string())
    }
}
