//! The committer: collects complete partitions, runs the barrier, then writes the journal. Nothing else writes it.
//!
//! Done is written after durable: `Sink::sync` first, then one transaction with everything it named. A failed barrier
//! is never tried again; it stops the run, and what it covered is redone on resume. After the stop flag no barrier is
//! begun. The thread also hands out objects whose later try has come, because their list is in the journal.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::Shared;
use super::lease::Keeper;
use super::open::{Complete, Open, Origin};
use super::queue::{BATCH_BYTES, BATCH_OBJECTS};
use super::slot::now_ms;
use crate::error::{Error, Kind, Result};
use crate::journal::{Commit, Credited, Due, Durable, Ending, MARK_ALL, Withdrawn};
use crate::name::Name;
use crate::partition::{Cursor, Key};
use crate::sink::{Mode, Reach};

/// A batch closes at half of what may be out, so that lanes go on while the barrier runs.
const CLOSE_OBJECTS: u64 = BATCH_OBJECTS / 2;
const CLOSE_BYTES: u64 = BATCH_BYTES / 2;
/// … or after this long.
const CLOSE_AGE: Duration = Duration::from_millis(500);
/// How often the committer looks at flags and due retries.
const TICK: Duration = Duration::from_millis(20);
/// How often it is looked at which deferred object is due next.
const DUE_LOOK: Duration = Duration::from_secs(1);
/// How long complete partitions gather before they are looked at: a wake-up for each took 3 % of a run into `null:`.
const GATHER: Duration = Duration::from_millis(1);
/// Objects tried again in one partition.
const AGAIN_MAX: usize = 100;
/// Partitions of objects to try again that may wait for a lane.
const AGAIN_AHEAD: usize = 4;
/// Deferred objects at which the listing pauses.
pub(crate) const DEFERRED_MAX: u64 = 100_000;

/// What lanes and the listing tell the committer.
pub(crate) enum Message {
    Complete(Box<Complete>),
    /// An object that was written with this partition is a failure after all.
    Withdrawn {
        partition: u64,
        withdrawn: Box<Withdrawn>,
    },
    /// No lane says anything any more.
    LanesEnded,
    /// Move the high-water mark here.
    Mark(u64),
    /// The listing is to start over: nothing of the earlier runs counts any more.
    Reset(std::sync::mpsc::SyncSender<()>),
}

pub(crate) struct Committer {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    /// Complete, not yet through a barrier.
    pending: Vec<Complete>,
    pending_since: Option<Instant>,
    /// Through `sync`, but held by the sink for a later one.
    held: BTreeMap<u64, Complete>,
    /// Failures that are not in the journal yet, each with the number of its object's partition, which may not be either.
    withdrawn: Vec<(u64, Withdrawn)>,
    mark: u64,
    again_seq: u64,
    /// Above it lie those of before the listing started over. What they wrote is listed anew, and so fetched anew.
    again_forgotten: u64,
    /// Partitions of objects tried again that are not committed.
    again: HashSet<u64>,
    committed: Credited,
    ending: Ending,
    /// When it was looked at last which deferred object is due next.
    looked_at_due: Option<Instant>,
    /// The listing reaches its end in this session, or did in an earlier one: then the run can be complete.
    lists: bool,
}

impl Committer {
    pub fn new(shared: Arc<Shared>, keeper: Arc<Keeper>, mark: u64, lists: bool) -> Committer {
        Committer {
            shared,
            keeper,
            pending: Vec::new(),
            pending_since: None,
            held: BTreeMap::new(),
            withdrawn: Vec::new(),
            mark,
            again_seq: u64::MAX,
            again_forgotten: u64::MAX,
            again: HashSet::new(),
            committed: Credited::default(),
            ending: Ending::Sound,
            looked_at_due: None,
            lists,
        }
    }

    /// Runs to the end of the run; says what was committed, and how the session ended. `alive` is dropped when nothing is
    /// left to do but what lanes say as they end.
    pub fn run(mut self, messages: &Receiver<Message>, alive: Sender<()>) -> (Credited, Ending) {
        self.guarded(|committer| committer.work(messages));
        self.shared.queue.finish();
        drop(alive);
        self.guarded(|committer| committer.end(messages));
        (self.committed, self.ending)
    }

    fn guarded(&mut self, work: impl FnOnce(&mut Committer) -> Result<()>) {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(self))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.shared.cancel.fail(error),
            Err(panic) => self.shared.cancel.fail(super::panicked("the thread that commits", panic.as_ref())),
        }
    }

    fn work(&mut self, messages: &Receiver<Message>) -> Result<()> {
        loop {
            match messages.recv_timeout(TICK) {
                Ok(message) => self.receive(message)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            while let Ok(message) = messages.try_recv() {
                self.receive(message)?;
            }
            if self.shared.cancel.is_raised() {
                return Ok(());
            }
            if self.should_close() {
                self.barrier(false)?;
            }
            self.withdraw()?;
            self.hand_out_due()?;
            self.tell_next_due()?;
            if !self.pending.is_empty() {
                self.shared.queue.gather(GATHER);
            }
            if self.is_over() {
                return self.barrier(true);
            }
        }
    }

    /// Takes what lanes say as they end, which is the last that is known of what they wrote.
    fn end(&mut self, messages: &Receiver<Message>) -> Result<()> {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Withdrawn { .. } => self.receive(message)?,
                Message::LanesEnded => break,
                _ => {}
            }
        }
        self.withdraw()?;
        if self.lists && !self.shared.cancel.is_raised() && self.shared.source.is_whole() {
            self.keeper.write(|journal| journal.complete(now_ms() / 1000))?;
        }
        Ok(())
    }

    fn receive(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Complete(complete) => {
                self.pending_since.get_or_insert_with(Instant::now);
                self.pending.push(*complete);
            }
            Message::Withdrawn { partition, .. } if partition > self.again_forgotten => {}
            Message::Withdrawn { partition, withdrawn } => self.withdrawn.push((partition, *withdrawn)),
            Message::LanesEnded => {}
            Message::Mark(mark) if mark > self.mark => {
                self.keeper.write(|journal| journal.mark(mark))?;
                self.mark = mark;
                self.shared.queue.set_mark(mark);
            }
            Message::Mark(_) => {}
            Message::Reset(done) => {
                let deferred = self.keeper.journal().deferred();
                self.keeper.write(|journal| journal.reset_listing())?;
                self.shared.counters.listed.fetch_sub(deferred, Relaxed); // listed anew
                self.again_forgotten = self.again_seq;
                self.withdrawn.clear();
                self.mark = MARK_ALL;
                self.shared.queue.set_mark(MARK_ALL);
                let _ = done.send(()); // the listing may have been stopped meanwhile
            }
        }
        Ok(())
    }

    fn should_close(&self) -> bool {
        let Some(since) = self.pending_since else { return false };
        let objects: u64 = self.pending.iter().map(|complete| complete.objects).sum();
        let bytes: u64 = self.pending.iter().map(|complete| complete.bytes).sum();
        objects >= self.shared.batch.unwrap_or(CLOSE_OBJECTS)
            || bytes >= CLOSE_BYTES
            || since.elapsed() >= CLOSE_AGE
            || self.shared.queue.wants_commit()
    }

    fn is_over(&self) -> bool {
        self.pending.is_empty()
            && self.shared.queue.is_drained_but(self.held_objects())
            && self.keeper.journal().deferred() == 0
    }

    fn held_objects(&self) -> u64 {
        self.held.values().map(|complete| complete.objects).sum()
    }

    fn barrier(&mut self, last: bool) -> Result<()> {
        let mut sealed = Vec::new();
        for mut complete in self.pending.drain(..) {
            sealed.append(&mut complete.sealed);
            self.held.insert(complete.seq, complete);
        }
        self.pending_since = None;
        // What was changed before this moment is durable with the barrier.
        let clock = self.keeper.clock()?;
        let settled = self.shared.sink.sync(sealed, last).inspect_err(|_| self.ending = Ending::BarrierFailed)?;
        let mut through = Vec::new();
        for seq in settled.durable {
            through.extend(self.held.remove(&seq));
        }
        if last && !self.held.is_empty() {
            return Err(Error::new(Kind::Internal, "the last sync did not cover all partitions"));
        }
        let durable = match settled.reach {
            Reach::PageCache => Durable::No,
            Reach::Named => Durable::These,
            Reach::Everything => Durable::All,
        };
        if through.is_empty() {
            return Ok(());
        }
        self.commit(through, durable, clock.filter(|_| durable != Durable::No))
    }

    fn commit(&mut self, through: Vec<Complete>, durable: Durable, barrier: Option<i64>) -> Result<()> {
        let (mut objects, mut listed, mut bytes) = (0, 0, 0);
        let mut commit = Commit::default();
        for complete in through {
            self.again.remove(&complete.seq);
            objects += complete.objects;
            bytes += complete.bytes;
            commit.retried.extend(complete.retried);
            if let Some(done) = complete.done {
                listed += done.listed;
                commit.done.push(done);
            }
        }
        let window = {
            let mut frontier = self.shared.frontier();
            for done in &commit.done {
                frontier.commit(done.seq);
            }
            commit.fold = frontier.advance();
            frontier.window()
        };
        let credited = self.keeper.write(|journal| {
            if let Some(clock) = barrier {
                journal.passed_barrier(clock);
            }
            if let Some(in_flight) = self.shared.learnt.get() {
                journal.note_learnt(in_flight);
            }
            journal.commit(&commit, durable)
        })?;
        self.committed.written += credited.written;
        self.committed.skipped += credited.skipped;
        self.committed.failed += credited.failed;
        self.committed.bytes += credited.bytes;
        self.shared.counters.listed.fetch_sub(credited.superseded, Relaxed);
        self.shared.counters.listed.fetch_add(credited.again, Relaxed);
        self.shared.counters.committed.fetch_add(objects, Relaxed);
        let mut journal = self.keeper.journal();
        self.shared.deferred.store(journal.deferred(), Relaxed);
        self.looked_at_due = None;
        self.shared.queue.committed(objects, listed, bytes, window);
        let totals = journal.totals();
        journal.sample(now_ms(), totals.written, totals.bytes);
        Ok(())
    }

    /// Writes down failures of objects that are committed; the others wait for the commit of their partition.
    fn withdraw(&mut self) -> Result<()> {
        if self.withdrawn.is_empty() {
            return Ok(());
        }
        let is_committed = |partition: u64| {
            !self.again.contains(&partition)
                && (partition > self.again_seq || self.shared.frontier().is_committed(partition))
        };
        let (ready, rest) = self.withdrawn.drain(..).partition(|(partition, _)| is_committed(*partition));
        let ready: Vec<(u64, Withdrawn)> = ready;
        self.withdrawn = rest;
        if ready.is_empty() {
            return Ok(());
        }
        let names: Vec<_> =
            ready.iter().map(|(partition, withdrawn)| (*partition, Name::parse(&withdrawn.failed.name))).collect();
        let withdrawn = ready.into_iter().map(|(_, withdrawn)| withdrawn).collect();
        let commit = Commit { withdrawn, ..Commit::default() };
        // No barrier has run: nothing is more durable than it was.
        let credited = self.keeper.write(|journal| journal.commit(&commit, Durable::These))?;
        // If there are fewer, the counts of this run will not balance, which ends it.
        self.committed.written = self.committed.written.saturating_sub(credited.withdrawn);
        self.committed.skipped = self.committed.skipped.saturating_sub(credited.withdrawn_skipped);
        self.committed.bytes = self.committed.bytes.saturating_sub(credited.withdrawn_bytes);
        self.committed.failed += credited.failed;
        // Only now: what is recorded as written must be there.
        for (partition, name) in names {
            if let Ok(name) = name {
                self.shared.sink.withdraw(partition, &name);
            }
        }
        Ok(())
    }

    /// Objects whose later try has come become partitions of their own.
    fn hand_out_due(&mut self) -> Result<()> {
        if self.keeper.journal().deferred() == 0 || self.shared.retry.is_gated() {
            return Ok(());
        }
        while self.shared.queue.again_waiting() < AGAIN_AHEAD {
            let due = self.keeper.journal().take_due(now_ms(), AGAIN_MAX)?;
            if due.is_empty() {
                break;
            }
            // What has the name of one that was a repetition is no leftover of it, but the first, which stays.
            let (repeated, rest): (Vec<_>, _) = due
                .into_iter()
                .partition(|due| [Kind::Repeated, Kind::NameConflict].iter().any(|kind| *due.kind == *kind.as_str()));
            for (due, mode) in [(rest, Mode::Again), (repeated, Mode::Fresh)] {
                if !due.is_empty() {
                    self.hand_out(due, mode)?;
                }
            }
        }
        Ok(())
    }

    /// Notes for the display when the next deferred object is due.
    fn tell_next_due(&mut self) -> Result<()> {
        if self.looked_at_due.is_some_and(|looked| looked.elapsed() < DUE_LOOK) {
            return Ok(());
        }
        self.looked_at_due = Some(Instant::now());
        let next = self.keeper.journal().next_due()?;
        self.shared.next_due.store(next.unwrap_or_default(), Relaxed);
        Ok(())
    }

    fn hand_out(&mut self, due: Vec<Due>, mode: Mode) -> Result<()> {
        let locators: Vec<_> = due.iter().map(|due| due.locator.clone()).collect();
        let mut partition = self.shared.source.select(&locators)?;
        // Numbered from the far end: never in the way of the listing's own.
        partition.seq = self.again_seq;
        partition.key = Key::of(locators.iter().map(|locator| &**locator));
        partition.after = Cursor::default();
        partition.len = Some(locators.len() as u32);
        self.again.insert(self.again_seq);
        self.again_seq -= 1;
        self.shared.queue.push_again(Open::new(partition, mode, Origin::Retried(due)));
        Ok(())
    }
}
