//! What a sink gets and answers when partitions are to become durable.

use std::any::Any;
use std::time::Instant;

use crate::sink_state::StateRow;

/// A partition, or a part of one, that a writer has closed.
pub struct Sealed {
    /// `Partition::seq`.
    pub seq: u64,
    /// Objects written.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What the sink needs at `flush`.
    pub sync_token: Option<Box<dyn Any + Send>>,
}

/// Why a sink is asked to flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// There are enough sealed partitions, or 500 ms have passed. The sink may hold all of them back.
    Due,
    /// Nothing more can be handed out until something is committed. The sink makes durable what it can. It is asked again
    /// until it has named a partition.
    Starving,
    /// The run was stopped: the sink makes durable what it can until then. It is asked once.
    Stop {
        /// When it should be done.
        until: Instant,
    },
    /// Everything is sealed. The sink names all that it has not named yet.
    Last,
}

/// Which files a flush made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurabilityScope {
    /// None. The partitions that it names are copied again after a reboot.
    PageCache,
    /// Those of the partitions that it names.
    #[default]
    Named,
    /// All that were written before, also by earlier sessions (`syncfs`).
    Everything,
}

/// The result of a flush.
#[derive(Debug, Default)]
pub struct Flushed {
    /// Partitions (by `seq`) that may be committed now.
    pub durable: Vec<u64>,
    /// How durable they are.
    pub reach: DurabilityScope,
    /// What the destination's journal remembers, from the same transaction on ([`SinkState`](super::SinkState)).
    pub state: Vec<StateRow>,
}

impl Flushed {
    /// The answer of a sink that holds nothing back: every sealed partition, once.
    pub fn all(sealed: &[Sealed]) -> Flushed {
        let mut durable: Vec<u64> = sealed.iter().map(|part| part.seq).collect();
        durable.sort_unstable();
        durable.dedup();
        Flushed { durable, ..Flushed::default() }
    }
}
