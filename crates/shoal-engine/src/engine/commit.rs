//! The committer: collects complete partitions, runs the barrier, then writes the journal. Nothing else writes it.
//!
//! Done is written after durable: `Sink::sync` first, then one transaction with everything it named. A failed barrier
//! is never tried again; it stops the run, and what it covered is redone on resume. After the stop flag no barrier is
//! begun. The thread also hands out objects whose later try has come, because their list is in the journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::open::{Complete, Open, Origin};
use super::queue::{BATCH_BYTES, BATCH_OBJECTS};
use super::slot::now_ms;
use super::{MARK_ALL, Shared};
use crate::error::{Error, Kind, Result};
use crate::journal::{Commit, Due, Durable, Journal};
use crate::partition::{Cursor, Key};
use crate::sink::{Mode, Reach};

/// A batch closes at half of what may be out, so that lanes go on while the barrier runs.
const CLOSE_OBJECTS: u64 = BATCH_OBJECTS / 2;
const CLOSE_BYTES: u64 = BATCH_BYTES / 2;
/// … or after this long.
const CLOSE_AGE: Duration = Duration::from_millis(500);
/// How often the committer looks at flags and due retries.
const TICK: Duration = Duration::from_millis(20);
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
    /// Move the high-water mark here.
    Mark(u64),
    /// The listing is to start over: nothing of the earlier runs counts any more.
    Reset(std::sync::mpsc::SyncSender<()>),
}

/// What was committed in this run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Committed {
    pub written: u64,
    pub skipped: u64,
    pub failed: u64,
    pub bytes: u64,
}

pub(crate) struct Committer {
    shared: Arc<Shared>,
    journal: Journal,
    /// Complete, not yet through a barrier.
    pending: Vec<Complete>,
    pending_since: Option<Instant>,
    /// Through `sync`, but held by the sink for a later one.
    held: BTreeMap<u64, Complete>,
    mark: u64,
    again_seq: u64,
    committed: Committed,
}

impl Committer {
    pub fn new(shared: Arc<Shared>, journal: Journal, mark: u64) -> Committer {
        Committer {
            shared,
            journal,
            pending: Vec::new(),
            pending_since: None,
            held: BTreeMap::new(),
            mark,
            again_seq: u64::MAX,
            committed: Committed::default(),
        }
    }

    /// Runs to the end of the run; gives the journal back, and what was committed.
    pub fn run(mut self, messages: &Receiver<Message>) -> (Journal, Committed) {
        let body = std::panic::AssertUnwindSafe(|| self.work(messages));
        match std::panic::catch_unwind(body) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.shared.cancel.fail(error),
            Err(panic) => self.shared.cancel.fail(super::panicked("the committer", panic.as_ref())),
        }
        self.shared.queue.finish();
        (self.journal, self.committed)
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
            self.hand_out_due()?;
            if !self.pending.is_empty() {
                self.shared.queue.gather(GATHER);
            }
            if self.is_over() {
                self.barrier(true)?;
                if !self.shared.cancel.is_raised() && self.shared.source.is_whole() {
                    self.journal.complete(now_ms() / 1000)?;
                }
                return Ok(());
            }
        }
    }

    fn receive(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Complete(complete) => {
                self.pending_since.get_or_insert_with(Instant::now);
                self.pending.push(*complete);
            }
            Message::Mark(mark) if mark > self.mark => {
                self.journal.mark(mark)?;
                self.mark = mark;
                self.shared.queue.set_mark(mark);
            }
            Message::Mark(_) => {}
            Message::Reset(done) => {
                self.journal.reset_listing()?;
                self.journal.mark(MARK_ALL)?;
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
        objects >= CLOSE_OBJECTS
            || bytes >= CLOSE_BYTES
            || since.elapsed() >= CLOSE_AGE
            || self.shared.queue.wants_commit()
    }

    fn is_over(&self) -> bool {
        self.pending.is_empty() && self.shared.queue.is_drained_but(self.held_objects()) && self.journal.deferred() == 0
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
        let settled = self.shared.sink.sync(sealed, last)?;
        let mut through = Vec::new();
        for seq in settled.durable {
            through.extend(self.held.remove(&seq));
        }
        if last && !self.held.is_empty() {
            return Err(Error::new(Kind::Internal, "the sink held partitions back at the last barrier"));
        }
        let durable = match settled.reach {
            Reach::PageCache => Durable::No,
            Reach::Named => Durable::These,
            Reach::Everything => Durable::All,
        };
        if through.is_empty() { Ok(()) } else { self.commit(through, durable) }
    }

    fn commit(&mut self, through: Vec<Complete>, durable: Durable) -> Result<()> {
        let (mut objects, mut listed, mut bytes) = (0, 0, 0);
        let mut commit = Commit::default();
        let mut sum = Committed::default();
        for complete in through {
            objects += complete.objects;
            bytes += complete.bytes;
            for retried in &complete.retried {
                match &retried.outcome {
                    Ok(Some(size)) => (sum.written, sum.bytes) = (sum.written + 1, sum.bytes + size),
                    Ok(None) => sum.skipped += 1,
                    Err(failed) => sum.failed += u64::from(failed.due_ms.is_none()),
                }
            }
            commit.retried.extend(complete.retried);
            if let Some(done) = complete.done {
                listed += done.listed;
                sum.written += done.written;
                sum.skipped += done.skipped;
                sum.bytes += done.bytes;
                sum.failed += done.failures.iter().filter(|failed| failed.due_ms.is_none()).count() as u64;
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
        self.journal.commit(&commit, durable)?;
        self.committed.written += sum.written;
        self.committed.skipped += sum.skipped;
        self.committed.failed += sum.failed;
        self.committed.bytes += sum.bytes;
        self.shared.counters.committed.fetch_add(objects, Relaxed);
        self.shared.deferred.store(self.journal.deferred(), Relaxed);
        self.shared.queue.committed(objects, listed, bytes, window);
        let totals = self.journal.totals();
        self.journal.sample(now_ms(), totals.written, totals.bytes);
        Ok(())
    }

    /// Objects whose later try has come become partitions of their own.
    fn hand_out_due(&mut self) -> Result<()> {
        if self.journal.deferred() == 0 || self.shared.retry.is_gated() {
            return Ok(());
        }
        while self.shared.queue.again_waiting() < AGAIN_AHEAD {
            let due = self.journal.take_due(now_ms(), AGAIN_MAX)?;
            if due.is_empty() {
                break;
            }
            // What has the name of one that was a repetition is no leftover of it, but the first, which stays.
            let (repeated, rest): (Vec<_>, _) = due.into_iter().partition(|due| *due.kind == *Kind::Repeated.as_str());
            for (due, mode) in [(rest, Mode::Again), (repeated, Mode::Fresh)] {
                if !due.is_empty() {
                    self.hand_out(due, mode)?;
                }
            }
        }
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
        self.again_seq -= 1;
        self.shared.queue.push_again(Open::new(partition, mode, Origin::Retried(due)));
        Ok(())
    }
}
