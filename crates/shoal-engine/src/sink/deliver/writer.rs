//! A lane's part of the delivery: fills a chunk, object after object.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use super::chunk::Builder;
use super::{Chunk, Filling, Shared, State};
use crate::error::{Error, Kind, Result};
use crate::name::Name;
use crate::object::{Modes, ObjectMeta, Payload, WHOLE_MAX};
use crate::partition::Partition;
use crate::sink::{Mode, ObjectWriter, Place, Put, Sealed, Writer};

pub(super) struct DeliverWriter {
    shared: Arc<Shared>,
    filling: Arc<Filling>,
    slots: HashMap<u32, Rc<Slot>>,
    /// What `expect` announced.
    place: Place,
    reserved: u64,
    /// An empty chunk, from an object that was not put in its place after all.
    spare: Option<Builder>,
}

struct Slot {
    seq: u64,
    objects: Cell<u64>,
    bytes: Cell<u64>,
}

impl Slot {
    fn wrote(&self, bytes: u64) -> Put {
        self.objects.set(self.objects.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        Put::Written
    }
}

impl DeliverWriter {
    pub fn new(shared: Arc<Shared>) -> DeliverWriter {
        let filling = Arc::new(Filling::default());
        shared.state().lanes.push(filling.clone());
        let place = Place { seq: 0, index: 0 };
        DeliverWriter { shared, filling, slots: HashMap::new(), place, reserved: 0, spare: None }
    }

    fn slot(&self, slot: u32) -> Result<&Rc<Slot>> {
        let unopened = || Error::new(Kind::Internal, format!("slot {slot} is not open"));
        self.slots.get(&slot).ok_or_else(unopened)
    }

    /// Takes the chunk under way for an object of `size` bytes; one that it does not fit is sent.
    fn take_filling(&self, size: usize, name: &Name, size_known: bool) -> Option<Builder> {
        // In a statement of its own: the consumer takes this lock while it holds the other one.
        let filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner).take();
        let filling = filling?;
        if size_known && filling.free() >= size && filling.takes_name(name.as_bytes()) {
            return Some(filling);
        }
        self.shared.send(filling.finish());
        None
    }

    fn send_filling(&self) {
        let filled = self.filling.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(builder) = filled {
            self.shared.send(builder.finish());
        }
    }

    fn check(&self, name: &Name) -> Result<()> {
        self.shared.check_open()?;
        if self.shared.options.utf8_names && std::str::from_utf8(name.as_bytes()).is_err() {
            return Err(Error::new(Kind::UnsafeName, "its name is not UTF-8, which a column of names requires"));
        }
        Ok(())
    }
}

impl Writer for DeliverWriter {
    fn open(&mut self, slot: u32, partition: &Partition, _mode: Mode, _modes: Modes) -> Result<()> {
        let fresh = Slot { seq: partition.seq, objects: Cell::new(0), bytes: Cell::new(0) };
        if self.slots.insert(slot, Rc::new(fresh)).is_some() {
            return Err(Error::new(Kind::Internal, format!("slot {slot} was opened twice")));
        }
        self.shared.open.fetch_add(1, Relaxed);
        if self.shared.options.ordered {
            let mut state = self.shared.state();
            let State { order, chunks, .. } = &mut *state;
            order.opened(partition.seq, partition.len, chunks);
        }
        Ok(())
    }

    fn expect(&mut self, slot: u32, index: u32, size: Option<u64>) -> Result<bool> {
        self.place = Place { seq: self.slot(slot)?.seq, index };
        self.reserved = 0;
        let Some(size) = size.filter(|&size| size > WHOLE_MAX as u64) else { return Ok(true) };
        self.shared.check_open()?;
        let options = &self.shared.options;
        let first = size.min(options.piece.unwrap_or(u64::MAX));
        if first > options.memory {
            return Err(too_large(Some(size), options.memory));
        }
        if self.shared.reserve(self.place, first) {
            self.reserved = first;
            return Ok(true);
        }
        Ok(false)
    }

    fn left_out(&mut self, slot: u32, index: u32) {
        if !self.shared.options.ordered {
            return;
        }
        if let Ok(slot) = self.slot(slot) {
            settle(&self.shared, Place { seq: slot.seq, index }, None);
        }
    }

    fn put(&mut self, slot: u32, name: &Name, _meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put> {
        self.check(name)?;
        let (bytes, name) = (payload.bytes()?, name.as_bytes());
        let (shared, options) = (&self.shared, &self.shared.options);
        shared.hold((bytes.len() + name.len()) as u64);
        if options.ordered {
            let mut alone = Builder::new(&shared.pool, bytes.len());
            alone.write(bytes);
            alone.close(name);
            settle(shared, self.place, Some(vec![alone.finish()]));
        } else {
            let full = {
                let mut filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
                let full = filling.take_if(|builder| builder.free() < bytes.len() || !builder.takes_name(name));
                let builder = filling.get_or_insert_with(|| Builder::new(&shared.pool, options.bytes.max(bytes.len())));
                builder.write(bytes);
                builder.close(name);
                let rows = builder.len();
                [full, filling.take_if(|_| rows >= options.rows)]
            };
            full.into_iter().flatten().for_each(|builder| shared.send(builder.finish()));
        }
        Ok(self.slot(slot)?.wrote(bytes.len() as u64))
    }

    fn put_in_place(
        &mut self,
        slot: u32,
        name: &Name,
        read: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<Option<u64>> {
        let options = &self.shared.options;
        if options.ordered || options.bytes <= WHOLE_MAX {
            return Ok(None);
        }
        self.check(name)?;
        // Out of its place meanwhile: the consumer must not wait for the read. In a statement of its own, as above.
        let filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut builder = match filling {
            Some(builder) if builder.free() > WHOLE_MAX && builder.takes_name(name.as_bytes()) => builder,
            Some(builder) => {
                put_back(&self.shared, &self.filling, builder);
                return Ok(None);
            }
            None => self.spare.take().unwrap_or_else(|| Builder::new(&self.shared.pool, options.bytes)),
        };
        let complete = read(builder.space());
        let bytes = builder.open_bytes();
        if complete {
            self.shared.hold(bytes + name.as_bytes().len() as u64);
            builder.close(name.as_bytes());
        } else {
            builder.forget();
        }
        match builder.len() {
            0 => self.spare = Some(builder),
            _ => put_back(&self.shared, &self.filling, builder),
        }
        if !complete {
            return Ok(None);
        }
        self.slot(slot)?.wrote(bytes);
        Ok(Some(bytes))
    }

    fn begin(&mut self, slot: u32, name: &Name, meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>> {
        let reserved = std::mem::take(&mut self.reserved);
        let begun = self.check(name).and_then(|()| self.slot(slot).cloned());
        let slot = begun.inspect_err(|_| self.shared.release(reserved))?;
        let options = &self.shared.options;
        let size = meta.size.unwrap_or(0).min(options.piece.unwrap_or(u64::MAX)) as usize;
        let alone = options.apart || options.ordered || options.piece.is_some();
        // In the chunk under way, if it fits: written there once, and not copied.
        let builder = if alone { None } else { self.take_filling(size, name, meta.size.is_some()) };
        let room = if alone { size } else { size.max(options.bytes) };
        Ok(Box::new(Pieces {
            builder: Some(builder.unwrap_or_else(|| Builder::new(&self.shared.pool, room))),
            shared: self.shared.clone(),
            filling: (!alone).then(|| self.filling.clone()),
            slot,
            name: name.clone(),
            place: self.place,
            reserved,
            sent: 0,
            waiting: Vec::new(),
        }))
    }

    fn seal(&mut self, slot: u32) -> Result<Sealed> {
        let closed = self.slot(slot)?.clone();
        self.slots.remove(&slot);
        self.shared.open.fetch_sub(1, Relaxed);
        if self.shared.starved.load(Relaxed) {
            self.send_filling();
        }
        Ok(Sealed { seq: closed.seq, objects: closed.objects.get(), bytes: closed.bytes.get(), held: None })
    }

    fn discard(&mut self, slot: u32) {
        if self.slots.remove(&slot).is_some() {
            self.shared.open.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for DeliverWriter {
    /// The lane ends: what it has filled goes to the consumer.
    fn drop(&mut self) {
        self.shared.open.fetch_sub(self.slots.len() as u64, Relaxed);
        self.send_filling();
    }
}

/// An object has come, or will not come.
fn settle(shared: &Shared, place: Place, chunks: Option<Vec<Chunk>>) {
    let mut state = shared.state();
    let State { order, chunks: out, .. } = &mut *state;
    order.settled(place, chunks, out);
    shared.ready.notify_one();
}

fn too_large(size: Option<u64>, memory: u64) -> Error {
    let size = size.map_or_else(|| "it".to_owned(), |size| format!("of {size} bytes, it"));
    Error::new(Kind::TooLarge, format!("{size} is larger than the memory limit of {memory} bytes"))
        .hint("raise memory=, or read it in pieces with chunk_size=")
}

/// An object that comes in pieces.
struct Pieces {
    /// `None` only while it is handed on.
    builder: Option<Builder>,
    shared: Arc<Shared>,
    /// Where the chunk goes back to, if it is one for several objects.
    filling: Option<Arc<Filling>>,
    slot: Rc<Slot>,
    name: Name,
    place: Place,
    /// Held in the budget for what has not been handed on.
    reserved: u64,
    /// Bytes handed on already, where the object comes in several pieces.
    sent: u64,
    /// Pieces that wait for their turn.
    waiting: Vec<Chunk>,
}

impl Pieces {
    fn builder(&mut self) -> Result<&mut Builder> {
        self.builder
            .as_mut()
            .ok_or_else(|| Error::new(Kind::Internal, "a chunk was written after the end of its object"))
    }

    /// Hands a piece of a long object on, and waits until there is room for the next.
    fn hand_on(&mut self, piece: u64) -> Result<()> {
        let next = Builder::new(&self.shared.pool, piece as usize);
        let Some(mut full) = self.builder.replace(next) else { return Ok(()) };
        self.deliver(&mut full, true);
        self.send(full.finish());
        self.reserved = 0;
        self.shared.reserve_waiting(self.place, piece)?;
        self.reserved = piece;
        Ok(())
    }

    fn deliver(&mut self, full: &mut Builder, is_piece: bool) {
        let bytes = full.open_bytes();
        full.close(self.name.as_bytes());
        if is_piece {
            full.starts_at(self.sent);
        }
        self.sent += bytes;
        // What the chunk counts, in place of what was reserved.
        self.shared.hold(bytes + self.name.as_bytes().len() as u64);
        self.shared.release(self.reserved);
    }

    fn send(&mut self, chunk: Chunk) {
        // The one that all wait for is handed on as it comes; another one waits as a whole.
        let waits = self.shared.options.ordered && !self.shared.state().order.awaits(self.place);
        if waits {
            self.waiting.push(chunk);
            return;
        }
        self.waiting.drain(..).for_each(|earlier| self.shared.send(earlier));
        self.shared.send(chunk);
    }
}

impl ObjectWriter for Pieces {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.shared.check_open()?;
        if let Some(piece) = self.shared.options.piece {
            while self.builder()?.open_bytes() + bytes.len() as u64 > piece {
                let open = self.builder()?.open_bytes();
                let (now, later) = bytes.split_at((piece - open) as usize);
                self.builder()?.write(now);
                self.hand_on(piece)?;
                bytes = later;
            }
        }
        self.builder()?.write(bytes);
        let open = self.builder()?.open_bytes();
        if open > self.reserved {
            // Its size was not known: it is held as it comes.
            self.shared.hold(open - self.reserved);
            self.reserved = open;
            if open > self.shared.options.memory {
                return Err(too_large(None, self.shared.options.memory));
            }
        }
        Ok(())
    }

    fn space(&mut self) -> Option<&mut Vec<u8>> {
        // In pieces, or of unknown size: what is held has to be looked at in between.
        if self.shared.options.piece.is_some() || self.reserved == 0 || self.shared.closed.load(Relaxed) {
            return None;
        }
        self.builder.as_mut().map(Builder::space)
    }

    fn finish(mut self: Box<Self>) -> Result<Put> {
        self.shared.check_open()?;
        let Some(mut builder) = self.builder.take() else {
            return Err(Error::new(Kind::Internal, "an object was finished twice"));
        };
        let bytes = self.sent + builder.open_bytes();
        let piece = self.sent > 0;
        self.deliver(&mut builder, piece);
        self.reserved = 0;
        if self.shared.options.ordered {
            let mut chunks = std::mem::take(&mut self.waiting);
            chunks.push(builder.finish());
            settle(&self.shared, self.place, Some(chunks));
        } else {
            match self.filling.take() {
                None => self.shared.send(builder.finish()),
                Some(filling) => put_back(&self.shared, &filling, builder),
            }
        }
        Ok(self.slot.wrote(bytes))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.shared.release(self.reserved);
        let Some(mut builder) = self.builder.take() else { return };
        builder.forget();
        if let Some(filling) = self.filling.take().filter(|_| builder.len() > 0) {
            put_back(&self.shared, &filling, builder);
        }
    }
}

/// Goes on filling a chunk, unless another was begun meanwhile.
fn put_back(shared: &Shared, filling: &Filling, builder: Builder) {
    let mut there = filling.lock().unwrap_or_else(PoisonError::into_inner);
    let full = builder.len() >= shared.options.rows || builder.free() == 0;
    let sent = if full || there.is_some() { Some(builder) } else { there.replace(builder) };
    drop(there);
    if let Some(builder) = sent {
        shared.send(builder.finish());
    }
}
