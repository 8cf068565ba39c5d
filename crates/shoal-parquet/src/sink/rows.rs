//! Objects as columns in memory: what a lane fills for one partition, and what a row group is encoded from.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow_array::builder::{BinaryViewBuilder, StringBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, Int64Array, TimestampNanosecondArray};
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use shoal_engine::ObjectMeta;

/// Most bytes of a column that are reserved before they are needed.
const RESERVED_MAX: usize = 1 << 20;

/// How much memory rows take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capacity {
    rows: usize,
    names: usize,
    data: usize,
}

/// Rows of one partition, or of one lane's part of it.
#[derive(Debug, Default)]
pub(super) struct Rows {
    names: Vec<u8>,
    name_ends: Vec<u32>,
    data: Vec<u8>,
    data_ends: Vec<u64>,
    /// Nanoseconds since 1970; empty while no row has a time.
    modified: Vec<Option<i64>>,
    /// Empty while no row has a tag.
    tags: Vec<Option<Box<str>>>,
}

impl Rows {
    pub fn with_capacity(capacity: Capacity) -> Rows {
        let Capacity { rows, names, data } = capacity;
        Rows {
            names: Vec::with_capacity(names.min(RESERVED_MAX)),
            name_ends: Vec::with_capacity(rows.min(RESERVED_MAX)),
            data: Vec::with_capacity(data.min(RESERVED_MAX)),
            data_ends: Vec::with_capacity(rows.min(RESERVED_MAX)),
            ..Rows::default()
        }
    }

    /// What these rows need.
    pub fn capacity(&self) -> Capacity {
        Capacity { rows: self.len(), names: self.names.len(), data: self.data.len() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.name_ends.len()
    }

    /// Bytes of names and contents.
    pub fn bytes(&self) -> usize {
        self.names.len() + self.data.len()
    }

    /// At most so many bytes of contents, from the middle.
    pub fn sample(&self, most: usize) -> &[u8] {
        let length = self.data.len().min(most);
        let begin = (self.data.len() - length) / 2;
        &self.data[begin..begin + length]
    }

    /// Appends a row.
    pub fn push(&mut self, name: &[u8], meta: &ObjectMeta, data: &[u8]) {
        let row = self.len();
        self.names.extend_from_slice(name);
        self.name_ends.push(self.names.len() as u32);
        self.data.extend_from_slice(data);
        self.data_ends.push(self.data.len() as u64);
        set(&mut self.modified, row, meta.last_modified.and_then(nanoseconds));
        set(&mut self.tags, row, meta.e_tag.clone());
    }
}

/// Sets the value of the row that is being closed. The column stays empty until a row has a value.
fn set<T>(column: &mut Vec<Option<T>>, row: usize, value: Option<T>) {
    if value.is_some() || !column.is_empty() {
        column.resize_with(row, || None);
        column.push(value);
    }
}

fn nanoseconds(time: std::time::SystemTime) -> Option<i64> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).ok(),
        Err(before) => i64::try_from(before.duration().as_nanos()).ok().map(|before| -before),
    }
}

/// The columns of a row group, in the order of the schema. The contents are not copied.
///
/// # Errors
/// If a name is not UTF-8.
pub(super) fn columns(parts: Vec<Rows>) -> Result<Vec<ArrayRef>, ArrowError> {
    let rows = parts.iter().map(Rows::len).sum();
    let mut names = StringViewBuilder::with_capacity(rows);
    let mut sizes = Vec::with_capacity(rows);
    let mut data = BinaryViewBuilder::with_capacity(rows);
    let mut modified: Vec<Option<i64>> = Vec::new();
    let mut tags = StringBuilder::new();
    for part in parts {
        let count = part.len();
        let name_block = names.append_block(Buffer::from_vec(part.names));
        let mut begin = 0;
        for end in &part.name_ends {
            names.try_append_view(name_block, begin, end - begin)?;
            begin = *end;
        }
        // A view has 32 bits for the place in its block; a row group holds far less.
        let block = data.append_block(Buffer::from_vec(part.data));
        let mut begin = 0;
        for end in &part.data_ends {
            let length = (end - begin) as u32;
            data.try_append_view(block, begin as u32, length)?;
            sizes.push(i64::from(length));
            begin = *end;
        }
        let mut times = part.modified;
        times.resize(count, None);
        modified.extend(times);
        let mut of_part = part.tags.into_iter();
        (0..count).for_each(|_| tags.append_option(of_part.next().flatten()));
    }
    Ok(vec![
        Arc::new(names.finish()),
        Arc::new(Int64Array::from(sizes)),
        Arc::new(data.finish()),
        Arc::new(TimestampNanosecondArray::from(modified).with_timezone("UTC")),
        Arc::new(tags.finish()),
    ])
}
