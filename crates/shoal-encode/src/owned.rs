//! A copy of rows of which nothing is shared with the memory that they came from.
//!
//! The exporter of rows through Arrow's C interface may write to that memory later, such as a table over a NumPy array.
//! Arrow's own copy still shares dictionaries and long texts of views; here they are copied too. Of a slice, only its rows
//! are copied.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType};

/// Copies rows, so that whatever becomes of the memory they lie in, the copy stays as it is.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
///
/// let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef)])?;
/// assert_eq!(shoal_encode::copied(&batch.slice(1, 2))?, batch.slice(1, 2));
/// # Ok::<(), arrow_schema::ArrowError>(())
/// ```
///
/// # Errors
///
/// The rows break a rule of Arrow's: text that is not UTF-8, a place outside of what it points into.
pub fn copied(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(|column| {
        let data = column.to_data();
        data.validate_full()?;
        Ok(make_array(copy(&data)?))
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &rows)
}

fn copy(data: &ArrayData) -> Result<ArrayData, ArrowError> {
    let mut copy = MutableArrayData::new(vec![data], false, data.len());
    copy.try_extend(0, 0, data.len())?;
    detached(copy.freeze())
}

/// Copies what [`MutableArrayData`] still shares.
fn detached(data: ArrayData) -> Result<ArrayData, ArrowError> {
    let each: fn(ArrayData) -> Result<ArrayData, ArrowError> = match data.data_type() {
        DataType::Utf8View => return Ok(make_array(data).as_string_view().gc().into_data()),
        DataType::BinaryView => return Ok(make_array(data).as_binary_view().gc().into_data()),
        DataType::Dictionary(..) => |dictionary| copy(&dictionary),
        _ if data.child_data().is_empty() => return Ok(data),
        _ => detached,
    };
    let children = data.child_data().iter().cloned().map(each).collect::<Result<Vec<_>, _>>()?;
    data.into_builder().child_data(children).build()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, ListBuilder, StringDictionaryBuilder};
    use arrow_array::types::Int8Type;
    use arrow_array::{
        BinaryViewArray, BooleanArray, FixedSizeListArray, Float64Array, Int64Array, LargeStringArray, NullArray,
        RunArray, StringArray, StringViewArray, StructArray,
    };
    use arrow_schema::{Field, Schema};

    use super::*;

    const LONG: &str = "longer than the twelve bytes that a view has room for";

    /// Columns of every kind of layout.
    fn columns() -> Vec<ArrayRef> {
        let dictionary = || {
            let mut builder = StringDictionaryBuilder::<Int8Type>::new();
            [Some("a"), None, Some("b"), Some("a")].into_iter().for_each(|text| builder.append_option(text));
            Arc::new(builder.finish()) as ArrayRef
        };
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("short"), None, Some(LONG), Some(LONG)]));
        let mut lists = ListBuilder::new(Int32Builder::new());
        for items in [&[1, 2][..], &[], &[3], &[4, 5, 6]] {
            items.iter().for_each(|&item| lists.values().append_value(item));
            lists.append(items.len() != 1);
        }
        let inner = |name: &str, column: &ArrayRef| Arc::new(Field::new(name, column.data_type().clone(), true));
        let nested = [("d", dictionary()), ("v", views.clone())];
        let pairs = nested.iter().map(|(name, column)| (inner(name, column), column.clone())).collect::<Vec<_>>();
        let doubled = arrow_select::concat::concat(&[&*views, &*views]).unwrap();
        vec![
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)])),
            Arc::new(Float64Array::from(vec![0.5, f64::NAN, -0.0, 1e300])),
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)])),
            Arc::new(StringArray::from(vec![Some("x"), None, Some(""), Some(LONG)])),
            Arc::new(LargeStringArray::from(vec!["x", "y", LONG, ""])),
            Arc::new(BinaryViewArray::from(vec![Some(&b"short"[..]), None, Some(LONG.as_bytes()), Some(b"")])),
            Arc::new(NullArray::new(4)),
            Arc::new(FixedSizeListArray::new(inner("item", &views), 2, doubled, None)),
            Arc::new(
                RunArray::try_new(&arrow_array::Int32Array::from(vec![1, 4]), &StringArray::from(vec!["a", "b"]))
                    .unwrap(),
            ),
            Arc::new(StructArray::from(pairs)),
            Arc::new(lists.finish()),
            dictionary(),
            views,
        ]
    }

    fn batch() -> RecordBatch {
        let named = columns().into_iter().enumerate();
        RecordBatch::try_from_iter_with_nullable(named.map(|(at, column)| (at.to_string(), column, true))).unwrap()
    }

    /// The addresses of all buffers with bytes in them.
    fn addresses(data: &ArrayData, found: &mut HashSet<usize>) {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        let buffers = data.buffers().iter().chain(nulls).filter(|buffer| !buffer.is_empty());
        found.extend(buffers.map(|buffer| buffer.as_ptr() as usize));
        data.child_data().iter().for_each(|child| addresses(child, found));
    }

    fn all(batch: &RecordBatch) -> HashSet<usize> {
        let mut found = HashSet::new();
        batch.columns().iter().for_each(|column| addresses(&column.to_data(), &mut found));
        found
    }

    #[test]
    fn a_copy_has_the_same_rows_and_shares_no_memory_whatever_the_types() {
        let batch = batch();
        for part in [batch.clone(), batch.slice(1, 2), batch.slice(3, 1), batch.slice(0, 0)] {
            let copy = copied(&part).unwrap();
            assert_eq!(copy, part);
            assert!(all(&copy).is_disjoint(&all(&part)), "{part:?}");
        }
    }

    #[test]
    fn of_a_slice_only_its_rows_are_copied() {
        let long: ArrayRef = Arc::new(StringViewArray::from(vec![LONG; 100_000]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 100_000]));
        let batch = RecordBatch::try_from_iter([("text", long), ("number", numbers)]).unwrap();
        let copy = copied(&batch.slice(99_990, 10)).unwrap();
        assert!(copy.get_array_memory_size() < 10_000, "{}", copy.get_array_memory_size());
    }

    #[test]
    fn rows_without_columns_keep_their_number() {
        let rows = RecordBatchOptions::new().with_row_count(Some(3));
        let none = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &rows).unwrap();
        assert_eq!(copied(&none).unwrap().num_rows(), 3);
    }
}
