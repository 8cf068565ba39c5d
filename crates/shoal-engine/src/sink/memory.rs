//! `MemorySink`: objects kept in memory, for tests and for trying things out.
//!
//! Clones share the objects, so a test can look at them after the run, and a second run into a clone finds those of the
//! first. Nothing is durable, and it has no journal.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use super::collision::{Decision, Rules, SameBytes, Times, same_bytes};
use super::{
    Flush, Flushed, Mode, ObjectWriter, PartitionWriter, Put, Sealed, Sink, SinkProperties, SinkState, Start, Started,
    Wake, WithdrawnObject, Writer,
};
use crate::error::{Error, Kind, Result};
use crate::key::ObjectKey;
use crate::object::{Fingerprint, Modes, ObjectMeta, Payload};
use crate::options::Overwrite;
use crate::partition::Partition;
use crate::poison::ignore_poison;
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

impl Store {
    fn twice(&self) -> Option<Twice> {
        self.started.as_ref().map(|(_, rules)| rules.twice)
    }
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
        ignore_poison(self.store.lock())
    }

    fn insert(&self, key: &ObjectKey, mode: Mode, bytes: Vec<u8>) -> Result<Put> {
        let mut store = self.store();
        let unstarted = || Error::new(Kind::Internal, "a memory sink was written to before start");
        let (sessions, rules) = store.started.as_ref().ok_or_else(unstarted)?;
        if let Some(there) = store.objects.get(key.as_bytes()) {
            let times = Times { born: Some(there.born), changed: there.born, written: there.born };
            let same = (there.bytes == bytes).then(|| same_bytes(sessions, *rules, times, mode));
            match (same, rules.decide(sessions, times, mode, false, &|| true)) {
                (Some(SameBytes::Kept | SameBytes::Found), _) => return Ok(Put::Kept),
                (Some(SameBytes::Present), _) => return Ok(Put::Duplicate),
                (Some(SameBytes::Rewrite), _) | (None, Decision::Replace) => {}
                (None, Decision::Second) => return Err(rules.second().on(&key.to_string())),
                (None, Decision::Exists) => {
                    let why = "an object that shoal did not write has this name";
                    return Err(Error::new(Kind::Exists, why).on(&key.to_string()));
                }
            }
        }
        let born = store.clock;
        store.objects.insert(key.as_bytes().to_vec(), Stored { born, bytes });
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

    fn withdraw(&self, object: &WithdrawnObject) {
        let mut store = self.store();
        let (name, is_one) = (object.key.as_bytes(), store.twice() == Some(Twice::SameObject));
        let is_it = store.objects.get(name).is_some_and(|stored| {
            Fingerprint::of(&stored.bytes) == object.fingerprint && (!object.kept || is_one && stored.born != STRANGER)
        });
        if is_it {
            store.objects.remove(name);
        }
    }

    fn start(&self, start: &Start, _state: &dyn SinkState) -> Result<Started> {
        let mut store = self.store();
        store.clock += 1;
        start.lease.saw(store.clock);
        let rules = Rules { twice: start.twice, overwrite: Overwrite::Never, hard_links: false };
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

    fn properties(&self) -> SinkProperties {
        SinkProperties { blocks: false, ..SinkProperties::default() }
    }

    fn writer(&self, _lane: usize, _wake: Wake) -> Result<Box<dyn Writer>> {
        Ok(Box::new(MemoryWriter(self.clone())))
    }

    fn flush(&self, sealed: Vec<Sealed>, _reason: Flush) -> Result<Flushed> {
        Ok(Flushed::all(&sealed))
    }
}

struct MemoryWriter(MemorySink);

impl Writer for MemoryWriter {
    fn open(&mut self, partition: &Partition, mode: Mode, _modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        let tally = Rc::new(RefCell::new((0, 0)));
        Ok(Box::new(MemoryPartition { sink: self.0.clone(), seq: partition.seq, mode, tally }))
    }
}

struct MemoryPartition {
    sink: MemorySink,
    seq: u64,
    mode: Mode,
    /// Objects written, and their bytes.
    tally: Rc<RefCell<(u64, u64)>>,
}

impl PartitionWriter for MemoryPartition {
    fn put(&mut self, _index: u32, key: &ObjectKey, _meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        store(&self.sink, self.mode, &self.tally, key, payload.take()?)
    }

    fn begin(&mut self, _index: u32, key: &ObjectKey, _meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        let (sink, tally, key) = (self.sink.clone(), self.tally.clone(), key.clone());
        Ok(Some(Box::new(Pieces { sink, mode: self.mode, tally, key, bytes: Vec::new() })))
    }

    fn seal(self: Box<Self>) -> Result<Sealed> {
        let (objects, bytes) = *self.tally.borrow();
        Ok(Sealed { seq: self.seq, objects, bytes, sync_token: None })
    }
}

struct Pieces {
    sink: MemorySink,
    mode: Mode,
    tally: Rc<RefCell<(u64, u64)>>,
    key: ObjectKey,
    bytes: Vec<u8>,
}

impl ObjectWriter for Pieces {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        store(&self.sink, self.mode, &self.tally, &self.key, self.bytes)
    }
}

fn store(sink: &MemorySink, mode: Mode, tally: &RefCell<(u64, u64)>, key: &ObjectKey, bytes: Vec<u8>) -> Result<Put> {
    let length = bytes.len() as u64;
    let put = sink.insert(key, mode, bytes)?;
    if put == Put::Written {
        let (objects, bytes) = &mut *tally.borrow_mut();
        *objects += 1;
        *bytes += length;
    }
    Ok(put)
}
