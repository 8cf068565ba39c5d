//! Raw records for a loop: [`Blocks`].
//!
//! Here: blocks of whole records, one after the other, in a reused buffer; optionally, another thread reads the next one
//! ahead. Not here: values; the loop over the records unpacks them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::error::Result;
use crate::file::Records;
use crate::read::{Partitions, Reader, Space};

/// Bytes of one block: a read of this size costs as much per byte as one of any larger size.
const BLOCK: usize = 1 << 20;

/// Blocks of raw records, in order.
pub struct Blocks {
    size: usize,
    partitions: Partitions,
    /// The next partition that this thread reads itself.
    next: u64,
    reader: Reader,
    space: Space,
    ahead: Option<Ahead>,
}

/// The thread that reads ahead. It has two blocks: one is with the caller, the other is being read.
struct Ahead {
    /// Takes memory back; none when the thread is to end.
    empty: Option<Sender<Space>>,
    full: Receiver<Result<(Space, usize)>>,
    thread: Option<JoinHandle<()>>,
    current: Option<Space>,
}

impl Records {
    /// Gives these records in blocks of about a mebibyte, or of so many records each.
    #[must_use]
    pub fn blocks(&self, records: Option<u64>, ahead: bool) -> Blocks {
        let size = self.format().size();
        let most = records.unwrap_or((BLOCK / size) as u64).max(1);
        let partitions = || Partitions::of(self, Some(most));
        let ahead = if ahead && partitions().count() > 1 { Ahead::start(partitions(), size) } else { None };
        let space = Space::new(0);
        Blocks { size, partitions: partitions(), next: 0, reader: Reader::new(), space, ahead }
    }
}

impl Blocks {
    /// The next block; none at the end. What it holds stays until the next call.
    ///
    /// # Errors
    ///
    /// Changed, Io: as of any read.
    pub fn next_block(&mut self) -> Result<Option<&[u8]>> {
        if self.next == self.partitions.count() {
            return Ok(None);
        }
        let at = self.next;
        self.next += 1;
        if let Some(ahead) = &mut self.ahead {
            if let (Some(used), Some(empty)) = (ahead.current.take(), &ahead.empty) {
                // Fails only if the thread has ended, which the next line notices.
                let _ = empty.send(used);
            }
            if let Ok(read) = ahead.full.recv() {
                let (space, length) = read.inspect_err(|_| self.next = self.partitions.count())?;
                return Ok(Some(ahead.current.insert(space).first(length)));
            }
        }
        let partition = self.partitions.get(at);
        let into = self.space.first(partition.records as usize * self.size);
        let read = self.reader.fill(&self.partitions, partition, into);
        read.inspect_err(|_| self.next = self.partitions.count())?;
        Ok(Some(into))
    }
}

impl Ahead {
    /// Starts the thread; none if the system has none left.
    fn start(partitions: Partitions, size: usize) -> Option<Self> {
        let (empty, empties) = channel::<Space>();
        let (fulls, full) = channel();
        for _ in 0..2 {
            // The receiver lives in this function.
            let _ = empty.send(Space::new(0));
        }
        let work = move || {
            let mut reader = Reader::new();
            for at in 0..partitions.count() {
                let Ok(mut space) = empties.recv() else { return };
                let partition = partitions.get(at);
                let length = partition.records as usize * size;
                let read = reader.fill(&partitions, partition, space.first(length)).map(|()| (space, length));
                let end = read.is_err();
                if fulls.send(read).is_err() || end {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("shoal-records".to_owned()).spawn(work).ok()?;
        Some(Self { empty: Some(empty), full, thread: Some(thread), current: None })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.empty = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
