//! Converts a flat file of `<QII` records to a table file, as fast as the crates can, and says how long it took.
//!
//! `cargo run --release -p shoal-records --example records_convert -- FILE OUT [none|snappy|zstd [WORKERS]]`
//!
//! OUT's ending says the format. It is written where it stands: a program for people uses the engine's `fs/publish.rs`.

use std::fs::File;
use std::time::Instant;

use shoal_encode::{Codec, Format as FileFormat, TableOptions, write_table};
use shoal_records::{Format, OpenOptions, Pool, Records, ScanOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: records_convert FILE OUT [none|snappy|zstd [WORKERS]]";
    let (path, to) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let compression = match arguments.next().as_deref() {
        None => None,
        Some("none") => Some(Codec::None),
        Some("snappy") => Some(Codec::Snappy),
        Some("zstd") => Some(Codec::Zstd),
        Some(_) => return Err(usage.into()),
    };
    let workers = arguments.next().map(|text| text.parse()).transpose()?;
    let format = FileFormat::of_name(to.as_bytes()).ok_or("an ending that says no format")?;
    let begun = Instant::now();
    let names = ["ts", "id", "len"].map(String::from);
    let table = Records::open(&[&path], Format::from_struct("<QII", Some(&names))?, OpenOptions::default())?;
    let mut scan = table.scan(&ScanOptions::default(), &Pool::new(workers))?;
    let options = TableOptions { compression, workers, ..TableOptions::default() };
    let written = write_table(&mut scan, format, &options, &mut File::create(&to)?, &mut |_| true)?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} records, {} bytes in {seconds:.3} s", written.rows, written.bytes);
    Ok(())
}
