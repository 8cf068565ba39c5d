//! An object that comes in pieces: a temporary file until its last piece is there.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;

use super::session::{Parent, Session, Taken};
use super::temp::Temp;
use super::writer::{Slot, check_length};
use crate::error::Result;
use crate::fs::error::Trouble;
use crate::fs::sync::Barrier;
use crate::name::Name;
use crate::object::ObjectMeta;
use crate::sink::{ObjectWriter, Put};

pub(super) struct Stream {
    session: Arc<Session>,
    slot: Rc<RefCell<Slot>>,
    parent: Arc<Parent>,
    name: Name,
    meta: ObjectMeta,
    temp: Temp,
    bytes: u64,
}

impl Stream {
    pub(super) fn new(
        session: &Arc<Session>,
        slot: Rc<RefCell<Slot>>,
        parent: Arc<Parent>,
        name: &Name,
        meta: &ObjectMeta,
    ) -> Result<Stream> {
        // Refused before it is fetched, where that can be told already. The answer may be another when it is published.
        let mode = slot.borrow().mode;
        session.taken(&parent, name, mode)?;
        let temp = Temp::create(session, &parent)
            .map_err(|trouble| session.error(trouble, &parent, name, meta.size.unwrap_or(0)))?;
        Ok(Stream { session: session.clone(), slot, parent, name: name.clone(), meta: meta.clone(), temp, bytes: 0 })
    }

    fn put_in_place(&mut self) -> Result<Put> {
        let (parent, leaf) = (&self.parent, self.name.split().1);
        let at = |trouble: Trouble| self.session.error(trouble, parent, &self.name, 0);
        let mode = self.slot.borrow().mode;
        loop {
            match self.temp.publish(parent, leaf) {
                Ok(()) => return Ok(Put::Written),
                Err(trouble) if trouble.errno == Errno::EXIST => {}
                Err(trouble) => return Err(at(trouble)),
            }
            match self.session.taken(parent, &self.name, mode)? {
                Taken::Free => {}
                Taken::Duplicate => return Ok(Put::Duplicate),
                Taken::Replace => {
                    self.temp.replace(parent, leaf).map_err(at)?;
                    return Ok(Put::Written);
                }
            }
        }
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
        if put == Put::Written {
            self.slot.borrow_mut().wrote(&self.parent, self.bytes);
        }
        Ok(put)
    }
}
