//! Which pages a column of a row group has: from the page index, if it is there and can be right, else from the headers of
//! the pages.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parquet::column::page::PageReader;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::serialized_reader::SerializedPageReader;
use shoal_engine::Kind;

use super::fault::{Fault, Result};
use super::file::{Chunks, DataFile};

/// Most rows of a page. A page of a few bytes can claim two billion, which would need 32 GB of memory.
const ROWS_MAX: u32 = 4 << 20;

/// The pages of a column of a row group. There is a page for each row.
#[derive(Debug, Default)]
pub struct Pages {
    locations: Vec<PageLocation>,
    rows: u32,
}

impl Pages {
    /// The pages of a column with `rows` rows, of which the page index says `indexed`.
    pub fn new(
        file: &Arc<DataFile>,
        column: &ColumnChunkMetaData,
        rows: u32,
        indexed: Option<&[PageLocation]>,
    ) -> Result<Pages> {
        let (start, length) = column.byte_range();
        let end = start.checked_add(length).filter(|end| *end <= file.facts.size);
        let end = end.ok_or_else(|| Fault::new(Kind::Archive, "a column is outside the file"))?;
        if rows == 0 {
            return Ok(Pages::default());
        }
        let indexed = indexed.filter(|locations| can_be(locations, start..end, rows));
        let locations = match indexed {
            Some(locations) => locations.to_vec(),
            None => of_headers(file, column, rows)?,
        };
        let pages = Pages { locations, rows };
        match (0..pages.len()).all(|page| pages.rows_of(page).len() <= ROWS_MAX as usize) {
            true => Ok(pages),
            false => Err(Fault::new(Kind::Unsupported, format!("a page has more than {ROWS_MAX} rows"))),
        }
    }

    /// How many pages.
    pub fn len(&self) -> usize {
        self.locations.len()
    }

    /// The rows of a page.
    pub fn rows_of(&self, page: usize) -> Range<u32> {
        let end = self.locations.get(page + 1).map_or(self.rows, |next| next.first_row_index as u32);
        self.locations[page].first_row_index as u32..end
    }

    /// Bytes of a page in the file.
    pub fn size_of(&self, page: usize) -> u64 {
        self.locations[page].compressed_page_size as u64
    }

    /// The pages that have these rows.
    pub fn covering(&self, rows: &Range<u32>) -> Range<usize> {
        let after = |row: u32| self.locations.partition_point(|page| (page.first_row_index as u32) < row);
        let first = self.locations.partition_point(|page| page.first_row_index as u32 <= rows.start);
        first.saturating_sub(1)..after(rows.end)
    }

    pub fn locations(&self, pages: Range<usize>) -> &[PageLocation] {
        &self.locations[pages]
    }
}

/// Whether a page index can be that of this column: another program may have written it.
fn can_be(locations: &[PageLocation], bytes: Range<u64>, rows: u32) -> bool {
    let (mut at, mut row) = (None, None); // a dictionary may be before the first page
    for page in locations {
        let (Ok(offset), Ok(size)) = (u64::try_from(page.offset), u64::try_from(page.compressed_page_size)) else {
            return false;
        };
        let first = page.first_row_index;
        let follows = row.map_or(first == 0, |before| first > before) && first < i64::from(rows);
        if !follows || at.is_some_and(|at| offset != at) || offset < bytes.start {
            return false;
        }
        (at, row) = (offset.checked_add(size), Some(first));
    }
    at == Some(bytes.end)
}

/// Reads the header of each page.
fn of_headers(file: &Arc<DataFile>, column: &ColumnChunkMetaData, rows: u32) -> Result<Vec<PageLocation>> {
    let chunks = Arc::new(Chunks::new(file));
    let (start, length) = column.byte_range();
    let mut reader = SerializedPageReader::new(chunks.clone(), column, rows as usize, None)?;
    let mut locations: Vec<PageLocation> = Vec::new();
    let mut row = 0_u32;
    loop {
        let page = reader.peek_next_page()?;
        let offset = match &page {
            Some(_) => chunks.header_at.load(Relaxed),
            None => start + length,
        };
        if let Some(last) = locations.last_mut().filter(|last| last.compressed_page_size == 0) {
            let size = i32::try_from(offset - last.offset as u64);
            last.compressed_page_size = size.map_err(|_| Fault::new(Kind::Archive, "a page is too long"))?;
        }
        let Some(page) = page else { break };
        if !page.is_dict {
            let count = page.num_rows.or(page.num_levels).unwrap_or(0);
            if count > 0 {
                let first_row_index = i64::from(row);
                locations.push(PageLocation { offset: offset as i64, compressed_page_size: 0, first_row_index });
            }
            row = u32::try_from(count).ok().and_then(|count| row.checked_add(count)).unwrap_or(u32::MAX);
        }
        reader.skip_next_page()?;
    }
    match row == rows {
        true => Ok(locations),
        false => Err(Fault::new(Kind::Archive, format!("its pages have {row} rows, but the row group has {rows}"))),
    }
}
