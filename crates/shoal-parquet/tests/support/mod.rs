//! Datasets for tests, written with the library as shoal writes them, or as others do.
#![allow(dead_code)] // each test uses some of it

pub mod runs;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;
use shoal_engine::options::{Durability, TransferOptions, Workers};
use shoal_engine::sink::Sink;
use shoal_engine::sink::memory::MemorySink;
use shoal_engine::source::Source;
use shoal_engine::transfer::{Outcome, Transfer};
use shoal_parquet::schema::{CHECKSUMS, file_name, schema};
use shoal_parquet::source::ParquetSource;

pub type Objects = BTreeMap<Vec<u8>, Vec<u8>>;

/// How a file is written.
#[derive(Clone, Debug)]
pub struct Layout {
    pub group_rows: usize,
    pub page_bytes: usize,
    pub compression: Compression,
    pub dictionary: bool,
    /// The encodings of names and contents, instead of plain.
    pub delta: bool,
    pub version: WriterVersion,
    pub has_index: bool,
    pub has_checksums: bool,
    /// Checksums of other bytes, as of a file that another program has rewritten.
    pub stale: bool,
}

impl Default for Layout {
    /// As shoal writes.
    fn default() -> Layout {
        Layout {
            group_rows: 300,
            page_bytes: 2 << 10,
            compression: Compression::ZSTD(ZstdLevel::default()),
            dictionary: false,
            delta: true,
            version: WriterVersion::PARQUET_1_0,
            has_index: true,
            has_checksums: true,
            stale: false,
        }
    }
}

impl Layout {
    /// As many other programs write.
    pub fn of_others() -> Layout {
        let (compression, dictionary) = (Compression::SNAPPY, true);
        let (has_index, has_checksums, delta) = (false, false, false);
        Layout { compression, dictionary, delta, has_index, has_checksums, ..Layout::default() }
    }

    fn properties(&self) -> WriterPropertiesBuilder {
        let statistics = if self.has_index { EnabledStatistics::Page } else { EnabledStatistics::None };
        let created_by = if self.has_checksums { "shoal of a test" } else { "another program" };
        let properties = WriterProperties::builder()
            .set_created_by(created_by.to_owned())
            .set_dictionary_enabled(self.dictionary)
            .set_statistics_enabled(statistics)
            .set_offset_index_disabled(!self.has_index)
            .set_data_page_size_limit(self.page_bytes)
            .set_dictionary_page_size_limit(8 << 10)
            .set_write_batch_size(16)
            .set_max_row_group_row_count(Some(self.group_rows))
            .set_writer_version(self.version)
            .set_compression(self.compression);
        match self.delta {
            false => properties,
            true => properties
                .set_column_encoding(ColumnPath::from("name"), Encoding::DELTA_BYTE_ARRAY)
                .set_column_encoding(ColumnPath::from("data"), Encoding::DELTA_LENGTH_BYTE_ARRAY),
        }
    }
}

/// The columns of these objects. Every third has no time, every fourth no tag.
pub fn batch<'a>(objects: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> RecordBatch {
    let rows: Vec<_> = objects.into_iter().collect();
    let names = rows.iter().map(|(name, _)| std::str::from_utf8(name).unwrap());
    let time = |row: usize| (!row.is_multiple_of(3)).then_some(1_700_000_000_123_456_789 + row as i64);
    let tag = |row: usize| (!row.is_multiple_of(4)).then(|| format!("\"tag-{row}\""));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(names)),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, data)| data.len() as i64))),
        Arc::new(BinaryArray::from_iter_values(rows.iter().map(|(_, data)| data))),
        Arc::new(TimestampNanosecondArray::from_iter((0..rows.len()).map(time)).with_timezone("UTC")),
        Arc::new((0..rows.len()).map(tag).collect::<StringArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The bytes of a file with these rows.
pub fn file(batch: &RecordBatch, layout: &Layout) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(layout.properties().build())).unwrap();
    writer.write(batch).unwrap();
    writer.flush().unwrap();
    writer.sync().unwrap(); // for the bytes below
    if layout.stale {
        writer.append_key_value_metadata(KeyValue::new(CHECKSUMS.to_owned(), "0123456789abcdef".to_owned()));
    }
    if layout.has_checksums {
        let ranges: Vec<_> = writer
            .flushed_row_groups()
            .iter()
            .map(|group| {
                let (first, last) = (group.columns()[0].byte_range(), group.columns().last().unwrap().byte_range());
                first.0 as usize..(last.0 + last.1) as usize
            })
            .collect();
        let sums: Vec<_> = ranges
            .into_iter()
            .map(|range| format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&writer.inner()[range])))
            .collect();
        writer.append_key_value_metadata(KeyValue::new(CHECKSUMS.to_owned(), sums.join(" ")));
    }
    writer.into_inner().unwrap()
}

/// Writes objects as files of `rows` rows each.
pub fn write(directory: &Path, objects: &Objects, rows: usize, layout: &Layout) -> Vec<PathBuf> {
    let all: Vec<_> = objects.iter().map(|(name, data)| (&name[..], &data[..])).collect();
    let mut paths = Vec::new();
    for (number, rows) in all.chunks(rows).enumerate() {
        let path = directory.join(file_name(None, number as u64));
        std::fs::write(&path, file(&batch(rows.iter().copied()), layout)).unwrap();
        paths.push(path);
    }
    paths
}

/// Objects of many sizes, around the borders of what is passed on whole.
pub fn objects(count: usize) -> Objects {
    let mut objects = Objects::new();
    for size in [0, 1, 12, 13, 99, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 300 << 10, 1 << 20] {
        let data = (0..size).map(|n| (n % 251) as u8).collect();
        objects.insert(format!("sized/{size}").into_bytes(), data);
    }
    for number in 0..count {
        let name = format!("{}/deep/er/odd %2e name?{number:06}&#x=+\u{fc}", number % 7);
        objects.insert(name.into_bytes(), format!("{number} ").repeat(number % 40).into_bytes());
    }
    objects
}

pub fn source(directory: &Path) -> Arc<dyn Source> {
    Arc::new(ParquetSource::new(directory).unwrap())
}

pub fn options(workers: usize) -> TransferOptions {
    let (workers, durability) = (Workers::Fixed(workers), Durability::None);
    TransferOptions { workers, durability, ..TransferOptions::default() }
}

pub fn run_into(directory: &Path, sink: Arc<dyn Sink>, options: TransferOptions) -> Outcome {
    let transfer = Transfer::new(source(directory), sink, options);
    let outcome = transfer.run(&mut |_| ControlFlow::Continue(()));
    assert!(outcome.report.run.balanced(), "{:?}", outcome.report.run);
    outcome
}

/// Reads a dataset into memory. Returns what arrived, and the failures: name, kind and reason.
pub fn read(directory: &Path) -> (Outcome, Objects) {
    let sink = MemorySink::new();
    let outcome = run_into(directory, Arc::new(sink.clone()), options(3));
    (outcome, sink.objects())
}
