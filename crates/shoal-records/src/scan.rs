//! Records as Arrow batches, those that are wanted.
//!
//! Here: [`Records::scan`], whose batches come in the order of the records, made by all workers, and each
//! at most two batches ahead of the consumer. Not here: conditions (`expression/`), columns (`arrow.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use crate::arrow::Builders;
use crate::column::Rows;
use crate::error::{Error, Result};
use crate::expression::{Bound, Evaluator, Expression};
use crate::file::Records;
use crate::pool::{Ordered, Pool};
use crate::read::{Partitions, Reader};

/// Rows for which a batch of chosen records has room from the start; more are rarely chosen of one partition.
const ROOM: usize = 4096;

/// What a scan gives.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// Only records for which this holds.
    pub condition: Option<Expression>,
    /// These fields, in this order; without it all.
    pub columns: Option<Vec<String>>,
    /// At most so many records.
    pub limit: Option<u64>,
    /// A batch for each so many records of a file, before any are left out; without it, for each four megabytes.
    pub batch: Option<u64>,
}

/// The batches of a scan, in the order of the records.
///
/// Dropping it ends the scan. An error ends it too; it is an [`ArrowError::ExternalError`] around an [`Error`].
pub struct Scan {
    batches: Ordered<Worker, RecordBatch>,
    schema: SchemaRef,
    /// How many more records may come.
    left: u64,
}

struct Worker {
    reader: Reader,
    evaluator: Option<Evaluator>,
}

impl Records {
    /// Reads records to Arrow batches. Batches without rows are left out.
    ///
    /// # Errors
    ///
    /// Expression: the condition does not fit the format. Invalid: there is no such column, or a batch of 0 records.
    pub fn scan(&self, options: &ScanOptions, pool: &Pool) -> Result<Scan> {
        if options.batch == Some(0) {
            return Err(Error::invalid("a batch needs at least one record"));
        }
        let format = self.format();
        let columns: Vec<usize> = match &options.columns {
            None => (0..format.fields().len()).collect(),
            Some(names) => names.iter().map(|name| format.index_of(name)).collect::<Result<_>>()?,
        };
        if let Some(twice) = (1..columns.len()).find(|at| columns[..*at].contains(&columns[*at])) {
            let name = &format.fields()[columns[twice]].name;
            return Err(Error::invalid(format!("column {name:?} is requested twice")));
        }
        let schema = format.schema_of(&columns);
        let bound =
            options.condition.as_ref().map(|condition| Bound::new(condition, format)).transpose()?.map(Arc::new);
        let limit = options.limit.unwrap_or(u64::MAX);
        let partitions = Partitions::of(self, options.batch);
        let count = if limit == 0 { 0 } else { partitions.count() };
        let batch_schema = schema.clone();
        let state = move || Worker { reader: Reader::new(), evaluator: bound.clone().map(Evaluator::new) };
        let batches = Ordered::new(pool, count, state, move |worker: &mut Worker, at| {
            let partition = partitions.get(at);
            let format = partitions.records().format();
            let most = partition.records.min(limit) as usize;
            let room = if worker.evaluator.is_some() { most.min(ROOM) } else { most };
            let mut builders = Builders::new(format, &columns, batch_schema.clone(), room);
            let size = format.size();
            let evaluator = &mut worker.evaluator;
            worker.reader.strips(&partitions, partition, |strip| {
                let rows = match evaluator {
                    Some(evaluator) => evaluator.choose(strip),
                    None => Rows::All(strip.len() / size),
                };
                let wanted = most - builders.rows();
                match rows {
                    Rows::All(rows) if rows > wanted => builders.append(&strip[..wanted * size], Rows::All(wanted)),
                    Rows::Chosen(places) if places.len() > wanted => {
                        builders.append(strip, Rows::Chosen(&places[..wanted]));
                    }
                    rows => builders.append(strip, rows),
                }
                Ok(builders.rows() < most)
            })?;
            builders.finish()
        });
        Ok(Scan { batches, schema, left: limit })
    }
}

impl Scan {
    /// Returns the next batch, or `Some(Ok(None))` if it was not ready in time. With one worker, that is after the records
    /// of one batch were read. `None` after the last batch, or after an error. For callers that poll something in between.
    pub fn next_within(&mut self, wait: Duration) -> Option<Result<Option<RecordBatch>>> {
        let until = Instant::now() + wait;
        self.next_until(Some(until))
    }

    fn next_until(&mut self, until: Option<Instant>) -> Option<Result<Option<RecordBatch>>> {
        while self.left > 0 {
            let batch = match self.batches.next(until)? {
                None => return Some(Ok(None)),
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(batch)) => batch,
            };
            if batch.num_rows() == 0 {
                if until.is_some_and(|until| Instant::now() >= until) {
                    return Some(Ok(None));
                }
                continue;
            }
            let rows = (batch.num_rows() as u64).min(self.left);
            self.left -= rows;
            return Some(Ok(Some(batch.slice(0, rows as usize))));
        }
        None
    }
}

impl Iterator for Scan {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Without a moment until which to wait there is always a batch.
        self.next_until(None)?.map_err(ArrowError::from).transpose()
    }
}

impl RecordBatchReader for Scan {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
