//! The memory that objects are handed over in: chunks of many small ones, or of one large one, in buffers that are used
//! again. Memory that was never touched before costs 8 to 30 µs for 100 kB in page faults; that is the price of reading.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::fs::read::{ALIGNED, lead};
use crate::poison::ignore_poison;

/// So many bytes of free buffers are kept although none of them fits: objects of mixed sizes find theirs again.
const FEW: u64 = 32 << 20;
/// Smaller buffers are not worth keeping.
const KEPT_MIN: usize = 16 << 10;

/// Free buffers, for whichever lane wants one next. Left to the allocator they would go back to the lane that asked for
/// them, and the share of each lane would grow to the whole budget.
pub(super) struct Pool(Mutex<Free>);

#[derive(Default)]
struct Free {
    /// Bytes to keep, at the most.
    most: u64,
    /// By capacity.
    buffers: BTreeMap<usize, Vec<Vec<u8>>>,
    bytes: u64,
}

impl Free {
    fn pop(&mut self, capacity: usize) -> Option<Vec<u8>> {
        let alike = self.buffers.get_mut(&capacity)?;
        let buffer = alike.pop()?;
        if alike.is_empty() {
            self.buffers.remove(&capacity);
        }
        self.bytes -= capacity as u64;
        Some(buffer)
    }

    /// Takes out as much as a buffer of another capacity needs, unless few are kept.
    fn make_room(&mut self, bytes: usize) -> Vec<Vec<u8>> {
        let left = self.bytes.saturating_sub(bytes as u64).max(FEW.min(self.most / 4));
        let mut out = Vec::new();
        while self.bytes > left
            && let Some((&capacity, _)) = self.buffers.first_key_value()
        {
            out.extend(self.pop(capacity));
        }
        out
    }
}

impl Pool {
    pub fn new(memory: u64) -> Arc<Pool> {
        Arc::new(Pool(Mutex::new(Free { most: memory, ..Free::default() })))
    }

    /// Keeps nothing from now on: no lane wants a buffer any more, but the caller may keep one.
    pub fn end(&self) {
        let kept = std::mem::take(&mut *self.free());
        drop(kept); // unmapped without the lock
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        ignore_poison(self.0.lock())
    }

    /// An empty buffer that takes `bytes`, and at most twice that.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        let wanted = ALIGNED + if bytes < KEPT_MIN { bytes } else { bytes.next_power_of_two() };
        let mut free = self.free();
        if let Some(buffer) = free.pop(wanted) {
            return buffer;
        }
        let others = free.make_room(wanted);
        drop(free);
        drop(others); // unmapped without the lock
        Vec::with_capacity(wanted)
    }

    /// The same, with its first bytes left out so that the next are aligned.
    fn take_aligned(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.take(bytes);
        buffer.resize(lead(buffer.as_ptr()), 0);
        buffer
    }

    fn give(&self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let mut free = self.free();
        if capacity < KEPT_MIN || free.bytes + capacity as u64 > free.most {
            drop(free);
            return; // unmapped without the lock
        }
        buffer.clear();
        free.bytes += capacity as u64;
        free.buffers.entry(capacity).or_default().push(buffer);
    }
}

/// Bytes that do not change any more. Their memory is reused when the last handle is dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    pool: Arc<Pool>,
}

impl Buffer {
    /// Size of its memory in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.bytes));
    }
}

/// Delivered objects: their names one after the other, and their bytes.
pub struct Chunk {
    names: Vec<u8>,
    /// Where each name ends; where the first begins in front. As wide as Arrow wants them.
    name_ends: Vec<i32>,
    data: Arc<Buffer>,
    data_ends: Vec<i64>,
    /// Where the only object of this chunk begins in the whole one, when that comes in pieces.
    offset: u64,
}

impl Chunk {
    /// Number of objects.
    pub fn len(&self) -> usize {
        self.data_ends.len() - 1
    }

    /// Whether there are no objects; a delivered chunk has at least one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of an object.
    pub fn name(&self, index: usize) -> &[u8] {
        &self.names[self.name_ends[index] as usize..self.name_ends[index + 1] as usize]
    }

    /// The range of an object's bytes in the buffer.
    pub fn range(&self, index: usize) -> std::ops::Range<usize> {
        self.data_ends[index] as usize..self.data_ends[index + 1] as usize
    }

    /// The bytes of all objects.
    pub fn data(&self) -> &Arc<Buffer> {
        &self.data
    }

    /// The offset of this piece in its object, if the object is delivered in pieces.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns names, offsets of names, bytes and offsets of bytes. Offsets are where the first begins, then each end.
    pub fn into_columns(self) -> (Vec<u8>, Vec<i32>, Arc<Buffer>, Vec<i64>) {
        (self.names, self.name_ends, self.data, self.data_ends)
    }

    /// How many bytes it counts in the memory budget.
    pub fn bytes(&self) -> u64 {
        let (first, last) = (self.data_ends.first(), self.data_ends.last());
        last.zip(first).map_or(0, |(last, first)| (last - first) as u64) + self.names.len() as u64
    }
}

/// A chunk that is being filled.
pub(super) struct Builder {
    names: Vec<u8>,
    name_ends: Vec<i32>,
    data: Vec<u8>,
    data_ends: Vec<i64>,
    offset: u64,
    /// Bytes of data at which it is full, whatever its memory takes.
    limit: usize,
    pool: Arc<Pool>,
}

impl Builder {
    /// For `bytes` of data.
    pub fn new(pool: &Arc<Pool>, bytes: usize) -> Builder {
        let data = pool.take_aligned(bytes);
        Builder {
            names: Vec::new(),
            name_ends: vec![0],
            data_ends: vec![data.len() as i64],
            limit: data.len() + bytes,
            data,
            offset: 0,
            pool: pool.clone(),
        }
    }

    pub fn len(&self) -> usize {
        self.data_ends.len() - 1
    }

    /// Bytes of data that it still takes.
    pub fn free(&self) -> usize {
        self.limit.saturating_sub(self.data.len())
    }

    /// Whether a name still fits: its place is held in 31 bits.
    pub fn takes_name(&self, name: &[u8]) -> bool {
        self.names.len() + name.len() <= i32::MAX as usize
    }

    /// Appends to the object under way.
    pub fn write(&mut self, piece: &[u8]) {
        self.data.extend_from_slice(piece);
    }

    /// Where the object under way goes on.
    pub fn space(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Bytes of the object under way.
    pub fn open_bytes(&self) -> u64 {
        self.data.len() as u64 - self.data_ends[self.len()] as u64
    }

    /// Ends the object under way.
    pub fn close(&mut self, name: &[u8]) {
        self.names.extend_from_slice(name);
        self.name_ends.push(self.names.len() as i32);
        self.data_ends.push(self.data.len() as i64);
    }

    /// Forgets the object under way.
    pub fn forget(&mut self) {
        self.data.truncate(self.data_ends[self.len()] as usize);
    }

    /// Says where its one object begins in the whole one.
    pub fn starts_at(&mut self, offset: u64) {
        self.offset = offset;
    }

    pub fn finish(self) -> Chunk {
        let data = Arc::new(Buffer { bytes: self.data, pool: self.pool });
        Chunk { names: self.names, name_ends: self.name_ends, data, data_ends: self.data_ends, offset: self.offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(pool: &Pool) -> u64 {
        pool.free().buffers.values().flatten().map(|buffer| buffer.capacity() as u64).sum()
    }

    #[test]
    fn the_pool_keeps_at_most_its_memory_and_of_what_does_not_fit_a_quarter() {
        let memory = 4 << 20;
        let pool = Pool::new(memory);
        let take_and_give = |count, bytes| {
            let buffers: Vec<_> = (0..count).map(|_| pool.take(bytes)).collect();
            buffers.into_iter().for_each(|buffer| pool.give(buffer));
            assert_eq!(kept(&pool), pool.free().bytes);
        };
        take_and_give(50, 100_000);
        assert!((memory - (1 << 18)..=memory).contains(&kept(&pool)), "{}", kept(&pool));

        let others: Vec<_> = (0..20).map(|_| pool.take(300_000)).collect();
        assert!((memory / 4 - (1 << 18)..=memory / 4).contains(&kept(&pool)), "{}", kept(&pool));
        drop(others);
        take_and_give(1, 50_000);
        assert!(kept(&pool) <= memory / 4 + (1 << 17), "one more, and room made for it");
    }

    #[test]
    fn after_the_end_of_a_run_an_object_that_is_kept_keeps_no_other_memory() {
        let pool = Pool::new(1 << 20);
        let [free, late] = [pool.take(100_000), pool.take(100_000)];
        pool.give(free);
        assert!(kept(&pool) > 0);

        pool.end();
        pool.give(late);

        assert_eq!((kept(&pool), pool.free().bytes), (0, 0));
    }
}
