//! `SinkProperties`: how a sink writes, as one value.

use std::time::Duration;

use crate::object::Takes;

/// How a sink writes. The same for the whole run; the default is that of a directory of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkProperties {
    /// Writing keeps a thread busy for long enough to be worth more than one thread.
    pub blocks: bool,
    /// Writing waits without a thread: `put` answers [`Put::Later`](super::Put::Later), and each lane has many writes in
    /// flight.
    pub waits: bool,
    /// Several lanes may write parts of one partition, each with a writer of its own.
    pub shares: bool,
    /// Objects that may be handed out and not committed. After a kill, they are fetched again. A sink that packs objects
    /// needs as many as its open files hold, on all lanes together.
    pub window_objects: u64,
    /// The same in bytes, of the objects of complete partitions.
    pub window_bytes: u64,
    /// How long a partition stays open once an object of it is written, before it is committed without those that have not
    /// begun. A kill costs so much and the time between two commits. `None`: until all of it is done.
    pub open_max: Option<Duration>,
    /// What is committed can be replaced by a later session. Otherwise a listing that differs before the place where a
    /// run continues ends the run.
    pub replaces: bool,
    /// It stores what the source says of an object beside its bytes: when it was last changed, and its entity tag.
    pub metadata: bool,
    /// What it takes of a file besides bytes, permissions and times.
    pub takes: Takes,
    /// How objects are stored, if not as files. A run continues only in the same form.
    pub form: Option<&'static str>,
    /// How long the sink may take, after a run was stopped, to make durable what it holds
    /// ([`Flush::Stop`](super::Flush::Stop)). Zero: it is not called. Nor is a sink with a clock, because its lease has
    /// ended by then.
    pub stop_within: Duration,
    /// Parts of a job ([`Part`](crate::Part)) may write to one destination at the same time, from several machines. Matters
    /// only for a sink with a [`journal_dir`](super::Sink::journal_dir).
    pub parts: bool,
    /// Options that it refuses, as messages write them. Where a message advises one, it advises a new directory instead.
    pub refuses: &'static [&'static str],
}

impl SinkProperties {
    /// A message, without advice that this sink refuses.
    pub(crate) fn advised(&self, message: &str) -> String {
        self.refuses.iter().fold(message.to_owned(), |message, option| message.replace(option, "a new directory"))
    }
}

impl Default for SinkProperties {
    fn default() -> SinkProperties {
        SinkProperties {
            blocks: true,
            waits: false,
            shares: true,
            window_objects: 20_000,
            window_bytes: 64 << 20,
            open_max: Some(Duration::from_secs(1)),
            replaces: true,
            metadata: false,
            takes: Takes::default(),
            form: None,
            stop_within: Duration::ZERO,
            parts: false,
            refuses: &[],
        }
    }
}
