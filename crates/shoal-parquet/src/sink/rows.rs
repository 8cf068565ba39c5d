//! Objects as columns in memory: what a lane fills for one partition, and what a row group is encoded from.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, StringArray, TimestampNanosecondArray, new_null_array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, SchemaRef};
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
    name_begins: Vec<i32>,
    data: Vec<u8>,
    data_begins: Vec<i32>,
    /// Nanoseconds since 1970; empty while no row has a time.
    modified: Vec<Option<i64>>,
    /// Empty while no row has a tag.
    tags: Vec<Option<Box<str>>>,
    /// Bytes that these take.
    tag_bytes: usize,
}

impl Rows {
    pub fn with_capacity(capacity: Capacity) -> Rows {
        let Capacity { rows, names, data } = capacity;
        Rows {
            names: Vec::with_capacity(names.min(RESERVED_MAX)),
            name_begins: Vec::with_capacity(rows.min(RESERVED_MAX)),
            data: Vec::with_capacity(data.min(RESERVED_MAX)),
            data_begins: Vec::with_capacity(rows.min(RESERVED_MAX)),
            ..Rows::default()
        }
    }

    /// What these rows need.
    pub fn capacity(&self) -> Capacity {
        Capacity { rows: self.len(), names: self.names.len(), data: self.data.len() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.name_begins.len()
    }

    /// Bytes of names, contents and tags.
    pub fn bytes(&self) -> usize {
        self.names.len() + self.data.len() + self.tag_bytes
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
        self.name_begins.push(self.names.len() as i32);
        self.names.extend_from_slice(name);
        self.data_begins.push(self.data.len() as i32);
        self.data.extend_from_slice(data);
        set(&mut self.modified, row, meta.last_modified.and_then(nanoseconds));
        self.tag_bytes += meta.e_tag.as_ref().map_or(0, |tag| tag.len() + size_of::<Option<Box<str>>>());
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

/// The columns of some rows, in the order of the schema. Names and contents are not copied.
///
/// # Errors
/// If a name is not UTF-8.
pub(super) fn columns(rows: Rows, schema: &SchemaRef) -> Result<Vec<ArrayRef>, ArrowError> {
    let count = rows.len();
    let nulls = |column: usize| new_null_array(schema.field(column).data_type(), count);
    let names = StringArray::try_new(offsets(rows.name_begins, &rows.names), Buffer::from_vec(rows.names), None)?;
    let places = offsets(rows.data_begins, &rows.data);
    let sizes: Vec<i64> = places.lengths().map(|length| length as i64).collect();
    let data = BinaryArray::try_new(places, Buffer::from_vec(rows.data), None)?;
    let mut times = rows.modified;
    let modified: ArrayRef = if times.is_empty() {
        nulls(3)
    } else {
        times.resize(count, None);
        Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
    };
    let mut tags = rows.tags;
    let tags: ArrayRef = if tags.is_empty() {
        nulls(4)
    } else {
        tags.resize(count, None);
        Arc::new(StringArray::from_iter(tags))
    };
    Ok(vec![Arc::new(names), Arc::new(Int64Array::from(sizes)), Arc::new(data), modified, tags])
}

/// Where each value begins, and where the last one ends.
fn offsets(mut begins: Vec<i32>, bytes: &[u8]) -> OffsetBuffer<i32> {
    begins.push(bytes.len() as i32);
    OffsetBuffer::new(ScalarBuffer::from(begins))
}
