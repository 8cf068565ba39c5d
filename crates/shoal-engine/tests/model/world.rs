//! One destination, the runs that write to it, its user, its clock and its machine: what happens, in random order.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use shoal_engine::journal::Machine;
use shoal_engine::options::{Durability, Overwrite, Resume};
use shoal_engine::sink::dir::{DirOptions, DirSink};
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_engine::{Error, Kind, TransferOptions};

use super::clock::{Clock, SECOND};
use super::cut::{Cutter, How, Plan};
use super::origin::{Object, Of, Origin};
use super::tree::{self, Found};

/// A killed session may have written until then, as far as anything can tell.
const LEASE: i64 = 6 * SECOND;

/// Whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Run(usize),
    User,
}

/// One run.
pub struct Job {
    pub origin: Origin,
    pub durability: Durability,
    /// Names that the journal may hold as done.
    pub passed: HashSet<Vec<u8>>,
    /// Of those, names of files that others took away later.
    pub excused: HashSet<Vec<u8>>,
    /// What was listed when it was complete.
    pub completed: Option<Vec<Object>>,
    /// The same, of listings that were begun anew and cut off, and of what it may have completed when it was.
    pub previous: Vec<Vec<Object>>,
    /// Failures were tried again since what was wrong was mended.
    pub healed: bool,
    pub begun: bool,
    /// The source is as it was when everything was begun anew last: what is complete then has the bytes of now.
    pub fresh: bool,
    /// Not at the destination.
    pub journal: Option<PathBuf>,
}

pub struct World {
    pub out: PathBuf,
    pub random: fastrand::Rng,
    pub clock: Clock,
    pub overwrite: Overwrite,
    pub jobs: Vec<Job>,
    pub whose: BTreeMap<PathBuf, Whose>,
    /// When each may have changed the destination, by its clock, and how much of that is the lease of one that was killed.
    times: Vec<(Whose, i64, i64, i64)>,
    /// Names of which others had a file.
    pub touched: HashSet<(usize, Vec<u8>)>,
    /// The clock has jumped during a session.
    pub jumped: bool,
    /// The clock has gone back a little between sessions, so that their times overlap.
    pub overlapped: bool,
    /// Failures were tried again.
    pub retried: bool,
    /// Its clock moves slowly, or not at all.
    pub slow: bool,
    boot: u32,
    pub sessions: u64,
    pub torn: u64,
    pub log: Vec<String>,
}

impl Job {
    /// Whether a session refused to complete the run because the source is empty, and it is.
    pub fn is_doubted(&self, error: &Error) -> bool {
        error.kind() == Kind::JournalMismatch && self.origin.objects.is_empty()
    }
}

impl World {
    pub fn new(seed: u64, directory: &Path) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let slow = random.u32(0..50) == 0;
        let overwrite = if random.u32(0..4) == 0 { Overwrite::Always } else { Overwrite::Never };
        let mut jobs = Vec::new();
        let timed = random.u32(0..3) > 0;
        let of = match random.u32(0..16) {
            0..3 => Of::Service { timed },
            3..7 => Of::Names { timed },
            7..9 => Of::Conflict { timed },
            9 | 10 => Of::Repeated,
            11 => Of::Items,
            12 => Of::Tree,
            13 => Of::List,
            _ => Of::Archives,
        };
        for (at, of) in [of, Of::Names { timed: true }].into_iter().enumerate() {
            let origin = Origin::new(of, &format!("memory:{at}"), directory.join(format!("source-{at}")), &mut random);
            let durability = [Durability::None, Durability::Batch, Durability::File][random.usize(0..3)];
            let (passed, excused) = Default::default();
            jobs.push(Job {
                origin,
                durability,
                passed,
                excused,
                completed: None,
                previous: Vec::new(),
                healed: false,
                begun: false,
                fresh: false,
                journal: (at == 1 && random.bool()).then(|| directory.join("journal.db")),
            });
        }
        let clock = Clock::new(directory, if slow { 2 * SECOND } else { 1 });
        let log = vec![format!("{of:?}, {:?}, overwrite {overwrite:?}, slow clock: {slow}", jobs[0].durability)];
        World {
            out: directory.join("out"),
            random,
            clock,
            overwrite,
            jobs,
            whose: BTreeMap::new(),
            times: Vec::new(),
            touched: HashSet::new(),
            jumped: false,
            overlapped: false,
            retried: false,
            slow,
            boot: 0,
            sessions: 0,
            torn: 0,
            log,
        }
    }

    /// Where sessions overlap, it cannot always be told which of them has made a file: a failure is recorded then.
    pub fn is_unclear(&self) -> bool {
        self.jumped || self.overlapped || self.slow
    }

    pub fn note(&mut self, what: impl Into<String>) {
        self.log.push(what.into());
    }

    /// Random numbers of operations, few more often than many.
    pub fn plan(&mut self, job: usize, how: How) -> Plan {
        let most = [6, 40, 150, 400][self.random.usize(0..4)];
        Plan {
            how,
            operations: self.random.u64(0..most),
            after: self.random.bool(),
            durability: self.jobs[job].durability,
            part: None,
            seed: self.random.u64(..),
        }
    }

    /// One session of a run.
    pub fn session(&mut self, job: usize, plan: Plan, asked: Resume) -> Result<Outcome, String> {
        // A session that begins in the lease of another run's killed one must tell the files of the two apart.
        let in_lease = self.random.u32(0..8) == 0; // it waits there
        self.wait_for_own_time(Whose::Run(job), in_lease);
        let jumps = !self.slow && self.random.u32(0..12) == 0 && self.jump(job);
        let before = tree::all(&self.out);
        let began = self.clock.now();
        let (source, options) = (self.jobs[job].origin.build(), self.options(job, asked));
        let sink =
            DirSink::new(&self.out, DirOptions { durability: pretended(plan.durability), ..DirOptions::of(&options) });
        let cutter = Cutter::new(plan, &self.out, self.journal(job));
        let sink = cutter.sink(Arc::new(sink.unwrap().with_clock(self.clock.warp())));
        let batch = [1, 10, 40, 1_000][self.random.usize(0..4)];
        let machine = Machine { boot_id: Some(format!("boot {}", self.boot)), ..Machine::default() };
        let outcome =
            Transfer::new(source, sink, options).on_machine(machine).in_batches_of(batch).run(&mut |_| match plan.how
                == How::Interrupt
                && cutter.is_cut()
            {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        let abrupt = matches!(plan.how, How::Kill | How::Power) && cutter.is_cut();
        cutter.leave_behind();
        if plan.how == How::Power {
            self.boot += 1;
        }
        self.sessions += 1;
        self.torn += cutter.torn();
        let error = outcome.error.as_ref().map(|error| error.to_string());
        let total = outcome.report.total;
        self.note(format!(
            "session of run {job}: {:?} at {} (after: {}), {asked:?}, jump: {jumps}, torn: {}: {error:?}, complete: {}, {total:?}",
            plan.how, plan.operations, plan.after, cutter.torn(), outcome.report.complete
        ));
        for note in &outcome.report.notes {
            self.log.push(format!("    {note}"));
        }
        let ended = self.clock.now();
        let lease = if abrupt || jumps { LEASE } else { 0 };
        self.times.push((Whose::Run(job), began.min(ended), began.max(ended) + lease, lease));
        let state = &mut self.jobs[job];
        state.begun = true;
        state.passed.extend(cutter.passed());
        if let Some(error) = &outcome.error
            && !matches!(error.kind(), Kind::DestinationFailed | Kind::Interrupted)
            && !state.is_doubted(error)
        {
            return Err(format!("a session ended with {:?}: {error}", error.kind()));
        }
        self.compare(job, &before)?;
        Ok(outcome)
    }

    /// The clock jumps during the next session of a run, unless others were about there or then, or, where it goes back, in
    /// what lies between: of that a session that has seen both ends cannot tell anything apart.
    fn jump(&mut self, job: usize) -> bool {
        let now = self.clock.now();
        let by = if self.random.bool() { 3_600 * SECOND } else { self.clock.untouched() - now };
        let near = |time: i64| (time - 20 * SECOND, time + 20 * SECOND);
        let times = if by < 0 { vec![(near(now + by).0, near(now).1)] } else { vec![near(now), near(now + by)] };
        let others = |(whose, from, until, _): &(Whose, i64, i64, i64)| {
            *whose != Whose::Run(job) && times.iter().any(|(low, high)| low <= until && from <= high)
        };
        if self.times.iter().any(others) {
            return false;
        }
        self.clock.jump_soon(by, self.random.i64(1_000_000..20_000_000));
        self.jumped = true;
        true
    }

    fn options(&self, job: usize, asked: Resume) -> TransferOptions {
        TransferOptions {
            durability: self.jobs[job].durability,
            overwrite: self.overwrite,
            // A finished copy of a tree would be updated, which is asked for by name here.
            resume: if asked == Resume::Auto { Resume::Once } else { asked },
            journal: self.jobs[job].journal.clone(),
            ..TransferOptions::default()
        }
    }

    /// Where the journal of a run is.
    pub fn journal(&self, job: usize) -> PathBuf {
        self.jobs[job].journal.clone().unwrap_or_else(|| self.out.join(".shoal/journal.db"))
    }

    /// Nothing of others was touched; what is new is the run's.
    fn compare(&mut self, job: usize, before: &BTreeMap<PathBuf, Found>) -> Result<(), String> {
        let after = tree::all(&self.out);
        for (path, was) in before {
            let mine = self.whose.get(path) == Some(&Whose::Run(job));
            if after.get(path) == Some(was) || mine {
                continue;
            }
            if self.overwrite == Overwrite::Never {
                let now = after.get(path);
                return Err(format!("run {job} touched {path:?} of {:?}: {was:?}, now {now:?}", self.whose.get(path)));
            }
        }
        for path in before.keys().filter(|path| !after.contains_key(*path)) {
            for other in (0..self.jobs.len()).filter(|other| *other != job) {
                self.disturbed(other, path);
            }
        }
        for (path, now) in &after {
            if before.get(path) == Some(now) {
                continue;
            }
            for other in (0..self.jobs.len()).filter(|other| *other != job) {
                self.disturbed(other, path);
            }
            self.whose.insert(path.clone(), Whose::Run(job));
        }
        self.whose.retain(|path, _| after.contains_key(path));
        Ok(())
    }

    /// A file of a run was changed or taken away by others.
    fn disturbed(&mut self, job: usize, path: &Path) {
        let name = path.as_os_str().as_bytes().to_vec();
        self.touched.insert((job, name.clone()));
        let job = &mut self.jobs[job];
        if job.passed.contains(&name) {
            job.excused.insert(name);
        }
    }

    /// Lets time pass until nothing that others did lies where this one is about to change something: what two do at
    /// the same time cannot be told apart. `in_lease`: the lease of a killed session of another run may still lie there.
    fn wait_for_own_time(&mut self, whose: Whose, in_lease: bool) {
        let now = self.clock.now();
        let slack = if self.slow { 3 * SECOND } else { 0 };
        let meets = |(other, from, until, lease): &(Whose, i64, i64, i64)| {
            let until = until - if in_lease { *lease } else { 0 };
            (*other != whose || whose == Whose::User) && *from - 20 * SECOND <= now && now <= until + slack
        };
        if self.times.iter().any(meets) {
            let last = self.times.iter().map(|(_, _, until, _)| *until).max().unwrap_or(now);
            self.clock.set(last.max(now) + 30 * SECOND);
        }
    }

    /// Something that is done to files of the destination between two sessions.
    pub fn user(&mut self, act: impl FnOnce(&mut World) -> Option<(String, Vec<PathBuf>)>) {
        self.wait_for_own_time(Whose::User, false);
        let began = self.clock.now();
        let Some((what, paths)) = act(self) else { return };
        self.note(format!("the user: {what} {paths:?}"));
        for path in paths {
            for job in 0..self.jobs.len() {
                self.disturbed(job, &path);
            }
            match std::fs::symlink_metadata(self.out.join(&path)) {
                Ok(_) => drop(self.whose.insert(path, Whose::User)),
                Err(_) => drop(self.whose.remove(&path)),
            }
        }
        self.times.push((Whose::User, began, self.clock.now(), 0));
    }

    pub fn heal(&mut self, job: usize) {
        self.jobs[job].origin.healed.store(true, Relaxed);
        self.note("what was wrong with objects is mended");
    }
}

/// A real `syncfs` takes in all that the machine does; the sink around it stands for a file system that has one.
pub fn pretended(durability: Durability) -> Durability {
    match durability {
        Durability::Batch => Durability::None,
        other => other,
    }
}
