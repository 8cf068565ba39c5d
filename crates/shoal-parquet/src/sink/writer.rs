//! What a lane writes with: fills rows for each open partition.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use shoal_engine::sink::{Mode, ObjectWriter, PartitionWriter, Place, Put, Sealed, Writer};
use shoal_engine::{Error, Kind, Modes, ObjectKey, ObjectMeta, Partition, Payload, Result};

use super::Earlier;
use super::rows::{Capacity, Rows};
use super::shard::{Job, Shards, Spill};

/// While memory is full, an open partition with at least so many bytes is written.
const SPILL_MIN: usize = 256 << 10;

/// Most bytes of an object: a page has one whole value at least, and 31 bits for its length.
pub(super) const OBJECT_MAX: u64 = 1 << 30;

/// The limits of one run, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of a row group, and of the rows of a partition before its end.
    pub group: usize,
    /// Of an object.
    pub object: u64,
}

pub(super) struct Lane {
    pub shards: Arc<Shards>,
    pub earlier: Arc<Earlier>,
    pub limits: Limits,
    pub open: Vec<Weak<RefCell<Part>>>,
    /// What the last part needed: the next is likely to need as much.
    pub usual: Rc<Cell<Capacity>>,
}

/// What a sealed part brings to `flush`.
pub(super) struct Token {
    pub rows: Rows,
    pub spill: Option<Arc<Spill>>,
}

/// One lane's part of a partition.
pub(super) struct Part {
    shards: Arc<Shards>,
    limits: Limits,
    seq: u64,
    rows: Rows,
    usual: Rc<Cell<Capacity>>,
    spill: Option<Arc<Spill>>,
    /// Knows names that are stored already.
    earlier: Option<Arc<Earlier>>,
    objects: u64,
    bytes: u64,
}

impl Writer for Lane {
    fn open(&mut self, partition: &Partition, _mode: Mode, _modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        let earlier = self.earlier.concerns(partition.seq)?.then(|| self.earlier.clone());
        let part = Rc::new(RefCell::new(Part {
            shards: self.shards.clone(),
            limits: self.limits,
            seq: partition.seq,
            rows: Rows::with_capacity(self.usual.get()),
            usual: self.usual.clone(),
            spill: None,
            earlier,
            objects: 0,
            bytes: 0,
        }));
        self.open.retain(|part| part.strong_count() > 0);
        self.open.push(Rc::downgrade(&part));
        Ok(Box::new(OpenPart(part)))
    }

    fn has_room(&mut self, _place: Place) -> bool {
        if self.shards.has_room() {
            return true;
        }
        for part in self.open.iter().filter_map(Weak::upgrade) {
            let mut part = part.borrow_mut();
            if part.rows.bytes() >= SPILL_MIN && part.spill_rows().is_err() {
                return true; // the next write says why
            }
        }
        self.shards.has_room()
    }
}

impl Part {
    fn check(&self, size: u64) -> Result<()> {
        self.shards.check()?;
        if size <= self.limits.object {
            return Ok(());
        }
        let why = format!("{size} bytes are too many for a row: at most {}", self.limits.object);
        let hint = match self.limits.object {
            OBJECT_MAX => "copy it to files",
            _ => "use a larger `memory` (a row may have an eighth), or copy it to files",
        };
        Err(Error::new(Kind::TooLarge, why).hint(hint))
    }

    fn add(&mut self, key: &ObjectKey, meta: &ObjectMeta, data: &[u8]) -> Result<Put> {
        self.check(data.len() as u64)?;
        let name = key.as_bytes();
        self.shards.withdrawn.check(name)?;
        let again = match &self.earlier {
            Some(earlier) if earlier.has(name) => Some(earlier.again()?),
            _ => None,
        };
        self.objects += 1;
        self.bytes += data.len() as u64;
        if let Some(again) = again {
            return Ok(again);
        }
        let before = self.rows.bytes();
        self.rows.push(name, meta, data);
        self.shards.hold(self.rows.bytes() - before);
        if self.rows.bytes() >= self.limits.group {
            self.spill_rows()?;
        }
        Ok(Put::Written)
    }

    fn spill_rows(&mut self) -> Result<()> {
        let spill = match &self.spill {
            Some(spill) => spill,
            None => self.spill.insert(self.shards.spill()?),
        };
        let rows = std::mem::take(&mut self.rows);
        self.shards.submit(Job { parts: vec![(self.seq, rows)], spill: Some(spill.clone()) });
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let bytes = self.rows.bytes();
        if bytes > 0 {
            self.shards.release(bytes);
        }
    }
}

struct OpenPart(Rc<RefCell<Part>>);

impl PartitionWriter for OpenPart {
    fn put(&mut self, _index: u32, key: &ObjectKey, meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        self.0.borrow_mut().add(key, meta, payload.bytes()?)
    }

    fn begin(&mut self, _index: u32, key: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        let mut part = self.0.borrow_mut();
        part.check(meta.size.unwrap_or(0))?;
        if !part.shards.has_room() {
            if part.rows.bytes() >= SPILL_MIN {
                part.spill_rows()?;
            }
            if !part.shards.has_room() {
                return Ok(None);
            }
        }
        let data = Vec::with_capacity(meta.size.unwrap_or(0) as usize);
        part.shards.hold(data.capacity());
        drop(part);
        let held = data.capacity();
        Ok(Some(Box::new(Pieces { part: self.0.clone(), key: key.clone(), meta: meta.clone(), data, held })))
    }

    fn seal(self: Box<Self>) -> Result<Sealed> {
        let part = &mut *self.0.borrow_mut();
        part.usual.set(part.rows.capacity());
        let token = Token { rows: std::mem::take(&mut part.rows), spill: part.spill.take() };
        let Part { seq, objects, bytes, .. } = *part;
        Ok(Sealed { seq, objects, bytes, sync_token: Some(Box::new(token)) })
    }
}

struct Pieces {
    part: Rc<RefCell<Part>>,
    key: ObjectKey,
    meta: ObjectMeta,
    data: Vec<u8>,
    /// Bytes of memory that it was counted with.
    held: usize,
}

impl ObjectWriter for Pieces {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let part = self.part.borrow();
        part.check((self.data.len() + piece.len()) as u64)?;
        self.data.extend_from_slice(piece);
        let more = self.data.capacity().saturating_sub(self.held);
        part.shards.hold(more);
        self.held += more;
        Ok(())
    }

    fn space(&mut self) -> Option<&mut Vec<u8>> {
        (self.meta.size.is_some()).then_some(&mut self.data)
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        self.part.borrow_mut().add(&self.key, &self.meta, &self.data)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.part.borrow().shards.release(self.held);
    }
}
