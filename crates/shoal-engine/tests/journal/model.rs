//! Random operations on a journal and on a dictionary: they must agree after each, across reopenings and crashes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use shoal_engine::journal::{
    Commit, Done, Durable, Failed, Fold, Journal, MARK_ALL, OpenOptions, Retried, Settled, Standing, Withdrawn,
};
use shoal_engine::options::Resume;
use shoal_engine::{Counts, Cursor, Key, Reason};

use crate::{booted, failed, fast_dir, open_with};

/// One partition as the dictionary knows it; nothing is ever folded together here.
#[derive(Clone, Debug)]
struct Partition {
    key: Key,
    listed: u64,
    written: u64,
    skipped: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Row {
    seq: u64,
    locator: Box<[u8]>,
    due_ms: Option<u64>,
}

/// What a journal must say, kept the simplest way.
#[derive(Clone, Debug, Default)]
struct Model {
    partitions: BTreeMap<u64, Partition>,
    /// In the order in which they were recorded.
    rows: Vec<Row>,
    frontier: u64,
    cursor: Option<Cursor>,
    chain: Key,
    mark: u64,
    completed: Option<u64>,
    /// The boot under which something not durable was committed.
    boot: Option<u64>,
    handed: Vec<Box<[u8]>>,
}

impl Model {
    fn commit(&mut self, commit: &Commit, durable: Durable, boot: u64) {
        for done in &commit.done {
            self.rows.retain(|row| row.seq != done.seq);
            let mut skipped = done.skips.total();
            for (at, failure) in done.failures.iter().enumerate() {
                if done.failures[..at].iter().any(|other| other.locator == failure.locator) {
                    skipped += 1;
                } else {
                    self.rows.push(Row { seq: done.seq, locator: failure.locator.clone(), due_ms: failure.due_ms });
                }
            }
            let Done { key, listed, written, bytes, .. } = *done;
            self.partitions.insert(done.seq, Partition { key, listed, written, skipped, bytes });
            self.completed = None;
        }
        for retried in &commit.retried {
            self.settle(retried);
        }
        for Withdrawn { seq, was, failed } in &commit.withdrawn {
            let Settled::Written { bytes, .. } = was else { unreachable!() };
            let partition = self.partitions.get_mut(seq).unwrap();
            partition.written -= 1;
            partition.bytes -= bytes;
            self.rows.push(Row { seq: *seq, locator: failed.locator.clone(), due_ms: None });
        }
        if let Some(fold) = &commit.fold {
            (self.frontier, self.cursor, self.chain) = (fold.frontier, Some(fold.cursor.clone()), fold.chain);
        }
        match durable {
            Durable::No => self.boot = Some(boot),
            Durable::These => {}
            Durable::All => self.boot = None,
        }
    }

    fn settle(&mut self, retried: &Retried) {
        self.handed.retain(|locator| *locator != retried.locator);
        // What was kept does not settle a failure for good, which may be a withdrawal of it.
        let is_kept = matches!(retried.outcome, Ok(Settled::Written { kept: true, .. }));
        let is_settled = |row: &Row| row.locator == retried.locator && (row.due_ms.is_some() || !is_kept);
        let its = self.rows.iter().position(|row| is_settled(row) && row.seq == retried.seq);
        let counts = its.or_else(|| self.rows.iter().position(is_settled));
        for (at, row) in self.rows.iter_mut().enumerate() {
            if !is_settled(row) {
                continue;
            }
            let partition = self.partitions.get_mut(&row.seq).unwrap();
            match &retried.outcome {
                Err(failed) => row.due_ms = failed.due_ms,
                Ok(Settled::Written { bytes, .. }) if counts == Some(at) => {
                    partition.written += 1;
                    partition.bytes += bytes;
                }
                Ok(_) => partition.skipped += 1,
            }
        }
        if retried.outcome.is_ok() {
            self.rows.retain(|row| !is_settled(row));
        }
    }

    fn reset(&mut self) {
        *self = Model { mark: MARK_ALL, ..Model::default() };
    }

    fn totals(&self) -> Counts {
        let mut counts = Counts::default();
        for partition in self.partitions.values() {
            counts.listed += partition.listed;
            counts.written += partition.written;
            counts.skipped += partition.skipped;
            counts.bytes += partition.bytes;
        }
        counts.failed = self.rows.iter().filter(|row| row.due_ms.is_none()).count() as u64;
        counts.unfinished = self.rows.len() as u64 - counts.failed;
        counts
    }

    /// Times of what waits and is not handed out, the next first.
    fn waiting(&self) -> Vec<u64> {
        let waits = self.rows.iter().filter(|row| !self.handed.contains(&row.locator));
        let mut times: Vec<u64> = waits.filter_map(|row| row.due_ms).collect();
        times.sort_unstable();
        times
    }

    fn check(&self, journal: &Journal, what: &str) {
        assert_eq!(journal.totals(), self.totals(), "{what}");
        assert!(journal.totals().balanced(), "{what}");
        assert_eq!(journal.deferred(), self.totals().unfinished, "{what}");
        assert_eq!(journal.next_due().unwrap(), self.waiting().first().copied(), "{what}");
        let names: Vec<Box<[u8]>> = journal.failures(usize::MAX).map(|failure| failure.unwrap().name).collect();
        let lost = self.rows.iter().filter(|row| row.due_ms.is_none());
        let expected: Vec<Box<[u8]>> = lost.map(|row| [b"name of ", &row.locator[..]].concat().into()).collect();
        assert_eq!(names, expected, "{what}");
    }

    fn check_resume(&self, resume: &Standing, what: &str) {
        assert_eq!(
            (resume.frontier, &resume.cursor, resume.chain),
            (self.frontier, &self.cursor, self.chain),
            "{what}"
        );
        let done: BTreeMap<u64, Key> =
            self.partitions.range(self.frontier..).map(|(seq, partition)| (*seq, partition.key)).collect();
        assert_eq!(resume.done, done, "{what}");
        assert_eq!((resume.mark, resume.completed_at), (self.mark, self.completed), "{what}");
        assert_eq!((resume.totals, resume.deferred), (self.totals(), self.totals().unfinished), "{what}");
    }
}

/// A journal and the dictionary beside it.
struct Pair {
    journal: Journal,
    model: Model,
    random: fastrand::Rng,
    root: PathBuf,
    copies: usize,
    boot: u64,
}

impl Pair {
    fn partition(&mut self, seq: u64) -> Done {
        let random = &mut self.random;
        let failures: Vec<Failed> = (0..random.u64(..4).saturating_sub(1))
            .map(|n| {
                let locator = if random.u8(..4) == 0 { format!("dup{}", random.u8(..3)) } else { format!("{seq}/{n}") };
                failed(&locator, random.bool().then(|| random.u64(..1_000)))
            })
            .collect();
        let (written, skipped) = (random.u64(..100), random.u64(..3));
        let listed = written + skipped + failures.len() as u64;
        Done {
            seq,
            key: Key(random.u128(..)),
            listed,
            written,
            skips: super::skips(skipped),
            bytes: written * random.u64(..9),
            failures,
            ..Done::default()
        }
    }

    fn commit(&mut self) {
        let frontier = self.model.frontier;
        let count = self.random.u64(..5);
        let done = (0..count)
            .map(|_| {
                let seq = frontier + self.random.u64(..8);
                self.partition(seq)
            })
            .collect();
        let mut retried = Vec::new();
        for row in &self.model.rows {
            if self.random.u8(..5) == 0 && !retried.iter().any(|other: &Retried| other.locator == row.locator) {
                let locator = row.locator.clone();
                let text = String::from_utf8(locator.to_vec()).unwrap();
                let outcome = match self.random.u8(..4) {
                    0 => Ok(Settled::Skipped(Reason::Vanished)),
                    1 => Err(failed(&text, None)),
                    2 => Err(failed(&text, Some(self.random.u64(..2_000)))),
                    _ => Ok(Settled::Written { bytes: self.random.u64(..50), kept: self.random.bool() }),
                };
                retried.push(Retried { locator, seq: row.seq, outcome });
            }
        }
        let durable = [Durable::No, Durable::These, Durable::All][self.random.usize(..3)];
        let mut commit = Commit { done, retried, ..Commit::default() };
        let mut after = self.model.clone();
        after.commit(&commit, durable, self.boot);
        for (seq, partition) in after.partitions.iter().filter(|(_, partition)| partition.written > 0) {
            if self.random.u8(..8) == 0 {
                let (seq, bytes) = (*seq, self.random.u64(..=partition.bytes));
                let failed = failed(&format!("withdrawn{}", self.random.u64(..)), None);
                commit.withdrawn.push(Withdrawn { seq, was: Settled::Written { bytes, kept: false }, failed });
            }
        }
        let mut border = frontier;
        while after.partitions.contains_key(&border) {
            border += 1;
        }
        if border > frontier && self.random.bool() {
            let frontier = self.random.u64(frontier + 1..=border);
            let cursor = Cursor(format!("{}", self.random.u64(..)).into_bytes().into());
            commit.fold = Some(Fold { frontier, cursor, chain: Key(self.random.u128(..)) });
        }
        self.journal.commit(&commit, durable).unwrap();
        self.model.commit(&commit, durable, self.boot);
    }

    fn take(&mut self) {
        let (now, limit) = (self.random.u64(..1_500), self.random.usize(..6));
        let taken = self.journal.take_due(now, limit).unwrap();
        let model = &self.model;
        let mut possible: Vec<&[u8]> = Vec::new();
        for row in &model.rows {
            let is_due = row.due_ms.is_some_and(|due| due <= now) && !model.handed.contains(&row.locator);
            if is_due && !possible.contains(&&row.locator[..]) {
                possible.push(&row.locator);
            }
        }
        assert_eq!(taken.len(), possible.len().min(limit));
        assert!(taken.iter().all(|due| possible.contains(&&due.locator[..])));
        self.model.handed.extend(taken.into_iter().map(|due| due.locator));
    }

    /// Opens the journal again: closed in order, or from a copy of its files as a kill leaves them; maybe after a reboot.
    fn reopen(&mut self, options: OpenOptions) {
        let mut place = self.root.join(self.copies.to_string());
        if self.random.bool() {
            self.copies += 1;
            let copy = self.root.join(self.copies.to_string());
            copy_files(&place.join(".shoal"), &copy.join(".shoal"));
            place = copy;
        }
        if self.random.u8(..4) == 0 {
            self.boot += 1;
        }
        // The old one is closed only now, and its directory no longer looked at.
        let (memory, _) =
            Journal::open(&shoal_engine::journal::Location::Memory, &crate::run_key(), &OpenOptions::default())
                .unwrap();
        self.journal = memory;
        let options = OpenOptions { machine: booted(&self.boot.to_string()).machine, ..options };
        let (journal, resume) = open_with(&place, &options).unwrap();
        self.journal = journal;
        self.model.handed.clear();
        if options.resume.pass().is_some() || self.model.boot.is_some_and(|boot| boot != self.boot) {
            self.model.reset();
        }
        if options.resume == Resume::Failed {
            self.retry();
        }
        self.model.check_resume(&resume, "reopened");
    }

    fn retry(&mut self) {
        for row in self.model.rows.iter_mut().filter(|row| row.due_ms.is_none()) {
            row.due_ms = Some(0);
        }
    }

    fn step(&mut self) -> &'static str {
        match self.random.u8(..40) {
            0..20 => {
                self.commit();
                "commit"
            }
            20..26 => {
                self.take();
                "take"
            }
            26..29 => {
                let seq = self.model.frontier + self.random.u64(..20);
                self.journal.mark(seq).unwrap();
                self.model.mark = self.model.mark.max(seq);
                "mark"
            }
            29..35 => {
                self.reopen(OpenOptions::default());
                "reopen"
            }
            35 => {
                self.reopen(OpenOptions { resume: Resume::Failed, ..OpenOptions::default() });
                "reopen to retry"
            }
            36 => {
                self.journal.retry_all_failed().unwrap();
                self.retry();
                "retry"
            }
            37 if self.random.bool() => {
                self.reopen(OpenOptions { resume: Resume::Restart, ..OpenOptions::default() });
                "reopen again"
            }
            38 => {
                let complete = self.journal.complete(7, None).is_ok();
                assert_eq!(complete, self.model.totals().unfinished == 0);
                self.model.completed = if complete { Some(7) } else { self.model.completed };
                "complete"
            }
            _ => {
                let resume = self.journal.reset_listing().unwrap();
                self.model.reset();
                self.model.check_resume(&resume, "reset");
                "reset"
            }
        }
    }
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

#[test]
fn a_journal_agrees_with_a_dictionary() {
    for seed in 0..12 {
        let dir = fast_dir();
        let (journal, _) = open_with(&dir.path().join("0"), &booted("0")).unwrap();
        let root = dir.path().to_owned();
        let random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair { journal, model: Model::default(), random, root, copies: 0, boot: 0 };
        for turn in 0..150 {
            let what = pair.step();
            pair.model.check(&pair.journal, &format!("seed {seed}, turn {turn}: {what}"));
        }
    }
}
