//! The state tables of ARCHITECTURE.md against a dictionary: random sessions of runs on one destination, cut off, killed,
//! resumed and tried again, while their sources, the user, other runs, the clock and the machine change what is around them.
//! Whatever happens, a run that says it is complete is right, and nothing of others was touched.
//!
//! `SHOAL_MODEL_COUNT` says how many runs, `SHOAL_MODEL_SEED` with which seed they begin, `SHOAL_MODEL_DIR` where they
//! write, by default in memory.

mod clock;
mod cut;
mod oracle;
mod origin;
mod parts;
mod tree;
mod user;
mod world;
mod zip;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shoal_engine::journal;
use shoal_engine::options::{Durability, Pass, Resume};
use shoal_engine::transfer::Outcome;

use clock::SECOND;
use cut::How;
use world::World;

/// Most of the time is spent waiting, for clocks and for tries again.
const THREADS: u64 = 8;

impl World {
    /// One thing that happens.
    fn step(&mut self) -> Result<(), String> {
        match self.random.u32(0..20) {
            0..8 => {
                let how = [How::Cut, How::Interrupt, How::Kill, How::Kill, How::Power][self.random.usize(0..5)];
                self.go_on(0, how, Resume::Auto)?;
            }
            8..12 => self.change(0),
            12..15 => self.random_user(),
            15 => {
                let how = [How::Whole, How::Cut, How::Kill][self.random.usize(0..3)];
                self.go_on(1, how, Resume::Auto)?;
            }
            16 | 17 if self.jobs[0].begun => {
                if self.random.bool() {
                    self.heal(0);
                }
                let how = [How::Whole, How::Cut, How::Kill][self.random.usize(0..3)];
                self.go_on(0, how, Resume::Failed)?;
            }
            18 if self.jobs[0].begun => {
                let how = [How::Whole, How::Cut, How::Kill][self.random.usize(0..3)];
                let asked = [Resume::Update, Resume::Update, Resume::Restart, Resume::Relist][self.random.usize(0..4)];
                self.go_on(0, how, asked)?;
            }
            _ => self.random_clock(),
        }
        Ok(())
    }

    fn change(&mut self, job: usize) {
        let World { jobs, random, .. } = self;
        jobs[job].fresh = false;
        if let Some(what) = jobs[job].origin.change(random) {
            self.note(format!("the source of run {job}: {what}"));
        }
    }

    fn random_clock(&mut self) {
        let now = self.clock.now();
        match self.random.u32(0..4) {
            _ if self.slow && self.random.bool() => {
                self.overlapped = true;
                self.clock.freeze();
                self.note("the clock stands still");
            }
            0 => {
                self.clock.set(now + self.random.i64(1..9_000) * SECOND);
                self.note("the clock goes forward");
            }
            1 => {
                self.clock.set(self.clock.untouched());
                self.note("the clock goes far back");
            }
            _ => {
                self.overlapped = true;
                self.clock.set(now - self.random.i64(1..4 * SECOND));
                self.note("the clock goes back a little");
            }
        }
    }

    /// A session, and what must hold after it.
    fn go_on(&mut self, job: usize, how: How, asked: Resume) -> Result<Outcome, String> {
        let asked = match asked {
            Resume::Update if self.is_update_under_way(job) => Resume::Auto,
            asked => asked,
        };
        let plan = self.plan(job, how);
        let outcome = self.session(job, plan, asked)?;
        let healed = self.jobs[job].origin.healed.load(Relaxed);
        // Of a run that was complete, failures are tried again without being asked for.
        let retries = asked == Resume::Failed || asked == Resume::Auto && self.jobs[job].completed.is_some();
        self.retried |= retries;
        let state = &mut self.jobs[job];
        if asked.pass().is_some() {
            state.fresh = true;
            state.completed = None;
            state.previous.clear();
        }
        if asked == Resume::Relist && outcome.error.is_some() {
            state.previous.extend(state.completed.take());
        } else if outcome.error.is_some() && outcome.report.total.unfinished == 0 && state.completed.is_none() {
            state.previous.push(state.origin.objects.clone()); // it may have been complete already
        }
        if outcome.error.is_none() {
            let listed = outcome.report.total.listed;
            if outcome.report.completed_before.is_some() && state.completed.is_none() {
                let last = state.previous.last().cloned();
                let before = std::mem::take(&mut state.previous);
                state.completed = before.into_iter().rfind(|before| before.len() as u64 == listed).or(last);
            }
            if outcome.report.complete && outcome.report.completed_before.is_none() {
                // Failures that are tried again do not make it list anew.
                let before = std::mem::take(&mut state.previous);
                let before = before.into_iter().rfind(|before| before.len() as u64 == listed);
                if asked == Resume::Relist || state.completed.is_none() {
                    let now = state.origin.objects.clone();
                    state.completed = before.filter(|_| now.len() as u64 != listed).or(Some(now));
                }
                state.healed = retries && healed;
            }
            // What a power cut takes of a run with `none` that has ended is done again by the next session.
            if how != How::Power {
                oracle::check(self, job, &outcome)?;
            }
        }
        let state = &mut self.jobs[job];
        if how == How::Power && state.durability == Durability::None {
            state.completed = state.completed.take().filter(Vec::is_empty);
        }
        Ok(outcome)
    }

    /// Then the same is as good as to go on.
    fn is_update_under_way(&self, job: usize) -> bool {
        let status = journal::status(self.jobs[job].journal.as_ref().unwrap_or(&self.out));
        let identity = self.jobs[job].origin.build().identity();
        let under_way =
            |run: &journal::RunStatus| run.source == identity && run.pass == Pass::Update && run.completed_at.is_none();
        status.is_ok_and(|status| status.runs.iter().any(under_way))
    }

    /// Sessions to the end.
    fn finish(&mut self, job: usize) -> Result<(), String> {
        let mut asked = Resume::Auto;
        for _ in 0..5 {
            let outcome = self.go_on(job, How::Whole, asked)?;
            if let Some(error) = outcome.error {
                if self.jobs[job].is_doubted(&error) && asked.pass().is_none() {
                    asked = Resume::Restart;
                    continue;
                }
                return Err(format!("the last session ended with {error}"));
            }
            if outcome.report.complete {
                return Ok(());
            }
        }
        Err("it is never complete".into())
    }
}

/// How much a run of the model did.
#[derive(Default)]
struct Sum {
    moves: AtomicU64,
    sessions: AtomicU64,
    torn: AtomicU64,
}

fn run(seed: u64, directory: &Path, sum: &Sum) -> Result<(), String> {
    let mut world = World::new(seed, directory);
    let work = |world: &mut World| {
        let moves = world.random.u32(2..if world.slow { 5 } else { 12 });
        for _ in 0..moves {
            world.step()?;
        }
        sum.moves.fetch_add(moves.into(), Relaxed);
        world.finish(0)?;
        if world.jobs[1].begun {
            world.finish(1)?;
        }
        world.finish(0)?;
        // Everything is compared once more, as it is now.
        world.heal(0);
        let last = [Resume::Update, Resume::Restart][world.random.usize(0..2)];
        let how = [How::Whole, How::Cut, How::Kill, How::Power][world.random.usize(0..4)];
        world.change(0);
        world.go_on(0, how, last)?;
        world.finish(0)
    };
    let result = match catch_unwind(AssertUnwindSafe(|| work(&mut world))) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Err(format!(
                "panic: {}",
                text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned())).unwrap_or_default()
            ))
        }
    };
    sum.sessions.fetch_add(world.sessions, Relaxed);
    sum.torn.fetch_add(world.torn, Relaxed);
    result.map_err(|why| format!("seed {seed}: {why}\n  {}", world.log.join("\n  ")))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn whatever_happens_a_run_that_says_it_is_complete_is_right_and_nothing_of_others_was_touched() {
    let (first, count) = (number("SHOAL_MODEL_SEED", 0), number("SHOAL_MODEL_COUNT", 500));
    let memory = Path::new("/dev/shm");
    let base = match std::env::var_os("SHOAL_MODEL_DIR") {
        Some(directory) => directory.into(),
        None if memory.is_dir() => memory.to_owned(),
        None => std::env::temp_dir(),
    };
    let directory = tempfile::tempdir_in(base).unwrap();
    let (next, sum, failed) = (AtomicU64::new(first), Sum::default(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(count) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let place = directory.path().join(seed.to_string());
                    std::fs::create_dir(&place).unwrap();
                    if let Err(why) = run(seed, &place, &sum) {
                        failed.lock().unwrap().push(why);
                    }
                    std::fs::remove_dir_all(&place).unwrap();
                }
            });
        }
    });
    let [moves, sessions, torn] = [&sum.moves, &sum.sessions, &sum.torn].map(|sum| sum.load(Relaxed));
    println!("seeds {first} to {}: {moves} moves, {sessions} sessions, {torn} files torn", first + count - 1);
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count} runs are wrong\n{}", failed.len(), failed.join("\n"));
}
