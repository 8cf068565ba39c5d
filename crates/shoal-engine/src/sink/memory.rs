//! `MemorySink`: objects kept in memory, for tests and for trying things out.
//!
//! Clones share the objects, so a test can look at them after the run, and a second run into a clone finds those of the
//! first. Nothing is durable, and it has no journal.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::collision::{Decision, Rules, SameBytes, Times, same_bytes};
use super::{Mode, ObjectWriter, Put, Reach, Sealed, Settled, Sink, Start, Started, Writer};
use crate::error::{Error, Kind, Result};
use crate::name::Name;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::options::Overwrite;
use crate::partition::Partition;
use crate::session::{Sessions, Twice};

/// Born before any run.
const STRANGER: i64 = -1;

/// Objects by name.
#[derive(Clone, Debug, Default)]
pub struct MemorySink {
    store: Arc<Mutex<Store>>,
}

#[derive(Debug, Default)]
struct Store {
    objects: BTreeMap<Vec<u8>, Stored>,
    /// One step for each run.
    clock: i64,
    started: Option<(Sessions, Rules)>,
}

#[derive(Debug)]
struct Stored {
    born: i64,
    bytes: Vec<u8>,
}

impl MemorySink {
    /// Returns an empty sink.
    pub fn new() -> MemorySink {
        MemorySink::default()
    }

    /// Returns its objects: names and bytes.
    pub fn objects(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let store = self.store();
        store.objects.iter().map(|(name, stored)| (name.clone(), stored.bytes.clone())).collect()
    }

    /// Adds an object as if another program had written it.
    pub fn plant(&self, name: &[u8], bytes: &[u8]) {
        self.store().objects.insert(name.to_vec(), Stored { born: STRANGER, bytes: bytes.to_vec() });
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, name: &Name, mode: Mode, bytes: Vec<u8>) -> Result<Put> {
        let mut store = self.store();
        let unstarted = || Error::new(Kind::Internal, "a memory sink was written to before start");
        let (sessions, rules) = store.started.as_ref().ok_or_else(unstarted)?;
        if let Some(there) = store.objects.get(name.as_bytes()) {
            let times = Times { born: Some(there.born), changed: there.born, written: there.born };
            let same = (there.bytes == bytes).then(|| same_bytes(sessions, *rules, times, mode));
            match (same, rules.decide(sessions, times, mode, false, &|| true)) {
                (Some(SameBytes::Kept | SameBytes::Found), _) => return Ok(Put::Kept),
                (Some(SameBytes::Present), _) => return Ok(Put::Duplicate),
                (Some(SameBytes::Rewrite), _) | (None, Decision::Replace) => {}
                (None, Decision::Second) => return Err(rules.second().on(&name.to_string())),
                (None, Decision::Exists) => {
                    let why = "an object that shoal did not write has this name";
                    return Err(Error::new(Kind::Exists, why).on(&name.to_string()));
                }
            }
        }
        let born = store.clock;
        store.objects.insert(name.as_bytes().to_vec(), Stored { born, bytes });
        Ok(Put::Written)
    }
}

impl Sink for MemorySink {
    fn identity(&self) -> String {
        "memory:".into()
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        None
    }

    fn withdraw(&self, _: u64, name: &Name) {
        let mut store = self.store();
        let is_one = store.started.as_ref().is_some_and(|(_, rules)| rules.twice == Twice::SameObject);
        let is_ours = store.objects.get(name.as_bytes()).is_some_and(|stored| stored.born != STRANGER);
        if is_one && is_ours {
            store.objects.remove(name.as_bytes());
        }
    }

    fn start(&self, start: &Start) -> Result<Started> {
        let mut store = self.store();
        store.clock += 1;
        start.lease.saw(store.clock);
        let rules = Rules { twice: start.twice, overwrite: Overwrite::Never };
        store.started = Some((Sessions::new(start.sessions.clone(), start.lease.clone()), rules));
        Ok(Started {
            began: Some(store.clock),
            durability: "none: in memory".into(),
            publish: "in memory".into(),
            ..Started::default()
        })
    }

    fn clock(&self) -> Result<Option<i64>> {
        Ok(Some(self.store().clock))
    }

    fn blocks(&self) -> bool {
        false
    }

    fn writer(&self, _lane: usize) -> Result<Box<dyn Writer>> {
        Ok(Box::new(MemoryWriter { sink: self.clone(), slots: HashMap::new() }))
    }

    fn sync(&self, sealed: Vec<Sealed>, _last: bool) -> Result<Settled> {
        let mut durable: Vec<u64> = sealed.iter().map(|part| part.seq).collect();
        durable.sort_unstable();
        durable.dedup();
        Ok(Settled { durable, reach: Reach::default() })
    }
}

struct Slot {
    seq: u64,
    mode: Mode,
    objects: u64,
    bytes: u64,
}

struct MemoryWriter {
    sink: MemorySink,
    slots: HashMap<u32, Rc<RefCell<Slot>>>,
}

impl MemoryWriter {
    fn slot(&self, slot: u32) -> Result<Rc<RefCell<Slot>>> {
        let unopened = || Error::new(Kind::Internal, format!("slot {slot} is not open"));
        self.slots.get(&slot).cloned().ok_or_else(unopened)
    }
}

impl Writer for MemoryWriter {
    fn open(&mut self, slot: u32, partition: &Partition, mode: Mode, _modes: Modes) -> Result<()> {
        let fresh = Slot { seq: partition.seq, mode, objects: 0, bytes: 0 };
        match self.slots.insert(slot, Rc::new(RefCell::new(fresh))) {
            None => Ok(()),
            Some(_) => Err(Error::new(Kind::Internal, format!("slot {slot} was opened twice"))),
        }
    }

    fn put(&mut self, slot: u32, name: &Name, _meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put> {
        let slot = self.slot(slot)?;
        store(&self.sink, &slot, name, payload.into_vec()?)
    }

    fn begin(&mut self, slot: u32, name: &Name, _meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>> {
        let slot = self.slot(slot)?;
        Ok(Box::new(Pieces { sink: self.sink.clone(), slot, name: name.clone(), bytes: Vec::new() }))
    }

    fn seal(&mut self, slot: u32) -> Result<Sealed> {
        let closed = self.slot(slot)?;
        self.slots.remove(&slot);
        let closed = closed.borrow();
        Ok(Sealed { seq: closed.seq, objects: closed.objects, bytes: closed.bytes, held: None })
    }

    fn discard(&mut self, slot: u32) {
        self.slots.remove(&slot);
    }
}

struct Pieces {
    sink: MemorySink,
    slot: Rc<RefCell<Slot>>,
    name: Name,
    bytes: Vec<u8>,
}

impl ObjectWriter for Pieces {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        store(&self.sink, &self.slot, &self.name, self.bytes)
    }
}

fn store(sink: &MemorySink, slot: &RefCell<Slot>, name: &Name, bytes: Vec<u8>) -> Result<Put> {
    let mut slot = slot.borrow_mut();
    let length = bytes.len() as u64;
    let put = sink.insert(name, slot.mode, bytes)?;
    if put == Put::Written {
        slot.objects += 1;
        slot.bytes += length;
    }
    Ok(put)
}
