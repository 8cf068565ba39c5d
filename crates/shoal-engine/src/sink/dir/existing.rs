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
use crate::error::{Error, Kind, Result};
use crate::fs::dir::{Look, look_at};
use crate::fs::error::{FsError, Operation};
use crate::fs::file;
use crate::fs::read::step;
use crate::object::{ObjectMeta, Put};
use crate::options::Overwrite;
use crate::poison::ignore_poison;
use crate::session::{Twice, Whose, local_clock};
use crate::sink::collision::{Decision, SameBytes, Times, is_done, is_edited, same_bytes};
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
#[derive(Clone, Copy, Debug)]
pub(super) enum Existing {
    /// The name is free again.
    Free,
    /// The file has the object's bytes.
    There(Put),
    /// The same, but the file is from before this pass. It is touched, to record that an object had its bytes.
    Found,
    /// Replace the file.
    Replace,
    /// The file has the object's bytes, but these may not be on the disk: write them again, where they are.
    Rewrite(Look),
    /// The file is this session's and has the beginning of the object, so another lane may be writing it. With the time
    /// of its last change.
    Growing(i64),
}

/// What is known of the object's bytes.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Bytes(&'a [u8]),
    /// The text of a symbolic link.
    Link(&'a [u8]),
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
    pub fn existing(self, mode: Mode, content: Content<'_>, attributes: &Attributes) -> Result<Existing> {
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

    fn look_at(self, mode: Mode, content: Content<'_>, attributes: &Attributes) -> Result<Existing> {
        let Target { destination, directory, name } = self;
        if let (Some(writing), Content::Bytes(_) | Content::Temporary(_)) = (&destination.writing, content) {
            writing.wait(name);
        }
        let Some(look) = self.look()? else { return Ok(Existing::Free) };
        let times = destination.times(&look);
        if let Some(existing) = self.other_kind(&look, times, content)? {
            return Ok(existing);
        }
        if self.is_respelled()? {
            let why = "on this file system the name is the same as that of another file, which is spelled differently";
            return Err(self.refused(Kind::NameConflict, why));
        }
        if let Content::Link(text) = content {
            return self.existing_link(&look, times, text, attributes, mode);
        }
        if self.is_withdrawn(&look) {
            return Ok(Existing::Replace);
        }
        if let Some(file) = self.same(&look, content) {
            // If several objects may have this name, the attributes of the first stay.
            let alone = destination.rules.twice == Twice::SameObject;
            let differ = || attributes.differ(&look, file.as_fd(), destination);
            // Where births are unknown, no other file is known to be this run's.
            let is_own = || times.born.is_none() && destination.sessions.changed_by(times.changed).is_some();
            let is_split = || destination.takes().hard_links && !attributes.has_several_names;
            let is_exact = destination.options.exact;
            let is_foreign = || {
                let is_other = destination.sessions.whose(times.born, times.changed) == Whose::Other;
                is_other && destination.rules.overwrite == Overwrite::Always
            };
            let put = match same_bytes(&destination.sessions, destination.rules, times, mode) {
                // Other names of the file may not get them, or are names of another file now.
                SameBytes::Kept if alone && look.links > 1 && (is_split() || differ()) => return Ok(Existing::Replace),
                SameBytes::Kept if alone && differ() => {
                    // Until it has the time of its source, it is not whole.
                    file::touch(file.as_fd()).map_err(|errno| self.error(Operation::Utimens.failed()(errno), 0))?;
                    attributes.set(file.as_fd(), destination, false).map_err(|failed| self.error(failed, 0))?;
                    // What the destination refuses is tried and told each time.
                    match self.look()?.is_some_and(|look| attributes.differ(&look, file.as_fd(), destination)) {
                        true => Put::Kept,
                        false => Put::Written,
                    }
                }
                // Later updates need not compare it again: from now on, it is this session's.
                SameBytes::Kept if alone && (destination.lacking.is_some() || destination.takes().hard_links) => {
                    file::stir(file.as_fd()).map_err(|failed| self.error(failed, 0))?;
                    Put::Kept
                }
                SameBytes::Found if differ() => return Ok(Existing::Replace),
                SameBytes::Present if alone && is_own() && differ() => {
                    attributes.set(file.as_fd(), destination, false).map_err(|failed| self.error(failed, 0))?;
                    // A file system without permissions ignores them.
                    match self.look()?.is_some_and(|look| attributes.differ(&look, file.as_fd(), destination)) {
                        true => Put::Duplicate,
                        false => Put::Written,
                    }
                }
                SameBytes::Present
                    if alone && is_foreign() && (attributes.has_several_names || is_exact && differ()) =>
                {
                    return Ok(Existing::Replace);
                }
                SameBytes::Present => Put::Duplicate,
                SameBytes::Kept => Put::Kept,
                SameBytes::Found => return Ok(Existing::Found),
                SameBytes::Rewrite => {
                    let has_failed = || destination.sessions.changing(times.changed).any(|session| session.failed);
                    let is_small = matches!(content, Content::Bytes(_));
                    let in_place = alone && is_small && look.links == 1 && !has_failed();
                    return Ok(if in_place { Existing::Rewrite(look) } else { Existing::Replace });
                }
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
            Decision::Exists => Err(self.exists()),
        }
    }

    /// What to do about something that is not what the object is. `None`: it is.
    pub fn other_kind(self, look: &Look, times: Times, content: Content<'_>) -> Result<Option<Existing>> {
        let Target { destination, directory, .. } = self;
        let is_link = matches!(content, Content::Link(_));
        if if is_link { look.kind.is_symlink() } else { look.kind.is_file() } {
            return Ok(None);
        }
        let rules = destination.rules;
        let whose = destination.sessions.whose(times.born, times.changed);
        let is_own = rules.twice == Twice::SameObject && matches!(whose, Whose::Earlier(_)) && !self.is_respelled()?;
        let is_unfetched = matches!(content, Content::Unfetched(_)); // decided when its bytes are there
        let what = if look.kind.is_dir() {
            if is_own && (is_unfetched || directory.dir.remove_directory(self.leaf()).is_ok()) {
                return Ok(Some(Existing::Free)); // it was empty
            }
            "a directory has this name"
        } else if look.kind.is_symlink() {
            if is_own {
                return Ok(Some(if is_unfetched { Existing::Free } else { Existing::Replace }));
            }
            "a symbolic link has this name" // neither followed nor replaced: it was created on purpose
        } else if look.kind.is_file() {
            return match (is_own, rules.overwrite, whose) {
                (true, ..) | (_, Overwrite::Always, Whose::Other) => Ok(Some(Existing::Replace)),
                (_, _, Whose::Other) => Err(self.exists()),
                _ => Err(rules.second().on(&self.name.to_string())),
            };
        } else {
            "something that is not a file has this name"
        };
        Err(self.refused(Kind::NameConflict, what))
    }

    /// What to do about a symbolic link, if the object is one.
    fn existing_link(
        self,
        look: &Look,
        times: Times,
        text: &[u8],
        attributes: &Attributes,
        mode: Mode,
    ) -> Result<Existing> {
        let Target { destination, directory, .. } = self;
        let (sessions, rules) = (&destination.sessions, destination.rules);
        let Ok(now) = directory.dir.link_text(self.leaf()) else { return Ok(Existing::Free) };
        if now == text {
            let put = match same_bytes(sessions, rules, times, mode) {
                SameBytes::Present => Put::Duplicate,
                SameBytes::Rewrite => return Ok(Existing::Replace),
                SameBytes::Kept | SameBytes::Found if attributes.differ_of_link(look) => {
                    let set = attributes.set_of_link(&directory.dir, self.leaf(), destination);
                    set.map_err(|failed| self.error(failed, 0))?;
                    match self.look()?.is_some_and(|look| attributes.differ_of_link(&look)) {
                        true => Put::Kept, // refused
                        false => Put::Written,
                    }
                }
                SameBytes::Kept | SameBytes::Found => Put::Kept,
            };
            return Ok(Existing::There(put));
        }
        match rules.decide(sessions, times, mode, attributes.modified.is_some(), &|| false) {
            Decision::Replace => Ok(Existing::Replace),
            Decision::Second => Err(rules.second().on(&self.name.to_string())),
            Decision::Exists => Err(self.exists()),
        }
    }

    /// Whether the file is as this pass over the source has it: this session has written or compared it, or an earlier one, and
    /// nothing has changed its source since.
    pub fn is_current(self, look: &Look, source_changed: Option<i64>) -> bool {
        let Target { destination, directory, .. } = self;
        let (sessions, times) = (&destination.sessions, destination.times(look));
        let is_earlier = || is_done(sessions, destination.rules, times, source_changed, directory.syncs_each_file());
        sessions.may_be_this(Some(times.changed)) || is_earlier()
    }

    fn exists(self) -> Error {
        let why = "a file of this name exists, which this run did not write or which was changed since";
        self.refused(Kind::Exists, why)
            .hint("move it away and run again with `resume=\"failed\"`, or add `overwrite=\"always\"` to replace it")
    }

    /// Writes the bytes of a small file again where they are: a new file costs more, and some file systems are slow for minutes
    /// once thousands of files were replaced. If it is cut off, the file has the same bytes. `None`: it is not possible, or the
    /// file is no longer the one that was looked at.
    pub fn rewrite(self, look: &Look, bytes: &[u8], attributes: &Attributes) -> Result<Option<Put>> {
        let Target { destination, directory, .. } = self;
        let at = |failed: FsError| self.error(failed, bytes.len() as u64);
        let Ok(file) = directory.dir.write(self.leaf()) else { return Ok(None) };
        let now = look_at(file.as_fd()).map_err(Operation::Stat.failed()).map_err(at)?;
        if (now.id, now.changed, now.size, now.links) != (look.id, look.changed, look.size, 1) {
            return Ok(None);
        }
        file::write_all(file.as_fd(), bytes).map_err(at)?;
        // This has taken set-id bits and capabilities away.
        let now = look_at(file.as_fd()).map_err(Operation::Stat.failed()).map_err(at)?;
        match attributes.differ(&now, file.as_fd(), destination) {
            true => attributes.set(file.as_fd(), destination, false),
            false => attributes.set_time(file.as_fd()),
        }
        .map_err(at)?;
        if directory.syncs_each_file() {
            file::sync(file.as_fd()).map_err(at)?;
        }
        file::close(file).map_err(at)?;
        Ok(Some(Put::Written))
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
        let Some(found) = meta() else { return Ok(None) };
        let attributes = Attributes::of(&found, false); // the time is compared here
        let ObjectMeta { size: Some(size), last_modified: Some(modified), changed, .. } = found else {
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
        if self.is_respelled()? || attributes.are_missing(&look, directory, self.leaf(), destination) {
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
    pub fn is_respelled(self) -> Result<bool> {
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
            Content::Unfetched(_) | Content::Link(_) => true, // decided when its bytes are known
        }
    }
}
