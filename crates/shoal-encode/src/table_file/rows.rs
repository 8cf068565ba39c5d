//! Files that are runs of rows one after the other: each worker encodes one run.

use std::io::{Seek, Write};
use std::sync::{Mutex, PoisonError};

use arrow_array::{RecordBatch, RecordBatchReader};

use super::output::Output;
use super::work_queue::{Pieces, in_order};
use super::{TableOptions, Watch, row_size};
use crate::record::Record;
use crate::{Error, Format, csv, json_lines, npy};

/// Most rows of a run, and most bytes of them in memory: a run and what it becomes stay in a processor's own cache.
const RUN_ROWS: usize = 1 << 16;
const RUN_BYTES: usize = 1 << 20;

/// Writes CSV or JSON lines.
pub(super) fn write_lines<W: Write>(
    reader: &mut dyn RecordBatchReader,
    format: Format,
    options: &TableOptions,
    out: &mut Output<'_, W>,
    watch: &mut Watch<'_>,
) -> Result<(), Error> {
    let mut first = Vec::new();
    let is_csv = format == Format::Csv;
    if is_csv {
        csv::begin(&reader.schema(), &options.text, &mut first)?;
    } else {
        json_lines::refuse_twins(&reader.schema())?;
    }
    let encode = |batch: &RecordBatch, out: &mut Vec<u8>| match is_csv {
        true => csv::push_batch(batch, &mut String::new(), out),
        false => json_lines::push(batch, out),
    };
    let last = write_runs(reader, first, options, out, watch, encode)?;
    let last = match last.strip_suffix(b"\n") {
        Some(bare) if !options.text.final_newline => bare,
        _ => &last,
    };
    put(out, last)?;
    watch.look()
}

/// Writes `.npy`: an array of one dimension whose elements have a field for each column.
pub(super) fn write_elements<W: Write + Seek>(
    reader: &mut dyn RecordBatchReader,
    options: &TableOptions,
    out: &mut Output<'_, W>,
    watch: &mut Watch<'_>,
) -> Result<(), Error> {
    let record = Record::new(&reader.schema())?;
    // How many elements there are is known at the end only, and the header is as long whatever their number.
    let header = |rows: u64| {
        let rows = usize::try_from(rows).map_err(|_| Error::invalid("more rows than an array can have"))?;
        npy::header(record.descr(), &[rows])
    };
    let encode = |batch: &RecordBatch, out: &mut Vec<u8>| record.push(batch, out);
    let last = write_runs(reader, header(0)?, options, out, watch, encode)?;
    put(out, &last)?;
    let written = watch.written();
    out.overwrite(written.bytes, &header(written.rows)?).map_err(|cause| Error::writing(&cause))?;
    watch.look()
}

/// Writes `first` and then the pieces of all rows, except the last one, which it returns.
fn write_runs<W: Write>(
    reader: &mut dyn RecordBatchReader,
    first: Vec<u8>,
    options: &TableOptions,
    out: &mut Output<'_, W>,
    watch: &mut Watch<'_>,
    encode: impl Fn(&RecordBatch, &mut Vec<u8>) -> Result<(), Error> + Sync,
) -> Result<Vec<u8>, Error> {
    let spare = Mutex::new(Vec::<Vec<u8>>::new());
    let mut runs = Runs { reader, rest: None, last: first, out, watch, spare: &spare };
    in_order(options.workers(), &mut runs, |batch: RecordBatch| {
        let piece = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut piece = piece.unwrap_or_default();
        encode(&batch, &mut piece)?;
        Ok((piece, batch.num_rows()))
    })?;
    Ok(runs.last)
}

fn put(out: &mut impl Write, bytes: &[u8]) -> Result<(), Error> {
    out.write_all(bytes).map_err(|cause| Error::writing(&cause))
}

struct Runs<'a, 'w, 'o, W> {
    reader: &'a mut dyn RecordBatchReader,
    /// What is left of a batch.
    rest: Option<RecordBatch>,
    /// The last piece, written when the next one comes: the end of the file may be another.
    last: Vec<u8>,
    out: &'a mut Output<'o, W>,
    watch: &'a mut Watch<'w>,
    /// Memory of pieces that were written, to be used again.
    spare: &'a Mutex<Vec<Vec<u8>>>,
}

impl<W: Write> Pieces for Runs<'_, '_, '_, W> {
    type Job = RecordBatch;
    type Piece = (Vec<u8>, usize);

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        let batch = match self.rest.take() {
            Some(batch) => batch,
            None => match self.reader.next() {
                Some(batch) => batch.map_err(Error::reading)?,
                None => return Ok(None),
            },
        };
        let most = (RUN_BYTES / row_size(&batch).max(1)).clamp(1, RUN_ROWS);
        if batch.num_rows() <= most {
            return Ok(Some(batch));
        }
        self.rest = Some(batch.slice(most, batch.num_rows() - most));
        Ok(Some(batch.slice(0, most)))
    }

    fn write(&mut self, (piece, rows): (Vec<u8>, usize)) -> Result<(), Error> {
        if !piece.is_empty() {
            put(self.out, &self.last)?;
            let mut written = std::mem::replace(&mut self.last, piece);
            written.clear();
            self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(written);
        }
        self.watch.add(rows)
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.watch.look()
    }
}
