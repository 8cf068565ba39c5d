//! An object that comes in pieces: a temporary file until its last piece is there. Where its directory is not published
//! yet, it has its own name from the beginning.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;

use super::attributes::Attributes;
use super::existing::{Content, Existing, TURNS};
use super::session::{Parent, Session};
use super::temp::Temp;
use super::writer::{Slot, check_length};
use crate::error::Result;
use crate::fs::error::{Doing, Trouble};
use crate::fs::file;
use crate::fs::sync::Barrier;
use crate::name::Name;
use crate::object::ObjectMeta;
use crate::sink::{ObjectWriter, Put};

/// Begins an object.
pub(super) fn begin(
    session: &Arc<Session>,
    slot: &Rc<RefCell<Slot>>,
    parent: Arc<Parent>,
    name: &Name,
    meta: &ObjectMeta,
) -> Result<Box<dyn ObjectWriter>> {
    if !session.sessions.lease().wait() {
        return Err(session.over());
    }
    if parent.ours {
        match parent.dir.create(name.split().1, Attributes::of(meta, session.keep_times).access()) {
            Ok(file) => return Ok(Box::new(Direct::new(session, slot.clone(), parent, name, meta, file))),
            Err(Errno::EXIST) => {} // told apart when its last piece is there
            Err(errno) => {
                let need = meta.size.unwrap_or(0);
                return Err(session.error(Doing::Create.failed()(errno), &parent, name, need));
            }
        }
    }
    Ok(Box::new(Stream::new(session, slot.clone(), parent, name, meta)?))
}

struct Stream {
    session: Arc<Session>,
    slot: Rc<RefCell<Slot>>,
    parent: Arc<Parent>,
    name: Name,
    meta: ObjectMeta,
    temp: Temp,
    bytes: u64,
}

impl Stream {
    fn new(
        session: &Arc<Session>,
        slot: Rc<RefCell<Slot>>,
        parent: Arc<Parent>,
        name: &Name,
        meta: &ObjectMeta,
    ) -> Result<Stream> {
        // Refused before it is fetched, where that can be told already. The answer may be another when it is published.
        let (mode, attributes) = (slot.borrow().mode, Attributes::of(meta, session.keep_times));
        session.existing(&parent, name, mode, Content::Unfetched(meta.size), attributes)?;
        let temp = Temp::create(session, &parent, attributes)
            .map_err(|trouble| session.error(trouble, &parent, name, meta.size.unwrap_or(0)))?;
        Ok(Stream { session: session.clone(), slot, parent, name: name.clone(), meta: meta.clone(), temp, bytes: 0 })
    }

    fn put_in_place(&mut self) -> Result<Put> {
        let (parent, leaf) = (&self.parent, self.name.split().1);
        let at = |trouble: Trouble| self.session.error(trouble, parent, &self.name, 0);
        let mode = self.slot.borrow().mode;
        let attributes = Attributes::of(&self.meta, self.session.keep_times);
        for _ in 0..TURNS {
            if !self.session.sessions.lease().wait() {
                return Err(self.session.over());
            }
            match self.temp.publish(parent, leaf) {
                Ok(()) => return Ok(Put::Written),
                Err(trouble) if trouble.errno == Errno::EXIST => {}
                Err(trouble) => return Err(at(trouble)),
            }
            let look = |temp: &Temp| self.session.existing(parent, &self.name, mode, Content::Temp(temp), attributes);
            let existing = match look(&self.temp)? {
                Existing::Replace => {
                    let temp = RefCell::new(&mut self.temp);
                    let replace = || temp.borrow_mut().replace(parent, leaf).map_err(at);
                    self.session.replace_alone(|| look(&temp.borrow()), replace)?
                }
                Existing::Found => self.session.find_alone(|| look(&self.temp), parent, &self.name)?,
                existing => existing,
            };
            if let Existing::There(put) = existing {
                return Ok(put);
            }
        }
        Err(self.session.undecided(parent, &self.name))
    }
}

impl ObjectWriter for Stream {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.temp.write(piece).map_err(|trouble| {
            let rest = self.meta.size.map_or(0, |size| size.saturating_sub(self.bytes));
            self.session.error(trouble, &self.parent, &self.name, rest.max(piece.len() as u64))
        })?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Put> {
        check_length(&self.name, &self.meta, self.bytes)?;
        self.temp
            .seal(self.parent.barrier == Barrier::Each)
            .map_err(|trouble| self.session.error(trouble, &self.parent, &self.name, 0))?;
        let put = self.put_in_place()?;
        if put != Put::Duplicate {
            self.slot.borrow_mut().wrote(&self.parent, self.bytes);
        }
        Ok(put)
    }
}

/// A file under its final name in a directory that nobody sees yet. Dropped before its end, it is removed.
struct Direct {
    session: Arc<Session>,
    slot: Rc<RefCell<Slot>>,
    parent: Arc<Parent>,
    name: Name,
    meta: ObjectMeta,
    file: Option<OwnedFd>,
    bytes: u64,
    whole: bool,
}

impl Direct {
    fn new(
        session: &Arc<Session>,
        slot: Rc<RefCell<Slot>>,
        parent: Arc<Parent>,
        name: &Name,
        meta: &ObjectMeta,
        file: OwnedFd,
    ) -> Direct {
        let (session, name, meta) = (session.clone(), name.clone(), meta.clone());
        Direct { session, slot, parent, name, meta, file: Some(file), bytes: 0, whole: false }
    }
}

impl ObjectWriter for Direct {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let file = self.file.as_ref().ok_or_else(|| Doing::Write.failed()(Errno::BADF));
        file.and_then(|file| file::write_all(file.as_fd(), piece)).map_err(|trouble| {
            let rest = self.meta.size.map_or(0, |size| size.saturating_sub(self.bytes));
            self.session.error(trouble, &self.parent, &self.name, rest.max(piece.len() as u64))
        })?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Put> {
        check_length(&self.name, &self.meta, self.bytes)?;
        let file = self.file.take().ok_or_else(|| Doing::Write.failed()(Errno::BADF));
        let modified = Attributes::of(&self.meta, self.session.keep_times).modified;
        file.and_then(|file| file::fill(file, &[], modified, self.parent.barrier == Barrier::Each))
            .map_err(|trouble| self.session.error(trouble, &self.parent, &self.name, 0))?;
        self.whole = true;
        self.slot.borrow_mut().wrote(&self.parent, self.bytes);
        Ok(Put::Written)
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if !self.whole {
            let _ = self.parent.dir.remove(self.name.split().1);
        }
    }
}
