//! The committer: collects complete partitions, has the sink flush them, then writes the journal. Nothing else writes it.
//!
//! Done is written after durable: `Sink::flush` first, then one transaction with everything it named. A failed flush is
//! never tried again; it stops the run, and what it covered is redone on resume. A sink may hold partitions back. It is
//! asked again twice a second, and at every look while lanes starve, so that it cannot stop a run. After a stop, only a
//! sink that wants it is asked once more. The thread also runs `retry_feeder.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::in_flight_partition::Complete;
use super::lane_partition::now_ms;
use super::lease::Keeper;
use super::message::{Gone, Message};
use super::panicked::panicked;
use super::retry_feeder::RetryFeeder;
use super::shared::Shared;
use super::{directories, nothing_matched};
use crate::error::{Error, Kind, Result};
use crate::journal::{Commit, Credited, Durable, Ending, Journal, MARK_ALL, Settled, Standing};
use crate::options::Pass;
use crate::poison::ignore_poison;
use crate::sink::{DurabilityScope, Flush, Flushed, Sink, StateRow, WithdrawnObject};

/// A batch closes at this size, or at half of what the sink's window holds, so that lanes go on during the flush …
const CLOSE_OBJECTS: u64 = 10_000;
const CLOSE_BYTES: u64 = 32 << 20;
/// … or after this long.
const CLOSE_AGE: Duration = Duration::from_millis(500);
/// How often the committer looks at flags and due retries.
const TICK: Duration = Duration::from_millis(20);
/// How long complete partitions gather before they are looked at: a wake-up for each took 3 % of a run into `null:`.
const GATHER: Duration = Duration::from_millis(1);
/// Deferred objects at which the listing pauses.
pub(crate) const DEFERRED_MAX: u64 = 100_000;

/// Commits what a sink has prepared apart from a flush, and has it published.
pub(crate) fn commit_state(journal: &mut Journal, sink: &dyn Sink, state: Vec<StateRow>) -> Result<()> {
    if state.is_empty() {
        return Ok(());
    }
    let commit = Commit { state, ..Commit::default() };
    journal.commit(&commit, Durable::These)?;
    sink.publish(&commit.state).map_err(Error::of_sink)
}

pub(crate) struct Committer {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    /// Complete, not yet through a barrier.
    pending: Vec<Complete>,
    pending_since: Option<Instant>,
    /// Flushed, but held by the sink for a later flush.
    held: BTreeMap<u64, Complete>,
    /// Held partitions that settle or defer retries, which the journal knows only after their commit.
    held_retries: usize,
    /// Deferred objects in held partitions.
    held_deferred: u64,
    /// When the sink was asked last.
    flushed: Instant,
    /// Failures that are not in the journal yet, because their partitions are not; and the file that goes with the last one.
    withdrawn: Vec<(Vec<Gone>, Option<WithdrawnObject>)>,
    mark: u64,
    retries: RetryFeeder,
    committed: Credited,
    ending: Ending,
    /// The listing reaches its end in this session, or did in an earlier one: then the run can be complete.
    lists: bool,
    /// What a directory cannot have, told at the end.
    lacking: Option<Error>,
    /// The run has admitted something before this session, so that a listing without anything is none of its mistakes.
    has_matched: bool,
}

impl Committer {
    pub fn new(shared: Arc<Shared>, keeper: Arc<Keeper>, standing: &Standing, lists: bool) -> Committer {
        let mark = standing.mark;
        Committer {
            retries: RetryFeeder::new(shared.clone(), keeper.clone()),
            shared,
            keeper,
            pending: Vec::new(),
            pending_since: None,
            held: BTreeMap::new(),
            held_retries: 0,
            held_deferred: 0,
            flushed: Instant::now(),
            withdrawn: Vec::new(),
            mark,
            committed: Credited::default(),
            ending: Ending::Sound,
            lists,
            lacking: None,
            has_matched: standing.before.has_matched,
        }
    }

    /// Runs to the end of the run; says what was committed, and how the session ended. `alive` is dropped when nothing is
    /// left to do but what lanes say as they end.
    pub fn run(mut self, messages: &Receiver<Message>, alive: Sender<()>) -> (Credited, Ending) {
        let is_sound = self.guarded(|committer| committer.work(messages));
        self.shared.queue.finish();
        drop(alive);
        self.guarded(|committer| committer.end(messages, is_sound));
        (self.committed, self.ending)
    }

    /// Whether `work` went well. Else the run ends with its error, unless it has one already.
    fn guarded(&mut self, work: impl FnOnce(&mut Committer) -> Result<()>) -> bool {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(self))) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => self.shared.cancel.fail(error),
            Err(panic) => self.shared.cancel.fail(panicked("the thread that commits", panic.as_ref())),
        }
        false
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
            if let Some(reason) = self.should_flush() {
                self.flush(reason)?;
            }
            self.withdraw(false)?;
            self.retries.feed()?;
            if !self.pending.is_empty() {
                self.shared.queue.gather(GATHER);
            }
            if self.is_over() {
                self.flush(Flush::Last)?;
                return self.set_directories();
            }
        }
    }

    /// Takes what lanes say as they end, which is the last that is known of what they wrote.
    fn end(&mut self, messages: &Receiver<Message>, is_sound: bool) -> Result<()> {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Withdrawn(_) | Message::Complete(_) => self.receive(message)?,
                Message::LanesEnded => break,
                _ => {}
            }
        }
        if is_sound {
            self.flush_at_stop()?;
        }
        self.withdraw(true)?;
        if self.lists && !self.shared.cancel.is_raised() && !self.shared.told.partial.load(Relaxed) {
            self.judge()?;
            let seen = *ignore_poison(self.shared.told.seen.lock());
            self.keeper.write(|journal| journal.complete(now_ms() / 1000, seen))?;
        }
        self.lacking.take().map_or(Ok(()), Err)
    }

    /// Here, and not at the end: signals are seen, and the lease is extended.
    fn set_directories(&mut self) -> Result<()> {
        let has_objects = || {
            let journal = self.keeper.journal();
            nothing_matched(&journal.totals(), &journal.skips(), &self.shared.options, None).is_none()
        };
        let is_whole = self.lists && !self.shared.told.partial.load(Relaxed);
        if is_whole && (self.shared.options.allow_empty || self.has_matched || has_objects()) {
            self.lacking = directories::set(&self.shared, &mut self.ending)?;
        }
        Ok(())
    }

    /// A run that has selected nothing is not complete.
    fn judge(&self) -> Result<()> {
        let Shared { options, told, .. } = &*self.shared;
        if options.allow_empty {
            return Ok(());
        }
        let (total, skips) = {
            let journal = self.keeper.journal();
            (journal.totals(), journal.skips())
        };
        let unmatched = ignore_poison(told.unmatched.lock());
        let pattern = unmatched.as_ref().map(|unmatched| &*unmatched.pattern);
        match nothing_matched(&total, &skips, options, pattern) {
            // A part may have none of the objects: all are judged together (`transfer.rs`).
            Some(error) if !self.has_matched && (options.part.is_none() || pattern.is_some()) => Err(error),
            Some(error) if self.has_matched => {
                self.shared.note(&format!("{}; earlier, there were objects", error.why()));
                Ok(())
            }
            _ => {
                let gone = pattern.filter(|_| total.listed > 0);
                gone.iter().for_each(|gone| self.shared.note(&format!("no file matches \"{gone}\" any more")));
                Ok(())
            }
        }
    }

    fn receive(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Complete(complete) => {
                self.pending_since.get_or_insert_with(Instant::now);
                self.pending.push(*complete);
            }
            Message::Withdrawn(gone) => {
                let file = gone.first().and_then(|gone| self.withdrawn_file(gone));
                self.withdrawn.push((gone, file));
            }
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
                self.retries.forget();
                // What was there before may be found again by the new listing, and count.
                self.withdrawn.iter_mut().for_each(|(_, file)| *file = file.take().filter(|file| !file.kept));
                self.mark = MARK_ALL;
                self.shared.queue.set_mark(MARK_ALL);
                let _ = done.send(()); // the listing may have been stopped meanwhile
            }
        }
        Ok(())
    }

    fn should_flush(&self) -> Option<Flush> {
        let is_starving = self.shared.queue.is_starving() || self.waits_for_held();
        let reason = if is_starving { Flush::Starving } else { Flush::Due };
        let is_due = match self.pending_since {
            Some(since) => {
                let (objects, bytes) = self
                    .pending
                    .iter()
                    .fold((0, 0), |(objects, bytes), complete| (objects + complete.objects, bytes + complete.bytes));
                let writing = &self.shared.writing;
                objects >= self.shared.batch.unwrap_or(CLOSE_OBJECTS.min(writing.window_objects / 2))
                    || bytes >= CLOSE_BYTES.min(writing.window_bytes / 2)
                    || since.elapsed() >= CLOSE_AGE
                    || self.shared.queue.wants_commit()
            }
            None => !self.held.is_empty() && (reason == Flush::Starving || self.flushed.elapsed() >= CLOSE_AGE),
        };
        is_due.then_some(reason)
    }

    /// Whether nothing goes on before held partitions are committed: the rest of the run is retries that are in them, or
    /// too many objects are deferred.
    fn waits_for_held(&self) -> bool {
        self.held_retries > 0 && self.shared.queue.is_drained_but(self.held.len())
            || !self.held.is_empty() && self.deferred() >= DEFERRED_MAX
    }

    /// Deferred objects, also those that the journal does not have yet.
    fn deferred(&self) -> u64 {
        self.keeper.journal().deferred() + self.held_deferred
    }

    fn hold(&mut self, complete: Complete) {
        self.held_retries += usize::from(complete.has_retries());
        self.held_deferred += complete.deferred();
        self.held.insert(complete.seq, complete);
    }

    fn release(&mut self, seq: u64) -> Option<Complete> {
        let complete = self.held.remove(&seq)?;
        self.held_retries -= usize::from(complete.has_retries());
        self.held_deferred -= complete.deferred();
        Some(complete)
    }

    /// A run that was stopped: the sink may still keep what it holds. Not if it has a clock: the lease has ended, and what it
    /// wrote now would look like another program's.
    fn flush_at_stop(&mut self) -> Result<()> {
        let within = self.shared.writing.stop_within;
        let holds = !self.pending.is_empty() || !self.held.is_empty();
        let (cancel, is_sound) = (&self.shared.cancel, matches!(self.ending, Ending::Sound));
        if within.is_zero() || !holds || !is_sound || !cancel.is_raised() || !cancel.spares_sink() {
            return Ok(());
        }
        if self.keeper.clock()?.is_some() {
            return Ok(());
        }
        self.flush(Flush::Stop { until: Instant::now() + within })
    }

    fn is_over(&self) -> bool {
        self.pending.is_empty() && self.shared.queue.is_drained_but(self.held.len()) && self.deferred() == 0
    }

    fn flush(&mut self, reason: Flush) -> Result<()> {
        let mut sealed = Vec::new();
        for mut complete in std::mem::take(&mut self.pending) {
            sealed.append(&mut complete.sealed);
            self.hold(complete);
        }
        self.pending_since = None;
        // What was changed before this moment is durable with the flush.
        let clock = self.keeper.clock()?;
        let flushed = self.shared.sink.flush(sealed, reason).map_err(|error| {
            self.ending = Ending::BarrierFailed;
            error.of_sink()
        })?;
        self.flushed = Instant::now();
        let Flushed { durable: named, reach, state } = flushed;
        let mut through = Vec::new();
        for seq in named {
            through.extend(self.release(seq));
        }
        if reason == Flush::Last && !self.held.is_empty() {
            return Err(Error::new(Kind::Internal, "the last flush did not cover all partitions").of_sink());
        }
        let durable = match reach {
            DurabilityScope::PageCache => Durable::No,
            DurabilityScope::Named => Durable::These,
            DurabilityScope::Everything => Durable::All,
        };
        if through.is_empty() && state.is_empty() {
            self.shared.counters.deferred.store(self.deferred(), Relaxed);
            return Ok(());
        }
        // What is held was written before as well, and is not durable.
        let covers_all = durable != Durable::No && self.held.is_empty();
        let commit = Commit { state, ..Commit::default() };
        let commit = self.commit(commit, through, durable, clock.filter(|_| covers_all))?;
        if !commit.state.is_empty() {
            self.shared.sink.publish(&commit.state).map_err(Error::of_sink)?;
        }
        Ok(())
    }

    fn commit(
        &mut self,
        mut commit: Commit,
        through: Vec<Complete>,
        durable: Durable,
        barrier: Option<i64>,
    ) -> Result<Commit> {
        let partitions = through.len();
        let (mut objects, mut listed, mut bytes) = (0, 0, 0);
        for complete in through {
            self.retries.committed(complete.seq);
            objects += complete.objects;
            bytes += complete.bytes;
            commit.retried.extend(complete.retried);
            commit.returned.extend(complete.returned);
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
            if let Some(in_flight) = self.shared.parallel.learnt.get() {
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
        self.shared.counters.deferred.store(journal.deferred() + self.held_deferred, Relaxed);
        self.shared.queue.committed(partitions, objects, listed, bytes, window);
        let now = now_ms();
        if journal.wants_sample(now) {
            let totals = journal.totals();
            journal.sample(now, totals.written, totals.bytes);
        }
        drop(journal);
        Ok(commit)
    }

    /// Writes down failures of objects that are committed; the others wait for the commit of their partition, and so do the
    /// files. `is_end`: what is not committed by now is not counted.
    fn withdraw(&mut self, is_end: bool) -> Result<()> {
        let (mut withdrawn, mut objects) = (Vec::new(), Vec::new());
        for (mut group, file) in std::mem::take(&mut self.withdrawn) {
            group.retain(|gone| {
                let is_committed = self.is_committed(gone.partition);
                withdrawn.extend(is_committed.then(|| gone.withdrawn.clone()));
                !is_committed && !self.retries.is_forgotten(gone.partition)
            });
            match group.is_empty() || is_end && group.iter().all(|gone| gone.wrote.is_none()) {
                true => objects.extend(file),
                false => self.withdrawn.push((group, file)),
            }
        }
        if withdrawn.is_empty() && objects.is_empty() {
            return Ok(());
        }
        let state = self.shared.sink.withdrawing(&objects);
        if !withdrawn.is_empty() || !state.is_empty() {
            let commit = Commit { withdrawn, state, ..Commit::default() };
            // No barrier has run: nothing is more durable than it was.
            let credited = self.keeper.write(|journal| journal.commit(&commit, Durable::These))?;
            // If there are fewer, the counts of this run will not balance, which ends it.
            self.committed.written = self.committed.written.saturating_sub(credited.withdrawn);
            self.committed.skipped = self.committed.skipped.saturating_sub(credited.withdrawn_skipped);
            self.committed.bytes = self.committed.bytes.saturating_sub(credited.withdrawn_bytes);
            self.committed.failed += credited.failed;
        }
        // Only now: what is recorded as written must be there.
        objects.iter().for_each(|object| self.shared.sink.withdraw(object));
        Ok(())
    }

    fn is_committed(&self, partition: u64) -> bool {
        let of_listing = || self.shared.frontier().is_committed(partition);
        !self.retries.is_forgotten(partition) && self.retries.is_committed(partition).unwrap_or_else(of_listing)
    }

    /// What the sink is to remove once nothing counts on it.
    fn withdrawn_file(&self, gone: &Gone) -> Option<WithdrawnObject> {
        let kept = !matches!(gone.withdrawn.was, Settled::Written { kept: false, .. });
        // A file of an earlier pass is good, whatever this one found; and one that was kept before the listing started over
        // may be found again.
        let is_earlier = kept && (self.shared.pass != Pass::First || self.retries.is_forgotten(gone.partition));
        let fingerprint = gone.wrote.filter(|_| !is_earlier)?;
        let key = self.shared.sink.admit(&gone.withdrawn.failed.name).ok()?;
        Some(WithdrawnObject { key, fingerprint, kept })
    }
}
