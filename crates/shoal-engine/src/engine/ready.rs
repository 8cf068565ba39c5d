//! Listed partitions that wait for a lane: in the order of the listing, but those of a host that takes no request now are
//! passed over. Not here: when a lane gets one (`queue.rs`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::in_flight_partition::InFlightPartition;
use crate::error::HostId;

type Waiting = VecDeque<Arc<InFlightPartition>>;

/// The waiting partitions.
#[derive(Default)]
pub(super) struct Ready {
    /// Those of one host of many.
    by_host: HashMap<HostId, Waiting>,
    /// The host of each first one of these, by its number.
    first: BTreeMap<u64, HostId>,
    /// All others.
    others: Waiting,
    len: usize,
    bytes: usize,
}

impl Ready {
    /// Adds a partition, which is later in the listing than all before it.
    pub fn push(&mut self, open: Arc<InFlightPartition>) {
        self.len += 1;
        self.bytes += open.partition.payload.len();
        match open.host {
            None => self.others.push_back(open),
            Some(host) => {
                let waiting = self.by_host.entry(host).or_default();
                if waiting.is_empty() {
                    self.first.insert(open.partition.seq, host);
                }
                waiting.push_back(open);
            }
        }
    }

    /// The first partition of a host that is not to be passed over.
    pub fn first(&self, pass_over: &dyn Fn(HostId) -> bool) -> Option<&Arc<InFlightPartition>> {
        let other = self.others.front();
        let before = other.map_or(u64::MAX, |open| open.partition.seq);
        let host = self.first.range(..before).map(|(_, host)| *host).find(|&host| !pass_over(host));
        host.and_then(|host| self.by_host.get(&host)?.front()).or(other)
    }

    /// Takes one that `first` has returned.
    pub fn take(&mut self, open: &InFlightPartition) -> Option<Arc<InFlightPartition>> {
        let taken = match open.host {
            None => self.others.pop_front(),
            Some(host) => {
                let waiting = self.by_host.get_mut(&host)?;
                let taken = waiting.pop_front();
                self.first.remove(&open.partition.seq);
                match waiting.front() {
                    Some(next) => drop(self.first.insert(next.partition.seq, host)),
                    None => drop(self.by_host.remove(&host)),
                }
                taken
            }
        }?;
        self.len -= 1;
        self.bytes -= taken.partition.payload.len();
        Some(taken)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of their payloads.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Objects in them, as far as the listing has told.
    pub fn objects(&self) -> u64 {
        self.by_host.values().flatten().chain(&self.others).filter_map(|open| open.known_len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_flight_partition::Origin;
    use super::*;
    use crate::partition::{Cursor, Key, Partition};
    use crate::sink::Mode;

    #[test]
    fn partitions_come_in_order_but_for_those_of_a_host_that_is_passed_over() {
        let mut ready = Ready::default();
        for (seq, host) in [(0, Some(1)), (1, Some(2)), (2, None), (3, Some(1)), (4, Some(2))] {
            let payload = [0; 10].as_slice().into();
            let partition =
                Partition { seq, key: Key::default(), after: Cursor::default(), next: None, payload, len: Some(7) };
            let open = InFlightPartition::new(partition, Mode::First, Origin::Listed, host.map(HostId));
            ready.push(Arc::new(open));
        }
        assert_eq!((ready.len(), ready.bytes(), ready.objects()), (5, 50, 35));
        let mut taken = Vec::new();
        let mut all_but = |hosts: &[u64]| {
            while let Some(open) = ready.first(&|host| hosts.contains(&host.0)).cloned() {
                taken.push(ready.take(&open).unwrap().partition.seq);
            }
            std::mem::take(&mut taken)
        };
        assert_eq!(all_but(&[1]), [1, 2, 4]);
        assert_eq!(all_but(&[]), [0, 3]);
        assert!(ready.is_empty() && ready.bytes() == 0 && ready.by_host.is_empty() && ready.first.is_empty());
    }
}
