//! Parquet: each worker encodes one column of one row group.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{FieldRef, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::work_queue::{Pieces, in_order};
use super::{TableOptions, Watch, row_size};
use crate::parquet_types::{column_of, schema_of};
use crate::{Error, table};

/// Most bytes of a row group, as they are in memory: rows can be large.
const ROW_GROUP_BYTES: usize = 128 << 20;

/// Writes a Parquet file.
pub(super) fn write<W: Write + Send>(
    reader: &mut dyn RecordBatchReader,
    options: &TableOptions,
    out: W,
    watch: &mut Watch<'_>,
) -> Result<(), Error> {
    let schema = schema_of(&reader.schema())?;
    let writer = ArrowWriter::try_new(out, schema.clone(), Some(table::properties(options))).map_err(failed)?;
    let (writer, columns) = writer.into_serialized_writer().map_err(failed)?;
    let mut leaves = vec![0; schema.fields().len()];
    let descriptor = writer.schema_descr();
    (0..descriptor.num_columns()).for_each(|leaf| leaves[descriptor.get_column_root_idx(leaf)] += 1);
    let mut groups = Groups {
        reader,
        schema,
        leaves,
        rows: options.row_group_rows,
        columns,
        rest: None,
        jobs: VecDeque::new(),
        group: 0,
        chunks: Vec::new(),
        encoded: 0,
        writer,
        watch,
    };
    in_order(options.workers(), &mut groups, encode)?;
    groups.writer.close().map_err(failed)?;
    groups.watch.look()
}

fn failed(cause: ParquetError) -> Error {
    Error::arrow("writing the table as .parquet", &cause)
}

/// One column of one row group.
struct Job {
    field: FieldRef,
    /// Its values in each of the group's batches.
    values: Vec<ArrayRef>,
    /// One for each leaf: a column of structs has many.
    writers: Vec<ArrowColumnWriter>,
    rows: usize,
}

/// The leaves of one column of one row group, and the group's rows.
type Column = (Vec<ArrowColumnChunk>, usize);

fn encode(job: Job) -> Result<Column, Error> {
    let Job { field, values, mut writers, rows } = job;
    for values in values {
        let values = column_of(&values, &field)?;
        let leaves = compute_leaves(&field, &values).map_err(failed)?;
        for (leaf, writer) in leaves.iter().zip(&mut writers) {
            writer.write(leaf).map_err(failed)?;
        }
    }
    let chunks = writers.into_iter().map(|writer| writer.close().map_err(failed)).collect::<Result<_, _>>()?;
    Ok((chunks, rows))
}

struct Groups<'a, 'w, W: Write> {
    reader: &'a mut dyn RecordBatchReader,
    schema: SchemaRef,
    /// How many columns of the file each column of the table becomes.
    leaves: Vec<usize>,
    /// Most rows of a group.
    rows: usize,
    columns: ArrowRowGroupWriterFactory,
    /// What did not fit into the last group.
    rest: Option<RecordBatch>,
    /// The columns of a group that are still to be given out.
    jobs: VecDeque<Job>,
    /// How many groups were given out.
    group: usize,
    /// The columns, of which there are so many, of the group that is written next.
    chunks: Vec<ArrowColumnChunk>,
    encoded: usize,
    writer: SerializedFileWriter<W>,
    watch: &'a mut Watch<'w>,
}

impl<W: Write + Send> Groups<'_, '_, W> {
    /// Takes batches for one row group; none at the end.
    fn gather(&mut self) -> Result<Vec<RecordBatch>, Error> {
        let (mut batches, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < self.rows && bytes < ROW_GROUP_BYTES {
            let batch = match self.rest.take() {
                Some(batch) => batch,
                None => match self.reader.next() {
                    Some(batch) => batch.map_err(Error::reading)?,
                    None => break,
                },
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let size = row_size(&batch);
            let fitting = ((ROW_GROUP_BYTES - bytes) / size.max(1)).max(1);
            let now = batch.num_rows().min(self.rows - rows).min(fitting);
            if now < batch.num_rows() {
                self.rest = Some(batch.slice(now, batch.num_rows() - now));
            }
            rows += now;
            bytes += now * size;
            batches.push(batch.slice(0, now));
        }
        Ok(batches)
    }

    /// Makes a job of each column of a group.
    fn give_out(&mut self, batches: &[RecordBatch]) -> Result<(), Error> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let mut writers = self.columns.create_column_writers(self.group).map_err(failed)?.into_iter();
        self.group += 1;
        for (at, field) in self.schema.fields().iter().enumerate() {
            let writers = writers.by_ref().take(self.leaves[at]).collect();
            let values = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
            self.jobs.push_back(Job { field: Arc::clone(field), values, writers, rows });
        }
        Ok(())
    }
}

impl<W: Write + Send> Pieces for Groups<'_, '_, W> {
    type Job = Job;
    type Piece = Column;

    fn next(&mut self) -> Result<Option<Job>, Error> {
        while self.jobs.is_empty() {
            let batches = self.gather()?;
            if batches.is_empty() {
                return Ok(None);
            }
            self.give_out(&batches)?;
        }
        Ok(self.jobs.pop_front())
    }

    fn write(&mut self, (chunks, rows): Column) -> Result<(), Error> {
        self.chunks.extend(chunks);
        self.encoded += 1;
        if self.encoded < self.schema.fields().len() {
            return self.watch.look();
        }
        self.encoded = 0;
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for chunk in self.chunks.drain(..) {
            chunk.append_to_row_group(&mut group).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.watch.add(rows)
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.watch.look()
    }
}
