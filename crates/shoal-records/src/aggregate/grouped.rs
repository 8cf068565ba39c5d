//! What grouping gives: keys in order, and a column for each aggregate.

use std::sync::Arc;

use arrow_array::BooleanArray;
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array, make_array,
};
use arrow_schema::{ArrowError, Field as ArrowField, Schema};

use super::groups::{Groups, integer};
use super::{Output, Plan, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Field, Kind};

/// Digits of a sum that 64 bits do not hold: the most that Arrow's decimals have.
const DIGITS: u8 = 38;

/// Groups in the order of their keys, with a value for each aggregate.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouped {
    key: Field,
    /// As bits, the sign extended.
    keys: Vec<u64>,
    names: Vec<String>,
    columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq)]
enum Column {
    Small(Vec<i64>),
    Integers(Vec<i128>),
    Floats(Vec<f64>),
}

impl Grouped {
    pub(super) fn new(groups: Groups, plan: &Plan, key: Field) -> Result<Self> {
        let (slots, keys) = groups.in_order()?;
        let columns = plan.outputs.iter().map(|output| column(&groups, *output, &slots)).collect();
        Ok(Self { key, keys, names: plan.names.clone(), columns })
    }

    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if there are no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = i128> {
        self.keys.iter().map(|key| integer(&self.key, *key))
    }

    /// The aggregates' names, as `sum(len)`.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// An aggregate of a group, by their places.
    #[must_use]
    pub fn value(&self, column: usize, group: usize) -> Value {
        match &self.columns[column] {
            Column::Small(values) => Value::Integer(values[group].into()),
            Column::Integers(values) => Value::Integer(values[group]),
            Column::Floats(values) => Value::Float(values[group]),
        }
    }

    /// The same as an Arrow batch: the key in its own type, then a column for each aggregate: integers as unsigned or
    /// signed ones of 64 bits, or as decimals where these are too small; floats as doubles.
    ///
    /// # Errors
    ///
    /// Invalid: a sum has more than 38 digits, or a field has an aggregate's name.
    pub fn to_batch(&self) -> Result<RecordBatch> {
        let failed = |error: ArrowError| Error::new(ErrorKind::Internal, format!("making a batch failed: {error}"));
        let mut arrays: Vec<ArrayRef> = vec![keys(&self.key, &self.keys).map_err(failed)?];
        let mut fields = vec![ArrowField::new(&self.key.name, self.key.data_type(), false)];
        for (name, column) in self.names.iter().zip(&self.columns) {
            if *name == self.key.name {
                return Err(Error::invalid(format!("two columns are called {name:?}")));
            }
            let array = match column {
                Column::Floats(values) => Arc::new(Float64Array::from(values.clone())) as ArrayRef,
                Column::Small(values) => Arc::new(Int64Array::from(values.clone())),
                Column::Integers(values) => integers(name, values)?,
            };
            fields.push(ArrowField::new(name, array.data_type().clone(), false));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(failed)
    }
}

fn column(groups: &Groups, output: Output, slots: &[u32]) -> Column {
    if let Output::Is(measure) = output
        && let Some(values) = groups.small(measure, slots)
    {
        return Column::Small(values);
    }
    let values = slots.iter().map(|at| match output {
        Output::Is(measure) => groups.value(measure, *at),
        Output::Mean { sum, count } => match (groups.value(sum, *at), groups.value(count, *at)) {
            (Value::Integer(sum), Value::Integer(count)) => Value::Float(sum as f64 / count as f64),
            (Value::Float(sum), Value::Integer(count)) => Value::Float(sum / count as f64),
            (other, _) => other,
        },
    });
    // All values of one aggregate are of one type.
    let mut column = None;
    for value in values {
        match (value, column.get_or_insert_with(|| empty(value, slots.len()))) {
            (Value::Integer(value), Column::Integers(values)) => values.push(value),
            (Value::Float(value), Column::Floats(values)) => values.push(value),
            _ => {}
        }
    }
    column.unwrap_or(Column::Integers(Vec::new()))
}

fn empty(value: Value, room: usize) -> Column {
    match value {
        Value::Float(_) => Column::Floats(Vec::with_capacity(room)),
        _ => Column::Integers(Vec::with_capacity(room)),
    }
}

/// Integers in the narrowest of three types that holds all.
fn integers(name: &str, values: &[i128]) -> Result<ArrayRef> {
    let fit = |least: i128, greatest: i128| values.iter().all(|value| (least..=greatest).contains(value));
    if fit(i64::MIN.into(), i64::MAX.into()) {
        return Ok(Arc::new(Int64Array::from_iter_values(values.iter().map(|value| *value as i64))));
    }
    if fit(0, u64::MAX.into()) {
        return Ok(Arc::new(UInt64Array::from_iter_values(values.iter().map(|value| *value as u64))));
    }
    let decimals = Decimal128Array::from(values.to_vec()).with_precision_and_scale(DIGITS, 0);
    match decimals {
        Ok(array) if fit(-(10_i128.pow(DIGITS.into()) - 1), 10_i128.pow(DIGITS.into()) - 1) => Ok(Arc::new(array)),
        _ => Err(Error::invalid(format!("{name}: a sum has more than {DIGITS} digits, and no Arrow type holds it"))),
    }
}

/// The keys in their field's type.
fn keys(field: &Field, keys: &[u64]) -> std::result::Result<ArrayRef, ArrowError> {
    macro_rules! of {
        ($array:ty, $type:ty) => {
            Arc::new(<$array>::from_iter_values(keys.iter().map(|key| *key as $type))) as ArrayRef
        };
    }
    let array = match field.kind {
        Kind::Bool => Arc::new(BooleanArray::from_iter(keys.iter().map(|key| Some(*key != 0)))) as ArrayRef,
        Kind::U8 => of!(UInt8Array, u8),
        Kind::U16 => of!(UInt16Array, u16),
        Kind::U32 => of!(UInt32Array, u32),
        Kind::U64 => of!(UInt64Array, u64),
        Kind::I8 => of!(Int8Array, i8),
        Kind::I16 => of!(Int16Array, i16),
        Kind::I32 => of!(Int32Array, i32),
        _ => of!(Int64Array, i64),
    };
    match &field.logical {
        None => Ok(array),
        Some(logical) => Ok(make_array(array.to_data().into_builder().data_type(logical.clone()).build()?)),
    }
}
