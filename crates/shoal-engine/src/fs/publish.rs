//! One file at a path that the user named, whole or not at all.
//!
//! Here: [`publish`], which lets its caller fill a file without a name, or with a hidden one in the same directory, and
//! gives it the final name when it is whole. Not here: its contents (`shoal-encode`), the files of a run (`sink/dir/`).

use std::ffi::OsStr;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use super::dir::{Access, Dir, resolved};
use super::error::{FsError, Operation};
use super::random::random;
use super::{file, sync};
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// How often another hidden name is tried. Names are random, so one that is taken is no accident.
const TRIES: u32 = 8;
/// Bytes of the final name at the start of the hidden one: file systems allow 255 in all.
const NAME_PART: usize = 200;

/// Why a file was not put in place.
#[derive(Debug)]
pub enum Failed<E> {
    /// The file could not be created, written, made durable or named. The error has its path.
    File(Error),
    /// The function that fills the file has failed.
    Filling(E),
}

/// A file that is being filled.
#[derive(Debug)]
pub struct Unpublished {
    directory: Dir,
    file: Option<OwnedFd>,
    /// Its name, if it has one already. It is removed when this is dropped.
    hidden: Option<Vec<u8>>,
    /// The first failure.
    failed: Option<FsError>,
}

/// Lets `fill` write a file, and then moves it to `path`. An existing file stays until then, and the new one gets its
/// permissions. After an error nothing of the new one is left. `durable`: returns only when the file and its name would
/// survive a power cut.
///
/// A link to a file is followed. Two calls at once do not disturb each other; the last file stays.
///
/// # Errors
/// [`Failed::Filling`] with the error of `fill`. [`Failed::File`]: [`Kind::Config`] if no file can be at `path`;
/// [`Kind::DestinationFull`] and the other kinds of a failed destination, even if `fill` returned another error for it.
pub fn publish<T, E>(
    path: &Path,
    durable: bool,
    fill: impl FnOnce(&mut Unpublished) -> std::result::Result<T, E>,
) -> std::result::Result<T, Failed<E>> {
    file::survive_size_limit();
    let target = resolved(path);
    let (mut unpublished, name, mode) = begin(path, &target).map_err(Failed::File)?;
    let filled = fill(&mut unpublished);
    let told = |failed: FsError, unpublished: &Unpublished| Failed::File(told(failed, path, &unpublished.directory));
    if let Some(failed) = unpublished.failed {
        return Err(told(failed, &unpublished));
    }
    let filled = filled.map_err(Failed::Filling)?;
    match unpublished.put_in_place(name.as_bytes(), mode, durable) {
        Ok(()) => Ok(filled),
        Err(failed) => Err(told(failed, &unpublished)),
    }
}

/// Opens the directory and a new file in it. Returns the final name as well, and the permissions of the file that has it.
fn begin<'a>(path: &Path, target: &'a Path) -> Result<(Unpublished, &'a OsStr, Option<u32>)> {
    let refuse = |why: &str| {
        let shown = escape(path.as_os_str().as_bytes());
        Error::new(Kind::Config, format!("cannot write \"{shown}\": {why}"))
    };
    let name = target.file_name().ok_or_else(|| refuse("the path does not end in a file name"))?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = Dir::root(parent).map_err(|errno| match errno {
        Errno::NOENT => refuse("its directory does not exist").hint("create the directory first"),
        Errno::NOTDIR => refuse("its parent is a file, not a directory"),
        errno => refuse(&format!("its directory cannot be opened: {}", super::error::plain(errno))),
    })?;
    let mode = match directory.look(name.as_bytes()) {
        Ok(look) if look.kind.is_file() => Some(look.mode & 0o777),
        Ok(look) if look.kind.is_dir() => return Err(refuse("a directory has this name")),
        // Links have been followed: this one leads to nothing.
        Ok(look) if look.kind.is_symlink() => return Err(refuse("a dangling symbolic link has this name")),
        Ok(_) => return Err(refuse("it exists and is not a regular file")),
        Err(_) => None, // nothing has the name; anything else fails again when the file is created
    };
    let (file, hidden) = match create(&directory, name.as_bytes()) {
        Ok(created) => created,
        Err(failed) => return Err(told(failed, path, &directory)),
    };
    Ok((Unpublished { directory, file: Some(file), hidden, failed: None }, name, mode))
}

/// Creates a file without a name, which the kernel removes if the process dies; or with a hidden name, if the file system
/// does not support that.
fn create(directory: &Dir, name: &[u8]) -> std::result::Result<(OwnedFd, Option<Vec<u8>>), FsError> {
    match directory.nameless(Access::Usual) {
        // It gets its name through /proc, which a sandbox may lack.
        Ok(file) if Dir::root(Path::new("/proc/self/fd")).is_ok() => return Ok((file, None)),
        Ok(_) | Err(Errno::NOTSUP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {}
        Err(errno) => return Err(Operation::Create.failed()(errno)),
    }
    let mut turn = 1;
    loop {
        let hidden = hidden(name);
        match directory.create(&hidden, Access::Usual) {
            Ok(file) => return Ok((file, Some(hidden))),
            Err(Errno::EXIST) if turn < TRIES => turn += 1,
            Err(errno) => return Err(Operation::Create.failed()(errno)),
        }
    }
}

/// A hidden name that nothing has, for a file in the same directory.
fn hidden(name: &[u8]) -> Vec<u8> {
    let mut hidden = b".".to_vec();
    let mut end = name.len().min(NAME_PART);
    // Not within a character: file systems that allow only UTF-8 reject half of one.
    while end > 0 && name.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    hidden.extend_from_slice(&name[..end]);
    hidden.extend_from_slice(format!(".{:016x}.shoal", u64::from_ne_bytes(random())).as_bytes());
    hidden
}

/// The error. Unlike a run, this file cannot be resumed, so the hint is another one.
fn told(failed: FsError, path: &Path, directory: &Dir) -> Error {
    let error = failed.at(path, directory.as_fd(), 0);
    match error.kind() {
        Kind::DestinationFull => {
            let told = Error::new(error.kind(), error.why()).errno(error.os_error());
            told.hint("free some space, or write to another place; an existing file is unchanged")
        }
        _ => error,
    }
}

impl Unpublished {
    fn put_in_place(&mut self, name: &[u8], mode: Option<u32>, durable: bool) -> std::result::Result<(), FsError> {
        let Some(file) = self.file.take() else { return Err(Operation::Write.failed()(Errno::BADF)) };
        if let Some(mode) = mode {
            file::set_mode(file.as_fd(), mode)?;
        }
        if durable {
            file::sync(file.as_fd())?;
        }
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => {
                let hidden = hidden(name);
                self.directory.name(file.as_fd(), &hidden).map_err(Operation::Rename.failed())?;
                hidden
            }
        };
        let hidden = &*self.hidden.insert(hidden);
        file::close(file)?;
        self.directory.rename_over(hidden, &self.directory, name).map_err(Operation::Rename.failed())?;
        self.hidden = None;
        if durable { sync::sync_directory(&self.directory) } else { Ok(()) }
    }

    /// Uses the file, and keeps the first failure.
    fn with<T>(&mut self, act: impl FnOnce(&OwnedFd) -> std::result::Result<T, FsError>) -> io::Result<T> {
        let result = match &self.file {
            Some(file) => act(file),
            None => Err(Operation::Write.failed()(Errno::BADF)),
        };
        result.map_err(|failed| {
            self.failed.get_or_insert(failed);
            io::Error::from(failed.errno)
        })
    }
}

impl Write for Unpublished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|file| file::write_all(file.as_fd(), bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Unpublished {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => rustix::fs::SeekFrom::Start(at),
            SeekFrom::End(by) => rustix::fs::SeekFrom::End(by),
            SeekFrom::Current(by) => rustix::fs::SeekFrom::Current(by),
        };
        self.with(|file| rustix::fs::seek(file, to).map_err(Operation::Write.failed()))
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = self.directory.remove(hidden);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_name_is_never_cut_within_a_character() {
        for lead in 0..4 {
            let name = format!("{}{}", "x".repeat(lead), "\u{1f41f}".repeat(60));
            let hidden = String::from_utf8(hidden(name.as_bytes())).unwrap();
            assert!(hidden.as_bytes()[1..].starts_with(&name.as_bytes()[..NAME_PART - 3]), "{hidden}");
            assert!(hidden.len() <= 255, "{hidden}");
        }
        // What is not text is cut somewhere.
        assert!(hidden(&[0xff; 255]).len() <= 255);
        assert!(hidden(&[0x80; 255]).len() <= 255);
    }
}
