//! The listing thread: keeps the queue filled, a bounded number of partitions ahead, and skips what is committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::commit::DEFERRED_MAX;
use super::frontier::Frontier;
use super::in_flight_partition::{InFlightPartition, Origin};
use super::message::Message;
use super::panicked::panicked;
use super::shared::Shared;
use crate::error::{Class, Error, Kind, Result};
use crate::hosts::Hosts;
use crate::journal::{MARK_ALL, Standing};
use crate::options::Pass;
use crate::partition::{Cursor, Key, Partition};
use crate::sink::Mode;
use crate::source::{Behind, Listing};

/// How often a waiting listing looks at the stop flag.
const TICK: Duration = Duration::from_millis(50);

/// What the journal knows of this listing.
pub(crate) struct Known {
    pub frontier: u64,
    pub chain: Key,
    pub done: BTreeMap<u64, Key>,
    pub mark: u64,
    pub cursor: Option<Cursor>,
    /// What lies below the frontier is listed too, and compared with `chain`.
    pub compare: bool,
    /// That nothing is listed now is an error.
    pub had_objects: bool,
}

impl Known {
    pub fn new(standing: &Standing, compare: bool) -> Known {
        Known {
            frontier: standing.frontier,
            chain: standing.chain,
            done: standing.done.clone(),
            mark: standing.mark,
            cursor: standing.cursor.clone(),
            compare: compare && standing.frontier > 0,
            had_objects: standing.frontier > 0
                || !standing.done.is_empty()
                || standing.pass == Pass::Update && standing.before.had_objects,
        }
    }

    fn nothing() -> Known {
        let (chain, done) = (Key::default(), BTreeMap::new());
        Known { frontier: 0, chain, done, mark: MARK_ALL, cursor: None, compare: false, had_objects: false }
    }
}

/// Runs the listing to its end. Errors stop the run.
pub(crate) fn run(shared: &Arc<Shared>, known: Known) {
    let body = std::panic::AssertUnwindSafe(|| list(shared, known));
    match std::panic::catch_unwind(body) {
        Ok(Ok(())) if shared.cancel.is_raised() => {}
        Ok(Ok(())) => shared.listed_all(),
        Ok(Err(error)) => shared.cancel.fail(error),
        Err(panic) => shared.cancel.fail(panicked("the listing", panic.as_ref())),
    }
}

fn list(shared: &Arc<Shared>, known: Known) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Internal, format!("cannot start the event loop for the listing: {e}")))?;
    let result = list_on(&runtime, shared, known);
    // Not dropped: that would wait for a name that is being looked up, for as long as its server takes.
    runtime.shutdown_background();
    result
}

fn list_on(runtime: &Runtime, shared: &Arc<Shared>, known: Known) -> Result<()> {
    let proven = shared.source.properties().behind == Behind::Proven;
    match list_from(runtime, shared, known) {
        Err(Stopped::Changed) => {}
        Err(Stopped::Error(error)) if error.kind() == Kind::CursorRefused && proven => {}
        Err(Stopped::Error(error)) => return Err(error),
        Ok(()) => return Ok(()),
    }
    if !shared.writing.replaces {
        let why =
            "the listing has changed before the point where the run stopped, and what is committed cannot be replaced";
        return Err(Error::new(Kind::JournalMismatch, why).hint("copy into a new directory"));
    }
    shared.note(
        "the listing has changed before the point where the run stopped: everything is listed again, and a file at \
        the destination is fetched again only if its size and time do not prove it unchanged",
    );
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    shared.tell_committer(Message::Reset(sender));
    while receiver.recv_timeout(TICK).is_err() {
        if shared.cancel.is_raised() {
            return Ok(());
        }
    }
    match list_from(runtime, shared, Known::nothing()) {
        Err(Stopped::Error(error)) => Err(error),
        Err(Stopped::Changed) | Ok(()) => Ok(()), // nothing is known that it could differ from
    }
}

/// Why a listing ended before its end.
enum Stopped {
    /// What lies behind the frontier is not what was committed.
    Changed,
    Error(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Error(error)
    }
}

fn list_from(runtime: &Runtime, shared: &Arc<Shared>, known: Known) -> Result<(), Stopped> {
    *shared.frontier() = Frontier::new(known.frontier, known.chain);
    let mut listing = match known.cursor.clone() {
        Some(cursor) if known.compare => shared.source.list_again(cursor)?,
        cursor => shared.source.list(cursor)?,
    };
    listing.report_to(&shared.findings);
    let (had_objects, compare) = (known.had_objects, known.compare);
    // What is before it was proven to be there: that nothing follows is no sign of a source that is gone.
    let continues = known.cursor.is_some() && !compare;
    let listed = list_pages(runtime, shared, &mut *listing, known);
    let end = listing.end();
    // Once a copy was finished, its pattern may match nothing any more: old logs are removed.
    let is_update = shared.pass == Pass::Update;
    let is_expected = is_update && end.unmatched.as_ref().is_some_and(|unmatched| !unmatched.is_bare);
    shared.listing_ended(end);
    let trusted = shared.source.properties().behind == Behind::Trusted;
    match listed? {
        true => Ok(()),
        false if shared.cancel.is_raised() || !had_objects => Ok(()),
        false if compare && (is_expected || trusted) => Err(Stopped::Changed),
        false if is_expected || trusted || continues => Ok(()),
        false => {
            let why = "the source is empty now, but had objects before: it may not be mounted";
            Err(Error::new(Kind::JournalMismatch, why)
                .hint("check it and run the same command again; `resume=\"restart\"` if it is empty on purpose")
                .into())
        }
    }
}

/// Whether there was anything.
fn list_pages(
    runtime: &Runtime,
    shared: &Shared,
    listing: &mut dyn Listing,
    mut known: Known,
) -> Result<bool, Stopped> {
    let mut chain = Key::default();
    let mut lists = false;
    let retried = || {
        shared.counters.listing_retries.fetch_add(1, Relaxed);
    };
    let mut next = || {
        runtime.block_on(async {
            tokio::select! {
                next = next_page(listing, &shared.hosts, &retried) => next,
                () = stopped(shared) => Ok(None),
            }
        })
    };
    while let Some(partition) = next()? {
        lists = true;
        if known.compare && partition.seq >= known.frontier {
            if chain != known.chain {
                return Err(Stopped::Changed);
            }
            known.compare = false;
        }
        if partition.seq < known.frontier {
            debug_assert!(known.compare, "a page begins behind the frontier");
            chain = chain.chain(partition.key);
            continue; // committed, and compared
        }
        let committed = known.done.remove(&partition.seq) == Some(partition.key);
        shared.frontier().listed(&partition, committed);
        if committed {
            continue;
        }
        if !wait_for_room(shared) {
            return Ok(true);
        }
        hand_over(shared, partition, known.mark);
    }
    if lists && !shared.cancel.is_raised() && known.compare && chain != known.chain {
        return Err(Stopped::Changed); // it has become shorter, or ends where it was committed
    }
    Ok(lists)
}

fn hand_over(shared: &Shared, partition: Partition, mark: u64) {
    if let Some(len) = partition.len {
        shared.counters.listed.fetch_add(u64::from(len), Relaxed);
    }
    let mode = if partition.seq < mark { Mode::Redo } else { Mode::First };
    let (host, is_in_turn) = (shared.source.host_of(&partition), shared.source.is_in_turn(&partition));
    shared.alike.listed(host);
    let open = InFlightPartition::new(partition, mode, Origin::Listed, host).in_turn(is_in_turn);
    if let Some(mark) = shared.queue.push(open) {
        shared.tell_committer(Message::Mark(mark));
    }
}

/// False when the run was stopped.
fn wait_for_room(shared: &Shared) -> bool {
    loop {
        if shared.cancel.is_raised() {
            return false;
        }
        let crowded = shared.counters.deferred.load(Relaxed) >= DEFERRED_MAX;
        if crowded {
            std::thread::sleep(TICK);
        } else if shared.queue.wait_for_room(TICK) {
            return true;
        }
    }
}

/// The next partition of a listing, with patience: errors of class `Retry` are waited out, and `retried` is told.
pub(crate) async fn next_page(
    listing: &mut dyn Listing,
    hosts: &Hosts,
    retried: impl Fn(),
) -> Result<Option<Partition>> {
    let (mut tries, mut since) = (0, Instant::now());
    loop {
        match listing.next().await {
            Err(error) if error.class() == Class::Retry => {
                if tries == 0 {
                    since = Instant::now();
                }
                tries += 1;
                let Some(wait) = hosts.listing_wait(&error, tries, since.elapsed()) else {
                    return Err(gave_up(&error, tries, since.elapsed()));
                };
                retried();
                tokio::time::sleep(wait).await;
            }
            Ok(partition) => {
                hosts.listed();
                return Ok(partition);
            }
            Err(error) => return Err(error),
        }
    }
}

fn gave_up(error: &Error, tries: u32, time: Duration) -> Error {
    let (kind, hint) = match error.kind() {
        Kind::Timeout => (Kind::Unreachable, "if the service needs this long to list, use a longer `timeout`"),
        Kind::Connect | Kind::Disconnected => (Kind::Unreachable, "is the server running and the address right?"),
        _ => (Kind::Listing, "the service answers, but sends no page"),
    };
    let gave_up = Error::new(kind, format!("could not fetch the listing: {}", error.why()))
        .after(tries, time)
        .errno(error.os_error())
        .hint(format!("{hint}; finished work is kept: run the same command again to resume"));
    match error.subject() {
        Some(subject) => gave_up.on(subject),
        None => gave_up,
    }
}

async fn stopped(shared: &Shared) {
    while !shared.cancel.is_raised() {
        tokio::time::sleep(TICK).await;
    }
}
