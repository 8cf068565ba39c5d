//! Row groups: how columns are encoded, and a file to which row groups and footers are appended.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::page_index::PageIndexBuilder;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, SchemaDescPtr};
use xxhash_rust::xxh3::Xxh3;

use super::rows::{Rows, columns};
use crate::schema::{CHECKSUMS, FOOTER_CHECKSUM, MAGIC, footer_digits, schema};

const PAGE_BYTES: usize = 64 << 10;
/// Rows given to the encoder at once: it looks at the size of a page only in between.
const PAGE_STEP: usize = 256;

/// What all row groups of a run share.
pub(super) struct Format {
    schema: SchemaRef,
    descriptor: SchemaDescPtr,
    packed: Settings,
    plain: Settings,
}

/// How a row group is written.
struct Settings {
    properties: WriterPropertiesPtr,
    columns: ArrowRowGroupWriterFactory,
}

impl Format {
    pub fn new() -> Result<Format> {
        let descriptor = Arc::new(ArrowSchemaConverter::new().convert(&schema())?);
        let fields = schema();
        let settings = |compression| -> Result<Settings> {
            let properties = Arc::new(properties(compression));
            let file = SerializedFileWriter::new(io::sink(), descriptor.root_schema_ptr(), properties.clone())?;
            let columns = ArrowRowGroupWriterFactory::new(&file, fields.clone());
            Ok(Settings { properties, columns })
        };
        let packed = settings(Compression::ZSTD(ZstdLevel::try_new(1)?))?;
        let plain = settings(Compression::UNCOMPRESSED)?;
        Ok(Format { schema: fields, descriptor, packed, plain })
    }
}

fn properties(compression: Compression) -> WriterProperties {
    let (name, size, data) = (ColumnPath::from("name"), ColumnPath::from("size"), ColumnPath::from("data"));
    WriterProperties::builder()
        .set_created_by(concat!("shoal ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_write_batch_size(PAGE_STEP)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_column_encoding(name, Encoding::DELTA_BYTE_ARRAY)
        .set_column_dictionary_enabled(size.clone(), true)
        .set_column_statistics_enabled(data.clone(), EnabledStatistics::None)
        .set_column_encoding(data.clone(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
        .set_column_compression(data, compression)
        .build()
}

/// What is known of a row group that was written.
#[derive(Debug)]
struct Written {
    group: RowGroupMetaData,
    columns: Vec<Option<ColumnIndexMetaData>>,
    offsets: Vec<Option<OffsetIndexMetaData>>,
    checksum: u64,
}

/// A file that is being written. It has a complete footer after each [`Growing::footer`], and more row groups can follow:
/// bytes between row groups mean nothing to a reader.
pub(super) struct Growing {
    out: TrackedWrite<Hashed>,
    groups: Vec<Written>,
    rows: i64,
}

/// Hashes what it writes.
struct Hashed {
    file: File,
    hash: Xxh3,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Keeps what is written after the first bytes.
struct Tail {
    skip: usize,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Write for Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = bytes.len().min(self.skip);
        self.skip -= skipped;
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[skipped..]);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Growing {
    pub fn new(file: File) -> Result<Growing> {
        let mut out = TrackedWrite::new(Hashed { file, hash: Xxh3::new() });
        out.write_all(MAGIC)?;
        out.flush()?;
        out.inner_mut().hash.reset();
        Ok(Growing { out, groups: Vec::new(), rows: 0 })
    }

    /// Bytes written so far.
    pub fn length(&self) -> u64 {
        self.out.bytes_written() as u64
    }

    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    pub fn file(&self) -> &File {
        &self.out.inner().file
    }

    /// Appends a row group of these parts. `packed`: the contents are compressed. `between` is called often meanwhile.
    pub fn append(&mut self, format: &Format, parts: Vec<Rows>, packed: bool, between: impl Fn()) -> Result<()> {
        let parts = parts.into_iter().map(|rows| Ok(columns(rows, &format.schema)?));
        self.append_columns(format, parts, packed, between)
    }

    /// The same for columns.
    pub fn append_columns(
        &mut self,
        format: &Format,
        parts: impl Iterator<Item = Result<Vec<ArrayRef>>>,
        packed: bool,
        between: impl Fn(),
    ) -> Result<()> {
        let Settings { properties, columns: factory } = if packed { &format.packed } else { &format.plain };
        let at = self.groups.len();
        let mut writers = factory.create_column_writers(at)?;
        for columns in parts {
            let columns = columns?;
            for ((field, values), writer) in format.schema.fields().iter().zip(&columns).zip(&mut writers) {
                for leaf in compute_leaves(field, values)? {
                    writer.write(&leaf)?;
                }
                between();
            }
        }
        let chunks = writers.into_iter().map(|writer| writer.close()).collect::<Result<Vec<_>>>()?;
        self.out.flush()?;
        self.out.inner_mut().hash.reset();
        let closed = Arc::new(Mutex::new(None));
        let keep = closed.clone();
        let mut group = SerializedRowGroupWriter::new(
            format.descriptor.clone(),
            properties.clone(),
            &mut self.out,
            at as i32,
            Some(Box::new(move |_out, group, _blooms, columns, offsets| {
                *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some((group, columns, offsets));
                Ok(())
            })),
        );
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        self.out.flush()?;
        let checksum = self.out.inner().hash.digest();
        self.out.inner_mut().hash.reset(); // for what is behind it
        let taken = closed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (group, columns, offsets) = taken.ok_or_else(|| {
            parquet::errors::ParquetError::General("a row group was closed without its metadata".into())
        })?;
        self.rows += group.num_rows();
        self.groups.push(Written { group, columns, offsets, checksum });
        Ok(())
    }

    /// Appends a footer for all row groups so far, without the index of pages: the file is complete with this length.
    pub fn footer(&mut self, format: &Format) -> Result<u64> {
        let metadata = self.metadata(format).build();
        let mut footer = Vec::new();
        ParquetMetaDataWriter::new(&mut footer, &metadata).finish()?;
        self.write_footer(footer)
    }

    /// Writes a footer with its checksum, and sees that it is written: the writer of metadata drops its buffer without a look
    /// at errors.
    fn write_footer(&mut self, mut footer: Vec<u8>) -> Result<u64> {
        let digits = footer_digits(&footer)
            .ok_or_else(|| parquet::errors::ParquetError::General("a footer has no place for its checksum".into()))?;
        let mut hash = self.out.inner().hash.clone();
        hash.update(&footer[..digits.start]);
        hash.update(&footer[digits.end..]);
        footer[digits].copy_from_slice(format!("{:016x}", hash.digest()).as_bytes());
        self.out.write_all(&footer)?;
        self.out.flush()?;
        Ok(self.length())
    }

    /// Appends the last footer, with the index of pages.
    pub fn finish(mut self, format: &Format) -> Result<(File, u64)> {
        let metadata = self.metadata(format);
        let mut pages = PageIndexBuilder::new(self.groups.len(), format.schema.fields().len());
        for (at, group) in self.groups.iter_mut().enumerate() {
            for (column, (values, offsets)) in
                std::mem::take(&mut group.columns).into_iter().zip(std::mem::take(&mut group.offsets)).enumerate()
            {
                if let Some(values) = values {
                    pages.put_column_index(values, at, column);
                }
                if let Some(offsets) = offsets {
                    pages.put_offset_index(offsets, at, column);
                }
            }
        }
        let metadata = metadata.set_page_index(Some(Arc::new(pages.build()))).build();
        // The places of the page index are counted from the beginning of the file.
        let tail = Arc::new(Mutex::new(Vec::new()));
        let mut out = TrackedWrite::new(Tail { skip: self.out.bytes_written(), bytes: tail.clone() });
        let zeros = [0; PAGE_BYTES];
        while out.bytes_written() < self.out.bytes_written() {
            out.write_all(&zeros[..(self.out.bytes_written() - out.bytes_written()).min(PAGE_BYTES)])?;
        }
        ParquetMetaDataWriter::new_with_tracked(out, &metadata).finish()?;
        let tail = std::mem::take(&mut *tail.lock().unwrap_or_else(PoisonError::into_inner));
        let length = self.write_footer(tail)?;
        Ok((self.out.inner().file.try_clone()?, length))
    }

    fn metadata(&self, format: &Format) -> ParquetMetaDataBuilder {
        let checksums: Vec<_> = self.groups.iter().map(|group| format!("{:016x}", group.checksum)).collect();
        let file = FileMetaData::new(
            1,
            self.rows,
            Some(concat!("shoal ", env!("CARGO_PKG_VERSION")).to_owned()),
            Some(vec![
                KeyValue::new(CHECKSUMS.to_owned(), checksums.join(" ")),
                KeyValue::new(FOOTER_CHECKSUM.to_owned(), "0".repeat(16)),
            ]),
            format.descriptor.clone(),
            None,
        );
        let groups = self.groups.iter().map(|group| group.group.clone()).collect();
        ParquetMetaDataBuilder::new(file).set_row_groups(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::footer::ParquetFile;
    use arrow_array::{Array, Int64Array};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use shoal_engine::ObjectMeta;

    fn rows(from: usize, count: usize) -> Vec<Rows> {
        (0..count / 100)
            .map(|part| {
                let mut rows = Rows::default();
                for at in 0..100 {
                    let name = format!("object-{:09}", from + part * 100 + at);
                    rows.push(name.as_bytes(), &ObjectMeta::default(), name.repeat(6).as_bytes());
                }
                rows
            })
            .collect()
    }

    #[test]
    fn a_file_is_complete_after_each_footer_and_more_can_follow() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let format = Format::new().unwrap();
        let mut growing = Growing::new(File::create(&path).unwrap()).unwrap();
        let mut cuts = Vec::new();
        for group in 0..3 {
            growing.append(&format, rows(group * 1000, 1000), group != 1, || ()).unwrap();
            cuts.push(growing.footer(&format).unwrap());
        }
        let (_, length) = growing.finish(&format).unwrap();
        cuts.push(length);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len() as u64, length);
        for (at, cut) in cuts.iter().enumerate() {
            let part = directory.path().join("b");
            std::fs::write(&part, &whole[..*cut as usize]).unwrap();
            let part = ParquetFile::open(part.as_os_str().as_encoded_bytes()).unwrap(); // its checksum is right
            assert_eq!(part.checksums.map(|sums| sums.len()), Some((at + 1).min(3)));
            let cut = bytes::Bytes::copy_from_slice(&whole[..*cut as usize]);
            let reader = ParquetRecordBatchReaderBuilder::try_new(cut).unwrap().build().unwrap();
            let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
            assert_eq!(rows, (at + 1).min(3) * 1000);
        }
    }

    #[test]
    fn parts_with_and_without_times_and_tags_make_one_row_group() {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(7);
        let with = ObjectMeta { last_modified: Some(time), e_tag: Some("tag".into()), ..ObjectMeta::default() };
        let without = ObjectMeta::default();
        let parts = [[false, false], [false, true], [true, false]];
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let format = Format::new().unwrap();
        let mut growing = Growing::new(File::create(&path).unwrap()).unwrap();
        let rows = parts.map(|part| {
            let mut rows = Rows::default();
            part.iter().for_each(|&has| rows.push(b"name", if has { &with } else { &without }, b"data"));
            rows
        });
        growing.append(&format, rows.into(), true, || ()).unwrap();
        growing.finish(&format).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap().build().unwrap();
        let [batch] = reader.collect::<Result<Vec<_>, _>>().unwrap().try_into().unwrap();
        for column in ["last_modified", "e_tag"] {
            let column = batch.column_by_name(column).unwrap();
            let valid: Vec<bool> = (0..column.len()).map(|row| column.is_valid(row)).collect();
            assert_eq!(valid, parts.concat());
        }
        assert_eq!(batch.column_by_name("size").unwrap().to_data(), Int64Array::from(vec![4; 6]).to_data());
    }
}
