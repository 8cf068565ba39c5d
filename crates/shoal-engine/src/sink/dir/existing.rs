//! What to do where a name is taken: the file that has it is looked at, and compared with the object.
//!
//! Nothing is looked at before a name proves to be taken, so that the usual path pays nothing. Not here: what follows
//! from times and bytes (`sink/collision.rs`), directories of partitions (`partition.rs`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;
use std::time::{Duration, UNIX_EPOCH};

use rustix::io::Errno;

use super::attributes::Attributes;
use super::destination::Destination;
use super::directory::Directory;
use super::temp_file::TempFile;
use crate::error::{Kind, Result};
use crate::fs::dir::Look;
use crate::fs::error::{Doing, Trouble};
use crate::fs::file;
use crate::fs::read::step;
use crate::fs::sync::Barrier;
use crate::name::Name;
use crate::object::{ObjectMeta, Put};
use crate::session::{Twice, Whose, local_clock};
use crate::sink::Mode;
use crate::sink::collision::{Decision, SameBytes, is_done, same_bytes};

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// How often a name may be free and taken in turn. Some network file systems contradict themselves for ever.
pub(super) const TURNS: u32 = 100;

/// A file that another lane may be writing is looked at again and again until it has been left alone for so long, by the
/// destination's clock: a file under its own name is written at once.
const LEFT_ALONE: i64 = SECOND;
const GROWING_PAUSE: Duration = Duration::from_millis(2);
/// How often it is looked at without a change, wherever the clock goes.
const GROWING_TURNS: u32 = 500;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// The name is free again.
    Free,
    /// The bytes are there.
    There(Put),
    /// They are, in a file of before this pass, which is to show that this object was found to have them.
    Found,
    /// Replace what is there.
    Replace,
    /// This session's, last changed then, and the beginning of the object: another lane may be writing it just now.
    Growing(i64),
}

/// What is known of the object's bytes.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Bytes(&'a [u8]),
    /// A sealed temporary file.
    TempFile(&'a TempFile),
    /// Not fetched yet; its size, if known.
    Unfetched(Option<u64>),
}

impl Destination {
    /// What to do about the file that has this name, of an object that is to have these attributes.
    ///
    /// # Errors
    /// [`Kind::Exists`]; [`Kind::NameConflict`] for what is not a file, is spelled in another way, or is another object of
    /// this run; [`Kind::Repeated`] likewise.
    pub(super) fn existing(
        &self,
        directory: &Directory,
        name: &Name,
        mode: Mode,
        content: Content<'_>,
        attributes: Attributes,
    ) -> Result<Existing> {
        let (mut now, mut last, mut turns) = (i64::MIN, None, 0);
        loop {
            match self.look_at(directory, name, mode, content, attributes)? {
                Existing::Growing(changed) => {
                    turns = if last == Some(changed) { turns + 1 } else { 0 };
                    last = Some(changed);
                    if now.saturating_sub(changed) > LEFT_ALONE || turns == GROWING_TURNS {
                        return Err(self.rules.second().on(&name.to_string()));
                    }
                }
                existing => return Ok(existing),
            }
            if now > i64::MIN {
                std::thread::sleep(GROWING_PAUSE);
            }
            now = self.now()?.unwrap_or_else(local_clock); // before the next look: what is written after it is seen there
        }
    }

    fn look_at(
        &self,
        directory: &Directory,
        name: &Name,
        mode: Mode,
        content: Content<'_>,
        attributes: Attributes,
    ) -> Result<Existing> {
        if let (Some(writing), Content::Bytes(_) | Content::TempFile(_)) = (&self.writing, content) {
            writing.wait(name);
        }
        let leaf = name.split().1;
        let failed = |errno| self.error(Doing::Look.failed()(errno), directory, name, 0);
        let look = match directory.dir.look(leaf) {
            Ok(look) => look,
            Err(Errno::NOENT) => return Ok(Existing::Free),
            Err(errno) => return Err(failed(errno)),
        };
        if let Some(what) = not_a_file(&look) {
            return Err(self.refused(Kind::NameConflict, directory, name, what));
        }
        if self.folds(directory).map_err(failed)? && !directory.dir.has_entry(leaf).map_err(failed)? {
            let why = "on this file system the name is the same as that of another file, which is spelled differently";
            return Err(self.refused(Kind::NameConflict, directory, name, why));
        }
        let times = self.times(&look);
        if let Some(file) = self.same(directory, leaf, &look, content) {
            // Of several objects of one name, those of the first stay.
            let alone = self.rules.twice == Twice::SameObject;
            let differ = || attributes.differ(&look, self.file_mode);
            let put = match same_bytes(&self.sessions, self.rules, times, mode) {
                _ if directory.unpublished => Put::Duplicate,
                SameBytes::Kept if alone && differ() => return Ok(Existing::Replace),
                SameBytes::Found if differ() => return Ok(Existing::Replace),
                SameBytes::Present => Put::Duplicate,
                SameBytes::Kept => Put::Kept,
                SameBytes::Found => return Ok(Existing::Found),
                SameBytes::Rewrite => return Ok(Existing::Replace),
            };
            if directory.barrier == Barrier::Each {
                file::sync(file.as_fd()).map_err(|trouble| self.error(trouble, directory, name, 0))?;
            }
            return Ok(Existing::There(put));
        }
        if matches!(content, Content::Unfetched(size) if size.is_none_or(|size| size == look.size)) {
            return Ok(Existing::Free); // its bytes will tell
        }
        let decision = match directory.unpublished {
            true => Decision::Second,
            false => {
                let begins = || self.begins(directory, leaf, &look, content);
                self.rules.decide(&self.sessions, times, mode, attributes.modified.is_some(), &begins)
            }
        };
        let is_this = directory.unpublished || self.sessions.whose(times.born, times.changed) == Whose::This;
        match decision {
            Decision::Replace => Ok(Existing::Replace),
            Decision::Second if is_this && matches!(content, Content::Unfetched(_)) => Ok(Existing::Free), // its bytes will tell
            Decision::Second if is_this && self.writing.is_none() && self.begins(directory, leaf, &look, content) => {
                Ok(Existing::Growing(times.changed))
            }
            Decision::Second => Err(self.rules.second().on(&name.to_string())),
            Decision::Exists => {
                let why = "a file of this name exists, which this run did not write or which was changed since";
                Err(self.refused(Kind::Exists, directory, name, why).hint(
                    "move it away and run again with `resume=\"failed\"`, or add `overwrite=\"always\"` to replace it",
                ))
            }
        }
    }

    /// Replaces a file, unless another lane was first with another object of this name: `look` looks once more.
    pub(super) fn replace_alone(
        &self,
        look: impl FnOnce() -> Result<Existing>,
        replace: impl FnOnce() -> Result<()>,
    ) -> Result<Existing> {
        let alone = match self.rules.twice {
            Twice::SameObject => None, // whichever comes last is as good
            _ => Some(self.replacing.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        if alone.is_some() {
            match look()? {
                Existing::Replace => {}
                existing => return Ok(existing),
            }
        }
        replace().map(|()| Existing::There(Put::Written))
    }

    /// Lets a file show that an object was found to have its bytes, unless another lane was first to replace it: `look` looks
    /// once more.
    pub(super) fn find_alone(
        &self,
        look: impl FnOnce() -> Result<Existing>,
        directory: &Directory,
        name: &Name,
    ) -> Result<Existing> {
        let _alone = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        match look()? {
            Existing::Found => {}
            existing => return Ok(existing),
        }
        let at = |trouble: Trouble| self.error(trouble, directory, name, 0);
        let file = directory.dir.read(name.split().1).map_err(Doing::Open.failed()).map_err(at)?;
        file::stir(file.as_fd()).map_err(at)?;
        if directory.barrier == Barrier::Each {
            file::sync(file.as_fd()).map_err(at)?;
        }
        Ok(Existing::There(Put::Kept))
    }

    /// The object's size, if an earlier session left it here with the size and time that `meta` says, and its source has
    /// not changed since.
    pub(super) fn is_done(
        &self,
        directory: &Directory,
        name: &Name,
        meta: &mut dyn FnMut() -> Option<ObjectMeta>,
    ) -> Result<Option<u64>> {
        if directory.is_new {
            return Ok(None);
        }
        let leaf = name.split().1;
        let failed = |errno| self.error(Doing::Look.failed()(errno), directory, name, 0);
        let look = match directory.dir.look(leaf) {
            Ok(look) => look,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let Some(ObjectMeta { size: Some(size), last_modified: Some(modified), changed, .. }) = meta() else {
            return Ok(None);
        };
        // The time as it was set, which no clock has stamped; or as a file system without nanoseconds keeps it, where the
        // source can tell that nothing has changed since.
        let is_near = |time: i64| i128::from(time.abs_diff(look.written)) < step(look.written.into());
        let same_time =
            file::stamp(modified).is_some_and(|time| time == look.written || changed.is_some() && is_near(time));
        let same = look.kind.is_file() && look.size == size && same_time;
        let each = directory.barrier == Barrier::Each;
        if !same || !is_done(&self.sessions, self.rules, self.times(&look), changed, each) {
            return Ok(None);
        }
        if self.folds(directory).map_err(failed)? && !directory.dir.has_entry(leaf).map_err(failed)? {
            return Ok(None);
        }
        if each {
            let Ok(file) = directory.dir.read(leaf) else { return Ok(None) };
            file::sync(file.as_fd()).map_err(|trouble| self.error(trouble, directory, name, 0))?;
        }
        Ok(Some(size))
    }

    /// Size and time of a file that an earlier session left here, if its source has said that time.
    ///
    /// That is seen in the file: whole seconds, which lie before it came into being. What a file system stamps by itself does
    /// not.
    pub(super) fn kept(&self, directory: &Directory, name: &Name) -> Result<Option<ObjectMeta>> {
        if directory.is_new {
            return Ok(None);
        }
        let look = match directory.dir.look(name.split().1) {
            Ok(look) => look,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.error(Doing::Look.failed()(errno), directory, name, 0)),
        };
        let is_set = look.written % SECOND == 0 && look.born.is_some_and(|born| look.written < born - 2 * SECOND);
        let each = directory.barrier == Barrier::Each;
        if !look.kind.is_file() || !is_set || !is_done(&self.sessions, self.rules, self.times(&look), None, each) {
            return Ok(None);
        }
        let since = u64::try_from(look.written).ok().map(Duration::from_nanos);
        let last_modified = since.and_then(|since| UNIX_EPOCH.checked_add(since));
        Ok(last_modified.map(|time| ObjectMeta {
            size: Some(look.size),
            last_modified: Some(time),
            ..ObjectMeta::default()
        }))
    }

    /// The file, if it holds the same bytes. One that cannot be read does not.
    fn same(&self, directory: &Directory, leaf: &[u8], look: &Look, content: Content<'_>) -> Option<OwnedFd> {
        let open = || directory.dir.read(leaf).ok();
        match content {
            Content::Bytes(bytes) if look.size == bytes.len() as u64 => {
                open().filter(|file| file::holds(file.as_fd(), bytes).unwrap_or(false))
            }
            Content::TempFile(temp) if temp.size() == look.size => {
                let (file, written) = (open()?, temp.read()?);
                file::begins(file.as_fd(), written.as_fd()).unwrap_or(false).then_some(file)
            }
            _ => None,
        }
    }

    /// Whether the file holds the beginning of the object: what a kill leaves of one. One that cannot be read may.
    fn begins(&self, directory: &Directory, leaf: &[u8], look: &Look, content: Content<'_>) -> bool {
        let Ok(size) = usize::try_from(look.size) else { return false };
        match content {
            Content::Bytes(bytes) => {
                size <= bytes.len()
                    && directory.dir.read(leaf).and_then(|file| file::is_beginning(file.as_fd(), bytes)).unwrap_or(true)
            }
            Content::TempFile(temp) => match (directory.dir.read(leaf), temp.read()) {
                (Ok(file), Some(written)) => file::begins(file.as_fd(), written.as_fd()).unwrap_or(true),
                _ => true,
            },
            Content::Unfetched(_) => true, // its bytes will tell
        }
    }
}

fn not_a_file(look: &Look) -> Option<&'static str> {
    if look.kind.is_file() {
        return None;
    }
    Some(if look.kind.is_symlink() {
        "a symbolic link has this name" // neither followed nor replaced: it was made for a reason
    } else if look.kind.is_dir() {
        "a directory has this name"
    } else {
        "something that is not a file has this name"
    })
}
