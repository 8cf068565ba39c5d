//! The partitions that a lane has open. Not here: what becomes of their objects (`take.rs`, `settle.rs`).

use std::cell::RefCell;

use super::super::in_flight_partition::Origin;
use super::super::lane_partition::LanePartition;
use crate::error::{Error, HostId, Kind, Result};
use crate::sink::PartitionWriter;
use crate::source::Job;

/// A slot for each of them.
#[derive(Default)]
pub(super) struct Slots {
    pub open: RefCell<Vec<Option<LanePartition>>>,
    /// What writes the objects of each slot. Apart from the slots, which are borrowed for other things meanwhile.
    pub writers: RefCell<Vec<Option<Box<dyn PartitionWriter>>>>,
    /// Numbers of slots that are not in use.
    pub free: RefCell<Vec<u32>>,
    /// Numbers of the slots in use, oldest first: objects are taken from the oldest, so that partitions are complete in
    /// about the order in which they were handed out and the frontier moves. Of many hosts, only of slots with something to
    /// take now.
    pub order: RefCell<Vec<u32>>,
}

impl Slots {
    pub fn add(&self, slot: LanePartition, writer: Box<dyn PartitionWriter>) -> u32 {
        let (mut slots, mut partitions) = (self.open.borrow_mut(), self.writers.borrow_mut());
        let free = self.free.borrow_mut().pop().map_or_else(
            || {
                slots.push(None);
                partitions.push(None);
                slots.len() - 1
            },
            |free| free as usize,
        );
        slots[free] = Some(slot);
        partitions[free] = Some(writer);
        self.order.borrow_mut().push(free as u32);
        free as u32
    }

    /// Takes nothing from a slot any more, or not now.
    pub fn take_no_more(&self, number: u32) {
        let mut order = self.order.borrow_mut();
        // Mostly the first.
        if let Some(at) = order.iter().position(|other| *other == number) {
            order.remove(at);
        }
    }

    /// Objects that this lane can take: not those of a host that takes no request now.
    pub fn untaken(&self) -> u32 {
        let (order, slots) = (self.order.borrow(), self.open.borrow());
        order.iter().filter_map(|number| slots[*number as usize].as_ref()).map(|slot| slot.open.untaken()).sum()
    }

    pub fn host(&self, number: u32, index: u32) -> Option<HostId> {
        Some(self.open.borrow().get(number as usize)?.as_ref()?.host(index))
    }

    /// The partition that an object is written with, and the one that it is counted in.
    pub fn numbers(&self, job: &Job) -> Option<(u64, u64)> {
        self.open.borrow()[job.slot as usize].as_ref().map(|slot| slot.numbers(job.index))
    }

    pub fn origin_is_listed(&self, job: &Job) -> Option<bool> {
        let slots = self.open.borrow();
        let slot = slots.get(job.slot as usize)?.as_ref()?;
        Some(matches!(slot.open.origin, Origin::Listed))
    }

    /// Tells the sink that an entry is not written with this partition.
    pub fn skip_in_sink(&self, slot: u32, index: u32) {
        if let Some(Some(writer)) = self.writers.borrow_mut().get_mut(slot as usize) {
            writer.skip(index);
        }
    }

    /// Calls the writer of a slot.
    pub fn write<T>(&self, slot: u32, call: impl FnOnce(&mut dyn PartitionWriter) -> Result<T>) -> Result<T> {
        let mut partitions = self.writers.borrow_mut();
        match partitions.get_mut(slot as usize) {
            Some(Some(writer)) => call(&mut **writer).map_err(Error::of_sink),
            _ => Err(Error::new(Kind::Internal, "an object was written after its partition was closed")),
        }
    }

    /// Drops what is not sealed: it is not committed.
    pub fn discard(&self) {
        self.open.borrow_mut().clear();
        self.writers.borrow_mut().clear();
    }
}
