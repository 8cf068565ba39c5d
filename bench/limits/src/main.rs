//! `shoal-limits JOB …`: runs one bare loop and prints one line of JSON, as the lab's scripts do.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use shoal_limits::{Copy, Keys, Read, S3Get, S3Store, Scan, Unzip};

const HELP: &str = "\
What a machine can do: bare loops without checks, journal or retries. Each prints one line of JSON.

  shoal-limits copy URL DIRECTORY   pipelined GET, a file for each answer; null: for DIRECTORY writes none
      --limit N         only the first N objects
      --depth N         requests unanswered on one connection (64)
  shoal-limits read DIRECTORY       opens, reads and closes every file; the walk is not in the time
  shoal-limits records FILE         adds up a field of a flat file of 16-byte records
  shoal-limits unzip DIRECTORY      inflates every entry of the archives in DIRECTORY and compares its CRC
      --into DIRECTORY  extract below this directory; without it, check only
  shoal-limits s3-store             a synthetic S3 store, until its standard input is closed; prints its URL
      --objects N       d000000/000000000000.bin and so on, at most 10^9
      --size N          bytes of each (100)
      --page N          keys of a page of the listing (1000)
      --latency N       milliseconds that each answer is kept (0)
      --port N          on 127.0.0.1; by default any free one
      --bucket NAME     (b)
      --check-signatures ACCESS:SECRET
  shoal-limits s3-get URL           signed GETs from such a store, checked and dropped
      --objects N       the first N
      --connections N   in all (64)
      --depth N         requests unanswered on one connection (1)
      --bucket NAME     (b)

      --workers N       threads; by default one a core
";

type Failure = Box<dyn std::error::Error>;

/// The command line. All options are known to all jobs: the lab is the only caller.
struct Given {
    job: String,
    places: Vec<PathBuf>,
    into: Option<PathBuf>,
    limit: Option<usize>,
    depth: Option<usize>,
    workers: usize,
    objects: u64,
    size: usize,
    page: u64,
    latency: u64,
    port: u16,
    bucket: String,
    connections: usize,
    keys: Option<Keys>,
}

fn given() -> Result<Option<Given>, lexopt::Error> {
    let mut given = Given {
        job: String::new(),
        places: Vec::new(),
        into: None,
        limit: None,
        depth: None,
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        objects: 0,
        size: 100,
        page: 1000,
        latency: 0,
        port: 0,
        bucket: "b".into(),
        connections: 64,
        keys: None,
    };
    let mut parser = Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            Arg::Long("into") => given.into = Some(parser.value()?.into()),
            Arg::Long("limit") => given.limit = Some(parser.value()?.parse()?),
            Arg::Long("depth") => given.depth = Some(parser.value()?.parse()?),
            Arg::Long("workers") => given.workers = parser.value()?.parse()?,
            Arg::Long("objects") => given.objects = parser.value()?.parse()?,
            Arg::Long("size") => given.size = parser.value()?.parse()?,
            Arg::Long("page") => given.page = parser.value()?.parse()?,
            Arg::Long("latency") => given.latency = parser.value()?.parse()?,
            Arg::Long("port") => given.port = parser.value()?.parse()?,
            Arg::Long("bucket") => given.bucket = parser.value()?.string()?,
            Arg::Long("connections") => given.connections = parser.value()?.parse()?,
            Arg::Long("check-signatures") => {
                let value = parser.value()?.string()?;
                let (access, secret) = value.split_once(':').ok_or("--check-signatures ACCESS:SECRET")?;
                given.keys = Some(Keys { access: access.into(), secret: secret.into() });
            }
            Arg::Value(value) if given.job.is_empty() => given.job = value.string()?,
            Arg::Value(value) => given.places.push(value.into()),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(given))
}

fn address(url: &Path) -> Result<SocketAddr, Failure> {
    let url = url.to_string_lossy();
    let address = url.trim_start_matches("http://").trim_end_matches('/').parse();
    Ok(address.map_err(|_| format!("not http://, a numeric address and a port: {url}"))?)
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
    let (mut sum, mut spent) = (None, None);
    let outcome = match (given.job.as_str(), given.places.as_slice()) {
        ("copy", [url, directory]) => {
            let (address, depth) = (address(url)?, given.depth.unwrap_or(64));
            let directory = (directory.as_os_str() != "null:").then(|| directory.clone());
            workers = threads * depth;
            shoal_limits::copy(&Copy { address, directory, depth, threads, limit: given.limit })?
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
        ("s3-get", [url]) => {
            let from = |name: &str| std::env::var(name).unwrap_or_else(|_| "test".into());
            let keys = Keys { access: from("AWS_ACCESS_KEY_ID"), secret: from("AWS_SECRET_ACCESS_KEY") };
            let (connections, depth) = (given.connections, given.depth.unwrap_or(1));
            let (address, bucket, objects) = (address(url)?, given.bucket.clone(), given.objects);
            workers = connections * depth;
            let job = S3Get { address, bucket, objects, connections, depth, threads, keys };
            let (outcome, cpu) = shoal_limits::s3_get(&job)?;
            spent = Some(cpu.as_secs_f64());
            outcome
        }
        _ => return Err("not a job with its places; --help lists them".into()),
    };
    let (objects, bytes, seconds) = (outcome.objects, outcome.bytes, outcome.seconds);
    let mut said = serde_json::json!({"objects": objects, "bytes": bytes, "seconds": seconds, "workers": workers});
    if let Some(sum) = sum {
        said["sum"] = sum.into();
    }
    if let Some(spent) = spent {
        said["rate"] = (objects as f64 / seconds).into();
        said["cpu_per_object"] = (spent * 1e6 / objects as f64).into(); // in microseconds
    }
    Ok(said)
}

/// Says where the store is, and waits for the end of standard input.
fn serve(given: Given) -> Result<(), Failure> {
    let (latency, threads) = (Duration::from_millis(given.latency), given.workers);
    let Given { objects, size, page, port, bucket, keys, .. } = given;
    let store = S3Store { objects, size, page, latency, keys, port, bucket, threads };
    println!("http://{}", shoal_limits::s3_store(&store)?);
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    match given()? {
        None => print!("{HELP}"),
        Some(given) if given.job == "s3-store" && given.places.is_empty() => serve(given)?,
        Some(given) => println!("{}", run(&given)?),
    }
    Ok(())
}
