//! Copies a source: `cargo run --release --example copy -- SOURCE DIRECTORY | null: [WORKERS]`.
//!
//! Not here: progress, signals and exit codes; `shoal copy` has them.

use std::error::Error;
use std::ops::ControlFlow;

use shoal_engine::TransferOptions;
use shoal_engine::options::Workers;
use shoal_engine::transfer::{SourceOptions, Transfer, sink_from_url, source_from_url};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("pass a source, and a directory or null:".into());
    };
    let workers = match arguments.next() {
        None => Workers::Auto,
        Some(count) => Workers::Fixed(count.parse()?),
    };
    let options = TransferOptions { workers, ..TransferOptions::default() };
    let source = source_from_url(&from, &SourceOptions::default())?;
    let sink = sink_from_url(&to, &options)?;
    let outcome = Transfer::new(source, sink, options).run(&mut |_progress| ControlFlow::Continue(()));
    let report = outcome.report;
    let rate = report.run.written as f64 / report.elapsed.as_secs_f64();
    println!("{} written, {} failed, {rate:.0} a second", report.run.written, report.run.failed);
    println!("{} workers: {}", report.workers, report.workers_reason);
    match outcome.error {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}
