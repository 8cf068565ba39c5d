//! What each way to read a flat file gives on this machine, and what the crate makes of it.
//!
//! `cargo run --release -p shoal-records --example records_speed -- FILE [RECORDS [ROWS]]`
//!
//! Makes FILE with so many records of `<QII` (93,368,320 unless told) if it is not there, reads it once, and then prints for
//! each row (of those whose name holds ROWS) the median of five interleaved trials. The rows `pread` and `mapping` sum the last field without this crate; the
//! mapping would die of a file cut short, and is here to see what safety costs.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use shoal_records::{Aggregate, Format, Function, OpenOptions, Pool, Query, Records, ScanOptions};

const SIZE: usize = 16;
const PARTITION: usize = 4 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: records_speed FILE [RECORDS]")?;
    let records: u64 = arguments.next().map_or(Ok(93_368_320), |text| text.parse())?;
    if !std::path::Path::new(&path).exists() {
        make(&path, records)?;
    }
    let file = File::open(&path)?;
    let length = file.metadata()?.len() as usize;
    let format = Format::from_struct("<QII", Some(&["ts", "id", "len"].map(String::from)))?;
    let table = Records::open(&[&path], format, OpenOptions::default())?;
    let pool = Pool::default();
    let two = pool.workers();
    let query = |aggregate, condition: Option<&str>| Query {
        aggregates: vec![aggregate],
        condition: condition.map(|text| text.parse().expect("a condition of this program")),
        ..Query::default()
    };
    let sum = || Aggregate::of(Function::Sum, "len");
    let scan = |condition: Option<&str>| {
        let condition = condition.map(|text| text.parse().expect("a condition of this program"));
        let options = ScanOptions { condition, ..ScanOptions::default() };
        let scan = table.scan(&options, &pool).expect("a scan");
        scan.map(|batch| batch.expect("a batch").num_rows()).sum::<usize>()
    };
    type Row<'a> = (String, Box<dyn FnMut() + 'a>);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for block in [64 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20] {
        for workers in [1, two] {
            let file = &file;
            rows.push((
                format!("pread {} KiB, {workers} workers", block >> 10),
                Box::new(move || pread(file, length, block, workers)),
            ));
        }
    }
    for workers in [1, two] {
        let file = &file;
        rows.push((format!("mapping, {workers} workers"), Box::new(move || mapping(file, length, workers, 0))));
        rows.push((
            format!("mapping, populated, {workers} workers"),
            Box::new(move || mapping(file, length, workers, libc::MAP_POPULATE)),
        ));
    }
    rows.push((
        "sum(len), 1 worker".into(),
        Box::new(|| drop(black_box(table.aggregate(&query(sum(), None), &Pool::new(Some(1))).expect("a sum")))),
    ));
    rows.push((
        "sum(len)".into(),
        Box::new(|| drop(black_box(table.aggregate(&query(sum(), None), &pool).expect("a sum")))),
    ));
    rows.push((
        "sum(len) where len > 100 and id != 7".into(),
        Box::new(|| {
            let query = query(sum(), Some("len > 100 and id != 7"));
            drop(black_box(table.aggregate(&query, &pool).expect("a sum")));
        }),
    ));
    rows.push((
        "sum(ts)".into(),
        Box::new(|| {
            let query = query(Aggregate::of(Function::Sum, "ts"), None);
            drop(black_box(table.aggregate(&query, &pool).expect("a sum")));
        }),
    ));
    rows.push((
        "sum(len) by id".into(),
        Box::new(|| drop(black_box(table.aggregate_by("id", &query(sum(), None), &pool).expect("groups")))),
    ));
    rows.push((
        "count, sum(len), mean(len) by id".into(),
        Box::new(|| {
            let aggregates = vec![Aggregate::count(), sum(), Aggregate::of(Function::Mean, "len")];
            let query = Query { aggregates, ..Query::default() };
            drop(black_box(table.aggregate_by("id", &query, &pool).expect("groups")));
        }),
    ));
    rows.push(("scan, 1 % (len < 100)".into(), Box::new(|| assert_ne!(scan(Some("len < 100")), 0))));
    rows.push(("scan, all columns".into(), Box::new(|| assert_eq!(scan(None), length / SIZE))));
    for ahead in [false, true] {
        let table = &table;
        rows.push((
            format!("blocks, ahead: {ahead}"),
            Box::new(move || {
                let mut blocks = table.blocks(None, ahead);
                while let Some(block) = blocks.next_block().expect("a block") {
                    black_box(block);
                }
            }),
        ));
    }
    if let Some(only) = arguments.next() {
        rows.retain(|row| row.0.contains(&only));
    }
    let mut seconds = vec![Vec::new(); rows.len()];
    for trial in 0..6 {
        for (row, seconds) in rows.iter_mut().zip(&mut seconds) {
            let begun = Instant::now();
            row.1();
            // The first trial warms the file and the memory.
            if trial > 0 {
                seconds.push(begun.elapsed().as_secs_f64());
            }
        }
    }
    for (row, mut seconds) in rows.into_iter().zip(seconds) {
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        println!("{:45} {:8.1} ms {:7.2} GB/s", row.0, median * 1e3, length as f64 / median / 1e9);
    }
    Ok(())
}

/// Ids of a million values and lengths below 10,000, as the workload has them.
fn make(path: &str, records: u64) -> std::io::Result<()> {
    let mut to = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = fastrand::Rng::with_seed(1);
    for at in 0..records {
        to.write_all(&(1_700_000_000_000 + at).to_le_bytes())?;
        to.write_all(&random.u32(0..1_000_000).to_le_bytes())?;
        to.write_all(&random.u32(0..10_000).to_le_bytes())?;
    }
    to.flush()
}

fn sum(bytes: &[u8]) -> u64 {
    let (records, _) = bytes.as_chunks::<SIZE>();
    records.iter().map(|record| u64::from(u32::from_le_bytes([record[12], record[13], record[14], record[15]]))).sum()
}

/// Runs over partitions on so many threads.
fn each_partition(length: usize, workers: usize, work: impl Fn(&mut Vec<u8>, usize, usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut memory = Vec::new();
                loop {
                    let from = next.fetch_add(PARTITION, Ordering::Relaxed);
                    if from >= length {
                        return;
                    }
                    work(&mut memory, from, PARTITION.min(length - from));
                }
            });
        }
    });
}

fn pread(file: &File, length: usize, block: usize, workers: usize) {
    each_partition(length, workers, |memory, from, partition| {
        memory.resize(block, 0);
        let mut total = 0;
        for at in (0..partition).step_by(block) {
            let now = block.min(partition - at);
            file.read_exact_at(&mut memory[..now], (from + at) as u64).expect("a file nobody cuts");
            total += sum(&memory[..now]);
        }
        black_box(total);
    });
}

fn mapping(file: &File, length: usize, workers: usize, flags: i32) {
    // SAFETY: a new mapping at a place of the kernel's choice.
    let place = unsafe {
        libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED | flags, file.as_raw_fd(), 0)
    };
    assert_ne!(place, libc::MAP_FAILED);
    // SAFETY: mapped for reading, and nobody cuts the file while this program runs.
    let bytes = unsafe { std::slice::from_raw_parts(place.cast::<u8>(), length) };
    each_partition(length, workers, |_, from, partition| {
        black_box(sum(&bytes[from..from + partition]));
    });
    // SAFETY: the mapping made above, which nothing refers to any more.
    unsafe { libc::munmap(place, length) };
}
