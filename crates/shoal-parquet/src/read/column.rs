//! Decodes rows of one column: whole pages where possible, and page by page where one of several is damaged.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use shoal_engine::Kind;

use super::fault::{Fault, Result, guarded};
use super::file::Chunks;
use super::footer::{Field, ParquetFile};

/// The rows of a part that could be read, or why not.
struct Part {
    end: u32,
    values: Result<ArrayRef>,
}

/// Decoded rows of a column. Usually one part; several where a page is damaged.
pub struct Decoded {
    start: u32,
    parts: Vec<Part>,
}

impl Decoded {
    /// Decodes these rows of a row group.
    pub fn new(parquet: &ParquetFile, group: usize, field: Field, rows: Range<u32>) -> Decoded {
        let start = rows.start;
        let whole = |values| Decoded { start, parts: vec![Part { end: rows.end, values }] };
        let pages = match parquet.pages(group, field) {
            Ok(pages) => pages,
            Err(fault) => return whole(Err(fault)),
        };
        let covering = pages.covering(&rows);
        match read(parquet, group, field, rows.clone()) {
            Err(fault) if covering.len() > 1 && !fault.is_general() && fault.kind != Kind::Changed => {
                let parts = covering.map(|page| {
                    let part = pages.rows_of(page);
                    let part = part.start.max(rows.start)..part.end.min(rows.end);
                    Part { end: part.end, values: read(parquet, group, field, part) }
                });
                Decoded { start, parts: parts.collect() }
            }
            values => whole(values),
        }
    }

    /// The value of a row within, as bytes; `None` if it is null.
    pub fn bytes(&self, row: u32) -> Result<Option<&[u8]>> {
        let (values, index) = self.find(row)?;
        let Some(values) = values.as_any().downcast_ref::<BinaryViewArray>() else { return Err(lost()) };
        Ok(values.is_valid(index).then(|| values.value(index)))
    }

    /// The same as a number.
    pub fn number(&self, row: u32) -> Result<Option<i64>> {
        let (values, index) = self.find(row)?;
        if !values.is_valid(index) {
            return Ok(None);
        }
        if let Some(values) = values.as_primitive_opt::<Int64Type>() {
            return Ok(Some(values.value(index)));
        }
        let values = values.as_primitive_opt::<Int32Type>().ok_or_else(lost)?;
        Ok(Some(values.value(index).into()))
    }

    fn find(&self, row: u32) -> Result<(&ArrayRef, usize)> {
        let part = self.parts.partition_point(|part| part.end <= row);
        let start = part.checked_sub(1).map_or(self.start, |before| self.parts[before].end);
        let values = self.parts.get(part).ok_or_else(lost)?.values.as_ref().map_err(Fault::clone)?;
        let index = row.checked_sub(start).ok_or_else(lost)? as usize;
        if index < values.len() { Ok((values, index)) } else { Err(lost()) }
    }
}

fn lost() -> Fault {
    Fault::new(Kind::Internal, "a row is outside what was decoded")
}

/// Decodes rows. The pages that have them must have exactly as many rows as the page index says: else the rows of one
/// column would be given to those of another.
fn read(parquet: &ParquetFile, group: usize, field: Field, rows: Range<u32>) -> Result<ArrayRef> {
    let read = guarded(|| {
        let column = parquet.column(field).ok_or_else(lost)?;
        let pages = parquet.pages(group, field)?;
        let chunk = parquet.metadata.row_group(group).column(column.leaf);
        let has_dictionary = pages.locations(0..1)[0].offset as u64 != chunk.byte_range().0;
        let covering = pages.covering(&rows);
        // With a dictionary, the library finds it before the first page.
        let first = if has_dictionary { 0 } else { covering.start };
        let locations = pages.locations(first..covering.end).to_vec();
        let chunk = match has_dictionary {
            true => chunk.clone(),
            false => chunk.clone().into_builder().set_data_page_offset(locations[0].offset).build()?,
        };
        let (begin, end) = (pages.rows_of(covering.start).start, pages.rows_of(covering.end - 1).end);
        let source = OneColumn { parquet, chunk, locations, end };
        let count = (end - begin) as usize;
        let skipped = RowSelector::skip((begin - pages.rows_of(first).start) as usize);
        let selection = has_dictionary.then(|| RowSelection::from(vec![skipped, RowSelector::select(count + 1)]));
        let levels = &column.levels;
        let mut reader = ParquetRecordBatchReader::try_new_with_row_groups(levels, &source, count, selection)?;
        let values = reader.next().transpose().map_err(ParquetError::from)?;
        let values = values.map(|batch| batch.column(0).clone()).filter(|values| values.len() == count);
        // It is asked for one row more than there should be.
        let has_more = matches!(reader.next(), Some(Ok(more)) if more.num_rows() > 0);
        match values {
            Some(values) if !has_more => Ok(values.slice((rows.start - begin) as usize, rows.len())),
            _ => Err(Fault::new(Kind::Archive, "damaged: a page does not have the rows that it should")),
        }
    });
    let read = match read {
        Err(fault) if fault.is_general() => return Err(fault),
        read => read,
    };
    parquet.file.unchanged()?; // a change explains any error, and makes what was read a mixture
    read.map_err(|fault| match fault.kind {
        Kind::Archive => fault.at(&format!("row group {group}, column \"{}\"", field.name())),
        _ => fault,
    })
}

/// Some pages of one column, as the library takes them.
struct OneColumn<'a> {
    parquet: &'a ParquetFile,
    chunk: ColumnChunkMetaData,
    locations: Vec<parquet::file::page_index::offset_index::PageLocation>,
    /// The row after the last page.
    end: u32,
}

impl RowGroups for OneColumn<'_> {
    fn num_rows(&self) -> usize {
        self.end as usize
    }

    fn column_chunks(&self, _column: usize) -> parquet::errors::Result<Box<dyn PageIterator>> {
        let chunks = Arc::new(Chunks::new(&self.parquet.file));
        let locations = Some(self.locations.clone());
        let pages = SerializedPageReader::new(chunks, &self.chunk, self.end as usize, locations)?;
        Ok(Box::new(OneReader(Some(Box::new(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::empty())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.parquet.metadata
    }
}

struct OneReader(Option<Box<dyn PageReader>>);

impl Iterator for OneReader {
    type Item = parquet::errors::Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneReader {}
