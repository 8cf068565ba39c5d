//! From `errno` to [`Error`]: what was attempted, on which path, why it failed, and what to do next.
//!
//! Here: [`FsError`], a failed system call, and the one table that makes it an error. Not here: which errors are retried
//! (`shoal-core` decides by kind).

use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use super::space::free;
use crate::display::escape;
use crate::error::{Class, Error, Kind};

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Opening a directory.
    Open,
    /// Making a directory.
    Mkdir,
    /// Creating a file.
    Create,
    /// Reading what has a name, or its file system.
    Stat,
    /// Writing bytes.
    Write,
    /// Setting its permissions.
    Chmod,
    /// Setting its user and group.
    Chown,
    /// Reading or setting its extended attributes.
    Xattr,
    /// Setting the time of its last change.
    Utimens,
    /// Closing a file.
    Close,
    /// Making a file or directory durable.
    Fsync,
    /// Making a link.
    Link,
    /// Giving a temporary file its final name.
    Rename,
}

impl Operation {
    /// Names what a failed call was for.
    pub(crate) fn failed(self) -> impl Fn(Errno) -> FsError {
        move |errno| FsError { operation: self, errno }
    }

    fn words(self) -> &'static str {
        match self {
            Operation::Open => "cannot open",
            Operation::Mkdir => "cannot create the directory",
            Operation::Create => "cannot create",
            Operation::Stat => "cannot look at",
            Operation::Write => "cannot write",
            Operation::Chmod => "cannot set the permissions of",
            Operation::Chown => "cannot set the owner of",
            Operation::Xattr => "cannot set the attributes of",
            Operation::Utimens => "cannot set the modification time of",
            Operation::Close => "cannot finish writing",
            Operation::Fsync => "cannot make durable",
            Operation::Link => "cannot make the link",
            Operation::Rename => "cannot put in place",
        }
    }

    fn is_of_attributes(self) -> bool {
        matches!(self, Operation::Chown | Operation::Chmod | Operation::Utimens | Operation::Xattr | Operation::Link)
    }

    fn adds_a_name(self) -> bool {
        matches!(self, Operation::Mkdir | Operation::Create | Operation::Rename)
    }
}

/// A failed system call, without the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FsError {
    /// What the call was for.
    pub operation: Operation,
    /// What it returned.
    pub errno: Errno,
}

impl FsError {
    /// The error for `path`, on the same file system as `nearby`. `need`: bytes that were to be written.
    pub(crate) fn at(self, path: &Path, nearby: BorrowedFd<'_>, need: u64) -> Error {
        let shown = escape(path.as_os_str().as_bytes());
        let (why, hint) = match self.errno {
            Errno::NOSPC | Errno::DQUOT | Errno::MLINK => self.full(nearby, need),
            _ => (self.words(), self.advice()),
        };
        let error = Error::new(self.kind(), format!("{} \"{shown}\": {why}", self.operation.words()))
            .errno(Some(self.errno.raw_os_error()));
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// The same for the destination itself when a run begins: the run cannot start there.
    pub(crate) fn at_start(self, path: &Path, nearby: BorrowedFd<'_>) -> Error {
        raised(self.at(path, nearby, 0), Kind::Config)
    }

    /// The same for the destination itself later in the run.
    pub(crate) fn of_run(self, path: &Path, nearby: BorrowedFd<'_>) -> Error {
        raised(self.at(path, nearby, 0), Kind::DestinationFailed)
    }

    fn kind(self) -> Kind {
        match self.errno {
            Errno::NOSPC | Errno::DQUOT | Errno::MLINK => Kind::DestinationFull,
            Errno::ROFS => Kind::DestinationReadOnly,
            Errno::FBIG | Errno::OVERFLOW => Kind::TooLarge,
            Errno::MFILE | Errno::NFILE => Kind::OutOfFiles,
            Errno::ACCESS | Errno::PERM => Kind::Denied,
            Errno::NAMETOOLONG => Kind::NameTooLong,
            Errno::NOTSUP if self.operation.is_of_attributes() => Kind::Attribute,
            Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV => Kind::NameConflict,
            // How vfat, NTFS and case-folding directories reject a name that other file systems allow.
            Errno::INVAL | Errno::ILSEQ if self.operation.adds_a_name() => Kind::Denied,
            _ => Kind::DestinationFailed,
        }
    }

    fn words(self) -> String {
        match self.errno {
            Errno::ROFS => "the file system is read-only".into(),
            Errno::FBIG | Errno::OVERFLOW => {
                "the file is larger than the file system or a limit of this process permits".into()
            }
            Errno::MFILE => "this process has no file descriptors left".into(),
            Errno::NFILE => "this machine has no file descriptors left".into(),
            Errno::NAMETOOLONG => "the name is too long for the file system".into(),
            Errno::NOTDIR => "a file or a symbolic link is where a directory should be".into(),
            Errno::ISDIR => "a directory has this name".into(),
            Errno::LOOP => "a symbolic link has this name".into(),
            Errno::XDEV => "it is on another file system".into(),
            Errno::NOENT => "its directory no longer exists".into(),
            Errno::NOTSUP if self.operation.is_of_attributes() => "this file system or this user cannot keep it".into(),
            Errno::INVAL | Errno::ILSEQ if self.operation.adds_a_name() => "the file system does not allow this \
            name"
                .into(),
            errno => plain(errno),
        }
    }

    fn advice(self) -> Option<String> {
        match self.errno {
            Errno::MFILE => Some("raise the limit with ulimit -n, or use fewer workers".into()),
            Errno::IO | Errno::ROFS => Some("check the kernel log (dmesg), then run the same command again".into()),
            Errno::NOENT => Some("was the destination removed or unmounted?".into()),
            Errno::FBIG => Some("check ulimit -f".into()),
            Errno::NOTSUP if self.operation.is_of_attributes() => {
                Some("run as root, or leave out `strict_attributes=True`, which makes it a note".into())
            }
            _ => None,
        }
    }

    /// Why there is no space: blocks, inodes, quota, or a directory that takes no more names.
    fn full(self, nearby: BorrowedFd<'_>, need: u64) -> (String, Option<String>) {
        let needed = match need {
            0 => String::new(),
            bytes => format!(", {bytes} bytes needed"),
        };
        let resume = Some("free some space, then run the same command again: it continues".into());
        let Ok(free) = free(nearby) else {
            return (format!("no space left{needed}"), resume);
        };
        let why = match self.errno {
            Errno::DQUOT => format!("the disk quota is exceeded{needed}"),
            _ if free.bytes == 0 || free.bytes < need => {
                format!("no space left: {} bytes free{needed}", free.bytes)
            }
            _ if free.inodes == Some(0) => {
                format!("no inodes left, though {} bytes are free{needed}", free.bytes)
            }
            _ if self.operation.adds_a_name() => {
                let inodes = match free.inodes {
                    Some(count) => format!(" and {count} inodes"),
                    None => String::new(),
                };
                let why = format!("its directory is full, though {} bytes{inodes} are free", free.bytes);
                let hint = "too many names in one directory fill its index: to pack objects into few files, use the \
                destination \"parquet:DIR\"";
                return (why, Some(hint.into()));
            }
            _ => format!("no space left, though {} bytes seem free{needed}", free.bytes),
        };
        (why, resume)
    }
}

/// The error as one that ends the run, whatever it would mean for one object. `conflict`: the kind if something else has
/// the path.
fn raised(error: Error, conflict: Kind) -> Error {
    let kind = match error.kind() {
        Kind::Denied => Kind::DestinationReadOnly,
        Kind::NameConflict | Kind::NameTooLong => conflict,
        kind if kind.class() == Class::Run => return error,
        _ => Kind::DestinationFailed,
    };
    let raised = Error::new(kind, error.why()).errno(error.os_error());
    match error.advice() {
        Some(hint) => raised.hint(hint),
        None => raised,
    }
}

/// The system's message in lower case and without the number, which the error has anyway.
pub(crate) fn plain(error: impl Into<std::io::Error>) -> String {
    let text = error.into().to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn error(operation: Operation, errno: Errno) -> Error {
        let nearby = super::super::dir::Dir::root(Path::new("/")).unwrap();
        FsError { operation, errno }.at(Path::new("/there/x\x1b"), nearby.as_fd(), 100)
    }

    #[test]
    fn every_errno_names_the_path_and_the_reason() {
        for (errno, kind) in [
            (Errno::NOSPC, Kind::DestinationFull),
            (Errno::DQUOT, Kind::DestinationFull),
            (Errno::ROFS, Kind::DestinationReadOnly),
            (Errno::IO, Kind::DestinationFailed),
            (Errno::NOENT, Kind::DestinationFailed),
            (Errno::FBIG, Kind::TooLarge),
            (Errno::MFILE, Kind::OutOfFiles),
            (Errno::NFILE, Kind::OutOfFiles),
            (Errno::ACCESS, Kind::Denied),
            (Errno::PERM, Kind::Denied),
            (Errno::NAMETOOLONG, Kind::NameTooLong),
            (Errno::NOTDIR, Kind::NameConflict),
            (Errno::ISDIR, Kind::NameConflict),
            (Errno::LOOP, Kind::NameConflict),
            (Errno::XDEV, Kind::NameConflict),
        ] {
            let error = error(Operation::Create, errno);
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.os_error(), Some(errno.raw_os_error()));
            assert!(error.why().starts_with("cannot create \"/there/x\\x1b\": "), "{error}");
        }
    }

    #[test]
    fn a_refused_name_is_the_objects_fault_but_a_refused_write_is_not() {
        assert_eq!(error(Operation::Create, Errno::INVAL).kind(), Kind::Denied);
        assert_eq!(error(Operation::Write, Errno::INVAL).kind(), Kind::DestinationFailed);
    }

    #[test]
    fn at_the_start_no_object_is_to_blame() {
        let nearby = super::super::dir::Dir::root(Path::new("/")).unwrap();
        for errno in [Errno::ACCESS, Errno::NOTDIR, Errno::MFILE, Errno::IO, Errno::NOSPC] {
            let failed = FsError { operation: Operation::Create, errno };
            for error in [
                failed.at_start(Path::new("/there"), nearby.as_fd()),
                failed.of_run(Path::new("/there"), nearby.as_fd()),
            ] {
                assert_eq!(error.class(), Class::Run, "{error}");
                assert_eq!(error.os_error(), Some(errno.raw_os_error()));
            }
        }
    }
}
