//! A lane's part of the delivery: fills a chunk, object after object.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::chunk::Builder;
use super::{Chunk, Filling, Shared, State};
use crate::error::{Error, Kind, Result};
use crate::key::ObjectKey;
use crate::object::{Modes, ObjectMeta, Payload, WHOLE_MAX};
use crate::partition::Partition;
use crate::poison::ignore_poison;
use crate::sink::{Mode, ObjectWriter, PartitionWriter, Place, Put, Sealed, Writer};

pub(super) struct DeliverWriter(Rc<Lane>);

/// What the partitions of one lane share.
struct Lane {
    shared: Arc<Shared>,
    filling: Arc<Filling>,
    /// An empty chunk, from an object that was not put in its place after all.
    spare: Cell<Option<Builder>>,
}

impl DeliverWriter {
    pub fn new(shared: Arc<Shared>) -> DeliverWriter {
        let filling = Arc::new(Filling::default());
        shared.state().lanes.push(filling.clone());
        DeliverWriter(Rc::new(Lane { shared, filling, spare: Cell::new(None) }))
    }
}

impl Lane {
    /// Takes the chunk under way for an object of `size` bytes; one that it does not fit is sent.
    fn take_filling(&self, size: usize, key: &ObjectKey, size_known: bool) -> Option<Builder> {
        // In a statement of its own: the consumer takes this lock while it holds the other one.
        let filling = ignore_poison(self.filling.lock()).take();
        let filling = filling?;
        if size_known && filling.free() >= size && filling.takes_name(key.as_bytes()) {
            return Some(filling);
        }
        self.shared.send(filling.finish());
        None
    }

    fn send_filling(&self) {
        let filled = ignore_poison(self.filling.lock()).take();
        if let Some(builder) = filled {
            self.shared.send(builder.finish());
        }
    }

    fn check(&self, key: &ObjectKey) -> Result<()> {
        self.shared.check_open()?;
        if self.shared.options.utf8_names && std::str::from_utf8(key.as_bytes()).is_err() {
            return Err(Error::new(Kind::UnsafeName, "its name is not UTF-8, which a column of names requires"));
        }
        Ok(())
    }
}

impl Writer for DeliverWriter {
    fn open(&mut self, partition: &Partition, _mode: Mode, _modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        let lane = self.0.clone();
        lane.shared.open.fetch_add(1, Relaxed);
        if lane.shared.options.ordered {
            let mut state = lane.shared.state();
            let State { order, chunks, .. } = &mut *state;
            order.opened(partition.seq, partition.len, chunks);
        }
        Ok(Box::new(DeliverPartition { lane, seq: partition.seq, tally: Rc::default(), is_open: true }))
    }

    fn has_room(&mut self, place: Place) -> bool {
        self.0.shared.has_room(place)
    }
}

impl Drop for DeliverWriter {
    /// The lane ends: what it has filled goes to the consumer.
    fn drop(&mut self) {
        self.0.send_filling();
    }
}

struct DeliverPartition {
    lane: Rc<Lane>,
    seq: u64,
    tally: Rc<Tally>,
    is_open: bool,
}

#[derive(Default)]
struct Tally {
    objects: Cell<u64>,
    bytes: Cell<u64>,
}

impl Tally {
    fn wrote(&self, bytes: u64) -> Put {
        self.objects.set(self.objects.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        Put::Written
    }
}

impl DeliverPartition {
    fn place(&self, index: u32) -> Place {
        Place { seq: self.seq, index }
    }

    /// Reserves room for a large object. Small ones always have room: it was asked for before they were fetched.
    fn reserve(&self, index: u32, size: Option<u64>) -> Result<Option<u64>> {
        let Some(size) = size.filter(|&size| size > WHOLE_MAX as u64) else { return Ok(Some(0)) };
        let shared = &self.lane.shared;
        let first = size.min(shared.options.piece.unwrap_or(u64::MAX));
        if first > shared.options.memory {
            return Err(too_large(Some(size), shared.options.memory));
        }
        Ok(shared.reserve(self.place(index), first).then_some(first))
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.lane.shared.open.fetch_sub(1, Relaxed);
        }
    }
}

impl PartitionWriter for DeliverPartition {
    fn put(&mut self, index: u32, key: &ObjectKey, _meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        self.lane.check(key)?;
        let (bytes, name) = (payload.bytes()?, key.as_bytes());
        let (shared, options) = (&self.lane.shared, &self.lane.shared.options);
        shared.hold((bytes.len() + name.len()) as u64);
        if options.ordered {
            let mut alone = Builder::new(&shared.pool, bytes.len());
            alone.write(bytes);
            alone.close(name);
            settle(shared, self.place(index), Some(vec![alone.finish()]));
        } else {
            let full = {
                let mut filling = ignore_poison(self.lane.filling.lock());
                let full = filling.take_if(|builder| builder.free() < bytes.len() || !builder.takes_name(name));
                let builder = filling.get_or_insert_with(|| Builder::new(&shared.pool, options.bytes.max(bytes.len())));
                builder.write(bytes);
                builder.close(name);
                let rows = builder.len();
                [full, filling.take_if(|_| rows >= options.rows)]
            };
            full.into_iter().flatten().for_each(|builder| shared.send(builder.finish()));
        }
        Ok(self.tally.wrote(bytes.len() as u64))
    }

    fn put_in_place(
        &mut self,
        _index: u32,
        key: &ObjectKey,
        read: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<Option<u64>> {
        let Lane { shared, filling, spare } = &*self.lane;
        let options = &shared.options;
        if options.ordered || options.bytes <= WHOLE_MAX {
            return Ok(None);
        }
        self.lane.check(key)?;
        // Out of its place meanwhile: the consumer must not wait for the read. In a statement of its own, as above.
        let taken = ignore_poison(filling.lock()).take();
        let mut builder = match taken {
            Some(builder) if builder.free() > WHOLE_MAX && builder.takes_name(key.as_bytes()) => builder,
            Some(builder) => {
                put_back(shared, filling, builder);
                return Ok(None);
            }
            None => spare.take().unwrap_or_else(|| Builder::new(&shared.pool, options.bytes)),
        };
        let complete = read(builder.space());
        let bytes = builder.open_bytes();
        if complete {
            shared.hold(bytes + key.as_bytes().len() as u64);
            builder.close(key.as_bytes());
        } else {
            builder.forget();
        }
        match builder.len() {
            0 => spare.set(Some(builder)),
            _ => put_back(shared, filling, builder),
        }
        if !complete {
            return Ok(None);
        }
        self.tally.wrote(bytes);
        Ok(Some(bytes))
    }

    fn begin(&mut self, index: u32, key: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        self.lane.check(key)?;
        let Some(reserved) = self.reserve(index, meta.size)? else { return Ok(None) };
        let Lane { shared, filling, .. } = &*self.lane;
        let options = &shared.options;
        let size = meta.size.unwrap_or(0).min(options.piece.unwrap_or(u64::MAX)) as usize;
        let alone = options.apart || options.ordered || options.piece.is_some();
        // In the chunk under way, if it fits: written there once, and not copied.
        let builder = if alone { None } else { self.lane.take_filling(size, key, meta.size.is_some()) };
        let room = if alone { size } else { size.max(options.bytes) };
        Ok(Some(Box::new(Pieces {
            builder: Some(builder.unwrap_or_else(|| Builder::new(&shared.pool, room))),
            shared: shared.clone(),
            filling: (!alone).then(|| filling.clone()),
            tally: self.tally.clone(),
            key: key.clone(),
            place: self.place(index),
            reserved,
            sent: 0,
            waiting: Vec::new(),
        })))
    }

    fn skip(&mut self, index: u32) {
        if self.lane.shared.options.ordered {
            settle(&self.lane.shared, self.place(index), None);
        }
    }

    fn seal(mut self: Box<Self>) -> Result<Sealed> {
        self.close();
        if self.lane.shared.starved.load(Relaxed) {
            self.lane.send_filling();
        }
        let (objects, bytes) = (self.tally.objects.get(), self.tally.bytes.get());
        Ok(Sealed { seq: self.seq, objects, bytes, sync_token: None })
    }
}

impl Drop for DeliverPartition {
    fn drop(&mut self) {
        self.close();
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
    tally: Rc<Tally>,
    key: ObjectKey,
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
        full.close(self.key.as_bytes());
        if is_piece {
            full.starts_at(self.sent);
        }
        self.sent += bytes;
        // What the chunk counts, in place of what was reserved.
        self.shared.hold(bytes + self.key.as_bytes().len() as u64);
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
        Ok(self.tally.wrote(bytes))
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
    let mut there = ignore_poison(filling.lock());
    let full = builder.len() >= shared.options.rows || builder.free() == 0;
    let sent = if full || there.is_some() { Some(builder) } else { there.replace(builder) };
    drop(there);
    if let Some(builder) = sent {
        shared.send(builder.finish());
    }
}
