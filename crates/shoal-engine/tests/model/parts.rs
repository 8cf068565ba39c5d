//! A job in parts against one run without parts: random numbers of parts, cut off, killed and resumed, one after the other
//! and at the same time. Whatever happens, parts that are all complete hold together what one run holds, and their counts
//! add up to its counts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::scope;

use shoal_engine::journal::{self, Machine};
use shoal_engine::options::{Durability, Resume};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Counts, Kind, Part, TransferOptions};

use super::cut::{Cutter, How, Plan};
use super::origin::{Of, Origin};
use super::world::pretended;
use super::{number, tree};

/// A job, and where it is written.
struct Job {
    origin: Origin,
    out: PathBuf,
    durability: Durability,
}

/// A part, as the next session finds it.
#[derive(Clone, Copy)]
struct State {
    part: Part,
    /// How often its machine was restarted.
    boot: u32,
}

impl Job {
    fn transfer(&self, out: &Path, part: Option<Part>, resume: Resume) -> (Transfer, TransferOptions) {
        let durability = self.durability;
        let options = TransferOptions { durability, part, resume, ..TransferOptions::default() };
        let dir = DirOptions { durability: pretended(durability), ..DirOptions::of(&options) };
        let sink = Arc::new(DirSink::new(out, dir).unwrap());
        (Transfer::new(self.origin.build(), sink, options.clone()), options)
    }

    /// One session of a part.
    fn session(&self, state: &mut State, how: How, seed: u64) -> Result<Outcome, String> {
        let mut random = fastrand::Rng::with_seed(seed);
        let State { part, boot } = *state;
        let most = [3, 20, 100][random.usize(0..3)];
        let plan = Plan {
            how,
            operations: random.u64(0..most),
            after: random.bool(),
            durability: self.durability,
            part: Some(part),
            seed,
        };
        let own = self.out.join(format!(".shoal/parts/{}", part.index()));
        let (_, options) = self.transfer(&self.out, Some(part), Resume::Auto);
        let dir = DirOptions { durability: pretended(self.durability), ..DirOptions::of(&options) };
        let cutter = Cutter::new(plan, &self.out, own.join("journal.db"));
        let sink = cutter.sink(Arc::new(DirSink::new(&self.out, dir).unwrap()));
        let machine = Machine { boot_id: Some(format!("{part} boot {boot}")), ..Machine::default() };
        let batch = [1, 10, 1_000][random.usize(0..3)];
        let run = Transfer::new(self.origin.build(), sink, options).on_machine(machine).in_batches_of(batch);
        let outcome = run.run(&mut |_| match how == How::Interrupt && cutter.is_cut() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        cutter.leave_behind();
        state.boot += u32::from(how == How::Power);
        if !outcome.report.run.balanced() || !outcome.report.total.balanced() {
            return Err(format!("counts of part {part} do not balance: {:?}", outcome.report));
        }
        match &outcome.error {
            Some(error) if !matches!(error.kind(), Kind::DestinationFailed | Kind::Interrupted) => {
                Err(format!("a session of part {part} ended with {:?}: {error}", error.kind()))
            }
            _ => Ok(outcome),
        }
    }

    /// Sessions of these parts, all at the same time.
    fn sessions(&self, states: &mut [State], hows: &[How], random: &mut fastrand::Rng) -> Result<Vec<Outcome>, String> {
        let seeds: Vec<u64> = states.iter().map(|_| random.u64(..)).collect();
        scope(|scope| {
            let run = |((state, how), seed)| scope.spawn(move || self.session(state, how, seed));
            let started: Vec<_> = states.iter_mut().zip(hows.iter().copied()).zip(seeds).map(run).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// Sessions of all parts at the same time, to the end; one of them by two processes at once.
    fn finish(&self, states: &mut [State], random: &mut fastrand::Rng) -> Result<Vec<Outcome>, String> {
        let whole = vec![How::Whole; states.len()];
        let twice = random.usize(0..states.len());
        let mut again = states[twice];
        let seed = random.u64(..);
        let (all, second) = scope(|scope| {
            let second = scope.spawn(|| self.session(&mut again, How::Whole, seed));
            (self.sessions(states, &whole, random), second.join().unwrap())
        });
        for outcome in all.as_ref().map_err(Clone::clone)?.iter().chain([&second?]) {
            if !outcome.report.complete {
                return Err(format!("not complete: {:?}", outcome.report));
            }
        }
        all
    }
}

/// What is at a destination: each name with its contents.
fn there(out: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    tree::all(out).into_iter().map(|(path, found)| (path, found.bytes)).collect()
}

fn sum<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> Counts {
    outcomes.into_iter().fold(Counts::default(), |sum, Outcome { report: one, .. }| Counts {
        listed: sum.listed + one.total.listed,
        written: sum.written + one.total.written,
        skipped: sum.skipped + one.total.skipped,
        failed: sum.failed + one.total.failed,
        unfinished: sum.unfinished + one.total.unfinished,
        bytes: sum.bytes + one.total.bytes,
    })
}

fn whole(transfer: Transfer) -> Outcome {
    transfer.run(&mut |_| ControlFlow::Continue(()))
}

fn run(seed: u64, directory: &Path) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let timed = random.bool();
    let kinds = [
        Of::Service { timed },
        Of::Names { timed },
        Of::Tree,
        Of::Conflict { timed },
        Of::Repeated,
        Of::List,
        Of::Archives,
    ];
    let of = kinds[random.usize(0..kinds.len())];
    let origin = Origin::new(of, "memory:parts", directory.join("source"), &mut random);
    let durability = [Durability::None, Durability::Batch, Durability::File][random.usize(0..3)];
    let job = Job { origin, out: directory.join("parts"), durability };
    let count = random.u32(1..6);
    let mut states: Vec<State> =
        (0..count).map(|index| State { part: Part::new(index, count).unwrap(), boot: 0 }).collect();
    let hows = [How::Whole, How::Cut, How::Interrupt, How::Kill, How::Kill, How::Power];
    let mut uninterrupted = true;
    for _ in 0..random.u32(0..4) {
        uninterrupted = false;
        random.shuffle(&mut states);
        let some = random.usize(1..=states.len());
        let hows: Vec<How> = (0..some).map(|_| hows[random.usize(0..hows.len())]).collect();
        match random.bool() {
            true => drop(job.sessions(&mut states[..some], &hows, &mut random)?),
            false => {
                for (state, how) in states[..some].iter_mut().zip(hows) {
                    job.session(state, how, random.u64(..))?;
                }
            }
        }
    }
    let what = format!("{of:?}, {durability:?}, {count} parts, uninterrupted: {uninterrupted}");
    let mut all = job.finish(&mut states, &mut random).map_err(|why| format!("{what}: {why}"))?;
    let plain = directory.join("plain");
    let mut one = whole(job.transfer(&plain, None, Resume::Once).0);
    // What has failed may be tried once or twice: only the objects are the same.
    let (parts, total) = (sum(&all), one.report.total);
    if parts.listed != total.listed || parts.unfinished > 0 || !parts.balanced() {
        return Err(format!("{what}: the parts count {parts:?}, one run {total:?}"));
    }
    // Then what was wrong is mended, and only the failures are tried again.
    job.origin.healed.store(true, Relaxed);
    all = job.finish(&mut states, &mut random).map_err(|why| format!("{what}, mended: {why}"))?;
    one = whole(job.transfer(&plain, None, Resume::Once).0);
    compare(&job, &plain, sum(&all), one.report.total, uninterrupted)
        .map_err(|why| format!("{what}, mended: {why}"))?;
    refuses_others(&job, &states, one.report.total.listed)
}

fn compare(job: &Job, plain: &Path, parts: Counts, one: Counts, exact: bool) -> Result<(), String> {
    let (mine, theirs) = (there(&job.out), there(plain));
    if parts.listed != one.listed || parts.unfinished > 0 || !parts.balanced() {
        return Err(format!("the parts count {parts:?}, one run {one:?}"));
    }
    if job.origin.may_repeat() {
        // Which of several objects of one name stays depends on the order.
        let name = |(name, _): &(PathBuf, Vec<u8>)| name.clone();
        let (mine, theirs): (Vec<_>, Vec<_>) = (mine.iter().map(name).collect(), theirs.iter().map(name).collect());
        return if mine == theirs { Ok(()) } else { Err(format!("names differ:\n{mine:?}\n{theirs:?}")) };
    }
    // What an earlier session wrote counts as written when it is found again, also where it is listed twice.
    let counted = |counts: Counts| match exact {
        true => (counts.written, counts.skipped, counts.failed),
        false => (counts.written + counts.skipped, 0, counts.failed),
    };
    if counted(parts) != counted(one) {
        return Err(format!("the parts count {parts:?}, one run {one:?}"));
    }
    let shown = |all: &BTreeSet<(PathBuf, Vec<u8>)>| -> BTreeMap<PathBuf, usize> {
        all.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect()
    };
    let (lost, more): (BTreeSet<_>, BTreeSet<_>) =
        (theirs.difference(&mine).cloned().collect(), mine.difference(&theirs).cloned().collect());
    match lost.is_empty() && more.is_empty() {
        true => Ok(()),
        false => Err(format!("missing: {:?}, too many: {:?}", shown(&lost), shown(&more))),
    }
}

/// All parts are complete; a run without parts and another number of parts are refused, and nothing is left behind.
fn refuses_others(job: &Job, states: &[State], listed: u64) -> Result<(), String> {
    let parts = journal::parts(&job.out).map_err(|error| error.to_string())?.ok_or("there is no job in parts")?;
    let complete = |part: &journal::PartStatus| {
        part.owner.is_none()
            && part
                .journal
                .as_ref()
                .is_some_and(|status| status.runs.len() == 1 && status.runs[0].completed_at.is_some())
    };
    if parts.count as usize != states.len() || !parts.parts.iter().all(complete) {
        return Err("not all parts are complete by their journals".into());
    }
    // Killed, resumed or listed from the start: each part has seen the same, once.
    let seen: Vec<_> =
        parts.parts.iter().filter_map(|part| part.journal.as_ref()).map(|status| status.runs[0].seen).collect();
    if seen.iter().any(|one| *one != seen[0]) || seen[0].count != listed {
        return Err(format!("the parts have seen {seen:?} of {listed}"));
    }
    let before = tree::all(&job.out);
    let more = Part::new(0, parts.count + 1).unwrap();
    for (part, kind) in [(None, Kind::Config), (Some(more), Kind::JournalMismatch)] {
        let refused = whole(job.transfer(&job.out, part, Resume::Auto).0).error.map(|error| error.kind());
        if refused != Some(kind) {
            return Err(format!("{part:?} was not refused: {refused:?}"));
        }
    }
    for part in states.iter().map(|state| state.part.index()) {
        let left = std::fs::read_dir(job.out.join(format!(".shoal/parts/{part}/tmp"))).map_or(0, Iterator::count);
        if left > 0 {
            return Err(format!("{left} temporary files of part {part} are left"));
        }
    }
    let own = job.out.join(".shoal");
    match tree::all(&job.out) == before && !own.join("journal.db").exists() && !own.join("tmp").exists() {
        true => Ok(()),
        false => Err("a refused run has changed something".into()),
    }
}

#[test]
fn whatever_happens_parts_that_are_complete_hold_together_what_one_run_holds() {
    let (first, count) = (number("SHOAL_MODEL_SEED", 0), number("SHOAL_MODEL_COUNT", 200));
    let directory = tempfile::tempdir().unwrap();
    let failed: Vec<String> = scope(|scope| {
        let threads: Vec<_> = (0..super::THREADS.min(count))
            .map(|thread| {
                let directory = directory.path();
                scope.spawn(move || {
                    let mut failed = Vec::new();
                    for seed in (first..first + count).filter(|seed| seed % super::THREADS == thread) {
                        let place = directory.join(seed.to_string());
                        std::fs::create_dir(&place).unwrap();
                        failed.extend(run(seed, &place).err().map(|why| format!("seed {seed}: {why}")));
                        std::fs::remove_dir_all(&place).unwrap();
                    }
                    failed
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} of {count} jobs are wrong\n{}", failed.len(), failed.join("\n"));
}
