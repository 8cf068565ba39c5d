//! The engine: copies a source's partitions into a sink. It knows `Source`, `Sink` and `Partition`,
//! but not HTTP, archives, paths or Python.
//!
//! ```text
//! source ──partitions──▶ queue ──▶ lane: fetch ▸ fetch ▸ fetch ──▶ writer ──┐ sealed partitions
//!   ▲  (bounded, ordered)      ──▶ lane: fetch ▸ fetch ▸ fetch ──▶ writer ──┼──▶ committer: barrier ▸ journal
//!   └──────────── on restart: continue after the last committed page ◀──────┘
//! ```
//!
//! The states of a partition: listed (`listing.rs`) → queued, up to the high-water mark (`queue.rs`) → open on a lane,
//! or in parts on several (`in_flight_partition.rs`, `lane/`, `lane_partition.rs`) → every object written, skipped, failed or deferred → sealed
//! → synced → in the journal (`commit.rs`) → below the frontier (`frontier.rs`), where one row represents all
//! partitions. ARCHITECTURE.md has the table of the states of a partition, an object and a file after a kill.

mod alike;
mod budget;
mod cancel;
mod coarse_clock;
mod commit;
mod concurrency;
mod directories;
mod doubles;
mod filter;
mod frontier;
mod in_flight_partition;
mod lane;
mod lane_partition;
mod learnt;
mod lease;
mod listing;
mod message;
mod nothing_matched;
mod panicked;
mod progress;
mod queue;
mod rate;
mod ready;
mod retry_feeder;
mod run;
mod shared;
mod threads;

pub(crate) use commit::commit_state;
#[cfg(test)]
pub(crate) use concurrency::{Concurrency, Reach, Sample, Setup};
pub(crate) use filter::Filter;
pub(crate) use listing::next_page;
pub(crate) use nothing_matched::nothing_matched;
pub(crate) use run::{FAILURES_SHOWN, Neighbour, Run};
