//! A sink whose writes take time but no thread, as uploads do; they may fail with "503" and keep the bytes.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shoal_engine::sink::{
    Completed, Flush, Flushed, Mode, ObjectWriter, PartitionWriter, Place, Put, Sealed, Sink, SinkProperties,
    SinkState, Start, Started, StateRow, Wake, WithdrawnObject, Writer,
};
use shoal_engine::{Error, Kind, Modes, ObjectKey, ObjectMeta, Partition, Payload, Result};

type Fails = dyn Fn(usize, u32) -> bool + Send + Sync;

/// Writes to another sink, each object after `takes`.
pub struct Waiting {
    inner: Box<dyn Sink>,
    /// Takes every key, not only names.
    pub any_key: bool,
    shared: Arc<Shared>,
}

struct Shared {
    takes: Duration,
    /// Whether a write fails: how many have ended before, and which try of its object it is.
    fails: Box<Fails>,
    /// Answers later, else at once.
    later: bool,
    /// Every second failure is for good, or loses the bytes.
    refuses: AtomicBool,
    open: AtomicUsize,
    most: AtomicUsize,
    ended: AtomicUsize,
    tries: Mutex<HashMap<Vec<u8>, u32>>,
    wakes: Mutex<Vec<Wake>>,
    over: AtomicBool,
}

impl Waiting {
    pub fn new(inner: impl Sink + 'static, takes: Duration) -> Waiting {
        Waiting::failing(inner, takes, true, |_, _| false)
    }

    pub fn failing(
        inner: impl Sink + 'static,
        takes: Duration,
        later: bool,
        fails: impl Fn(usize, u32) -> bool + Send + Sync + 'static,
    ) -> Waiting {
        let shared = Arc::new(Shared {
            takes,
            fails: Box::new(fails),
            later,
            refuses: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            tries: Mutex::default(),
            wakes: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let clock = shared.clone();
        std::thread::spawn(move || {
            while !clock.over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                clock.wakes.lock().unwrap().iter().for_each(|wake| wake());
            }
        });
        Waiting { inner: Box::new(inner), any_key: false, shared }
    }

    /// Some failures are for good, and some lose the bytes.
    pub fn refusing(self) -> Waiting {
        self.shared.refuses.store(true, Relaxed);
        self
    }

    /// The most writes that were in flight.
    pub fn most(&self) -> usize {
        self.shared.most.load(Relaxed)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
    }
}

impl Sink for Waiting {
    fn identity(&self) -> String {
        self.inner.identity()
    }
    fn properties(&self) -> SinkProperties {
        SinkProperties { waits: true, ..self.inner.properties() }
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        self.inner.journal_dir()
    }
    fn admit(&self, raw: &[u8]) -> Result<ObjectKey> {
        match self.any_key {
            true => ObjectKey::of_bytes(raw),
            false => self.inner.admit(raw),
        }
    }
    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        self.inner.start(start, state)
    }
    fn clock(&self) -> Result<Option<i64>> {
        self.inner.clock()
    }
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        self.shared.wakes.lock().unwrap().push(wake.clone());
        Ok(Box::new(Lane { inner: self.inner.writer(lane, wake)?, shared: self.shared.clone() }))
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        self.inner.flush(sealed, reason)
    }
    fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        self.inner.withdrawing(objects)
    }
    fn withdraw(&self, object: &WithdrawnObject) {
        self.inner.withdraw(object);
    }
    fn finish(&self) -> Result<Option<String>> {
        self.inner.finish()
    }
}

impl Shared {
    fn begins(&self) {
        self.most.fetch_max(self.open.fetch_add(1, Relaxed) + 1, Relaxed);
    }

    /// A write has ended; whether it has failed.
    fn ends(&self, name: &ObjectKey) -> Result<()> {
        self.open.fetch_sub(1, Relaxed);
        let ended = self.ended.fetch_add(1, Relaxed);
        let mut tries = self.tries.lock().unwrap();
        let tried = tries.entry(name.as_bytes().to_vec()).or_default();
        *tried += 1;
        match (self.fails)(ended, *tried) {
            true if self.refuses.load(Relaxed) && ended.is_multiple_of(3) => {
                Err(Error::new(Kind::Denied, "403 as scripted"))
            }
            true => Err(Error::new(Kind::ServerError, "503 as scripted")),
            false => Ok(()),
        }
    }
}

struct Lane {
    inner: Box<dyn Writer>,
    shared: Arc<Shared>,
}

impl Writer for Lane {
    fn open(&mut self, partition: &Partition, mode: Mode, modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        let inner = Rc::new(RefCell::new(self.inner.open(partition, mode, modes)?));
        Ok(Box::new(Part { inner, shared: self.shared.clone(), writes: Rc::default() }))
    }
    fn has_room(&mut self, place: Place) -> bool {
        self.inner.has_room(place)
    }
}

struct Write {
    until: Instant,
    index: u32,
    name: ObjectKey,
    meta: ObjectMeta,
    bytes: Vec<u8>,
}

type Inner = Rc<RefCell<Box<dyn PartitionWriter>>>;

struct Part {
    inner: Inner,
    shared: Arc<Shared>,
    writes: Rc<RefCell<VecDeque<Write>>>,
}

impl Part {
    fn write(&self, index: u32, name: &ObjectKey, meta: &ObjectMeta, bytes: Vec<u8>) -> Put {
        self.shared.begins();
        let until = Instant::now() + self.shared.takes;
        self.writes.borrow_mut().push_back(Write { until, index, name: name.clone(), meta: meta.clone(), bytes });
        Put::Later
    }
}

impl PartitionWriter for Part {
    fn put(&mut self, index: u32, name: &ObjectKey, meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        if self.shared.later {
            return Ok(self.write(index, name, meta, payload.take()?));
        }
        self.shared.begins();
        self.shared.ends(name)?;
        self.inner.borrow_mut().put(index, name, meta, payload)
    }
    fn begin(&mut self, index: u32, name: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        let (inner, shared, writes) = (self.inner.clone(), self.shared.clone(), self.writes.clone());
        let part = Part { inner, shared, writes };
        Ok(Some(Box::new(Pieces { part, index, name: name.clone(), meta: meta.clone(), bytes: Vec::new() })))
    }
    fn completed(&mut self) -> Option<Completed> {
        if self.writes.borrow().front().is_none_or(|write| write.until > Instant::now()) {
            return None;
        }
        let Write { index, name, meta, bytes, .. } = self.writes.borrow_mut().pop_front()?;
        if let Err(error) = self.shared.ends(&name) {
            // Where failures lose bytes: every second one all of them, and every fourth one the last.
            let refuses = self.shared.refuses.load(Relaxed);
            let kept = bytes.len() - usize::from(refuses && index % 4 == 0 && !bytes.is_empty());
            let bytes = Some(bytes[..kept].to_vec()).filter(|_| !refuses || index % 2 == 0);
            return Some(Completed { index, result: Err(error), bytes });
        }
        let result = self.inner.borrow_mut().put(index, &name, &meta, &mut Payload::Owned(bytes));
        Some(Completed { index, result, bytes: None })
    }
    fn skip(&mut self, index: u32) {
        self.inner.borrow_mut().skip(index);
    }
    fn directory(&mut self, name: &ObjectKey) -> Result<()> {
        self.inner.borrow_mut().directory(name)
    }
    fn seal(self: Box<Self>) -> Result<Sealed> {
        assert!(self.writes.borrow().is_empty(), "sealed before every write was handed back");
        let Some(inner) = Rc::into_inner(self.inner) else { panic!("sealed while an object was being written") };
        inner.into_inner().seal()
    }
}

struct Pieces {
    part: Part,
    index: u32,
    name: ObjectKey,
    meta: ObjectMeta,
    bytes: Vec<u8>,
}

impl ObjectWriter for Pieces {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Put> {
        let Pieces { part, index, name, meta, bytes } = *self;
        match part.shared.later {
            true => Ok(part.write(index, &name, &meta, bytes)),
            false => part.inner.borrow_mut().put(index, &name, &meta, &mut Payload::Owned(bytes)),
        }
    }
}
