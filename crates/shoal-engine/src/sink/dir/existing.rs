//! What happens if a name is taken: the existing file is looked up and compared with the object. This happens only
//! after a name was found to be taken, so the usual path costs nothing.
//!
//! Not here: what follows from times and bytes (`sink/collision.rs`).

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, UNIX_EPOCH};

use rustix::io::Errno;

use super::attributes::Attributes;
use super::target::Target;
use super::temp_file::TempFile;
use crate::error::{Kind, Result};
use crate::fs::dir::Look;
use crate::fs::error::{FsError, Operation};
use crate::fs::file;
use crate::fs::read::step;
use crate::object::{ObjectMeta, Put};
use crate::poison::ignore_poison;
use crate::session::{Twice, Whose, local_clock};
use crate::sink::collision::{Decision, SameBytes, is_done, is_edited, same_bytes};
use crate::sink::{Left, Mode};

/// One second, in nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// How often a name may be reported as free and as taken in turn. Some network file systems never settle.
pub(super) const TURNS: u32 = 100;

/// A file that another lane may be writing is polled until it was unchanged for so long, in nanoseconds on the
/// destination's clock. That is enough, since a file with its own name is written at once.
const UNCHANGED_MIN: i64 = SECOND;
/// Time between two looks. The write of a small file takes less.
const GROWING_PAUSE: Duration = Duration::from_millis(2);
/// How often the file is looked up without a change: 1 s, in case the clock is wrong.
const GROWING_TURNS: u32 = 500;

/// What to do about an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// The name is free again.
    Free,
    /// The file has the object's bytes.
    There(Put),
    /// The same, but the file is from before this pass. It is touched, to record that an object had its bytes.
    Found,
    /// Replace the file.
    Replace,
    /// The file is this session's and has the beginning of the object, so another lane may be writing it. With the time
    /// of its last change.
    Growing(i64),
}

/// What is known of the object's bytes.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Bytes(&'a [u8]),
    /// A sealed temporary file.
    Temporary(&'a TempFile),
    /// Not fetched yet. With the size, if it is known.
    Unfetched(Option<u64>),
}

impl Target<'_> {
    /// What to do about the file that has this name. `attributes` are those of the object.
    ///
    /// # Errors
    /// [`Kind::Exists`]; [`Kind::NameConflict`] if it is not a file, is spelled in another way, or is another object of
    /// this run; [`Kind::Repeated`] for another object of this run.
    pub fn existing(self, mode: Mode, content: Content<'_>, attributes: Attributes) -> Result<Existing> {
        let destination = self.destination;
        let (mut now, mut last, mut turns) = (i64::MIN, None, 0);
        loop {
            match self.look_at(mode, content, attributes)? {
                Existing::Growing(changed) => {
                    turns = if last == Some(changed) { turns + 1 } else { 0 };
                    last = Some(changed);
                    if now.saturating_sub(changed) > UNCHANGED_MIN || turns == GROWING_TURNS {
                        return Err(destination.rules.second().on(&self.name.to_string()));
                    }
                }
                existing => return Ok(existing),
            }
            if now > i64::MIN {
                std::thread::sleep(GROWING_PAUSE);
            }
            now = destination.now()?.unwrap_or_else(local_clock); // read before the next look, which sees all changes until now
        }
    }

    fn look_at(self, mode: Mode, content: Content<'_>, attributes: Attributes) -> Result<Existing> {
        let Target { destination, directory, name } = self;
        if let (Some(writing), Content::Bytes(_) | Content::Temporary(_)) = (&destination.writing, content) {
            writing.wait(name);
        }
        let Some(look) = self.look()? else { return Ok(Existing::Free) };
        if let Some(what) = not_a_file(&look) {
            return Err(self.refused(Kind::NameConflict, what));
        }
        if self.is_respelled()? {
            let why = "on this file system the name is the same as that of another file, which is spelled differently";
            return Err(self.refused(Kind::NameConflict, why));
        }
        if self.is_withdrawn(&look) {
            return Ok(Existing::Replace);
        }
        let times = destination.times(&look);
        if let Some(file) = self.same(&look, content) {
            // If several objects may have this name, the attributes of the first stay.
            let alone = destination.rules.twice == Twice::SameObject;
            let differ = || attributes.differ(&look, destination.file_mode);
            // Where births are unknown, no other file is known to be this run's.
            let is_own = || times.born.is_none() && destination.sessions.changed_by(times.changed).is_some();
            let put = match same_bytes(&destination.sessions, destination.rules, times, mode) {
                SameBytes::Kept if alone && differ() => return Ok(Existing::Replace),
                SameBytes::Found if differ() => return Ok(Existing::Replace),
                SameBytes::Present if alone && is_own() && differ() => {
                    attributes.set(file.as_fd(), destination.file_mode).map_err(|failed| self.error(failed, 0))?;
                    // A file system without permissions ignores them.
                    match self.look()?.is_some_and(|look| attributes.differ(&look, destination.file_mode)) {
                        true => Put::Duplicate,
                        false => Put::Written,
                    }
                }
                SameBytes::Present => Put::Duplicate,
                SameBytes::Kept => Put::Kept,
                SameBytes::Found => return Ok(Existing::Found),
                SameBytes::Rewrite => return Ok(Existing::Replace),
            };
            if directory.syncs_each_file() {
                file::sync(file.as_fd()).map_err(|failed| self.error(failed, 0))?;
            }
            return Ok(Existing::There(put));
        }
        if matches!(content, Content::Unfetched(size) if size.is_none_or(|size| size == look.size)) {
            return Ok(Existing::Free); // decided when its bytes are known
        }
        let is_this = destination.sessions.whose(times.born, times.changed) == Whose::This;
        let begins = || self.begins(&look, content);
        match destination.rules.decide(&destination.sessions, times, mode, attributes.modified.is_some(), &begins) {
            Decision::Replace => Ok(Existing::Replace),
            Decision::Second if is_this && matches!(content, Content::Unfetched(_)) => Ok(Existing::Free), // as above
            Decision::Second if is_this && destination.writing.is_none() && begins() => {
                Ok(Existing::Growing(times.changed))
            }
            Decision::Second => Err(destination.rules.second().on(&self.name.to_string())),
            Decision::Exists => {
                let why = "a file of this name exists, which this run did not write or which was changed since";
                Err(self.refused(Kind::Exists, why).hint(
                    "move it away and run again with `resume=\"failed\"`, or add `overwrite=\"always\"` to replace it",
                ))
            }
        }
    }

    /// Replaces a file, unless another lane was faster with another object of this name. `look` looks again.
    pub fn replace_alone(
        self,
        look: impl FnOnce() -> Result<Existing>,
        replace: impl FnOnce() -> Result<()>,
    ) -> Result<Existing> {
        let replacing = &self.destination.replacing;
        let (_shared, alone) = match self.destination.rules.twice {
            Twice::SameObject => (Some(ignore_poison(replacing.read())), None), // both write the same object
            _ => (None, Some(ignore_poison(replacing.write()))),
        };
        if alone.is_some() {
            match look()? {
                Existing::Replace => {}
                existing => return Ok(existing),
            }
        }
        replace()?;
        self.destination.removals.replaced(self.name);
        Ok(Existing::There(Put::Written))
    }

    /// Changes a file's change time, which records that an object was found to have its bytes, unless another lane was
    /// faster and replaced it. `look` looks again.
    pub fn find_alone(self, look: impl FnOnce() -> Result<Existing>) -> Result<Existing> {
        let _alone = ignore_poison(self.destination.replacing.write());
        match look()? {
            Existing::Found => {}
            existing => return Ok(existing),
        }
        let at = |failed: FsError| self.error(failed, 0);
        let file = self.directory.dir.read(self.leaf()).map_err(Operation::Open.failed()).map_err(at)?;
        file::stir(file.as_fd()).map_err(at)?;
        if self.directory.syncs_each_file() {
            file::sync(file.as_fd()).map_err(at)?;
        }
        Ok(Existing::There(Put::Kept))
    }

    /// What an earlier session has left of the object, if its source has not changed since: the file, with the size and time
    /// in `meta`, or what others have made of it.
    pub fn left(self, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<Left>> {
        let Target { destination, directory, .. } = self;
        if directory.is_new {
            return Ok(None);
        }
        let Some(look) = self.look()?.filter(|look| !self.is_withdrawn(look)) else { return Ok(None) };
        let Some(ObjectMeta { size: Some(size), last_modified: Some(modified), changed, .. }) = meta() else {
            return Ok(None);
        };
        // The exact time that was set. Or that time as a file system without nanoseconds stores it, if the source can
        // tell that nothing has changed since.
        let is_near = |time: i64| i128::from(time.abs_diff(look.written)) < step(look.written.into());
        let same_time =
            file::stamp(modified).is_some_and(|time| time == look.written || changed.is_some() && is_near(time));
        let (each, times) = (directory.syncs_each_file(), destination.times(&look));
        if !look.kind.is_file() {
            return Ok(None);
        }
        if look.size != size || !same_time {
            let edited = is_edited(&destination.sessions, destination.rules, times, changed) && !self.is_respelled()?;
            return Ok(edited.then_some(Left::Edited));
        }
        if !is_done(&destination.sessions, destination.rules, times, changed, each) {
            return Ok(None);
        }
        if self.is_respelled()? {
            return Ok(None);
        }
        if each {
            let Ok(file) = directory.dir.read(self.leaf()) else { return Ok(None) };
            file::sync(file.as_fd()).map_err(|failed| self.error(failed, 0))?;
        }
        Ok(Some(Left::Whole(size)))
    }

    /// Returns size and time of a file that an earlier session wrote, if the time was set from the source.
    ///
    /// Such a time is in whole seconds and before the file's birth. The timestamps of a file system are not.
    pub fn kept(self) -> Result<Option<ObjectMeta>> {
        let Target { destination, directory, .. } = self;
        if directory.is_new {
            return Ok(None);
        }
        let Some(look) = self.look()?.filter(|look| !self.is_withdrawn(look)) else { return Ok(None) };
        let is_set = look.written % SECOND == 0 && look.born.is_some_and(|born| look.written < born - 2 * SECOND);
        let each = directory.syncs_each_file();
        if !look.kind.is_file()
            || !is_set
            || !is_done(&destination.sessions, destination.rules, destination.times(&look), None, each)
        {
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

    /// What has this name. `None` if it is free.
    fn look(self) -> Result<Option<Look>> {
        match self.directory.dir.look(self.leaf()) {
            Ok(look) => Ok(Some(look)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.error(Operation::Stat.failed()(errno), 0)),
        }
    }

    /// Whether the name finds a file that is spelled differently.
    fn is_respelled(self) -> Result<bool> {
        let failed = |errno| self.error(Operation::Stat.failed()(errno), 0);
        let folds = self.destination.folds(self.directory).map_err(failed)?;
        Ok(folds && !self.directory.dir.has_entry(self.leaf()).map_err(failed)?)
    }

    /// The open file, if it has the same bytes. `None` also if it cannot be read.
    fn same(self, look: &Look, content: Content<'_>) -> Option<OwnedFd> {
        let open = || self.directory.dir.read(self.leaf()).ok();
        match content {
            Content::Bytes(bytes) if look.size == bytes.len() as u64 => {
                open().filter(|file| file::holds(file.as_fd(), bytes).unwrap_or(false))
            }
            Content::Temporary(temp) if temp.size() == look.size => {
                let (file, written) = (open()?, temp.read()?);
                file::begins(file.as_fd(), written.as_fd()).unwrap_or(false).then_some(file)
            }
            _ => None,
        }
    }

    /// Whether the file has the beginning of the object, as a kill leaves it. True if it cannot be read.
    fn begins(self, look: &Look, content: Content<'_>) -> bool {
        let Ok(size) = usize::try_from(look.size) else { return false };
        let open = || self.directory.dir.read(self.leaf());
        match content {
            Content::Bytes(bytes) => {
                size <= bytes.len() && open().and_then(|file| file::is_beginning(file.as_fd(), bytes)).unwrap_or(true)
            }
            Content::Temporary(temp) => match (open(), temp.read()) {
                (Ok(file), Some(written)) => file::begins(file.as_fd(), written.as_fd()).unwrap_or(true),
                _ => true,
            },
            Content::Unfetched(_) => true, // decided when its bytes are known
        }
    }
}

fn not_a_file(look: &Look) -> Option<&'static str> {
    if look.kind.is_file() {
        return None;
    }
    Some(if look.kind.is_symlink() {
        "a symbolic link has this name" // neither followed nor replaced: it was created on purpose
    } else if look.kind.is_dir() {
        "a directory has this name"
    } else {
        "something that is not a file has this name"
    })
}
