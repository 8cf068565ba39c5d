//! `shoal-limits JOB …`: runs one bare loop and prints one line of JSON, as the lab's scripts do.

use std::io;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};
use shoal_limits::{Copy, Read, Scan, Unzip};

const HELP: &str = "\
What a machine can do: bare loops without checks, journal or retries. Each prints one line of JSON.

  shoal-limits copy URL DIRECTORY   pipelined GET, a file for each answer; null: for DIRECTORY writes none
      --limit N         only the first N objects
      --depth N         requests unanswered on one connection (64)
  shoal-limits read DIRECTORY       opens, reads and closes every file; the walk is not in the time
  shoal-limits records FILE         adds up a field of a flat file of 16-byte records
  shoal-limits unzip DIRECTORY      inflates every entry of the archives in DIRECTORY and compares its CRC
      --into DIRECTORY  extract below this directory; without it, check only

      --workers N       threads; by default one a core
";

type Failure = Box<dyn std::error::Error>;

/// The command line. All options are known to all jobs: the lab is the only caller.
struct Given {
    job: String,
    places: Vec<PathBuf>,
    into: Option<PathBuf>,
    limit: Option<usize>,
    depth: usize,
    workers: usize,
}

fn given() -> Result<Option<Given>, lexopt::Error> {
    let mut given = Given {
        job: String::new(),
        places: Vec::new(),
        into: None,
        limit: None,
        depth: 64,
        workers: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut parser = Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            Arg::Long("into") => given.into = Some(parser.value()?.into()),
            Arg::Long("limit") => given.limit = Some(parser.value()?.parse()?),
            Arg::Long("depth") => given.depth = parser.value()?.parse()?,
            Arg::Long("workers") => given.workers = parser.value()?.parse()?,
            Arg::Value(value) if given.job.is_empty() => given.job = value.string()?,
            Arg::Value(value) => given.places.push(value.into()),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(given))
}

/// The archives of a directory, by name.
fn archives(directory: &PathBuf) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "zip") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn run(given: &Given) -> Result<serde_json::Value, Failure> {
    let threads = given.workers;
    let mut workers = threads;
    let mut sum = None;
    let outcome = match (given.job.as_str(), given.places.as_slice()) {
        ("copy", [url, directory]) => {
            let url = url.to_string_lossy();
            let address = url.trim_start_matches("http://").trim_end_matches('/').parse();
            let address = address.map_err(|_| format!("not http://, a numeric address and a port: {url}"))?;
            let directory = (directory.as_os_str() != "null:").then(|| directory.clone());
            workers = threads * given.depth;
            shoal_limits::copy(&Copy { address, directory, depth: given.depth, threads, limit: given.limit })?
        }
        ("read", [directory]) => shoal_limits::read(&Read { directory: directory.clone(), threads })?,
        ("records", [file]) => {
            let (outcome, added) = shoal_limits::scan(&Scan { file: file.clone(), threads })?;
            sum = Some(added);
            outcome
        }
        ("unzip", [directory]) => {
            shoal_limits::unzip(&Unzip { archives: archives(directory)?, directory: given.into.clone(), threads })?
        }
        _ => return Err("not a job with its places; --help lists them".into()),
    };
    let (objects, bytes, seconds) = (outcome.objects, outcome.bytes, outcome.seconds);
    let mut said = serde_json::json!({"objects": objects, "bytes": bytes, "seconds": seconds, "workers": workers});
    if let Some(sum) = sum {
        said["sum"] = sum.into();
    }
    Ok(said)
}

fn main() -> Result<(), Failure> {
    match given()? {
        None => print!("{HELP}"),
        Some(given) => println!("{}", run(&given)?),
    }
    Ok(())
}
