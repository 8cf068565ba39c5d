//! Runs from memory into a dataset of small files, and what the dataset has then.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use shoal_engine::TransferOptions;
use shoal_engine::options::Workers;
use shoal_engine::sink::Sink;
use shoal_engine::source::Source;
use shoal_engine::source::memory::MemorySource;
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_parquet::sink::{ParquetOptions, ParquetSink};

use super::Objects;

pub fn options() -> TransferOptions {
    TransferOptions { workers: Workers::Fixed(4), ..TransferOptions::default() }
}

pub fn small_files() -> ParquetOptions {
    let (group_rows, commit_every) = (250, Duration::ZERO);
    ParquetOptions { shard_size: 20_000, group_rows, commit_every, ..ParquetOptions::default() }
}

pub fn sink(path: &Path, options: &TransferOptions) -> Arc<dyn Sink> {
    Arc::new(ParquetSink::new(path, small_files(), options).unwrap())
}

pub fn run(source: impl Source + 'static, sink: Arc<dyn Sink>, options: TransferOptions) -> Outcome {
    Transfer::new(Arc::new(source), sink, options).in_batches_of(300).run(&mut |_| ControlFlow::Continue(()))
}

pub fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "parquet")).collect();
    files.sort();
    files
}

/// The rows of a dataset; panics on a name that is there twice.
pub fn rows(directory: &Path) -> Objects {
    let mut found = Objects::new();
    for path in files(directory) {
        for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let (names, data) = (batch.column(0).as_string::<i32>(), batch.column(2).as_binary::<i32>());
            let sizes = batch.column(1).as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                assert_eq!(sizes.value(row), data.value(row).len() as i64);
                let name = names.value(row).as_bytes().to_vec();
                assert!(found.insert(name, data.value(row).to_vec()).is_none(), "{} is there twice", names.value(row));
            }
        }
    }
    found
}

pub fn leftovers(directory: &Path) -> usize {
    std::fs::read_dir(directory.join(".shoal/tmp")).unwrap().count()
}

pub fn objects(count: usize, size: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(count as u64);
    let mut content = |n: usize| (0..n % size).map(|_| random.u8(..)).collect();
    (0..count).map(|n| (format!("o-{n:06}").into_bytes(), content(n * 7919))).collect()
}

pub fn source(objects: &[(Vec<u8>, Vec<u8>)], page: usize) -> MemorySource {
    MemorySource::new(objects.chunks(page).map(<[_]>::to_vec).collect(), 100)
}

pub fn expected(objects: &[(Vec<u8>, Vec<u8>)]) -> Objects {
    objects.iter().cloned().collect()
}

pub fn ended(outcome: &Outcome) {
    assert!(outcome.error.is_none() && outcome.report.complete, "{:?}", outcome.error);
}
