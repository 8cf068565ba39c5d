//! `Shared`: what all threads of a run share. Not here: the threads (`threads.rs`), how a run is put together (`run.rs`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::frontier::Frontier;
use super::message::Message;
use super::progress::Counters;
use super::{alike, budget, cancel, doubles, filter, lane_partition, learnt, queue, rate};
use crate::error::{Error, HostId, Kind, Side};
use crate::findings::Findings;
use crate::hosts::Hosts;
use crate::options::{Pass, TransferOptions, Workers};
use crate::part::Seen;
use crate::poison::ignore_poison;
use crate::report::{Failure, archive_of, is_of_archives};
use crate::sink::{Sink, SinkProperties, Wake};
use crate::source::{Entry, ListingEnd, Source, Unmatched};

/// Connections of one lane before the next is put to work, where writing costs nothing.
const LANE_FILL: usize = 32;
/// What all threads of a run share.
pub(crate) struct Shared {
    pub source: Arc<dyn Source>,
    pub sink: Arc<dyn Sink>,
    pub writing: SinkProperties,
    /// Objects get the times of their source.
    pub keeps_times: bool,
    pub options: TransferOptions,
    /// What the listing was begun as.
    pub pass: Pass,
    pub queue: queue::Queue,
    pub frontier: Mutex<Frontier>,
    /// Those of the source.
    pub hosts: Hosts,
    /// The destination, as a host.
    pub destination: Hosts,
    pub cancel: cancel::Cancel,
    pub budget: budget::Budget,
    pub rate: rate::Rate,
    pub filter: filter::Filter,
    pub counters: Counters,
    /// Lowers the priority of the calling thread, if the run is to leave the machine to others.
    pub lower: Option<fn() -> Result<(), String>>,
    pub parallel: Parallel,
    /// What the listing and the fetchers find out about the source.
    pub findings: Arc<Findings>,
    pub batch: Option<u64>,
    /// How long a partition stays open once an object of it is written. `None`: nothing is kept that a kill could lose.
    pub open_max: Option<Duration>,
    pub told: Told,
    pub alike: alike::Alike,
    /// The sink has room again; one for each lane.
    pub room: Vec<Notify>,
    /// What counts because another object of its name has written its bytes.
    pub doubles: doubles::Doubles,
    pub committer: Sender<Message>,
}

/// How much is done at once.
pub(crate) struct Parallel {
    pub lanes: usize,
    /// Each lane works on one object at a time, blocked by what it fetches: lanes = workers.
    pub blocking: bool,
    /// Objects in flight over all lanes, as `concurrency` wants it.
    pub target: AtomicUsize,
    /// The least that `target` is set to.
    pub least: usize,
    /// Objects in flight on one connection, as it was when `target` was set.
    pub depth: AtomicUsize,
    /// Objects of a lane that may hang: they do not count as in flight.
    pub hanging_max: usize,
    /// What the next session may start from.
    pub learnt: learnt::Learnt,
}

/// What the report will say besides the counts.
#[derive(Default)]
pub(crate) struct Told {
    /// The listing was not complete.
    pub partial: AtomicBool,
    /// What the listing has seen of the whole, if it counts that itself.
    pub seen: Mutex<Option<Seen>>,
    /// The pattern that nothing matched.
    pub unmatched: Mutex<Option<Unmatched>>,
    pub notes: Mutex<Vec<String>>,
    /// What the listing has left out, once it has ended.
    pub remarks: Mutex<Vec<String>>,
    /// How many objects had a name that another had before, and what the sink advises.
    pub repeated: Mutex<(u64, String)>,
    /// The failure that was one too many.
    pub last_failure: Mutex<Option<Failure>>,
}

impl Shared {
    pub fn frontier(&self) -> MutexGuard<'_, Frontier> {
        ignore_poison(self.frontier.lock())
    }

    /// The listing has ended.
    pub fn listed_all(&self) {
        self.queue.listed_all();
        self.hosts.listed_all();
    }

    pub fn note(&self, text: &str) {
        ignore_poison(self.told.notes.lock()).push(text.to_owned());
    }

    /// How the listing has ended; the last one counts, if it had to start over.
    pub fn listing_ended(&self, end: ListingEnd) {
        self.told.partial.store(!end.is_whole, Relaxed);
        *ignore_poison(self.told.seen.lock()) = end.seen;
        *ignore_poison(self.told.unmatched.lock()) = end.unmatched;
        *ignore_poison(self.told.remarks.lock()) = end.remarks;
    }

    /// What every thread of the run does first.
    pub fn lower_priority(&self) {
        if let Some(Err(refused)) = self.lower.map(|lower| lower()) {
            let notes = &mut *ignore_poison(self.told.notes.lock());
            if !notes.contains(&refused) {
                notes.push(refused); // the kernel refuses it to every thread
            }
        }
    }

    /// Counts an object that had a name which another had before, where something can be done about it.
    pub fn repeated(&self, error: &Error) {
        let advice = match error.kind() {
            Kind::Repeated => error.advice(),
            Kind::NameConflict => self.source.properties().same_name,
            _ => None,
        };
        if let Some(advice) = advice {
            let (count, known) = &mut *ignore_poison(self.told.repeated.lock());
            *count += 1;
            if known.is_empty() {
                advice.clone_into(known);
            }
        }
    }

    /// How long until the next deferred object is due.
    pub fn retry_in(&self) -> Option<Duration> {
        let due = Some(self.counters.next_due.load(Relaxed)).filter(|&due| due > 0)?;
        Some(Duration::from_millis(due.saturating_sub(lane_partition::now_ms())))
    }

    pub fn hosts_of(&self, side: Side) -> &Hosts {
        match side {
            Side::Source => &self.hosts,
            Side::Sink => &self.destination,
        }
    }

    /// What wakes a lane. It does not keep the run alive.
    pub fn wake(self: &Arc<Self>, lane: usize) -> Wake {
        let weak = Arc::downgrade(self);
        Arc::new(move || {
            if let Some(shared) = weak.upgrade() {
                shared.room[lane].notify_one();
            }
        })
    }

    pub fn tell_committer(&self, message: Message) {
        // The channel is closed only when the run is over. Then the message has no use.
        let _ = self.committer.send(message);
    }

    /// How many lanes share `target` objects in flight. As asked for, or where writing takes time, all of them; else no more
    /// than it takes: into `null:` one thread with 32 connections beats two with 16 each (120,000/s to 94,000/s on two
    /// cores, one request at a time).
    pub fn busy_lanes(&self, target: usize) -> usize {
        let parallel = &self.parallel;
        match self.options.workers {
            _ if parallel.blocking => target.clamp(1, parallel.lanes),
            Workers::Auto if !self.writing.blocks => {
                target.div_ceil(LANE_FILL * parallel.depth.load(Relaxed)).clamp(1, parallel.lanes)
            }
            _ => parallel.lanes,
        }
    }

    /// Stops the run when too many objects have failed; `entry` is the last of them.
    pub fn check_failures(&self, entry: &Entry<'_>, last: &Error, tries: u32) {
        if self.stop_at_failures(last) || self.stop_if_alike(last, entry.host) {
            // Its partition will not be committed any more, so the journal cannot tell.
            let (kind, reason) = (last.kind().as_str().to_owned(), self.writing.advised(last.why()));
            let archive = is_of_archives(&self.source.identity()).then(|| archive_of(entry.locator).into());
            let failure = Failure { name: entry.name.into(), archive, kind, reason, tries };
            ignore_poison(self.told.last_failure.lock()).get_or_insert(failure);
        }
    }

    /// Stops the run when nothing has succeeded and too many objects have failed alike; whether they have.
    fn stop_if_alike(&self, last: &Error, host: HostId) -> bool {
        if !self.alike.watches() {
            return false;
        }
        let (sums, listed) = (self.counters.sums(), self.counters.listed.load(Relaxed));
        let succeeded = sums.written + sums.duplicates + sums.unchanged > 0;
        let alike = self.alike.failed(last, host, succeeded, listed, self.queue.is_listed_all());
        alike.map(|error| self.cancel.fail(error)).is_some()
    }

    /// Stops the run when too many objects have failed; whether they have.
    pub fn stop_at_failures(&self, last: &Error) -> bool {
        let Some(most) = self.options.max_failures else { return false };
        let too_many = self.counters.sums().failed > most;
        if too_many {
            let why = format!("more than {most} objects failed; the last one: {}", last.line());
            self.cancel.fail(
                Error::new(Kind::TooManyFailures, why)
                    .hint("fix the cause and run the same command again, or raise `max_failures`"),
            );
        }
        too_many
    }
}
