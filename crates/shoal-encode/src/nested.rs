//! Types within types: a field with parts of its type replaced.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};

/// The field with a type in which `other` replaces what it has a replacement for, at any depth.
pub(crate) fn replaced(field: &FieldRef, other: &dyn Fn(&DataType) -> Option<DataType>) -> FieldRef {
    match replaced_type(field.data_type(), other) {
        same if same == *field.data_type() => Arc::clone(field),
        new => Arc::new(field.as_ref().clone().with_data_type(new)),
    }
}

/// The same of a type.
pub(crate) fn replaced_type(kind: &DataType, other: &dyn Fn(&DataType) -> Option<DataType>) -> DataType {
    use DataType as T;
    if let Some(new) = other(kind) {
        return replaced_type(&new, other);
    }
    let part = |field: &FieldRef| replaced(field, other);
    match kind {
        T::List(item) => T::List(part(item)),
        T::LargeList(item) => T::LargeList(part(item)),
        T::ListView(item) => T::ListView(part(item)),
        T::LargeListView(item) => T::LargeListView(part(item)),
        T::FixedSizeList(item, size) => T::FixedSizeList(part(item), *size),
        T::Map(entries, sorted) => T::Map(part(entries), *sorted),
        T::Struct(fields) => T::Struct(fields.iter().map(part).collect()),
        T::Dictionary(keys, values) => T::Dictionary(keys.clone(), Box::new(replaced_type(values, other))),
        same => same.clone(),
    }
}
