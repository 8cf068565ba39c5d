//! The files of a dataset: those of a directory with names that end in `.parquet`, in order of name. Hidden files and
//! subdirectories are not among them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use shoal_engine::display::escape;
use shoal_engine::{Error, Kind, PARTS_DIR, SHOAL_DIR, journal};

use super::fault::Result;
use super::file::{Facts, unreadable};

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

/// A note if the directory has files that a copy into it has not finished: their rows are not part of the dataset yet.
pub fn unfinished(directory: &Path) -> Option<String> {
    let own = directory.join(SHOAL_DIR);
    let parts = std::fs::read_dir(own.join(PARTS_DIR)).into_iter().flatten().flatten().map(|part| part.path());
    let files = |own: PathBuf| std::fs::read_dir(own.join("tmp")).map_or(0, Iterator::count);
    let count = [own.clone()].into_iter().chain(parts).map(files).sum::<usize>();
    let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let why = "not finished, and not read: run the copy into this directory again to finish it";
    let place = if own.join(PARTS_DIR).exists() { PARTS_DIR } else { "tmp" };
    let unfinished = (count > 0).then(|| format!("{files} in {SHOAL_DIR}/{place} {why}"));
    // Of a part that has not begun, no file tells.
    let parts = journal::parts(directory).ok().flatten().and_then(|job| {
        let complete = job.parts.iter().filter(|part| part.is_complete()).count();
        let total = job.count as usize;
        (complete < total)
            .then(|| format!("{complete} of {total} parts are complete: the rows of the others are missing"))
    });
    let notes: Vec<String> = unfinished.into_iter().chain(parts).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
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
        return Err(match unfinished(directory) {
            Some(note) => error.hint(note),
            None => error,
        });
    }
    Ok(found)
}

fn regular(directory: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in open(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(b".") || !name.ends_with(b".parquet") {
            continue;
        }
        let path = directory.join(OsStr::from_bytes(name));
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
