//! What must be there once a run says that it is complete: each listed object, or its recorded failure, and a reason why
//! that one may have failed. How could this report success and be wrong?

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use shoal_engine::Name;
use shoal_engine::journal::{Fate, status};
use shoal_engine::options::Overwrite;
use shoal_engine::source::memory::Answer;
use shoal_engine::transfer::Outcome;

use super::origin::{Object, Of, fate};
use super::tree::{self, Found};
use super::world::{Whose, World};

type Files = BTreeMap<PathBuf, Found>;

/// Checks a session that ended without an error.
pub fn check(world: &World, job: usize, outcome: &Outcome) -> Result<(), String> {
    let report = &outcome.report;
    if !report.run.balanced() || !report.total.balanced() {
        return Err(format!("counts do not balance: {report:?}"));
    }
    let left = std::fs::read_dir(world.out.join(".shoal/tmp")).map_or(0, Iterator::count);
    if left > 0 {
        return Err(format!("{left} temporary files are left"));
    }
    if !report.complete {
        return Ok(());
    }
    let Some(listed) = &world.jobs[job].completed else {
        return Err("it says complete, but was never told to list to the end".into());
    };
    let failures = failures(world, job)?;
    let count: usize = failures.values().map(Vec::len).sum();
    if report.total.unfinished > 0 || report.total.failed != count as u64 {
        return Err(format!("complete with {:?}, and {count} recorded failures", report.total));
    }
    // Partitions that were committed beyond the end of a listing that has become shorter still count, and so do their failures.
    let beyond = report.total.listed > listed.len() as u64;
    if report.total.listed < listed.len() as u64 {
        return Err(format!("{} objects are listed, {} are counted", listed.len(), report.total.listed));
    }
    let there = tree::all(&world.out);
    let mut objects: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    for object in listed {
        objects.entry(&object.name).or_default().push(object);
    }
    for (name, objects) in &objects {
        let failed = failures.get(name.as_bytes()).map_or(&[][..], |kinds| kinds);
        check_name(world, job, &there, name, objects, failed, beyond).map_err(|why| format!("{name}: {why}"))?;
    }
    // Of what is not listed any more nothing becomes whole; nor of what has failed, or is gone when it is tried again.
    let stays = |kinds: &Vec<String>| world.is_unclear() || kinds.iter().any(|kind| kind == "vanished");
    let renamed = world.is_unclear() && is_renamed(world, job) && !failures.is_empty();
    let failed = |name: &str| renamed || failures.get(name.as_bytes()).is_some_and(stays);
    let whole = objects.keys().copied().filter(|name| !failed(name));
    check_files(world, job, &there, &whole.collect())
}

/// The recorded failures: their kinds by name.
fn failures(world: &World, job: usize) -> Result<HashMap<Vec<u8>, Vec<String>>, String> {
    let status = status(world.jobs[job].journal.as_ref().unwrap_or(&world.out)).map_err(|error| error.to_string())?;
    let identity = world.jobs[job].origin.build().identity();
    let run = status.runs.iter().find(|run| run.source == identity).ok_or("the journal has no such run")?;
    let mut failures: HashMap<_, Vec<String>> = HashMap::new();
    for failure in status.failures(run, Fate::Failed, usize::MAX) {
        let failure = failure.map_err(|error| error.to_string())?;
        failures.entry(failure.name.to_vec()).or_default().push(failure.kind);
    }
    Ok(failures)
}

fn check_name(
    world: &World,
    job: usize,
    there: &Files,
    name: &str,
    objects: &[&Object],
    failed: &[String],
    beyond: bool,
) -> Result<(), String> {
    let state = &world.jobs[job];
    if Name::parse(name.as_bytes()).is_err() {
        return if failed.is_empty() { Err("an unsafe name did not fail".into()) } else { Ok(()) };
    }
    for kind in failed {
        if !is_justified(world, job, name, objects, kind, beyond) {
            let found = found(world, there, name);
            return Err(format!("it failed with {kind}, without a reason: {found}, wanted {objects:?}"));
        }
    }
    let bytes = there.get(Path::new(name)).map(|found| &found.bytes);
    let ever = &state.origin.ever[name];
    let replaced = world.overwrite == Overwrite::Always && state.origin.may_repeat();
    // Without times, an empty file may be what a kill has left of any object: another one of its name replaces it.
    let may_be_torn = |object: &Object| object.bytes.is_empty() && !state.origin.is_timed() && bytes.is_some();
    let lacking: BTreeSet<u32> = match state.origin.may_repeat() && !replaced {
        true => objects.iter().filter(|o| bytes != Some(&o.bytes) && !may_be_torn(o)).map(|o| o.number).collect(),
        false if objects.iter().any(|object| bytes == Some(&object.bytes)) => BTreeSet::new(),
        // Nothing older may be left by an update, but where it could not be told whose a file is.
        false if state.fresh && !world.is_unclear() => [0].into(),
        // A newer version of an object that was committed before is not looked for.
        false if bytes.is_some_and(|bytes| ever.contains(bytes)) => BTreeSet::new(),
        false => [0].into(),
    };
    if lacking.len() > failed.len() && !is_renamed(world, job) && !state.excused.contains(name.as_bytes()) {
        let found = found(world, there, name);
        return Err(format!("it is not there, and {} failures say so: {found}, wanted {objects:?}", failed.len()));
    }
    Ok(())
}

/// The file of a name and what has made it, for an error.
fn found(world: &World, there: &Files, name: &str) -> String {
    let path = Path::new(name);
    format!("{:?}", there.get(path).map(|found| (found, world.whose.get(path))))
}

/// An entry that is tried again after its archive is gone fails under the name of the archive.
fn is_renamed(world: &World, job: usize) -> bool {
    world.jobs[job].origin.of == Of::Archives && world.retried
}

fn is_justified(world: &World, job: usize, name: &str, objects: &[&Object], kind: &str, beyond: bool) -> bool {
    let state = &world.jobs[job];
    let touched = world.touched.contains(&(job, name.as_bytes().to_vec()));
    let unclear = world.is_unclear();
    let several = state.origin.may_repeat() && state.origin.ever[name].len() > 1;
    match kind {
        "forbidden" | "short-body" => {
            let fails = |o: &&Object| match fate(format!("{}\0{}", o.name, o.number).as_bytes(), 9) {
                Answer::Fail(_) => kind == "forbidden",
                Answer::Withdrawn { .. } => kind == "short-body",
                _ => false,
            };
            state.origin.is_in_memory() && !state.healed && (beyond || objects.iter().any(fails))
        }
        "exists" => (touched || unclear) && world.overwrite == Overwrite::Never,
        "name-conflict" => touched || several || unclear,
        "repeated" => several || unclear,
        // What failed before the source was changed, tried again.
        "vanished" | "changed" => world.retried,
        _ => false,
    }
}

/// Each file that the run has made is a whole object.
fn check_files(world: &World, job: usize, there: &Files, listed: &HashSet<&str>) -> Result<(), String> {
    let origin = &world.jobs[job].origin;
    for (path, found) in there {
        let name = path.to_str().unwrap();
        if world.whose.get(path) != Some(&Whose::Run(job)) {
            continue;
        }
        match origin.ever.get(name) {
            None => return Err(format!("{path:?} was never listed")),
            Some(ever) if listed.contains(name) && !ever.contains(&found.bytes) => {
                return Err(format!("{path:?} is no object: {found:?}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
