//! The start of a session: checks published files, cuts open ones to their committed length, and removes what was not
//! committed. Also gives files their names.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use shoal_engine::display::escape;
use shoal_engine::fs::private::PrivateDir;
use shoal_engine::sink::{SinkState, Start, StateRow};
use shoal_engine::{Error, Kind, PARTS_DIR, Part, Result, SHOAL_DIR};

use super::earlier::Earlier;
use super::failure::io_failed;
use super::group::Format;
use super::mend::Place;
use super::state::{self, Changed, Complete, Placed, Row};
use super::withdrawn::WithdrawnNames;
use crate::read::dataset;
use crate::schema::{file_name, file_number};

const TMP: &str = "tmp";

/// What the start of a session found.
pub(super) struct Recovered {
    pub tmp: PathBuf,
    /// Changes of the state that are committed next.
    pub changes: Vec<StateRow>,
    pub earlier: Earlier,
    pub withdrawn: WithdrawnNames,
    /// Complete files that are not published.
    pub files: Vec<Complete>,
    /// The number of the next file.
    pub next: u64,
    pub notes: Vec<String>,
}

/// The directory of files that are not published. It is made if it is missing, and then survives a power cut.
pub(super) fn temporary_directory(mut own: PrivateDir, part: Option<Part>) -> Result<PathBuf> {
    if let Some(part) = part {
        own = own.create_in(PARTS_DIR.as_ref())?.create_in(part.index().to_string().as_ref())?;
    }
    Ok(own.create_in(TMP.as_ref())?.path().to_owned())
}

/// Looks whether the published files are there.
pub(super) fn look_again(path: &Path, part: Option<Part>, state: &dyn SinkState) -> Result<()> {
    let part = part.map(Part::index);
    let shoal = path.join(SHOAL_DIR);
    let tmp = part.map_or(shoal.clone(), |part| shoal.join(PARTS_DIR).join(part.to_string())).join(TMP);
    state.each(&mut |key, value| match state::read(key, value)? {
        Row::Published(number, file) => check_published(&path.join(file_name(part, number)), &tmp, &file),
        _ => Ok(()),
    })
}

pub(super) fn recover(
    path: &Path,
    part: Option<Part>,
    tmp: PathBuf,
    start: &Start,
    state: &dyn SinkState,
    format: &Format,
) -> Result<Recovered> {
    let part = part.map(Part::index);
    let (mut numbers, mut kept) = (HashSet::new(), HashSet::new());
    state.each(&mut |key, value| {
        match state::read(key, value)? {
            Row::Published(number, file) => {
                check_published(&path.join(file_name(part, number)), &tmp, &file)?;
                numbers.insert(number);
            }
            Row::Open(file) => {
                cut(&tmp.join(&file.temporary), file.length)?;
                kept.insert(file.temporary);
            }
            Row::Places { .. } | Row::Withdrawn(..) => {}
        }
        Ok(())
    })?;
    let removed = remove_others(&tmp, &kept)?;
    for name in names(path)? {
        let number = name.to_str().and_then(file_number);
        if number.is_some_and(|(of, number)| of == part && !numbers.contains(&number)) {
            let why = "the journal does not know this file: rows could be stored twice";
            return Err(Error::new(Kind::Config, why).on(&shown(&path.join(name))).hint("copy into a new directory"));
        }
    }
    let changes = Place { path, part, tmp: &tmp, format }.mend(state, &mut || false)?;
    let state = Changed { before: state, changes: changes.iter().cloned().collect() };
    let mut published: HashMap<String, u64> = HashMap::new();
    let (mut files, mut withdrawn, mut of_others) = (Vec::new(), Vec::new(), false);
    let mut places: Vec<(String, Box<[u8]>, Vec<Placed>)> = Vec::new();
    state.each(&mut |key, value| {
        match state::read(key, value)? {
            Row::Published(number, file) => _ = published.insert(file.temporary, number),
            Row::Open(file) => files.push(file),
            Row::Places { run: of, temporary, key, places: of_row, .. } if of == start.run => {
                places.push((temporary, key, of_row));
            }
            Row::Places { .. } => of_others = true,
            Row::Withdrawn(rows, _) => withdrawn.push(rows),
        }
        Ok(())
    })?;
    let is_new = start.frontier == 0 && places.is_empty();
    of_others |= is_new && !published.is_empty();
    let mut earlier = Earlier::new(start);
    for (temporary, key, of_row) in places {
        let place = match published.get(&temporary) {
            Some(number) => path.join(file_name(part, *number)),
            None => tmp.join(&temporary),
        };
        earlier.add(&place, key, &of_row);
    }
    let note = format!("{removed} incomplete files of an interrupted session were removed");
    let twice = "the directory also has rows of another job: names may be there twice; `shoal verify` finds them";
    let notes = (removed > 0).then_some(note).into_iter().chain(of_others.then(|| twice.to_owned())).collect();
    let next = numbers.into_iter().max().map_or(0, |last| last + 1);
    Ok(Recovered { tmp, changes, earlier, withdrawn: WithdrawnNames::new(withdrawn), files, next, notes })
}

/// A published file must be there with its length. If its name was not given yet, it is now.
fn check_published(place: &Path, tmp: &Path, file: &Complete) -> Result<()> {
    let length = |path: &Path| match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_failed("look at", path, &error)),
    };
    let temporary = tmp.join(&file.temporary);
    if (state::replaces(&file.temporary) || length(place)?.is_none()) && length(&temporary)?.is_some() {
        rename(&temporary, place)?;
    }
    match length(place)? {
        Some(length) if length == file.length => Ok(()),
        Some(length) => Err(damaged(place, &format!("it has {length} bytes, but was published with {}", file.length))),
        None => Err(damaged(place, "it was published, and is missing")),
    }
}

fn shown(path: &Path) -> String {
    escape(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))
}

pub(super) fn damaged(path: &Path, why: &str) -> Error {
    Error::new(Kind::DestinationFailed, why)
        .on(&shown(path))
        .hint("restore the file, or copy everything into a new directory")
}

/// Cuts an open file to what is committed.
fn cut(path: &Path, length: u64) -> Result<()> {
    let failed = |error: std::io::Error| io_failed("continue", path, &error);
    let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() < length {
        return Err(damaged(path, "it is shorter than what was committed"));
    }
    file.set_len(length).and_then(|()| file.sync_all()).map_err(failed)
}

fn remove_others(tmp: &Path, kept: &HashSet<String>) -> Result<usize> {
    let mut removed = 0;
    for name in names(tmp)? {
        if name.to_str().is_some_and(|name| name.starts_with("part-") && !kept.contains(name)) {
            let path = tmp.join(name);
            fs::remove_file(&path).map_err(|error| io_failed("remove", &path, &error))?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn names(directory: &Path) -> Result<Vec<OsString>> {
    dataset::names(directory).map_err(|errno| io_failed("list", directory, &errno.into()))
}

/// Gives files that the journal has as published their names, and removes open ones that others have replaced.
pub(super) fn publish(path: &Path, part: Option<Part>, tmp: &Path, rows: &[StateRow]) -> Result<()> {
    let mut renamed = false;
    for (key, value) in rows {
        let Some(value) = value else { continue };
        if let Row::Published(number, file) = state::read(key, value)? {
            rename(&tmp.join(&file.temporary), &path.join(file_name(part.map(Part::index), number)))?;
            renamed = true;
        }
    }
    for (key, value) in rows {
        if let (Some(temporary), None) = (state::open_name(key), value) {
            let _ = fs::remove_file(tmp.join(temporary)); // as the next start does
        }
    }
    if renamed {
        for directory in [path, tmp] {
            File::open(directory)
                .and_then(|directory| directory.sync_all())
                .map_err(|error| io_failed("sync", directory, &error))?;
        }
    }
    Ok(())
}

/// Replaces no file, unless the new one was written for that.
fn rename(from: &Path, to: &Path) -> Result<()> {
    let replaces = from.file_name().and_then(|name| name.to_str()).is_some_and(state::replaces);
    let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    renameat_with(CWD, from, CWD, to, flags).map_err(|errno| io_failed("put in place", to, &errno.into()))
}
