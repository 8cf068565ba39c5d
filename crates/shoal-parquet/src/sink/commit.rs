//! What `flush` does: makes row groups of sealed partitions, and commits what was written.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shoal_engine::Result;
use shoal_engine::sink::{Flush, Flushed, Sealed, StateRow};

use super::ParquetOptions;
use super::earlier::Earlier;
use super::failure::{io_failed, parquet_failed};
use super::rows::Rows;
use super::shard::{Job, Shard, Shards, Spill, lock};
use super::state::{self, Complete};
use super::writer::{Limits, Token};
use crate::schema::file_name;

/// Rows wait for others of their group at most this long.
const GROUP_AGE: Duration = Duration::from_secs(10);
/// How long a starving run waits for a row group, before it looks at what else there is.
const STARVING_WAIT: Duration = Duration::from_millis(100);

/// What `flush` keeps between calls.
pub(super) struct Book {
    path: PathBuf,
    /// The part of a job that it is.
    part: Option<u32>,
    options: ParquetOptions,
    limits: Limits,
    /// Rows of sealed partitions that are not in a row group yet.
    gathered: Vec<(u64, Rows)>,
    gathered_rows: usize,
    gathered_bytes: usize,
    gathered_since: Instant,
    /// For each sealed partition that is not committed, how many pieces of it are not written to a file that was synced.
    pieces: BTreeMap<u64, usize>,
    /// Sealed partitions with files of their own.
    spilled: Vec<(u64, Vec<Arc<Spill>>)>,
    committed: Instant,
    /// The number of the next file.
    next: u64,
    /// Complete files of an earlier session that are not published.
    recovered: Vec<Complete>,
}

/// Whether all row groups of a sealed partition with files of its own are written.
fn is_written((_, spills): &(u64, Vec<Arc<Spill>>)) -> bool {
    spills.iter().all(|spill| spill.left.load(SeqCst) == 0)
}

/// A file of one commit.
struct Cut {
    file: File,
    complete: Complete,
    is_finished: bool,
}

impl Book {
    pub fn new(
        path: PathBuf,
        part: Option<u32>,
        options: ParquetOptions,
        limits: Limits,
        next: u64,
        recovered: Vec<Complete>,
    ) -> Book {
        Book {
            path,
            part,
            options,
            limits,
            gathered: Vec::new(),
            gathered_rows: 0,
            gathered_bytes: 0,
            gathered_since: Instant::now(),
            pieces: BTreeMap::new(),
            spilled: Vec::new(),
            committed: Instant::now(),
            next,
            recovered,
        }
    }

    pub fn flush(&mut self, shards: &Shards, earlier: &Earlier, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        shards.check()?;
        let mut durable = self.take(shards, sealed);
        let is_end = matches!(reason, Flush::Last | Flush::Stop { .. });
        let is_starving = reason == Flush::Starving && !shards.is_busy() && !self.has_written(shards);
        if is_end || is_starving || self.gathered_since.elapsed() >= GROUP_AGE {
            self.submit(shards);
        }
        match reason {
            Flush::Last => shards.wait(None)?,
            Flush::Stop { until } => shards.wait(Some(until))?,
            Flush::Starving if !self.has_written(shards) => {
                shards.wait(Some(Instant::now() + STARVING_WAIT))?;
            }
            _ => {}
        }
        let mut state = Vec::new();
        if reason != Flush::Due || self.committed.elapsed() >= self.options.commit_every {
            state = self.commit(shards, earlier, is_end, &mut durable)?;
            self.committed = Instant::now();
        }
        durable.sort_unstable();
        Ok(Flushed { durable, state, ..Flushed::default() })
    }

    /// Takes sealed partitions; returns those without rows, which are as durable as they can be.
    fn take(&mut self, shards: &Shards, sealed: Vec<Sealed>) -> Vec<u64> {
        let mut empty = Vec::new();
        let mut sealed = sealed.into_iter().peekable();
        while let Some(first) = sealed.next() {
            let seq = first.seq;
            let (mut parts, mut spills) = (Vec::new(), Vec::new());
            let mut next = Some(first);
            // The parts of a partition follow each other.
            while let Some(part) = next {
                if let Some(token) = part.sync_token.and_then(|token| token.downcast::<Token>().ok()) {
                    let Token { rows, spill } = *token;
                    spills.extend(spill);
                    if rows.len() > 0 {
                        parts.push((seq, rows));
                    }
                }
                next = sealed.next_if(|part| part.seq == seq);
            }
            if let Some(spill) = spills.first() {
                if !parts.is_empty() {
                    shards.submit(Job { parts, spill: Some(spill.clone()) });
                }
                self.spilled.push((seq, spills));
            } else if parts.is_empty() {
                empty.push(seq);
            } else {
                self.gather(shards, seq, parts);
            }
        }
        empty
    }

    fn gather(&mut self, shards: &Shards, seq: u64, parts: Vec<(u64, Rows)>) {
        if self.gathered.is_empty() {
            self.gathered_since = Instant::now();
        }
        self.pieces.insert(seq, parts.len());
        for (_, rows) in &parts {
            self.gathered_rows += rows.len();
            self.gathered_bytes += rows.bytes();
        }
        self.gathered.extend(parts);
        if self.gathered_rows >= self.options.group_rows || self.gathered_bytes >= self.limits.group {
            self.submit(shards);
        }
    }

    fn submit(&mut self, shards: &Shards) {
        if !self.gathered.is_empty() {
            let parts = std::mem::take(&mut self.gathered);
            (self.gathered_rows, self.gathered_bytes) = (0, 0);
            shards.submit(Job { parts, spill: None });
        }
        self.gathered_since = Instant::now();
    }

    fn has_written(&self, shards: &Shards) -> bool {
        let has_rows = |shard: &Arc<Mutex<Shard>>| {
            let shard = lock(shard);
            !shard.is_spill && !shard.pending.is_empty()
        };
        self.spilled.iter().any(is_written) || lock(&shards.open).iter().any(has_rows)
    }

    fn commit(
        &mut self,
        shards: &Shards,
        earlier: &Earlier,
        is_end: bool,
        durable: &mut Vec<u64>,
    ) -> Result<Vec<StateRow>> {
        let mut cuts = Vec::new();
        let mut state = Vec::new();
        // Files of partitions that are written whole; the others have only sealed partitions.
        let (written, waiting) = std::mem::take(&mut self.spilled).into_iter().partition(is_written);
        self.spilled = waiting;
        let written: Vec<(u64, Vec<Arc<Spill>>)> = written;
        let mut spills = shards.take_idle_spills();
        for (seq, of_partition) in written {
            durable.push(seq);
            spills.extend(of_partition.iter().map(|spill| spill.shard.clone()));
        }
        for shard in spills {
            cuts.extend(self.cut(shards, earlier, &shard, is_end, &mut state, durable)?);
            shards.give_back(shard);
        }
        let open: Vec<_> = lock(&shards.open).clone();
        for shard in open.iter().filter(|shard| !lock(shard).is_spill) {
            cuts.extend(self.cut(shards, earlier, shard, is_end, &mut state, durable)?);
        }
        if !cuts.is_empty() {
            let tmp = &shards.tmp;
            for cut in &cuts {
                let path = tmp.join(&cut.complete.temporary);
                cut.file.sync_data().map_err(|error| io_failed("sync", &path, &error))?;
            }
            File::open(tmp).and_then(|tmp| tmp.sync_all()).map_err(|error| io_failed("sync", tmp, &error))?;
        }
        let mut finished = std::mem::take(&mut self.recovered);
        for cut in cuts {
            match cut.is_finished {
                true => finished.push(cut.complete),
                false => state.push(state::open(&cut.complete)),
            }
        }
        for complete in finished {
            while self.path.join(file_name(self.part, self.next)).symlink_metadata().is_ok() {
                self.next += 1;
            }
            state.push(state::not_open(&complete.temporary));
            state.push(state::published(self.next, &complete));
            self.next += 1;
        }
        shards.forget_finished();
        Ok(state)
    }

    /// Gives a file a footer, if something was appended, and finishes it if it is large or old enough.
    fn cut(
        &mut self,
        shards: &Shards,
        earlier: &Earlier,
        shard: &Mutex<Shard>,
        is_end: bool,
        state: &mut Vec<StateRow>,
        durable: &mut Vec<u64>,
    ) -> Result<Option<Cut>> {
        let mut shard = lock(shard);
        let Some(growing) = shard.growing.as_ref() else { return Ok(None) };
        let is_finished =
            is_end || growing.length() >= self.options.shard_size || shard.begun.elapsed() >= self.options.shard_age;
        if shard.pending.is_empty() && !is_finished || growing.groups() == 0 {
            return Ok(None);
        }
        let path = shards.tmp.join(&shard.name);
        let failed = |error| parquet_failed("write", &path, &error);
        let pending = std::mem::take(&mut shard.pending);
        state.extend(earlier.committed(&shard.name, &pending));
        for place in pending {
            if let Some(left) = self.pieces.get_mut(&place.seq) {
                *left -= 1;
                if *left == 0 {
                    self.pieces.remove(&place.seq);
                    durable.push(place.seq);
                }
            }
        }
        let Some(mut growing) = shard.growing.take() else { return Ok(None) };
        let temporary = shard.name.clone();
        if is_finished {
            let (file, length) = growing.finish(&shards.format).map_err(failed)?;
            return Ok(Some(Cut { file, complete: Complete { temporary, length }, is_finished }));
        }
        let length = growing.footer(&shards.format).map_err(failed)?;
        let file = growing.file().try_clone().map_err(|error| io_failed("sync", &path, &error))?;
        shard.growing = Some(growing);
        Ok(Some(Cut { file, complete: Complete { temporary, length }, is_finished }))
    }
}
