//! A sink that cuts a run off at a chosen operation, as an error, a kill or a power cut does, and leaves at the destination
//! what such a thing leaves: the journal as it was at that moment, files torn that it does not hold.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shoal_engine::error::{Error, Result};
use shoal_engine::options::Durability;
use shoal_engine::sink::{
    DurabilityScope, Flush, Flushed, Left, Mode, ObjectWriter, PartitionWriter, Put, Sealed, Sink, SinkProperties,
    SinkState, Start, Started, Wake, Writer,
};
use shoal_engine::{Kind, Modes, ObjectKey, ObjectMeta, Part, Partition, Payload};

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In order.
    Whole,
    /// By an error.
    Cut,
    /// By Ctrl-C.
    Interrupt,
    /// Without a word.
    Kill,
    /// The same, and the machine is restarted.
    Power,
}

/// What is done to a session.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub how: How,
    /// Operations that succeed.
    pub operations: u64,
    /// The one that is cut off takes effect all the same.
    pub after: bool,
    pub durability: Durability,
    /// The part of a job that the session works on.
    pub part: Option<Part>,
    pub seed: u64,
}

type Files = Vec<(PathBuf, Vec<u8>)>;

#[derive(Default)]
struct State {
    left: u64,
    cut: bool,
    /// Names of the objects that were taken, by partition.
    taken: HashMap<u64, Vec<Vec<u8>>>,
    /// Files made since the last barrier began.
    since: Vec<PathBuf>,
    /// Names in partitions that a barrier has let through.
    passed: HashSet<Vec<u8>>,
    /// The journal as it was.
    journal: Option<Files>,
    torn: u64,
}

/// What the model asks afterwards.
#[derive(Clone)]
pub struct Cutter {
    plan: Plan,
    destination: PathBuf,
    journal: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Cutter {
    pub fn new(plan: Plan, destination: &Path, journal: PathBuf) -> Cutter {
        let left = if plan.how == How::Whole { u64::MAX } else { plan.operations };
        let state = State { left, ..State::default() };
        Cutter { plan, destination: destination.to_owned(), journal, state: Arc::new(Mutex::new(state)) }
    }

    pub fn sink(&self, inner: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(Cutting { inner, cutter: self.clone() })
    }

    /// Whether the chosen operation has come.
    pub fn is_cut(&self) -> bool {
        self.state.lock().unwrap().cut
    }

    pub fn torn(&self) -> u64 {
        self.state.lock().unwrap().torn
    }

    /// Names that the journal may hold now.
    pub fn passed(&self) -> HashSet<Vec<u8>> {
        self.state.lock().unwrap().passed.clone()
    }

    /// After the session: leaves the journal and the clock as a kill would have.
    pub fn leave_behind(&self) {
        let Some(files) = self.state.lock().unwrap().journal.take() else { return };
        let own = self.plan.part.map_or(".shoal".into(), |part| format!(".shoal/parts/{}", part.index()));
        std::fs::write(self.destination.join(own).join("clock"), "").unwrap();
        for path in self.journal_files() {
            let _ = std::fs::remove_file(path);
        }
        for (path, bytes) in files {
            std::fs::write(path, bytes).unwrap();
        }
    }

    fn journal_files(&self) -> [PathBuf; 3] {
        ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", self.journal.display())))
    }

    fn abrupt(&self) -> bool {
        matches!(self.plan.how, How::Kill | How::Power)
    }

    /// What is durable is not torn: with `file` nothing is that has its name.
    fn loses(&self) -> bool {
        self.plan.durability != Durability::File
    }

    /// Runs an operation, or cuts the run off there. `path`: the file that it makes, where one is made directly.
    fn run<T>(&self, path: Option<PathBuf>, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let first = {
            let mut state = self.state.lock().unwrap();
            match (state.left, state.cut) {
                (1.., _) => {
                    state.left -= 1;
                    drop(state);
                    return operation();
                }
                (0, true) if self.plan.how == How::Interrupt => return operation(),
                (0, true) => return Err(cut_off()),
                (0, false) => {
                    state.cut = true;
                    true
                }
            }
        };
        debug_assert!(first);
        if self.plan.how == How::Interrupt {
            std::thread::sleep(Duration::from_millis(60)); // the caller's thread looks every 50
            return operation();
        }
        let fresh = path.filter(|path| std::fs::symlink_metadata(path).is_err());
        if self.plan.after {
            operation()?;
        }
        let mut random = fastrand::Rng::with_seed(self.plan.seed);
        let mut state = self.state.lock().unwrap();
        if self.abrupt()
            && let Some(path) = fresh
        {
            state.torn += u64::from(tear(&path, &mut random, false)); // killed while it was written
        }
        if self.plan.how == How::Power && self.loses() {
            let since = std::mem::take(&mut state.since);
            state.torn += lose(&since, &mut random);
        }
        if self.abrupt() {
            let files = self.journal_files().into_iter().take(2);
            state.journal = Some(files.filter_map(|path| Some((path.clone(), std::fs::read(path).ok()?))).collect());
        }
        Err(cut_off())
    }

    fn took(&self, seq: u64, name: &ObjectKey, put: Put) {
        let mut state = self.state.lock().unwrap();
        state.taken.entry(seq).or_default().push(name.as_bytes().to_vec());
        if put == Put::Written {
            state.since.push(self.path(name));
        }
    }

    fn path(&self, name: &ObjectKey) -> PathBuf {
        self.destination.join(std::str::from_utf8(name.as_bytes()).unwrap())
    }
}

fn cut_off() -> Error {
    Error::new(Kind::DestinationFailed, "cut off on purpose")
}

/// Cuts a file short; `kept`: its time stays, as after a power cut. A link is left alone.
fn tear(path: &Path, random: &mut fastrand::Rng, kept: bool) -> bool {
    let Ok(facts) = std::fs::symlink_metadata(path) else { return false };
    if !facts.is_file() || facts.len() == 0 {
        return false;
    }
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(random.u64(0..facts.len())).unwrap();
    if kept {
        file.set_modified(facts.modified().unwrap()).unwrap();
    }
    true
}

/// What write-back has lost.
fn lose(files: &[PathBuf], random: &mut fastrand::Rng) -> u64 {
    let mut torn = 0;
    for path in files {
        match random.u32(0..4) {
            0 => drop(std::fs::remove_file(path)),
            1 | 2 => torn += u64::from(tear(path, random, true)),
            _ => {}
        }
    }
    torn
}

struct Cutting {
    inner: Arc<dyn Sink>,
    cutter: Cutter,
}

impl Sink for Cutting {
    fn identity(&self) -> String {
        self.inner.identity()
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        self.inner.journal_dir()
    }
    /// Stands for a file system with a barrier where `batch` is asked for, wherever it really lies.
    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        let started = self.inner.start(start, state)?;
        Ok(Started { volatile: self.cutter.plan.durability == Durability::None, ..started })
    }
    fn clock(&self) -> Result<Option<i64>> {
        match self.cutter.plan.how {
            // A run that an error has stopped still ends in order.
            How::Interrupt | How::Cut => self.inner.clock(),
            _ => self.cutter.run(None, || self.inner.clock()),
        }
    }
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        Ok(Box::new(CuttingWriter { inner: self.inner.writer(lane, wake)?, cutter: self.cutter.clone() }))
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        let Plan { durability, how, seed, .. } = self.cutter.plan;
        let covered = std::mem::take(&mut self.cutter.state.lock().unwrap().since);
        let result = self.cutter.run(None, || self.inner.flush(sealed, reason));
        let mut state = self.cutter.state.lock().unwrap();
        let mut random = fastrand::Rng::with_seed(seed ^ 1);
        match &result {
            // The restart comes after the run has ended in order.
            Ok(_) if durability == Durability::None && reason == Flush::Last && how == How::Power => {
                let all = [std::mem::take(&mut state.since), covered].concat();
                state.torn += lose(&all, &mut random);
            }
            Ok(_) if durability == Durability::None => state.since.extend(covered),
            Ok(_) => {}
            // What a failing barrier covered is lost, restart or not; with `none` there is no barrier that fails.
            Err(_) if durability == Durability::Batch && !self.cutter.plan.after => {
                state.torn += lose(&covered, &mut random);
            }
            Err(_) if durability == Durability::None && how == How::Power => {
                state.torn += lose(&covered, &mut random);
            }
            Err(_) => {}
        }
        let settled = result?;
        for seq in &settled.durable {
            let names = state.taken.remove(seq).unwrap_or_default();
            state.passed.extend(names);
        }
        let reach = match durability {
            Durability::None => DurabilityScope::PageCache,
            Durability::Batch => DurabilityScope::Everything,
            Durability::File => settled.reach,
        };
        Ok(Flushed { reach, ..settled })
    }
    fn properties(&self) -> SinkProperties {
        self.inner.properties()
    }
    fn finish(&self) -> Result<Option<String>> {
        self.inner.finish()
    }
}

struct CuttingWriter {
    inner: Box<dyn Writer>,
    cutter: Cutter,
}

impl Writer for CuttingWriter {
    fn open(&mut self, partition: &Partition, mode: Mode, modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        let inner = self.inner.open(partition, mode, modes)?;
        Ok(Box::new(CuttingPartition { inner, seq: partition.seq, cutter: self.cutter.clone() }))
    }
}

struct CuttingPartition {
    inner: Box<dyn PartitionWriter>,
    seq: u64,
    cutter: Cutter,
}

impl PartitionWriter for CuttingPartition {
    fn put(&mut self, index: u32, name: &ObjectKey, meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        let put = self.cutter.run(Some(self.cutter.path(name)), || self.inner.put(index, name, meta, payload))?;
        self.cutter.took(self.seq, name, put);
        Ok(put)
    }
    fn has(&mut self, name: &ObjectKey, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<Left>> {
        let has = self.inner.has(name, meta)?;
        if has.is_some() {
            self.cutter.took(self.seq, name, Put::Kept);
        }
        Ok(has)
    }
    fn begin(&mut self, index: u32, name: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        let inner = self.cutter.run(None, || self.inner.begin(index, name, meta))?;
        let (seq, name, cutter) = (self.seq, name.clone(), self.cutter.clone());
        Ok(inner.map(|inner| Box::new(CuttingObject { inner, seq, name, cutter }) as Box<dyn ObjectWriter>))
    }
    fn directory(&mut self, name: &ObjectKey) -> Result<()> {
        self.cutter.run(None, || self.inner.directory(name))
    }
    fn seal(self: Box<Self>) -> Result<Sealed> {
        let CuttingPartition { inner, cutter, .. } = *self;
        cutter.run(None, || inner.seal())
    }
}

struct CuttingObject {
    inner: Box<dyn ObjectWriter>,
    seq: u64,
    name: ObjectKey,
    cutter: Cutter,
}

impl ObjectWriter for CuttingObject {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.cutter.run(None, || self.inner.write(piece))
    }
    fn finish(self: Box<Self>) -> Result<Put> {
        let CuttingObject { inner, seq, name, cutter } = *self;
        let put = cutter.run(None, || inner.finish())?;
        cutter.took(seq, &name, put);
        Ok(put)
    }
}
