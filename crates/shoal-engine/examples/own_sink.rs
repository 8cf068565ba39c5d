//! A sink of your own: packs objects into files `pack-0`, `pack-1` and so on: length of the name, length of the object
//! (8 bytes each, the least significant first), name, bytes.
//!
//! `cargo run --example own_sink -- SOURCE DIRECTORY [OBJECTS]`; docs/extending.md explains the parts. A file is synced under a
//! temporary name. Its objects are committed together with its name, and then it is renamed. After a kill between the
//! two, the next start renames it.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shoal_engine::sink::{
    Flush, Flushed, Mode, ObjectWriter, PartitionWriter, Put, Sealed, Sink, SinkProperties, SinkState, Start, Started,
    StateRow, Wake, Writer,
};
use shoal_engine::source::files::{Files, FilesFrom, FilesOptions};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Error, Kind, Modes, ObjectKey, ObjectMeta, Partition, Payload, Result};

/// Packs of at least so many objects, but for the last.
pub struct Packs {
    directory: PathBuf,
    objects: u64,
    state: Mutex<State>,
}

/// The pack that is being written.
#[derive(Default)]
struct State {
    file: Option<(File, String)>,
    /// Partitions in it, and how many objects they have.
    held: Vec<u64>,
    objects: u64,
    number: u64,
}

impl Packs {
    pub fn new(directory: &Path, objects: u64) -> Packs {
        Packs { directory: directory.to_owned(), objects, state: Mutex::default() }
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn temporary(&self) -> PathBuf {
        self.directory.join(".shoal/tmp")
    }
    /// Gives a committed pack its name.
    fn rename(&self, pack: &[u8], temporary: &[u8]) -> Result<()> {
        let (pack, temporary) = (String::from_utf8_lossy(pack), String::from_utf8_lossy(temporary));
        match fs::rename(self.temporary().join(&*temporary), self.directory.join(&*pack)) {
            // It has it already.
            Err(error) if error.kind() == ErrorKind::NotFound && self.directory.join(&*pack).exists() => Ok(()),
            result => result.map_err(failed),
        }
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::new(Kind::DestinationFailed, error.to_string()).errno(error.raw_os_error())
}

impl Sink for Packs {
    fn identity(&self) -> String {
        format!("packs in {}", self.directory.display())
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        Some(self.directory.clone())
    }
    fn properties(&self) -> SinkProperties {
        let (window_objects, stop_within) = (self.objects * 2, Duration::from_secs(5));
        let replaces = false; // a pack stays as it is
        SinkProperties { window_objects, window_bytes: u64::MAX, stop_within, replaces, ..SinkProperties::default() }
    }
    fn start(&self, _start: &Start, state: &dyn SinkState) -> Result<Started> {
        fs::create_dir_all(self.temporary()).map_err(failed)?;
        let mut next = 0;
        state.each(&mut |pack, temporary| {
            let number =
                std::str::from_utf8(pack).ok().and_then(|pack| pack.strip_prefix("pack-")?.parse::<u64>().ok());
            next = next.max(number.ok_or_else(|| Error::new(Kind::Journal, "its state is that of another sink"))? + 1);
            self.rename(pack, temporary)
        })?;
        self.state().number = next;
        for left in fs::read_dir(self.temporary()).map_err(failed)? {
            fs::remove_file(left.map_err(failed)?.path()).map_err(failed)?; // not committed
        }
        let (durability, publish) = ("each pack".into(), "packed, synced and renamed".into());
        Ok(Started { durability, publish, ..Started::default() })
    }
    fn writer(&self, _lane: usize, _wake: Wake) -> Result<Box<dyn Writer>> {
        Ok(Box::new(Lane))
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        let state = &mut *self.state();
        for part in sealed {
            let bytes = part.sync_token.and_then(|token| token.downcast::<Vec<u8>>().ok()).unwrap_or_default();
            let (file, _) = match &mut state.file {
                Some(file) => file,
                none => {
                    let name = format!("pack-{:016x}", fastrand::u64(..));
                    none.insert((File::create_new(self.temporary().join(&name)).map_err(failed)?, name))
                }
            };
            file.write_all(&bytes).map_err(failed)?;
            state.held.push(part.seq);
            state.objects += part.objects;
        }
        let Some((file, temporary)) = state.file.take_if(|_| reason != Flush::Due || state.objects >= self.objects)
        else {
            return Ok(Flushed::default()); // held for a later flush
        };
        file.sync_all().and_then(|()| File::open(self.temporary())?.sync_all()).map_err(failed)?;
        let pack = format!("pack-{}", state.number);
        let row: StateRow = (pack.into_bytes().into(), Some(temporary.into_bytes().into()));
        (state.objects, state.number) = (0, state.number + 1);
        let mut durable = std::mem::take(&mut state.held);
        durable.dedup();
        Ok(Flushed { durable, state: vec![row], ..Flushed::default() })
    }
    fn publish(&self, state: &[StateRow]) -> Result<()> {
        for (pack, temporary) in state {
            self.rename(pack, temporary.as_deref().unwrap_or_default())?;
        }
        File::open(&self.directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

struct Lane;

impl Writer for Lane {
    fn open(&mut self, partition: &Partition, _mode: Mode, _modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        Ok(Box::new(Part { seq: partition.seq, packed: Rc::default() }))
    }
}

/// A partition, or a lane's part of one: its objects as they will be in a pack, and how many there are.
struct Part {
    seq: u64,
    packed: Rc<RefCell<(Vec<u8>, u64, u64)>>,
}

impl PartitionWriter for Part {
    fn put(&mut self, _index: u32, name: &ObjectKey, _meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        pack(&self.packed, name, payload.bytes()?)
    }
    fn begin(&mut self, _index: u32, name: &ObjectKey, _meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        Ok(Some(Box::new(Pieces { packed: self.packed.clone(), name: name.clone(), bytes: Vec::new() })))
    }
    fn seal(self: Box<Self>) -> Result<Sealed> {
        let (packed, objects, bytes) = self.packed.take();
        Ok(Sealed { seq: self.seq, objects, bytes, sync_token: Some(Box::new(packed)) })
    }
}

struct Pieces {
    packed: Rc<RefCell<(Vec<u8>, u64, u64)>>,
    name: ObjectKey,
    bytes: Vec<u8>,
}

impl ObjectWriter for Pieces {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Put> {
        pack(&self.packed, &self.name, &self.bytes)
    }
}

fn pack(packed: &RefCell<(Vec<u8>, u64, u64)>, name: &ObjectKey, data: &[u8]) -> Result<Put> {
    let (bytes, objects, length) = &mut *packed.borrow_mut();
    for length in [name.as_bytes().len(), data.len()] {
        bytes.extend_from_slice(&length.to_le_bytes());
    }
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(data);
    (*objects, *length) = (*objects + 1, *length + data.len() as u64);
    Ok(Put::Written)
}

/// Copies what is at `from` into packs of at least so many objects.
#[allow(dead_code)] // tests include this file
pub fn copy(from: &str, directory: &Path, objects: u64) -> Result<Outcome> {
    let source = Arc::new(Files::new(FilesFrom::text(from), FilesOptions::default())?);
    let sink = Arc::new(Packs::new(directory, objects));
    Ok(Transfer::new(source, sink, Default::default()).run(&mut |_| ControlFlow::Continue(())))
}

#[allow(dead_code)]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [from, to, objects @ ..] = &arguments[..] else {
        return Err("pass a source and a directory, and objects of a pack if not 100,000".into());
    };
    let objects = objects.first().map_or(Ok(100_000), |objects| objects.parse())?;
    let outcome = copy(from, Path::new(to), objects)?;
    println!("{:?}", outcome.report.run);
    outcome.error.map_or(Ok(()), |error| Err(error.into()))
}
