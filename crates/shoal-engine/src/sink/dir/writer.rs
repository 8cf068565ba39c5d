//! A lane's part of the directory sink: slots, and objects that are complete in memory.
//!
//! The hot path of the program for tiny files: one `openat2`, one `write`, one `close` for each, nothing looked up
//! before and nothing allocated. Not here: objects in pieces (`stream.rs`).

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::existing::{Content, Existing, TURNS};
use super::parents::{KEPT_BY_PARTITION, KEPT_BY_WRITER, Parents};
use super::partition::{Part, RetriedModes, retried_place};
use super::session::{Parent, Session};
use super::stream;
use super::temp::Temp;
use super::{Held, Touched};
use crate::error::{Error, Kind, Result};
use crate::fs::error::{Doing, Trouble};
use crate::fs::file;
use crate::fs::sync::Barrier;
use crate::name::Name;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::options::Layout;
use crate::partition::{Partition, RETRIED_FROM};
use crate::sink::{Mode, ObjectWriter, Put, Sealed, Writer};

/// A partition, or a part of one, that is being written.
pub(super) struct Slot {
    seq: u64,
    pub mode: Mode,
    objects: u64,
    bytes: u64,
    touched: Touched,
    home: Home,
    /// Of the source's directories.
    modes: Modes,
}

/// Where the objects of a slot lie.
enum Home {
    /// Under their own names.
    Names,
    /// Under `retried/`.
    Retried,
    /// In the partition's directory, which is opened with its first object.
    Partition { part: Arc<Part>, inside: Option<Parents> },
}

impl Slot {
    /// Counts an object that is in place.
    pub(super) fn wrote(&mut self, parent: &Parent, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
        self.touch(parent);
    }

    /// Something was made in a directory, or it was made itself.
    fn touch(&mut self, parent: &Parent) {
        if parent.barrier == Barrier::Each && !self.touched.contains(&parent.path) {
            self.touched.insert(parent.path.clone());
        }
    }
}

/// Writes the objects of one lane.
pub(super) struct DirWriter {
    session: Arc<Session>,
    parents: Parents,
    slots: HashMap<u32, Rc<RefCell<Slot>>>,
}

impl DirWriter {
    pub(super) fn new(session: Arc<Session>) -> DirWriter {
        let parents = Parents::new(session.clone(), session.root.clone(), KEPT_BY_WRITER);
        DirWriter { parents, session, slots: HashMap::new() }
    }

    fn slot(&self, slot: u32) -> Result<&Rc<RefCell<Slot>>> {
        self.slots.get(&slot).ok_or_else(|| unopened(slot))
    }

    fn home(&self, seq: u64) -> Home {
        match self.session.options.layout {
            Layout::Names => Home::Names,
            Layout::Partition if seq >= RETRIED_FROM => Home::Retried,
            Layout::Partition => Home::Partition { part: self.session.parts.of(&self.session, seq), inside: None },
        }
    }

    /// The directory `path` where the objects of a slot lie, made where it is missing; errors are those of `name`.
    fn parent(&mut self, slot: &mut Slot, path: Option<&[u8]>, name: &Name) -> Result<Arc<Parent>> {
        let modes = &*slot.modes;
        match &mut slot.home {
            Home::Names => self.parents.of(path, name, modes),
            Home::Retried => self.parents.of(Some(&retried_place(path, name)), name, &RetriedModes(modes)),
            Home::Partition { inside: Some(inside), .. } => inside.of(path, name, modes),
            Home::Partition { part, inside } => {
                let base = part.enter(&mut self.parents, name)?;
                inside.insert(Parents::new(self.session.clone(), base, KEPT_BY_PARTITION)).of(path, name, modes)
            }
        }
    }

    /// Closes the directories that are kept open and can be opened again; whether there were any.
    fn forget(&mut self, slot: &mut Slot) -> bool {
        let inside = match &mut slot.home {
            Home::Partition { inside: Some(inside), .. } => inside.forget(),
            _ => false,
        };
        self.parents.forget() || inside
    }

    /// Runs `write` with the directory `path`; once more with every directory opened anew where one of those kept
    /// open may be what it fails on: it was removed meanwhile, or they take the last file descriptors.
    fn with_parent<T>(
        &mut self,
        slot: &Rc<RefCell<Slot>>,
        path: Option<&[u8]>,
        name: &Name,
        mut write: impl FnMut(&Arc<Session>, Arc<Parent>) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = |writer: &mut Self| {
            let parent = writer.parent(&mut slot.borrow_mut(), path, name)?;
            write(&writer.session, parent)
        };
        let result = attempt(self);
        let kept_ones = [Errno::NOENT, Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        match &result {
            Err(error)
                if error.os_error().is_some_and(|errno| kept_ones.contains(&errno))
                    && self.forget(&mut slot.borrow_mut()) =>
            {
                attempt(self)
            }
            _ => result,
        }
    }
}

impl Writer for DirWriter {
    fn open(&mut self, slot: u32, partition: &Partition, mode: Mode, modes: Modes) -> Result<()> {
        let (seq, home) = (partition.seq, self.home(partition.seq));
        let fresh = Slot { seq, mode, objects: 0, bytes: 0, touched: Touched::new(), home, modes };
        match self.slots.insert(slot, Rc::new(RefCell::new(fresh))) {
            None => Ok(()),
            Some(_) => Err(Error::new(Kind::Internal, format!("slot {slot} was opened twice"))),
        }
    }

    fn put(&mut self, slot: u32, name: &Name, meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put> {
        check_length(name, meta, payload.size())?;
        let slot = self.slot(slot)?.clone();
        if let Payload::Elsewhere { size, put } = payload {
            return self.with_parent(&slot, name.split().0, name, |_, parent| {
                if put != Put::Duplicate {
                    slot.borrow_mut().wrote(&parent, size);
                }
                Ok(put)
            });
        }
        let bytes = payload.bytes()?;
        self.with_parent(&slot, name.split().0, name, |session, parent| {
            let put =
                store(session, &parent, name, bytes, Attributes::of(meta, session.keep_times), slot.borrow().mode)?;
            if put != Put::Duplicate {
                slot.borrow_mut().wrote(&parent, bytes.len() as u64);
            }
            Ok(put)
        })
    }

    fn has(&mut self, slot: u32, name: &Name, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<u64>> {
        let slot = self.slot(slot)?.clone();
        let by_name = matches!(slot.borrow().home, Home::Names); // a partition's directory is redone whole
        if !by_name || !self.session.keep_times {
            return Ok(None); // without a time a torn file cannot be told
        }
        self.with_parent(&slot, name.split().0, name, |session, parent| {
            let done = session.is_done(&parent, name, meta)?;
            if let Some(size) = done {
                slot.borrow_mut().wrote(&parent, size);
            }
            Ok(done)
        })
    }

    fn kept(&mut self, slot: u32, name: &Name) -> Result<Option<ObjectMeta>> {
        let slot = self.slot(slot)?.clone();
        let by_name = matches!(slot.borrow().home, Home::Names);
        if !by_name || !self.session.keep_times {
            return Ok(None);
        }
        self.with_parent(&slot, name.split().0, name, |session, parent| session.kept(&parent, name))
    }

    fn begin(&mut self, slot: u32, name: &Name, meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>> {
        let slot = self.slot(slot)?.clone();
        let begin = |session: &Arc<Session>, parent| stream::begin(session, &slot, parent, name, meta);
        self.with_parent(&slot, name.split().0, name, begin)
    }

    fn directory(&mut self, slot: u32, name: &Name) -> Result<()> {
        let slot = self.slot(slot)?.clone();
        self.with_parent(&slot, Some(name.as_bytes()), name, |_, made| {
            slot.borrow_mut().touch(&made);
            Ok(())
        })
    }

    fn seal(&mut self, slot: u32) -> Result<Sealed> {
        let closed = self.slots.remove(&slot).ok_or_else(|| unopened(slot))?;
        let mut closed = closed.borrow_mut();
        let touched = std::mem::take(&mut closed.touched);
        let held = match std::mem::replace(&mut closed.home, Home::Names) {
            Home::Partition { part, inside } => {
                if let Some(inside) = inside.filter(|_| !touched.is_empty()) {
                    self.session.sync_names(inside.base(), &touched)?;
                }
                Some(Held::Directory(part))
            }
            Home::Names | Home::Retried => (!touched.is_empty()).then_some(Held::Touched(touched)),
        };
        Ok(Sealed {
            seq: closed.seq,
            objects: closed.objects,
            bytes: closed.bytes,
            held: held.map(|held| Box::new(held) as Box<dyn Any + Send>),
        })
    }

    fn discard(&mut self, slot: u32) {
        // What is in place stays: the journal does not know it, so it is a leftover for the next run. A partition's
        // directory goes with its last slot.
        self.slots.remove(&slot);
    }
}

/// Writes an object that is complete: directly where nothing has the name, unless a kill could leave a part of it that
/// nothing tells from a file of another program.
fn store(
    session: &Arc<Session>,
    parent: &Arc<Parent>,
    name: &Name,
    bytes: &[u8],
    attributes: Attributes,
    mode: Mode,
) -> Result<Put> {
    let leaf = name.split().1;
    let durable = parent.barrier == Barrier::Each;
    let at = |trouble: Trouble| session.error(trouble, parent, name, bytes.len() as u64);
    for _ in 0..TURNS {
        if !session.sessions.lease().wait() {
            return Err(session.over());
        }
        if !parent.births && !parent.ours {
            let mut temp = written(session, parent, bytes, attributes).map_err(at)?;
            match temp.publish(parent, leaf) {
                Ok(()) => return Ok(Put::Written),
                Err(trouble) if trouble.errno == Errno::EXIST => {}
                Err(trouble) => return Err(at(trouble)),
            }
        } else {
            let _writing = session.writing.as_ref().map(|writing| writing.begin(name));
            match parent.dir.create(leaf, attributes.access()) {
                Ok(file) => {
                    return match file::fill(file, bytes, attributes.modified, durable) {
                        Ok(()) => Ok(Put::Written),
                        Err(trouble) => {
                            let error = at(trouble); // before the room is given back: it tells how much was left
                            let _ = parent.dir.remove(leaf);
                            Err(error)
                        }
                    };
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(at(Doing::Create.failed()(errno))),
            }
        }
        let look = || session.existing(parent, name, mode, Content::Bytes(bytes), attributes);
        let existing = match look()? {
            Existing::Replace => {
                let mut temp = written(session, parent, bytes, attributes).map_err(at)?;
                session.replace_alone(look, || temp.replace(parent, leaf).map_err(at))?
            }
            Existing::Found => session.find_alone(look, parent, name)?,
            existing => existing,
        };
        if let Existing::There(put) = existing {
            return Ok(put);
        } // else it was removed in this moment
    }
    Err(session.undecided(parent, name))
}

/// A temporary file with all of an object.
fn written(
    session: &Arc<Session>,
    parent: &Arc<Parent>,
    bytes: &[u8],
    attributes: Attributes,
) -> Result<Temp, Trouble> {
    let mut temp = Temp::create(session, parent, attributes)?;
    temp.write(bytes)?;
    temp.seal(parent.barrier == Barrier::Each)?;
    Ok(temp)
}

/// The last look before a name is given: as many bytes as were announced.
pub(super) fn check_length(name: &Name, meta: &ObjectMeta, bytes: u64) -> Result<()> {
    match meta.size {
        Some(size) if size != bytes => {
            let why = format!("{bytes} bytes arrived, expected {size}");
            Err(Error::new(Kind::ShortBody, why).on(&name.to_string()))
        }
        _ => Ok(()),
    }
}

fn unopened(slot: u32) -> Error {
    Error::new(Kind::Internal, format!("slot {slot} is not open"))
}
