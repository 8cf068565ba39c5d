//! The files of a dataset: those of a directory with names that end in `.parquet`, in order of name. Hidden files and
//! subdirectories are not among them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, DirEntry, Mode, OFlags};
use rustix::io::Errno;
use shoal_engine::display::escape;
use shoal_engine::{Error, Kind};

use super::fault::Result;
use super::file::{Facts, unreadable};
use super::missing::Lacking;

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Absolute.
    pub path: Box<[u8]>,
    pub facts: Facts,
}

/// The directory by its absolute path, free of links.
///
/// # Errors
/// [`Kind::Config`] if it is not a directory that can be opened.
pub fn directory(path: &Path) -> Result<PathBuf, Error> {
    if path.as_os_str().is_empty() {
        return Err(Error::new(Kind::Config, "parquet: needs a directory").hint("as in parquet:out/"));
    }
    let failed = |errno: Errno| {
        let why = match errno {
            Errno::NOENT => "no such file or directory".to_owned(),
            Errno::NOTDIR => "not a directory".to_owned(),
            errno => format!("cannot open it: {}", std::io::Error::from(errno).to_string().to_lowercase()),
        };
        let error = Error::new(Kind::Config, why).on(&escape(path.as_os_str().as_bytes()));
        error.errno(Some(errno.raw_os_error()))
    };
    open(path).map_err(failed)?;
    std::fs::canonicalize(path).map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))
}

fn open(path: &Path) -> std::result::Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?;
    Dir::new(fd)
}

/// The names in a directory. (The standard library panics if closing one fails, as on a network file system.)
pub fn names(path: &Path) -> std::result::Result<Vec<OsString>, Errno> {
    let name = |entry: DirEntry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
    let names = open(path)?.map(|entry| entry.map(name)).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(names.into_iter().filter(|name| name != "." && name != "..").collect())
}

/// All files that are there now, sorted; at least one.
///
/// # Errors
/// [`Kind::Config`] if there is none. Others if the directory cannot be read.
pub fn files(directory: &Path) -> Result<Vec<Found>, Error> {
    let on = escape(directory.as_os_str().as_bytes());
    let found = regular(directory).map_err(|fault| fault.to_error().on(&on))?;
    if found.is_empty() {
        let why = "no file in this directory ends in .parquet";
        let error = Error::new(Kind::Config, why).on(&on).errno(Some(Errno::NOENT.raw_os_error()));
        let why = Lacking::of(directory, &[]).why();
        return Err(if why.is_empty() { error } else { error.hint(why) });
    }
    Ok(found)
}

fn regular(directory: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for name in names(directory).map_err(unreadable)? {
        if name.as_bytes().starts_with(b".") || !name.as_bytes().ends_with(b".parquet") {
            continue;
        }
        let path = directory.join(name);
        let facts = match Facts::of_path(&path) {
            Ok(Some(facts)) => facts,
            Ok(None) => continue,
            Err(fault) if fault.is_general() => return Err(fault),
            Err(_) => Facts::default(), // a link to nothing, for example: opening it says why
        };
        found.push(Found { path: path.into_os_string().as_bytes().into(), facts });
    }
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}
